//! Reports what was found instead of documents, in the order of the input.

use crate::{
    base::error::{Place, Problem},
    commands::Watch,
    text::corpus::{RecordWithoutText, SkippedInput},
};
use std::{collections::BTreeSet, sync::Arc};

/// So many records without a text are named one by one; the others of a file are counted.
const NAMED: u64 = 3;
/// So many fields of such records are listed.
const LISTED: usize = 12;

/// Passes flaws on to a [`Watch`]. Records without a text come in crowds, for a field was named wrongly: of each file the first
/// few are reported, and the others together.
#[derive(Default)]
pub struct Flaws {
    /// Inputs that could not be used.
    pub problems: u64,
    crowd: Option<Crowd>,
}

/// Records of a file that have no text.
struct Crowd {
    file: Arc<str>,
    what: String,
    textless: u64,
    documents: u64,
    fields: BTreeSet<String>,
}

impl Flaws {
    /// Reports the flaws of a chunk, and counts its documents. `file`: the one that the chunk is a part of.
    pub fn report(
        &mut self,
        flaws: &[SkippedInput],
        file: Option<&Arc<str>>,
        documents: u64,
        watch: &mut dyn Watch,
    ) {
        if let Some(crowd) = self.crowd.as_ref()
            && file.is_some_and(|file| *file != crowd.file)
        {
            self.finish(watch);
        }
        for flaw in flaws {
            match flaw {
                SkippedInput::Problem(problem) => {
                    self.problems += 1;
                    watch.problem(problem);
                }
                SkippedInput::File(left) => {
                    self.problems += u64::from(left.is_error());
                    watch.left_out(left);
                }
                SkippedInput::NoText(textless) => self.see(textless, watch),
            }
        }
        match (&mut self.crowd, file) {
            (Some(crowd), _) => crowd.documents += documents,
            // A file of which the first records are fine may have others further on.
            (None, Some(file)) if documents > 0 => {
                self.crowd = Some(Crowd::new(file.clone(), documents))
            }
            _ => {}
        }
    }

    fn see(&mut self, textless: &RecordWithoutText, watch: &mut dyn Watch) {
        let RecordWithoutText {
            place,
            what,
            fields,
        } = textless;
        let crowd = self
            .crowd
            .get_or_insert_with(|| Crowd::new(place.file.clone(), 0));
        crowd.what.clone_from(what);
        crowd.textless += 1;
        let room = LISTED.saturating_sub(crowd.fields.len());
        crowd.fields.extend(fields.iter().take(room).cloned());
        self.problems += 1;
        if crowd.textless <= NAMED {
            let has = if fields.is_empty() {
                "no fields".to_owned()
            } else {
                listed(fields)
            };
            watch.problem(&Problem::new(
                place.clone(),
                format!("{what}; it has {has}"),
            ));
        }
    }

    /// The input, or a file of it, has ended.
    pub fn finish(&mut self, watch: &mut dyn Watch) {
        let Some(Crowd {
            file,
            what,
            textless,
            documents,
            fields,
        }) = self.crowd.take()
        else {
            return;
        };
        let remedy = format!(
            "{}; --text-field names the right one",
            listed(&fields.into_iter().collect::<Vec<_>>())
        );
        let what = match documents {
            _ if textless == 0 => return,
            0 => format!("no document: each of its {textless} records has {what}, but {remedy}"),
            _ if textless <= NAMED => return,
            _ => format!(
                "{textless} of {} records have {what}, but {remedy}",
                textless + documents
            ),
        };
        watch.problem(&Problem::new(Place::file(file), what));
    }
}

impl Crowd {
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
    let more = if fields.len() > LISTED { ", …" } else { "" };
    let names: Vec<String> = fields
        .iter()
        .take(LISTED)
        .map(|field| format!("'{field}'"))
        .collect();
    format!("{}{more}", names.join(", "))
}
