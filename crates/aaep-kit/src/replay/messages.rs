//! Handles messages from subscribers of a replay: replies, renegotiations and closes. `surfaces` handles the
//! transport.

use std::sync::Arc;

use super::ReplayNotice;
use super::playback::Playback;
use super::prompts::{Reply, ReplyOutcome};
use super::subscriptions::SubscriptionResponse;
use crate::aaep::json::Reader;
use crate::aaep::{Message, MessageKind, Reading, rule};

/// The outcome of a message.
pub(super) enum MessageOutcome {
    Done,
    /// A response for the sender.
    Respond(SubscriptionResponse),
    /// Not a valid message.
    Invalid,
    /// The subscription is unknown.
    UnknownSubscription,
}

/// Handles a message on the shared subscription. Existing subscribers may omit or invent subscription ids and
/// timestamps. Responses are sent on the shared streams.
pub(super) fn handle_shared_message(playback: &Arc<Playback>, text: &str) -> MessageOutcome {
    let mut reader = Reader::new();
    let Some(reading) = reader.read(text).ok().and_then(Reading::of) else { return MessageOutcome::Invalid };
    let kind = rule::message_kind(&reading);
    match kind {
        Some(MessageKind::SubscriptionRequest) => {
            playback.subscriptions.request_shared(&playback.world, &playback.script, text);
            MessageOutcome::Done
        }
        Some(MessageKind::SubscriptionRenegotiate) => match Message::parse(text) {
            Ok(Message::SubscriptionRenegotiate(requested)) => {
                playback.subscriptions.renegotiate_shared(
                    &playback.script,
                    requested.subscription_id.as_str(),
                    &requested.capabilities,
                );
                MessageOutcome::Done
            }
            _ => MessageOutcome::Invalid,
        },
        Some(MessageKind::ConfirmationReply | MessageKind::ClarificationReply) => match Reply::read(text) {
            Some(reply) => {
                let outcome = playback.prompts.judge(&playback.script, &reply);
                playback.notify(ReplayNotice::Reply { text, outcome: &outcome });
                MessageOutcome::Done
            }
            None => MessageOutcome::Invalid,
        },
        // The shared subscription stays open for the others.
        Some(MessageKind::SubscriptionClose) => MessageOutcome::Done,
        // Test drivers request work this way. A recording cannot do any.
        None if reading.node().get("kind").is_some() => {
            playback.notify(ReplayNotice::Input { text });
            MessageOutcome::Done
        }
        _ => MessageOutcome::Invalid,
    }
}

/// Handles a message on the specification's surface, where its full form is required. `own` is the subscription of the
/// connection, if there is one.
pub(super) fn handle_subscription_message(
    playback: &Arc<Playback>,
    own: Option<&str>,
    text: &str,
) -> MessageOutcome {
    let is_known =
        |id: &str| own.map_or_else(|| playback.subscriptions.has_subscription(id), |own| own == id);
    match Message::parse(text) {
        Ok(Message::ConfirmationReply(_) | Message::ClarificationReply(_)) => {
            let Some(reply) = Reply::read(text) else { return MessageOutcome::Invalid };
            let outcome = if reply.subscription.as_deref().is_some_and(is_known) {
                playback.prompts.judge(&playback.script, &reply)
            } else {
                ReplyOutcome::UnknownSubscription
            };
            playback.notify(ReplayNotice::Reply { text, outcome: &outcome });
            MessageOutcome::Done
        }
        Ok(Message::SubscriptionRenegotiate(requested)) if is_known(requested.subscription_id.as_str()) => {
            let answered = playback.subscriptions.renegotiate(
                &playback.script,
                requested.subscription_id.as_str(),
                &requested.capabilities,
            );
            answered.map_or(MessageOutcome::UnknownSubscription, MessageOutcome::Respond)
        }
        Ok(Message::SubscriptionClose(close)) if is_known(close.subscription_id.as_str()) => {
            if playback.subscriptions.close(close.subscription_id.as_str()) {
                MessageOutcome::Done
            } else {
                MessageOutcome::UnknownSubscription
            }
        }
        Ok(Message::SubscriptionRenegotiate(_) | Message::SubscriptionClose(_)) => {
            MessageOutcome::UnknownSubscription
        }
        _ => MessageOutcome::Invalid,
    }
}
