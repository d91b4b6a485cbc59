//! Checks of the handshake: what the subscriber requests, and whether it accepts terms lower than requested.

use recount_aaep::table::MessageKind;
use serde_json::Value;

use crate::conformance::Outcome;
use crate::conformance::subscriber::producer::{Input, Terms};
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
    // Lower than what is asked for, so that it shows whether that is taken.
    trial.producer.terms(Terms::Slower);
    let base = trial.producer.base();
    if trial.subject.command.is_none() {
        trial.note(&format!("Connect the subscriber to {base} now. The trial starts when it connects."));
    }
    trial.fresh();
    trial.start().await?;
    let Some(open) = trial.arrive(trial.subject.times.comes).await else {
        let ending = trial.ending();
        let seconds = trial.subject.times.comes.as_secs();
        return Err(TrialError::NoConnection { url: base, seconds, more: ending });
    };
    trial.note(&format!("The subscriber connected to {}.", open.face.label()));
    let messages = ReceivedMessage::all(&trial.producer.since(0));
    let request =
        messages.iter().find(|message| message.kind == Some(MessageKind::SubscriptionRequest)).cloned();
    let first = messages.first().cloned();
    match (&request, &first) {
        (Some(request), Some(first)) if first.text == request.text => {
            trial.hold(FIRST, true, format!("it did, at {}", open.face.label()));
        }
        (_, Some(first)) => {
            let detail = format!("what came first was `{}`", short(&first.text));
            trial.hold(FIRST, false, detail);
        }
        (_, None) => trial.hold(FIRST, false, "it opened a stream and asked for nothing"),
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

/// What its request says.
fn claims(trial: &mut Trial<'_>, request: &ReceivedMessage) {
    let text = |name: &str| request.value.get(name).and_then(Value::as_str);
    let name = text("subscriber_name").or(text("subscriber_id")).unwrap_or("subscriber").to_owned();
    let version = text("subscriber_version").map(str::to_owned);
    trial.named(&name, version.as_deref());
    let (errors, _) = request.amiss();
    let detail = errors.first().cloned().unwrap_or_else(|| "nothing is wrong with it".to_owned());
    trial.hold(FORM, errors.is_empty(), detail);
    let capabilities = request.value.get("capabilities");
    let can = |what: &str| capabilities.and_then(|all| all.get(what)).and_then(Value::as_bool) == Some(true);
    let detail = if can("supports_confirmation_reply") {
        "`supports_confirmation_reply` is true"
    } else {
        "`supports_confirmation_reply` is not true, so that no producer will ask it"
    };
    trial.hold(REPLIES, can("supports_confirmation_reply"), detail);
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

/// The terms are lower than asked for: it must not try again and again for better ones.
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
        (0 | 1, None) => "it stayed, and asked for nothing more".to_owned(),
        (0 | 1, Some(())) => "its connection ended after the answer".to_owned(),
        (times, _) => format!("it asked {times} times, instead of keeping to what it was given"),
    };
    trial.hold(TERMS, requests < 2 && disconnected.is_none(), detail);
    trial.producer.terms(Terms::AsRequested);
}
