//! Handles messages of subscribers: replies to prompts, changes of the terms, and the end of a subscription.
//!
//! The response does not depend on the effect of a reply, so that a sender learns nothing about prompts from it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use recount_aaep::Message;
use recount_aaep::negotiate::{self, HandshakeOutcome};
use recount_aaep::wire::{Response, SubscriptionId, SubscriptionRenegotiate};
use recount_aaep_host::{Problem, Reply, Source};
use recount_world::Kind;

use super::feed::Stream;
use super::{FaceState, Requester};
use crate::replies;
use crate::reply_state::{Outcome, OwnMessage, PromptReply, ReplyAttempt};
use crate::subscription::Subscription;
use crate::{limits, manifest};

pub(super) fn receive(
    state: &FaceState,
    requester: &Requester,
    source: Source<'_, Stream>,
    text: &str,
) -> Reply {
    let own = OwnMessage::parse(text);
    let find = |id: &SubscriptionId| {
        let found = state.subscriptions.find(id.as_str(), &requester.engine, &requester.caller)?;
        match &source {
            // A WebSocket carries one subscription.
            Source::Socket(stream) => (stream.subscription().id() == found.id()).then_some(found),
            _ => Some(found),
        }
    };
    let take = |id: &SubscriptionId, reply: PromptReply| {
        if let Some(subscription) = find(id) {
            replies::receive(&subscription, reply);
        } else {
            record_foreign(state, requester, id, &reply);
        }
        Reply::Accepted
    };
    if let Some(own) = own {
        return match own {
            Ok(OwnMessage::Extend(extend)) => {
                take(&extend.subscription_id.clone(), PromptReply::Extend(extend))
            }
            Ok(OwnMessage::Control(control)) => {
                take(&control.subscription_id.clone(), PromptReply::Control(control))
            }
            Err(_) => Reply::Refused(Problem::Malformed),
        };
    }
    let Ok(message) = Message::parse(text) else { return Reply::Refused(Problem::Malformed) };
    match message {
        Message::ConfirmationReply(reply) => {
            take(&reply.subscription_id.clone(), PromptReply::Confirmation(*reply))
        }
        // The published schema requires a character.
        Message::ClarificationReply(reply) if reply.response == Response::Text(String::new()) => {
            Reply::Refused(Problem::Malformed)
        }
        Message::ClarificationReply(reply) => {
            take(&reply.subscription_id.clone(), PromptReply::Clarification(*reply))
        }
        Message::SubscriptionRenegotiate(request) => match find(&request.subscription_id) {
            Some(subscription) => renegotiate(state, &subscription, &request),
            None => Reply::Accepted,
        },
        Message::SubscriptionClose(close) => {
            if let Some(subscription) = find(&close.subscription_id) {
                state.subscriptions.close(&subscription);
            }
            Reply::Accepted
        }
        _ => Reply::Refused(Problem::Malformed),
    }
}

/// Records a reply for a subscription of another caller. The response does not reveal it. Only the first replies are
/// recorded; later ones are counted.
fn record_foreign(state: &FaceState, requester: &Requester, id: &SubscriptionId, reply: &PromptReply) {
    let outcome = Outcome::SubscriptionForeign;
    let so_far = state.foreign_replies.fetch_add(1, Ordering::Relaxed);
    if so_far >= limits::FOREIGN_REPLIES_RECORDED_MAX {
        return state.attempts.count(outcome);
    }
    let attempt = ReplyAttempt {
        subscription: id.as_str().to_owned(),
        by: requester.caller.name.clone(),
        caller_id: requester.caller.id.clone(),
        message: reply.kind(),
        run: None,
        prompt: None,
        decided_by: None,
        outcome,
    };
    let attempts = state.attempts.clone();
    state.world.tasks.spawn(Kind::Connection, |_| async move { attempts.record(attempt).await });
}

/// Negotiates changed terms. A rejection ends the subscription.
fn renegotiate(
    state: &FaceState,
    subscription: &Arc<Subscription>,
    request: &SubscriptionRenegotiate,
) -> Reply {
    let offer = manifest::offer();
    let text = match negotiate::renegotiate(&offer, &subscription.terms(), &request.capabilities) {
        HandshakeOutcome::Accepted(terms) => {
            let mut message = terms.to_message(&offer, subscription.id().clone());
            message.correlation_id.clone_from(&request.correlation_id);
            subscription.change_terms(*terms);
            serde_json::to_string(&message)
        }
        HandshakeOutcome::Rejected(refusal) => {
            state.subscriptions.close(subscription);
            let mut message = refusal.to_message();
            message.correlation_id.clone_from(&request.correlation_id);
            serde_json::to_string(&message)
        }
    };
    text.map_or(Reply::Accepted, Reply::Message)
}
