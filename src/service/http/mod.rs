//! HTTP/1.1 and JSON.

mod align;
mod body;
mod connection;
mod error;
mod guard;
mod history;
mod number;
mod openapi;
mod page;
mod search;
mod sent_file;
mod status;

pub use history::HttpHistory;
pub use page::PageStore;

use super::{
    auth::ServiceToken,
    clients::ServiceClients,
    indexes::ServedIndexes,
    memory::ClientMemory,
    metrics::ServiceMetrics,
    options::{ServiceControl, ServiceOptions},
    tls::ServiceTls,
    workers::Workers,
};
use crate::base::error::{Place, Problem};
use axum::{
    Router,
    extract::DefaultBodyLimit,
    middleware,
    routing::{delete, get, post},
};
use error::ApiError;
use std::sync::Arc;

/// The path of searches.
pub const API_SEARCH: &str = "/v1/search";

/// What requests over HTTP are answered from.
pub struct HttpService {
    pub history: Option<HttpHistory>,
    pub indexes: Arc<ServedIndexes>,
    pub workers: Workers,
    pub memory: Arc<ClientMemory>,
    pub clients: Arc<ServiceClients>,
    pub metrics: ServiceMetrics,
    pub token: Option<ServiceToken>,
    pub tls: Option<ServiceTls>,
    pub pages: PageStore,
    pub options: ServiceOptions,
    pub control: ServiceControl,
}

/// Serves connections.
pub struct HttpServer {
    service: Arc<HttpService>,
    router: Router,
}

impl HttpServer {
    pub fn new(service: HttpService) -> Self {
        let service = Arc::new(service);
        Self {
            router: router(service.clone()),
            service,
        }
    }

    /// What its requests are answered from.
    pub fn service(&self) -> &HttpService {
        &self.service
    }
}

impl HttpService {
    /// Reads the token, the certificate and the key again; returns what could not be read.
    pub fn reload_secrets(&self) -> Vec<Problem> {
        let token = self.token.as_ref().map(ServiceToken::reload);
        let tls = self.tls.as_ref().map(ServiceTls::reload);
        let failed = [token, tls].into_iter().flatten().filter_map(Result::err);
        failed
            .map(|error| {
                let what = format!("{error}; the service goes on with what it has");
                Problem::new(Place::file("reload"), what)
            })
            .collect()
    }
}

fn router(service: Arc<HttpService>) -> Router {
    Router::new()
        .route("/", get(page::form))
        .route("/documents", post(page::submit))
        .route("/documents/{name}", get(page::document))
        .route(API_SEARCH, post(search::search))
        .route("/v1/history", post(history::ask))
        .route("/v1/history/{id}", delete(history::remove))
        // The same for the empty id, which the pattern above does not match.
        .route("/v1/history/", delete(history::remove_unnamed))
        .route("/v1/align", post(align::align))
        .route("/v1/indexes", get(status::indexes))
        .route("/healthz", get(status::health))
        .route("/readyz", get(status::readiness))
        .route("/metrics", get(status::metrics))
        .route("/openapi.json", get(openapi::document))
        .fallback(async || ApiError::not_found())
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        // Bodies are limited where they are read.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(
            service.clone(),
            guard::authorize,
        ))
        .layer(middleware::from_fn_with_state(
            service.clone(),
            guard::measure,
        ))
        .with_state(service)
}
