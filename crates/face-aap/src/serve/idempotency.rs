//! `Idempotency-Key`: a repeated request is not executed again; its result is returned again.
//!
//! A key is valid for one client and one path, for a day. Refusals are not stored, so that requests can be corrected.

use ::http::{HeaderMap, HeaderValue, Uri};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use recount_engine::{IdempotencyKey, InFlight, RequestContext, RequestResult, RequestState};
use recount_event::Code;
use recount_event::digest::digest_of;
use recount_world::{Kind, Panicked};

use super::caller::Face;
use crate::accept;
use crate::error::Refusal;

const KEY: &str = "idempotency-key";
const REPLAYED: &str = "idempotency-replayed";

/// A request that may have been executed before.
#[derive(Default)]
pub(super) struct IdempotentRequest {
    pub(super) idempotency: Option<IdempotencyKey>,
    /// The item that it created then.
    pub(super) created: Option<RequestResult>,
    /// Blocks the same request while this is held.
    _under_way: Option<InFlight>,
}

impl IdempotentRequest {
    pub(super) async fn of(
        face: &Face,
        uri: &Uri,
        headers: &HeaderMap,
        bytes: &[u8],
    ) -> Result<Self, Refusal> {
        let Some(key) = accept::idempotency_key(headers)? else { return Ok(IdempotentRequest::default()) };
        let path = uri.path().trim_end_matches('/');
        let idempotency = IdempotencyKey {
            key: digest_of(&["aap", &face.caller.id, path, key]),
            body: blake3::hash(bytes).to_hex().to_string(),
        };
        let (under_way, created) = match face.engine.write().claim_request(&idempotency).await? {
            RequestState::New(under_way) => (Some(under_way), None),
            RequestState::Executed(under_way, created) => (Some(under_way), Some(created)),
            // Of an earlier release, and only for late answers: their turn is looked up again.
            RequestState::Answered(_) => (None, None),
            RequestState::KeyReused => {
                let detail = format!("the key {key:?} was already used with another body; send a new key");
                return Err(Refusal::new(Code::IdempotencyKeyReused, detail));
            }
            RequestState::InProgress => {
                let detail = format!("a request with the key {key:?} is in progress; try again shortly");
                return Err(Refusal::new(Code::IdempotencyInProgress, detail));
            }
        };
        Ok(IdempotentRequest { idempotency: Some(idempotency), created, _under_way: under_way })
    }
}

/// A layer on all routes. A request with a key goes on when its client disconnects: the key must be claimed until it is known
/// whether the request was executed, so that a repeated one is not executed too.
pub(super) async fn to_its_end(request: Request, next: Next) -> Response {
    let has_key = |_: &&RequestContext| request.headers().contains_key(KEY);
    let context = request.extensions().get::<RequestContext>().filter(has_key);
    let Some(tasks) = context.map(|context| context.engine.world().tasks.clone()) else {
        return next.run(request).await;
    };
    let executed = tasks.finish(Kind::Connection, next.run(request)).await;
    executed.unwrap_or_else(|Panicked| {
        Refusal::new(Code::Internal, "the request was aborted by an error of the server").into_response()
    })
}

/// Marks a response as a replay.
pub(super) fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    response
}
