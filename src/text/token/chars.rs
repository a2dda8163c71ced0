//! Characters as tokenizers see them: compatibility forms unified, case folded, and put into classes.
//!
//! Text is read in *clusters*, a character and what combines with it, so that both normal forms of a
//! letter, and a full-width or half-width one, give the same characters out. Each comes with the span of
//! the cluster it was made from. Most clusters are one character, and for those a table, filled a page at a
//! time as text asks for it, holds the answer.

use std::sync::OnceLock;
use unicase::UniCase;
use unicode_normalization::{
    IsNormalized, UnicodeNormalization, char::canonical_combining_class, is_nfc_quick,
};
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// The version of Unicode of the tables; part of every scheme.
pub const UNICODE: &str = "18.0";

/// What a character means to a tokenizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum CharClass {
    /// Ends a token.
    Separator,
    /// Part of a word.
    Letter,
    /// A digit, which is part of a word as well.
    Digit,
    /// Combines with the letter before it.
    Mark,
    /// A letter of a script written without spaces: a token of its own.
    Solo,
    /// Inside a word it is dropped; elsewhere it separates.
    Apostrophe,
    /// Skipped: soft hyphens, joiners, direction marks, byte-order marks.
    Ignorable,
}

/// The class of a character of a token.
pub fn class_of(c: char) -> CharClass {
    lookup(c).class
}

/// Joins the letter before it with the letter after it into one cluster: the viramas of Myanmar and Khmer.
pub fn is_stacker(c: char) -> bool {
    matches!(c, '\u{1039}' | '\u{17d2}')
}

/// Calls `each(character, class, start, end)` for the characters of `text[at..]`, until it returns false or
/// the text ends. Returns where the next cluster starts.
pub fn read_chars(
    text: &str,
    mut at: usize,
    mut each: impl FnMut(char, CharClass, usize, usize) -> bool,
) -> usize {
    let mut chars = text[at..].chars().peekable();
    while let Some(first) = chars.next() {
        let (start, entry) = (at, lookup(first));
        at += first.len_utf8();
        // A combining character does not change an ASCII separator before it; the fast path relies on that, too.
        let is_alone =
            is_ascii_separator(first) || chars.peek().is_none_or(|&next| !lookup(next).joins);
        let continues = match entry.single {
            Some(single) if is_alone => each(single, entry.class, start, at),
            _ => {
                while let Some(next) = chars.next_if(|&next| lookup(next).joins) {
                    at += next.len_utf8();
                }
                read_cluster(&text[start..at], |c| each(c, classify(c), start, at))
            }
        };
        if !continues {
            break;
        }
    }
    at
}

fn is_ascii_separator(c: char) -> bool {
    c.is_ascii() && !c.is_ascii_alphanumeric()
}

/// All characters of a cluster are visited, even if the caller stops: reading resumes after the cluster.
fn read_cluster(cluster: &str, mut each: impl FnMut(char) -> bool) -> bool {
    normalise(cluster).chars().fold(true, |_, c| each(c))
}

/// Unicode's NFKC_Casefold, but for ignorable characters, which [`CharClass::Ignorable`] takes care of.
fn normalise(cluster: &str) -> String {
    let once: String = fold(&cluster.nfd().collect::<String>()).nfkc().collect();
    fold(&once).nfkc().collect()
}

fn fold(text: &str) -> String {
    UniCase::unicode(text).to_folded_case()
}

/// The properties of a character that is a cluster of its own.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Its normalized form, if that is one character.
    single: Option<char>,
    class: CharClass,
    /// Whether it may combine with the character before it.
    joins: bool,
}

const PAGE: usize = 128;
static PAGES: [OnceLock<Box<[Entry]>>; 0x11_0000 / PAGE] =
    [const { OnceLock::new() }; 0x11_0000 / PAGE];

fn lookup(c: char) -> Entry {
    let code = c as usize;
    PAGES[code / PAGE].get_or_init(|| make_page(code / PAGE))[code % PAGE]
}

fn make_page(page: usize) -> Box<[Entry]> {
    let code_points = page * PAGE..(page + 1) * PAGE;
    // Surrogates are not characters, so their entries are never read.
    code_points
        .map(|code| {
            make_entry(
                u32::try_from(code)
                    .ok()
                    .and_then(char::from_u32)
                    .unwrap_or(' '),
            )
        })
        .collect()
}

fn make_entry(c: char) -> Entry {
    let normal = normalise(c.encode_utf8(&mut [0; 4]));
    let mut chars = normal.chars();
    let single = chars.next().filter(|_| chars.next().is_none());
    Entry {
        single,
        class: single.map_or(CharClass::Separator, classify),
        joins: joins(c),
    }
}

fn joins(c: char) -> bool {
    let first = c.nfkd().next().unwrap_or(c);
    canonical_combining_class(first) != 0
        || is_nfc_quick(std::iter::once(first)) == IsNormalized::Maybe
}

/// The class of a normalized character.
fn classify(c: char) -> CharClass {
    if matches!(c, '\'' | '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2bc}') {
        return CharClass::Apostrophe;
    }
    if is_ignorable(c) {
        return CharClass::Ignorable;
    }
    match c.general_category_group() {
        GeneralCategoryGroup::Letter if is_written_without_spaces(c) => CharClass::Solo,
        GeneralCategoryGroup::Number
            if is_written_without_spaces(c)
                && c.general_category() != GeneralCategory::DecimalNumber =>
        {
            CharClass::Solo
        }
        GeneralCategoryGroup::Letter => CharClass::Letter,
        GeneralCategoryGroup::Number => CharClass::Digit,
        GeneralCategoryGroup::Mark => CharClass::Mark,
        _ => CharClass::Separator,
    }
}

/// Unicode's Default_Ignorable_Code_Point.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Thai, Lao, Myanmar, Khmer; kana; Han.
fn is_written_without_spaces(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}'
        | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{3031}'..='\u{3035}' | '\u{3038}'..='\u{303c}'
        | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{1aff0}'..='\u{1b16f}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::Xxh3;

    fn read(text: &str) -> String {
        let mut out = String::new();
        read_chars(text, 0, |c, _, _, _| {
            out.push(c);
            true
        });
        out
    }

    #[test]
    fn forms_are_unified() {
        for (one, other) in [
            ("Ångström", "A\u{30a}ngstro\u{308}m"),
            ("ﬁle Ⅷ ２ ℌ", "file viii 2 h"),
            ("STRASSE", "straße"),
            ("ΟΔΥΣΣΕΥΣ", "οδυσσευς"),
            ("ｶﾞ", "ガ"),
            ("한국", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}"),
            ("İ", "i\u{307}"),
        ] {
            assert_eq!(read(one), read(other));
        }
    }

    #[test]
    fn spans_are_those_of_clusters() {
        let mut spans = Vec::new();
        read_chars("a\u{301}½b", 0, |c, _, start, end| {
            spans.push((c, start, end));
            true
        });
        assert_eq!(
            spans,
            [
                ('á', 0, 3),
                ('1', 3, 5),
                ('⁄', 3, 5),
                ('2', 3, 5),
                ('b', 5, 6)
            ]
        );
    }

    /// New versions of crates bring new tables. If this test fails, tokens have changed, and the scheme needs a new name.
    #[test]
    fn all_of_unicode_is_as_it_was() {
        let mut hash = Xxh3::new();
        for c in '\0'..=char::MAX {
            let entry = lookup(c);
            hash.update(&[entry.class as u8, u8::from(entry.joins)]);
            hash.update(normalise(c.encode_utf8(&mut [0; 4])).as_bytes());
        }
        assert_eq!(format!("{:016x}", hash.digest()), "5ab1b19dd6ded16c");
        let (major, minor, _) = unicode_normalization::UNICODE_VERSION;
        assert_eq!(format!("{major}.{minor}"), UNICODE);
    }
}
