//! `POST /v1/align`: the passages that two texts share.

use super::{
    HttpService,
    body::{content_type, parse},
    error::{ApiError, json},
    number::MOST_MATCH_WORDS,
};
use crate::{
    align::{self, exclusions::ExclusionRules},
    blot::K,
    commands::{PassageOptions, align_texts},
    report::{Ndjson, Sink},
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Two texts, and how to align them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlignRequest {
    /// The text whose passages are looked for.
    pub a: AlignedText,
    /// The text they may be from.
    pub b: AlignedText,
    /// Words in a window.
    #[schema(minimum = 1, maximum = 1024, default = 8)]
    pub k: Option<u32>,
    /// Count offsets in characters, not in bytes.
    #[serde(default)]
    pub chars: bool,
    /// With each passage the probability that unrelated texts share such a one.
    #[serde(default)]
    pub p_values: bool,
    /// Ignore quotations in `a`.
    #[serde(default)]
    pub exclude_quotes: bool,
    /// Ignore the list of references of `a`.
    #[serde(default)]
    pub exclude_bibliography: bool,
    /// Ignore passages of fewer words in common.
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub min_match_words: Option<u32>,
}

/// One of two texts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlignedText {
    /// Its id; `a` or `b` if missing.
    pub id: Option<String>,
    /// The text.
    pub text: String,
}

impl AlignRequest {
    fn options(&self) -> Result<PassageOptions, ApiError> {
        let in_range = |name: &str, value: Option<u32>, least: u32, most: u32| match value {
            Some(value) if value < least || value > most => Err(ApiError::wrong(format!(
                "the field '{name}' is {value}, it must be a whole number from {least} to {most}"
            ))),
            _ => Ok(()),
        };
        in_range("k", self.k, *K.start(), *K.end())?;
        in_range("min_match_words", self.min_match_words, 1, MOST_MATCH_WORDS)?;
        let rules = ExclusionRules {
            quotes: self.exclude_quotes,
            bibliography: self.exclude_bibliography,
            ..ExclusionRules::default()
        };
        let options = PassageOptions {
            passages: align::AlignOptions {
                window_tokens: self.k.unwrap_or(align::WINDOW_TOKENS),
                ..align::AlignOptions::default()
            },
            in_chars: self.chars,
            source_rules: rules.base_text_only(),
            rules,
            min_match_words: self.min_match_words.unwrap_or(0),
            ..PassageOptions::default()
        };
        Ok(if self.p_values {
            options.with_p_values()?
        } else {
            options
        })
    }
}

/// `POST /v1/align`
#[utoipa::path(
    post,
    path = "/v1/align",
    request_body = AlignRequest,
    responses(
        (status = 200, description = "The passages", body = crate::report::records::AlignedPair),
        (status = "default", description = "Why not", body = super::error::ErrorBody),
    )
)]
pub async fn align(
    State(service): State<Arc<HttpService>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    if content_type(&headers).as_deref() != Some("application/json") {
        return Err(ApiError::needs_json());
    }
    let body = service.receive(&headers, body).await?;
    let work = move || {
        let request: AlignRequest = parse(&body.bytes).map_err(ApiError::wrong)?;
        let options = request.options()?;
        let AlignRequest { a, b, .. } = &request;
        let pair = align_texts(
            &options,
            (a.id.as_deref().unwrap_or("a"), &a.text),
            (b.id.as_deref().unwrap_or("b"), &b.text),
        );
        let mut record = Vec::new();
        Ndjson.put_record(&pair, &mut record)?;
        Ok(json(StatusCode::OK, record))
    };
    service.workers.run(work).await?
}
