//! Counts the blots of each document of a blot stream, in NDJSON or binary:
//! `dedup-blot docs | cargo run --example read_stream`, or with the name of a file.

use dedup::text::corpus::{Content, DocumentReader, Options, Source};
use std::{collections::HashSet, env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::of_files(env::args_os().skip(1).map(Into::into).collect());
    let mut reader = DocumentReader::new(&options);
    let mut source = Source::new(options, 1)?;
    // Streams of one scheme only. A stream without a header, from another program, has no scheme.
    if let Some((header, _)) = source.first_header().cloned() {
        source.expect(vec![header]);
    }
    // The source recognizes both forms by their first bytes; a missing end record is an error.
    for chunk in source {
        reader.read(chunk?.item, &mut |item| match item {
            Ok(item) => match item.content {
                Content::Blots(blots) => {
                    let distinct: HashSet<&u64> = blots.values.iter().collect();
                    println!("{}: {} distinct blots", item.id, distinct.len());
                }
                _ => eprintln!("read_stream: {}: not a blot record", item.id),
            },
            Err(flaw) => eprintln!("read_stream: {flaw:?}"),
        })?;
    }
    Ok(())
}
