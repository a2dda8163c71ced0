//! Encodings of text other than UTF-8.
//!
//! Bytes that are UTF-8 stay as they are. Others are decoded if a byte-order mark or the pattern of zero bytes shows UTF-16, or if
//! a detector is sure of a legacy encoding and every byte makes sense in it; the account counts them. A user may name the
//! encoding instead. What remains is left out, or read with `?` for each wrong byte.

use super::{
    Options,
    skipped_kind::{SkippedKind, wide_kind},
    unpack::Input,
};
use crate::base::setting::Setting;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};
use std::io::{self, BufRead, BufReader, Read};

/// Which encoding texts are in.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextEncoding {
    /// The one that the user names.
    named: Option<&'static Encoding>,
    lossy: bool,
}

/// How a text was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// As it is.
    Utf8,
    /// From another encoding, of this name.
    From(&'static str),
}

/// The encoding of a name such as `utf-8`, `latin1` or `windows-1250`; none for `auto`.
pub fn parse_encoding(name: &str) -> Result<Option<String>, String> {
    if name.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    match Encoding::for_label(name.as_bytes()) {
        Some(encoding) => Ok(Some(encoding.name().to_owned())),
        None => Err(format!(
            "'{name}' is no encoding; names are auto, utf-8, utf-16le, windows-1252, iso-8859-2, shift_jis, gb18030 and others of the web"
        )),
    }
}

impl TextEncoding {
    pub fn new(options: &Options) -> Self {
        let label = options.encoding.as_deref().unwrap_or_default();
        Self {
            named: Encoding::for_label(label.as_bytes()),
            lossy: options.lossy,
        }
    }

    /// Replaces the bytes of a document by UTF-8, or says why they are no text.
    pub fn decode(self, bytes: &mut Vec<u8>) -> Result<Decoded, String> {
        let is_utf8 = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        let encoding = match self.named {
            Some(named) if named != UTF_8 => named,
            Some(_) => return self.ensure_utf8(bytes),
            // A text with zero bytes may be UTF-8 by chance.
            None if is_utf8(bytes) && memchr::memchr(0, bytes).is_none() => {
                return Ok(Decoded::Utf8);
            }
            None => match guess(bytes) {
                Some(guessed) => guessed,
                None => return self.ensure_utf8(bytes),
            },
        };
        if encoding == UTF_8 {
            return self.ensure_utf8(bytes);
        }
        let mut text = Vec::new();
        // Reading from memory does not fail.
        let _ = MarkingDecoder::new(encoding, &bytes[..]).read_to_end(&mut text);
        if self.named.is_none() && !is_utf8(&text) {
            return self.ensure_utf8(bytes);
        }
        super::document_reader::ensure_utf8(&mut text, self.lossy)
            .map_err(|_| wrong_bytes(encoding.name()))?;
        if *bytes == text {
            return Ok(Decoded::Utf8);
        }
        *bytes = text;
        Ok(Decoded::From(encoding.name()))
    }

    /// Whether the user names an encoding.
    pub fn is_named(self) -> bool {
        self.named.is_some()
    }

    fn ensure_utf8(self, bytes: &mut [u8]) -> Result<Decoded, String> {
        super::document_reader::ensure_utf8(bytes, self.lossy).map(|()| Decoded::Utf8)
    }

    /// The encoding of an input of many records, if it must be decoded. Only UTF-16, or what the user says, counts
    /// here: records come one by one.
    pub fn of_records(self, head: &[u8]) -> Option<&'static Encoding> {
        if head.starts_with(&[0xff, 0xfe, 0, 0]) {
            return None;
        }
        of_utf16(head).or_else(|| self.named.filter(|&named| named != UTF_8))
    }
}

/// The message about bytes that the encoding, which the user named or a byte-order mark shows, does not have.
pub(super) fn wrong_bytes(encoding: &str) -> String {
    format!(
        "some bytes are not {encoding}; name another {}, or read it with {}, which puts ? for each wrong byte",
        Setting::Encoding,
        Setting::Lossy
    )
}

/// An input as UTF-8, apart from a byte that is no UTF-8 for each sequence that the encoding does not have: so a record with
/// wrong bytes is treated like one in UTF-8 that has some.
pub(super) fn decode_input(encoding: &'static Encoding, input: Input) -> Input {
    Box::new(BufReader::new(MarkingDecoder::new(encoding, input)))
}

/// Never part of UTF-8.
const WRONG: u8 = 0xff;
const DECODED_BYTES: usize = 32 << 10;

/// Decodes what it reads, with [`WRONG`] for each sequence that the encoding does not have.
struct MarkingDecoder<R> {
    input: R,
    decoder: Decoder,
    decoded: Vec<u8>,
    /// How much of the decoded bytes was given out.
    given: usize,
    has_ended: bool,
}

impl<R: BufRead> MarkingDecoder<R> {
    fn new(encoding: &'static Encoding, input: R) -> Self {
        Self {
            input,
            decoder: encoding.new_decoder(),
            decoded: Vec::new(),
            given: 0,
            has_ended: false,
        }
    }

    /// Decodes some bytes, unless the input has ended.
    fn fill(&mut self) -> io::Result<()> {
        self.given = 0;
        self.decoded.clear();
        while self.decoded.is_empty() && !self.has_ended {
            let input = self.input.fill_buf()?;
            let is_last = input.is_empty();
            self.decoded.resize(DECODED_BYTES, 0);
            let (result, read, written) =
                self.decoder
                    .decode_to_utf8_without_replacement(input, &mut self.decoded, is_last);
            self.input.consume(read);
            self.decoded.truncate(written);
            match result {
                DecoderResult::Malformed(..) => self.decoded.push(WRONG),
                DecoderResult::InputEmpty => self.has_ended = is_last,
                DecoderResult::OutputFull => {}
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for MarkingDecoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.decoded.len() {
            self.fill()?;
        }
        let count = (&self.decoded[self.given..]).read(buffer)?;
        self.given += count;
        Ok(count)
    }
}

/// UTF-16, by a byte-order mark or by its zero bytes.
fn of_utf16(bytes: &[u8]) -> Option<&'static Encoding> {
    match bytes {
        [0xff, 0xfe, 0, 0, ..] => return None,
        [0xff, 0xfe, ..] => return Some(UTF_16LE),
        [0xfe, 0xff, ..] => return Some(UTF_16BE),
        _ => {}
    }
    if wide_kind(bytes) != Some(SkippedKind::Utf16) {
        return None;
    }
    let zeros = |at: usize| {
        let bytes = bytes.iter().skip(at).step_by(2);
        bytes.filter(|&&byte| byte == 0).count()
    };
    Some(if zeros(1) > zeros(0) {
        UTF_16LE
    } else {
        UTF_16BE
    })
}

/// The encoding of bytes that are not UTF-8, if they leave no doubt.
fn guess(bytes: &[u8]) -> Option<&'static Encoding> {
    if let Some(encoding) = of_utf16(bytes) {
        return Some(encoding);
    }
    if memchr::memchr(0, bytes).is_some() {
        return None;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
    is_plausible(&text).then_some(encoding)
}

/// Of the words with letters beyond ASCII, at least this share must be in one script.
const PLAUSIBLE_PERCENT: usize = 90;

/// Whether a text reads like one: no control characters, and words that do not mix scripts. In the wrong encoding
/// `größer` becomes `grцЯer`.
fn is_plausible(text: &str) -> bool {
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}');
    if text.contains(is_control) {
        return false;
    }
    let words = text.split(|c: char| !c.is_alphabetic());
    let (mut single, mut longer, mut plausible) = (0, 0, 0);
    for word in words.filter(|word| !word.is_ascii()) {
        let mut scripts = word.chars().map(script);
        let first = scripts.next();
        if word.chars().count() == 1 {
            single += 1;
            continue;
        }
        longer += 1;
        plausible += usize::from(scripts.all(|script| Some(script) == first));
    }
    // A letter that stands alone tells nothing.
    (longer > 0 || single == 0) && plausible * 100 >= longer * PLAUSIBLE_PERCENT
}

/// A rough script of a letter: what lies together in the tables of Unicode.
fn script(letter: char) -> u8 {
    match letter {
        '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => 0,
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => 1,
        '\u{400}'..='\u{52f}' => 2,
        '\u{590}'..='\u{5ff}' => 3,
        '\u{600}'..='\u{6ff}' => 4,
        '\u{e00}'..='\u{e7f}' => 5,
        '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn decode(
        bytes: &[u8],
        encoding: Option<&str>,
        lossy: bool,
    ) -> Result<(String, Decoded), String> {
        let options = Options {
            encoding: encoding.map(str::to_owned),
            lossy,
            ..Options::default()
        };
        let mut bytes = bytes.to_vec();
        let decoded = TextEncoding::new(&options).decode(&mut bytes)?;
        Ok((String::from_utf8(bytes).unwrap(), decoded))
    }

    #[test]
    fn utf8_stays_as_it_is() {
        for text in [
            "",
            "plain",
            "größer, ještě",
            "\u{feff}with a mark",
            "a \0 in it",
        ] {
            let decoded = decode(text.as_bytes(), None, false);
            assert_eq!(decoded, Ok((text.to_owned(), Decoded::Utf8)));
        }
    }

    #[test]
    fn utf16_is_decoded_with_a_mark_and_without() {
        let text = "Words of a text, and some more: Wörter, ještě.";
        for (name, order) in [
            ("UTF-16LE", u16::to_le_bytes as fn(u16) -> [u8; 2]),
            ("UTF-16BE", u16::to_be_bytes),
        ] {
            let bytes: Vec<u8> = text.encode_utf16().flat_map(order).collect();
            let marked = [&order(0xfeff)[..], &bytes].concat();
            for bytes in [bytes, marked] {
                let expected = (text.to_owned(), Decoded::From(name));
                assert_eq!(decode(&bytes, None, false), Ok(expected));
            }
        }
    }

    #[test]
    fn legacy_encodings_are_guessed_where_there_is_no_doubt() {
        let german =
            "Die Prüfung der Größe: schöne Bücher über Österreich, während die Gäste Käse äßen.";
        let czech =
            "Příliš žluťoučký kůň úpěl ďábelské ódy, řekl učitel žákům v předminulém století.";
        let russian = "Все люди рождаются свободными и равными в своем достоинстве и правах.";
        for (text, label) in [
            (german, "windows-1252"),
            (czech, "windows-1250"),
            (russian, "windows-1251"),
            (russian, "koi8-r"),
        ] {
            let encoding = Encoding::for_label(label.as_bytes()).unwrap();
            let (bytes, _, _) = encoding.encode(text);
            let (read, _) = decode(&bytes, None, false).unwrap();
            assert_eq!(read, text, "{label}");
        }
    }

    #[test]
    fn a_few_letters_with_accents_are_enough_and_noise_is_not() {
        assert_eq!(
            decode(
                b"We met in a caf\xe9 near the station, and talked.",
                None,
                false
            )
            .unwrap()
            .0,
            "We met in a café near the station, and talked."
        );
        assert!(decode(b"one \xff passage", None, false).is_err());
        assert!(decode(b"\xff\x90\x81\xfe \xa0\x8d\x9d", None, false).is_err());
    }

    #[test]
    fn the_user_may_name_the_encoding() {
        let bytes = [b'a', 0xb1, b'b'];
        assert_eq!(decode(&bytes, Some("iso-8859-2"), false).unwrap().0, "aąb");
        assert!(decode(&bytes, Some("utf-8"), false).is_err());
        assert_eq!(decode(&bytes, Some("utf-8"), true).unwrap().0, "a?b");
        assert_eq!(parse_encoding("AUTO"), Ok(None));
        assert_eq!(
            parse_encoding("latin1"),
            Ok(Some("windows-1252".to_owned()))
        );
        assert!(parse_encoding("klingon").is_err());
    }

    #[test]
    fn records_are_decoded_as_they_come() {
        let text = "id\ttext\n1\tgrößer\n";
        let wide: Vec<u8> = [0xfeff]
            .into_iter()
            .chain(text.encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        let encoding = TextEncoding::new(&Options::default());
        let encoding = encoding.of_records(&wide).unwrap();
        let mut read = String::new();
        decode_input(encoding, Box::new(Cursor::new(wide)))
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!((encoding.name(), read.as_str()), ("UTF-16LE", text));
    }

    #[test]
    fn wrong_bytes_of_a_named_encoding_are_no_replacement_characters() {
        let bytes = b"a \x82\xa0 b \xff c";
        let refused = decode(bytes, Some("shift_jis"), false).unwrap_err();
        assert!(
            refused.starts_with("some bytes are not Shift_JIS; "),
            "{refused}"
        );
        let read = decode(bytes, Some("shift_jis"), true).unwrap();
        assert_eq!(read, ("a あ b ? c".to_owned(), Decoded::From("Shift_JIS")));
        for buffer_bytes in 1..bytes.len() {
            let input = BufReader::with_capacity(buffer_bytes, &bytes[..]);
            let encoding = Encoding::for_label(b"shift_jis").unwrap();
            let mut text = Vec::new();
            MarkingDecoder::new(encoding, input)
                .read_to_end(&mut text)
                .unwrap();
            assert_eq!(
                text,
                "a あ b _ c"
                    .replace('_', "\u{1}")
                    .bytes()
                    .map(|byte| if byte == 1 { WRONG } else { byte })
                    .collect::<Vec<u8>>()
            );
        }
    }
}
