//! Parquet files: any bytes give rows or an error, within bounds of memory and time.
#![no_main]

use dedup::text::corpus::sequence::{FieldNames, ParquetTable};
use libfuzzer_sys::fuzz_target;
use std::{io::Write, sync::Once};

static QUIET: Once = Once::new();

fuzz_target!(|bytes: &[u8]| {
    // The reader catches panics of the parquet crate: they are errors of the file, not findings. Its own code is in this
    // package, so a panic there still ends the run.
    QUIET.call_once(|| {
        let abort = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_ours = info.location().is_none_or(|place| !place.file().contains("registry"));
            if is_ours {
                abort(info);
            }
        }));
    });
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    let Ok(table) = ParquetTable::open(file) else { return };
    for (id, text) in [("id", "text"), ("meta.url", "id")] {
        let Ok(columns) = table.select(&FieldNames { id, text }, 1 << 20) else { continue };
        for group in 0..columns.row_groups().len().min(8) {
            let rows = columns.row_groups()[group].rows.min(10_000);
            let _ = columns.read_rows(group, 0..rows, &mut |row| assert!(row.number <= table.rows()));
        }
    }
});
