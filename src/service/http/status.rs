//! The state of a server.

use super::{
    HttpService,
    error::{ApiError, json},
};
use crate::similar::Score;
use axum::{extract::State, http::StatusCode, response::Response};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The indexes that can be searched.
#[derive(Debug, Serialize, ToSchema)]
pub struct IndexList {
    /// By name.
    pub indexes: Vec<IndexState>,
}

/// An index that can be searched.
#[derive(Debug, Serialize, ToSchema)]
pub struct IndexState {
    /// What requests call it.
    pub name: String,
    /// The number of its last commit.
    pub generation: u64,
    /// The number of documents.
    pub documents: u64,
    /// How documents become blots.
    pub scheme: String,
    /// The score that requests use if they name none.
    pub score: String,
    /// Whether requests can ask for passages.
    pub passages: bool,
}

/// `GET /v1/indexes`
#[utoipa::path(get, path = "/v1/indexes", responses((status = 200, description = "The indexes", body = IndexList), (status = "default", description = "Why not", body = super::error::ErrorBody)))]
pub async fn indexes(State(service): State<Arc<HttpService>>) -> Result<Response, ApiError> {
    let mut list = IndexList {
        indexes: Vec::new(),
    };
    for (name, served) in service.indexes.iter() {
        let current = served.current();
        let index = current.index();
        list.indexes.push(IndexState {
            name: name.to_owned(),
            generation: index.manifest.generation,
            documents: current.documents(),
            scheme: index.manifest.scheme.clone(),
            score: score_name(current.preset().query.score).to_owned(),
            passages: !served.corpus().is_empty(),
        });
    }
    answer(StatusCode::OK, &list)
}

fn score_name(score: Score) -> &'static str {
    let found = Score::NAMES.iter().find(|row| row.1 == score);
    found.map_or("a_in_b", |row| row.0)
}

/// `GET /healthz`: the process runs.
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "It runs", body = ServerStatus), (status = "default", description = "Why not", body = super::error::ErrorBody)))]
pub async fn health() -> Result<Response, ApiError> {
    answer(StatusCode::OK, &ServerStatus { status: "ok" })
}

/// `GET /readyz`: requests are answered.
#[utoipa::path(get, path = "/readyz", responses((status = 200, description = "It answers", body = ServerStatus), (status = "default", description = "Why not", body = super::error::ErrorBody)))]
pub async fn readiness(State(service): State<Arc<HttpService>>) -> Result<Response, ApiError> {
    if service.control.is_stopped() {
        return Err(ApiError::unavailable("the server is stopping"));
    }
    let status = service
        .history
        .as_ref()
        .map(|history| history.service.status());
    match status.and_then(|status| status.not_ready) {
        Some(what) => Err(ApiError::unavailable(what)),
        None => answer(StatusCode::OK, &ServerStatus { status: "ready" }),
    }
}

/// `GET /metrics`: what the server counts, for Prometheus.
#[utoipa::path(get, path = "/metrics", responses((status = 200, description = "In the text format of OpenMetrics", body = String, content_type = "application/openmetrics-text"), (status = "default", description = "Why not", body = super::error::ErrorBody)))]
pub async fn metrics(State(service): State<Arc<HttpService>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let kind = [(axum::http::header::CONTENT_TYPE, kind)];
    axum::response::IntoResponse::into_response((kind, service.metrics.text()))
}

/// Whether a server works.
#[derive(Debug, Serialize, ToSchema)]
pub struct ServerStatus {
    /// `ok` or `ready`.
    pub status: &'static str,
}

/// A record as the body of an answer.
pub fn answer(status: StatusCode, record: &impl Serialize) -> Result<Response, ApiError> {
    let body = serde_json::to_vec(record).map(|mut body| {
        body.push(b'\n');
        body
    });
    let failed = |error: serde_json::Error| {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    };
    body.map(|body| json(status, body)).map_err(failed)
}
