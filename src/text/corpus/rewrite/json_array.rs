//! A JSON array: an element is a record.

use super::{
    CopyError, CopyStart, PackedWriter, RecordChange, RecordCopier, RecordFate, RecordFates,
    json_record,
};
use crate::text::{
    corpus::{sequence::ArrayScanner, unpack::Input},
    stream::{LineParser, Span},
};
use std::io::{BufRead, Write};

/// Copies elements. Those that stay keep what stands before them: the comma goes with an element that is left out.
///
/// Memory: what is between two elements, and an element that is changed.
pub struct ArrayCopier {
    /// The fields of an element.
    pub fields: LineParser,
}

impl RecordCopier for ArrayCopier {
    fn copy(
        &self,
        mut input: Input,
        _: CopyStart,
        fates: &mut dyn RecordFates,
        out: PackedWriter<'_>,
    ) -> Result<(), CopyError> {
        let mut scanner = ArrayScanner::default();
        let mut elements = ElementWriter {
            fields: &self.fields,
            out,
            between: Vec::new(),
            element: 0,
            is_kept: false,
            has_kept: false,
            change: None,
            held: Vec::new(),
        };
        loop {
            let bytes = input.fill_buf();
            let bytes = bytes.map_err(|error| CopyError::reading(&error))?;
            let run = scanner.next_run(bytes)?;
            if bytes.is_empty() {
                return elements.finish();
            }
            let part = &bytes[..run.bytes];
            match run.element {
                None => elements.between(part)?,
                Some(element) => elements.element(element, part, fates)?,
            }
            input.consume(run.bytes);
        }
    }
}

/// Writes the elements that stay.
struct ElementWriter<'f, 'w> {
    fields: &'f LineParser,
    out: PackedWriter<'w>,
    /// What came since the last element.
    between: Vec<u8>,
    /// The element that was begun last, from 1.
    element: u64,
    is_kept: bool,
    /// An element before it was kept.
    has_kept: bool,
    /// How the element is changed; its bytes are held until it ends.
    change: Option<(Vec<Span>, Option<String>)>,
    held: Vec<u8>,
}

impl ElementWriter<'_, '_> {
    fn element(
        &mut self,
        element: u64,
        part: &[u8],
        fates: &mut dyn RecordFates,
    ) -> Result<(), CopyError> {
        if element != self.element {
            self.begin(element, fates)?;
        }
        if self.change.is_some() {
            self.held.extend_from_slice(part);
        } else if self.is_kept {
            self.out.write_all(part).map_err(CopyError::Output)?;
        }
        Ok(())
    }

    fn begin(&mut self, element: u64, fates: &mut dyn RecordFates) -> Result<(), CopyError> {
        let is_first = self.element == 0;
        self.element = element;
        self.has_kept |= self.is_kept;
        match fates.fate(element)? {
            RecordFate::Drop => self.is_kept = false,
            RecordFate::Keep => self.is_kept = true,
            RecordFate::Change(change) => {
                self.is_kept = true;
                self.change = Some((change.cuts.to_vec(), change.note.map(str::to_owned)));
            }
        }
        // What opens the array always stays, and a comma stands before every element but the first.
        if is_first || self.is_kept && self.has_kept {
            let written = self.out.write_all(&self.between);
            written.map_err(CopyError::Output)?;
        }
        self.between.clear();
        Ok(())
    }

    fn between(&mut self, part: &[u8]) -> Result<(), CopyError> {
        if let Some((cuts, note)) = self.change.take() {
            let change = RecordChange {
                cuts: &cuts,
                note: note.as_deref(),
            };
            let mut changed = Vec::with_capacity(self.held.len());
            json_record::change(&self.held, self.fields, &change, &mut changed)
                .map_err(|what| CopyError::Input(format!("element {}: {what}", self.element)))?;
            self.out.write_all(&changed).map_err(CopyError::Output)?;
            self.held.clear();
        }
        self.between.extend_from_slice(part);
        Ok(())
    }

    fn finish(mut self) -> Result<(), CopyError> {
        let written = self.out.write_all(&self.between);
        written.map_err(CopyError::Output)?;
        self.out.finish().map_err(CopyError::Output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::corpus::rewrite::tests::{Fates, any_draw, copied, drawn_fate};
    use proptest::prelude::*;
    use serde_json::Value;

    fn copier() -> ArrayCopier {
        ArrayCopier {
            fields: LineParser {
                id_field: "id".to_owned(),
                text_field: "text".to_owned(),
            },
        }
    }

    fn dropped(json: &str, records: &[u64]) -> String {
        let fates = Fates::dropping(records.iter().copied());
        String::from_utf8(copied(&copier(), json.as_bytes(), 4, &fates).unwrap()).unwrap()
    }

    #[test]
    fn commas_go_with_their_elements() {
        let json = " [\n  {\"a\": \"]\\\",\"} ,\n  [2 , 3],\n  4\n]\n";
        assert_eq!(dropped(json, &[]), json);
        assert_eq!(dropped(json, &[1]), " [\n  [2 , 3],\n  4\n]\n");
        assert_eq!(dropped(json, &[2]), " [\n  {\"a\": \"]\\\",\"},\n  4\n]\n");
        assert_eq!(
            dropped(json, &[3]),
            " [\n  {\"a\": \"]\\\",\"} ,\n  [2 , 3]\n]\n"
        );
        assert_eq!(dropped(json, &[1, 2]), " [\n  4\n]\n");
        assert_eq!(dropped(json, &[2, 3]), " [\n  {\"a\": \"]\\\",\"}\n]\n");
        assert_eq!(dropped(json, &[1, 2, 3]), " [\n  \n]\n");
        assert_eq!(dropped("[]", &[1]), "[]");
    }

    #[test]
    fn damage_is_named() {
        let failed = |json: &str| copied(&copier(), json.as_bytes(), 4, &Fates::default());
        for json in ["", "[1,2", "[1 2]", "[1,]", "[1] 2", "{}"] {
            assert!(failed(json).is_err(), "{json}");
        }
        assert!(failed("[1,2").unwrap_err().contains("it may be truncated"));
    }

    proptest! {
        #[test]
        fn kept_elements_keep_their_bytes(
            elements in prop::collection::vec(("[a\"\\\\,\\]\\[}{\n é😀]{0,8}", any::<i32>(), any_draw()), 0..7),
            spaces in prop::collection::vec("[ \t\r\n]{0,3}", 8),
            has_notes: bool,
            piece_bytes in 1_usize..20,
        ) {
            let mut fates = Fates { has_notes, ..Fates::default() };
            let (mut json, mut expected, mut values) = (format!("{}[{}", spaces[0], spaces[1]), format!("{}[{}", spaces[0], spaces[1]), Vec::new());
            for (at, (text, other, draw)) in elements.iter().enumerate() {
                let space = |shift: usize| &spaces[(at + shift) % spaces.len()];
                let write = |text: &str, more: &str| format!("{{\"other\":{}[{other},{{}}],\"text\":{}{}{more}}}", space(1), space(2), Value::from(text));
                let separator = format!("{},{}", space(3), space(4));
                if at > 0 {
                    json.push_str(&separator);
                }
                json.push_str(&write(text, ""));
                let fate = drawn_fate(text, *draw, has_notes);
                if !fate.as_ref().is_some_and(|fate| fate.is_dropped) {
                    if !values.is_empty() {
                        expected.push_str(&separator);
                    }
                    let note = fate.as_ref().and_then(|fate| fate.note.clone());
                    let cut = fate.as_ref().map_or(text.clone(), |fate| fate.cut(text));
                    expected.push_str(&write(&cut, &note.map_or(String::new(), |note| format!(",\"dedup\":{note}"))));
                    values.push(cut);
                }
                fates.of.extend(fate.map(|fate| (at as u64 + 1, fate)));
            }
            for out in [&mut json, &mut expected] {
                out.push_str(&format!("{}]{}", spaces[6], spaces[7]));
            }
            let found = copied(&copier(), json.as_bytes(), piece_bytes, &fates).unwrap();
            prop_assert_eq!(std::str::from_utf8(&found).unwrap(), expected);
            let parsed: Vec<Value> = serde_json::from_slice(&found).unwrap();
            let texts: Vec<_> = parsed.iter().map(|element| element["text"].as_str().unwrap()).collect();
            prop_assert_eq!(texts, values);
        }

        #[test]
        fn any_array_stays_one(json in "[\\[\\]{}\",: \n\\\\a1]{0,30}", dropped in prop::collection::btree_set(1_u64..6, 0..4), piece_bytes in 1_usize..9) {
            let json = format!("[{json}]");
            let fates = Fates::dropping(dropped.iter().copied());
            if let Ok(elements) = serde_json::from_str::<Vec<Value>>(&json) {
                let found = copied(&copier(), json.as_bytes(), piece_bytes, &fates).unwrap();
                let found: Vec<Value> = serde_json::from_slice(&found).unwrap();
                let numbered = (1_u64..).zip(elements);
                let expected: Vec<_> = numbered.filter(|(number, _)| !dropped.contains(number)).map(|(_, element)| element).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
