//! What every request passes: it is counted, and must be allowed.

use super::{HttpService, error::ApiError};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{net::IpAddr, sync::Arc, time::Instant};

/// Paths that need no token: they say only whether the server works.
const OPEN: [&str; 2] = ["/healthz", "/readyz"];

/// Counts answers and their time.
pub async fn measure(
    State(service): State<Arc<HttpService>>,
    request: Request,
    next: Next,
) -> Response {
    let start = Instant::now();
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("other", MatchedPath::as_str).to_owned();
    let method = match request.method().as_str() {
        known @ ("GET" | "HEAD" | "POST" | "DELETE") => known.to_owned(),
        _ => "other".to_owned(),
    };
    let response = next.run(request).await;
    let status = response.status().as_u16();
    service
        .metrics
        .count(&route, &method, status, start.elapsed());
    response
}

/// Whether a request is addressed to a name that the server has. A page of another site can make a
/// name of its own stand for this machine, and would then read answers as its own; but it cannot
/// change the header.
fn is_addressed(service: &HttpService, host: &str) -> bool {
    let security = &service.options.security;
    if service.token.is_some() || service.options.allow_remote {
        return true;
    }
    let has_port = host
        .rsplit_once(':')
        .filter(|(name, _)| !name.contains(':') || name.ends_with(']'));
    let name = has_port.map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || security
            .hosts
            .iter()
            .any(|other| other.eq_ignore_ascii_case(name))
}

/// Refuses requests without the token, and requests to another server.
pub async fn authorize(
    State(service): State<Arc<HttpService>>,
    request: Request,
    next: Next,
) -> Response {
    let is_open = OPEN.contains(&request.uri().path());
    let host = request.headers().get(header::HOST);
    let host = host.map_or(Some("localhost"), |host| host.to_str().ok());
    if !host.is_some_and(|host| is_addressed(&service, host)) {
        return ApiError::new(
            StatusCode::FORBIDDEN,
            "the header host names another server; if this one has that name, say so when it starts",
        )
        .into_response();
    }
    match &service.token {
        Some(token) if !is_open && !token.is_in(request.headers()) => {
            let error = ApiError::new(
                StatusCode::UNAUTHORIZED,
                "the token is missing or wrong; send it as authorization: Bearer TOKEN",
            );
            let mut response = error.into_response();
            // Browsers ask for a password.
            let challenge = HeaderValue::from_static("Basic realm=\"dedup\", Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
            response
        }
        _ => next.run(request).await,
    }
}
