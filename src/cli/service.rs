//! dedup-query --listen and --upstream: the arguments.

use super::{args::parse_size, progress::say};
use crate::{
    base::error::Problem,
    history::{
        backend::{self, BackendSource, CardinalityRange, ProblemReporter, ServiceAddress},
        service::{ServiceOptions, StopPipe, serve},
    },
    text::{corpus, scheme::PrintScheme},
};
use anyhow::Context;
use clap::Args;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    low_level::pipe,
};
use std::sync::Arc;

#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Service")]
pub struct ServiceArgs {
    /// Answer many clients at once: listen on unix:PATH or tcp:HOST:PORT, until SIGTERM. See SERVICE in the manual
    #[arg(long, value_name = "ADDRESS", requires = "online", conflicts_with_all = ["index", "paths", "files_from", "only_new", "remove", "remove_from"])]
    pub listen: Option<ServiceAddress>,
    /// Let other machines connect; there are no passwords
    #[arg(long, requires = "listen")]
    pub allow_remote: bool,
    /// Serve at most N clients at once
    #[arg(long, value_name = "N", requires = "listen", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_clients: u32,
    /// Let long lines and waiting answers of all clients together take SIZE of memory
    #[arg(long, value_name = "SIZE", requires = "listen", default_value = "1G", value_parser = parse_size)]
    pub client_memory: u64,
    /// Keep only prints with A to B bits set, both included: a part of a history over several machines
    #[arg(long, value_name = "A..B", requires = "history")]
    pub buckets: Option<CardinalityRange>,
    /// Instead of a history here, ask a server that was started with --listen and --buckets; once for each of them
    #[arg(long, value_name = "ADDRESS", group = "online")]
    pub upstream: Vec<ServiceAddress>,
}

/// What is asked for, whoever answers.
pub struct Asked {
    pub of: BackendSource,
    pub scheme: Option<PrintScheme>,
    pub wanted: crate::history::MatchLimits,
    pub add: bool,
}

impl ServiceArgs {
    /// Serves until a signal.
    pub fn serve(
        &self,
        address: &ServiceAddress,
        asked: Asked,
        (reading, threads): (corpus::Options, usize),
        (tool, is_quiet): (&str, bool),
    ) -> Result<(), anyhow::Error> {
        let stop = StopPipe::new().context("a pipe")?;
        for signal in [SIGTERM, SIGINT] {
            pipe::register(signal, stop.writer.try_clone().context("a pipe")?)
                .context("a handler of signals")?;
        }
        let options = ServiceOptions {
            address: address.clone(),
            allow_remote: self.allow_remote,
            max_clients: self.max_clients as usize,
            client_bytes: usize::try_from(self.client_memory).unwrap_or(usize::MAX),
            reading,
            threads,
            add: asked.add,
            limits: asked.wanted,
        };
        let answering =
            backend::open(&asked.of, asked.scheme, asked.wanted, &tell(tool, is_quiet))?;
        let ready = |address: &ServiceAddress, entries: u64| {
            say(&format!(
                "{tool}: listening on {address}, {entries} entries"
            ))
        };
        Ok(serve(answering, &options, stop, ready)?)
    }
}

/// Says what happens on stderr.
pub fn tell(tool: &str, is_quiet: bool) -> ProblemReporter {
    let tool = tool.to_owned();
    Arc::new(move |problem: &Problem| {
        if !is_quiet {
            say(&format!("{tool}: {problem}"));
        }
    })
}

/// For the manual.
pub const SERVICE: &[&str] = &[
    "--listen serves a history to many clients at once, on unix:PATH or tcp:HOST:PORT; with port 0 the system chooses one. When it is ready it says so on stderr: dedup-query: listening on tcp:127.0.0.1:41234, 12345 entries. \
     A client sends lines and gets a line for each, in order: documents, tokens or prints as anywhere else, answered as in a stream. A whole stream may be sent: its header, its end and blank lines get no answer. A line that cannot be used is answered \
     {\"error\":\"line 7: …\"} in its place, and the connection goes on; one of more than 64 MiB ends it. An id has at most 64 KiB. A client that closes its sending side still gets all its answers.",
    "To try it: dedup-query --history seen --min-similarity 94% --listen unix:seen.sock & and then printf '{\"id\":\"a\",\"text\":\"some words\"}\\n' | nc -N -U seen.sock; or socat - UNIX-CONNECT:seen.sock.",
    "A document or print is added, unless it has the field add with the value false, or the service runs with --no-add. added, with the value false, is in the answer if it was to be added and was not. The fields min_similarity and top ask for less than the service gives: a similarity from --min-similarity to 1, as 0.97 or \"97%\", \
     and a number from 1 to --top. Any other value of these three fields is an error that names the field; other fields of a document are its own business. A client that did not get its answer may ask again: the same id with the same print is the same document, gets the same answer, and is not stored twice. {\"remove\":\"ID\"}, alone in a line, removes all entries that have \
     the id and is answered {\"removed\":n}. {\"hello\":1} is answered with hello, scheme, buckets, entries, min_similarity and top. A document without an id is called -:LINE.",
    "Each request sees all that was answered before it, to whichever client. Requests that wait are answered together, and with --sync-every each they wait for the disk once. A client may send many requests before it reads answers; with 1024 under way it is not read from until it \
     reads. So one that does not read, or does nothing, stops only itself. --max-clients bounds how many there are; one more gets a line that says so. --client-memory bounds what long lines and waiting answers of all of them take: \
     each has 256 KiB of its own, and beyond that a client is not read from while there is no room; a longer line that finds none for 2 seconds ends the connection, with a line that says so. On TCP a client that vanished without a word is let go after 90 seconds.",
    "A Unix socket belongs to the user: its mode is 0600. One that a dead process left is replaced, one on which somebody listens is not. On TCP only addresses of this machine are allowed, unless --allow-remote is given: whoever can connect can ask, add and remove.",
    "SIGTERM and SIGINT end the service: nobody is taken in, nothing more is read, all that was read is answered (clients have 5 seconds to take their answers), all that was added is on disk, the status is 0. Files that are just being made are left to the next start. After a kill the history has all that was answered; \
     --sync-every says what holds if the machine dies. If a file of the history cannot be made, that is said once on stderr and tried again, as long as there is room in memory; if the journal cannot be written, requests are answered with the error, and the service ends with status 2.",
];
pub const FRONT: &[&str] = &[
    "A history can be kept by several servers, each of which keeps the prints of some cardinalities: the number of bits that are set, from 0 to 256, which is 130 for most documents and hardly ever less than 105 or more than 155. \
     --buckets A..B says which, both included: for three of about the same size 0..126, 127..133 and 134..256. With --upstream, once for each server, dedup-query asks them as if they were one history, for a stream or, with --listen, for clients.",
    "Each print goes to the server that keeps its cardinality, to be added, and to those that can have prints that are alike at all; the best of their answers is the answer, exactly as from one history. Of equals it is the one of the lower buckets, as which came first is not known. \
     All must have the same scheme and the same --min-similarity, --top must be at least that of the front, and no two may keep the same cardinality. What nobody keeps is said at the start, and not added.",
    "A server that is lost, or does not answer within 2 seconds, is left out until it is back; the front looks for it in the background, first after 50 milliseconds, later every 2 seconds. Answers that it might have changed name it in missing, a list, and have added with the value false if it would have kept the \
     document; it may have got it all the same before it was lost. A server that is not there at the start is treated the same, if one other is. One that only reads (--no-add) is named in missing when something is to be removed.",
];
