//! The server: accepts clients, serves them in turn, and disconnects them.

use super::{
    client::{ClientPhase, Received},
    clients::{READ_BYTES, ServiceClients},
    engine::{AnswerEngine, PendingRequest},
    line_readers::LineReaders,
    request_reader::{RequestReader, ServiceRequest},
};
use crate::{
    base::error::{Error, Result},
    history::{
        MatchLimits,
        backend::{Connection, HistoryBackend, ServiceAddress, SocketListener},
    },
    text::corpus,
};
use mio::{Events, Interest, Poll, Registry, Token, Waker, event::Event, unix::SourceFd};
use std::{
    io::{self, PipeReader, PipeWriter},
    os::fd::{AsFd, AsRawFd},
    time::{Duration, Instant},
};

/// How long clients may take to read their last answers when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// How long the server accepts no client after the system ran out of file descriptors.
const BREATH: Duration = Duration::from_millis(50);
/// Excess clients that get an error line at the same time; more are disconnected without one.
const MOST_REFUSED: usize = 64;
/// Clients that are accepted in one turn.
const MOST_ACCEPTED: usize = 64;

const EVENTS: usize = 1024;
const LISTENER: Token = Token(usize::MAX - 1);
const STOP: Token = Token(usize::MAX - 2);
const READERS: Token = Token(usize::MAX - 3);

/// How a server listens, and how it reads and answers requests.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The address to listen on.
    pub address: ServiceAddress,
    /// Whether other machines may connect.
    pub allow_remote: bool,
    /// The greatest number of clients at a time.
    pub max_clients: usize,
    /// The memory for lines and answers of all clients together.
    pub client_bytes: usize,
    /// How documents are read.
    pub reading: corpus::Options,
    /// The number of threads that read documents.
    pub threads: usize,
    /// Whether to add documents, unless a request says otherwise.
    pub add: bool,
    /// Which matches answers contain. With a limit above one, answers list all of them.
    pub limits: MatchLimits,
}

/// Stops a server: a byte in a pipe, which a signal handler may write.
pub struct StopPipe {
    reader: PipeReader,
    /// The end to write to; one byte stops the server.
    pub writer: PipeWriter,
}

impl StopPipe {
    /// Opens the pipe.
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer })
    }
}

/// Serves until it is stopped; then all requests that were read are answered, and all additions are
/// on disk.
///
/// Calls `ready` with the address and the number of entries once it is listening.
pub fn serve(
    answering: Box<dyn HistoryBackend>,
    options: &ServiceOptions,
    stop: StopPipe,
    ready: impl FnOnce(&ServiceAddress, u64),
) -> Result<()> {
    let reader = RequestReader::new(&options.reading, answering.scheme(), options.limits)?;
    let listener = SocketListener::bind(&options.address, options.allow_remote)?;
    let address = listener
        .address()
        .map_err(|error| Error::io(&options.address, error))?;
    let entries = answering.hello().entries;
    let mut server = SocketServer::new(
        AnswerEngine::new(answering, options),
        listener,
        reader,
        &stop,
        options,
    )?;
    ready(&address, entries);
    let ran = server.run();
    // Closes the backend even after an error.
    ran.and(server.part())
}

/// The sockets, the clients and the engine.
struct SocketServer<'o> {
    poll: Poll,
    events: Events,
    options: &'o ServiceOptions,
    /// `None` when no more clients are accepted.
    listener: Option<SocketListener>,
    can_accept: bool,
    /// When to accept clients again.
    accepts_from: Option<Instant>,
    clients: ServiceClients,
    reader: RequestReader,
    readers: LineReaders,
    engine: AnswerEngine<'o>,
    /// Requests without an answer yet.
    jobs: Vec<PendingRequest>,
    block: Box<[u8]>,
    is_told_to_stop: bool,
}

impl<'o> SocketServer<'o> {
    fn new(
        engine: AnswerEngine<'o>,
        listener: SocketListener,
        reader: RequestReader,
        stop: &StopPipe,
        options: &'o ServiceOptions,
    ) -> Result<Self> {
        let failed = |error| Error::io(&options.address, error);
        let poll = Poll::new().map_err(failed)?;
        watch(poll.registry(), &listener, LISTENER, Interest::READABLE).map_err(failed)?;
        watch(poll.registry(), &stop.reader, STOP, Interest::READABLE).map_err(failed)?;
        let waker = Waker::new(poll.registry(), READERS).map_err(failed)?;
        // A failed wake-up only delays the line until the next event.
        let readers =
            LineReaders::start(options.threads.max(1), &reader, move || drop(waker.wake()))?;
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS),
            options,
            listener: Some(listener),
            can_accept: false,
            accepts_from: None,
            clients: ServiceClients::new(options.client_bytes),
            reader,
            readers,
            engine,
            jobs: Vec::new(),
            block: vec![0; READ_BYTES].into(),
            is_told_to_stop: false,
        })
    }

    /// Serves until it is stopped.
    fn run(&mut self) -> Result<()> {
        while !self.is_told_to_stop {
            self.turn(None)?;
        }
        Ok(())
    }

    /// Stops reading, answers what was read and syncs it; then clients may read their answers for a
    /// while.
    fn part(&mut self) -> Result<()> {
        self.listener = None;
        for number in self.clients.numbers() {
            if let Some(client) = self
                .clients
                .get(number)
                .filter(|client| client.phase == ClientPhase::Open)
            {
                client.phase = ClientPhase::Closing;
            }
            self.clients.settle(number);
        }
        // A large document may still be parsed by another thread.
        while self.readers.pending > 0 {
            self.turn(None)?;
        }
        let closed = self.engine.close();
        let deadline = Instant::now() + LAST_ANSWERS;
        while self.clients.connected() > 0 && Instant::now() < deadline {
            self.turn(Some(deadline))?;
        }
        closed
    }

    /// Waits for events and handles them: every client with input, or with room for output, has a
    /// turn.
    fn turn(&mut self, limit: Option<Instant>) -> Result<()> {
        self.wait(limit)
            .map_err(|error| Error::io(&self.options.address, error))?;
        self.accept_some();
        while let Some(piece) = self.readers.take()? {
            if let Some(client) = self.clients.get(piece.client) {
                client.come_back(piece.lines);
            }
            self.ask(piece.client, piece.requests);
            self.clients.settle(piece.client);
        }
        for _ in 0..self.clients.turns() {
            self.attend();
            if self.jobs.len() >= self.engine.most {
                self.answer();
            }
        }
        self.expire();
        self.answer();
        Ok(())
    }

    /// Waits for an event or the next deadline.
    fn wait(&mut self, limit: Option<Instant>) -> io::Result<()> {
        let is_busy = self.clients.turns() > 0 || self.can_accept && self.accepts_from.is_none();
        let next = [limit, self.accepts_from, self.clients.first_deadline()]
            .into_iter()
            .flatten()
            .min();
        let left = if is_busy {
            Some(Duration::ZERO)
        } else {
            next.map(|next| next.saturating_duration_since(Instant::now()))
        };
        match self.poll.poll(&mut self.events, left) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        for event in &self.events {
            match event.token() {
                LISTENER => self.can_accept = true,
                STOP => self.is_told_to_stop = true,
                READERS => {}
                Token(number) => note(&mut self.clients, number, event),
            }
        }
        Ok(())
    }

    fn accept_some(&mut self) {
        if self.accepts_from.is_some_and(|from| Instant::now() < from) || !self.can_accept {
            return;
        }
        self.accepts_from = None;
        for _ in 0..MOST_ACCEPTED {
            let Some(listener) = &self.listener else {
                return self.can_accept = false;
            };
            match listener.accept() {
                Ok(stream) => self.admit(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.can_accept = false;
                }
                Err(error)
                    if [io::ErrorKind::Interrupted, io::ErrorKind::ConnectionAborted]
                        .contains(&error.kind()) => {}
                // Too many open files: wait until a client disconnects.
                Err(_) => return self.accepts_from = Some(Instant::now() + BREATH),
            }
        }
    }

    /// Adds a client, or tells it why not.
    fn admit(&mut self, stream: Connection) {
        let is_full = self.clients.connected() - self.clients.refused >= self.options.max_clients;
        let token = Token(self.clients.next_number());
        if is_full && self.clients.refused == MOST_REFUSED
            || watch(
                self.poll.registry(),
                &stream,
                token,
                Interest::READABLE | Interest::WRITABLE,
            )
            .is_err()
        {
            return;
        }
        let number = self.clients.add(stream);
        if is_full {
            let most = self.options.max_clients;
            self.clients.refuse(
                number,
                &format!("{most} clients are connected, which is the limit; try again later"),
            );
        }
    }

    /// The turn of a client: sends its answers and reads from it once.
    fn attend(&mut self) {
        let Some(number) = self.clients.next_turn() else {
            return;
        };
        let Some(client) = self.clients.get(number) else {
            return;
        };
        client.flush();
        if client.phase == ClientPhase::Leaving {
            client.ignore(&mut self.block);
        }
        if let Some(client) = self.clients.readable(number) {
            let (reader, block, mut asked) = (&mut self.reader, &mut self.block, Vec::new());
            let piece = match client.receive(block) {
                Received::Nothing => None,
                Received::End => client.take_end(reader, |one| asked.push(one)),
                Received::Bytes(count) => {
                    client.take(&mut block[..count], reader, |one| asked.push(one))
                }
            };
            piece
                .into_iter()
                .for_each(|piece| self.readers.submit(piece));
            self.ask(number, asked);
        }
        self.clients.settle(number);
    }

    fn ask(&mut self, client: usize, asked: Vec<ServiceRequest>) {
        if let Some(client) = self.clients.get(client) {
            client.asked += asked.len();
        }
        self.jobs.extend(
            asked
                .into_iter()
                .map(|asked| PendingRequest { client, asked }),
        );
    }

    /// Answers all requests, and sends the answers of each client together.
    fn answer(&mut self) {
        let mut jobs = std::mem::take(&mut self.jobs);
        let mut left = &jobs[..];
        while !left.is_empty() {
            let (batch, later) = left.split_at(left.len().min(self.engine.most));
            let (lines, mut at) = (self.engine.answer(batch), 0);
            for run in batch.chunk_by(|one, two| one.client == two.client) {
                let next = at + run.len();
                if let Some(client) = self.clients.get(run[0].client) {
                    client.asked -= run.len();
                    client.answer(lines.range(at, next));
                }
                self.clients.settle(run[0].client);
                at = next;
            }
            left = later;
        }
        self.is_told_to_stop |= self.engine.has_failed();
        jobs.clear();
        self.jobs = jobs;
    }

    /// Disconnects clients that take too long.
    fn expire(&mut self) {
        while let Some(number) = self.clients.next_late(Instant::now()) {
            let most = self.clients.most_bytes();
            let Some(client) = self.clients.get(number) else {
                continue;
            };
            if client.phase == ClientPhase::Open {
                let why = format!(
                    "all clients together have {most} bytes, which is the limit; try again later"
                );
                let refused = client.refuse(&why);
                self.ask(number, vec![refused]);
            } else {
                client.phase = ClientPhase::Gone;
            }
            self.clients.settle(number);
        }
    }
}

/// Registers a file descriptor for edge-triggered events.
fn watch(
    registry: &Registry,
    what: &impl AsFd,
    token: Token,
    interest: Interest,
) -> io::Result<()> {
    registry.register(&mut SourceFd(&what.as_fd().as_raw_fd()), token, interest)
}

/// Notes an event of a client.
fn note(clients: &mut ServiceClients, number: usize, event: &Event) {
    if let Some(client) = clients.get(number) {
        client.can_read |= event.is_readable() || event.is_read_closed() || event.is_error();
        client.can_write |= event.is_writable() || event.is_write_closed() || event.is_error();
        client.is_closed |= event.is_read_closed() || event.is_error();
        clients.take_turn(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::{
            Ratio, Request,
            backend::{CardinalityRange, HelloReply, MatchReply, RemovalReply},
        },
        text::{
            scheme::PrintScheme,
            token::{Rule, Tokenizer},
        },
    };
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
        sync::mpsc,
        thread,
    };

    struct Dies(PrintScheme);

    impl HistoryBackend for Dies {
        fn scheme(&self) -> &PrintScheme {
            &self.0
        }

        fn hello(&self) -> HelloReply {
            HelloReply {
                scheme: self.0.to_string(),
                buckets: CardinalityRange::ALL,
                entries: 0,
                min_similarity: 1.0,
                top: 1,
            }
        }

        fn ask(&mut self, _: &[Request<'_>]) -> Result<Vec<MatchReply>> {
            panic!("on purpose");
        }

        fn ask_and_deliver(
            &mut self,
            _: &[Request<'_>],
            _: &mut dyn FnMut(&[MatchReply]) -> Result<()>,
        ) -> Result<()> {
            panic!("on purpose");
        }

        fn remove(&mut self, _: &str) -> Result<RemovalReply> {
            Ok(RemovalReply::default())
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    /// Neither the sender nor the reader waits for ever.
    #[test]
    fn a_panic_ends_the_server_with_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let options = ServiceOptions {
            address: ServiceAddress::Unix(directory.path().join("s")),
            allow_remote: false,
            max_clients: 4,
            client_bytes: 1 << 20,
            reading: corpus::Options::default(),
            threads: 1,
            add: true,
            limits: MatchLimits {
                min_similarity: Ratio::ALL,
                top: 1,
            },
        };
        let (send, ready) = mpsc::channel();
        let scheme = PrintScheme {
            tokens: Tokenizer::new(Rule::Word, false).scheme(),
        };
        let server = thread::spawn(move || {
            serve(
                Box::new(Dies(scheme)),
                &options,
                StopPipe::new().unwrap(),
                |address, _| send.send(address.clone()).unwrap(),
            )
        });
        assert!(matches!(ready.recv().unwrap(), ServiceAddress::Unix(_)));
        let mut client = UnixStream::connect(directory.path().join("s")).unwrap();
        let mut sending = client.try_clone().unwrap();
        let sender = thread::spawn(move || {
            drop(sending.write_all("{\"id\":\"a\",\"text\":\"b\"}\n".repeat(100_000).as_bytes()))
        });
        let mut answers = String::new();
        // Answers on their way may be lost when the server disconnects.
        let _ = client.read_to_string(&mut answers);
        assert!(
            answers.starts_with("{\"error\":\"the thread that answers died"),
            "{answers:.200}"
        );
        drop(client);
        sender.join().unwrap();
        assert!(server.join().unwrap().is_err());
    }
}
