//! Writes synthetic documents as NDJSON, for scripts/corpora/make-synthetic:
//! `synthetic_corpus DOCUMENTS [LICENCE_EVERY [MEAN_WORDS]]`. A `LICENCE_EVERY` of 0 means one licence for all.
//!
//! Uses integers only, so that every machine writes the same bytes. A document never depends on later ones,
//! so a smaller corpus is a prefix of a larger one.

use std::{
    collections::VecDeque,
    io::{self, BufWriter, ErrorKind, Write},
    process::ExitCode,
};

/// Copies are made of the most recent documents only, so that the share of copies does not depend on the size of the corpus.
const RECENT_DOCUMENTS: usize = 10_000;
const LICENCE_WORDS: usize = 170;
const DEFAULT_MEAN_WORDS: u64 = 1500;
const ONSETS: [&str; 25] = [
    "b", "br", "c", "ch", "d", "dr", "f", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pl", "r",
    "s", "st", "t", "tr", "v", "w", "z",
];
const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];

/// A word is its rank, from 1.
type Words = Vec<u32>;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`, which fits in 32 bits.
    fn below(&mut self, limit: u64) -> u64 {
        ((self.next() >> 32) * limit) >> 32
    }

    fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// A rank with probability proportional to 1/rank: all octaves are equally likely, and within an octave a
    /// draw is kept with probability 2^octave/rank.
    fn zipf(&mut self, vocabulary: u64) -> u32 {
        let octaves = u64::from(vocabulary.ilog2()) + 1;
        loop {
            let start = 1 << self.below(octaves);
            let rank = start + self.below(start);
            if rank <= vocabulary && self.below(rank) < start {
                return rank as u32;
            }
        }
    }
}

struct Writer {
    random: Random,
    recent: VecDeque<Words>,
    licence: Words,
    words: u64,
    mean_words: u64,
}

impl Writer {
    fn new(mean_words: u64) -> Self {
        let mut writer = Self {
            random: Random(1),
            recent: VecDeque::new(),
            licence: Vec::new(),
            words: 0,
            mean_words,
        };
        writer.licence = writer.fresh(LICENCE_WORDS);
        writer
    }

    /// By Heaps' law the vocabulary grows with the square root of the words written: 330,000 after 70
    /// million, a million after 600 million.
    fn vocabulary(&self) -> u64 {
        5000 + 40 * self.words.isqrt()
    }

    fn fresh(&mut self, length: usize) -> Words {
        let vocabulary = self.vocabulary();
        (0..length).map(|_| self.random.zipf(vocabulary)).collect()
    }

    /// The product of several numbers around 1 is near a log-normal distribution.
    fn length(&mut self) -> usize {
        (0..6)
            .fold(self.mean_words, |length, _| {
                length * (512 + self.random.below(1024)) / 1024
            })
            .max(20) as usize
    }

    fn document(&mut self) -> Words {
        let kind = self.random.below(100);
        let mut words = match kind {
            0 if !self.recent.is_empty() => self.earlier().clone(),
            1..=2 if !self.recent.is_empty() => self.edited(),
            _ => {
                let length = self.length();
                self.fresh(length)
            }
        };
        if (3..=7).contains(&kind) && !self.recent.is_empty() {
            self.quote(&mut words);
        }
        if kind == 8 {
            let licence = self.licence.clone();
            self.insert(&mut words, &licence);
        }
        self.words += words.len() as u64;
        self.recent.push_back(words.clone());
        if self.recent.len() > RECENT_DOCUMENTS {
            self.recent.pop_front();
        }
        words
    }

    fn earlier(&mut self) -> &Words {
        let choice = self.random.below(self.recent.len() as u64) as usize;
        &self.recent[choice]
    }

    /// A copy with one word in fifty replaced, left out, or preceded by another.
    fn edited(&mut self) -> Words {
        let vocabulary = self.vocabulary();
        let mut edited = Words::new();
        for word in self.earlier().clone() {
            match self.random.below(150) {
                0 => edited.push(self.random.zipf(vocabulary)),
                1 => {}
                2 => edited.extend([self.random.zipf(vocabulary), word]),
                _ => edited.push(word),
            }
        }
        edited
    }

    /// Inserts 20 to 200 words of an earlier document at a random place.
    fn quote(&mut self, words: &mut Words) {
        let source = self.earlier().clone();
        let length = (20 + self.random.below(181) as usize).min(source.len());
        let start = self.random.below((source.len() - length + 1) as u64) as usize;
        self.insert(words, &source[start..start + length]);
    }

    fn insert(&mut self, words: &mut Words, passage: &[u32]) {
        let place = self.random.below(words.len() as u64 + 1) as usize;
        words.splice(place..place, passage.iter().copied());
    }

    /// Words as sentences and paragraphs, escaped for JSON.
    fn text(&mut self, words: &[u32], spelling: &Spelling, text: &mut Vec<u8>) {
        let mut left = 0;
        for (place, &word) in words.iter().enumerate() {
            let starts = left == 0;
            if starts {
                left = 5 + self.random.below(26);
                let gap: &[u8] = if self.random.percent(15) {
                    b".\\n\\n"
                } else {
                    b". "
                };
                text.extend_from_slice(if place == 0 { b"" } else { gap });
            } else {
                text.push(b' ');
            }
            let start = text.len();
            spelling.spell(word, text);
            if starts {
                text[start].make_ascii_uppercase();
            }
            left -= 1;
        }
        text.push(b'.');
    }
}

/// Frequent words are short: the first 125 have one syllable, the next 15,625 two, and so on.
struct Spelling(Vec<String>);

impl Spelling {
    fn new() -> Self {
        Self(
            VOWELS
                .iter()
                .flat_map(|vowel| ONSETS.iter().map(move |onset| format!("{onset}{vowel}")))
                .collect(),
        )
    }

    fn spell(&self, rank: u32, text: &mut Vec<u8>) {
        let mut number = rank as usize - 1;
        loop {
            text.extend_from_slice(self.0[number % self.0.len()].as_bytes());
            number /= self.0.len();
            if number == 0 {
                return;
            }
            number -= 1;
        }
    }
}

fn write_documents(
    documents: u64,
    licence_every: u64,
    mean_words: u64,
    out: &mut impl Write,
) -> io::Result<()> {
    let spelling = Spelling::new();
    let mut writer = Writer::new(mean_words);
    let mut line = Vec::new();
    for number in 1..=documents {
        if licence_every > 0 && number.is_multiple_of(licence_every) {
            writer.licence = writer.fresh(LICENCE_WORDS);
        }
        let words = writer.document();
        line.clear();
        write!(line, "{{\"id\": \"s{number:07}\", \"text\": \"")?;
        writer.text(&words, &spelling, &mut line);
        line.extend_from_slice(b"\"}\n");
        out.write_all(&line)?;
    }
    out.flush()
}

fn main() -> ExitCode {
    let number = |at| {
        std::env::args()
            .nth(at)
            .and_then(|number| number.parse().ok())
    };
    let Some(documents) = number(1) else {
        eprintln!(
            "synthetic_corpus: usage: synthetic_corpus DOCUMENTS [LICENCE_EVERY [MEAN_WORDS]]"
        );
        return ExitCode::from(2);
    };
    match write_documents(
        documents,
        number(2).unwrap_or(0),
        number(3).unwrap_or(DEFAULT_MEAN_WORDS),
        &mut BufWriter::with_capacity(1 << 20, io::stdout().lock()),
    ) {
        // The reader has closed the pipe, as `head` does.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("synthetic_corpus: stdout: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
