//! Words: runs of letters, marks and digits.
//!
//! Case is folded, compatibility forms are unified, an apostrophe inside a word is dropped (`doesn't`,
//! `doesn’t` and `doesnt` agree). A Han or kana character, or a Thai, Lao, Khmer or Myanmar cluster, is a
//! token of its own.
//!
//! Most text is ASCII, for which there is a fast path. It gives the same tokens as the general path (a
//! property test checks that), which takes every word that touches another character, from its start.

use super::ascii::AsciiWords;
use super::chars::{CharClass, is_stacker, read_chars};
use crate::base::num::ToU32;
use crate::text::stream::{Span, Tokens};

/// Appends the words of `text`.
pub fn tokenize(text: &str, out: &mut Tokens) {
    let mut ascii = AsciiWords::new();
    let mut at = 0;
    while at < text.len() {
        at = ascii.tokenize(text.as_bytes(), at, out);
        if at < text.len() {
            at = tokenize_unicode_word(text, at, out);
        }
    }
}

/// Appends words of any script up to the first ASCII separator. Returns where that is.
///
/// Not inlined, because most text never gets here.
#[inline(never)]
fn tokenize_unicode_word(text: &str, at: usize, out: &mut Tokens) -> usize {
    let mut builder = WordBuilder::new(out);
    let next = read_chars(text, at, |c, class, start, end| {
        builder.push_char(c, class, start, end);
        class != CharClass::Separator || !c.is_ascii()
    });
    builder.close();
    next
}

/// Builds tokens from characters.
pub(super) struct WordBuilder<'t> {
    pub out: &'t mut Tokens,
    open: Option<OpenWord>,
}

/// The token under construction.
struct OpenWord {
    span: Span,
    /// A token of its own: only marks may follow.
    is_solo: bool,
    /// The last character joins the next letter to this cluster.
    is_stacked: bool,
    /// An apostrophe was seen: dropped if a letter follows, else a separator.
    has_apostrophe: bool,
}

impl<'t> WordBuilder<'t> {
    pub fn new(out: &'t mut Tokens) -> Self {
        Self { out, open: None }
    }

    pub fn push_char(&mut self, c: char, class: CharClass, start: usize, end: usize) {
        match (class, &mut self.open) {
            (CharClass::Ignorable, _) => {}
            (CharClass::Letter | CharClass::Digit, Some(open)) if !open.is_solo => {
                self.append(c, end)
            }
            (CharClass::Solo, Some(open)) if open.is_stacked => self.append(c, end),
            (CharClass::Mark, Some(open)) if !open.has_apostrophe => self.append(c, end),
            (CharClass::Apostrophe, Some(open)) if !open.is_solo && !open.has_apostrophe => {
                open.has_apostrophe = true
            }
            (CharClass::Letter | CharClass::Digit | CharClass::Solo, _) => {
                self.close();
                let span = Span {
                    start: start.to_u32(),
                    end: end.to_u32(),
                };
                self.open = Some(OpenWord {
                    span,
                    is_solo: class == CharClass::Solo,
                    is_stacked: false,
                    has_apostrophe: false,
                });
                self.append(c, end);
            }
            (CharClass::Mark | CharClass::Apostrophe | CharClass::Separator, _) => self.close(),
        }
    }

    fn append(&mut self, c: char, end: usize) {
        self.out
            .text
            .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        if let Some(open) = &mut self.open {
            open.span.end = end.to_u32();
            open.is_stacked = is_stacker(c);
            open.has_apostrophe = false;
        }
    }

    pub fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.out.finish(open.span);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;

    pub fn words_by(text: &str, tokenize: impl Fn(&str, &mut Tokens)) -> Vec<(String, Span)> {
        let mut tokens = Tokens::new(true);
        tokenize(text, &mut tokens);
        let spans = tokens.spans().unwrap();
        tokens
            .iter()
            .map(|token| String::from_utf8(token.to_vec()).unwrap())
            .zip(spans.iter().copied())
            .collect()
    }

    fn words(text: &str) -> Vec<String> {
        words_by(text, tokenize)
            .into_iter()
            .map(|(word, _)| word)
            .collect()
    }

    fn slices(text: &str) -> Vec<&str> {
        words_by(text, tokenize)
            .iter()
            .map(|(_, span)| &text[span.range()])
            .collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(words(text).join(" "), expected, "{text}");
        for form in [text.nfc().collect::<String>(), text.nfd().collect()] {
            assert_eq!(words(&form).join(" "), expected, "normal form of {text}");
        }
    }

    #[test]
    fn english() {
        check(
            "The U.S. doesn't, doesn’t; doesnt — O'Neill's 3.14 e-mail_2",
            "the u s doesnt doesnt doesnt oneills 3 14 e mail 2",
        );
        check(
            "'tis rock 'n' roll, dogs' a''b a'",
            "tis rock n roll dogs a b a",
        );
        check("", "");
        check("' ’ -- …", "");
        check("x", "x");
    }

    #[test]
    fn czech_german_turkish_greek() {
        check("Příliš ŽLUŤOUČKÝ kůň", "příliš žluťoučký kůň");
        check(
            "Die STRASSE, die Straße, die Straẞe; Übergrößenträger",
            "die strasse die strasse die strasse übergrössenträger",
        );
        // Folding is the same for all languages: İ keeps its dot, ı stays without.
        check("İstanbul DİYARBAKIR ılık", "i̇stanbul di̇yarbakir ılık");
        check(
            "Ὀδυσσεύς ΟΔΥΣΣΕΥΣ άνθρωπος ΆΝΘΡΩΠΟΣ",
            "ὀδυσσεύσ οδυσσευσ άνθρωποσ άνθρωποσ",
        );
        check("ᾼ ᾳ", "αι αι");
    }

    #[test]
    fn korean_chinese_japanese_thai() {
        check("한국어를 공부합니다.", "한국어를 공부합니다");
        check("我喜歡Rust語言，2026年。", "我 喜 歡 rust 語 言 2026 年");
        check(
            "カタカナとひらがな、ガ行",
            "カ タ カ ナ と ひ ら が な ガ 行",
        );
        check("ｶﾞｷﾞ ラーメン 々", "ガ ギ ラ ー メ ン 々");
        check("สวัสดีครับ ๒๕", "ส วั ส ดี ค รั บ ๒๕");
        check("ខ្មែរ", "ខ្មែ រ");
        check("မြန်မာ", "မြ န် မာ");
        check("ລາວ", "ລ າ ວ");
    }

    #[test]
    fn arabic_hindi() {
        check("اللُّغَة العربية ١٢٣", "اللُّغَة العربية ١٢٣");
        check("हिन्दी में लिखा", "हिन्दी में लिखा");
        // A zero-width non-joiner, as Persian has it inside words.
        check("می\u{200c}خواهم", "میخواهم");
    }

    #[test]
    fn emoji_marks_and_forms() {
        check("👩‍👩‍👧 family 👍🏽ok ☕️", "family ok");
        check(
            "ﬁnd ﬃ Ａｂｃ１２ ⅷ x² ½ ℌ ㎏",
            "find ffi abc12 viii x2 1 2 h kg",
        );
        check(
            "soft\u{ad}hyphen zero\u{200b}width \u{feff}bom",
            "softhyphen zerowidth bom",
        );
        check("e\u{301}te\u{301} \u{301}x ≠a", "été x a");
        check(
            "don\u{2019}t don\u{2bc}t don\u{ff07}t l’été d'été",
            "dont dont dont lété dété",
        );
    }

    #[test]
    fn spans_point_into_the_original() {
        assert_eq!(slices("Doesn’t ﬁt: STRAẞE"), ["Doesn’t", "ﬁt", "STRAẞE"]);
        assert_eq!(slices("½ x² ｶﾞキ"), ["½", "½", "x²", "ｶﾞ", "キ"]);
        assert_eq!(
            slices("a\u{301}b' c\u{ad}d\u{ad}"),
            ["a\u{301}b", "c\u{ad}d"]
        );
    }

    /// Tokenizes by the general path only.
    fn tokenize_unicode(text: &str, out: &mut Tokens) {
        let mut at = 0;
        while at < text.len() {
            at = tokenize_unicode_word(text, at, out);
        }
    }

    /// Text with what makes words difficult.
    fn text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[a-zA-Z0-9' .,'-]{0,12}",
            "\\PC{0,6}",
            prop::sample::select(vec![
                "'", "’", "é", "e\u{301}", "\u{301}", "ß", "İ", "½", "ﬁ", "\u{ad}", "中", "カ",
                "ｶﾞ", "ส", "\u{17d2}", "한", "\u{1161}", " ", "\u{a0}", "👍"
            ])
            .prop_map(str::to_owned),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_fast_path_gives_the_same_tokens(text in text()) {
            prop_assert_eq!(words_by(&text, tokenize), words_by(&text, tokenize_unicode));
        }

        #[test]
        fn normal_forms_agree(text in text()) {
            let [nfc, nfd] = [text.nfc().collect::<String>(), text.nfd().collect()];
            prop_assert_eq!(words(&nfc), words(&nfd));
            prop_assert_eq!(words(&nfc), words(&text));
        }

        #[test]
        fn spans_slice_back_to_the_token(text in text()) {
            let mut last = 0;
            for (word, span) in words_by(&text, tokenize) {
                prop_assert!(span.start >= last && span.start < span.end);
                prop_assert!(words(&text[span.range()]).contains(&word));
                last = span.start;
            }
        }
    }
}
