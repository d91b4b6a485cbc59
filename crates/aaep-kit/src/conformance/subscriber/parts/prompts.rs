//! Checks of prompts: long tokens, decisions that are not allowed, each kind of question, two at a time, duplicates,
//! withdrawn and late ones.

use crate::conformance::Outcome;
use crate::conformance::subscriber::builder::{Event, Prompt};
use crate::conformance::subscriber::received::ReceivedMessage;
use crate::conformance::subscriber::trial::{SubscriberReaction, Trial};
use crate::conformance::subscriber::{Expectation, TrialError};
use crate::limits;
use recount_aaep::wire::Decision;

use super::unusual_input::QUESTIONS;

const LONG: Expectation = Expectation("R-076", "it returns a token of 64 characters unchanged");
const NARROW: Expectation =
    Expectation("R-078", "it does not send a decision that the prompt does not allow");
const BOTH: Expectation = Expectation("R-092", "it loses neither of two simultaneous prompts");
const TWICE: Expectation = Expectation("R-008", "it answers a repeated prompt once");
const WITHDRAWN: Expectation = Expectation("R-090", "it does not answer a withdrawn prompt");
const EXPIRED: Expectation = Expectation("R-090", "it does not answer a prompt that arrives expired");
const COUNTDOWN: Expectation = Expectation("R-084", "it needs no countdown");

pub(crate) async fn run(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if trial.level < 2 || !trial.present().await? {
        return Ok(());
    }
    if !trial.answers() {
        return unanswered(trial).await;
    }
    long_token(trial).await?;
    if trial.decision().is_some() {
        narrow(trial).await?;
    }
    for kind in QUESTIONS {
        if !trial.present().await? {
            return Ok(());
        }
        wait_in_a_fresh_session(trial).await;
        let prompt = trial.builder.clarification(kind, limits::TRIAL_PROMPT_SECONDS);
        // A subscriber that accepts automatically need not answer questions; its replies are checked with all others.
        let reaction = trial.send_prompt_quietly(prompt).await;
        trial.follow(&reaction).await;
    }
    both(trial).await?;
    twice(trial).await?;
    withdrawn(trial).await?;
    expired(trial).await?;
    let why = "no prompt here counts down, and those above were answered";
    trial.check_that(COUNTDOWN, !trial.took.is_empty(), why);
    Ok(())
}

/// No replies are configured: leaves prompts of both kinds open until they time out.
async fn unanswered(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    let why = if trial.unresponsive { "it answers nothing" } else { "its prompts are not answered" };
    for expectation in [LONG, BOTH, TWICE, WITHDRAWN, COUNTDOWN] {
        trial.not_shown(expectation, why);
    }
    wait_in_a_fresh_session(trial).await;
    let prompt = trial.builder.clarification(QUESTIONS[0], limits::TRIAL_PROMPT_SECONDS);
    let reaction = trial.send_prompt_quietly(prompt).await;
    trial.follow(&reaction).await;
    Ok(())
}

async fn long_token(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    wait_in_a_fresh_session(trial).await;
    // Letters of both cases and digits, so that case folding, truncation and number parsing are detected.
    let drawn = trial.builder.token();
    let token = format!("rpl_00AbCdEfGhIjKlMnOpQrStUvWxYz9e99{}", &drawn[4..]);
    let token = token[..68].to_owned();
    let prompt = trial.builder.confirmation(token.clone(), limits::TRIAL_PROMPT_SECONDS);
    let piece = prompt.event.piece();
    let reaction = trial.send_prompt(prompt, &piece).await;
    trial.follow(&reaction).await;
    let detail = match &reaction {
        SubscriberReaction::Answered { .. } => "the token came back unchanged".to_owned(),
        SubscriberReaction::Silent => {
            let others = ReceivedMessage::all(&trial.producer.since(trial.producer.mark().saturating_sub(4)));
            match others.iter().rev().find(|message| message.is_reply() && message.token() != token) {
                Some(other) => format!("`{token}` was sent; what came back last is `{}`", other.token()),
                None => "it did not answer".to_owned(),
            }
        }
        reaction => trial.describe(reaction),
    };
    trial.check_that(LONG, matches!(reaction, SubscriberReaction::Answered { .. }), detail);
    Ok(())
}

/// Allows only the opposite decision: an automatic subscriber must stay silent or send that one.
async fn narrow(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !trial.present().await? {
        return Ok(());
    }
    trial.start_check();
    let (only, word) = match trial.decision() {
        Some("accept") => (Decision::Reject, "reject"),
        _ => (Decision::Accept, "accept"),
    };
    let waiting = trial.builder.go("awaiting_input");
    trial.send_event(&waiting).await;
    let prompt = trial.builder.confirmation_for(only, limits::TRIAL_PROMPT_SECONDS);
    let reaction = trial.send_prompt_quietly(prompt).await;
    trial.follow(&reaction).await;
    let (holds, detail) = match &reaction {
        SubscriberReaction::Answered { reply, .. } => {
            let decision = reply.decision();
            (decision == word, format!("only `{word}` was allowed, and it sent `{decision}`"))
        }
        SubscriberReaction::Disconnected => (false, trial.describe(&reaction)),
        SubscriberReaction::StayedConnected | SubscriberReaction::Silent => {
            (true, "it sent nothing".to_owned())
        }
    };
    trial.check_that(NARROW, holds, detail);
    Ok(())
}

async fn both(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !trial.present().await? {
        return Ok(());
    }
    wait_in_a_fresh_session(trial).await;
    let mark = trial.producer.mark();
    let (one, two) = (
        trial.new_confirmation(limits::TRIAL_PROMPT_SECONDS),
        trial.new_confirmation(limits::TRIAL_PROMPT_SECONDS),
    );
    let sent = [trial.issue(&one).await, trial.issue(&two).await];
    let mut missing = Vec::new();
    for (which, prompt, sent) in [("first", &one, sent[0]), ("second", &two, sent[1])] {
        let reaction = trial.watch(mark, &prompt.token, sent, trial.subject.times.reply).await;
        if !matches!(reaction, SubscriberReaction::Answered { .. }) {
            missing.push(which);
        }
    }
    trial.follow(&SubscriberReaction::Silent).await;
    let detail = match &missing[..] {
        [] => "both were answered".to_owned(),
        missing => format!("no answer came to the {}", missing.join(" and the ")),
    };
    trial.check_that(BOTH, missing.is_empty(), detail);
    Ok(())
}

/// Starts a session that waits for a reply.
async fn wait_in_a_fresh_session(trial: &mut Trial<'_>) {
    trial.start_check();
    let waiting = trial.builder.go("awaiting_input");
    trial.send_event(&waiting).await;
}

/// Sends a prompt in its own session; returns the mark before it, the prompt, and the send time.
async fn prompt_in_a_fresh_session(trial: &mut Trial<'_>) -> (usize, Prompt, tokio::time::Instant) {
    wait_in_a_fresh_session(trial).await;
    let mark = trial.producer.mark();
    let prompt = trial.new_confirmation(limits::TRIAL_PROMPT_SECONDS);
    let sent = trial.issue(&prompt).await;
    (mark, prompt, sent)
}

/// The number of replies with this token after the mark.
fn replies(trial: &Trial<'_>, mark: usize, token: &str) -> usize {
    let messages = ReceivedMessage::all(&trial.producer.since(mark));
    messages.iter().filter(|message| message.is_reply() && message.token() == token).count()
}

async fn twice(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !trial.present().await? {
        return Ok(());
    }
    let (mark, prompt, sent) = prompt_in_a_fresh_session(trial).await;
    trial.send_event(&prompt.event).await;
    let reaction = trial.watch(mark, &prompt.token, sent, trial.subject.times.reply).await;
    // The second may arrive while the first is being answered, or later.
    trial.send_event(&prompt.event).await;
    let quiet = trial.quiet();
    let token = prompt.token.clone();
    trial
        .producer
        .wait(mark, quiet, |seen| {
            let messages = ReceivedMessage::all(seen);
            (messages.iter().filter(|message| message.is_reply() && message.token() == token).count() > 1)
                .then_some(())
        })
        .await;
    trial.follow(&reaction).await;
    let count = replies(trial, mark, &prompt.token);
    let detail = format!("{count} replies came to an event that was sent three times with one `event_id`");
    match reaction {
        SubscriberReaction::Answered { .. } => trial.check_that(TWICE, count == 1, detail),
        reaction => {
            let detail = trial.describe(&reaction);
            trial.check_that(TWICE, false, detail);
        }
    }
    Ok(())
}

/// Withdraws a prompt before it is usually answered: once by the state, once by the end of the session.
async fn withdrawn(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    let usual = trial.usual().unwrap_or_default();
    if usual < limits::TRIAL_HASTE {
        let why = format!("it answers within {} ms, before anything can be withdrawn", usual.as_millis());
        trial.not_shown(WITHDRAWN, why);
        return Ok(());
    }
    type TakeBack = fn(&mut Trial<'_>) -> Event;
    let by: [(&str, TakeBack); 2] = [
        ("a change of the state", |trial| trial.builder.go("thinking")),
        ("`session.cancelled`", |trial| trial.builder.cancelled()),
    ];
    let mut late = None;
    for (by, take_back) in by {
        // Repeated, because it may have been about to answer.
        for _ in 0..limits::TRIAL_WITHDRAWALS {
            if !trial.present().await? {
                return Ok(());
            }
            let (mark, prompt, sent) = prompt_in_a_fresh_session(trial).await;
            let early = trial.watch(mark, &prompt.token, sent, usual / limits::TRIAL_WITHDRAW_PART).await;
            let taken = take_back(trial);
            trial.send_event(&taken).await;
            let at = recount_world::moment();
            let quiet = trial.quiet().max(usual * 2);
            let reaction = match early {
                SubscriberReaction::Answered { .. } => early,
                _ => trial.watch(mark, &prompt.token, sent, quiet).await,
            };
            if taken.value["type"] != "aaep:agent.state.changed" {
                let (begin, think) = (trial.builder.begin(), trial.builder.go("thinking"));
                trial.send_event(&begin).await;
                trial.send_event(&think).await;
            }
            late = match reaction {
                SubscriberReaction::Answered { reply, .. } => {
                    let delay = reply.at.saturating_duration_since(at);
                    (delay > usual / limits::TRIAL_WITHDRAW_PART)
                        .then(|| format!("it still answered {} ms after {by}", delay.as_millis()))
                }
                _ => None,
            };
            if late.is_none() {
                break;
            }
        }
        if late.is_some() {
            break;
        }
    }
    let holds = late.is_none();
    trial.check_that(WITHDRAWN, holds, late.unwrap_or_else(|| "it dropped the prompt".to_owned()));
    Ok(())
}

/// A prompt that had expired on arrival, as after a long cut, and one with a short timeout.
async fn expired(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !trial.present().await? {
        return Ok(());
    }
    trial.start_check();
    let mut prompt = trial.new_confirmation(1);
    // Events from a minute ago belong to a session of that time.
    let then = trial.world.clock.now_ms().saturating_sub(limits::TRIAL_LONG_AGO_MS);
    let timestamp = recount_aaep::lex::time::Moment::write(i64::try_from(then).unwrap_or_default());
    let session = format!("sess_{}", &prompt.token[4..]);
    let fields = serde_json::json!({"timestamp": timestamp, "session_id": session});
    prompt.event = prompt.event.with(fields);
    let outcome = match trial.send_prompt_quietly(prompt).await {
        // The producer ignores such a reply, but the user believes that it counts.
        SubscriberReaction::Answered { .. } => {
            (Outcome::Warned, "it answered, and its user does not know that it counts for nothing")
        }
        SubscriberReaction::Disconnected => (Outcome::Failed, "its connection ended"),
        SubscriberReaction::StayedConnected | SubscriberReaction::Silent => {
            (Outcome::Passed, "it left it alone")
        }
    };
    trial.check(EXPIRED, outcome.0, outcome.1);
    if !trial.present().await? {
        return Ok(());
    }
    // Replies after this prompt's timeout are found among all replies.
    let usual = trial.usual().unwrap_or_default();
    let waiting = trial.builder.go("awaiting_input");
    trial.send_event(&waiting).await;
    let prompt = trial.new_confirmation(1);
    let piece = prompt.event.piece();
    let waits = limits::TRIAL_LATE * 2 + limits::TRIAL_SECOND + usual;
    let reaction = trial.send_prompt_for(prompt, &piece, waits).await;
    if let SubscriberReaction::Answered { after, .. } = &reaction
        && *after > limits::TRIAL_SECOND
    {
        // Not a usual reply time.
        trial.took.pop();
    }
    trial.follow(&reaction).await;
    Ok(())
}
