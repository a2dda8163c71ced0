//! Reads the bodies of requests, within limits of size, time and memory.

use super::{HttpService, error::ApiError};
use crate::service::memory::MemoryShare;
use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use http_body_util::BodyExt;
use serde::Deserialize;
use std::time::Duration;
use tokio::time::timeout;

/// How long a body may wait for memory.
const PATIENCE: Duration = Duration::from_secs(2);

/// A body, and the memory that it takes.
pub struct ReceivedBody {
    pub bytes: Vec<u8>,
    _memory: MemoryShare,
}

impl HttpService {
    /// Receives a body.
    pub async fn receive(&self, headers: &HeaderMap, body: Body) -> Result<ReceivedBody, ApiError> {
        let limit = self.options.idle_timeout;
        let received = timeout(limit, self.receive_all(headers, body)).await;
        received.unwrap_or_else(|_| {
            Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                format!("the body is not complete after {} s", limit.as_secs()),
            ))
        })
    }

    async fn receive_all(
        &self,
        headers: &HeaderMap,
        mut body: Body,
    ) -> Result<ReceivedBody, ApiError> {
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<usize>().ok())
            .unwrap_or(0);
        self.ensure_fits(announced)?;
        let memory = MemoryShare::new(self.memory.clone());
        let mut bytes = Vec::new();
        self.make_room(&memory, &mut bytes, announced).await?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| ApiError::wrong(format!("the body: {error}")))?;
            if let Ok(data) = frame.into_data() {
                self.ensure_fits(bytes.len() + data.len())?;
                self.make_room(&memory, &mut bytes, data.len()).await?;
                bytes.extend_from_slice(&data);
            }
        }
        Ok(ReceivedBody {
            bytes,
            _memory: memory,
        })
    }

    fn ensure_fits(&self, length: usize) -> Result<(), ApiError> {
        let most = self.options.max_body_bytes;
        if length <= most {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body has more than {most} bytes, which is the limit"),
        ))
    }

    /// Reserves memory for more bytes: doubling, so that a body is copied only a few times.
    async fn make_room(
        &self,
        memory: &MemoryShare,
        bytes: &mut Vec<u8>,
        more: usize,
    ) -> Result<(), ApiError> {
        let needed = bytes.len() + more;
        if needed <= bytes.capacity() {
            return Ok(());
        }
        let capacity = needed.max((2 * bytes.capacity()).min(self.options.max_body_bytes));
        if !memory.set_input(capacity, PATIENCE).await {
            let most = self.memory.most();
            return Err(ApiError::unavailable(format!(
                "all clients together have {most} bytes, which is the limit; try again later"
            )));
        }
        bytes.reserve_exact(capacity - bytes.len());
        Ok(())
    }
}

/// Parses JSON. An error names the field.
pub fn parse<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, String> {
    // A list would be taken for the values of the fields, in their order.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err("a list, where an object is expected".to_owned());
    }
    // The path of a field costs time, so only an error has it.
    serde_json::from_slice(bytes).or_else(|_| {
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let parsed: T = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            let what = error.into_inner();
            if what.is_syntax() || what.is_eof() {
                format!("not JSON: {what}")
            } else if path == "." {
                what.to_string()
            } else {
                format!("the field '{}': {what}", path.escape_debug())
            }
        })?;
        json.end().map_err(|what| format!("not JSON: {what}"))?;
        Ok(parsed)
    })
}

/// The media type of a body, without its parameters, in lower case.
pub fn content_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or_default();
    Some(kind.trim().to_ascii_lowercase())
}
