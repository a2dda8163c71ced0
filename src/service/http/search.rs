//! `POST /v1/search`: the documents of an index that share text with one.

use super::{
    HttpService,
    body::{content_type, parse},
    error::{ApiError, json},
    number::{JsonNumber, MOST_MATCH_WORDS},
    sent_file::text_of_file,
};
use crate::{
    commands::{
        AnswerFormat, IndexSearcher, QueryDocument, SearchOptions, SearchOutcome, SearchPassages,
        put_head,
    },
    report::Format,
    similar::Score,
    text::stream::{Span, Tokens},
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use utoipa::ToSchema;

/// The number of documents whose text could not be read, in answers that are not JSON.
const UNREAD: HeaderName = HeaderName::from_static("dedup-unread");
/// The number of matches, in such answers.
const MATCHES: HeaderName = HeaderName::from_static("dedup-matches");
/// The most matches for a document.
const MOST_MATCHES: u32 = 100_000;

/// A document, and what to find for it. It has one of `text`, `tokens` and `file`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// The id of the document. A document of the index with this id is not an answer.
    pub id: Option<String>,
    /// Its text.
    pub text: Option<String>,
    /// Its tokens, as dedup-tokenize makes them with the tokenizer of the index.
    pub tokens: Option<Vec<String>>,
    /// A file of any kind that the server reads.
    pub file: Option<SearchFile>,
    /// The name of the index; may be left out if there is only one.
    pub index: Option<String>,
    /// How similarity is computed; as the index was made for, if missing.
    pub score: Option<String>,
    /// The least score of a match, also as a percentage in a text.
    #[schema(value_type = Option<f64>, minimum = 0)]
    pub threshold: Option<JsonNumber>,
    /// The most matches.
    #[schema(minimum = 1, maximum = 100_000, default = 10)]
    pub top: Option<u32>,
    /// Ignore blots that more documents have.
    #[schema(minimum = 1)]
    pub max_df: Option<u64>,
    /// Texts to be ignored in the document and in those of the index.
    #[serde(default)]
    pub exclude_text: Vec<String>,
    /// Also find the passages that the documents share.
    #[serde(default)]
    pub passages: bool,
    /// Count the offsets of passages in characters, not in bytes.
    #[serde(default)]
    pub chars: bool,
    /// With each passage the probability that unrelated texts share such a one.
    #[serde(default)]
    pub p_values: bool,
    /// Whether to ignore quotations; as the index was made for, if missing.
    pub exclude_quotes: Option<bool>,
    /// Whether to ignore the list of references; as the index was made for, if missing.
    pub exclude_bibliography: Option<bool>,
    /// Ignore passages of fewer words in common.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub min_match_words: Option<u32>,
}

/// A file, as it is on disk.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchFile {
    /// Its name, which may tell its kind.
    pub name: String,
    /// Its bytes in Base64.
    #[schema(format = Byte)]
    pub base64: String,
}

/// What shares text with a document.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchAnswer<'a> {
    /// The index that was searched.
    index: &'a str,
    /// Its last commit.
    generation: u64,
    /// The best first.
    #[schema(value_type = Vec<crate::report::records::QueryMatch<'static>>)]
    matches: Vec<&'a RawValue>,
    /// Documents whose passages are missing, as their text could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchFormat {
    Json,
    Records { format: Format, with_head: bool },
    Excerpts,
    Page,
}

/// `POST /v1/search`
#[utoipa::path(
    post,
    path = "/v1/search",
    request_body = SearchRequest,
    responses(
        (status = 200, description = "What was found", body = SearchAnswer<'static>),
        (status = "default", description = "Why not", body = super::error::ErrorBody),
    )
)]
pub async fn search(
    State(service): State<Arc<HttpService>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    if content_type(&headers).as_deref() != Some("application/json") {
        return Err(ApiError::needs_json());
    }
    let format = SearchFormat::accepted(&headers)?;
    let body = service.receive(&headers, body).await?;
    let worker = service.clone();
    let answer = service.workers.run(move || {
        let request: SearchRequest = parse(&body.bytes).map_err(ApiError::wrong)?;
        worker.answer_search(&request, format)
    });
    answer.await?
}

impl HttpService {
    fn answer_search(
        &self,
        request: &SearchRequest,
        format: SearchFormat,
    ) -> Result<Response, ApiError> {
        let (name, served) = self
            .indexes
            .get(request.index.as_deref())
            .map_err(ApiError::wrong)?;
        if (request.passages || format.needs_texts()) && served.corpus().is_empty() {
            return Err(ApiError::wrong(format!(
                "the field 'passages': the server was not told where the documents of the index '{name}' are, so it cannot align them"
            )));
        }
        let searcher = served.current();
        let options = request.options(&searcher, format)?;
        let mut tokens = Tokens::default();
        let mut text = String::new();
        if let Some(file) = &request.file {
            let bytes = BASE64_STANDARD.decode(&file.base64).map_err(|error| {
                ApiError::wrong(format!("the field 'file.base64' is not Base64: {error}"))
            })?;
            text = text_of_file(&file.name, &bytes, &self.options.reading)?;
        }
        let document = request.document(&mut tokens, &text)?;
        let id = request.id.as_deref().unwrap_or("-");
        let outcome = searcher.answer(&options, id, document)?;
        format.response(name, &searcher, outcome, request.passages)
    }
}

impl SearchRequest {
    /// The document; `text` is that of the file, if one was sent.
    fn document<'d>(
        &'d self,
        tokens: &'d mut Tokens,
        text: &'d str,
    ) -> Result<QueryDocument<'d>, ApiError> {
        match (&self.text, &self.tokens, &self.file) {
            (None, None, Some(_)) => Ok(QueryDocument::Text(text)),
            (Some(text), None, None) => Ok(QueryDocument::Text(text)),
            (None, Some(list), None) => {
                for token in list {
                    tokens.push(token, Span { start: 0, end: 0 });
                }
                Ok(QueryDocument::Tokens(tokens))
            }
            (None, None, None) => Err(ApiError::wrong("the field 'text' is missing")),
            _ => Err(ApiError::wrong(
                "of the fields 'text', 'tokens' and 'file' only one may be there",
            )),
        }
    }

    fn options(
        &self,
        searcher: &IndexSearcher,
        format: SearchFormat,
    ) -> Result<SearchOptions, ApiError> {
        let of_preset = searcher.preset().query;
        let score = match &self.score {
            None => of_preset.score,
            Some(name) => score_named(name)?,
        };
        let threshold = match &self.threshold {
            Some(threshold) => threshold.of_score(score).map_err(ApiError::wrong)?,
            None if score == of_preset.score => of_preset.threshold,
            None => 0.0,
        };
        let in_range = |name: &str, value: Option<u64>, most: u64| match value {
            Some(value) if value == 0 || value > most => Err(ApiError::wrong(format!(
                "the field '{name}' is {value}, it must be a whole number from 1 to {most}"
            ))),
            value => Ok(value),
        };
        in_range("top", self.top.map(u64::from), MOST_MATCHES.into())?;
        in_range("max_df", self.max_df, u64::MAX)?;
        in_range(
            "min_match_words",
            self.min_match_words.map(u64::from),
            MOST_MATCH_WORDS.into(),
        )?;
        Ok(SearchOptions {
            score,
            threshold,
            top: self.top.unwrap_or(10) as usize,
            max_df: self.max_df,
            exclude_texts: self.exclude_text.clone(),
            answers: format.answers(),
            passages: self.passages(format)?,
            notice: None,
        })
    }

    fn passages(&self, format: SearchFormat) -> Result<Option<SearchPassages>, ApiError> {
        if self.passages || format.needs_texts() {
            return Ok(Some(SearchPassages {
                in_chars: self.chars,
                with_p_values: self.p_values,
                exclude_quotes: self.exclude_quotes,
                exclude_bibliography: self.exclude_bibliography,
                min_match_words: self.min_match_words.unwrap_or(0),
            }));
        }
        let given = [
            ("chars", self.chars),
            ("p_values", self.p_values),
            ("exclude_quotes", self.exclude_quotes.is_some()),
            ("exclude_bibliography", self.exclude_bibliography.is_some()),
            ("min_match_words", self.min_match_words.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(ApiError::wrong(format!(
                "the field '{name}' is about passages, and 'passages' is not true"
            ))),
            None => Ok(None),
        }
    }
}

fn score_named(name: &str) -> Result<Score, ApiError> {
    let found = Score::NAMES.iter().find(|row| row.0 == name);
    found.map(|row| row.1).ok_or_else(|| {
        let names = Score::NAMES.map(|row| row.0).join(", ");
        ApiError::wrong(format!(
            "the field 'score' is '{}', it must be one of {names}",
            name.escape_debug()
        ))
    })
}

impl SearchFormat {
    /// The first format that the client accepts.
    fn accepted(headers: &HeaderMap) -> Result<Self, ApiError> {
        let Some(accept) = headers.get(header::ACCEPT) else {
            return Ok(Self::Json);
        };
        let accept = accept.to_str().unwrap_or_default();
        let formats = accept.split(',').filter_map(|kind| {
            let mut parts = kind.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let with_head = !parts.any(|part| part.eq_ignore_ascii_case("header=absent"));
            let records = |format| Self::Records { format, with_head };
            match name.as_str() {
                "*/*" | "application/*" | "application/json" => Some(Self::Json),
                "application/x-ndjson" => Some(records(Format::Ndjson)),
                "text/tab-separated-values" => Some(records(Format::Tsv)),
                "text/csv" => Some(records(Format::Csv)),
                "text/plain" => Some(Self::Excerpts),
                "text/html" => Some(Self::Page),
                _ => None,
            }
        });
        let mut formats = formats;
        formats.next().ok_or_else(|| {
            ApiError::new(
                StatusCode::NOT_ACCEPTABLE,
                "answers are application/json, application/x-ndjson, text/tab-separated-values, text/csv, text/plain or text/html",
            )
        })
    }

    fn needs_texts(self) -> bool {
        matches!(self, Self::Excerpts | Self::Page)
    }

    fn answers(self) -> AnswerFormat {
        match self {
            Self::Json => AnswerFormat::Matches(Format::Ndjson),
            Self::Records { format, .. } => AnswerFormat::Matches(format),
            Self::Excerpts => AnswerFormat::Excerpts { with_color: false },
            Self::Page => AnswerFormat::Page,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Records { format, .. } => match format {
                Format::Tsv => "text/tab-separated-values; charset=utf-8",
                Format::Csv => "text/csv; charset=utf-8",
                _ => "application/x-ndjson",
            },
            Self::Excerpts => "text/plain; charset=utf-8",
            Self::Page => "text/html; charset=utf-8",
        }
    }

    fn response(
        self,
        index: &str,
        searcher: &IndexSearcher,
        outcome: SearchOutcome,
        with_passages: bool,
    ) -> Result<Response, ApiError> {
        if self == Self::Json {
            return json_answer(index, searcher, &outcome);
        }
        let mut body = Vec::new();
        if let Self::Records {
            format,
            with_head: true,
        } = self
        {
            put_head(format, searcher.is_estimate(), with_passages, &mut body)?;
        }
        body.extend_from_slice(&outcome.bytes);
        let kind = [(header::CONTENT_TYPE, self.content_type())];
        let mut response = (kind, body).into_response();
        let unread = HeaderValue::from(outcome.unread.len());
        let matches = HeaderValue::from(outcome.matches);
        response.headers_mut().insert(UNREAD, unread);
        response.headers_mut().insert(MATCHES, matches);
        Ok(response)
    }
}

fn json_answer(
    index: &str,
    searcher: &IndexSearcher,
    outcome: &SearchOutcome,
) -> Result<Response, ApiError> {
    let failed = |error: serde_json::Error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    };
    let lines = outcome.bytes.split(|&byte| byte == b'\n');
    let records = lines.filter(|line| !line.is_empty());
    let answer = SearchAnswer {
        index,
        generation: searcher.index().manifest.generation,
        matches: records
            .map(serde_json::from_slice)
            .collect::<Result<_, _>>()
            .map_err(failed)?,
        unread: outcome.unread.iter().map(ToString::to_string).collect(),
    };
    let mut body = serde_json::to_vec(&answer).map_err(failed)?;
    body.push(b'\n');
    Ok(json(StatusCode::OK, body))
}
