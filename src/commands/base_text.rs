//! Documents to base text: what was handed out to all.

use crate::base::num::ToU64;
use crate::{
    align::exclusions::BaseText,
    base::error::{Error, Result},
    commands::{DocumentStage, Observer, ProblemsOnly, Settings, StageOutput, run},
    text::{
        corpus::{self, Content, InputDocument, Source},
        token::Tokenization,
    },
};
use std::path::PathBuf;

/// Reads files and directories of base text. One that cannot be read is an error: more would be found than there is.
pub fn base_text(
    paths: &[PathBuf],
    tokenization: Tokenization,
    window_words: u32,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<BaseText> {
    let mut base = BaseText::new(tokenization, window_words);
    if paths.is_empty() {
        return Ok(base);
    }
    let corpus = corpus::Options {
        paths: paths.to_vec(),
        files_from: None,
        ..settings.corpus.clone()
    };
    let source = Source::new(corpus, settings.limits.threads)?;
    let mut documents = 0;
    let summary = run(
        &TextCollector,
        source,
        settings,
        &mut ProblemsOnly(observer),
        |texts, _| {
            documents += texts.0.len();
            texts.0.iter().for_each(|text| base.add(text));
            Ok(())
        },
    )?;
    if summary.problems > 0 {
        return Err(Error::Usage(
            "some of the base text could not be read: see above".to_owned(),
        ));
    }
    if documents == 0 {
        let names: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return Err(Error::Usage(format!(
            "{}: there is no base text",
            names.join(", ")
        )));
    }
    Ok(base)
}

#[derive(Clone)]
struct TextCollector;

#[derive(Default)]
struct CollectedTexts(Vec<String>);

impl StageOutput for CollectedTexts {
    fn drop_documents(&mut self, _: &[usize]) {}

    fn weight(&self) -> u64 {
        self.0.iter().map(|text| text.capacity().to_u64()).sum()
    }
}

impl DocumentStage for TextCollector {
    type Out = CollectedTexts;
    const IDS_ARE_UNIQUE: bool = false;

    fn take(&mut self, item: &InputDocument<'_>, out: &mut CollectedTexts) -> Result<(), String> {
        match item.content {
            Content::Text(text) => out.0.push(text.to_owned()),
            _ => return Err("base text must be text; these are tokens or blots".to_owned()),
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut CollectedTexts) {}
}
