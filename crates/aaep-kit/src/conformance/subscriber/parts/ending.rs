//! Checks of endings: a rejection with words of a later version, a producer that closes, and the subscriber's own
//! exit. Each uses a fresh subscriber if one can be started.

use recount_aaep::table::MessageKind;
use serde_json::json;

use super::handshake::NO_HANDSHAKE;
use super::reconnect::{Tries, tries_from};
use super::unusual_input::NOT_CONNECTED;
use crate::conformance::Outcome;
use crate::conformance::subscriber::piece::Piece;
use crate::conformance::subscriber::producer::{HandshakeMode, Input};
use crate::conformance::subscriber::received::ReceivedMessage;
use crate::conformance::subscriber::trial::Trial;
use crate::conformance::subscriber::{Expectation, TrialError};
use crate::limits;

const REFUSED: Expectation = Expectation("R-204", "it survives a refusal with an unknown reason");
const WAITS: Expectation = Expectation("R-129", "it pauses before it retries a refused request");
const CLOSED: Expectation = Expectation("R-121", "it survives a close of the producer");
const SENDS_CLOSE: Expectation = Expectation("R-130", "it sends a close when it is told to end");
const NEGOTIATES: Expectation = Expectation("R-120", "its renegotiations match the schema");
const SIGNED: Expectation =
    Expectation("R-167", "it rejects a producer without a signed manifest when it demands one");

pub(crate) async fn run(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    negotiated(trial).await?;
    let handshake = ReceivedMessage::all(&trial.producer.since(0))
        .into_iter()
        .any(|message| message.kind == Some(MessageKind::SubscriptionRequest));
    if trial.subject.command.is_some() {
        refused(trial, handshake).await?;
        trial.renew().await?;
        own_end(trial, handshake).await?;
        if trial.renew().await? {
            closed(trial).await?;
        }
    } else {
        for expectation in [REFUSED, WAITS] {
            let why = "this needs a new subscriber; pass a command that starts it";
            trial.not_shown(expectation, why);
        }
        if trial.present().await? {
            own_end(trial, handshake).await?;
        }
        if trial.producer.lines().is_empty() {
            trial.not_shown(CLOSED, "the subscriber had ended; pass a command that starts it");
        } else {
            closed(trial).await?;
        }
    }
    Ok(())
}

/// Checks the renegotiations that the subscriber requested during the trial.
async fn negotiated(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    let messages = ReceivedMessage::all(&trial.producer.since(0));
    let wishes: Vec<&ReceivedMessage> = messages
        .iter()
        .filter(|message| message.kind == Some(MessageKind::SubscriptionRenegotiate))
        .collect();
    if wishes.is_empty() {
        trial.inapplicable(NEGOTIATES, "it never requested other terms");
    } else {
        let wrong = wishes.iter().find_map(|wish| wish.form_problems().0.first().cloned());
        trial.check_that(NEGOTIATES, wrong.is_none(), wrong.unwrap_or_else(|| "all of them do".to_owned()));
    }
    let demands = messages.iter().find_map(|message| {
        let demand = message.value.get("capabilities")?.get("accept_signed_manifests_only")?.as_bool()?;
        (message.kind == Some(MessageKind::SubscriptionRequest)).then_some(demand)
    });
    if demands == Some(true) {
        // It was accepted without one, and opened a stream anyway.
        let came = trial.issued.len();
        let detail = format!("it demanded one, got none, and accepted {came} prompts");
        trial.check_that(SIGNED, false, detail);
    } else {
        trial.inapplicable(SIGNED, "it demands none");
    }
    Ok(())
}

async fn refused(trial: &mut Trial<'_>, handshake: bool) -> Result<(), TrialError> {
    if !handshake {
        trial.inapplicable(REFUSED, NO_HANDSHAKE);
        trial.inapplicable(WAITS, NO_HANDSHAKE);
        return Ok(());
    }
    trial.start_check();
    let mark = trial.producer.mark();
    let retry_after_seconds = limits::TRIAL_RETRY_SECONDS;
    trial
        .producer
        .set_handshake_mode(HandshakeMode::Rejected { code: "moon_in_the_way", retry_after_seconds });
    trial.start().await?;
    let repeated = trial
        .producer
        .wait(mark, trial.subject.times.connect, |seen| {
            ReceivedMessage::all(seen)
                .iter()
                .any(|message| message.kind == Some(MessageKind::SubscriptionRequest))
                .then_some(())
        })
        .await;
    let from = trial.producer.mark();
    let tries = tries_from(trial, from).await;
    trial.producer.set_handshake_mode(HandshakeMode::AsRequested);
    let detail = match tries.are_many {
        true => tries.detail,
        false => format!("{}, although a pause of {retry_after_seconds} s was requested", tries.detail),
    };
    trial.check_that(WAITS, !tries.are_many && repeated.is_some(), detail);
    let back = trial.arrive(trial.subject.times.reconnect).await;
    let ending = trial.ending();
    let (outcome, detail) = match back {
        Some(_) => (Outcome::Passed, "it came again and was accepted".to_owned()),
        None if ended_badly(trial) => (Outcome::Failed, format!("it broke{ending}")),
        None => (Outcome::Warned, format!("it did not come again{ending}")),
    };
    trial.check(REFUSED, outcome, detail);
    Ok(())
}

/// Whether its process was ended by a signal or by a panic.
fn ended_badly(trial: &mut Trial<'_>) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let status = trial.process().and_then(|process| process.ended());
    status.is_some_and(|status| status.signal().is_some() || status.code() == Some(limits::PANIC_STATUS))
}

/// The producer closes the subscription cleanly.
async fn closed(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    trial.start_check();
    let Some(open) = trial.producer.lines().pop() else { return Ok(()) };
    let mark = trial.producer.mark();
    let close = json!({
        "type": "subscription.close",
        "subscription_id": open.subscription.unwrap_or_else(|| "sub_0".to_owned()),
        "reason_code": "producer_shutdown",
        "reason_message": "The trial is nearly over.",
    });
    trial.send_piece(&Piece::new(None, close.to_string())).await;
    trial.producer.end_streams().await;
    let Tries { are_many, detail } = tries_from(trial, mark).await;
    let (outcome, detail) = if are_many {
        (Outcome::Failed, detail)
    } else if ended_badly(trial) {
        (Outcome::Failed, format!("it broke{}", trial.ending()))
    } else {
        (Outcome::Passed, format!("{detail}{}", trial.ending()))
    };
    trial.check(CLOSED, outcome, detail);
    Ok(())
}

/// The subscriber exits on request.
async fn own_end(trial: &mut Trial<'_>, handshake: bool) -> Result<(), TrialError> {
    if trial.level < 3 {
        return Ok(());
    }
    if !handshake {
        trial.inapplicable(SENDS_CLOSE, "without a handshake no subscription can be closed");
        return Ok(());
    }
    let Some(open) = trial.producer.lines().pop() else {
        trial.not_shown(SENDS_CLOSE, NOT_CONNECTED);
        return Ok(());
    };
    trial.start_check();
    // After a successful probe it is running and handles signals.
    trial.probe().await;
    let mark = trial.producer.mark();
    let patience = match trial.process() {
        Some(process) => {
            process.end();
            trial.subject.times.reconnect
        }
        None => {
            trial.note("End the subscriber now, in the way its users do (Ctrl-C).");
            trial.subject.times.connect
        }
    };
    let close = trial
        .producer
        .wait(mark, patience, |seen| {
            let messages = ReceivedMessage::all(seen);
            let close =
                messages.into_iter().find(|message| message.kind == Some(MessageKind::SubscriptionClose));
            let disconnected = seen.iter().any(|seen| matches!(seen.what, Input::Closed));
            (close.is_some() || disconnected).then_some(close)
        })
        .await;
    // A close may arrive on another connection than the stream's.
    let close = match close {
        Some(None) => {
            let find = |seen: &[_]| {
                ReceivedMessage::all(seen)
                    .into_iter()
                    .find(|message| message.kind == Some(MessageKind::SubscriptionClose))
            };
            Some(trial.producer.wait(mark, trial.subject.times.quiet, find).await)
        }
        other => other,
    };
    let ours = open.subscription.unwrap_or_default();
    let (outcome, detail) = match close {
        None => (Outcome::NotShown("it did not end".into()), String::new()),
        Some(None) => (Outcome::Failed, "it ended without a close".to_owned()),
        Some(Some(close)) if close.subscription() != ours => {
            (Outcome::Failed, format!("it closed `{}`, which is not its subscription", close.subscription()))
        }
        Some(Some(close)) => match close.form_problems().0.first() {
            Some(what) => (Outcome::Failed, format!("its close is wrong: {what}")),
            None => (Outcome::Passed, "it closed its subscription".to_owned()),
        },
    };
    trial.check(SENDS_CLOSE, outcome, detail);
    if let Some(process) = trial.process() {
        process.wait(limits::TRIAL_SECOND).await;
    }
    trial.producer.cut();
    Ok(())
}
