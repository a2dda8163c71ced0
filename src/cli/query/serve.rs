//! dedup-query serve: a history for many clients at once.

use super::{
    super::{
        args::{CommonArgs, InputArgs, MORE, ReadArgs, RunArgs, TokenArgs, parse_size},
        progress::say,
    },
    PROGRAM,
    history::{AskArgs, StoreArgs},
};
use crate::{
    base::error::Problem,
    history::{
        self,
        backend::{self, BackendSource, ProblemReporter, ServiceAddress},
        service::{ServiceOptions, StopPipe, serve},
    },
    text::{scheme::PrintScheme, stream::Form},
};
use anyhow::Context;
use clap::Args;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    low_level::pipe,
};
use std::{path::PathBuf, process::ExitCode, sync::Arc};

#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Directory of the history; it is created if it does not exist
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "upstream",
        conflicts_with = "upstream"
    )]
    history: Option<PathBuf>,
    /// Where to listen, until SIGTERM: unix:PATH or tcp:HOST:PORT
    #[arg(long, value_name = "ADDR")]
    lines: ServiceAddress,
    #[command(flatten)]
    ask: AskArgs,
    /// Serve the histories of other servers; once for each of them
    #[arg(long, value_name = "ADDR")]
    upstream: Vec<ServiceAddress>,
    /// Let other machines connect; there are no passwords
    #[arg(long, help_heading = MORE)]
    allow_remote: bool,
    /// Serve at most N clients at once [default: 1024]
    #[arg(long, value_name = "N", help_heading = MORE, default_value = "1024", hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_clients: u32,
    /// Memory for long lines and waiting answers of all clients [default: 1G]
    #[arg(long, value_name = "SIZE", help_heading = MORE, default_value = "1G", hide_default_value = true, value_parser = parse_size)]
    client_memory: u64,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

impl ServeArgs {
    /// Serves until a signal.
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        let stop = StopPipe::new().context("a pipe")?;
        for signal in [SIGTERM, SIGINT] {
            pipe::register(signal, stop.writer.try_clone().context("a pipe")?)
                .context("a signal handler")?;
        }
        let wanted = self.ask.wanted();
        let settings = self
            .run_args()
            .settings(Form::Ndjson, 64 << 20, self.tokens.is_dna());
        let options = ServiceOptions {
            address: self.lines.clone(),
            allow_remote: self.allow_remote,
            max_clients: self.max_clients as usize,
            client_bytes: usize::try_from(self.client_memory).unwrap_or(usize::MAX),
            reading: settings.corpus,
            threads: settings.limits.threads,
            add: !self.ask.no_add,
            limits: wanted,
        };
        let scheme = self.tokens.tokenizer().map(|tokenizer| PrintScheme {
            tokens: tokenizer.scheme(),
        });
        let tell = report_to_stderr(self.common.quiet);
        let answering = backend::open(&self.served(options.threads), scheme, wanted, &tell)?;
        let ready = |address: &ServiceAddress, entries: u64| {
            say(&format!(
                "{PROGRAM}: listening on {address}, {entries} entries"
            ));
        };
        serve(answering, &options, stop, ready)?;
        Ok(ExitCode::SUCCESS)
    }

    fn served(&self, threads: usize) -> BackendSource {
        match &self.history {
            Some(directory) => {
                let options = history::StoreOptions {
                    threads,
                    serves: true,
                    ..history::StoreOptions::default()
                };
                self.store.of_directory(directory, self.ask.no_add, options)
            }
            None => BackendSource::Upstreams(self.upstream.clone()),
        }
    }

    fn run_args(&self) -> RunArgs {
        RunArgs {
            input: InputArgs {
                paths: Vec::new(),
                read: self.read.clone(),
            },
            common: self.common.clone(),
        }
    }
}

/// Writes problems to stderr.
pub fn report_to_stderr(is_quiet: bool) -> ProblemReporter {
    Arc::new(move |problem: &Problem| {
        if !is_quiet {
            say(&format!("{PROGRAM}: {problem}"));
        }
    })
}

/// The section of the manual on the service.
pub const SERVICE: &[&str] = &[
    "dedup-query serve --history DIR --lines ADDR serves a history to many clients at once, on unix:PATH or tcp:HOST:PORT; with port 0 \
     the system chooses one. When it is ready it says so on stderr: dedup-query: listening on tcp:127.0.0.1:41234, 12345 entries. A \
     client sends lines and gets a line for each, in order: documents, tokens or prints as anywhere else, answered as in a stream. A \
     client may send a whole stream: its header, its end and blank lines get no answer. A line that cannot be used is answered \
     {\"error\":\"line 7: …\"} in its place, and the connection stays open; a line of more than 64 MiB ends it. An id has at most 64 \
     KiB. A client that closes its sending side still gets all its answers.",
    "To try it: dedup-query serve --history seen --min-similarity 94% --lines unix:seen.sock & and then printf \
     '{\"id\":\"a\",\"text\":\"some words\"}\\n' | nc -N -U seen.sock; or socat - UNIX-CONNECT:seen.sock.",
    "The service adds each document or print, unless it has the field add with the value false, or the service runs with --no-add. If a \
     document should have been added and was not, the answer has added with the value false. The fields min_similarity and top restrict \
     the answer further than the service does: a similarity from --min-similarity to 1, as 0.97 or \"97%\", and a number from 1 to \
     --top. Any other value of these three fields is an error that names the field; other fields are ignored. A client that did not get \
     its answer may ask again: the same id with the same print is the same document, gets the same answer, and is not stored twice. \
     {\"remove\":\"ID\"}, alone in a line, removes all entries with the id and is answered {\"removed\":n}. {\"hello\":1} is answered \
     with hello, scheme, buckets, entries, min_similarity and top. A document without an id gets the id -:LINE.",
    "Each request sees every document that was answered before it, to any client. Requests that wait are answered together, and with \
     --sync-every each they wait for the disk once. A client may send many requests before it reads answers; with 1024 unanswered ones \
     the service stops reading from it until it reads. So a client that does not read, or does nothing, blocks only itself. \
     --max-clients limits the number of clients; one more gets a line that says so. --client-memory limits the memory for long lines \
     and waiting answers of all clients: each has 256 KiB of its own, and beyond that the service does not read from a client while \
     there is no room; a longer line that finds no room for 2 seconds ends the connection, with a line that says so. On TCP a client \
     that vanished is disconnected after 90 seconds.",
    "A Unix socket belongs to the user: its mode is 0600. The service replaces a socket that a dead process left, but not one on which \
     another process listens. On TCP it accepts only addresses of this machine, unless --allow-remote is given: everyone who can \
     connect can ask, add and remove.",
    "SIGTERM and SIGINT end the service: it accepts no more clients, reads nothing more, answers everything that it has read (clients \
     have 5 seconds to read their answers), syncs all added documents, and exits with 0. It leaves files that it was just writing to \
     the next start. After a kill the history has every document that was answered; --sync-every says what holds if the machine \
     crashes. If a file of the history cannot be written, the service reports it once on stderr and tries again, as long as there is \
     room in memory; if the journal cannot be written, it answers requests with the error, and ends with status 2.",
];
/// The section of the manual on several servers.
pub const FRONT: &[&str] = &[
    "Several servers can share a history. Each keeps the prints of some cardinalities: the number of bits that are set, from 0 to 256, \
     which is about 130 for most documents and hardly ever less than 105 or more than 155. --buckets A..B says which, both included: \
     for three servers of about the same size 0..126, 127..133 and 134..256. With --upstream, once for each server, dedup-query asks \
     them as if they were one history, for a stream or, with serve, for clients.",
    "The front sends each print to the server that keeps its cardinality, to be added, and to all servers that may have similar prints; \
     it returns the best of their answers, exactly as one history would. Among equals it returns the one of the lower buckets, as it \
     does not know which came first. All servers must have the same scheme and the same --min-similarity, their --top must be at least \
     that of the front, and no two may keep the same cardinality. At the start the front names cardinalities that no server keeps; it \
     does not add documents with these.",
    "A server that is lost, or does not answer within 2 seconds, is left out until it is back; the front tries to reach it in the \
     background, first after 50 milliseconds, later every 2 seconds. Answers that the server might have changed name it in missing, a \
     list, and have added with the value false if it would have kept the document; it may have stored the document before it was lost. \
     A server that is missing at the start is treated the same way, if at least one other is there. A server that only reads (--no-add) \
     is named in missing when something is to be removed.",
];
