//! `GET /openapi.json`: what there is to ask, made from the types that requests are read into.

use super::{align, history, search, status};
use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "dedup-query serve",
        description = "Finds copied text: in indexes, in a history, between two texts.",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(
        search::search,
        history::ask,
        history::remove,
        align::align,
        status::indexes,
        status::health,
        status::readiness,
        status::metrics,
    )
)]
struct ApiDocument;

/// `GET /openapi.json`
pub async fn document() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    match ApiDocument::openapi().to_json() {
        Ok(text) => (kind, text).into_response(),
        Err(error) => super::ApiError::wrong(error.to_string()).into_response(),
    }
}
