//! The flags of a client: which server to ask.

use super::super::args::MORE;
use crate::service::{RemoteSearch, ServerClient, ServerSearch, ServerUrl, read_token};
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct ServerArgs {
    /// Ask a server instead of SOURCE: http://HOST:PORT or unix:PATH
    #[arg(long, value_name = "URL", conflicts_with_all = ["stream", "corpus", "exclude_text", "exclude_index", "base", "groups", "group_by"])]
    server: Option<ServerUrl>,
    /// The name of the index that the server searches
    #[arg(long, value_name = "NAME", requires = "server", hide_short_help = true, help_heading = MORE)]
    index: Option<String>,
    /// A file with the token that the server asks for
    #[arg(long, value_name = "FILE", requires = "server", hide_short_help = true, help_heading = MORE)]
    token_file: Option<PathBuf>,
    /// Certificates that vouch for servers [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "server", hide_short_help = true, help_heading = MORE)]
    tls_ca: Option<PathBuf>,
}

impl ServerArgs {
    /// Whether a server is to be asked.
    pub fn is_given(&self) -> bool {
        self.server.is_some()
    }

    /// A client, of a server that answers.
    pub fn search(
        &self,
        search: RemoteSearch,
        accept: &'static str,
    ) -> Result<ServerSearch, anyhow::Error> {
        let Some(url) = self.server.clone() else {
            anyhow::bail!("no server is given");
        };
        let token = self.token_file.as_deref().map(read_token).transpose()?;
        let mut client = ServerClient::new(url, token, self.tls_ca.clone())?;
        client.ensure_ready()?;
        let search = RemoteSearch {
            index: self.index.clone(),
            ..search
        };
        Ok(ServerSearch::new(client, search, accept))
    }
}
