//! `/v1/history`: what is similar to a document among all that came before, and adding it.

use super::{
    HttpService,
    body::{content_type, parse},
    error::{ApiError, json},
};
use crate::{
    base::error::Result,
    service::history::{HistoryService, ReaderPool, RequestReader, ServiceAnswer, ServiceRequest},
    text::corpus,
};
use axum::{
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc};
use tokio::sync::oneshot;
use utoipa::ToSchema;

/// A larger body is parsed by a worker, as parsing takes longer than waking one.
const SMALL_BYTES: usize = 16 << 10;

/// A history, and readers of requests over HTTP.
pub struct HttpHistory {
    pub service: Arc<dyn HistoryService>,
    readers: Arc<ReaderPool>,
}

impl HttpHistory {
    /// Documents have the fields `id` and `text` here, whatever files call them.
    pub fn of(service: Option<Arc<dyn HistoryService>>) -> Result<Option<Self>> {
        let with_readers = |service: Arc<dyn HistoryService>| {
            let limits = service.rules().limits;
            let reading = corpus::Options::default();
            let reader = RequestReader::new(&reading, service.scheme(), limits)?;
            Ok(Self {
                service,
                readers: Arc::new(ReaderPool::new(reader)),
            })
        };
        service.map(with_readers).transpose()
    }
}

/// A document that is compared with the history, and added to it.
///
/// It has one of `text`, `tokens` and `print`. The records that dedup-tokenize and dedup-blot write
/// can be sent as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(
    dead_code,
    reason = "RequestReader reads the values; this checks names and types"
)]
pub struct HistoryRequest<'a> {
    /// The id of the document.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    id: Option<JsonId<'a>>,
    /// Another name of `id`.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    doc: Option<JsonId<'a>>,
    /// Its text.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    text: Option<Cow<'a, str>>,
    /// Its tokens; beside `print` their number.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Vec<String>>)]
    tokens: Option<JsonTokens<'a>>,
    /// Its print: 64 hexadecimal digits, or null if it has no tokens.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>, pattern = "^[0-9a-fA-F]{64}$")]
    print: Option<Cow<'a, str>>,
    /// The number of its bytes; not used.
    bytes: Option<u64>,
    /// The hash of its tokens; not used.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    hash: Option<Cow<'a, str>>,
    /// Whether to add it; as the server has it if missing.
    add: Option<bool>,
    /// The least similarity of a match, from that of the server to 1.
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1)]
    min_similarity: Option<JsonShare<'a>>,
    /// The most matches, up to those of the server.
    #[schema(minimum = 1)]
    top: Option<u64>,
}

/// How many entries were removed.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "the shape of what RemovalReply writes")]
pub struct RemovalAnswer {
    /// Their number.
    removed: u64,
    /// Servers that could not remove entries.
    #[serde(default)]
    missing: Vec<String>,
}

/// An id is a text or a number.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an id must be a string or a number")]
#[allow(dead_code, reason = "only the type is of interest")]
enum JsonId<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Number(serde_json::Number),
}

/// Tokens are a list, or counted.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "tokens must be a list of strings")]
#[allow(dead_code, reason = "only the type is of interest")]
enum JsonTokens<'a> {
    #[serde(borrow)]
    List(Vec<Cow<'a, str>>),
    Count(u64),
}

/// A share is a number, or a percentage in a text.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "it must be a share from 0 to 1, such as 0.94 or \"94%\""
)]
#[allow(dead_code, reason = "only the type is of interest")]
enum JsonShare<'a> {
    Number(f64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

/// `POST /v1/history`: one document as JSON, or many as NDJSON.
#[utoipa::path(
    post,
    path = "/v1/history",
    request_body(content((HistoryRequest<'static> = "application/json"))),
    responses(
        (status = 200, description = "What is similar", body = crate::report::records::HistoryAnswer<'static>),
        (status = "default", description = "Why not", body = super::error::ErrorBody),
    )
)]
pub async fn ask(
    State(service): State<Arc<HttpService>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let history = service.history()?;
    let is_batch = match content_type(&headers).as_deref() {
        Some("application/x-ndjson" | "application/jsonl" | "application/ndjson") => true,
        Some("application/json") => false,
        _ => {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the header content-type must be application/json for one document, or application/x-ndjson for many",
            ));
        }
    };
    let mut body = service.receive(&headers, body).await?;
    let readers = history.readers.clone();
    let read = move || {
        let requests = readers.with(|reader| {
            if is_batch {
                Ok(read_lines(&mut body.bytes, reader))
            } else {
                read_one(&mut body.bytes, reader).map(|request| vec![request])
            }
        });
        (requests, body)
    };
    let (requests, body) = if service_is_quick(&headers) {
        read()
    } else {
        service.workers.run(read).await?
    };
    let answers = submit(&*history.service, requests.map_err(ApiError::wrong)?).await?;
    drop(body);
    let with_all = history.service.rules().limits.top > 1;
    let mut lines = Vec::new();
    for answer in &answers {
        if !is_batch && let ServiceAnswer::Refused(what) = answer {
            return Err(ApiError::wrong(what.clone()));
        }
        if let ServiceAnswer::Failed(what) = answer {
            return Err(ApiError::unavailable(what.clone()));
        }
        answer.put(&mut lines, with_all);
    }
    if !is_batch {
        return Ok(json(StatusCode::OK, lines));
    }
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, lines).into_response())
}

/// `DELETE /v1/history/{id}`
#[utoipa::path(
    delete,
    path = "/v1/history/{id}",
    params(("id" = String, Path, description = "The id of the entries")),
    responses((status = 200, description = "How many entries were removed", body = RemovalAnswer), (status = "default", description = "Why not", body = super::error::ErrorBody))
)]
pub async fn remove(
    State(service): State<Arc<HttpService>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::wrong(error.body_text()))?;
    remove_entries(&service, &id).await
}

/// `DELETE /v1/history/`: the entries with the empty id.
pub async fn remove_unnamed(State(service): State<Arc<HttpService>>) -> Result<Response, ApiError> {
    remove_entries(&service, "").await
}

async fn remove_entries(service: &HttpService, id: &str) -> Result<Response, ApiError> {
    let history = service.history()?;
    let request = ServiceRequest::removal(id).map_err(ApiError::wrong)?;
    let answers = submit(&*history.service, vec![request]).await?;
    let mut line = Vec::new();
    for answer in &answers {
        match answer {
            ServiceAnswer::Refused(what) => {
                return Err(ApiError::new(StatusCode::FORBIDDEN, what.clone()));
            }
            ServiceAnswer::Failed(what) => return Err(ApiError::unavailable(what.clone())),
            answer => answer.put(&mut line, false),
        }
    }
    Ok(json(StatusCode::OK, line))
}

impl HttpService {
    fn history(&self) -> Result<&HttpHistory, ApiError> {
        let none = || ApiError::new(StatusCode::NOT_FOUND, "this server has no history");
        self.history.as_ref().ok_or_else(none)
    }
}

/// Whether a body is known to be small.
fn service_is_quick(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok())
        .is_some_and(|length| length <= SMALL_BYTES)
}

async fn submit(
    history: &dyn HistoryService,
    requests: Vec<ServiceRequest>,
) -> Result<Vec<ServiceAnswer>, ApiError> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let (reply, answers) = oneshot::channel();
    history.submit(requests, reply);
    let ended = |_| ApiError::unavailable("the server is stopping");
    answers.await.map_err(ended)
}

/// Reads one document; any other line of a stream is none.
fn read_one(body: &mut [u8], reader: &mut RequestReader) -> Result<ServiceRequest, String> {
    parse::<HistoryRequest<'_>>(body)?;
    match reader.parse(body, 1)? {
        Some(request @ ServiceRequest::Like { .. }) => Ok(request),
        _ => Err("no field 'text', 'tokens' or 'print'".to_owned()),
    }
}

/// Reads a document a line. What cannot be used is answered by an error in its place; blank lines,
/// and the first and the last line of a stream, get no answer.
fn read_lines(body: &mut [u8], reader: &mut RequestReader) -> Vec<ServiceRequest> {
    let mut requests = Vec::new();
    for (number, line) in (1..).zip(body.split_mut(|&byte| byte == b'\n')) {
        let is_frame = line.starts_with(b"{\"dedup\":") || line.starts_with(b"{\"end\":");
        let checked = if is_frame || line.trim_ascii().is_empty() {
            Ok(())
        } else {
            parse::<HistoryRequest<'_>>(line).map(drop)
        };
        match checked {
            Ok(()) => requests.extend(reader.read(line, number)),
            Err(what) => requests.push(ServiceRequest::Wrong(format!("line {number}: {what}"))),
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        history::{MatchLimits, Ratio},
        service::history::put_error,
        text::{
            scheme::PrintScheme,
            token::{Rule, Tokenizer},
        },
    };

    fn reader() -> RequestReader {
        let scheme = PrintScheme {
            tokens: Tokenizer::new(Rule::Word, false).scheme(),
        };
        let limits = MatchLimits {
            min_similarity: Ratio::ALL,
            top: 3,
        };
        RequestReader::new(&corpus::Options::default(), &scheme, limits).unwrap()
    }

    fn refusals(requests: &[ServiceRequest]) -> String {
        let mut out = Vec::new();
        for request in requests {
            if let ServiceRequest::Wrong(what) = request {
                put_error(&mut out, what);
            }
        }
        String::from_utf8(out).unwrap_or_default()
    }

    #[test]
    fn unknown_and_mistyped_fields_are_named() {
        let refused = |body: &str| {
            read_one(&mut body.as_bytes().to_vec(), &mut reader())
                .map(drop)
                .unwrap_err()
        };
        for (body, expected) in [
            (
                r#"{"text":"a","min_similarty":1}"#,
                "the field 'min_similarty': unknown field",
            ),
            (
                r#"{"text":5}"#,
                "the field 'text': invalid type: integer `5`",
            ),
            (
                r#"{"text":"a","add":"no"}"#,
                "the field 'add': invalid type: string",
            ),
            (
                r#"{"text":"a","add":null}"#,
                "the field 'add' is null, it must be",
            ),
            (
                r#"{"text":"a","top":0}"#,
                "the field 'top' is 0, it must be",
            ),
            (
                r#"{"text":"a","top":4}"#,
                "the field 'top' is 4, the service gives",
            ),
            (
                r#"{"text":"a","remove":"b"}"#,
                "the field 'remove': unknown field",
            ),
            (r#"{"id":"a"}"#, "no field 'text'"),
            (r#"{"print":"0"}"#, ""),
            ("[]", "a list, where an object is expected"),
            (r#"{"text":"a"} x"#, "not JSON: trailing characters"),
            ("", "not JSON: EOF"),
        ] {
            let what = refused(body);
            assert!(what.starts_with(expected), "{body}: {what}");
        }
    }

    #[test]
    fn lines_of_streams_can_be_sent_as_they_are() {
        let (print, hash) = ("0".repeat(64), "0".repeat(32));
        let body = format!(
            "{{\"dedup\":\"prints\",\"version\":1,\"scheme\":\"x\"}}\n{{\"doc\":\"a\",\"bytes\":3,\"hash\":\"{hash}\",\"tokens\":1,\"print\":\"{print}\"}}\n\n{{\"id\":1,\"text\":\"b\",\"url\":\"c\"}}\n{{\"end\":{{\"records\":1}}}}\n"
        );
        let requests = read_lines(&mut body.into_bytes(), &mut reader());
        assert!(requests.len() == 3 && matches!(requests[1], ServiceRequest::Like { .. }));
        let errors = refusals(&requests);
        assert!(
            errors.starts_with("{\"error\":\"line 1: scheme is 'x'")
                || errors.starts_with("{\"error\":\"line 1: "),
            "{errors}"
        );
        assert!(
            errors.contains("line 4: the field 'url': unknown field"),
            "{errors}"
        );
    }
}
