//! Every tokenizer, with and without HTML: no panic, spans that lie in the text, tokens without line feeds.
#![no_main]

use dedup::text::{stream::Tokens, token::{Rule, Tokenizer}};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for rule in [Rule::Words, Rule::Word, Rule::Char(3), Rule::Line, Rule::Code, Rule::CodeNorm, Rule::Dna] {
        for strips_html in [false, true] {
            let mut tokens = Tokens::new(true);
            Tokenizer::new(rule, strips_html).tokenize(text, &mut tokens);
            assert!(tokens.iter().all(|token| !token.contains(&b'\n')));
            let spans = tokens.spans().expect("asked for");
            assert_eq!(spans.len(), tokens.len());
            assert!(spans.iter().all(|span| text.get(span.start as usize..span.end as usize).is_some()));
        }
    }
});
