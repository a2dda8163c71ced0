//! A line of NDJSON, with and without a header before it. What was read is written and read again.
#![no_main]

use dedup::text::stream::{BlotCodec, Blots, Line, LineParser, Record, TokenCodec, Tokens, parse_record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let parser = LineParser { id_field: "id".into(), text_field: "text".into() };
    let (mut tokens, mut blots) = (Tokens::default(), Blots::default());
    let _ = parser.parse(line, &mut tokens, &mut blots);
    match parse_record(line, &mut tokens, &mut blots) {
        Ok(Line::Tokens(found)) => {
            let record = Record { doc: &found.doc, bytes: found.bytes, hash: found.hash };
            let (mut once, mut twice) = (Vec::new(), Vec::new());
            TokenCodec { with_spans: true }.write_ndjson(&mut once, &record, &tokens);
            let again = parse_record(&once, &mut tokens, &mut blots).expect("what was written is read");
            assert!(matches!(again, Line::Tokens(again) if again.doc == found.doc));
            TokenCodec { with_spans: true }.write_ndjson(&mut twice, &record, &tokens);
            assert_eq!(once, twice);
        }
        Ok(Line::Blots(found)) => {
            let record = Record { doc: &found.doc, bytes: found.bytes, hash: found.hash };
            let mut once = Vec::new();
            BlotCodec { bits: 64, with_positions: true }.write_ndjson(&mut once, &record, &blots);
            let before = blots.clone();
            parse_record(&once, &mut tokens, &mut blots).expect("what was written is read");
            assert_eq!(before.values, blots.values);
        }
        _ => {}
    }
});
