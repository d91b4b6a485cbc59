//! `Idempotency-Key`: a repeated request is not executed again; its response is rendered again.
//!
//! A key is valid for one client and one path, for a day. It stores what the request created or changed, so the first
//! response must be rendered from that, too. Refusals are not stored, so that requests can be corrected. Batches of
//! events have sequence numbers and need no key.
//!
//! A handler takes an [`IdempotentRequest`] and must check `created` first.

use ::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use recount_api::terms::Route;
use recount_engine::{
    Caller, Engine, IdempotencyKey, InFlight, RequestContext, RequestResult, RequestState, StoredResponse,
};
use recount_event::digest::digest_of;
use recount_event::{Code, RunId};
use recount_run::Command;
use recount_world::{Kind, Panicked};

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
    /// What the request created or changed before.
    pub(super) created: Option<RequestResult>,
}

impl IdempotentRequest {
    pub(super) fn of(request: &Request) -> Self {
        request.extensions().get::<IdempotentRequest>().cloned().unwrap_or_default()
    }

    /// Submits a command to a run, unless the same request did before. With a key, returns the run and its last event
    /// then, which determine the response. `None`: the caller responds with the current state.
    pub(super) async fn submit(
        self,
        face: &Face,
        run: RunId,
        command: Command,
    ) -> Result<Option<(RunId, u64)>, Refusal> {
        match self {
            IdempotentRequest { created: Some(RequestResult::ChangedAt(run, sequence)), .. } => {
                Ok(Some((run, sequence)))
            }
            IdempotentRequest { created: Some(_), .. } => Ok(None),
            IdempotentRequest { once: None, .. } => {
                face.engine.write().submit(run, command).await?;
                Ok(None)
            }
            IdempotentRequest { once: Some(once), .. } => {
                let last = face.engine.write().submit_keyed(run, command, once).await?;
                Ok(last.map(|sequence| (run, sequence)))
            }
        }
    }
}

/// A layer on routes that take a key. A request with one goes on when its client disconnects: the key must be claimed until it is
/// known whether the request was executed, so that a repeated one is not executed too.
pub(super) async fn to_its_end(request: Request, next: Next) -> Response {
    let context =
        request.extensions().get::<RequestContext>().filter(|_| request.headers().contains_key(KEY));
    let Some(tasks) = context.map(|context| context.engine.world().tasks.clone()) else {
        return next.run(request).await;
    };
    let executed = tasks.finish(Kind::Connection, next.run(request)).await;
    executed.unwrap_or_else(|Panicked| {
        Refusal::new(Code::Internal, "the request was aborted by an error of the server").into_response()
    })
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

/// A request with a key that has to be executed, or whose response has to be rendered again.
pub(super) struct KeyedRequest {
    pub(super) idempotent: IdempotentRequest,
    /// Blocks the same request while this is held.
    _under_way: InFlight,
}

/// Looks up a key. The path and the digest of the body distinguish requests. The inner error is the response that an
/// earlier release stored.
pub(super) async fn look_up(
    (engine, caller): (&Engine, &Caller),
    (method, path): (&str, &str),
    key: &HeaderValue,
    digest: String,
) -> Result<Result<KeyedRequest, Response>, Refusal> {
    let key = accept::idempotency_key(key)?;
    let once = IdempotencyKey { key: digest_of(&[&caller.id, method, path, key]), body: digest };
    let (under_way, created) = match engine.write().claim_request(&once).await? {
        RequestState::New(under_way) => (under_way, None),
        RequestState::Executed(under_way, created) => (under_way, Some(created)),
        RequestState::Answered(answer) => return Ok(Err(replayed(response_of(answer)))),
        RequestState::KeyReused => {
            let detail = format!("the key {key:?} was already used with another body; send a new key");
            return Err(Refusal::new(Code::IdempotencyKeyReused, detail));
        }
        RequestState::InProgress => {
            let detail = format!("a request with the key {key:?} is in progress; try again shortly");
            return Err(Refusal::new(Code::IdempotencyInProgress, detail));
        }
    };
    let idempotent = IdempotentRequest { once: Some(once), created };
    Ok(Ok(KeyedRequest { idempotent, _under_way: under_way }))
}

impl KeyedRequest {
    /// Marks the response of a repeated request.
    pub(super) fn marked(&self, response: Response) -> Response {
        if self.idempotent.created.is_some() { replayed(response) } else { response }
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
        Ok(keyed) => keyed,
        Err(stored) => return Ok(stored),
    };
    let mut request = Request::from_parts(parts, Body::from(bytes));
    request.extensions_mut().insert(keyed.idempotent.clone());
    let response = next.run(request).await;
    Ok(keyed.marked(response))
}

fn replayed(mut response: Response) -> Response {
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
