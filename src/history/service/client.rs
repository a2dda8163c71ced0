//! One client: what came of a line that is not whole, and the answers that it has not taken.

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

/// What a client may have whatever others have, of lines and of answers: so nobody can stall it.
const SHARE_BYTES: usize = 256 << 10;
/// Who has so many answers to take, or so many bytes of them, is not read from.
const MOST_ANSWERS: usize = 1024;
const MOST_BYTES: usize = 16 << 20;
/// A longer line is read by another thread: it takes longer than to wake that one.
const SHORT_BYTES: usize = 1 << 10;

/// How far a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientPhase {
    /// Lines come.
    Open,
    /// No more is read; answers to what was read are still due.
    Closing,
    /// All is said, and what still comes is let be. A socket that is closed before that takes answers with it that are on their way.
    Leaving,
    /// It is broken, or at its end.
    Gone,
}

pub struct ServiceClient {
    number: usize,
    stream: Connection,
    pub phase: ClientPhase,
    /// What came of a line that is not whole.
    input: Vec<u8>,
    /// The number of the last line.
    line: u64,
    /// Answers, how many bytes of them were taken, and how many were not taken whole.
    output: Vec<u8>,
    taken: usize,
    answers: usize,
    /// Bytes of lines that are read elsewhere.
    away: Option<usize>,
    /// Requests that were read and are not answered.
    pub asked: usize,
    /// Something may have come, and something may be written: until it turns out that not.
    pub can_read: bool,
    pub can_write: bool,
    /// The system has said that its side is closed; and all that came before was read.
    pub is_closed: bool,
    is_at_end: bool,
    /// When it is let go, as it takes too long.
    pub deadline: Option<Instant>,
    /// It is in the queue of those whose turn comes.
    pub is_queued: bool,
    /// What is counted of it against what all may have.
    pub counted: usize,
    /// It is one too many: it is told so, and nothing else.
    pub is_refused: bool,
}

/// What came.
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

    /// What it has beyond its share, of memory that all have together; with room for so much more of a line.
    pub fn excess(&self, more: usize) -> usize {
        (self.room_for(more) + self.output.len() + self.away.unwrap_or(0))
            .saturating_sub(SHARE_BYTES)
    }

    /// The room that a line has when so much more has come. Most lines come whole, and need none.
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

    /// Makes room for so much more of a line.
    pub fn make_room(&mut self, more: usize) {
        self.input
            .reserve_exact(self.room_for(more) - self.input.len());
    }

    /// Whether what comes would be read, if there is memory for it.
    pub fn is_listened_to(&self) -> bool {
        self.phase == ClientPhase::Open
            && self.away.is_none()
            && self.answers < MOST_ANSWERS
            && self.unsent().len() < MOST_BYTES
    }

    /// Whether it takes a long line that it waits with so much more.
    pub fn is_in_long_line(&self, more: usize) -> bool {
        self.room_for(more) > SHARE_BYTES
    }

    /// Whether nothing of it is under way.
    pub fn is_idle(&self) -> bool {
        self.away.is_none() && self.asked == 0
    }

    /// Whether all that was read is answered, and all answers are taken.
    pub fn is_answered(&self) -> bool {
        self.is_idle() && self.unsent().is_empty()
    }

    fn unsent(&self) -> &[u8] {
        &self.output[self.taken..]
    }

    /// Reads what has come, as far as it goes into the block.
    pub fn receive(&mut self, block: &mut [u8]) -> Received {
        loop {
            match (&self.stream).read(block) {
                Ok(0) => {
                    self.is_at_end = true;
                    return Received::End;
                }
                Ok(count) => {
                    // If there was less than there was room for, that was all; but its end is told only once.
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

    /// Reads what still comes, and lets it be.
    pub fn ignore(&mut self, block: &mut [u8]) {
        if self.can_read && matches!(self.receive(block), Received::End) {
            self.phase = ClientPhase::Gone;
        }
    }

    /// Takes what was received: short lines are read, and from the first long one on they are a piece for others. A line that is not whole
    /// waits for its rest.
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
            // The end of the last line.
            lines.pop().map(|_| lines)
        };
        self.take_part(rest);
        piece.map(|lines| self.send_away(lines))
    }

    /// Takes what is no whole line.
    pub fn take_part(&mut self, part: &[u8]) {
        self.input.extend_from_slice(part);
    }

    /// Its side is closed: the last line may lack its end.
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

    /// Reads lines as long as they are short; says how many bytes that were.
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

    /// So many lines were read elsewhere.
    pub fn come_back(&mut self, lines: u64) {
        self.away = None;
        self.line += lines;
    }

    /// Listens no more; this is why.
    pub fn refuse(&mut self, what: &str) -> ServiceRequest {
        self.input = Vec::new();
        self.phase = ClientPhase::Closing;
        ServiceRequest::Wrong(format!(
            "line {}: {what}; the connection is closed",
            self.line + 1
        ))
    }

    /// Writes answers as far as it takes them at once; the rest waits.
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

    /// Writes what waits, as far as it takes it at once.
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

    /// Says how much was taken.
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

    /// Closes its own side, when all is said; whoever has closed theirs is gone then.
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
        /// However lines come, cut anywhere, the same is asked in the same order, by lines of the same numbers.
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
                    let read = piece.read(&mut reader);
                    prop_assert_eq!(read.client, 7);
                    found.extend(read.asked);
                    client.come_back(read.lines);
                }
                if is_end {
                    break;
                }
            }
            prop_assert_eq!(found, expected);
        }
    }

    /// Who does not read is not listened to, until it reads; and gets every byte, in order.
    #[test]
    fn answers_wait_for_who_is_slow() {
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
