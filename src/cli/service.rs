//! dedup-query --listen and --upstream: the arguments.

use super::progress::say;
use crate::{
    corpus,
    error::Problem,
    online::{self, Address, Buckets, Of, Tell},
    scheme::PrintScheme,
    serve::{Options, Stop, serve},
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
    pub listen: Option<Address>,
    /// Let other machines connect; there are no passwords
    #[arg(long, requires = "listen")]
    pub allow_remote: bool,
    /// Serve at most N clients at once
    #[arg(long, value_name = "N", requires = "listen", default_value = "1024", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_clients: u32,
    /// Keep only prints with A to B bits set, both included: a part of a history over several machines
    #[arg(long, value_name = "A..B", requires = "history")]
    pub buckets: Option<Buckets>,
    /// Instead of a history here, ask a server that was started with --listen and --buckets; once for each of them
    #[arg(long, value_name = "ADDRESS", group = "online")]
    pub upstream: Vec<Address>,
}

/// What is asked for, whoever answers.
pub struct Asked {
    pub of: Of,
    pub scheme: Option<PrintScheme>,
    pub wanted: crate::history::Wanted,
    pub add: bool,
}

impl ServiceArgs {
    /// Serves until a signal.
    pub fn serve(&self, address: &Address, asked: Asked, reading: corpus::Options, tool: &str) -> Result<(), anyhow::Error> {
        let stop = Stop::new().context("a pipe")?;
        for signal in [SIGTERM, SIGINT] {
            pipe::register(signal, stop.writer.try_clone().context("a pipe")?).context("a handler of signals")?;
        }
        let options = Options {
            address: address.clone(),
            allow_remote: self.allow_remote,
            max_clients: self.max_clients as usize,
            reading,
            add: asked.add,
            with_all: asked.wanted.top > 1,
        };
        let answering = online::open(&asked.of, asked.scheme, asked.wanted, &tell(tool, false))?;
        let ready = |address: &Address, entries: u64| say(&format!("{tool}: listening on {address}, {entries} entries"));
        Ok(serve(answering, &options, stop, ready)?)
    }
}

/// Says what happens on stderr.
pub fn tell(tool: &str, is_quiet: bool) -> Tell {
    let tool = tool.to_owned();
    Arc::new(move |problem: &Problem| {
        if !is_quiet {
            say(&format!("{tool}: {problem}"));
        }
    })
}
