//! The connections of a worker to workers on other hosts: one for each host, used both ways.

use super::{
    Client, ErrorCause, HostStore, Link, Peer, TransferError, connect_patiently, host_store::remove,
};
use crate::{
    base::parallel::lock,
    cluster::remote::{Address, RemoteCommand, Transport},
};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, atomic::AtomicU32},
    time::Duration,
};

/// How long another host may take to answer.
const PEER_LIMIT: Duration = Duration::from_secs(30);

/// All other hosts that a worker is connected to.
#[derive(Default)]
pub struct Peers {
    known: Mutex<HashMap<String, Arc<PeerLink>>>,
    /// The number of attempts, to spread repeated attempts over time.
    attempts: AtomicU32,
}

/// Empty until it is connected, and after the connection broke.
#[derive(Default)]
struct PeerLink {
    link: Mutex<Option<Link>>,
    /// One transfer at a time.
    client: Mutex<Option<Client>>,
}

impl Peers {
    fn of(&self, peer: &Peer) -> Arc<PeerLink> {
        let key = format!("{:?}{}{:?}", peer.user, peer.name, peer.port);
        lock(&self.known).entry(key).or_default().clone()
    }

    /// Closes all connections at once.
    pub fn close(&self) {
        for (_, peer) in lock(&self.known).drain() {
            *lock(&peer.link) = None;
        }
    }

    /// Connects to a host, unless it is connected.
    pub fn meet(&self, peer: &Peer) -> Result<(), TransferError> {
        self.with(peer, |_| Ok(()))
    }

    /// Copies paths from another host.
    pub fn fetch(
        &self,
        store: &HostStore,
        peer: &Peer,
        paths: &[String],
        keep: bool,
    ) -> Result<u64, TransferError> {
        let mut targets: Vec<PathBuf> = Vec::with_capacity(paths.len());
        for path in paths {
            targets.push(store.target(path)?);
        }
        let (bytes, shelves) = self.with(peer, |client| {
            targets.iter().try_for_each(|target| remove(target))?;
            client.get(paths, &targets, false, store.cache())
        })?;
        for shelf in shelves {
            store.brought(&shelf.parcel.path, &shelf.parcel.items, keep)?;
        }
        Ok(bytes)
    }

    /// Copies paths to another host.
    pub fn push(
        &self,
        store: &HostStore,
        peer: &Peer,
        paths: &[String],
        keep: bool,
    ) -> Result<u64, TransferError> {
        let shelves = store.shelves(paths, keep)?;
        self.with(peer, |client| client.put(&shelves))
            .map_err(|fault| match fault {
                TransferError::Reported(ErrorCause::Lost | ErrorCause::Failed, what) => {
                    TransferError::Reported(ErrorCause::Target, what)
                }
                fault => fault,
            })
    }

    /// Calls `talk` with the connection to a host. It may have broken while it was idle, so it is
    /// tried once more with a new one.
    fn with<T>(
        &self,
        peer: &Peer,
        mut talk: impl FnMut(&mut Client) -> Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        let known = self.of(peer);
        let mut client = lock(&known.client);
        let mut last = String::new();
        for _ in 0..2 {
            let done = match &mut *client {
                Some(client) => talk(client),
                None => match self.connect(peer) {
                    Ok(link) => {
                        let client = client.insert(Client::new(&link));
                        *lock(&known.link) = Some(link);
                        talk(client)
                    }
                    Err(error) => Err(TransferError::Disconnected(error.to_string())),
                },
            };
            match done {
                Err(TransferError::Disconnected(what)) => {
                    *client = None;
                    *lock(&known.link) = None;
                    last = what;
                }
                done => return done,
            }
        }
        let what = format!("{}: {last}", peer.name);
        Err(TransferError::Reported(ErrorCause::Peer, what))
    }

    fn connect(&self, peer: &Peer) -> std::io::Result<Link> {
        let address = Address {
            name: peer.name.clone(),
            user: peer.user.clone(),
            port: peer.port,
        };
        connect_patiently(&self.attempts, || {
            let connection =
                RemoteCommand::new(&peer.rsh, &address).spawn(&peer.worker, PEER_LIMIT)?;
            Link::greet(connection, PEER_LIMIT, PEER_LIMIT * 2)
        })
    }
}
