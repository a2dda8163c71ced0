//! CSV and JSON arrays: any bytes give records or an error, and the size of the reads does not matter.
#![no_main]

use dedup::text::corpus::sequence::{CsvRows, FieldNames, JsonArrayLines, RecordSequence};
use libfuzzer_sys::fuzz_target;
use std::io::{BufReader, Cursor, Read};

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let buffer_bytes = usize::from(choice >> 1) + 1;
    if choice & 1 == 0 {
        let fields = FieldNames { id: "id", text: "text" };
        let input = Cursor::new(bytes.to_vec());
        let Ok(mut rows) = CsvRows::open(input, b',', &fields, 1 << 10) else { return };
        let mut last_line = 0;
        while let Some(Ok(row)) = rows.next_record() {
            // A carriage return alone ends a row as well, but no line.
            assert!(row.line.is_some_and(|line| line >= last_line));
            last_line = row.line.unwrap_or(0);
            assert!(row.text.is_err() || row.text.is_ok_and(|text| text.len() <= bytes.len()));
        }
    } else {
        let small = read(bytes, buffer_bytes);
        assert_eq!(small, read(bytes, 4096));
        if let Ok(values) = serde_json::from_slice::<Vec<serde_json::Value>>(bytes) {
            assert_eq!(small.expect("an array").lines().count(), values.len());
        }
    }
});

fn read(bytes: &[u8], buffer_bytes: usize) -> Result<String, String> {
    let mut lines = Vec::new();
    let mut reader = JsonArrayLines::new(BufReader::with_capacity(buffer_bytes, bytes));
    match reader.read_to_end(&mut lines) {
        Ok(_) => Ok(String::from_utf8_lossy(&lines).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}
