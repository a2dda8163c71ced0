//! A stream of NATS JetStream as a log.
//!
//! The stream keeps all messages in files on `replicas` nodes. An acknowledged message is on a
//! majority of them, but not yet synced to their disks: see [`super`] for what follows from that.
//!
//! Tokio runs the client on two threads of its own; what happens goes to the history through
//! [`LogEvents`].

use super::{LogAddress, LogEvent, LogEvents, LogExtent, ReplicatedLog};
use crate::{
    base::error::{Error, Result},
    history::store::manifest::new_identity,
};
use async_nats::{
    HeaderMap,
    connection::State,
    jetstream::{
        self, Context,
        consumer::{DeliverPolicy, pull},
        stream::{self, Config, DiscardPolicy, RetentionPolicy, StorageType},
    },
};
use futures_util::StreamExt;
use std::{sync::Arc, time::Duration};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task::block_in_place,
    time::{sleep, timeout},
};

/// How long an answer of a node may take.
const ANSWER: Duration = Duration::from_secs(2);
/// The wait before something that failed is tried again.
const AGAIN: Duration = Duration::from_millis(200);
/// After this time without a message or a heartbeat the consumer is made again.
const SILENCE: Duration = Duration::from_secs(3);
/// A random number follows it in the description of a stream.
const DESCRIPTION: &str = "dedup log ";
/// Messages that are asked for together.
const BATCH: i64 = 200;

/// A stream as a log.
pub struct NatsLog {
    commands: UnboundedSender<Command>,
    /// Dropped last, without waiting for what it does.
    runtime: Option<Runtime>,
}

enum Command {
    Follow(u64),
    Read(u64),
    Publish(u64, Vec<u8>),
    Extent(u64),
}

/// What all tasks need.
#[derive(Clone)]
struct StreamClient {
    context: Context,
    address: Arc<LogAddress>,
    replicas: usize,
    events: LogEvents,
}

impl NatsLog {
    /// Connects in the background, and makes the stream if there is none.
    pub fn start(address: LogAddress, replicas: usize, events: LogEvents) -> Result<Self> {
        let failed = |error| Error::io(address.to_string(), error);
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("log")
            .enable_all()
            .build()
            .map_err(failed)?;
        let (commands, mut received) = unbounded_channel();
        let nodes = address.nodes.clone();
        let address = Arc::new(address);
        runtime.spawn(async move {
            let client = loop {
                let connected = async_nats::ConnectOptions::new()
                    .retry_on_initial_connect()
                    .connection_timeout(ANSWER)
                    .reconnect_delay_callback(|_| AGAIN)
                    .connect(&nodes[..])
                    .await;
                match connected {
                    Ok(client) => break client,
                    Err(_) => sleep(AGAIN).await,
                }
            };
            let context = jetstream::context::ContextBuilder::new()
                .timeout(ANSWER)
                .ack_timeout(ANSWER)
                .build(client);
            let client = StreamClient {
                context,
                address,
                replicas,
                events,
            };
            while let Some(command) = received.recv().await {
                let client = client.clone();
                match command {
                    Command::Follow(after) => drop(tokio::spawn(client.follow(after))),
                    Command::Read(position) => drop(tokio::spawn(client.read(position))),
                    Command::Publish(id, bytes) => drop(tokio::spawn(client.publish(id, bytes))),
                    Command::Extent(number) => drop(tokio::spawn(client.tell_extent(number))),
                }
            }
        });
        Ok(Self {
            commands,
            runtime: Some(runtime),
        })
    }

    fn command(&self, command: Command) {
        // The task ends with the runtime only.
        let _ = self.commands.send(command);
    }
}

impl Drop for NatsLog {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl ReplicatedLog for NatsLog {
    fn follow(&mut self, after: u64) {
        self.command(Command::Follow(after));
    }

    fn read(&mut self, position: u64) {
        self.command(Command::Read(position));
    }

    fn publish(&mut self, id: u64, bytes: Vec<u8>) {
        self.command(Command::Publish(id, bytes));
    }

    fn ask_extent(&mut self, number: u64) {
        self.command(Command::Extent(number));
    }
}

impl StreamClient {
    /// Waits if the history is behind, without stopping the other tasks.
    fn tell(&self, event: LogEvent) -> bool {
        block_in_place(|| self.events.send(event))
    }

    async fn publish(self, id: u64, bytes: Vec<u8>) {
        let result = match timeout(ANSWER, self.publish_once(bytes)).await {
            Ok(result) => result,
            Err(_) => Err("no acknowledgement".to_owned()),
        };
        self.tell(LogEvent::Published { id, result });
    }

    async fn publish_once(&self, bytes: Vec<u8>) -> Result<(), String> {
        let subject = format!("{}.entries", self.address.stream);
        let mut headers = HeaderMap::new();
        // The stream drops a message that it has taken in the last two minutes; servers recognize
        // later ones themselves.
        headers.insert(async_nats::header::NATS_MESSAGE_ID, message_id(&bytes));
        let sent = self
            .context
            .publish_with_headers(subject, headers, bytes.into())
            .await
            .map_err(|error| error.to_string())?;
        sent.await.map(drop).map_err(|error| error.to_string())
    }

    /// The leader of the stream answers; if it cannot, later messages make the server ask again.
    async fn read(self, position: u64) {
        let read = async {
            let stream = self
                .context
                .get_stream_no_info(&self.address.stream)
                .await
                .ok()?;
            stream.get_raw_message(position).await.ok()
        };
        if let Ok(Some(message)) = timeout(ANSWER, read).await {
            let bytes = message.payload.to_vec();
            self.tell(LogEvent::Entry { position, bytes });
        }
    }

    async fn tell_extent(self, number: u64) {
        let result = match timeout(ANSWER, self.extent()).await {
            Ok(result) => result,
            Err(_) => Err("no answer".to_owned()),
        };
        self.tell(LogEvent::Extent { number, result });
    }

    async fn extent(&self) -> Result<LogExtent, String> {
        let stream = self.context.get_stream(&self.address.stream).await;
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) if is_missing(&error) => {
                // Another server may be making it at the same time: which stream there is in the end
                // is known a moment later.
                let made = self.context.create_stream(self.config()).await;
                return Err(made.map_or_else(
                    |error| error.to_string(),
                    |_| "the stream was just made".to_owned(),
                ));
            }
            Err(error) => return Err(error.to_string()),
        };
        let info = stream.cached_info();
        let cluster = info.cluster.as_ref();
        let leader = cluster.and_then(|cluster| cluster.leader.clone());
        if cluster.is_some() && leader.is_none() {
            return Err("the stream has no leader".to_owned());
        }
        Ok(LogExtent {
            identity: self.identity(info),
            first: info.state.first_sequence,
            last: info.state.last_sequence,
            leader: leader.unwrap_or_default(),
        })
    }

    /// Nodes can differ in the time at which a stream was made, but not in its description.
    fn identity(&self, info: &stream::Info) -> String {
        let description = info.config.description.as_deref().unwrap_or_default();
        match description.strip_prefix(DESCRIPTION) {
            Some(identity) => format!("{} {identity}", self.address.stream),
            None => format!("{} of {}", self.address.stream, info.created),
        }
    }

    fn config(&self) -> Config {
        Config {
            name: self.address.stream.clone(),
            description: Some(format!("{DESCRIPTION}{}", new_identity())),
            subjects: vec![format!("{}.entries", self.address.stream)],
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            num_replicas: self.replicas,
            duplicate_window: Duration::from_secs(120),
            ..Config::default()
        }
    }

    /// Delivers entries; after any trouble, from the one after the last delivered one.
    async fn follow(self, after: u64) {
        let mut next = after + 1;
        while self.deliver(&mut next).await {
            sleep(AGAIN).await;
        }
    }

    /// Delivers entries until something goes wrong; returns false when the history is closed.
    async fn deliver(&self, next: &mut u64) -> bool {
        let config = pull::OrderedConfig {
            // The last one once more: the history sees whether the log is still the same.
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: (*next - 1).max(1),
            },
            max_batch: BATCH,
            ..pull::OrderedConfig::default()
        };
        let made = timeout(2 * ANSWER, async {
            let stream = self
                .context
                .get_stream_no_info(&self.address.stream)
                .await
                .ok()?;
            let consumer = stream.create_consumer(config).await.ok()?;
            consumer.messages().await.ok()
        });
        let Ok(Some(mut messages)) = made.await else {
            return true;
        };
        let mut quiet = Duration::ZERO;
        loop {
            let message = match timeout(SILENCE, messages.next()).await {
                Ok(Some(Ok(message))) => message,
                Ok(_) => return true,
                Err(_) => {
                    quiet += SILENCE;
                    if self.is_behind(*next).await || quiet > 20 * SILENCE {
                        return true;
                    }
                    continue;
                }
            };
            quiet = Duration::ZERO;
            let Ok(info) = message.info() else {
                return true;
            };
            let position = info.stream_sequence;
            if position + 1 < *next {
                continue;
            }
            let bytes = message.payload.to_vec();
            if !self.tell(LogEvent::Entry { position, bytes }) {
                return false;
            }
            *next = position + 1;
        }
    }

    /// Whether the log has entries that were not delivered, or is out of reach.
    async fn is_behind(&self, next: u64) -> bool {
        let is_connected = self.context.client().connection_state() == State::Connected;
        match timeout(ANSWER, self.extent()).await {
            Ok(Ok(extent)) => extent.last >= next || !is_connected,
            _ => true,
        }
    }
}

fn message_id(bytes: &[u8]) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
}

/// Whether the cluster says that there is no such stream.
fn is_missing(error: &jetstream::context::GetStreamError) -> bool {
    use jetstream::{ErrorCode, context::GetStreamErrorKind};
    matches!(error.kind(), GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}
