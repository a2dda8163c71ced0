//! Finds quotations: text between quotation marks, and lines that begin with `>`.
//!
//! The language does not matter: the marks and their neighbours decide. A mark opens a quotation if
//! it follows a space or nothing, and a word follows it. The same mark may close a quotation in
//! another language, so “, ”, », › and " are interpreted by their neighbours:
//!
//! ```text
//! "…"   “…”   „…“   „…”   ”…”   «…»   » …«   »…»   ‹…›   ›…‹   ‘…’   ‚…‘   「…」   『…』   ``…''
//! ```
//!
//! An apostrophe is no quotation mark: ’ only closes what ‘ opened, and never inside a word; after
//! a plural s (the students’ books) it does so only if no other mark in the paragraph can. The
//! straight ' is never a quotation mark: it is too often an apostrophe.
//!
//! **Bounds.** A quotation ends in its paragraph, unless the next paragraph opens with the same
//! mark, as is customary for long quotations; and it has at most [`MOST_CHARS`] characters. So an
//! unpaired mark does no harm: it is skipped. Fewer than [`LEAST_WORDS`] words are a term or a
//! title, and count as the author's own.

use crate::base::num::ToU32;
use crate::text::stream::Span;
use std::ops::Range;

/// The most characters of a quotation; longer ones are not marked by quotation marks alone.
pub const MOST_CHARS: usize = 4000;
/// The fewest words of a quotation; fewer are a term.
pub const LEAST_WORDS: usize = 5;

/// The quotations of a text, including their marks, in order; they do not overlap.
pub fn quotations(text: &str) -> Vec<Span> {
    let (mut found, mut blocks) = (Vec::new(), Vec::new());
    let paragraphs = paragraphs(text, &mut blocks);
    for (at, paragraph) in paragraphs.iter().enumerate() {
        let next = paragraphs
            .get(at + 1)
            .and_then(|next| text[next.clone()].trim_start().chars().next());
        let chars: Vec<(usize, char)> = text[paragraph.clone()]
            .char_indices()
            .map(|(at, c)| (paragraph.start + at, c))
            .collect();
        Paragraph {
            chars: &chars,
            end: paragraph.end,
            next,
        }
        .quotations(&mut found);
    }
    found.extend(blocks);
    found.sort_unstable_by_key(|span: &Span| span.start);
    found
}

/// Splits text at blank lines. Lines that begin with `>` are quoted, and separate paragraphs as
/// blank lines do.
fn paragraphs(text: &str, quoted: &mut Vec<Span>) -> Vec<Range<usize>> {
    let mut paragraphs: Vec<Range<usize>> = Vec::new();
    let (mut start, mut is_open) = (0, false);
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let is_quoted = line.trim_start_matches(' ').starts_with('>');
        if is_quoted {
            quoted.push(Span {
                start: start.to_u32(),
                end: end.to_u32(),
            });
        }
        if is_quoted || line.trim().is_empty() {
            is_open = false;
        } else if let Some(open) = paragraphs.last_mut().filter(|_| is_open) {
            open.end = end;
        } else {
            paragraphs.push(start..end);
            is_open = true;
        }
        start = end;
    }
    paragraphs
}

/// A paragraph to search.
struct Paragraph<'p> {
    /// The byte offset of each character, and the character.
    chars: &'p [(usize, char)],
    end: usize,
    /// The first character of the next paragraph.
    next: Option<char>,
}

/// How a quotation ends.
enum QuotationEnd {
    /// Its last character.
    Closed(usize),
    /// The mark opens again here: the first one is unpaired.
    Reopened(usize),
    /// There is no closing mark near enough.
    Missing,
    /// The paragraph ends before it.
    Open,
}

impl Paragraph<'_> {
    fn quotations(&self, found: &mut Vec<Span>) {
        let mut at = 0;
        while at < self.chars.len() {
            at = match self.closers(at).map(|closers| self.end_of(at, closers)) {
                Some(QuotationEnd::Closed(last)) => {
                    let end = self.chars.get(last + 1).map_or(self.end, |next| next.0);
                    self.push(at, end, found);
                    last + 1
                }
                Some(QuotationEnd::Open)
                    if self.next == self.char(at) && self.chars.len() - at <= MOST_CHARS =>
                {
                    self.push(at, self.end, found);
                    self.chars.len()
                }
                Some(QuotationEnd::Reopened(again)) => again,
                Some(QuotationEnd::Missing | QuotationEnd::Open) | None => at + 1,
            };
        }
    }

    fn push(&self, first: usize, end: usize, found: &mut Vec<Span>) {
        let start = self.chars[first].0;
        let chars = self.chars[first..]
            .iter()
            .take_while(|(at, _)| *at < end)
            .map(|&(_, c)| c);
        if count_words(chars) >= LEAST_WORDS {
            found.push(Span {
                start: start.to_u32(),
                end: end.to_u32(),
            });
        }
    }

    fn char(&self, at: usize) -> Option<char> {
        self.chars.get(at).map(|&(_, c)| c)
    }

    fn before(&self, at: usize) -> Option<char> {
        self.char(at.checked_sub(1)?)
    }

    /// The marks that can close the quotation that begins here, if one does.
    fn closers(&self, at: usize) -> Option<&'static [char]> {
        let (mark, before, after) = (self.char(at)?, self.before(at), self.char(at + 1)?);
        // There is no quotation mark between two letters of a word. Chinese and Japanese have no
        // spaces.
        let stands_free = !before.is_some_and(is_letter);
        let begins = before.is_none_or(|c| c.is_whitespace() || is_opening(c))
            && (after.is_alphanumeric() || is_opening(after) || after == '.');
        let has_words = stands_free && !after.is_whitespace();
        let (is_fit, closers): (bool, &[char]) = match mark {
            '"' => (begins, &['"']),
            '”' => (begins, &['”']),
            '»' => (begins, &['«', '»']),
            '›' => (begins, &['‹', '›']),
            '“' => (has_words, &['”']),
            '„' => (has_words, &['“', '”', '"']),
            '‘' => (has_words, &['’']),
            '‚' => (begins, &['‘', '’']),
            '«' => (stands_free, &['»']),
            '‹' => (stands_free, &['›']),
            '「' => (true, &['」']),
            '『' => (true, &['』']),
            '`' => (stands_free && after == '`', &['\'']),
            _ => (false, &[]),
        };
        is_fit.then_some(closers)
    }

    fn end_of(&self, open: usize, closers: &[char]) -> QuotationEnd {
        let mark = self.chars[open].1;
        let first = open + if mark == '`' { 2 } else { 1 };
        let last = self.chars.len().min(first + MOST_CHARS);
        let mut plural = None;
        for at in first..last {
            let c = self.chars[at].1;
            if closers.contains(&c) && self.closes(at, mark) {
                if !self.is_plural(at) {
                    return QuotationEnd::Closed(if mark == '`' { at + 1 } else { at });
                }
                plural = plural.or(Some(at));
            } else if c == mark && self.closers(at).is_some() {
                return plural.map_or(QuotationEnd::Reopened(at), QuotationEnd::Closed);
            }
        }
        match plural {
            Some(at) => QuotationEnd::Closed(at),
            None if last == self.chars.len() => QuotationEnd::Open,
            None => QuotationEnd::Missing,
        }
    }

    /// Whether a possible closing mark closes the quotation.
    fn closes(&self, at: usize, open: char) -> bool {
        let (before, after) = (self.before(at), self.char(at + 1));
        let ends_word = !before.is_some_and(char::is_whitespace);
        match self.chars[at].1 {
            // French has spaces inside its marks.
            '»' | '›' | '«' | '‹' if open == '«' || open == '‹' => true,
            '"' | '”' if open == self.chars[at].1 => ends_word && self.closers(at).is_none(),
            '’' | '‘' => ends_word && !after.is_some_and(is_letter),
            '\'' => after == Some('\''),
            _ => ends_word,
        }
    }

    /// Whether this is a plural possessive: the students’ books.
    fn is_plural(&self, at: usize) -> bool {
        let is_s = matches!(self.before(at), Some('s' | 'S' | 'x' | 'z'));
        let goes_on =
            self.char(at + 1) == Some(' ') && self.char(at + 2).is_some_and(char::is_lowercase);
        self.chars[at].1 == '’' && is_s && goes_on
    }
}

fn is_opening(c: char) -> bool {
    matches!(
        c,
        '(' | '['
            | '{'
            | '¿'
            | '¡'
            | '…'
            | '—'
            | '–'
            | '-'
            | ':'
            | '*'
            | '_'
            | '\''
            | '"'
            | '“'
            | '„'
            | '‘'
            | '‚'
            | '«'
            | '‹'
            | '»'
            | '›'
            | '$'
            | '€'
            | '£'
            | '#'
    )
}

/// Whether it is a letter of a script that puts spaces between words.
fn is_letter(c: char) -> bool {
    c.is_alphanumeric() && !is_ideograph(c)
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

fn count_words(chars: impl Iterator<Item = char>) -> usize {
    let (mut words, mut is_inside) = (0, false);
    for c in chars {
        let is_word = c.is_alphanumeric();
        words += usize::from(is_word && (!is_inside || is_ideograph(c)));
        is_inside = is_word || (is_inside && matches!(c, '\'' | '’'));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Vec<&str> {
        quotations(text)
            .iter()
            .map(|span| &text[span.range()])
            .collect()
    }

    #[test]
    fn marks_of_many_languages() {
        for quotation in [
            "\"one two three four five\"",
            "“one two three four five”",
            "„eins zwei drei vier fünf“",
            "„jeden dwa trzy cztery pięć”",
            "”ett två tre fyra fem”",
            "« un deux trois quatre cinq »",
            "«один два три четыре пять»",
            "»eins zwei drei vier fünf«",
            "»yksi kaksi kolme neljä viisi»",
            "‹un deux trois quatre cinq›",
            "›eins zwei drei vier fünf‹",
            "‘one two three four five’",
            "‚eins zwei drei vier fünf‘",
            "``one two three four five''",
            "「一二三四五」",
        ] {
            for text in [
                format!("He said: {quotation}, and left."),
                quotation.to_owned(),
                format!("({quotation})"),
                format!("A.\n{quotation}\n"),
            ] {
                assert_eq!(found(&text), [quotation], "{text}");
            }
        }
        assert_eq!(found("他说：“一二三四五六”。"), ["“一二三四五六”"]);
    }

    #[test]
    fn apostrophes_are_not_marks() {
        assert_eq!(
            found(
                "The dog’s tail wasn’t long; the students’ books weren’t either, nor the teachers’ own."
            ),
            [""; 0]
        );
        assert_eq!(
            found("‘the students’ books aren’t the teachers’ own ones,’ he said"),
            ["‘the students’ books aren’t the teachers’ own ones,’"]
        );
        assert_eq!(
            found("‘this is about my parents’ and ‘this one is about your house’."),
            [
                "‘this is about my parents’",
                "‘this one is about your house’"
            ]
        );
        assert_eq!(
            found("'tis the season of the students' books and 'all of the rest' too"),
            [""; 0]
        );
        assert_eq!(
            found("’Tis the rock ’n’ roll of the ’90s that the boys’ band played"),
            [""; 0]
        );
    }

    #[test]
    fn a_mark_without_its_counterpart_swallows_nothing() {
        let rest = "many words that nobody has put between marks at all";
        for mark in ["\"", "“", "„", "”", "«", "»", "‹", "‘", "``", "「"] {
            assert_eq!(
                found(&format!("He said {mark}{rest}.\n\nAnd {rest}")),
                [""; 0],
                "{mark}"
            );
        }
        // Neither does an inch sign, nor a mark that was forgotten before the next quotation.
        assert_eq!(
            found(&format!("A 5\" pipe, a 7\" pipe and {rest} and a 3\" one")),
            [""; 0]
        );
        assert_eq!(
            found(&format!(
                "He \"forgot {rest}, and \"one two three four five\" was said"
            )),
            ["\"one two three four five\""]
        );
        let long = "word ".repeat(1000);
        assert_eq!(
            found(&format!("\"{long}\" and \"one two three four five\"")),
            ["\"one two three four five\""]
        );
    }

    #[test]
    fn paragraphs_and_blocks() {
        let text = "He wrote:\n\n“One two three four five.\n\n“Six seven eight nine ten.”\n\nOwn words again.";
        assert_eq!(
            found(text),
            ["“One two three four five.\n", "“Six seven eight nine ten.”"]
        );
        assert_eq!(
            found("Ann wrote:\n> This is a block\n > of two lines\nMine again > yes"),
            ["> This is a block\n", " > of two lines\n"]
        );
        assert_eq!(found("A \"short one\" and ‘a term’."), [""; 0]);
        assert_eq!(
            found("He said “it is ‘not’ what \"you\" think it is”."),
            ["“it is ‘not’ what \"you\" think it is”"]
        );
        assert_eq!(
            found("“Over two\nlines that are one paragraph”"),
            ["“Over two\nlines that are one paragraph”"]
        );
    }

    #[test]
    fn hostile_texts_end() {
        for pattern in ["“", "\" \"", "‘s’ s ", "``", "„«‹‘‚「『“ x ", "»a ", "> \n"]
        {
            let started = std::time::Instant::now();
            quotations(&pattern.repeat(2_000_000 / pattern.len()));
            assert!(started.elapsed().as_secs() < 20, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn quotations_of_any_text_are_in_order(text in "[ab .,\n\"“”„«»‹›‘’‚`'>「」é漢]{0,200}") {
            let spans = quotations(&text);
            prop_assert!(spans.windows(2).all(|two| two[0].end <= two[1].start), "{:?}", spans);
            for span in spans {
                prop_assert!(text.get(span.range()).is_some_and(|part| !part.is_empty()));
            }
        }

        /// A sentence between marks is found wherever it is.
        #[test]
        fn a_quoted_sentence_is_found(before in "[a-z ]{0,40}", words in prop::collection::vec("[a-z]{1,8}", 5..60), after in "[a-z .]{0,40}", mark in 0_usize..5) {
            let (open, close) = [("\"", "\""), ("“", "”"), ("„", "“"), ("« ", " »"), ("»", "«")][mark];
            let quotation = format!("{open}{}{close}", words.join(" "));
            let text = format!("{before} {quotation} {after}");
            prop_assert_eq!(found(&text), [quotation.as_str()]);
        }
    }
}
