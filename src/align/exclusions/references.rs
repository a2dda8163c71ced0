//! Finds lists of references by their shape.
//!
//! A text is split into *items*: paragraphs, and lines that begin as an entry does. An item is an
//! *entry* if it is short and looks like one: it begins with a number or key in brackets or the
//! name of an author, and has a year, initials, pages, a DOI or an address. A list of references is
//! a row of such items:
//!
//! - below a heading that is one of [`HEADINGS`], anywhere: then most entries only need a year, an
//!   address or a name;
//! - without such a heading, in the second half of the text, four or more: then each needs a year
//!   or an address and two of the other signs.
//!
//! So a list under a heading in any other language is found by its shape, while a document that is
//! nothing but a list of references still counts. The list ends at three items in a row, or one
//! long one, that are no entries: an appendix counts again.

use crate::base::num::ToU32;
use crate::text::stream::Span;

/// Headings of lists of references, in lower case. They only help: the shape must match as well.
pub const HEADINGS: [&str; 52] = [
    "references",
    "reference list",
    "list of references",
    "cited references",
    "references cited",
    "bibliography",
    "works cited",
    "works consulted",
    "literature cited",
    "literature",
    "sources",
    "literatur",
    "literaturverzeichnis",
    "quellen",
    "quellenverzeichnis",
    "literatur- und quellenverzeichnis",
    "bibliographie",
    "références",
    "références bibliographiques",
    "bibliografía",
    "referencias",
    "referencias bibliográficas",
    "bibliografia",
    "riferimenti bibliografici",
    "referências",
    "referências bibliográficas",
    "literatura",
    "použitá literatura",
    "seznam literatury",
    "seznam použité literatury",
    "zoznam použitej literatúry",
    "zdroje",
    "spis literatury",
    "piśmiennictwo",
    "literatuur",
    "literatuurlijst",
    "bronnen",
    "litteratur",
    "litteraturliste",
    "referanser",
    "referenser",
    "källor",
    "käll- och litteraturförteckning",
    "lähteet",
    "irodalom",
    "irodalomjegyzék",
    "kaynakça",
    "литература",
    "список литературы",
    "参考文献",
    "參考文獻",
    "참고문헌",
];

/// The most words of an entry.
const MOST_WORDS: usize = 100;
/// An item that is no entry and has more words ends a list.
const PROSE_WORDS: usize = 60;
/// The most words of a page number, a running title, or a heading inside the list.
const FEW_WORDS: usize = 4;
/// The fewest entries of a list without a known heading.
const LEAST_ENTRIES: usize = 4;
/// The number of items in a row without an entry that ends a list.
const MOST_MISSES: usize = 3;

/// The same, however short the items are.
const MOST_BETWEEN: usize = 32;
/// Bounds the time: once each item has been visited this often on average, rows that are no lists
/// are skipped as a whole.
const MOST_LOOKS: usize = 16;

/// The lists of references of a text, in order. Time: O(text).
pub fn bibliography(text: &str) -> Vec<Span> {
    let items = items(text);
    let mut found: Vec<Span> = Vec::new();
    let (mut at, mut looks) = (0, 0);
    while at < items.len() {
        let (row, is_list) = if items[at].is_heading {
            below_heading(&items, at)
        } else {
            without_heading(&items, at, text.len())
        };
        looks += row.seen - at;
        if is_list {
            // A short line before it is its heading, in any language.
            let has_title = !items[at].is_heading && at > 0 && items[at - 1].is_title;
            let first = if has_title {
                &items[at - 1]
            } else {
                &items[at]
            };
            found.push(Span {
                start: first.start.to_u32(),
                end: items[row.end - 1].end.to_u32(),
            });
            at = row.end;
        } else {
            at = if looks > MOST_LOOKS * items.len() {
                row.seen.max(at + 1)
            } else {
                at + 1
            };
        }
    }
    found
}

/// The row below a heading, and whether it is a list.
fn below_heading(items: &[ReferenceItem], heading: usize) -> (EntryRow, bool) {
    let row = row(items, heading + 1, ReferenceItem::may_be_entry, MOST_MISSES);
    let has_sure = || {
        items[heading + 1..row.end]
            .iter()
            .any(ReferenceItem::is_entry)
    };
    let is_list =
        row.entries >= 2 && 3 * row.entries >= 2 * row.misses || row.entries == 1 && has_sure();
    (row, is_list)
}

/// The row that starts here, and whether it is a list in the second half of the text.
fn without_heading(items: &[ReferenceItem], start: usize, length_bytes: usize) -> (EntryRow, bool) {
    if !items[start].is_entry() || items[start].start < length_bytes / 2 {
        return (
            EntryRow {
                seen: start + 1,
                ..EntryRow::default()
            },
            false,
        );
    }
    let row = row(items, start, ReferenceItem::is_entry, 2);
    (
        row,
        row.entries >= LEAST_ENTRIES && row.entries >= 4 * row.misses,
    )
}

/// A row of entries and the items between them.
#[derive(Debug, Clone, Copy, Default)]
struct EntryRow {
    /// The item after its last entry.
    end: usize,
    entries: usize,
    /// Items between them that are no entries.
    misses: usize,
    /// The item after the last visited one.
    seen: usize,
}

fn row(
    items: &[ReferenceItem],
    start: usize,
    is_entry: fn(&ReferenceItem) -> bool,
    most_misses: usize,
) -> EntryRow {
    let mut row = EntryRow {
        end: start,
        seen: start,
        ..EntryRow::default()
    };
    let (mut between, mut passed) = (0, 0);
    for (at, item) in items.iter().enumerate().skip(start) {
        row.seen = at + 1;
        if is_entry(item) {
            row = EntryRow {
                end: at + 1,
                entries: row.entries + 1,
                misses: row.misses + between,
                ..row
            };
            (between, passed) = (0, 0);
            continue;
        }
        passed += 1;
        between += usize::from(item.words > FEW_WORDS);
        if item.words > PROSE_WORDS || between >= most_misses || passed >= MOST_BETWEEN {
            break;
        }
    }
    row
}

/// A paragraph, or a part of one that begins as an entry does.
#[derive(Debug, Default)]
struct ReferenceItem {
    start: usize,
    end: usize,
    words: usize,
    /// One of [`HEADINGS`].
    is_heading: bool,
    /// A short line by itself.
    is_title: bool,
    is_numbered: bool,
    has_author: bool,
    has_year: bool,
    has_address: bool,
    has_pages: bool,
    has_initials: bool,
}

impl ReferenceItem {
    /// The number of signs of an entry that it has.
    fn signs(&self) -> usize {
        [
            self.is_numbered,
            self.has_author,
            self.has_pages,
            self.has_initials,
            self.has_address && self.has_year,
        ]
        .into_iter()
        .filter(|&is| is)
        .count()
    }

    /// Whether it is an entry wherever it is.
    fn is_entry(&self) -> bool {
        let begins = self.is_numbered || self.has_author || self.has_address;
        !self.is_heading
            && self.words <= MOST_WORDS
            && begins
            && (self.has_year || self.has_address)
            && self.signs() >= 2
    }

    /// Whether it is an entry below a heading of references.
    fn may_be_entry(&self) -> bool {
        let is_short = self.words <= MOST_WORDS && self.words >= 2;
        !self.is_heading
            && is_short
            && (self.has_address
                || (self.has_year && (self.signs() >= 1 || self.words <= 30))
                || (self.signs() >= 2))
    }
}

/// Splits a text into items.
fn items(text: &str) -> Vec<ReferenceItem> {
    let mut items: Vec<ReferenceItem> = Vec::new();
    let (mut start, mut is_open) = (0, false);
    for line in text.split_inclusive('\n') {
        let (from, end) = (start, start + line.len());
        start = end;
        let line = line.trim();
        if line.is_empty() {
            is_open = false;
            continue;
        }
        let is_heading = is_heading(line);
        let (is_numbered, has_author) = (is_numbered(line), has_author(line));
        if is_heading || !is_open || is_numbered || has_author {
            items.push(ReferenceItem {
                start: from,
                is_heading,
                is_numbered,
                has_author,
                is_title: true,
                ..ReferenceItem::default()
            });
        } else if let Some(item) = items.last_mut() {
            item.is_title = false;
        }
        if let Some(item) = items.last_mut() {
            item.add_line(line, end);
        }
        is_open = !is_heading;
    }
    items
}

impl ReferenceItem {
    /// Adds a line.
    fn add_line(&mut self, line: &str, end: usize) {
        self.end = end;
        self.words += line.split_whitespace().count();
        self.is_title &= self.words <= FEW_WORDS && !line.ends_with('.') && !self.is_numbered;
        self.has_year |= has_year(line);
        self.has_address |= has_address(line);
        self.has_pages |= has_pages(line);
        self.has_initials |= has_initials(line);
    }
}

/// Whether a line is one of the headings, with or without a number, markup and a colon.
fn is_heading(line: &str) -> bool {
    if line.len() > 80 {
        return false;
    }
    let is_mark = |c: char| {
        matches!(c, '#' | '*' | '=' | '_' | ':' | '.' | ')' | '-' | '\\') || c.is_whitespace()
    };
    let line = line.trim_matches(is_mark);
    let line = line
        .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ')'))
        .trim_start_matches(is_mark);
    let line = line
        .strip_prefix(|c| matches!(c, 'I' | 'V' | 'X'))
        .map_or(line, |rest| match rest.split_once('.') {
            Some((number, rest)) if number.chars().all(|c| matches!(c, 'I' | 'V' | 'X')) => {
                rest.trim_start()
            }
            _ => line,
        });
    HEADINGS.contains(&line.to_lowercase().as_str())
}

/// `[12] `, `[Knu97] `, `(3) `, `12. `.
fn is_numbered(line: &str) -> bool {
    let is_key = |key: &str| {
        !key.is_empty()
            && key.len() <= 24
            && key.chars().any(|c| c.is_ascii_digit())
            && !key.contains(' ')
    };
    let is_number =
        |key: &str| !key.is_empty() && key.len() <= 3 && key.chars().all(|c| c.is_ascii_digit());
    if let Some((key, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return is_key(key) && !rest.trim().is_empty();
    }
    let (number, rest) = match line.strip_prefix('(') {
        Some(rest) => rest.split_once(')').unwrap_or_default(),
        None => line.split_once(['.', ')']).unwrap_or_default(),
    };
    is_number(number) && rest.starts_with(char::is_whitespace)
}

/// `Knuth, D. E.`, `Knuth, Donald`, `D. E. Knuth,`, `KNUTH, Donald`; a bullet before it makes no difference.
fn has_author(line: &str) -> bool {
    let line =
        line.trim_start_matches(|c: char| matches!(c, '•' | '-' | '*' | '–') || c.is_whitespace());
    let mut words = line.split_whitespace();
    let is_name = |word: &str| {
        word.chars().next().is_some_and(char::is_uppercase)
            && word.chars().filter(|c| c.is_alphabetic()).count() > 1
    };
    // "van der Berg, J.": particles before the name.
    let mut first = words.next().unwrap_or_default();
    for _ in 0..2 {
        if first.chars().all(char::is_lowercase) && first.len() <= 4 {
            first = words.next().unwrap_or_default();
        }
    }
    let second = words.next().unwrap_or_default();
    if is_initial(first) {
        return is_initial(second)
            || is_name(second) && line.chars().take(60).any(|c| matches!(c, ',' | ':' | '('));
    }
    // A sentence may begin with two names and a comma as well, so this alone proves nothing.
    is_name(first) && first.ends_with(',') && (is_initial(second) || is_name(second))
}

/// `D.`, `D.,`, `D.E.`, `J.-P.`
fn is_initial(word: &str) -> bool {
    let word = word.trim_end_matches([',', ';', ':', ')']);
    let mut chars = word.chars();
    chars.next().is_some_and(char::is_uppercase)
        && chars.next() == Some('.')
        && word
            .chars()
            .all(|c| c.is_uppercase() || c == '.' || c == '-')
}

fn has_initials(line: &str) -> bool {
    line.split_whitespace()
        .any(|word| is_initial(word.trim_start_matches('(')))
}

/// A number from 1500 to 2099 by itself, or with a letter: 2004a.
fn has_year(line: &str) -> bool {
    let words = line.split(|c: char| !c.is_alphanumeric());
    words.into_iter().any(|word| {
        let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
        word.len() - digits.len() <= 1
            && digits.len() == 4
            && digits
                .parse::<u32>()
                .is_ok_and(|year| (1500..2100).contains(&year))
    })
}

fn has_address(line: &str) -> bool {
    let line = line.to_lowercase();
    [
        "http://", "https://", "www.", "doi:", "doi.org", "doi 10.", "arxiv:", "isbn",
    ]
    .iter()
    .any(|sign| line.contains(sign))
}

/// `12–34`, `12(3)`, `pp. 12`, `S. 12`, `12:34`.
fn has_pages(line: &str) -> bool {
    let chars: Vec<char> = line.chars().collect();
    let between = chars.windows(3).any(|three| {
        three[0].is_ascii_digit()
            && three[2].is_ascii_digit()
            && matches!(three[1], '-' | '–' | '—' | '(' | ':')
    });
    let mut words = line.split_whitespace().peekable();
    let mut is_named = false;
    while let Some(word) = words.next() {
        let is_sign = matches!(
            word.trim_start_matches('('),
            "pp." | "p." | "S." | "s." | "pág." | "págs." | "vol." | "Vol." | "č." | "Bd."
        );
        is_named |= is_sign
            && words
                .peek()
                .is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()));
    }
    between || is_named
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BODY: &str = "The flow of ice has been studied for long. In 1998, J. Smith measured it again (Smith, 1998), and what he found in 2001 was confirmed \
        by others; see https://example.org for their data. It moves by 12-30 metres a year.\n\nThe second paragraph says what it means, at some length, \
        and names nobody but Hooke, who lived from 1635 to 1703 and wrote letters.\n\n";
    const APA: &str = "Nye, J. F. (1952). The mechanics of glacier flow. Journal of Glaciology, 2(12), 82–93.\n\
        Glen, J. W. (1955). The creep of polycrystalline ice. Proceedings of the Royal Society A, 228, 519–538.\n\
        Paterson, W. S. B. (1994). The Physics of Glaciers. Oxford: Pergamon.\n\
        van der Veen, C. J. (2013). Fundamentals of Glacier Dynamics.\n   Boca Raton: CRC Press. https://doi.org/10.1201/b14059\n";
    const NUMBERED: &str = "[1] J. F. Nye. The mechanics of glacier flow. J. Glaciol., 2(12):82-93, 1952.\n\
        [2] J. W. Glen. The creep of polycrystalline ice. Proc. R. Soc. A,\n    228:519-538, 1955.\n\
        [Pat94] W. S. B. Paterson. The Physics of Glaciers. Pergamon, 1994.\n[4] Data. https://example.org/ice, seen 2020.\n";

    fn found(text: &str) -> Vec<&str> {
        bibliography(text)
            .iter()
            .map(|span| &text[span.range()])
            .collect()
    }

    #[test]
    fn below_a_heading() {
        for heading in [
            "References",
            "REFERENCES:",
            "## 7. Literaturverzeichnis",
            "7 Bibliography",
            "VII. Sources",
            "**Použitá literatura**",
            "参考文献",
        ] {
            for list in [APA, NUMBERED] {
                let text = format!("{BODY}{heading}\n\n{list}");
                assert_eq!(found(&text), [format!("{heading}\n\n{list}")], "{heading}");
            }
        }
    }

    #[test]
    fn by_its_shape() {
        for list in [APA, NUMBERED] {
            assert_eq!(found(&format!("{BODY}{BODY}{list}")), [list]);
            assert_eq!(
                found(&format!("{BODY}{BODY}Mga Sanggunian\n\n{list}")),
                [format!("Mga Sanggunian\n\n{list}")]
            );
        }
        // A document that is a list counts.
        assert_eq!(found(NUMBERED), [""; 0]);
        assert_eq!(found(&format!("{NUMBERED}\n{BODY}{BODY}")), [""; 0]);
    }

    #[test]
    fn what_comes_after_it_counts() {
        let appendix = "Appendix A\n\nThis is what the instruments said, day by day, from the first of May on.\n\nIt was cold. It was windy as well.\n\n\
            It went on to be cold and windy until the end of the season.\n";
        assert_eq!(
            found(&format!("{BODY}References\n{APA}\n{appendix}")),
            [format!("References\n{APA}")]
        );
    }

    #[test]
    fn prose_is_no_list() {
        assert_eq!(found(BODY), [""; 0]);
        assert_eq!(found(&BODY.repeat(4)), [""; 0]);
        let review = format!(
            "Literature\n\n{}\n\n{}",
            BODY.replace("\n\n", " ").repeat(3),
            BODY.repeat(2)
        );
        assert_eq!(found(&review), [""; 0]);
        let steps = "1. In 2001 we began with one station in the valley.\n2. In 2005 there were three of them, all on the ice.\n\
            3. By 2010 there were ten stations.\n4. In 2020 all of them were gone.\n";
        assert_eq!(found(&format!("{BODY}{steps}")), [""; 0]);
        assert_eq!(found(&format!("{BODY}References\n\nNone.\n")), [""; 0]);
        assert_eq!(found(""), [""; 0]);
    }

    #[test]
    fn hostile_texts_end() {
        let entry = "[1] A. B. Cee. Title. 1999, 1-2.\n";
        let prose = "Some prose that has no signs at all.\n\n";
        let patterns = [
            "References\n".to_owned(),
            format!("References\n{entry}{prose}{prose}"),
            format!("{entry}{prose}"),
            format!("{}{prose}", entry.repeat(3)),
            format!("{entry}\n\nShort\n\n"),
        ];
        for pattern in patterns {
            let started = std::time::Instant::now();
            bibliography(&pattern.repeat(4_000_000 / pattern.len()));
            assert!(started.elapsed().as_secs() < 20, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn lists_of_any_text_are_in_order(lines in prop::collection::vec(prop::sample::select(vec![
            "References", "", "[1] A. B. Cee. 1999, 1-2.", "Word, W. (2001). 3–4. https://x.y", "Some prose that has no signs at all.", "Short", "é"]), 0..30)) {
            let text = lines.join("\n");
            let spans = bibliography(&text);
            prop_assert!(spans.windows(2).all(|two| two[0].end <= two[1].start));
            for span in spans {
                prop_assert!(text.get(span.range()).is_some_and(|part| !part.is_empty()));
            }
        }
    }
}
