//! The page for people: a document goes in, a report of what it shares with an index comes out.

mod store;

pub use store::PageStore;

use super::{
    HttpService,
    error::ApiError,
    sent_file::{plain_name, text_of_file},
};
use crate::{
    commands::{AnswerFormat, QueryDocument, SearchOptions, SearchPassages},
    report::html::{Frame, put, put_element},
    text::corpus,
};
use axum::{
    body::Body,
    extract::{FromRequest, Multipart, Path, State},
    http::{HeaderMap, HeaderName, Request, StatusCode, header},
    response::{IntoResponse, Response},
};
use std::sync::{Arc, LazyLock};

static FRAME: LazyLock<Frame> = LazyLock::new(|| {
    Frame::still(include_str!("form.css"))
        .with_script(include_str!("form.js"))
        .with_forms()
});
static STILL: LazyLock<Frame> = LazyLock::new(|| Frame::still(include_str!("form.css")));

/// What a page says about how long it is there.
const KEPT: &str = "This page is kept for 24 hours, as long as the server runs and has room. Everyone who has its address can read it. Save it to keep it longer.";
/// The most sources on a page.
const MOST_SOURCES: usize = 50;

/// A document that was sent with the form.
#[derive(Default)]
struct SentDocument {
    index: Option<String>,
    name: String,
    file: Vec<u8>,
    text: String,
}

/// `GET /`
pub async fn form(State(service): State<Arc<HttpService>>) -> Response {
    page(StatusCode::OK, service.form_page(None))
}

/// `POST /documents`: makes a page and redirects to it.
pub async fn submit(
    State(service): State<Arc<HttpService>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match service.clone().page_of(&headers, body).await {
        Ok(name) => {
            let location = [(header::LOCATION, format!("/documents/{name}"))];
            (StatusCode::SEE_OTHER, location).into_response()
        }
        Err(error) => {
            let (status, what) = error.into_parts();
            page(status, service.form_page(Some(&what)))
        }
    }
}

/// `GET /documents/{name}`
pub async fn document(
    State(service): State<Arc<HttpService>>,
    Path(name): Path<String>,
) -> Response {
    match service.pages.get(&name) {
        Some(html) => page(StatusCode::OK, html.to_vec()),
        None => page(StatusCode::NOT_FOUND, gone_page()),
    }
}

/// A page that nothing else may keep, embed, or guess the kind of.
fn page(status: StatusCode, html: Vec<u8>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "frame-ancestors 'none'; base-uri 'none'; object-src 'none'",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    (status, headers, html).into_response()
}

impl HttpService {
    /// Makes the page of a document that was sent with the form; returns its name.
    async fn page_of(self: Arc<Self>, headers: &HeaderMap, body: Body) -> Result<String, ApiError> {
        ensure_same_site(headers)?;
        let received = self.receive(headers, body).await?;
        let mut request = Request::new(Body::from(received.bytes.clone()));
        *request.headers_mut() = headers.clone();
        let sent = SentDocument::read(request).await?;
        let service = self.clone();
        let made = self.workers.run(move || {
            let _body = received;
            service.make_page(sent)
        });
        made.await?
    }

    fn make_page(&self, sent: SentDocument) -> Result<String, ApiError> {
        let index = sent.index.as_deref().filter(|name| !name.is_empty());
        let (name, served) = self.indexes.get(index).map_err(ApiError::wrong)?;
        if served.corpus().is_empty() {
            return Err(ApiError::wrong(format!(
                "the server was not told where the documents of the index {name} are, so it cannot show them"
            )));
        }
        let (id, text) = sent.into_text(&self.options.reading)?;
        let searcher = served.current();
        let of_preset = searcher.preset().query;
        let options = SearchOptions {
            score: of_preset.score,
            threshold: of_preset.threshold,
            top: MOST_SOURCES,
            max_df: None,
            exclude_texts: Vec::new(),
            answers: AnswerFormat::Page,
            passages: Some(SearchPassages::default()),
            notice: Some(KEPT),
        };
        let outcome = searcher.answer(&options, &id, QueryDocument::Text(&text))?;
        Ok(self.pages.keep(outcome.bytes)?)
    }

    fn form_page(&self, problem: Option<&str>) -> Vec<u8> {
        let mut out = Vec::new();
        FRAME.put_head(&mut out, "What does a text share with others?");
        put(
            &mut out,
            "<body>\n<header class=\"top\"><div class=\"title\"><h1>What does a text share with others?</h1></div></header>\n<main class=\"ask\">\n",
        );
        let names: Vec<&str> = self
            .indexes
            .iter()
            .filter(|(_, served)| !served.corpus().is_empty())
            .map(|(name, _)| name)
            .collect();
        if names.is_empty() {
            put(
                &mut out,
                "<p>This server has no index whose documents it can show: start it with --index and --corpus.</p>\n</main>\n",
            );
            put(&mut out, "</body>\n</html>\n");
            return out;
        }
        if let Some(problem) = problem {
            put_element(&mut out, "<p role=\"alert\">", problem, "</p>\n");
        }
        put(
            &mut out,
            "<form method=\"post\" action=\"/documents\" enctype=\"multipart/form-data\">\n",
        );
        put_choice(&mut out, &names);
        put(&mut out, include_str!("form.html"));
        put(&mut out, "</main>\n");
        FRAME.put_foot(&mut out);
        out
    }
}

/// The choice of the index, where there is one.
fn put_choice(out: &mut Vec<u8>, names: &[&str]) {
    if let [name] = names {
        put_element(
            out,
            "<input type=\"hidden\" name=\"index\" value=\"",
            name,
            "\">\n",
        );
        put_element(
            out,
            "<p>It is compared with the documents of the index <b>",
            name,
            "</b>.</p>\n",
        );
        return;
    }
    put(
        out,
        "<div class=\"field\"><label for=\"index\">Compare it with</label>\n<select id=\"index\" name=\"index\">\n",
    );
    for name in names {
        put_element(out, "<option>", name, "</option>\n");
    }
    put(out, "</select></div>\n");
}

fn gone_page() -> Vec<u8> {
    let mut out = Vec::new();
    STILL.put_head(&mut out, "This page is gone");
    put(
        &mut out,
        "<body>\n<header class=\"top\"><div class=\"title\"><a class=\"back\" href=\"/\">Another document</a><h1>This page is gone</h1></div></header>\n<main class=\"ask\"><p>Pages are kept for 24 hours, as long as the server runs and has room. Ask about the document again.</p></main>\n",
    );
    STILL.put_foot(&mut out);
    out
}

/// Refuses what another site lets a browser send.
fn ensure_same_site(headers: &HeaderMap) -> Result<(), ApiError> {
    let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
    match site {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "this form was sent by another site",
        )),
    }
}

impl SentDocument {
    async fn read(request: Request<Body>) -> Result<Self, ApiError> {
        let wrong = |what: String| ApiError::wrong(format!("the form: {what}"));
        let mut form = Multipart::from_request(request, &())
            .await
            .map_err(|error| wrong(error.body_text()))?;
        let mut sent = Self::default();
        while let Some(field) = form
            .next_field()
            .await
            .map_err(|error| wrong(error.body_text()))?
        {
            let name = field.name().unwrap_or_default().to_owned();
            let file_name = field.file_name().unwrap_or_default().to_owned();
            let bytes = field
                .bytes()
                .await
                .map_err(|error| wrong(error.body_text()))?;
            let text = || {
                String::from_utf8(bytes.to_vec()).map_err(|_| wrong(format!("{name} is not UTF-8")))
            };
            match name.as_str() {
                "index" => sent.index = Some(text()?),
                "text" => sent.text = text()?,
                "file" if !file_name.is_empty() => {
                    (sent.name, sent.file) = (plain_name(&file_name), bytes.to_vec());
                }
                _ => {}
            }
        }
        Ok(sent)
    }

    /// The id and the text: of the file, if one was sent. It is converted as a file of a corpus.
    fn into_text(self, reading: &corpus::Options) -> Result<(String, String), ApiError> {
        if self.name.is_empty() {
            if self.text.trim().is_empty() {
                return Err(ApiError::wrong(
                    "there is no document: choose a file, or paste a text",
                ));
            }
            return Ok(("pasted text".to_owned(), self.text));
        }
        // A document of the index with the id of the document would not be shown.
        let id = format!("{} (your document)", self.name);
        let text = text_of_file(&self.name, &self.file, reading)?;
        Ok((id, text))
    }
}
