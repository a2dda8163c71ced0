//! What a client has sent: complete lines become requests, the beginning of a line waits for its
//! rest.

use crate::service::history::{RequestReader, ServiceRequest};

/// A longer line is parsed by a worker, as parsing takes longer than waking one.
pub const SHORT_BYTES: usize = 1 << 10;

/// The input of a client.
#[derive(Default)]
pub struct LineInput {
    /// What was received and is not parsed yet.
    pub bytes: Vec<u8>,
    /// The bytes at its start that have no line feed.
    scanned: usize,
    /// The number of the last line that was parsed.
    pub line: u64,
}

/// Complete lines of a client, from the first long one on; the last one without its line feed.
#[derive(Debug, PartialEq)]
pub struct LineBlock {
    lines: Vec<u8>,
    /// The number of the first line.
    first_line: u64,
}

impl LineInput {
    /// The capacity that `more` bytes take.
    pub fn room_for(&self, more: usize) -> usize {
        let length = self.bytes.len() + more;
        if length > self.bytes.capacity() {
            length.next_power_of_two()
        } else {
            self.bytes.capacity()
        }
    }

    /// Reserves that capacity.
    pub fn make_room(&mut self, more: usize) {
        let capacity = self.room_for(more);
        self.bytes.reserve_exact(capacity - self.bytes.len());
    }

    /// Whether it is the beginning of a line.
    pub fn is_partial(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Parses complete lines as long as they are short; returns those from the first long one on.
    pub fn take_lines(
        &mut self,
        reader: &mut RequestReader,
        requests: &mut Vec<ServiceRequest>,
    ) -> Option<LineBlock> {
        let Some(last) = memchr::memrchr(b'\n', &self.bytes[self.scanned..]) else {
            self.scanned = self.bytes.len();
            return None;
        };
        let end = self.scanned + last + 1;
        let read = self.read_short(end, reader, requests);
        let rest = self.bytes[end..].to_vec();
        let mut lines = std::mem::replace(&mut self.bytes, rest);
        self.scanned = self.bytes.len();
        if read == end {
            return None;
        }
        lines.truncate(end - 1);
        lines.drain(..read);
        Some(LineBlock {
            lines,
            first_line: self.line + 1,
        })
    }

    /// Parses lines before `end` as long as they are short; returns their length.
    fn read_short(
        &mut self,
        end: usize,
        reader: &mut RequestReader,
        requests: &mut Vec<ServiceRequest>,
    ) -> usize {
        let mut at = 0;
        while let Some(length) =
            memchr::memchr(b'\n', &self.bytes[at..end]).filter(|&length| length <= SHORT_BYTES)
        {
            self.line += 1;
            requests.extend(reader.read(&mut self.bytes[at..at + length], self.line));
            at += length + 1;
        }
        at
    }

    /// The last line, which may lack its line feed.
    pub fn take_end(&mut self) -> Option<LineBlock> {
        self.scanned = 0;
        let lines = std::mem::take(&mut self.bytes);
        (!lines.is_empty()).then(|| LineBlock {
            lines,
            first_line: self.line + 1,
        })
    }
}

impl LineBlock {
    /// Parses all lines; returns their requests and their number.
    pub fn parse(mut self, reader: &mut RequestReader) -> (Vec<ServiceRequest>, u64) {
        let mut requests = Vec::new();
        let mut lines = 0;
        for line in self.lines.split_mut(|&byte| byte == b'\n') {
            requests.extend(reader.read(line, self.first_line + lines));
            lines += 1;
        }
        reader.release_buffers();
        (requests, lines)
    }
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
            let (all, mut reader) = (lines.join("\n").into_bytes(), reader());
            let expected: Vec<ServiceRequest> = (1..).zip(&lines).filter_map(|(number, line)| reader.read(&mut line.clone().into_bytes(), number)).collect();
            let (mut input, mut found, mut left) = (LineInput::default(), Vec::new(), &all[..]);
            let parse = |block: Option<LineBlock>, found: &mut Vec<ServiceRequest>, reader: &mut RequestReader| {
                block.map_or(0, |block| {
                    let (requests, lines) = block.parse(reader);
                    found.extend(requests);
                    lines
                })
            };
            for cut in cuts.into_iter().cycle() {
                let (now, later) = left.split_at(cut.min(left.len()));
                left = later;
                input.make_room(now.len());
                prop_assert!(input.bytes.capacity() - input.bytes.len() >= now.len());
                input.bytes.extend_from_slice(now);
                let block = input.take_lines(&mut reader, &mut found);
                input.line += parse(block, &mut found, &mut reader);
                if left.is_empty() {
                    break;
                }
            }
            let last = input.take_end();
            parse(last, &mut found, &mut reader);
            prop_assert_eq!(found, expected);
        }
    }
}
