//! One client, from its first line to its last answer.

use super::{
    input::{LineBlock, LineInput},
    output::{Backlog, DueAnswers, write_answers},
};
use crate::{
    history::backend::LINE_BYTES,
    service::{
        clients::ClientPlace,
        history::{HistoryService, ReaderPool, ServiceAnswer, ServiceRequest, put_error},
        listener::ServiceStream,
        memory::{ClientMemory, MemoryShare},
        metrics::ServiceMetrics,
        options::ServiceControl,
        workers::Workers,
    },
};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::AsyncWriteExt,
    sync::{
        mpsc::{self, UnboundedSender},
        oneshot,
    },
    time::{Instant, timeout, timeout_at},
};

/// How long a client may take to close its side after its last answer.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// How long a long line may wait for memory.
const PATIENCE: Duration = Duration::from_secs(2);
/// The bytes that are read from a client at once.
const READ_BYTES: usize = 32 << 10;

/// What serves clients that send lines.
pub struct LineService {
    pub history: Arc<dyn HistoryService>,
    pub readers: Arc<ReaderPool>,
    pub workers: Workers,
    pub memory: Arc<ClientMemory>,
    pub metrics: ServiceMetrics,
    pub idle_timeout: Duration,
    pub control: ServiceControl,
}

/// How the input of a client ended.
enum InputEnd {
    /// The client has closed its side.
    Closed,
    /// The server reads no more.
    Stopped,
}

/// The half of a connection that reads.
struct LineReader<'c> {
    service: &'c LineService,
    place: &'c ClientPlace,
    backlog: &'c Backlog,
    memory: &'c MemoryShare,
    due: UnboundedSender<DueAnswers>,
    input: LineInput,
    /// When the line that is incomplete has to be complete.
    deadline: Option<Instant>,
}

impl LineService {
    /// Serves a client until it has all its answers. `reading` is dropped when nothing more is read.
    pub async fn serve<G>(&self, stream: ServiceStream, place: ClientPlace, reading: G) {
        let memory = MemoryShare::new(self.memory.clone());
        let backlog = Backlog::default();
        let (due, answers) = mpsc::unbounded_channel();
        let reader = LineReader {
            service: self,
            place: &place,
            backlog: &backlog,
            memory: &memory,
            due,
            input: LineInput::default(),
            deadline: None,
        };
        let read = async {
            let end = reader.run(&stream).await;
            drop(reading);
            end
        };
        let with_all = self.history.rules().limits.top > 1;
        let write = write_answers(&stream, answers, &backlog, &memory, with_all);
        let (end, written) = tokio::join!(read, write);
        if written.is_ok() {
            leave(stream, matches!(end, InputEnd::Closed)).await;
        }
    }
}

impl LineReader<'_> {
    /// Reads requests and submits them.
    async fn run(mut self, stream: &ServiceStream) -> InputEnd {
        loop {
            let read = tokio::select! {
                biased;
                () = self.service.control.stopped() => return InputEnd::Stopped,
                () = self.place.evicted() => return self.refuse("others wait for its place"),
                read = read_some(&mut self.input, self.backlog, self.memory, &mut self.deadline, stream) => read,
            };
            match read {
                Err(ReadError::Memory) => {
                    let most = self.service.memory.most();
                    return self.refuse(&format!(
                        "all clients together have {most} bytes, which is the limit; try again later"
                    ));
                }
                Err(ReadError::Late) => {
                    let seconds = self.service.idle_timeout.as_secs();
                    return self.refuse(&format!("it is not complete after {seconds} s"));
                }
                Err(ReadError::Broken) => return InputEnd::Stopped,
                Ok(0) => {
                    let last = self.input.take_end();
                    self.take(Vec::new(), last).await;
                    return InputEnd::Closed;
                }
                Ok(_) => {
                    let mut requests = Vec::new();
                    let readers = &self.service.readers;
                    let long = readers.with(|reader| self.input.take_lines(reader, &mut requests));
                    let has_lines = long.is_some() || !requests.is_empty();
                    self.take(requests, long).await;
                    if self.input.bytes.len() > LINE_BYTES {
                        return self.refuse(&format!("more than {LINE_BYTES} bytes in a line"));
                    }
                    self.note_time(has_lines);
                }
            }
        }
    }

    /// Notes how long the client may take for its next line.
    fn note_time(&mut self, has_lines: bool) {
        let is_partial = self.input.is_partial();
        if !is_partial {
            self.deadline = None;
        } else if has_lines || self.deadline.is_none() {
            self.deadline = Some(Instant::now() + self.service.idle_timeout);
        }
        self.place.note(is_partial);
    }

    /// Submits requests, and those of a block that a worker may have to parse.
    async fn take(&mut self, requests: Vec<ServiceRequest>, block: Option<LineBlock>) {
        self.submit(requests);
        let Some(block) = block else { return };
        let readers = self.service.readers.clone();
        let parse = move || readers.with(|reader| block.parse(reader));
        match self.service.workers.run_in_turn(parse).await {
            Ok((requests, lines)) => {
                self.input.line += lines;
                self.submit(requests);
            }
            Err(_) => {
                let line = self.input.line + 1;
                self.answer(ServiceAnswer::Failed(format!(
                    "line {line}: the thread that read it died"
                )));
            }
        }
        self.memory.try_set_input(self.input.bytes.capacity());
    }

    fn submit(&self, requests: Vec<ServiceRequest>) {
        if requests.is_empty() {
            return;
        }
        let count = requests.len();
        self.service.metrics.count_lines(count);
        let (reply, answers) = oneshot::channel();
        self.backlog.add(count);
        self.service.history.submit(requests, reply);
        // The other half is gone if the connection is broken.
        let _ = self.due.send(DueAnswers { answers, count });
    }

    /// An answer after all others.
    fn answer(&self, answer: ServiceAnswer) {
        let (reply, answers) = oneshot::channel();
        self.backlog.add(1);
        drop(reply.send(vec![answer]));
        let _ = self.due.send(DueAnswers { answers, count: 1 });
    }

    /// Ends the input with an error.
    fn refuse(&self, what: &str) -> InputEnd {
        self.answer(ServiceAnswer::Refused(format!(
            "line {}: {what}; the connection is closed",
            self.input.line + 1
        )));
        InputEnd::Stopped
    }
}

/// Why nothing was read.
enum ReadError {
    /// There is no memory for a long line.
    Memory,
    /// The rest of a line did not come.
    Late,
    /// The connection is broken.
    Broken,
}

/// Reads once the client has read enough of its answers, and there is memory.
async fn read_some(
    input: &mut LineInput,
    backlog: &Backlog,
    memory: &MemoryShare,
    deadline: &mut Option<Instant>,
    stream: &ServiceStream,
) -> Result<usize, ReadError> {
    let start = Instant::now();
    if !backlog.room().await {
        return Err(ReadError::Broken);
    }
    if !memory.set_input(input.room_for(READ_BYTES), PATIENCE).await {
        return Err(ReadError::Memory);
    }
    // The client is not to blame for the time that it was not read from.
    *deadline = deadline.map(|deadline| deadline + start.elapsed());
    if input.is_partial() {
        input.make_room(READ_BYTES);
    }
    let read = async {
        if input.bytes.capacity() == 0 {
            stream.readable().await?;
            input.make_room(READ_BYTES);
        }
        stream.read(&mut input.bytes).await
    };
    let read = match *deadline {
        Some(deadline) => timeout_at(deadline, read)
            .await
            .map_err(|_| ReadError::Late)?,
        None => read.await,
    };
    read.map_err(|_| ReadError::Broken)
}

/// Ends a connection. Closing it earlier could discard answers on their way.
async fn leave(mut stream: ServiceStream, is_closed: bool) {
    if stream.shutdown().await.is_err() || is_closed {
        return;
    }
    let ignore = async {
        let mut block = vec![0; READ_BYTES];
        while stream.read(&mut block).await.is_ok_and(|count| count > 0) {}
    };
    // A client that stays is disconnected.
    let _ = timeout(LAST_WAIT, ignore).await;
}

/// Sends an error to a client that gets no place.
pub async fn refuse_lines(mut stream: ServiceStream, what: &str) {
    let mut line = Vec::new();
    put_error(&mut line, what);
    if timeout(LAST_WAIT, stream.write_all(&line)).await.is_ok() {
        leave(stream, false).await;
    }
}
