//! Says beforehand that blots will be too narrow for what a plan will index.

use crate::{
    base::num::ToF64,
    blot::select,
    cli::width::description,
    cluster::Plan,
    index::WidthFit,
    text::{scheme::BlotScheme, token::Rule},
};

/// About how many bytes of text have a token. Packed text has more tokens than that: a warning may
/// be missing, but is never wrong by much.
fn bytes_of_token(rule: Rule) -> u64 {
    match rule {
        Rule::Words | Rule::Word => 6,
        Rule::Char(_) | Rule::Dna => 1,
        Rule::Line => 40,
        Rule::Code | Rule::CodeNorm => 4,
    }
}

/// About how many postings this many bytes of text will have: a window starts at nearly every token.
fn expected_postings(scheme: &BlotScheme, bytes: u64) -> u64 {
    let rules: Vec<Rule> = scheme
        .tokens
        .rules()
        .into_iter()
        .flat_map(|rules| rules.iter())
        .collect();
    let postings = scheme.windows.0.iter().map(|window| {
        let is_of = |rule: &&Rule| window.tokenizer.as_ref() == Some(&rule.name());
        let rule = rules
            .iter()
            .find(is_of)
            .or(rules.first())
            .copied()
            .unwrap_or_default();
        let tokens = bytes / bytes_of_token(rule);
        tokens.to_f64() / select::rate(window.select.as_ref().unwrap_or(&scheme.select))
    });
    postings.sum::<f64>() as u64
}

/// None if the blots are wide enough.
pub fn width_warning(plan: &Plan) -> Option<String> {
    let scheme: BlotScheme = plan.options.scheme.parse().ok()?;
    let bytes: u64 = plan.slices.iter().map(|slice| slice.bytes).sum();
    let fit = WidthFit::new(scheme.bits, expected_postings(&scheme, bytes));
    fit.too_narrow.then(|| {
        format!(
            "by the size of the files, {}; plan again with --bits {}",
            description(&fit),
            fit.advised_bits
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_follow_the_bytes_the_tokenizers_and_the_selection() {
        for (scheme, postings) in [
            ("words@18.0/49 ordered:8:32 all", 1_000),
            ("words@18.0/49 ordered:8:32 mod:4", 250),
            ("char:4@18.0 ordered:8:32 all", 6_000),
            ("line@18.0 ordered:3:32 all", 150),
        ] {
            let scheme: BlotScheme = scheme.parse().unwrap();
            assert_eq!(expected_postings(&scheme, 6_000), postings, "{scheme}");
        }
    }
}
