//! Handles a `subscription.request`: resolves its scope, negotiates the terms, and adds a subscription.

use http::StatusCode;
use recount_aaep::negotiate::{self, HandshakeOutcome, Reason, Refusal};
use recount_aaep::shaping::EXTENSION_PREFIX;
use recount_aaep::wire::SubscriptionId;
use recount_aaep_host::{Handshake, Rejected};
use recount_engine::{Caller, Engine, Error, RunRow, Scope};
use recount_event::RunId;

use super::{FaceState, Requester, join};
use crate::project::JoinReason;
use crate::projections::Broken;
use crate::reply_state::ReplyState;
use crate::request::{Redaction, SubscriptionOptions};
use crate::subscription::{NewSubscription, RetainedStream, Subscription};
use crate::{limits, manifest};

/// Handles a request. There is always a response.
pub(super) async fn answer(
    state: &FaceState,
    requester: &Requester,
    request: &str,
    on_socket: bool,
) -> Handshake {
    match accepted(state, requester, request, on_socket).await {
        Ok((id, text)) => Handshake { text: Some(text), result: Ok(id) },
        Err((refusal, status)) => {
            let rejected = Rejected::from(&refusal);
            let status = status.unwrap_or(rejected.status);
            let text = serde_json::to_string(&refusal.to_message()).ok();
            Handshake { text, result: Err(Rejected { status, ..rejected }) }
        }
    }
}

/// A refusal, with a status that differs from the one of its reason.
pub(super) type Refused = (Refusal, Option<StatusCode>);

async fn accepted(
    state: &FaceState,
    Requester { engine, caller }: &Requester,
    request: &str,
    on_socket: bool,
) -> Result<(String, String), Refused> {
    let refused = |refusal: Refusal| (refusal, None);
    if !caller.may(Scope::Read) {
        let message = "listening requires the scope read; use a token that has it";
        return Err(refused(Refusal::new(Reason::AuthorizationDenied, message)));
    }
    let place = state.subscriptions.place(engine);
    let mut offer = manifest::offer();
    if place.is_none() {
        offer.full = Some(limits::SUBSCRIPTIONS_RETRY_SECONDS);
    }
    let terms = match negotiate::evaluate_text(&offer, request) {
        HandshakeOutcome::Accepted(terms) => *terms,
        HandshakeOutcome::Rejected(refusal) => return Err(refused(refusal)),
    };
    let options = SubscriptionOptions::read(request).map_err(refused)?;
    if let Some(run) = options.run {
        find(engine, caller, run).await?;
    }
    let Some(place) = place else {
        return Err(refused(Refusal::new(Reason::RateLimit, "the limit of open subscriptions is reached")));
    };
    let id = SubscriptionId::new(format!("sub_{:032x}", state.world.entropy.draw()))
        .unwrap_or_else(|why| unreachable!("letters and digits: {why}"));
    let mut message = terms.to_message(&offer, id.clone());
    message.extensions = options.honored().map(|own| [(EXTENSION_PREFIX.to_owned(), own)].into());
    let text = serde_json::to_string(&message).unwrap_or_default();
    tracing::debug!(subscription = %id, run = ?options.run, redacted = options.redaction != Redaction::Full, "a subscription was accepted");
    let new = NewSubscription {
        id: id.clone(),
        engine: engine.clone(),
        caller: caller.clone(),
        options,
        replies: ReplyState::new(id.clone(), state.tokens.clone(), state.attempts.clone()),
        terms,
        on_socket,
    };
    let subscription = Subscription::new(new, place);
    if options.run.is_none() {
        // The reader starts now, so nothing is missed, however late the stream is opened.
        let reader = join::joining(state, &subscription, JoinReason::Joined).await;
        let reader = reader.map_err(|Broken| unavailable())?;
        subscription.retain_stream(RetainedStream { reader, sending: None });
    }
    state.subscriptions.add(subscription);
    Ok((id.as_str().to_owned(), text))
}

/// A run that the caller may see. The refusal does not reveal whether another run exists.
pub(super) async fn find(engine: &Engine, caller: &Caller, run: RunId) -> Result<RunRow, Refused> {
    let row = engine.catalogue().run(run).await.map_err(failed)?;
    let seen = |row: &RunRow| caller.narrowing.admits(row.task_id, row.session_id);
    row.filter(seen).ok_or_else(|| {
        let message = format!("run {run} not found; send the id of a run that the token may read");
        (Refusal::new(Reason::Unknown, message), Some(StatusCode::NOT_FOUND))
    })
}

fn failed(error: Error) -> Refused {
    tracing::warn!(%error, "a subscription could not be checked");
    unavailable()
}

fn unavailable() -> Refused {
    let message = "the store does not respond; try again shortly";
    let mut refusal = Refusal::new(Reason::TransportUnavailable, message);
    refusal.retry_after_seconds = Some(limits::SUBSCRIPTIONS_RETRY_SECONDS);
    (refusal, None)
}
