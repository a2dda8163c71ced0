use super::*;
use crate::base::num::ToU32;
use proptest::prelude::*;

fn options() -> AlignOptions {
    AlignOptions::default()
}

fn aligned(a: &str, b: &str) -> Vec<Passage> {
    align(
        &PreparedText::new(a, &options()),
        &PreparedText::new(b, &options()),
        &options(),
    )
}

fn slice(text: &str, span: Span) -> &str {
    &text[span.range()]
}

/// Words that no two letters share.
fn words(letter: char, count: usize) -> impl Strategy<Value = String> {
    let mark = prop::sample::select(vec!["", "", "", "", "", ",", ".", "!", " –", "\n"]);
    prop::collection::vec((0_u32..2000, mark), count).prop_map(move |words| {
        let texts: Vec<_> = words
            .iter()
            .map(|(number, mark)| format!("{letter}{number}é{mark}"))
            .collect();
        texts.join(" ")
    })
}

/// A text and one that is found in both of two others.
fn planted() -> impl Strategy<Value = [String; 5]> {
    let text = |letter| (0_usize..80).prop_flat_map(move |count| words(letter, count));
    let copy = (16_usize..200).prop_flat_map(|count| words('c', count));
    (text('a'), text('b'), copy, text('x'), text('y'))
        .prop_map(|(a, b, copy, x, y)| [a, b, copy, x, y])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn planted_copies_are_found_to_the_character([a, b, copy, x, y] in planted()) {
        // A dash after the last word may be of either text.
        let copy = copy.trim_end_matches(['–', ' ', '\n']);
        let (one, two) = (format!("{a} ({copy}) {b}"), format!("{x}\n{copy}\n{y}"));
        let passages = aligned(&one, &two);
        prop_assert_eq!(passages.len(), 1, "{:?}", passages);
        prop_assert_eq!(slice(&one, passages[0].a), copy);
        prop_assert_eq!(slice(&two, passages[0].b), copy);
        prop_assert_eq!(passages[0].kind, PassageKind::Verbatim);
        prop_assert_eq!(passages[0].score, 1.0);
        let swapped = aligned(&two, &one);
        prop_assert_eq!((swapped.len(), swapped[0].a, swapped[0].b), (1, passages[0].b, passages[0].a));
    }

    #[test]
    fn a_document_and_itself_are_one_passage([a, b, copy, x, y] in planted()) {
        // With repetitions inside.
        let text = format!("{a} {copy} {b}. {copy} {x} {copy} {y}");
        let passages = aligned(&text, &text);
        prop_assert_eq!(passages.len(), 1, "{:?}", passages);
        let Passage { a, b, kind, score, .. } = &passages[0];
        prop_assert_eq!((slice(&text, *a), a, *kind, *score), (text.trim(), b, PassageKind::Verbatim, 1.0));
    }

    #[test]
    fn any_text_is_aligned(a in "(\\PC|[a-c .\n½ﷺ]){0,300}", b in "(\\PC|[a-c .\n½ﷺ]){0,300}") {
        for (one, two) in [(&a, &b), (&a, &a), (&format!("{a}{b}"), &format!("{b}{a}"))] {
            let passages = aligned(one, two);
            for passage in &passages {
                for (text, span) in [(one, passage.a), (two, passage.b)] {
                    let found = text.get(span.range());
                    prop_assert!(found.is_some_and(|found| !found.is_empty()), "{passage:?}");
                }
                prop_assert!((0.0..=1.0).contains(&passage.score), "{passage:?}");
            }
            prop_assert_eq!(passages, aligned(one, two));
        }
    }
}

/// English, so that texts on the same subject have words in common.
const BEFORE: &str = "The harbour was built in the reign of the third king. Its walls were raised twice in the following century. \
    Ships from the north brought timber and furs. The customs house burned down after a long siege.";
const SOURCE: &str = "A glacier forms where more snow falls in winter than melts in summer. Over many decades the lower layers are \
    pressed into dense ice. The ice then flows slowly downhill under its own weight. Rocks frozen into its base scratch the valley floor. When the \
    climate warms, the glacier retreats and leaves moraines behind. Lakes often fill the hollows that remain.";
const REWORDED: &str = "Where in winter more snow falls than summer melts, a glacier is formed. The lower layers get pressed to dense ice \
    over decades. Slowly the ice flows downhill, driven by its weight. Frozen rocks in the base scratch the floor of the valley. \
    The glacier retreats when climate warms and moraines are left behind. The remaining hollows are often filled by lakes.";
const AFTER: &str = "Bread was baked once a week in the village oven. Every family marked its loaves with a sign of its own. \
    The miller kept a tenth of the flour for his work. Children carried the dough on wooden boards.";

#[test]
fn reworded_text_is_found_with_its_sentences() {
    let (a, b) = (
        format!("{BEFORE} {REWORDED} {AFTER}"),
        format!(
            "Who found it first is not known.\n\n{SOURCE}\n\nNothing else was ever written about this."
        ),
    );
    let passages = aligned(&a, &b);
    assert_eq!(passages.len(), 1, "{passages:?}");
    assert_eq!(
        (
            slice(&a, passages[0].a),
            slice(&b, passages[0].b),
            passages[0].kind
        ),
        (REWORDED, SOURCE, PassageKind::Reworded)
    );
    assert!(
        passages[0].score > 0.5 && passages[0].tokens > 40,
        "{passages:?}"
    );
}

#[test]
fn other_texts_have_nothing_in_common() {
    assert_eq!(aligned(&format!("{BEFORE} {REWORDED}"), AFTER), []);
    assert_eq!(aligned(BEFORE, AFTER), []);
}

#[test]
fn a_few_changed_words_leave_one_passage() {
    let edited = SOURCE
        .replace("many decades", "hundreds of years")
        .replace("slowly", "gradually");
    let (a, b) = (
        format!("{BEFORE} {edited} {AFTER}"),
        format!("Ice. {SOURCE} That is all."),
    );
    let passages = aligned(&a, &b);
    assert_eq!(passages.len(), 1, "{passages:?}");
    assert_eq!(
        (
            slice(&a, passages[0].a),
            slice(&b, passages[0].b),
            passages[0].kind
        ),
        (&edited[..], SOURCE, PassageKind::Edited)
    );
}

#[test]
fn a_summary_is_of_all() {
    let chapter = |texts: [&str; 3]| texts.join("\n\n");
    let long = chapter([BEFORE, SOURCE, AFTER]);
    let short = "The harbour was built by the third king, and its walls were raised twice. Snow is pressed to dense ice, which flows slowly \
        downhill. The miller kept a tenth of the flour.";
    let other =
        "Numbers are odd or even. Squares of odd numbers are odd too. There is no largest prime.";
    let a = format!("{other} {other}\n\n{short}\n\n{other}");
    let passages = aligned(&a, &long);
    assert_eq!(passages.len(), 1, "{passages:?}");
    assert_eq!(
        (
            slice(&a, passages[0].a),
            slice(&long, passages[0].b),
            passages[0].kind
        ),
        (short, &long[..], PassageKind::Summary)
    );
}

#[test]
fn copies_from_all_over_are_no_summary() {
    let copies = [
        "A clock that is wound every morning at the same hour will keep better time than one that is forgotten.",
        "The oldest maps of the river show a second arm that was filled up when the railway came to town.",
    ];
    let b = format!(
        "{}\n\n{BEFORE}\n\n{SOURCE}\n\n{AFTER}\n\n{}",
        copies[0], copies[1]
    );
    let a = format!(
        "Numbers are odd or even. {} {} There is no largest prime.",
        copies[1], copies[0]
    );
    let passages = aligned(&a, &b);
    assert_eq!(
        passages
            .iter()
            .map(|passage| (slice(&a, passage.a), slice(&b, passage.b), passage.kind))
            .collect::<Vec<_>>(),
        [
            (copies[1], copies[1], PassageKind::Verbatim),
            (copies[0], copies[0], PassageKind::Verbatim)
        ]
    );
}

#[test]
fn what_one_has_once_and_the_other_twice() {
    let text = format!("{SOURCE}\n{BEFORE}\n{SOURCE}");
    let found = aligned(&text, SOURCE);
    assert_eq!(
        found
            .iter()
            .map(|passage| slice(&text, passage.a))
            .collect::<Vec<_>>(),
        [SOURCE; 2]
    );
    assert_eq!(
        aligned(SOURCE, &text)
            .iter()
            .map(|passage| slice(&text, passage.b))
            .collect::<Vec<_>>(),
        [SOURCE; 2]
    );
}

#[test]
fn little_text() {
    for (a, b) in [
        ("", ""),
        ("", "word"),
        ("word", "word"),
        ("word", ""),
        ("...", "..."),
        ("½", "½ ½"),
    ] {
        assert_eq!(aligned(a, b), [], "{a:?} and {b:?}");
    }
}

/// Quadratic work would take hours here.
#[test]
fn hostile_texts_end() {
    let many = "word ".repeat(200_000);
    assert_eq!(aligned(&many, &many).len(), 1);
    assert!(aligned(&many, &many[..5000]).len() < 400);
    assert_eq!(aligned(&many[..80], &many).len(), 65);
    let sentence = "The quick brown fox jumps over the lazy dog near a river. ";
    assert_eq!(
        aligned(&sentence.repeat(20_000), &sentence.repeat(20_000)).len(),
        1
    );
    let numbered = |seed: u64| -> String {
        (0..20_000_u64)
            .map(|at| {
                format!(
                    "The quick brown fox {} jumps over the lazy {}. ",
                    at * seed % 1009,
                    at * at * seed % 997
                )
            })
            .collect()
    };
    aligned(&numbered(7), &numbered(13));
    let periodic = |step: usize| -> String {
        (0..200_000)
            .map(|at| {
                if at % step == 0 {
                    "c "
                } else {
                    ["a ", "b "][at % 2]
                }
            })
            .collect()
    };
    aligned(&periodic(37), &periodic(41));
}

/// Marks the quotations of the first text as words that do not count.
fn unquoted(text: &str) -> PreparedText {
    PreparedText::with_exclusions(
        text,
        &options(),
        &crate::align::exclusions::ExclusionRules {
            quotes: true,
            ..Default::default()
        },
    )
}

#[test]
fn words_that_do_not_count_are_in_no_passage() {
    let quotation: Vec<String> = (0..40).map(|number| format!("word{number}")).collect();
    let quotation = quotation.join(" ");
    let (text, source) = (
        format!("I say. “{quotation}” So it was."),
        format!("{quotation} and more besides."),
    );
    let [plain, quoted, other] = [
        PreparedText::new(text.as_str(), &options()),
        unquoted(&text),
        PreparedText::new(source.as_str(), &options()),
    ];
    assert_eq!(align(&plain, &other, &options()).len(), 1);
    assert_eq!(align(&quoted, &other, &options()), []);
    assert_eq!(align(&quoted, &quoted, &options()), []);
    let coverage = quoted.coverage(
        [Span {
            start: 0,
            end: text.len().to_u32(),
        }]
        .into_iter(),
    );
    assert_eq!(
        (
            coverage.words,
            coverage.excluded,
            coverage.counted(),
            coverage.matched,
            coverage.share()
        ),
        (45, [0, 0, 40], 5, 5, 1.0)
    );
    assert_eq!(
        quoted
            .excluded()
            .iter()
            .map(|(span, _)| slice(&text, *span))
            .collect::<Vec<_>>(),
        [quotation.as_str()]
    );
    assert_eq!(plain.excluded(), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Quoted text alone is in no passage; copied text around it is still found.
    #[test]
    fn a_quotation_parts_a_copy([a, b, copy, x, y] in planted(), quoted in words('q', 20)) {
        let copy = copy.trim_end_matches(['–', ' ', '\n']).replace('\n', " ");
        let quoted = quoted.replace(['\n', '–'], " ");
        let one = format!("{a} {copy}\n\n\"{}\"\n\n{b}", quoted.trim());
        let two = format!("{x}\n{copy}\n\n\"{}\"\n\n{y}", quoted.trim());
        let (without, other) = (unquoted(&one), PreparedText::new(two.as_str(), &options()));
        let passages = align(&without, &other, &options());
        prop_assert_eq!(passages.len(), 1, "{:?}", passages);
        prop_assert_eq!(slice(&one, passages[0].a).trim_end(), copy.as_str());
        prop_assert_eq!(passages[0].kind, PassageKind::Verbatim);
        let coverage = without.coverage(passages.iter().map(|passage| passage.a));
        prop_assert_eq!(coverage.excluded[2], 20);
        prop_assert_eq!(coverage.matched, PreparedText::new(copy.as_str(), &options()).tokens().to_u32());
    }
}

/// Puts markup without any text before every `step`th word.
fn marked_up(text: &str, step: usize) -> String {
    let markup = [
        "<b>",
        "</b>",
        "<!-- no words of the text -->",
        "<span class='a b c'>",
    ];
    let words = text.split_inclusive(' ').enumerate();
    words
        .map(|(at, word)| {
            if at % step == 0 {
                format!("{}{word}", markup[at / step % markup.len()])
            } else {
                word.to_owned()
            }
        })
        .collect()
}

/// The other strand.
fn reverse_complement(bases: &str) -> String {
    bases
        .bytes()
        .rev()
        .map(|base| char::from(crate::text::token::dna::complement_of(base)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The same passages as without any markup, each where the document has it.
    #[test]
    fn markup_makes_no_difference([a, b, copy, x, y] in planted(), steps in [1_usize..6, 1_usize..6]) {
        let tokenization = Tokenization { rule: Rule::Word, strips_html: true };
        let stripping = AlignOptions { tokenization, ..options() };
        let plain = [format!("{a} ({copy}) {b}"), format!("{x}\n{copy}\n{y}")];
        let pages = [marked_up(&plain[0], steps[0]), marked_up(&plain[1], steps[1])];
        let [one, two] = [0, 1].map(|at| PreparedText::new(pages[at].as_str(), &stripping));
        prop_assert_eq!([one.text(), two.text()], [plain[0].as_str(), plain[1].as_str()]);
        let mut found = align(&one, &two, &stripping);
        let expected = aligned(&plain[0], &plain[1]);
        prop_assert_eq!(&found, &expected);
        to_document_offsets(&mut found, &one, &two);
        for (found, expected) in found.iter().zip(&expected) {
            for (page, text, of_page, of_text) in [(&pages[0], &plain[0], found.a, expected.a), (&pages[1], &plain[1], found.b, expected.b)] {
                let part = tokenization.plain(slice(page, of_page).to_owned());
                prop_assert_eq!(part.text(), slice(text, of_text));
            }
        }
    }

    /// A strand that was planted is found on either, where it is.
    #[test]
    fn bases_are_found_on_both_strands(
        [a, b, x, y] in prop::array::uniform4("[acgt]{0,60}"), copy in "[acgt]{62,120}", is_reversed: bool,
    ) {
        let dna = AlignOptions { tokenization: Tokenization { rule: Rule::Dna, strips_html: false }, window_tokens: 31, ..options() };
        let facing = if is_reversed { reverse_complement(&copy) } else { copy.clone() };
        // Unknown bases keep neighbours from agreeing by chance.
        let (one, two) = (format!("{a}n{copy}n{b}"), format!("{x}N{facing}N{y}"));
        let found = align(&PreparedText::new(one.as_str(), &dna), &PreparedText::new(two.as_str(), &dna), &dna);
        prop_assert_eq!(found.len(), 1, "{:?}", found);
        prop_assert_eq!((slice(&one, found[0].a), slice(&two, found[0].b)), (copy.as_str(), facing.as_str()));
        prop_assert_eq!((found[0].is_reversed, found[0].kind), (is_reversed, PassageKind::Verbatim));
    }
}
