//! Reports input that is not a document, in the order of the input.

use crate::base::setting::Setting;
use crate::{
    base::error::{Place, Problem},
    commands::Observer,
    text::corpus::{RecordWithoutText, SkippedInput},
};
use std::{collections::BTreeSet, sync::Arc};

/// The number of records without a text that are reported one by one; the others of a file are counted.
const MAX_NAMED: u64 = 3;
/// The number of fields of such records that are listed.
const MAX_FIELDS: usize = 12;

/// Passes problems on to an [`Observer`]. A wrong field name makes all records of a file lack a text, so only the first few records
/// without a text are reported one by one, and the others of the file together.
#[derive(Default)]
pub struct InputProblems {
    /// Inputs that could not be used.
    pub problems: u64,
    textless_records: Option<TextlessRecords>,
}

/// Records of a file that have no text.
struct TextlessRecords {
    file: Arc<str>,
    what: String,
    textless: u64,
    documents: u64,
    fields: BTreeSet<String>,
}

impl InputProblems {
    /// Reports the flaws of a chunk, and counts its documents. `file`: the file of the chunk.
    pub fn report(
        &mut self,
        flaws: &[SkippedInput],
        file: Option<&Arc<str>>,
        documents: u64,
        observer: &mut dyn Observer,
    ) {
        if let Some(textless_records) = self.textless_records.as_ref()
            && file.is_some_and(|file| *file != textless_records.file)
        {
            self.finish(observer);
        }
        for flaw in flaws {
            match flaw {
                SkippedInput::Problem(problem) => {
                    self.problems += 1;
                    observer.problem(problem);
                }
                SkippedInput::File(left) => {
                    self.problems += u64::from(left.is_error());
                    observer.left_out(left);
                }
                SkippedInput::NoText(textless) => self.see(textless, observer),
            }
        }
        match (&mut self.textless_records, file) {
            (Some(textless_records), _) => textless_records.documents += documents,
            // A file of which the first records are fine may have others further on.
            (None, Some(file)) if documents > 0 => {
                self.textless_records = Some(TextlessRecords::new(file.clone(), documents))
            }
            _ => {}
        }
    }

    fn see(&mut self, textless: &RecordWithoutText, observer: &mut dyn Observer) {
        let RecordWithoutText {
            place,
            what,
            fields,
        } = textless;
        let textless_records = self
            .textless_records
            .get_or_insert_with(|| TextlessRecords::new(place.file.clone(), 0));
        textless_records.what.clone_from(what);
        textless_records.textless += 1;
        let room = MAX_FIELDS.saturating_sub(textless_records.fields.len());
        textless_records
            .fields
            .extend(fields.iter().take(room).cloned());
        self.problems += 1;
        if textless_records.textless <= MAX_NAMED {
            let what = if fields.is_empty() {
                format!("no document: {what}")
            } else {
                format!("{what}; it has {}", listed(fields))
            };
            observer.problem(&Problem::new(place.clone(), what));
        }
    }

    /// The input, or a file of it, has ended.
    pub fn finish(&mut self, observer: &mut dyn Observer) {
        let Some(TextlessRecords {
            file,
            what,
            textless,
            documents,
            fields,
        }) = self.textless_records.take()
        else {
            return;
        };
        let names = listed(&fields.into_iter().collect::<Vec<_>>());
        let but = if names.is_empty() { "" } else { ", but " };
        let remedy = format!("{but}{names}; {} names the right one", Setting::TextField);
        let what = match documents {
            _ if textless == 0 => return,
            0 => format!("no document: each of its {textless} records has {what}{remedy}"),
            _ if textless <= MAX_NAMED => return,
            _ => format!(
                "{textless} of {} records have {what}{remedy}",
                textless + documents
            ),
        };
        observer.problem(&Problem::new(Place::file(file), what));
    }
}

impl TextlessRecords {
    fn new(file: Arc<str>, documents: u64) -> Self {
        Self {
            file,
            what: String::new(),
            textless: 0,
            documents,
            fields: BTreeSet::new(),
        }
    }
}

fn listed(fields: &[String]) -> String {
    let more = if fields.len() > MAX_FIELDS {
        ", …"
    } else {
        ""
    };
    let names: Vec<String> = fields
        .iter()
        .take(MAX_FIELDS)
        .map(|field| format!("'{field}'"))
        .collect();
    format!("{}{more}", names.join(", "))
}
