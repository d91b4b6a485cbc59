//! Checks all replies together: each has the right form, a token that was sent, an allowed decision, and is in time.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

use super::builder::PromptKind;
use super::received::ReceivedMessage;
use super::trial::{Issued, Trial};
use super::{Expectation, ReplyPolicy, coverage, producer::Input};
use crate::conformance::Outcome;
use crate::conformance::requirements::Requirement;
use crate::limits;

const FORM: Expectation = Expectation("R-078", "its replies match their schemas");
const TOKENS: Expectation =
    Expectation("R-076", "its replies return the tokens that it was sent, byte for byte");
const ALLOWED: Expectation = Expectation("R-078", "it decides only what the prompt allows");
const CONFIGURED: Expectation = Expectation("R-091", "it answers as configured");
const UNASKED: Expectation = Expectation("R-091", "it answers nothing by itself");
const KIND: Expectation = Expectation("R-086", "it answers questions with an accepted kind of answer");
const LATE: Expectation = Expectation("R-090", "it does not answer after the timeout");
const ENTITLED: Expectation = Expectation("R-163", "it sends its token with every request");

pub(super) fn run(trial: &mut Trial<'_>) {
    trial.start_check();
    for (id, covered) in coverage::ALL {
        if let (coverage::Coverage::Outside(why), Some(row)) = (covered, Requirement::named(id)) {
            trial.check(Expectation(row.id, row.text), Outcome::Outside((*why).to_owned()), "");
        }
    }
    let seen = trial.producer.since(0);
    let replies: Vec<ReceivedMessage> =
        ReceivedMessage::all(&seen).into_iter().filter(ReceivedMessage::is_reply).collect();
    let issued: HashMap<String, Issued> =
        trial.issued.iter().map(|issued| (issued.prompt.token.clone(), issued.clone())).collect();
    if trial.subject.token.is_some() {
        let bare = seen.iter().find_map(|seen| match &seen.what {
            Input::Request { path, entitled: false } => Some(path.clone()),
            _ => None,
        });
        let detail =
            bare.as_ref().map_or("it did".to_owned(), |path| format!("a request for `{path}` came without"));
        trial.check_that(ENTITLED, bare.is_none(), detail);
    } else {
        trial.inapplicable(ENTITLED, "no token was required; pass --want-token to require one");
    }
    if trial.subject.answers == ReplyPolicy::Never {
        let detail = match replies.first() {
            Some(reply) => format!("it is not configured to answer, but sent `{}`", short(&reply.text)),
            None => format!("{} prompts were left alone", issued.len()),
        };
        trial.check_that(UNASKED, replies.is_empty(), detail);
    }
    tokens(trial, &replies, &issued);
    if replies.is_empty() {
        let configured = trial.decision().map(|_| CONFIGURED);
        for expectation in [FORM, ALLOWED, KIND, LATE].into_iter().chain(configured) {
            trial.not_shown(expectation, "it sent no reply");
        }
        return;
    }
    form(trial, &replies);
    decisions(trial, &replies, &issued);
    kinds(trial, &replies, &issued);
    late(trial, &replies, &issued);
}

fn short(text: &str) -> String {
    crate::conformance::report::beginning(text, limits::TRIAL_QUOTE_BYTES)
}

fn tokens(trial: &mut Trial<'_>, replies: &[ReceivedMessage], issued: &HashMap<String, Issued>) {
    if replies.is_empty() {
        return trial.not_shown(TOKENS, "it sent no reply");
    }
    let strange = replies.iter().find(|reply| !issued.contains_key(reply.token()));
    let detail = match strange {
        None => format!("{} replies checked", replies.len()),
        Some(reply) => {
            let token = reply.token();
            let like = issued.keys().find(|known| {
                known.eq_ignore_ascii_case(token)
                    || (!token.is_empty() && (known.starts_with(token) || token.contains(known.as_str())))
            });
            match like {
                Some(known) => format!("`{known}` came back as `{}`", short(token)),
                None => format!("`{}` was never sent to it", short(token)),
            }
        }
    };
    trial.check_that(TOKENS, strange.is_none(), detail);
}

fn form(trial: &mut Trial<'_>, replies: &[ReceivedMessage]) {
    let (mut errors, mut warnings) = (None, None);
    for reply in replies {
        let (wrong, odd) = reply.form_problems();
        errors = errors.or_else(|| wrong.first().map(|what| (what.clone(), reply.clone())));
        warnings = warnings.or_else(|| odd.first().map(|what| (what.clone(), reply.clone())));
    }
    let (outcome, detail) = match (errors, warnings) {
        (Some((what, reply)), _) => (Outcome::Failed, format!("{what} in `{}`", short(&reply.text))),
        (None, Some((what, reply))) => (Outcome::Warned, format!("{what} in `{}`", short(&reply.text))),
        (None, None) => (Outcome::Passed, format!("{} replies checked", replies.len())),
    };
    trial.check(FORM, outcome, detail);
}

fn decisions(trial: &mut Trial<'_>, replies: &[ReceivedMessage], issued: &HashMap<String, Issued>) {
    let confirmations: Vec<(&ReceivedMessage, &Issued)> = replies
        .iter()
        .filter_map(|reply| Some((reply, issued.get(reply.token())?)))
        .filter(|(_, issued)| issued.prompt.kind == PromptKind::Confirmation)
        .collect();
    let allowed = |issued: &Issued, decision: &str| match issued.prompt.event.value.get("allowed_replies") {
        Some(Value::Array(allowed)) => allowed.iter().any(|word| word == decision),
        _ => matches!(decision, "accept" | "reject"),
    };
    let wrong = confirmations.iter().find(|(reply, issued)| !allowed(issued, reply.decision()));
    let detail = match wrong {
        Some((reply, _)) => format!("it sent `{}` where that was not allowed", short(reply.decision())),
        None => format!("{} decisions checked", confirmations.len()),
    };
    trial.check_that(ALLOWED, wrong.is_none(), detail);
    let Some(right) = trial.decision() else { return };
    let narrow = |issued: &Issued| issued.prompt.event.value.get("allowed_replies").is_some();
    let otherwise = confirmations.iter().find(|(reply, issued)| !narrow(issued) && reply.decision() != right);
    let detail = match otherwise {
        Some((reply, _)) => format!("it is configured to {right}, and sent `{}`", short(reply.decision())),
        None => format!("{}, and every decision was `{right}`", trial.subject.answers.description()),
    };
    trial.check_that(CONFIGURED, otherwise.is_none(), detail);
}

fn kinds(trial: &mut Trial<'_>, replies: &[ReceivedMessage], issued: &HashMap<String, Issued>) {
    let answers: Vec<(&ReceivedMessage, &Issued)> = replies
        .iter()
        .filter_map(|reply| Some((reply, issued.get(reply.token())?)))
        .filter(|(_, issued)| issued.prompt.kind != PromptKind::Confirmation)
        .collect();
    if answers.is_empty() {
        return trial.not_shown(KIND, "it answered no question");
    }
    let fits = |reply: &ReceivedMessage, issued: &Issued| {
        let response = reply.value.get("response");
        reply.value.get("decision").is_none()
            && match issued.prompt.kind {
                PromptKind::YesNo => response.is_some_and(Value::is_boolean),
                PromptKind::Numeric => response.is_some_and(Value::is_number),
                PromptKind::FreeText | PromptKind::Confirmation => {
                    response.and_then(Value::as_str).is_some_and(|text| !text.is_empty())
                }
                PromptKind::Choice => {
                    let choices = issued.prompt.event.value.get("choices").and_then(Value::as_array);
                    choices
                        .is_some_and(|choices| choices.iter().any(|choice| choice.get("value") == response))
                }
            }
    };
    let wrong = answers.iter().find(|(reply, issued)| !fits(reply, issued));
    let detail = match wrong {
        Some((reply, issued)) => {
            format!("for a question of the kind {:?} it sent `{}`", issued.prompt.kind, short(&reply.text))
        }
        None => format!("{} answers checked", answers.len()),
    };
    trial.check_that(KIND, wrong.is_none(), detail);
}

fn late(trial: &mut Trial<'_>, replies: &[ReceivedMessage], issued: &HashMap<String, Issued>) {
    let late = replies.iter().find_map(|reply| {
        let issued = issued.get(reply.token())?;
        let seconds = issued.prompt.event.value.get("timeout_seconds").and_then(Value::as_u64)?;
        let after = reply.at.saturating_duration_since(issued.sent);
        (after > Duration::from_secs(seconds) + limits::TRIAL_LATE).then_some((after, seconds))
    });
    let detail = match late {
        Some((after, seconds)) => {
            format!("a prompt of {seconds} s was answered after {:.1} s", after.as_secs_f64())
        }
        None => "every reply came in time".to_owned(),
    };
    trial.check_that(LATE, late.is_none(), detail);
}
