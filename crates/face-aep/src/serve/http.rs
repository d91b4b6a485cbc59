//! HTTP for all handlers: ids in paths, bodies within limits, queries, JSON replies.

use ::http::request::Parts;
use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Request};
use axum::response::Response;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use recount_api::query;
use recount_api::reply::Page;
use recount_engine::{ListQuery, PageEnd, RunFilter};
use recount_event::Code;
use recount_transport::media;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Face;
use crate::error::Refusal;
use crate::{accept, limits};

/// The ids in a path. An id that is not text matches nothing.
pub(super) struct Ids<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Ids<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(ids)) => Ok(Ids(ids)),
            Err(_) => Err(Refusal::new(Code::RouteNotFound, "the path contains bytes that are not UTF-8")),
        }
    }
}

pub(super) type HandlerResult = Result<Response, Refusal>;

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("replies hold only values that JSON can represent");
    json_bytes(status, body.into())
}

pub(super) fn json_bytes(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The required content type of a body, and the refusal of any other.
pub(super) struct BodyType {
    pub(super) is: fn(&str) -> bool,
    pub(super) otherwise: &'static str,
    /// The advice for a body that is too large.
    pub(super) too_large: &'static str,
}

const JSON: BodyType = BodyType {
    is: media::is_json,
    otherwise: "the content-type of the body is not JSON; send content-type: application/json",
    too_large: "send smaller batches",
};

/// Reads a JSON body within its limits of size and time.
pub(super) async fn body_bytes(request: Request, max: usize) -> Result<Bytes, Refusal> {
    body_of_type(request, max, &JSON).await
}

/// Reads a body within its limits of size and time. If the headers already exceed a limit, the body is not read.
pub(super) async fn body_of_type(request: Request, max: usize, wanted: &BodyType) -> Result<Bytes, Refusal> {
    let declared = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(wanted.is);
    let too_large = || {
        let detail = format!("the body is larger than {max} bytes; {}", wanted.too_large);
        Refusal::new(Code::BodyTooLarge, detail)
    };
    let undeclared = || Refusal::new(Code::MediaTypeUnsupported, wanted.otherwise);
    if let Some(refusal) = encoded(request.headers()) {
        return Err(refusal);
    }
    let size = request.body().size_hint();
    if size.lower() > max as u64 {
        return Err(too_large());
    }
    if !declared && size.lower() > 0 {
        return Err(undeclared());
    }
    let limited = Limited::new(request.into_body(), max);
    let collected = tokio::time::timeout(limits::BODY_WAIT, limited.collect()).await;
    let bytes = match collected {
        Err(_) => {
            let waited = limits::BODY_WAIT.as_secs();
            return Err(Refusal::new(
                Code::BodyTimeout,
                format!("the body did not arrive within {waited} seconds"),
            ));
        }
        Ok(Err(why)) if why.downcast_ref::<LengthLimitError>().is_some() => return Err(too_large()),
        Ok(Err(why)) => {
            return Err(Refusal::new(Code::BodyMalformed, format!("the body ended early: {why}")));
        }
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    if !bytes.is_empty() && !declared {
        return Err(undeclared());
    }
    Ok(bytes)
}

/// Refuses a compressed body, because a small one can expand to any size.
pub fn encoded(headers: &HeaderMap) -> Option<Refusal> {
    let encoding = headers.get(header::CONTENT_ENCODING).filter(|encoding| *encoding != "identity")?;
    let detail =
        format!("the body has content-encoding {encoding:?}; send it uncompressed, without content-encoding");
    Some(Refusal::new(Code::MediaTypeUnsupported, detail))
}

/// The query as pairs without duplicates.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(raw: Option<&str>) -> Self {
        Query(form_urlencoded::parse(raw.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn list(&self, prefix: Option<&str>) -> Result<ListQuery, Refusal> {
        self.list_by_status(prefix, &[])
    }

    pub(super) fn run_filter(&self, statuses: &[&str]) -> Result<RunFilter, Refusal> {
        accept::run_filter(|name| self.get(name), statuses)
    }

    /// The filter of a list that its index supports.
    pub(super) fn list_by_status(
        &self,
        prefix: Option<&str>,
        statuses: &[&str],
    ) -> Result<ListQuery, Refusal> {
        let status = if statuses.is_empty() { None } else { self.get(query::STATUS) };
        Ok(ListQuery {
            after: accept::list_cursor(self.get(query::AFTER), prefix)?,
            limit: accept::limit(self.get(query::LIMIT), query::LIST_LIMIT_DEFAULT, query::LIST_LIMIT_MAX)?,
            status: accept::status(status, statuses)?,
        })
    }
}

/// A page of a list, with its cursor and its damaged rows. Clients that see only a part of the items get the kind of a
/// damaged row, but not its owner.
pub(super) fn page<T: Serialize>(face: &Face, shown: Vec<T>, end: PageEnd) -> Response {
    let mut page = Page::new(shown, end.next.map(serde_json::Value::String), end.has_more);
    page.damaged = end.damaged;
    if !face.caller.narrowing.is_none() {
        page.damaged.iter_mut().for_each(|row| row.truncate(row.find('/').unwrap_or(row.len())));
        page.damaged.dedup();
    }
    json(StatusCode::OK, &page)
}

pub(super) fn created(location: &str, body: &impl Serialize) -> Response {
    let mut response = json(StatusCode::CREATED, body);
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
