//! Numbers of any width in bits, lowest bit first; and the codes that postings are written in.

use crate::base::num::{ToU32, ToUsize};
/// Appends bits to bytes.
#[derive(Debug, Default)]
pub struct BitWriter {
    /// The bytes that are complete.
    pub bytes: Vec<u8>,
    pending: u64,
    used: u32,
}

impl BitWriter {
    /// Continues after these bytes.
    pub fn after(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// Appends at most `PUT_BITS` bits.
    pub fn put(&mut self, value: u64, width: u32) {
        debug_assert!(width <= PUT_BITS && value >> width == 0);
        self.pending |= value << self.used;
        self.used += width;
        // Eight bytes, of which those that are complete are kept: pushing these one by one takes
        // twice as long.
        let kept = self.bytes.len() + (self.used / 8).to_usize();
        self.bytes.extend_from_slice(&self.pending.to_le_bytes());
        self.bytes.truncate(kept);
        self.pending >>= self.used & !7;
        self.used &= 7;
    }

    /// Appends up to 64 bits.
    pub fn put_wide(&mut self, value: u64, width: u32) {
        if width > 32 {
            self.put(value & 0xffff_ffff, 32);
            self.put(value >> 32, width - 32);
        } else {
            self.put(value, width);
        }
    }

    /// Golomb–Rice: the high part in ones and a zero, the low `parameter` bits as they are. Gaps of mean g cost log2(g) + 1.5 bits.
    ///
    /// 13 with parameter 2 is 3 in ones, a zero, and 01: `111 0 01`, read from the left.
    pub fn put_rice(&mut self, value: u64, parameter: u32) {
        let mut ones = value >> parameter;
        let low = value & ((1 << parameter) - 1);
        if ones + 1 + u64::from(parameter) <= u64::from(PUT_BITS) {
            let width = ones.to_u32() + 1 + parameter;
            return self.put(((1 << ones) - 1) | (low << (ones + 1)), width);
        }
        while ones >= 32 {
            self.put(0xffff_ffff, 32);
            ones -= 32;
        }
        self.put((1 << ones) - 1, ones.to_u32() + 1);
        self.put_wide(low, parameter);
    }

    /// Fills the last byte with zeros.
    pub fn align(&mut self) {
        if self.used > 0 {
            self.put(0, 8 - self.used);
        }
    }
}

/// The most bits that [`BitWriter::put`] takes.
const PUT_BITS: u32 = 56;

/// The least number of bits that [`BitReader::peek`] returns.
const PEEKED_BITS: u32 = 56;

/// Reads bits. Bits past the end are zeros, and `is_past_end` is true then.
#[derive(Debug, Clone)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// True once more bits were read than there are: the data is damaged.
    pub fn is_past_end(&self) -> bool {
        self.at > 8 * self.bytes.len()
    }

    /// The next bits, at least [`PEEKED_BITS`] of them.
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => rest
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | u64::from(byte)),
        };
        word >> (self.at % 8)
    }

    /// The last `width` bits before the current position.
    fn before(&self, width: u32) -> u64 {
        Self {
            bytes: self.bytes,
            at: self.at.saturating_sub(width.to_usize()),
        }
        .take(width)
    }

    /// The next bits, at most 56.
    pub fn take(&mut self, width: u32) -> u64 {
        let value = self.peek() & ((1 << width) - 1);
        self.at += width.to_usize();
        value
    }

    /// The next bits, at most 64.
    pub fn take_wide(&mut self, width: u32) -> u64 {
        if width > 32 {
            self.take(32) | self.take(width - 32) << 32
        } else {
            self.take(width)
        }
    }

    /// Skips some bits.
    pub fn skip(&mut self, bits: u64) {
        self.at = self
            .at
            .saturating_add(usize::try_from(bits).unwrap_or(usize::MAX));
    }

    /// A number that [`BitWriter::put_rice`] wrote.
    pub fn take_rice(&mut self, parameter: u32) -> u64 {
        let word = self.peek();
        let ones = word.trailing_ones();
        if ones + 1 + parameter <= PEEKED_BITS {
            self.at += (ones + 1 + parameter).to_usize();
            return u64::from(ones) << parameter | word >> (ones + 1) & ((1 << parameter) - 1);
        }
        self.take_wide_rice(parameter)
    }

    #[cold]
    fn take_wide_rice(&mut self, parameter: u32) -> u64 {
        let mut high = 0;
        loop {
            let ones = self.peek().trailing_ones().min(32);
            high += u64::from(ones);
            self.at += ones.to_usize();
            if ones < 32 || self.is_past_end() {
                break;
            }
        }
        self.at += 1;
        high << parameter | self.take_wide(parameter)
    }
}

/// A prefix code for numbers of which small ones are frequent: the bit length in a Huffman code, then the bits below the top one.
///
/// With the lengths of numbers known beforehand this comes within a fraction of a bit of their entropy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberCode {
    /// For each bit length 0 to 32, the width of its codeword; 0 if it does not occur.
    widths: [u8; CLASSES],
    codewords: [u32; CLASSES],
    /// The class that the next bits tell, for codewords that are short enough.
    classes: Box<[u8]>,
}

const CLASSES: usize = 33;
const TABLE_BITS: u32 = 11;
const LONG: u8 = u8::MAX;

impl NumberCode {
    /// The best code for numbers of which `counts[n]` have a bit length of n.
    pub fn for_counts(counts: &[u64; CLASSES]) -> Self {
        let mut widths = [0; CLASSES];
        let mut trees: Vec<(u64, Vec<usize>)> = (0..CLASSES)
            .filter(|&class| counts[class] > 0)
            .map(|class| (counts[class], vec![class]))
            .collect();
        if let [(_, only)] = &trees[..] {
            widths[only[0]] = 1;
        }
        while trees.len() > 1 {
            // Rarest last; among equals the order is fixed, so that the code is.
            trees.sort_by(|(one, a), (two, b)| two.cmp(one).then_with(|| b.cmp(a)));
            let (Some((one, mut classes)), Some((two, more))) = (trees.pop(), trees.pop()) else {
                break;
            };
            classes.extend(more);
            classes.iter().for_each(|&class| widths[class] += 1);
            classes.sort_unstable();
            trees.push((one + two, classes));
        }
        Self::of_checked(widths)
    }

    /// The code with these widths, unless no code has them.
    pub fn of_widths(widths: &[u8]) -> Option<Self> {
        let widths: [u8; CLASSES] = widths
            .try_into()
            .ok()
            .filter(|widths: &[u8; CLASSES]| widths.iter().all(|&width| width <= 32))?;
        let used: u64 = widths
            .iter()
            .filter(|&&width| width > 0)
            .map(|&width| 1 << (32 - width))
            .sum();
        (used <= 1 << 32).then(|| Self::of_checked(widths))
    }

    /// Codewords rise with their width, then with the class; written from the top bit, so stored in reverse.
    fn of_checked(widths: [u8; CLASSES]) -> Self {
        let mut codewords = [0; CLASSES];
        let (mut next, mut width) = (0_u64, 0);
        let mut classes: Vec<usize> = (0..CLASSES).filter(|&class| widths[class] > 0).collect();
        classes.sort_by_key(|&class| (widths[class], class));
        for class in classes {
            next <<= widths[class] - width;
            width = widths[class];
            codewords[class] = (next as u32).reverse_bits() >> (32 - u32::from(width));
            next += 1;
        }
        let mut code = Self {
            widths,
            codewords,
            classes: Box::default(),
        };
        code.classes = (0..1_u32 << TABLE_BITS)
            .map(|next| {
                code.class_of(next)
                    .filter(|&class| u32::from(widths[class]) <= TABLE_BITS)
                    .map_or(LONG, |class| class as u8)
            })
            .collect();
        code
    }

    fn class_of(&self, next: u32) -> Option<usize> {
        let fits = |class: &usize| {
            self.widths[*class] > 0
                && u64::from(next ^ self.codewords[*class]) & ((1 << self.widths[*class]) - 1) == 0
        };
        (0..CLASSES).find(fits)
    }

    /// The width of each codeword, by the bit length of the number.
    pub fn widths(&self) -> &[u8] {
        &self.widths
    }

    /// Appends a number.
    pub fn put(&self, out: &mut BitWriter, number: u32) {
        let class = 32 - number.leading_zeros();
        let codeword = u64::from(self.codewords[class.to_usize()]);
        let width = u32::from(self.widths[class.to_usize()]);
        let low_bits = class.saturating_sub(1);
        let low = u64::from(number) & ((1 << low_bits) - 1);
        if width + low_bits <= PUT_BITS {
            out.put(codeword | low << width, width + low_bits);
        } else {
            out.put(codeword, width);
            out.put(low, low_bits);
        }
    }

    /// Reads a number; none if no codeword fits.
    pub fn take(&self, bits: &mut BitReader<'_>) -> Option<u32> {
        let next = bits.peek();
        let (class, width) = self.class(next)?;
        let low_bits = class.saturating_sub(1);
        bits.at += (width + low_bits).to_usize();
        let low = if width + low_bits <= PEEKED_BITS {
            next >> width
        } else {
            bits.before(low_bits)
        } as u32;
        Some(if class == 0 {
            0
        } else {
            1 << low_bits | low & ((1 << low_bits) - 1)
        })
    }

    /// Skips a number; none if no codeword fits.
    pub fn skip(&self, bits: &mut BitReader<'_>) -> Option<()> {
        let (class, width) = self.class(bits.peek())?;
        bits.at += (width + class.saturating_sub(1)).to_usize();
        Some(())
    }

    /// The class of the next number, and the width of its codeword.
    fn class(&self, next: u64) -> Option<(u32, u32)> {
        let class = match self.classes[(next & ((1 << TABLE_BITS) - 1)) as usize] {
            LONG => self.class_of(next as u32)?,
            class => usize::from(class),
        };
        Some((class.to_u32(), self.widths[class].into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(numbers: &[u32]) -> [u64; CLASSES] {
        let mut counts = [0; CLASSES];
        numbers
            .iter()
            .for_each(|number| counts[32 - number.leading_zeros().to_usize()] += 1);
        counts
    }

    proptest! {
        #[test]
        fn bits_are_read_back_as_written(list in prop::collection::vec((any::<u64>(), 1_u32..=64, 0_u32..40), 0..50)) {
            let mut out = BitWriter::default();
            for &(value, width, parameter) in &list {
                out.put_wide(value >> (64 - width), width);
                out.put_rice((value >> 20) >> (44 - parameter - 4), parameter);
            }
            out.align();
            let mut bits = BitReader::new(&out.bytes);
            for &(value, width, parameter) in &list {
                prop_assert_eq!(bits.take_wide(width), value >> (64 - width));
                prop_assert_eq!(bits.take_rice(parameter), (value >> 20) >> (44 - parameter - 4));
            }
            prop_assert!(!bits.is_past_end());
        }

        #[test]
        fn numbers_are_read_back_as_written(numbers in prop::collection::vec((any::<u32>(), 0_u32..=31).prop_map(|(n, shift)| n >> shift), 1..200)) {
            let code = NumberCode::for_counts(&counts(&numbers));
            prop_assert!(NumberCode::of_widths(code.widths()) == Some(code.clone()));
            let mut out = BitWriter::default();
            numbers.iter().for_each(|&number| code.put(&mut out, number));
            out.align();
            let mut bits = BitReader::new(&out.bytes);
            for &number in &numbers {
                prop_assert_eq!(code.take(&mut bits), Some(number));
            }
        }

        #[test]
        fn damaged_bits_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), widths in prop::collection::vec(0_u8..40, 33)) {
            let mut bits = BitReader::new(&bytes);
            bits.take_rice(5);
            while !bits.is_past_end() {
                bits.take_rice(3);
                if let Some(code) = NumberCode::of_widths(&widths) {
                    code.take(&mut bits);
                }
            }
        }
    }
}
