//! Windows of `k` tokens in a row: of a document, of interleaved streams, or of both strands of
//! DNA.

use super::shape::Windows;
use crate::{
    base::codec::clear_buffer,
    text::{
        stream::{Blots, Tokens},
        token::dna,
    },
};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// Makes the windows; owns the reused buffers.
#[derive(Debug, Clone)]
pub struct Runs {
    windows: Windows,
    k: usize,
    interleave: usize,
    streams: Vec<Stream>,
    /// A block of a sequence, and of the other strand.
    strands: [Stream; 2],
}

/// The number of windows of a sequence that are made at a time.
const BLOCK_WINDOWS: usize = 1 << 12;

/// One of the interleaved streams of a document: its token hashes and its windows.
#[derive(Debug, Clone, Default)]
struct Stream {
    hashes: Vec<u64>,
    values: Vec<u64>,
}

impl Runs {
    /// Windows of `k` tokens of each of `interleave` streams.
    pub fn new(windows: Windows, k: u32, interleave: u32) -> Self {
        let (k, interleave) = (k as usize, interleave as usize);
        Self {
            windows,
            k,
            interleave,
            streams: vec![Stream::default(); interleave],
            strands: Default::default(),
        }
    }

    /// The length and the function of the windows, if there is one stream.
    pub fn in_a_row(&self) -> Option<(usize, Windows)> {
        (self.interleave == 1).then_some((self.k, self.windows))
    }

    /// Frees large buffers.
    pub fn release_buffers(&mut self) {
        for stream in &mut self.streams {
            clear_buffer(&mut stream.hashes);
            clear_buffer(&mut stream.values);
        }
    }

    /// The blots of all streams, in the order of their first tokens.
    pub fn blot_streams(&mut self, hashes: &[u64], out: &mut Blots) {
        let streams = self.streams.len();
        for (index, stream) in self.streams.iter_mut().enumerate() {
            clear_buffer(&mut stream.hashes);
            stream
                .hashes
                .extend(hashes.iter().skip(index).step_by(streams));
            clear_buffer(&mut stream.values);
            (self.windows)(&stream.hashes, self.k, &mut stream.values);
        }
        for position in 0..hashes.len() {
            if let Some(&value) = self.streams[position % streams]
                .values
                .get(position / streams)
            {
                out.push(value, position as u32);
            }
        }
    }

    /// For each window the smaller of its number and that of the opposite window on the other
    /// strand.
    ///
    /// Leaves out windows with unknown bases. Sequences are long, so this works block by block.
    pub fn blot_strands(&mut self, tokens: &Tokens, out: &mut Blots) {
        let (streams, k) = (self.interleave, self.k);
        for first in 0..streams {
            let bases = (tokens.len().saturating_sub(first)).div_ceil(streams);
            let windows = if bases == 0 {
                0
            } else {
                (bases + 1).saturating_sub(k).max(1)
            };
            for start in (0..windows).step_by(BLOCK_WINDOWS) {
                let end = (start + BLOCK_WINDOWS.min(windows - start) + k - 1).min(bases);
                self.blot_block(tokens, first, start..end, out);
            }
        }
        sort_by_position(out);
    }

    /// The windows within some bases of a stream.
    fn blot_block(&mut self, tokens: &Tokens, first: usize, bases: Range<usize>, out: &mut Blots) {
        let (streams, k) = (self.interleave, self.k);
        let base = |at: usize| tokens.get(first + at * streams);
        let [own, other] = &mut self.strands;
        own.refill(bases.clone().map(|at| xxh3_64(base(at))), k, self.windows);
        other.refill(
            bases
                .clone()
                .rev()
                .map(|at| xxh3_64(dna::complement(base(at)))),
            k,
            self.windows,
        );
        let width = k.min(bases.len());
        let unknown = xxh3_64(dna::UNKNOWN);
        // The position after the last unknown base.
        let mut known = (0..width - 1)
            .rev()
            .find(|&at| own.hashes[at] == unknown)
            .map_or(0, |at| at + 1);
        for (at, (&one, &two)) in own.values.iter().zip(other.values.iter().rev()).enumerate() {
            if own.hashes[at + width - 1] == unknown {
                known = at + width;
            }
            if known <= at {
                out.push(one.min(two), (first + (bases.start + at) * streams) as u32);
            }
        }
    }
}

impl Stream {
    fn refill(&mut self, hashes: impl Iterator<Item = u64>, k: usize, windows: Windows) {
        self.hashes.clear();
        self.hashes.extend(hashes);
        self.values.clear();
        windows(&self.hashes, k, &mut self.values);
    }
}

fn sort_by_position(blots: &mut Blots) {
    if blots.positions.is_sorted() {
        return;
    }
    let mut both: Vec<_> = blots
        .positions
        .iter()
        .copied()
        .zip(blots.values.iter().copied())
        .collect();
    both.sort_unstable();
    (blots.positions, blots.values) = both.into_iter().unzip();
}
