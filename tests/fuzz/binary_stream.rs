//! The reader of binary streams, and the records in them. Records are read without their block, too, or no input would get past the checksums.
#![no_main]

use dedup::{text::stream::{BlockReader, BlotCodec, Blots, TokenCodec, Tokens}, base::codec::Fields};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut reader) = BlockReader::open(bytes, "fuzz".into()) {
        while let Ok(Some(block)) = reader.next_block() {
            if let Ok(fields) = block.open() {
                read_records(fields);
            }
        }
    }
    read_records(Fields::new(bytes));
});

fn read_records(fields: Fields<'_>) {
    let mut tokens = Tokens::default();
    let mut left = fields.clone();
    while !left.is_empty() && (TokenCodec { with_spans: true }).read_binary(&mut left, &mut tokens).is_ok() {
        assert!(tokens.spans().is_none_or(|spans| spans.len() == tokens.len()));
    }
    let mut blots = Blots::default();
    let mut left = fields;
    while !left.is_empty() && (BlotCodec { bits: 20, with_positions: true }).read_binary(&mut left, &mut blots).is_ok() {
        assert!(blots.values.iter().all(|&value| value < 1 << 20));
    }
}
