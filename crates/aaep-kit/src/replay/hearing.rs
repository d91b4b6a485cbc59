//! Handles what a subscriber sends to a replay: replies, renegotiations and closes. How it came and how the answer is
//! sent is up to `surfaces`.

use std::sync::Arc;

use super::ReplayNotice;
use super::playback::Playback;
use super::prompts::{Reply, ReplyOutcome};
use super::room::Answered;
use crate::aaep::json::Reader;
use crate::aaep::{Message, MessageKind, Reading, rule};

/// What came of it.
pub(super) enum Reception {
    Done,
    /// To be given to who said it.
    Answer(Answered),
    /// It is no message that a producer takes.
    Unfit,
    /// Its subscription is unknown.
    Stranger,
}

/// Hears what is said in the room, as subscribers in use say it: ids of subscriptions and times may be missing or made
/// up. Answers come on the streams of the room.
pub(super) fn hear_in_room(playback: &Arc<Playback>, text: &str) -> Reception {
    let mut reader = Reader::new();
    let Some(reading) = reader.read(text).ok().and_then(Reading::of) else { return Reception::Unfit };
    let kind = rule::message_kind(&reading);
    match kind {
        Some(MessageKind::SubscriptionRequest) => {
            playback.room.arrange(&playback.world, &playback.script, text);
            Reception::Done
        }
        Some(MessageKind::SubscriptionRenegotiate) => match Message::parse(text) {
            Ok(Message::SubscriptionRenegotiate(wish)) => {
                playback.room.rearrange(&playback.script, wish.subscription_id.as_str(), &wish.capabilities);
                Reception::Done
            }
            _ => Reception::Unfit,
        },
        Some(MessageKind::ConfirmationReply | MessageKind::ClarificationReply) => match Reply::read(text) {
            Some(reply) => {
                let outcome = playback.prompts.judge(&playback.script, &reply);
                playback.notify(ReplayNotice::Reply { text, outcome: &outcome });
                Reception::Done
            }
            None => Reception::Unfit,
        },
        // The room stays: it is everybody's.
        Some(MessageKind::SubscriptionClose) => Reception::Done,
        // Drivers of tests ask for work so. What is said is recorded, so nothing comes of it.
        None if reading.node().get("kind").is_some() => {
            playback.notify(ReplayNotice::Input { text });
            Reception::Done
        }
        _ => Reception::Unfit,
    }
}

/// Hears what is said on the specification's surface, as the protocol words it; `own` is the subscription of the
/// connection, where there is one.
pub(super) fn hear_on_subscription(playback: &Arc<Playback>, own: Option<&str>, text: &str) -> Reception {
    let is_known = |id: &str| own.map_or_else(|| playback.room.knows(id), |own| own == id);
    match Message::parse(text) {
        Ok(Message::ConfirmationReply(_) | Message::ClarificationReply(_)) => {
            let Some(reply) = Reply::read(text) else { return Reception::Unfit };
            let outcome = if reply.subscription.as_deref().is_some_and(is_known) {
                playback.prompts.judge(&playback.script, &reply)
            } else {
                ReplyOutcome::Stranger
            };
            playback.notify(ReplayNotice::Reply { text, outcome: &outcome });
            Reception::Done
        }
        Ok(Message::SubscriptionRenegotiate(wish)) if is_known(wish.subscription_id.as_str()) => {
            let answered = playback.room.renegotiate(
                &playback.script,
                wish.subscription_id.as_str(),
                &wish.capabilities,
            );
            answered.map_or(Reception::Stranger, Reception::Answer)
        }
        Ok(Message::SubscriptionClose(close)) if is_known(close.subscription_id.as_str()) => {
            if playback.room.close(close.subscription_id.as_str()) {
                Reception::Done
            } else {
                Reception::Stranger
            }
        }
        Ok(Message::SubscriptionRenegotiate(_) | Message::SubscriptionClose(_)) => Reception::Stranger,
        _ => Reception::Unfit,
    }
}
