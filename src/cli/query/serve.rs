//! dedup-query serve: indexes and a history for many clients at once.

use super::{
    super::{
        args::{CommonArgs, InputArgs, MORE, ReadArgs, RunArgs, TokenArgs, parse_size},
        progress::say,
    },
    PROGRAM,
    history::{AskArgs, StoreArgs},
    notify,
};
use crate::{
    base::error::Problem,
    history::{
        self,
        backend::{self, BackendSource, ProblemReporter, ServiceAddress},
    },
    service::{
        IndexOptions, ListeningAddress, ServiceControl, ServiceOptions, ServiceSecurity, TlsFiles,
        history::{HistoryRules, HistoryService, HistoryThread},
        serve,
    },
    text::{corpus, scheme::PrintScheme, stream::Form},
};
use anyhow::{Context, bail};
use clap::{ArgGroup, Args};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    net::ToSocketAddrs, path::PathBuf, process::ExitCode, sync::Arc, thread, time::Duration,
};

#[derive(Args, Debug)]
#[command(
    override_usage = "dedup-query serve [--index IDX] [--history DIR] --http ADDR|--lines ADDR [OPTIONS]"
)]
#[command(group = ArgGroup::new("served").args(["index", "history", "upstream"]).multiple(true).required(true))]
#[command(group = ArgGroup::new("listens").args(["http", "lines"]).multiple(true).required(true))]
pub struct ServeArgs {
    /// An index to be searched, also as NAME=IDX (repeatable)
    #[arg(long, value_name = "IDX", requires = "http")]
    index: Vec<IndexOptions>,
    /// Where the documents of the indexes are, also as NAME=PATH (repeatable)
    #[arg(long, value_name = "PATH", requires = "index")]
    corpus: Vec<String>,
    /// Directory of a history; it is created if it does not exist
    #[arg(long, value_name = "DIR", conflicts_with = "upstream")]
    history: Option<PathBuf>,
    /// Where to listen for HTTP: HOST:PORT or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = parse_http)]
    http: Option<ServiceAddress>,
    /// Where to listen for lines to the history: unix:PATH or tcp:HOST:PORT
    #[arg(long, value_name = "ADDR")]
    lines: Option<ServiceAddress>,
    #[command(flatten)]
    ask: AskArgs,
    /// Serve the histories of other servers; once for each of them
    #[arg(long, value_name = "ADDR")]
    upstream: Vec<ServiceAddress>,
    /// Let other machines connect; HTTP then needs TLS and a token
    #[arg(long, help_heading = MORE)]
    allow_remote: bool,
    /// The certificate for HTTP over TLS, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "http"], help_heading = MORE)]
    tls_cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = MORE)]
    tls_key: Option<PathBuf>,
    /// Let other machines connect without TLS, as something else encrypts
    #[arg(long, conflicts_with = "tls_cert", help_heading = MORE)]
    no_tls: bool,
    /// Answer only requests over HTTP that have the token in FILE
    #[arg(long, value_name = "FILE", requires = "http", help_heading = MORE)]
    token_file: Option<PathBuf>,
    /// Answer requests to NAME, which is this machine (repeatable)
    ///
    /// Without --allow-remote and --token-file only localhost and addresses are answered: a page of
    /// another site could make a name of its own stand for this machine.
    #[arg(long, value_name = "NAME", requires = "http", help_heading = MORE)]
    allow_host: Vec<String>,
    /// Let other machines ask without a token
    #[arg(long, conflicts_with = "token_file", help_heading = MORE)]
    no_token: bool,
    /// Serve at most N clients at once [default: 1024]
    #[arg(long, value_name = "N", help_heading = MORE, default_value = "1024", hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_clients: u32,
    /// Memory for requests and waiting answers of all clients [default: 1G]
    #[arg(long, value_name = "SIZE", help_heading = MORE, default_value = "1G", hide_default_value = true, value_parser = parse_size)]
    client_memory: u64,
    /// Refuse larger bodies of requests over HTTP [default: 64M]
    #[arg(long, value_name = "SIZE", help_heading = MORE, default_value = "64M", hide_default_value = true, value_parser = parse_size)]
    max_body: u64,
    /// Time for a request to arrive, in seconds [default: 60]
    ///
    /// A client that was silent for so long gives way to another one when all places are taken.
    #[arg(long, value_name = "SECONDS", help_heading = MORE, default_value = "60", hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    idle_timeout: u32,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    common: CommonArgs,
}

/// `127.0.0.1:8080`, `tcp:127.0.0.1:8080` or `unix:PATH`.
fn parse_http(text: &str) -> Result<ServiceAddress, String> {
    let parsed = text
        .parse()
        .or_else(|_| format!("tcp:{text}").parse::<ServiceAddress>());
    parsed
        .map_err(|_| format!("'{text}' is neither HOST:PORT nor unix:PATH, such as 127.0.0.1:8080"))
}

impl ServeArgs {
    /// Serves until a signal.
    pub fn run(&self) -> Result<ExitCode, anyhow::Error> {
        if self.lines.is_some() && self.history.is_none() && self.upstream.is_empty() {
            bail!("--lines serves a history: give it with --history, or use --http");
        }
        self.ensure_secure()?;
        let control = ServiceControl::default();
        obey_signals(&control)?;
        let settings = self
            .run_args()
            .settings(Form::Ndjson, 64 << 20, self.tokens.is_dna());
        let threads = settings.limits.threads;
        let options = self.options(settings.corpus, threads)?;
        let tell = report_to_stderr(self.common.quiet);
        let history = self.open_history(threads, &control, &tell)?;
        let entries = history
            .as_ref()
            .map(|history| history.status().hello.entries);
        serve(history, &options, &control, &tell, |addresses| {
            notify::tell_supervisor("READY=1");
            for address in addresses {
                let entries = match (address, entries) {
                    (ListeningAddress::Lines(_), Some(entries)) => format!(", {entries} entries"),
                    _ => String::new(),
                };
                say(&format!("{PROGRAM}: listening on {address}{entries}"));
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn options(
        &self,
        reading: corpus::Options,
        threads: usize,
    ) -> Result<ServiceOptions, anyhow::Error> {
        let bytes = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        Ok(ServiceOptions {
            http: self.http.clone(),
            lines: self.lines.clone(),
            allow_remote: self.allow_remote,
            indexes: self.indexes()?,
            max_clients: self.max_clients as usize,
            client_bytes: bytes(self.client_memory),
            max_body_bytes: bytes(self.max_body),
            idle_timeout: Duration::from_secs(self.idle_timeout.into()),
            security: ServiceSecurity {
                tls: self
                    .tls_cert
                    .clone()
                    .zip(self.tls_key.clone())
                    .map(|(certificate, key)| TlsFiles { certificate, key }),
                token_file: self.token_file.clone(),
                hosts: self.allow_host.clone(),
            },
            reading,
            threads,
        })
    }

    /// Other machines may ask over HTTP only where the user has decided on TLS and on a token.
    fn ensure_secure(&self) -> Result<(), anyhow::Error> {
        let Some(ServiceAddress::Tcp(host)) = &self.http else {
            return Ok(());
        };
        let mut addresses = host.to_socket_addrs().with_context(|| host.clone())?;
        if !self.allow_remote || addresses.all(|address| address.ip().is_loopback()) {
            return Ok(());
        }
        if self.tls_cert.is_none() && !self.no_tls {
            bail!(
                "--http {host}: other machines can connect; give a certificate with --tls-cert and --tls-key, or --no-tls if something else encrypts"
            );
        }
        if self.token_file.is_none() && !self.no_token {
            bail!(
                "--http {host}: other machines can ask; give a token with --token-file, or --no-token if all of them may"
            );
        }
        Ok(())
    }

    /// The indexes, and where their documents are.
    fn indexes(&self) -> Result<Vec<IndexOptions>, anyhow::Error> {
        let mut indexes = self.index.clone();
        for corpus in &self.corpus {
            let named = corpus.split_once('=').and_then(|(name, path)| {
                let at = indexes.iter().position(|index| index.name == name)?;
                Some((at, path))
            });
            match named {
                Some((at, path)) => indexes[at].corpus.push(path.into()),
                None => indexes
                    .iter_mut()
                    .for_each(|index| index.corpus.push(corpus.into())),
            }
        }
        let missing = indexes
            .iter()
            .flat_map(|index| &index.corpus)
            .find(|path| !path.exists());
        if let Some(missing) = missing {
            bail!("{}: there is no such file or directory", missing.display());
        }
        Ok(indexes)
    }

    fn open_history(
        &self,
        threads: usize,
        control: &ServiceControl,
        tell: &ProblemReporter,
    ) -> Result<Option<Arc<dyn HistoryService>>, anyhow::Error> {
        let Some(source) = self.served(threads) else {
            return Ok(None);
        };
        let limits = self.ask.wanted();
        let scheme = self.tokens.tokenizer().map(|tokenizer| PrintScheme {
            tokens: tokenizer.scheme(),
        });
        let backend = backend::open(&source, scheme, limits, tell)?;
        let rules = HistoryRules {
            add: !self.ask.no_add,
            limits,
        };
        let history = HistoryThread::start(backend, rules, control.clone())?;
        Ok(Some(Arc::new(history)))
    }

    fn served(&self, threads: usize) -> Option<BackendSource> {
        match &self.history {
            Some(directory) => {
                let options = history::StoreOptions {
                    threads,
                    serves: true,
                    ..history::StoreOptions::default()
                };
                Some(self.store.of_directory(directory, self.ask.no_add, options))
            }
            None if self.upstream.is_empty() => None,
            None => Some(BackendSource::Upstreams(self.upstream.clone())),
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

/// SIGTERM and SIGINT stop the server, SIGHUP makes it read its files again.
fn obey_signals(control: &ServiceControl) -> Result<(), anyhow::Error> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("a signal handler")?;
    let control = control.clone();
    // The thread ends with the process.
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if signal == SIGHUP {
                    control.reload();
                } else {
                    notify::tell_supervisor("STOPPING=1");
                    control.stop();
                }
            }
        })
        .context("a signal handler")?;
    Ok(())
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
    "dedup-query serve answers many clients at once: from indexes (--index, once for each) and from a history (--history). With --http \
     HOST:PORT, or --http unix:PATH, clients speak HTTP/1.1 and JSON; with --lines they send lines of JSON to the history. With port 0 \
     the system chooses one. When the server is ready it says so on stderr, a line for each address: dedup-query: listening on \
     http://127.0.0.1:8080, or dedup-query: listening on tcp:127.0.0.1:41234, 12345 entries.",
    "To try it: dedup-query serve --index my.idx --http 127.0.0.1:8080 & and then curl --json '{\"text\":\"some words\"}' \
     http://127.0.0.1:8080/v1/search; or dedup-query serve --history seen --lines unix:seen.sock & and then printf \
     '{\"id\":\"a\",\"text\":\"some words\"}\\n' | nc -N -U seen.sock.",
    "POST /v1/search finds the documents of an index that share text with one. The body has text (or tokens), and may have id, index (the \
     name of the index, which is that of its directory without the ending, or given as --index NAME=IDX), score, threshold, top, max_df, \
     exclude_text (a list of texts), and with passages true also chars, p_values, exclude_quotes, exclude_bibliography and \
     min_match_words. The answer has index, generation and matches, a list of the records that dedup-query writes. Passages need \
     --corpus. With the header accept: application/x-ndjson, text/csv or text/tab-separated-values the answer is what dedup-query prints \
     in this format. An index that was changed, by dedup-index sync, add, remove or compact, is opened again within a second; requests \
     under way finish on the old state.",
    "POST /v1/history asks the history and adds to it: a document as JSON (id, and text, tokens or print; add, min_similarity and top), or \
     many, one a line, with content-type: application/x-ndjson, which also takes streams of dedup-blot and is faster. Answers are those \
     of dedup-query history. DELETE /v1/history/ID removes all entries with the id. GET /v1/indexes lists the indexes, GET /healthz says \
     that the process runs, GET /readyz that it answers.",
    "Errors over HTTP are {\"error\":\"…\"} with a status: 400 for a request that cannot be used, such as one with an unknown or mistyped \
     field, which the error names; 408 for one that does not arrive within --idle-timeout; 413 for a body above --max-body; 503, with the \
     header retry-after, if too many requests wait. In a batch of documents the error of one stands in the place of its answer.",
    "A client of --lines sends lines and gets a line for each, in order: documents, tokens or prints as anywhere else, answered as in a \
     stream. A client may send a whole stream: its header, its end and blank lines get no answer. A line that cannot be used is answered \
     {\"error\":\"line 7: …\"} in its place, and the connection stays open; a line of more than 64 MiB ends it, and so does a line whose \
     rest does not come within --idle-timeout. An id has at most 64 KiB. A client that closes its sending side still gets all its answers.",
    "The server adds each document or print, unless it has the field add with the value false, or the server runs with --no-add. If a \
     document should have been added and was not, the answer has added with the value false. The fields min_similarity and top restrict \
     the answer further than the server does: a similarity from --min-similarity to 1, as 0.97 or \"97%\", and a number from 1 to \
     --top. Any other value of these three fields is an error that names the field; on lines, other fields are ignored. A client that did \
     not get its answer may ask again: the same id with the same print is the same document, gets the same answer, and is not stored \
     twice. On lines, {\"remove\":\"ID\"}, alone in a line, removes all entries with the id and is answered {\"removed\":n}; {\"hello\":1} is \
     answered with hello, scheme, buckets, entries, min_similarity, top, and what tells the history and its log from others. A document without an id gets the id -:LINE.",
    "Each request to the history sees every document that was answered before it, to any client. Requests that wait are answered together, \
     and with --sync-every each they wait for the disk once. A client may send many lines before it reads answers; with 1024 unread ones \
     the server stops reading from it until it reads. So a client that does not read, or does nothing, blocks only itself. \
     --max-clients limits the number of clients; one more gets an error that says so, unless another one was silent for --idle-timeout \
     and gives way. --client-memory limits the memory for requests and waiting answers of all clients: each has 256 KiB of its own, and \
     beyond that the server does not read from a client while there is no room; a longer line or body that finds no room for 2 seconds \
     is refused. On TCP a client that vanished is disconnected after 90 seconds.",
    "A Unix socket belongs to the user: its mode is 0600. The server replaces a socket that a dead process left, but not one on which \
     another process listens. fd:N is a socket that the process got from its supervisor; the first one of systemd is fd:3. On TCP the \
     server accepts only addresses of this machine, unless --allow-remote is given. HTTP then needs TLS, with --tls-cert and --tls-key \
     (in programs that were built with the feature tls), and a token, with --token-file; or --no-tls and --no-token, which say that it \
     is meant. The token is the first line of FILE; requests have it as authorization: Bearer TOKEN, and browsers as a password. \
     /healthz and /readyz need none. Lines have neither: everyone who can connect can ask, add and remove.",
    "GET / is a page for people: they drop a file or paste a text, and get a report like that of --html, with all sources in the index. \
     The report is kept in memory for 24 hours under an address that cannot be guessed; nothing is added to the index. POST /v1/align \
     aligns two texts: a and b, each with text and perhaps id; k, chars, p_values, exclude_quotes, exclude_bibliography, min_match_words. \
     GET /metrics is for Prometheus, GET /openapi.json describes all requests and answers.",
    "SIGHUP makes the server look at its indexes at once, and read the token, the certificate and the key again. SIGTERM and SIGINT end it: it accepts no more clients, reads nothing more, \
     answers everything that it has read (clients have 5 seconds to read their answers), syncs all added documents, and exits with 0. It \
     leaves files that it was just writing to the next start. After a kill the history has every document that was answered; \
     --sync-every says what holds if the machine crashes. If a file of the history cannot be written, the server reports it once on \
     stderr and tries again, as long as there is room in memory; if the journal cannot be written, it answers requests with the error, \
     and ends with status 2.",
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
     that of the front, and no two may keep the same cardinality, unless they are replicas. At the start the front names cardinalities that no server keeps; it \
     does not add documents with these.",
    "A server that is lost, or does not answer within 2 seconds, is left out until it is back; the front tries to reach it in the \
     background, first after 50 milliseconds, later every 2 seconds. Answers that the server might have changed name it in missing, a \
     list, and have added with the value false if it would have kept the document; it may have stored the document before it was lost. \
     A server that is missing at the start is treated the same way, if at least one other is there. A server that only reads (--no-add) \
     is named in missing when something is to be removed. A server that comes back with fewer documents than it had, or with another \
     history, stays left out, and the front says so: restore a backup of it, or start the front again to go on without what was lost.",
    "Servers that keep the same cardinalities and follow one log (see HIGH AVAILABILITY) are replicas: one of them is asked, and another one \
     if that is lost, does not answer within 1.5 seconds, or names its log in missing. Answers name something in missing only if no replica \
     could answer: all replicas of the range, or the log. A server that follows another log than before is left out.",
];
