//! Words, also of scripts that are written without spaces.
//!
//! As [`word`](super::word), but Thai, Lao, Khmer, Burmese, Chinese and Japanese are cut into words by dictionaries
//! (`dictionary.rs`), instead of a token for each character. Letters and digits of other scripts beside them are
//! words of their own, as are digits of these scripts.

use super::ascii::AsciiWords;
use super::chars::{CharClass, read_chars};
use super::dictionary::UnspacedRun;
use super::word::WordBuilder;
use crate::base::num::ToU32;
use crate::text::stream::{Span, Tokens};

/// Appends the words of `text`.
pub fn tokenize(text: &str, out: &mut Tokens) {
    let mut ascii = AsciiWords::new();
    let mut run = UnspacedRun::new();
    let mut at = 0;
    while at < text.len() {
        at = ascii.tokenize(text.as_bytes(), at, out);
        if at < text.len() {
            at = tokenize_unicode_words(text, at, &mut run, out);
        }
    }
}

/// Appends words of any script up to the first ASCII separator. Returns where that is.
#[inline(never)]
fn tokenize_unicode_words(text: &str, at: usize, run: &mut UnspacedRun, out: &mut Tokens) -> usize {
    let mut builder = WordBuilder::new(out);
    let next = read_chars(text, at, |c, class, start, end| {
        if run.takes(class) {
            builder.close();
            let span = Span {
                start: start.to_u32(),
                end: end.to_u32(),
            };
            run.push(c, class, span, builder.out);
        } else if class != CharClass::Ignorable {
            run.finish(builder.out);
            builder.push_char(c, class, start, end);
        }
        class != CharClass::Separator || !c.is_ascii()
    });
    builder.close();
    run.finish(out);
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::ToUsize;
    use crate::text::token::word::{self, tests::words_by};
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;

    fn words(text: &str) -> Vec<String> {
        words_by(text, tokenize)
            .into_iter()
            .map(|(word, _)| word)
            .collect()
    }

    /// Checks the words, in both normal forms.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        for form in [
            text.to_owned(),
            text.nfc().collect(),
            text.nfd().collect::<String>(),
        ] {
            let found = words(&form).join(" ");
            assert_eq!(found, expected, "{text}");
        }
    }

    // If one of these fails with a newer crate, its dictionaries cut differently: the scheme needs a new name, see
    // `DICTIONARIES`.

    #[test]
    fn thai_lao() {
        check(
            "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ",
            "มนุษย์ ทั้ง หลาย เกิด มา มี อิสระ และ เสมอ ภาค กัน ใน เกียรติศักดิ์ และ สิทธิ",
        );
        // The vowel am is in the dictionary in one piece, in normalized text in two.
        check("น้ำทำคำจำนวน ๒๕ปี", "น้ํา ทํา คํา จํานวน ๒๕ ปี");
        check("น้ําทําคําจํานวน", "น้ํา ทํา คํา จํานวน");
        check(
            "ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ ໜັງສື ທຳ",
            "ມະນຸດ ທຸກຄົນ ເກີດ ມາ ມີ ກຽດສັກສີ ຫນັງສື ທໍາ",
        );
    }

    #[test]
    fn khmer_burmese() {
        check("មនុស្សទាំងអស់កើតមកមានសេរីភាព", "មនុស្ស ទាំងអស់ កើតមក មាន សេរីភាព");
        // A zero-width space, as some write it between words, changes nothing.
        check("មនុស្ស\u{200b}ទាំង\u{200b}អស់", "មនុស្ស ទាំងអស់");
        check(
            "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့်",
            "လူ တိုင်း သည် တူညီ လွတ်လပ် သော ဂုဏ်သိက္ခာ ဖြင့်",
        );
    }

    #[test]
    fn chinese() {
        check(
            "人人生而自由，在尊严和权利上一律平等。",
            "人人 生 而 自由 在 尊严 和 权利 上 一律 平等",
        );
        check(
            "人人生而自由，在尊嚴和權利上一律平等。",
            "人人 生 而 自由 在 尊嚴 和 權利 上 一律 平等",
        );
        check("我喜歡Rust語言，2026年。", "我 喜歡 rust 語言 2026 年");
        // A compatibility ideograph is unified first.
        assert_eq!(words("\u{f9e8}平等"), words("裡平等"));
    }

    #[test]
    fn japanese() {
        check(
            "すべての人間は、生れながらにして自由であり、",
            "すべて の 人間 は 生れ ながら にし て 自由 で あり",
        );
        check(
            "コンピューターを使うことができます。",
            "コンピューター を 使う こと が でき ます",
        );
        check("ｶﾀｶﾅとラーメン", "カタカナ と ラーメン");
    }

    #[test]
    fn the_dictionaries_have_the_version_of_the_scheme() {
        let version = icu_segmenter_data::cldr_tag!();
        assert_eq!(
            version.split('.').next(),
            Some(super::super::dictionary::DICTIONARIES)
        );
    }

    #[test]
    fn spans_point_into_the_original() {
        let text = "น้ำ\u{200b}ทำ ｶﾀｶﾅと尊严Ａbc";
        let slices: Vec<&str> = words_by(text, tokenize)
            .iter()
            .map(|(_, span)| &text[span.range()])
            .collect();
        assert_eq!(slices, ["น้ำ", "ทำ", "ｶﾀｶﾅ", "と", "尊严", "Ａbc"]);
    }

    /// Text of these scripts, of words and of single characters, with what stands between.
    fn unspaced() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "มนุษย์",
            "เกิด",
            "น้ำ",
            "ก",
            "า",
            "ํ",
            "ສິດ",
            "ມະນຸດ",
            "មនុស្ស",
            "ធិ",
            "\u{17d2}",
            "လူ",
            "တိုင်း",
            "尊严",
            "权",
            "人人",
            "すべ",
            "て",
            "な",
            "がら",
            "ー",
            "コン",
            "ﾀ",
            "々",
            "\u{200b}",
            "\u{3099}",
            "\u{20000}",
        ]);
        let between = prop::sample::select(vec![" ", "a", "7", "。", "é", "'", "\n"]);
        let text = prop_oneof![9 => piece, 1 => between];
        prop::collection::vec(text, 0..60).prop_map(|pieces| pieces.concat())
    }

    /// All characters of tokens, to compare tokenizers that cut differently.
    fn letters(words: &[(String, Span)]) -> String {
        words.iter().map(|(word, _)| word.as_str()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn all_letters_are_there_in_order(text in unspaced()) {
            let (found, single) = (words_by(&text, tokenize), words_by(&text, word::tokenize));
            prop_assert_eq!(letters(&found), letters(&single));
            let mut last = 0;
            for (_, span) in &found {
                prop_assert!(span.start >= last && span.start < span.end);
                prop_assert!(text.get(span.range()).is_some());
                last = span.start;
            }
        }

        #[test]
        fn other_scripts_are_as_by_word(text in "[a-zA-Z0-9' .,é한Жا’-]{0,60}") {
            prop_assert_eq!(words_by(&text, tokenize), words_by(&text, word::tokenize));
        }

        #[test]
        fn normal_forms_agree(text in unspaced()) {
            let [nfc, nfd] = [text.nfc().collect::<String>(), text.nfd().collect()];
            prop_assert_eq!(words(&nfc), words(&nfd));
        }

        /// The rest of a text is cut alike from the first place on where both start a word.
        #[test]
        fn excerpts_are_cut_alike_after_a_few_words(text in unspaced(), cut in 0_usize..40) {
            let Some((at, _)) = text.char_indices().nth(cut) else { return Ok(()) };
            let shift = |(word, span): (String, Span)| (word, span.start.to_usize() + at);
            let rest: Vec<_> = words_by(&text[at..], tokenize).into_iter().map(shift).collect();
            let whole: Vec<_> = words_by(&text, tokenize).into_iter().map(|(word, span)| (word, span.start.to_usize())).collect();
            let meets = rest.iter().position(|(_, start)| whole.iter().any(|(_, other)| other == start));
            if let Some(meets) = meets {
                let from = rest[meets].1;
                let tail: Vec<_> = whole.into_iter().filter(|(_, start)| *start >= from).collect();
                prop_assert_eq!(&rest[meets..], &tail[..]);
            }
        }
    }
}
