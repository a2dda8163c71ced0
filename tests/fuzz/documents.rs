//! The whole way from a file to a stream, for every layout; and the stream is read back.
#![no_main]

use dedup::{text::{corpus::{self, Records}, stream::Form}, base::{error::Problem, parallel::Limits}, commands::{BlotOptions, Settings, Observer, blot}};
use libfuzzer_sys::fuzz_target;
use std::io::Write;

struct Deaf;

impl Observer for Deaf {
    fn problem(&mut self, problem: &Problem) {
        assert!(!problem.to_string().is_empty());
    }

    fn progress(&mut self, _: u64, _: u64) {}
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let records = [None, Some(Records::Text), Some(Records::Ndjson), Some(Records::Lines), Some(Records::Fasta)][usize::from(choice) % 5];
    let form = if choice & 64 == 0 { Form::Ndjson } else { Form::Binary };
    let Some(stream) = run(bytes, records, form, choice & 128 != 0) else { return };
    assert!(run(&stream, None, Form::Binary, false).is_some(), "what was written is read");
});

fn run(bytes: &[u8], records: Option<Records>, form: Form, lossy: bool) -> Option<Vec<u8>> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("written");
    let corpus = corpus::Options { records, lossy, ..corpus::Options::of_files(vec![file.path().to_owned()]) };
    let settings = Settings { form, limits: Limits::new(1, 1 << 20), corpus };
    let mut out = Vec::new();
    blot(&BlotOptions::default(), true, &settings, &mut out, &mut Deaf).ok().map(|_| out)
}
