//! One client: its incomplete line, and the answers that it has not read yet.

use super::{
    line_readers::LineBlock,
    request_reader::{RequestReader, ServiceRequest},
};
use crate::{
    base::codec::clear_buffer,
    history::backend::{Connection, LINE_BYTES},
};
use std::{
    io::{self, Read},
    net::Shutdown,
    time::Instant,
};

/// The memory for lines and answers that each client has for itself, so that others cannot stall
/// it.
const SHARE_BYTES: usize = 256 << 10;
/// A client with this many unread answers, or bytes of them, is not read from.
const MOST_ANSWERS: usize = 1024;
const MOST_BYTES: usize = 16 << 20;
/// A longer line is parsed by another thread, as parsing takes longer than waking one.
const SHORT_BYTES: usize = 1 << 10;

/// The phase of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientPhase {
    /// The client sends lines.
    Open,
    /// The server reads no more; some answers are still due.
    Closing,
    /// All answers are sent, and further input is ignored. Closing the socket earlier could discard
    /// answers on their way.
    Leaving,
    /// The connection is broken, or ended.
    Gone,
}

pub struct ServiceClient {
    number: usize,
    stream: Connection,
    pub phase: ClientPhase,
    /// The beginning of a line that is incomplete.
    input: Vec<u8>,
    /// The number of the last line.
    line: u64,
    /// Answers, how many bytes of them were sent, and how many were not sent completely.
    output: Vec<u8>,
    taken: usize,
    answers: usize,
    /// The bytes of lines that other threads are parsing.
    away: Option<usize>,
    /// The number of requests without an answer yet.
    pub asked: usize,
    /// Whether the socket may be readable and writable, until a call says otherwise.
    pub can_read: bool,
    pub can_write: bool,
    /// Whether the peer has closed its side; and whether all input before that was read.
    pub is_closed: bool,
    is_at_end: bool,
    /// When to disconnect it because it takes too long.
    pub deadline: Option<Instant>,
    /// Whether it is in the queue for a turn.
    pub is_queued: bool,
    /// The bytes that count towards the common limit.
    pub counted: usize,
    /// Whether it exceeds the number of clients: it gets one error line.
    pub is_refused: bool,
}

/// The result of reading from a socket.
pub enum Received {
    Nothing,
    Bytes(usize),
    End,
}

impl ServiceClient {
    pub fn new(number: usize, stream: Connection) -> Self {
        Self {
            number,
            stream,
            phase: ClientPhase::Open,
            input: Vec::new(),
            line: 0,
            output: Vec::new(),
            taken: 0,
            answers: 0,
            away: None,
            asked: 0,
            can_read: true,
            can_write: true,
            is_closed: false,
            is_at_end: false,
            deadline: None,
            is_queued: false,
            counted: 0,
            is_refused: false,
        }
    }

    /// The bytes beyond its own share, if `more` bytes are added to its line.
    pub fn excess(&self, more: usize) -> usize {
        (self.room_for(more) + self.output.len() + self.away.unwrap_or(0))
            .saturating_sub(SHARE_BYTES)
    }

    /// The capacity for its line with `more` bytes. Most lines arrive at once and need none.
    fn room_for(&self, more: usize) -> usize {
        let length = if self.input.is_empty() {
            0
        } else {
            self.input.len() + more
        };
        if length > self.input.capacity() {
            length.next_power_of_two()
        } else {
            self.input.capacity()
        }
    }

    /// Reserves capacity for `more` bytes of its line.
    pub fn make_room(&mut self, more: usize) {
        self.input
            .reserve_exact(self.room_for(more) - self.input.len());
    }

    /// Whether to read from it, if there is memory.
    pub fn is_listened_to(&self) -> bool {
        self.phase == ClientPhase::Open
            && self.away.is_none()
            && self.answers < MOST_ANSWERS
            && self.unsent().len() < MOST_BYTES
    }

    /// Whether its line would be long with `more` bytes.
    pub fn is_in_long_line(&self, more: usize) -> bool {
        self.room_for(more) > SHARE_BYTES
    }

    /// Whether none of its requests is in progress.
    pub fn is_idle(&self) -> bool {
        self.away.is_none() && self.asked == 0
    }

    /// Whether all its requests are answered, and all answers are sent.
    pub fn is_answered(&self) -> bool {
        self.is_idle() && self.unsent().is_empty()
    }

    fn unsent(&self) -> &[u8] {
        &self.output[self.taken..]
    }

    /// Reads what has arrived, as far as the block has room.
    pub fn receive(&mut self, block: &mut [u8]) -> Received {
        loop {
            match (&self.stream).read(block) {
                Ok(0) => {
                    self.is_at_end = true;
                    return Received::End;
                }
                Ok(count) => {
                    // A partly filled block means that all was read; but the end of the stream is
                    // signalled only once.
                    self.can_read = count == block.len() || self.is_closed;
                    return Received::Bytes(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.can_read = false;
                    return Received::Nothing;
                }
                Err(_) => {
                    self.phase = ClientPhase::Gone;
                    return Received::Nothing;
                }
            }
        }
    }

    /// Reads and discards input.
    pub fn ignore(&mut self, block: &mut [u8]) {
        if self.can_read && matches!(self.receive(block), Received::End) {
            self.phase = ClientPhase::Gone;
        }
    }

    /// Takes received bytes: parses short lines, and returns a block for other threads from the
    /// first long line on. An incomplete line waits for its rest.
    pub fn take(
        &mut self,
        block: &mut [u8],
        reader: &mut RequestReader,
        mut asked: impl FnMut(ServiceRequest),
    ) -> Option<LineBlock> {
        let Some(last) = memchr::memrchr(b'\n', block) else {
            self.take_part(block);
            if self.input.len() > LINE_BYTES {
                asked(self.refuse(&format!("more than {LINE_BYTES} bytes in a line")));
            }
            return None;
        };
        let (whole, rest) = block.split_at_mut(last + 1);
        let piece = if self.input.is_empty() {
            let read = self.read_short(whole, reader, asked);
            (read < whole.len()).then(|| whole[read..last].to_vec())
        } else {
            let mut lines = std::mem::take(&mut self.input);
            lines.extend_from_slice(whole);
            let read = self.read_short(&mut lines, reader, asked);
            lines.drain(..read);
            // The line feed of the last line.
            lines.pop().map(|_| lines)
        };
        self.take_part(rest);
        piece.map(|lines| self.send_away(lines))
    }

    /// Takes a part of a line.
    pub fn take_part(&mut self, part: &[u8]) {
        self.input.extend_from_slice(part);
    }

    /// Takes the end of the input: the last line may lack its line feed.
    pub fn take_end(
        &mut self,
        reader: &mut RequestReader,
        mut asked: impl FnMut(ServiceRequest),
    ) -> Option<LineBlock> {
        self.phase = ClientPhase::Closing;
        let mut line = std::mem::take(&mut self.input);
        if line.len() > SHORT_BYTES {
            return Some(self.send_away(line));
        }
        self.line += 1;
        reader
            .read(&mut line, self.line)
            .into_iter()
            .for_each(&mut asked);
        None
    }

    /// Parses lines as long as they are short; returns their length.
    fn read_short(
        &mut self,
        lines: &mut [u8],
        reader: &mut RequestReader,
        mut asked: impl FnMut(ServiceRequest),
    ) -> usize {
        let mut at = 0;
        while let Some(length) =
            memchr::memchr(b'\n', &lines[at..]).filter(|&length| length <= SHORT_BYTES)
        {
            self.line += 1;
            reader
                .read(&mut lines[at..at + length], self.line)
                .into_iter()
                .for_each(&mut asked);
            at += length + 1;
        }
        at
    }

    fn send_away(&mut self, lines: Vec<u8>) -> LineBlock {
        self.away = Some(lines.capacity());
        LineBlock {
            client: self.number,
            lines,
            first_line: self.line + 1,
        }
    }

    /// Notes that other threads have parsed this number of lines.
    pub fn come_back(&mut self, lines: u64) {
        self.away = None;
        self.line += lines;
    }

    /// Stops reading; the returned request answers with the reason.
    pub fn refuse(&mut self, what: &str) -> ServiceRequest {
        self.input = Vec::new();
        self.phase = ClientPhase::Closing;
        ServiceRequest::Wrong(format!(
            "line {}: {what}; the connection is closed",
            self.line + 1
        ))
    }

    /// Sends answers as far as the socket takes them; keeps the rest.
    pub fn answer(&mut self, lines: &[u8]) {
        let written = if self.unsent().is_empty() {
            self.send(lines)
        } else {
            0
        };
        if self.phase != ClientPhase::Gone && written < lines.len() {
            self.output.extend_from_slice(&lines[written..]);
            self.answers += count_lines(&lines[written..]);
        }
    }

    /// Sends kept answers as far as the socket takes them.
    pub fn flush(&mut self) {
        let mut output = std::mem::take(&mut self.output);
        let written = self.send(&output[self.taken..]);
        self.answers -= count_lines(&output[self.taken..self.taken + written]);
        self.taken += written;
        if self.taken == output.len() || self.phase == ClientPhase::Gone {
            (self.taken, self.answers) = (0, 0);
            clear_buffer(&mut output);
        } else if self.taken > output.len() / 2 {
            output.drain(..self.taken);
            self.taken = 0;
        }
        self.output = output;
    }

    /// Returns the number of bytes that were sent.
    fn send(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while self.phase != ClientPhase::Gone && self.can_write && written < bytes.len() {
            match self.stream.write_now(&bytes[written..]) {
                Ok(0) => self.can_write = false,
                Ok(count) => written += count,
                Err(_) => self.phase = ClientPhase::Gone,
            }
        }
        written
    }

    /// Closes the sending side; if the peer has closed its side, the connection ends.
    pub fn leave(&mut self) {
        self.stream.shut(Shutdown::Write);
        self.phase = if self.is_at_end {
            ClientPhase::Gone
        } else {
            ClientPhase::Leaving
        };
    }
}

fn count_lines(lines: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', lines).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::{MatchLimits, Ratio},
        text::{
            corpus,
            scheme::PrintScheme,
            token::{Rule, Tokenizer},
        },
    };
    use proptest::prelude::*;
    use std::os::unix::net::UnixStream;

    fn client() -> (ServiceClient, UnixStream) {
        let (own, other) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        (ServiceClient::new(7, Connection::Unix(own)), other)
    }

    fn reader() -> RequestReader {
        let scheme = PrintScheme {
            tokens: Tokenizer::new(Rule::Word, false).scheme(),
        };
        RequestReader::new(
            &corpus::Options::default(),
            &scheme,
            MatchLimits {
                min_similarity: Ratio::ALL,
                top: 1,
            },
        )
        .unwrap()
    }

    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            Just("no JSON".to_owned()),
            (0_u8..9).prop_map(|id| format!("{{\"remove\":\"{id}\"}}")),
            (0..2 * SHORT_BYTES)
                .prop_map(|length| format!("{{\"text\":\"{}\"}}", "a b".repeat(length / 3))),
        ]
    }

    proptest! {
        /// The same requests in the same order, with the same line numbers, wherever the input is
        /// cut.
        #[test]
        fn lines_are_the_same_however_they_come(lines in prop::collection::vec(line(), 0..20), cuts in prop::collection::vec(1_usize..3000, 1..40)) {
            let (mut all, mut reader) = (lines.join("\n").into_bytes(), reader());
            let expected: Vec<ServiceRequest> = (1..).zip(&lines).filter_map(|(number, line)| reader.read(&mut line.clone().into_bytes(), number)).collect();
            let ((mut client, _other), mut found, mut cuts, mut left) = (client(), Vec::new(), cuts.into_iter().cycle(), &mut all[..]);
            loop {
                let (block, later) = left.split_at_mut(cuts.next().unwrap_or(1).min(left.len()));
                left = later;
                let is_end = block.is_empty();
                client.make_room(block.len());
                let mut asked = |one| found.push(one);
                let piece = if is_end { client.take_end(&mut reader, &mut asked) } else { client.take(block, &mut reader, &mut asked) };
                prop_assert_eq!(client.is_listened_to(), piece.is_none() && !is_end);
                if let Some(piece) = piece {
                    let read = piece.parse(&mut reader);
                    prop_assert_eq!(read.client, 7);
                    found.extend(read.requests);
                    client.come_back(read.lines);
                }
                if is_end {
                    break;
                }
            }
            prop_assert_eq!(found, expected);
        }
    }

    /// A client that does not read its answers is not read from until it does; it gets every byte,
    /// in order.
    #[test]
    fn answers_to_a_slow_client_are_buffered() {
        let (mut client, mut other) = client();
        let (line, mut sent) = (format!("{}\n", "x".repeat(999)), 0);
        while client.is_listened_to() {
            client.answer(line.as_bytes());
            sent += 1;
        }
        assert!(!client.can_write && client.answers == MOST_ANSWERS && client.excess(0) > 0);
        let (mut taken, mut block) = (0, vec![0; 50_000]);
        while !client.is_answered() {
            let count = other.read(&mut block).unwrap();
            assert!(
                block[..count]
                    .iter()
                    .zip(taken..)
                    .all(|(&byte, at)| (byte == b'\n') == (at % 1000 == 999))
            );
            taken += count;
            client.can_write = true;
            client.flush();
            let unsent = client.unsent().len();
            assert_eq!(client.answers, unsent.div_ceil(1000));
            assert!(client.output.len() <= 2 * unsent.max(1));
        }
        assert!(client.is_listened_to() && client.excess(0) == 0);
        client.leave();
        other.read_to_end(&mut block).unwrap();
        assert_eq!(taken + block.len() - 50_000, 1000 * sent);
    }
}
