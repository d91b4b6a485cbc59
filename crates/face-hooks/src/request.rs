//! What all requests of this face have in common: who may record, and how a body is read.

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use recount_engine::{RequestContext, Scope};
use recount_event::Code;

use crate::error::Refusal;
use crate::limits;

/// The caller. Refuses tokens without the scope `ingest`, and narrowed tokens, because recording creates sessions.
pub(crate) fn recorder(request: &Request) -> Result<RequestContext, Refusal> {
    let Some(visitor) = request.extensions().get::<RequestContext>().cloned() else {
        let detail = "the request has no token; send `authorization: Bearer TOKEN`";
        return Err(Refusal::new(Code::TokenMissing, detail));
    };
    if !visitor.caller.may(Scope::Ingest) {
        return Err(Refusal::new(Code::ScopeMissing, "this request requires the scope ingest"));
    }
    if !visitor.caller.narrowing.is_none() {
        let detail = "the token is limited to certain tasks or sessions; recording requires a token without that \
             limit";
        return Err(Refusal::new(Code::ScopeMissing, detail));
    }
    Ok(visitor)
}

/// Reads a body of at most so many bytes. `what` is in it.
pub(crate) async fn collect(body: Body, max: usize, what: &str) -> Result<Bytes, Refusal> {
    let too_large = || {
        Refusal::new(
            Code::BodyTooLarge,
            format!("the body is larger than {max} bytes; {what} was not recorded"),
        )
    };
    if body.size_hint().lower() > max as u64 {
        return Err(too_large());
    }
    let collected = Limited::new(body, max).collect();
    match tokio::time::timeout(limits::BODY_WAIT, collected).await {
        Err(_) => {
            let waited = limits::BODY_WAIT.as_secs();
            Err(Refusal::new(Code::BodyTimeout, format!("the body did not arrive within {waited} seconds")))
        }
        Ok(Err(why)) if why.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Ok(Err(why)) => Err(Refusal::new(Code::BodyMalformed, format!("the body ended early: {why}"))),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
    }
}
