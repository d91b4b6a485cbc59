//! `Idempotency-Key`: a repeated request is not executed again; its response is returned again.
//!
//! A key is valid for one client and one path, for a day. Refusals are not stored, so that requests can be corrected.
//! Batches of events have sequence numbers and need no key.
//!
//! A handler takes an [`IdempotentRequest`] and must check `created` first.

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use recount_api::terms::Route;
use recount_engine::{
    Caller, CommandOutcome, Engine, IdempotencyKey, InFlight, KeyedReply, RequestContext, RequestResult,
    RequestState, StoredResponse,
};
use recount_event::{Code, RunId};
use recount_run::Command;

use super::Face;
use super::http::{body_bytes, json_bytes};
use crate::error::Refusal;
use crate::{accept, limits};

pub(super) const KEY: &str = "idempotency-key";
/// The header of replayed responses.
pub const REPLAYED: &str = "idempotency-replayed";

/// The idempotency key of a request and its earlier result; in the extensions of the request.
#[derive(Clone, Default)]
pub(super) struct IdempotentRequest {
    pub(super) once: Option<IdempotencyKey>,
    /// The item that the request created before.
    pub(super) created: Option<RequestResult>,
}

impl IdempotentRequest {
    pub(super) fn of(request: &Request) -> Self {
        request.extensions().get::<IdempotentRequest>().cloned().unwrap_or_default()
    }

    /// Submits a command to a run, unless the same request did before. With a key the response is stored in the append
    /// of the command, as `word` encodes it. `None`: the caller responds with the current state.
    pub(super) async fn submit(
        self,
        face: &Face,
        run: RunId,
        command: Command,
        word: impl FnOnce(&CommandOutcome) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Option<Response>, Refusal> {
        match self {
            IdempotentRequest { created: Some(_), .. } => Ok(None),
            IdempotentRequest { once: None, .. } => {
                face.engine.write().submit(run, command).await?;
                Ok(None)
            }
            IdempotentRequest { once: Some(once), .. } => {
                let word = Box::new(|outcome: &CommandOutcome| stored_response(word(outcome)?));
                let answer = face
                    .engine
                    .write()
                    .submit_keyed(run, command, KeyedReply { idempotency: once, render: word })
                    .await?;
                Ok(answer.map(answered))
            }
        }
    }
}

/// Marks a response that is stored already; in its extensions.
#[derive(Clone)]
struct ResponseStored;

/// A response that is small enough to store.
pub(super) fn stored_response(body: Vec<u8>) -> Option<StoredResponse> {
    let body = String::from_utf8(body).ok().filter(|body| body.len() <= limits::KEPT_ANSWER_BYTES_MAX)?;
    Some(StoredResponse { status: StatusCode::OK.as_u16(), location: None, body })
}

/// The stored response of a request, from the append that executed it.
fn answered(answer: StoredResponse) -> Response {
    let mut response = response_of(answer);
    response.extensions_mut().insert(ResponseStored);
    response
}

/// A layer on routes with an effect.
pub(super) async fn once<Name>(State(route): State<Route<Name>>, request: Request, next: Next) -> Response {
    match request.headers().get(KEY).cloned() {
        None => next.run(request).await,
        Some(key) => {
            do_once(route.method, &key, request, next).await.unwrap_or_else(|refusal| refusal.into_response())
        }
    }
}

/// A request with a key that has to be executed, or was executed without a stored response.
pub(super) struct KeyedRequest {
    pub(super) once: IdempotencyKey,
    pub(super) created: Option<RequestResult>,
    /// Blocks the same request while this is held.
    _under_way: InFlight,
}

/// The state of a key.
pub(super) enum KeyFound {
    ToDo(Box<KeyedRequest>),
    Answered(Response),
}

/// Looks up a key. The path and the digest of the body distinguish requests.
pub(super) async fn look_up(
    (engine, caller): (&Engine, &Caller),
    (method, path): (&str, &str),
    key: &HeaderValue,
    digest: String,
) -> Result<KeyFound, Refusal> {
    let key = accept::idempotency_key(key)?;
    let once = IdempotencyKey { key: named(&[&caller.id, method, path, key]), body: digest };
    let (under_way, created) = match engine.write().claim_request(&once).await? {
        RequestState::New(under_way) => (under_way, None),
        RequestState::Unanswered(under_way, created) => (under_way, Some(created)),
        RequestState::Answered(answer) => return Ok(KeyFound::Answered(replayed(answer))),
        RequestState::KeyReused => {
            let detail = format!("the key {key:?} was already used with another body; send a new key");
            return Err(Refusal::new(Code::IdempotencyKeyReused, detail));
        }
        RequestState::InProgress => {
            let detail = format!("a request with the key {key:?} is in progress; try again shortly");
            return Err(Refusal::new(Code::IdempotencyInProgress, detail));
        }
    };
    Ok(KeyFound::ToDo(Box::new(KeyedRequest { once, created, _under_way: under_way })))
}

impl KeyedRequest {
    /// Stores the response, unless it is a refusal, is stored already, or is too large.
    pub(super) async fn answer(self, engine: &Engine, response: Response) -> Result<Response, Refusal> {
        let (parts, body) = response.into_parts();
        let is_kept = parts.extensions.get::<ResponseStored>().is_some();
        let done = parts.extensions.get::<Refusal>().is_none() && parts.status.is_success() && !is_kept;
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        if done && body.len() <= limits::KEPT_ANSWER_BYTES_MAX {
            let location = parts.headers.get(header::LOCATION).and_then(|at| at.to_str().ok());
            let answer = StoredResponse {
                status: parts.status.as_u16(),
                location: location.map(str::to_owned),
                body: String::from_utf8_lossy(&body).into_owned(),
            };
            engine.write().store_response(&self.once, answer).await?;
        }
        let mut response = Response::from_parts(parts, Body::from(body));
        if self.created.is_some() {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        Ok(response)
    }
}

async fn do_once(method: &str, key: &HeaderValue, request: Request, next: Next) -> Result<Response, Refusal> {
    accept::idempotency_key(key)?;
    let Some(RequestContext { engine, caller }) = request.extensions().get::<RequestContext>().cloned()
    else {
        return Err(Refusal::new(Code::TokenMissing, "the request has no token"));
    };
    let path = request.uri().path().to_owned();
    let (parts, body) = request.into_parts();
    // Read with the limits of the handler, and passed on unchanged.
    let mut copy = Request::new(body);
    *copy.headers_mut() = parts.headers.clone();
    let bytes = body_bytes(copy, limits::BODY_BYTES_MAX).await?;
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let keyed = match look_up((&engine, &caller), (method, &path), key, digest).await? {
        KeyFound::ToDo(keyed) => keyed,
        KeyFound::Answered(answer) => return Ok(answer),
    };
    let mut request = Request::from_parts(parts, Body::from(bytes));
    let (once, created) = (Some(keyed.once.clone()), keyed.created.clone());
    request.extensions_mut().insert(IdempotentRequest { once, created });
    let response = next.run(request).await;
    keyed.answer(&engine, response).await
}

/// Combines several texts into one of bounded length. Different lists give different texts.
pub(super) fn named(texts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn replayed(answer: StoredResponse) -> Response {
    let mut response = response_of(answer);
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

fn response_of(answer: StoredResponse) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let mut response = json_bytes(status, answer.body.into());
    let headers: &mut HeaderMap = response.headers_mut();
    if let Some(location) = answer.location.and_then(|at| HeaderValue::from_str(&at).ok()) {
        headers.insert(header::LOCATION, location);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_lists_of_texts_share_a_name() {
        let lists: [&[&str]; 5] = [&["a", "b"], &["ab", ""], &["", "ab"], &["a", "b", ""], &["b", "a"]];
        let names: HashSet<String> = lists.iter().map(|list| named(list)).collect();
        assert_eq!(names.len(), lists.len());
    }
}
