//! Web archives: any bytes give records or an error, and texts within the limit.
#![no_main]

use dedup::text::corpus::sequence::{RecordSequence, WarcRecords};
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    let mut records = WarcRecords::open(Cursor::new(bytes.to_vec()), 1 << 16);
    while let Some(Ok(record)) = records.next_record() {
        assert!(record.number > 0);
    }
    assert!(records.next_record().is_none());
});
