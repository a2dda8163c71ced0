//! Takes clients in, and lets them go.

use super::{
    budget::Budget,
    connection::converse,
    engine::{answer_all, put_error},
    queue::Queue,
    request::RequestReader,
    wait::wait,
};
use crate::{
    corpus,
    error::{Error, Result},
    online::{Address, Answering, Listener, Stream},
};
use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    net::Shutdown,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long clients may take at the end to read their answers.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// How long nobody is taken in when there are no more files or threads.
const BREATH: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub struct Options {
    pub address: Address,
    /// Other machines may connect.
    pub allow_remote: bool,
    pub max_clients: usize,
    /// What lines and answers of all clients may take together.
    pub client_bytes: usize,
    /// How lines are read.
    pub reading: corpus::Options,
    /// Documents are added, unless a request says that its own is not.
    pub add: bool,
    /// Answers have all matches, not only the best.
    pub with_all: bool,
}

/// Ends a server: a byte in a pipe, which a handler of signals may write, too.
pub struct Stop {
    reader: PipeReader,
    pub writer: PipeWriter,
}

impl Stop {
    pub fn new() -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        Ok(Self { reader, writer })
    }
}

/// What the threads of a server have in common.
pub struct Shared {
    pub queue: Queue,
    pub budget: Arc<Budget>,
    /// Can be read from when it is time to stop, and stays so.
    pub stop: PipeReader,
    pub stopping: AtomicBool,
    /// Who has not read its answers by now will not get them.
    pub giving_up: AtomicBool,
    clients: Mutex<Clients>,
    left: Condvar,
}

#[derive(Default)]
struct Clients {
    connected: usize,
    /// Of these, how many are read from.
    reading: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn end_reading(&self) {
        self.lock().reading -= 1;
        self.left.notify_all();
    }

    fn end(&self) {
        self.lock().connected -= 1;
        self.left.notify_all();
    }

    /// Waits until something holds of the clients; false if that takes too long.
    fn wait_until(&self, limit: Duration, holds: impl Fn(&Clients) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut clients = self.lock();
        while !holds(&clients) {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            clients = self.left.wait_timeout(clients, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Serves until it is told to stop; then all that was read is answered, and all that was added is on disk.
///
/// `ready` is told where it listens, and how many entries there are.
pub fn serve(answering: Box<dyn Answering>, options: &Options, stop: Stop, ready: impl FnOnce(&Address, u64)) -> Result<()> {
    let reader = RequestReader::new(&options.reading, answering.scheme())?;
    let listener = Listener::bind(&options.address, options.allow_remote)?;
    let address = listener.address().map_err(|error| Error::io(&options.address, error))?;
    let entries = answering.hello().entries;
    let Stop { reader: stopped, writer } = stop;
    let shared = Arc::new(Shared {
        queue: Queue::default(),
        budget: Arc::new(Budget::new(options.client_bytes)),
        stop: stopped,
        stopping: AtomicBool::new(false),
        giving_up: AtomicBool::new(false),
        clients: Mutex::default(),
        left: Condvar::new(),
    });
    // A full pipe has stopped it already.
    let (queue, stop) = (&shared.queue, || drop((&writer).write(&[0])));
    thread::scope(|scope| {
        let engine = scope.spawn(move || answer_all(answering, options, queue, stop));
        ready(&address, entries);
        let accepted = accept_all(&listener, &address, options, &reader, &shared);
        drop(listener);
        part(&shared);
        let answered = engine.join().unwrap_or_else(|_| Err(Error::Usage("the thread that answers died".to_owned())));
        shared.wait_until(LAST_ANSWERS, |clients| clients.connected == 0);
        shared.giving_up.store(true, Ordering::Relaxed);
        shared.wait_until(LAST_ANSWERS, |clients| clients.connected == 0);
        accepted.and(answered)
    })
}

/// No more is read, and what was read is answered.
fn part(shared: &Shared) {
    shared.stopping.store(true, Ordering::Relaxed);
    // A large document that is being read takes its time, and is not lost.
    while !shared.wait_until(LAST_ANSWERS, |clients| clients.reading == 0) {}
    shared.queue.close();
}

fn accept_all(listener: &Listener, address: &Address, options: &Options, reader: &RequestReader, shared: &Arc<Shared>) -> Result<()> {
    loop {
        match wait(listener, &shared.stop, None).map_err(|error| Error::io(address, error))? {
            [_, true] => return Ok(()),
            [false, false] => continue,
            [true, false] => {}
        }
        match listener.accept() {
            Ok(stream) => admit(stream, options, reader, shared),
            Err(error)
                if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted, io::ErrorKind::ConnectionAborted].contains(&error.kind()) => {}
            // Too many open files: somebody will go.
            Err(_) => thread::sleep(BREATH),
        }
    }
}

fn admit(stream: Stream, options: &Options, reader: &RequestReader, shared: &Arc<Shared>) {
    let stream = Arc::new(stream);
    {
        let mut clients = shared.lock();
        if clients.connected >= options.max_clients {
            drop(clients);
            return refuse(
                &stream,
                &format!("{} clients are connected, which is the most (--max-clients); try again later", options.max_clients),
            );
        }
        clients.connected += 1;
        clients.reading += 1;
    }
    let (of_thread, reader, of_all) = (stream.clone(), reader.clone(), shared.clone());
    let body = move || {
        converse(&of_thread, reader, &of_all);
        drop(of_thread);
        of_all.end();
    };
    if let Err(error) = thread::Builder::new().spawn(body) {
        refuse(&stream, &format!("no thread for another client: {error}; try again later"));
        shared.end_reading();
        shared.end();
    }
}

/// Says why, and hangs up. A line is so short that it waits for nobody.
fn refuse(stream: &Stream, what: &str) {
    let mut line = Vec::new();
    put_error(&mut line, what);
    let limit = Duration::from_millis(1);
    let _ = stream.set_write_limit(limit).and_then(|()| stream.set_read_limit(limit));
    let mut both = stream;
    let _ = both.write_all(&line);
    stream.shut(Shutdown::Write);
    // What it has sent already would make the end look like a fault.
    let _ = both.read(&mut [0; 4096]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::Request,
        online::{Buckets, Hello, Removed, Reply},
        scheme::PrintScheme,
        token::{Rule, Tokenizer},
    };
    use std::{os::unix::net::UnixStream, sync::mpsc};

    struct Dies(PrintScheme);

    impl Answering for Dies {
        fn scheme(&self) -> &PrintScheme {
            &self.0
        }

        fn hello(&self) -> Hello {
            Hello { scheme: self.0.to_string(), buckets: Buckets::ALL, entries: 0, min_similarity: 1.0, top: 1 }
        }

        fn ask(&mut self, _: &[Request<'_>]) -> Result<Vec<Reply>> {
            panic!("on purpose");
        }

        fn remove(&mut self, _: &str) -> Result<Removed> {
            Ok(Removed::default())
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    /// Nobody waits for ever, neither who reads nor who asks.
    #[test]
    fn a_panic_ends_the_server_and_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            address: Address::Unix(directory.path().join("s")),
            allow_remote: false,
            max_clients: 4,
            client_bytes: 1 << 20,
            reading: corpus::Options::default(),
            add: true,
            with_all: false,
        };
        let (send, ready) = mpsc::channel();
        let scheme = PrintScheme { tokens: Tokenizer::new(Rule::Word, false).scheme() };
        let server = thread::spawn(move || {
            serve(Box::new(Dies(scheme)), &options, Stop::new().unwrap(), |address, _| send.send(address.clone()).unwrap())
        });
        assert!(matches!(ready.recv().unwrap(), Address::Unix(_)));
        let mut client = UnixStream::connect(directory.path().join("s")).unwrap();
        let mut sending = client.try_clone().unwrap();
        let sender = thread::spawn(move || drop(sending.write_all("{\"id\":\"a\",\"text\":\"b\"}\n".repeat(100_000).as_bytes())));
        let mut answers = String::new();
        // What was on its way when the server hung up may be cut off.
        let _ = client.read_to_string(&mut answers);
        assert!(answers.starts_with("{\"error\":\"the thread that answers died"), "{answers:.200}");
        drop(client);
        sender.join().unwrap();
        assert!(server.join().unwrap().is_err());
    }
}
