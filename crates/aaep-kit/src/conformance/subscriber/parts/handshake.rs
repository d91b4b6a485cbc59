//! Checks of the handshake: what the subscriber requests, and whether it accepts lower terms than requested.

use recount_aaep::table::MessageKind;
use serde_json::Value;

use crate::conformance::Outcome;
use crate::conformance::subscriber::producer::{HandshakeMode, Input};
use crate::conformance::subscriber::received::ReceivedMessage;
use crate::conformance::subscriber::trial::Trial;
use crate::conformance::subscriber::{Expectation, TrialError};

const FIRST: Expectation = Expectation("R-110", "it begins with a subscription request");
const FORM: Expectation = Expectation("R-110", "its request matches the schema");
const REPLIES: Expectation = Expectation("R-127", "it declares that it can answer prompts");
const LEVEL: Expectation = Expectation("R-125", "it declares this level");
const TERMS: Expectation = Expectation("R-129", "it accepts lower terms than it asked for");

pub(super) const NO_HANDSHAKE: &str = "it makes no handshake";

pub(crate) async fn run(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    // Offer lower terms than requested, to check whether the subscriber accepts them.
    trial.producer.set_handshake_mode(HandshakeMode::Slower);
    let base = trial.producer.base();
    if trial.subject.command.is_none() {
        trial.note(&format!("Connect the subscriber to {base} now. The trial starts when it connects."));
    }
    trial.start_check();
    trial.start().await?;
    let Some(open) = trial.arrive(trial.subject.times.connect).await else {
        let ending = trial.ending();
        let seconds = trial.subject.times.connect.as_secs();
        return Err(TrialError::NoConnection { url: base, seconds, more: ending });
    };
    trial.note(&format!("The subscriber connected to {}.", open.surface.label()));
    let messages = ReceivedMessage::all(&trial.producer.since(0));
    let request =
        messages.iter().find(|message| message.kind == Some(MessageKind::SubscriptionRequest)).cloned();
    let first = messages.first().cloned();
    match (&request, &first) {
        (Some(request), Some(first)) if first.text == request.text => {
            trial.check_that(FIRST, true, format!("it did, at {}", open.surface.label()));
        }
        (_, Some(first)) => {
            let detail = format!("what came first was `{}`", short(&first.text));
            trial.check_that(FIRST, false, detail);
        }
        (_, None) => trial.check_that(FIRST, false, "it opened a stream without a request"),
    }
    match &request {
        Some(request) => claims(trial, request),
        None => {
            for expectation in [FORM, REPLIES, LEVEL] {
                let why = Outcome::Inapplicable(NO_HANDSHAKE.into());
                trial.check(expectation, why, "without one replies are taken for granted");
            }
        }
    }
    terms(trial, request.as_ref()).await;
    Ok(())
}

fn short(text: &str) -> String {
    crate::conformance::report::beginning(text, crate::limits::TRIAL_QUOTE_BYTES)
}

/// Checks the contents of its request.
fn claims(trial: &mut Trial<'_>, request: &ReceivedMessage) {
    let text = |name: &str| request.value.get(name).and_then(Value::as_str);
    let name = text("subscriber_name").or(text("subscriber_id")).unwrap_or("subscriber").to_owned();
    let version = text("subscriber_version").map(str::to_owned);
    trial.named(&name, version.as_deref());
    let (errors, _) = request.form_problems();
    let detail = errors.first().cloned().unwrap_or_else(|| "nothing is wrong with it".to_owned());
    trial.check_that(FORM, errors.is_empty(), detail);
    let capabilities = request.value.get("capabilities");
    let can = |what: &str| capabilities.and_then(|all| all.get(what)).and_then(Value::as_bool) == Some(true);
    let detail = if can("supports_confirmation_reply") {
        "`supports_confirmation_reply` is true"
    } else {
        "`supports_confirmation_reply` is not true, so that no producer will ask it"
    };
    trial.check_that(REPLIES, can("supports_confirmation_reply"), detail);
    let levels = capabilities.and_then(|all| all.get("supported_conformance_levels"));
    let claims = levels.and_then(Value::as_array).map_or(trial.level == 1, |levels| {
        levels.iter().any(|level| level.as_u64() == Some(trial.level.into()))
    });
    let outcome = if claims { Outcome::Passed } else { Outcome::Warned };
    let detail = match levels {
        Some(levels) => format!("`supported_conformance_levels` is {levels}"),
        None => "`supported_conformance_levels` is missing, which means level 1".to_owned(),
    };
    trial.check(LEVEL, outcome, detail);
}

/// The terms are lower than requested: it must not repeatedly request better ones.
async fn terms(trial: &mut Trial<'_>, request: Option<&ReceivedMessage>) {
    if request.is_none() {
        return trial.inapplicable(TERMS, NO_HANDSHAKE);
    }
    let mark = trial.producer.mark();
    let disconnected = trial
        .producer
        .wait(mark, trial.subject.times.quiet * 2, |seen| {
            seen.iter().any(|seen| matches!(seen.what, Input::Closed)).then_some(())
        })
        .await;
    let requests = ReceivedMessage::all(&trial.producer.since(0))
        .iter()
        .filter(|message| message.kind == Some(MessageKind::SubscriptionRequest))
        .count();
    let detail = match (requests, disconnected) {
        (0 | 1, None) => "it stayed without further requests".to_owned(),
        (0 | 1, Some(())) => "its connection ended after the answer".to_owned(),
        (times, _) => format!("it sent {times} requests instead of accepting its terms"),
    };
    trial.check_that(TERMS, requests < 2 && disconnected.is_none(), detail);
    trial.producer.set_handshake_mode(HandshakeMode::AsRequested);
}
