//! Prints the passages that two text files share: `cargo run --example align_texts -- A B`.

use dedup::align::{AlignOptions, PreparedText, align};
use std::{env, error::Error, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [a, b] = &arguments[..] else {
        return Err("usage: align_texts A B".into());
    };
    let options = AlignOptions::default();
    let a = PreparedText::new(fs::read_to_string(a)?, &options);
    let b = PreparedText::new(fs::read_to_string(b)?, &options);
    for passage in align(&a, &b, &options) {
        println!(
            "{}, {} words, score {:.2}: bytes {}-{} are bytes {}-{} of the other",
            passage.kind.name(),
            passage.tokens,
            passage.score,
            passage.a.start,
            passage.a.end,
            passage.b.start,
            passage.b.end,
        );
    }
    Ok(())
}
