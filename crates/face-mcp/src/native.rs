//! Requests to the native face in process, as the client of an MCP request: with its engine, scopes and tasks. Start at
//! [`Native`].

use axum::Router;
use axum::body::Body;
use axum::extract::OriginalUri;
use bytes::Bytes;
use http::{Extensions, HeaderName, Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use recount_api::problem::Problem;
use recount_engine::{Caller, RequestContext};
use recount_event::Code;
use recount_transport::{RequestId, sse};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use crate::limits;

/// Why a tool has no result, with a code of `docs/errors.md`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Failure {
    pub(crate) code: String,
    /// What failed, and what to do.
    pub(crate) detail: String,
    pub(crate) retryable: bool,
    #[serde(skip)]
    pub(crate) status: u16,
}

impl Failure {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let row = code.row();
        Failure {
            code: row.name.to_owned(),
            detail: detail.into(),
            retryable: row.retryable,
            status: row.status,
        }
    }

    pub(crate) fn is(&self, codes: &[Code]) -> bool {
        codes.iter().any(|code| code.row().name == self.code)
    }
}

/// A wrong argument.
impl From<String> for Failure {
    fn from(detail: String) -> Self {
        Failure::new(Code::ParameterInvalid, detail)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let Problem { code, detail, retryable, status, .. } = problem;
        Failure { code, detail, retryable, status }
    }
}

/// The native face for one MCP request.
#[derive(Clone)]
pub(crate) struct Native {
    face: Router,
    /// Of the MCP request; the native face finds its client here.
    extensions: Extensions,
}

/// Query parameters; those without a value are left out.
pub(crate) type Query<'q> = &'q [(&'q str, Option<String>)];

impl Native {
    pub(crate) fn new(face: Router, extensions: &Extensions) -> Self {
        let mut extensions = extensions.clone();
        // That of the outer route.
        extensions.remove::<OriginalUri>();
        Native { face, extensions }
    }

    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.extensions.get::<RequestContext>().map(|context| &context.caller)
    }

    /// The time of the server's clock.
    pub(crate) fn now_ms(&self) -> u64 {
        let context = self.extensions.get::<RequestContext>();
        context.map_or(0, |context| context.engine.world().clock.now_ms())
    }

    /// Masks secrets, because many errors repeat input.
    pub(crate) fn masked(&self, text: &str) -> String {
        let context = self.extensions.get::<RequestContext>();
        context.map_or_else(String::new, |context| context.engine.write().redactor().quotes(text))
    }

    /// The cursor to continue from, and whether events between it and the given one were pruned.
    pub(crate) async fn retained(&self, cursor: u64) -> Result<(u64, bool), Failure> {
        let Some(context) = self.extensions.get::<RequestContext>() else { return Ok((cursor, false)) };
        let pruned = context.engine.read().pruned_after(cursor).await;
        let pruned = pruned.map_err(|why| Failure::new(why.code(), self.masked(&why.to_string())))?;
        Ok((pruned.unwrap_or(cursor), pruned.is_some()))
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: Query<'_>,
    ) -> Result<T, Failure> {
        decoded(&self.send((Method::GET, path, query), None, None).await?)
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body).map_err(|why| internal(&why))?;
        decoded(&self.send((Method::POST, path, &[]), None, Some(body)).await?)
    }

    /// A stream of events.
    pub(crate) async fn stream(&self, path: &[&str], query: Query<'_>) -> Result<Body, Failure> {
        let accept = (header::ACCEPT, sse::MEDIA_TYPE.to_owned());
        self.open((Method::GET, path, query), Some(accept), None).await
    }

    /// A part of an artifact's bytes.
    pub(crate) async fn bytes(&self, artifact: &str, from: u64, count: u64) -> Result<Bytes, Failure> {
        let range = (header::RANGE, format!("bytes={from}-{}", from + count.max(1) - 1));
        self.send((Method::GET, &["artifacts", artifact, "raw"], &[]), Some(range), None).await
    }

    async fn send(
        &self,
        line: (Method, &[&str], Query<'_>),
        header: Option<(HeaderName, String)>,
        body: Option<Vec<u8>>,
    ) -> Result<Bytes, Failure> {
        collected(self.open(line, header, body).await?).await
    }

    /// The body of a response, if it is not a problem.
    async fn open(
        &self,
        (method, path, query): (Method, &[&str], Query<'_>),
        header: Option<(HeaderName, String)>,
        body: Option<Vec<u8>>,
    ) -> Result<Body, Failure> {
        let mut request = Request::builder().method(method).uri(target(path, query));
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(RequestId(id)) = self.extensions.get::<RequestId>() {
            request = request.header("x-request-id", &**id);
        }
        let mut request =
            request.body(body.map(Body::from).unwrap_or_default()).map_err(|why| internal(&why))?;
        request.extensions_mut().extend(self.extensions.clone());
        let response = self.face.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let problem: Problem = decoded(&collected(response.into_body()).await?)?;
        Err(problem.into())
    }
}

async fn collected(body: Body) -> Result<Bytes, Failure> {
    let body = Limited::new(body, limits::NATIVE_BYTES_MAX).collect().await;
    Ok(body.map_err(|why| internal(&why))?.to_bytes())
}

fn internal(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::Internal, format!("the native face did not respond as expected: {why}"))
}

fn decoded<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|why| internal(&why))
}

fn target(path: &[&str], query: Query<'_>) -> String {
    let mut target = "/v1".to_owned();
    for segment in path {
        target.push('/');
        for byte in segment.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    target.push(byte.into())
                }
                _ => target.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    let mut separator = '?';
    for (name, value) in query {
        let Some(value) = value else { continue };
        target.push(separator);
        target.push_str(name);
        target.push('=');
        target.extend(form_urlencoded::byte_serialize(value.as_bytes()));
        separator = '&';
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_argument_reaches_another_route() {
        let value = |text: &str| Some(text.to_owned());
        assert_eq!(target(&["runs", "../tasks?x#y"], &[]), "/v1/runs/..%2Ftasks%3Fx%23y");
        assert_eq!(target(&["runs", "ä b"], &[]), "/v1/runs/%C3%A4%20b");
        let query = [("text", value("a&b=c d")), ("status", None), ("after", value("é"))];
        assert_eq!(target(&["runs"], &query), "/v1/runs?text=a%26b%3Dc+d&after=%C3%A9");
    }
}
