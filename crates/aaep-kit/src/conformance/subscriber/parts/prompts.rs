//! Checks of prompts: long tokens, decisions that are not allowed, each kind of question, two at a time, duplicates,
//! withdrawn and late ones.

use crate::conformance::Outcome;
use crate::conformance::subscriber::builder::{Event, Prompt};
use crate::conformance::subscriber::received::ReceivedMessage;
use crate::conformance::subscriber::trial::{Sign, Trial};
use crate::conformance::subscriber::{Expectation, TrialError};
use crate::limits;
use recount_aaep::wire::Decision;

use super::survive::QUESTIONS;

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
        // Who accepts by itself need not answer questions; what it sends is judged with all replies.
        let sign = trial.send_prompt_quietly(prompt).await;
        trial.follow(&sign).await;
    }
    both(trial).await?;
    twice(trial).await?;
    withdrawn(trial).await?;
    expired(trial).await?;
    let why = "no prompt here counts down, and those above were answered";
    trial.hold(COUNTDOWN, !trial.took.is_empty(), why);
    Ok(())
}

/// Nothing is to be answered: prompts of both kinds are left open and time out.
async fn unanswered(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    let why = if trial.mute { "it answers nothing" } else { "nobody answers its prompts" };
    for expectation in [LONG, BOTH, TWICE, WITHDRAWN, COUNTDOWN] {
        trial.not_shown(expectation, why);
    }
    wait_in_a_fresh_session(trial).await;
    let prompt = trial.builder.clarification(QUESTIONS[0], limits::TRIAL_PROMPT_SECONDS);
    let sign = trial.send_prompt_quietly(prompt).await;
    trial.follow(&sign).await;
    Ok(())
}

async fn long_token(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    wait_in_a_fresh_session(trial).await;
    // Letters of both cases and digits, so that nothing may be folded, cut or read as a number.
    let drawn = trial.builder.token();
    let token = format!("rpl_00AbCdEfGhIjKlMnOpQrStUvWxYz9e99{}", &drawn[4..]);
    let token = token[..68].to_owned();
    let prompt = trial.builder.confirmation(token.clone(), limits::TRIAL_PROMPT_SECONDS);
    let piece = prompt.event.piece();
    let sign = trial.send_prompt(prompt, &piece).await;
    trial.follow(&sign).await;
    let detail = match &sign {
        Sign::Answered { .. } => "the token came back unchanged".to_owned(),
        Sign::Silent => {
            let others = ReceivedMessage::all(&trial.producer.since(trial.producer.mark().saturating_sub(4)));
            match others.iter().rev().find(|message| message.is_reply() && message.token() != token) {
                Some(other) => format!("`{token}` was sent; what came back last is `{}`", other.token()),
                None => "it did not answer".to_owned(),
            }
        }
        sign => trial.describe(sign),
    };
    trial.hold(LONG, matches!(sign, Sign::Answered { .. }), detail);
    Ok(())
}

/// A prompt that leaves only the other decision: who decides by itself must keep silent or send that one.
async fn narrow(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !trial.present().await? {
        return Ok(());
    }
    trial.fresh();
    let (only, word) = match trial.decision() {
        Some("accept") => (Decision::Reject, "reject"),
        _ => (Decision::Accept, "accept"),
    };
    let waiting = trial.builder.go("awaiting_input");
    trial.send_event(&waiting).await;
    let prompt = trial.builder.confirmation_for(only, limits::TRIAL_PROMPT_SECONDS);
    let sign = trial.send_prompt_quietly(prompt).await;
    trial.follow(&sign).await;
    let (holds, detail) = match &sign {
        Sign::Answered { reply, .. } => {
            let decision = reply.decision();
            (decision == word, format!("only `{word}` was allowed, and it sent `{decision}`"))
        }
        Sign::Disconnected => (false, trial.describe(&sign)),
        Sign::Held | Sign::Silent => (true, "it sent nothing".to_owned()),
    };
    trial.hold(NARROW, holds, detail);
    Ok(())
}

async fn both(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !trial.present().await? {
        return Ok(());
    }
    wait_in_a_fresh_session(trial).await;
    let mark = trial.producer.mark();
    let (one, two) = (trial.draw(limits::TRIAL_PROMPT_SECONDS), trial.draw(limits::TRIAL_PROMPT_SECONDS));
    let sent = [trial.issue(&one).await, trial.issue(&two).await];
    let mut missing = Vec::new();
    for (which, prompt, sent) in [("first", &one, sent[0]), ("second", &two, sent[1])] {
        let sign = trial.watch(mark, &prompt.token, sent, trial.subject.times.reply).await;
        if !matches!(sign, Sign::Answered { .. }) {
            missing.push(which);
        }
    }
    trial.follow(&Sign::Silent).await;
    let detail = match &missing[..] {
        [] => "both were answered".to_owned(),
        missing => format!("no answer came to the {}", missing.join(" and the ")),
    };
    trial.hold(BOTH, missing.is_empty(), detail);
    Ok(())
}

/// Begins a session that waits for an answer.
async fn wait_in_a_fresh_session(trial: &mut Trial<'_>) {
    trial.fresh();
    let waiting = trial.builder.go("awaiting_input");
    trial.send_event(&waiting).await;
}

/// Sends a prompt in a session of its own; answers the mark before it, and when it was sent.
async fn prompt_in_a_fresh_session(trial: &mut Trial<'_>) -> (usize, Prompt, tokio::time::Instant) {
    wait_in_a_fresh_session(trial).await;
    let mark = trial.producer.mark();
    let prompt = trial.draw(limits::TRIAL_PROMPT_SECONDS);
    let sent = trial.issue(&prompt).await;
    (mark, prompt, sent)
}

/// How many replies with this token came behind the mark.
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
    let sign = trial.watch(mark, &prompt.token, sent, trial.subject.times.reply).await;
    // The second may come while the first is answered, or behind that.
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
    trial.follow(&sign).await;
    let count = replies(trial, mark, &prompt.token);
    let detail = format!("{count} replies came to an event that was sent three times with one `event_id`");
    match sign {
        Sign::Answered { .. } => trial.hold(TWICE, count == 1, detail),
        sign => {
            let detail = trial.describe(&sign);
            trial.hold(TWICE, false, detail);
        }
    }
    Ok(())
}

/// A prompt is taken back before it is usually answered, once by the state, once by the end of the session.
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
        // More than once, because it may have been about to answer.
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
            let sign = match early {
                Sign::Answered { .. } => early,
                _ => trial.watch(mark, &prompt.token, sent, quiet).await,
            };
            if taken.value["type"] != "aaep:agent.state.changed" {
                let (begin, think) = (trial.builder.begin(), trial.builder.go("thinking"));
                trial.send_event(&begin).await;
                trial.send_event(&think).await;
            }
            late = match sign {
                Sign::Answered { reply, .. } => {
                    let behind = reply.at.saturating_duration_since(at);
                    (behind > usual / limits::TRIAL_WITHDRAW_PART)
                        .then(|| format!("it still answered {} ms after {by}", behind.as_millis()))
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
    trial.hold(WITHDRAWN, holds, late.unwrap_or_else(|| "it dropped the prompt".to_owned()));
    Ok(())
}

/// A prompt whose time was up before it came, as after a long cut; and one whose time is short.
async fn expired(trial: &mut Trial<'_>) -> Result<(), TrialError> {
    if !trial.present().await? {
        return Ok(());
    }
    trial.fresh();
    let mut prompt = trial.draw(1);
    // What was said a minute ago belongs to a session of then.
    let then = trial.world.clock.now_ms().saturating_sub(limits::TRIAL_LONG_AGO_MS);
    let timestamp = recount_aaep::lex::time::Moment::write(i64::try_from(then).unwrap_or_default());
    let session = format!("sess_{}", &prompt.token[4..]);
    let fields = serde_json::json!({"timestamp": timestamp, "session_id": session});
    prompt.event = prompt.event.with(fields);
    let outcome = match trial.send_prompt_quietly(prompt).await {
        // The producer passes such a reply over; the user was made to believe that it counts.
        Sign::Answered { .. } => {
            (Outcome::Warned, "it answered, and its user does not know that it counts for nothing")
        }
        Sign::Disconnected => (Outcome::Failed, "its connection ended"),
        Sign::Held | Sign::Silent => (Outcome::Passed, "it left it alone"),
    };
    trial.check(EXPIRED, outcome.0, outcome.1);
    if !trial.present().await? {
        return Ok(());
    }
    // Replies behind the time of this one are found among all replies.
    let usual = trial.usual().unwrap_or_default();
    let waiting = trial.builder.go("awaiting_input");
    trial.send_event(&waiting).await;
    let prompt = trial.draw(1);
    let piece = prompt.event.piece();
    let waits = limits::TRIAL_LATE * 2 + limits::TRIAL_SECOND + usual;
    let sign = trial.send_prompt_for(prompt, &piece, waits).await;
    if let Sign::Answered { after, .. } = &sign
        && *after > limits::TRIAL_SECOND
    {
        // Not a time that is usual.
        trial.took.pop();
    }
    trial.follow(&sign).await;
    Ok(())
}
