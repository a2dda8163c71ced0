//! Errors as answers: a status, and `{"error":…}`.

use crate::{
    base::error::Error,
    service::{history::put_error, workers::WorkError},
};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

/// Why a request is not answered otherwise.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// A sentence for people.
    pub error: String,
}

/// Why a request is not answered otherwise, and the status that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    message: String,
}

impl ApiError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// The request cannot be used as it is.
    pub fn wrong(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "there is nothing at this path; GET /openapi.json lists what there is",
        )
    }

    pub fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "this path has other methods; the header allow lists them",
        )
    }

    /// The body has another type than the route takes.
    pub fn needs_json() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the header content-type must be application/json",
        )
    }

    /// The status and the sentence.
    pub fn into_parts(self) -> (StatusCode, String) {
        (self.status, self.message)
    }

    /// The same request may be answered later.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

/// What the library says about a request or about its files.
impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = if matches!(error, Error::Usage(_)) {
            StatusCode::BAD_REQUEST
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        Self::new(status, error.to_string())
    }
}

impl From<WorkError> for ApiError {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Busy => Self::unavailable("the server is busy; try again later"),
            WorkError::Panicked => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "this request made a thread of the server fail; please report it",
            ),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = Vec::new();
        put_error(&mut body, &self.message);
        let mut response = json(self.status, body);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let second = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, second);
        }
        response
    }
}

/// An answer in JSON.
pub fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
