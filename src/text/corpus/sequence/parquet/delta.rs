//! Checks the counts in a page of DELTA_LENGTH_BYTE_ARRAY or DELTA_BYTE_ARRAY, which start with blocks of packed numbers.

use super::thrift::ThriftReader;
use crate::base::num::{ToU64, ToUsize};

/// Whether `values` starts with `runs` runs of packed numbers, none of them longer than `most_values`.
pub fn counts_fit(values: &[u8], runs: usize, most_values: u64) -> bool {
    let mut rest = Some(values);
    for _ in 0..runs {
        rest = rest.and_then(|bytes| bytes.get(run_bytes(bytes, most_values)?..));
    }
    rest.is_some()
}

/// How many bytes a run of packed numbers has.
///
/// The head has the size of a block, its number of miniblocks, the count and the first number. A block has its smallest
/// delta, a bit width for each miniblock, and the miniblocks that are not past the last number.
fn run_bytes(bytes: &[u8], most_values: u64) -> Option<usize> {
    let mut reader = ThriftReader::new(bytes);
    let block_values = reader.varint().ok()?;
    let miniblocks = reader.varint().ok()?;
    let count = reader.varint().ok()?;
    reader.integer().ok()?;
    let is_even = miniblocks > 0 && block_values % miniblocks == 0;
    let values = if is_even {
        block_values / miniblocks
    } else {
        0
    };
    if count > most_values || values == 0 || values % 32 != 0 || miniblocks > bytes.len().to_u64() {
        return None;
    }
    let mut left = count.saturating_sub(1);
    let mut at = reader.position();
    while left > 0 {
        let mut block = ThriftReader::new(bytes.get(at..)?);
        block.varint().ok()?;
        let widths_at = at + block.position();
        let widths = bytes.get(widths_at..widths_at + miniblocks.to_usize())?;
        at = widths_at + widths.len();
        for &width in widths {
            if left == 0 {
                break;
            }
            let packed = u64::from(width).checked_mul(values / 8)?;
            at = at.checked_add(usize::try_from(packed).ok()?)?;
            left = left.saturating_sub(values);
        }
    }
    (at <= bytes.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_numbers() {
        // Blocks of 128 in 4 miniblocks, 3 numbers from 5 on (zigzag 10): smallest delta 1 (zigzag 2), no bits.
        let run = [128, 1, 4, 3, 10, 2, 0, 0, 0, 0, b'x'];
        assert_eq!(run_bytes(&run, 3), Some(10));
        assert_eq!(run_bytes(&run, 2), None);
        assert_eq!(run_bytes(&run[..9], 3), None);
        assert!(counts_fit(&run, 1, 3) && !counts_fit(&run, 2, 3));
    }

    #[test]
    fn a_run_with_bits() {
        // The same with 2 bits for each number of the first miniblock: 32 × 2 / 8 = 8 bytes.
        let mut run = vec![128, 1, 4, 3, 10, 2, 2, 0, 0, 0];
        run.extend_from_slice(&[0; 8]);
        assert_eq!(run_bytes(&run, 3), Some(18));
        run.pop();
        assert_eq!(run_bytes(&run, 3), None);
    }
}
