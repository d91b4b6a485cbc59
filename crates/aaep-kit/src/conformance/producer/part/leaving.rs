//! Checks of prompts without a subscriber that can reply, and of prompts whose subscriber leaves.
//!
//! The protocol both applies the default at once and lets others still answer (§5.5.4, §5.8.2, §6.6, §6.7). Either
//! passes here: the default, or a prompt that stays open for another subscriber. The report names which one it was.

use std::time::Duration;

use recount_aaep::Kind;

use super::prompt::{age_ms, default_applied, report_default, timeout_ms};
use super::readers::while_open;
use super::reply::{PromptRef, shown, subscription, turn_down};
use crate::conformance::conversation::Conversation;
use crate::conformance::judge::{self, PromptStatus};
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs::{self, Spec};
use crate::conformance::report::Outcome;
use crate::conformance::transcript::{Line, Scope};
use crate::limits;
use crate::link::Target;
use crate::scenario::Scenario;

const KIND: Kind = Kind::AwaitingConfirmation;

pub(super) async fn without_approver(
    harness: &Harness<'_>,
    conversations: &[Conversation],
) -> Result<(), PartError> {
    let conversation = &conversations[0];
    let spec = &specs::CANNOT_REPLY;
    let session = harness.begin(conversation, Scenario::Confirm).await?;
    let (began, own) = (recount_world::moment(), |line: &Line| line.session() == session);
    // A prompt that others may answer stays open until its timeout, which is not visible here.
    let patience = harness.patience().max(harness.subject.outlast);
    let end = conversation.line(0, patience, |line| own(line) && (line.is(KIND) || line.is_terminal())).await;
    let Some(end) = end else {
        harness
            .not_shown(spec, format!("neither a prompt nor an ending came within {} s", patience.as_secs()));
        return settle_open_prompt(harness, &session).await;
    };
    if conversation.read(|lines| lines[end].is(KIND)) {
        let evidence = conversation.read(|lines| shown(lines, [end]));
        harness.failed(
            spec,
            "a prompt was sent to a subscription that declared it cannot reply, and no other could",
            evidence,
        );
        harness.end_of(conversation, &session).await;
        return Ok(());
    }
    conversation.read(|lines| {
        let changes = lines.iter().filter(|line| own(line) && line.is(Kind::StateChanged)).count();
        let calls = lines.iter().filter(|line| own(line) && line.is(Kind::ToolInvoked)).count();
        let how = if calls == 0 { "the action was not done" } else { "the action was done" };
        match changes {
            0 if calls == 0 => {
                harness.failed(spec, "no event reports that it was not done", shown(lines, [end]))
            }
            _ if began.elapsed() > limits::CLOSE_GRACE => {
                let detail = format!(
                    "there was no prompt, and the default was applied {} s later, not at once; others may \
                     have answered: {how}",
                    began.elapsed().as_secs()
                );
                harness.note(spec, Outcome::Warned, detail, shown(lines, [end]));
            }
            _ => harness
                .passed(spec, format!("there was no prompt, and the default was applied at once: {how}")),
        }
    });
    Ok(())
}

/// Settles a prompt that is still open. Otherwise later parts would join its session in the middle and report a
/// missing start.
async fn settle_open_prompt(harness: &Harness<'_>, session: &str) -> Result<(), PartError> {
    let conversation = harness.listen("a prompt that was left open", Scope::Part).await?;
    let is = |line: &Line| line.session() == session && (line.is(KIND) || line.is_terminal());
    if let Some(found) = conversation.line(0, harness.patience(), is).await
        && conversation.read(|lines| lines[found].is(KIND))
    {
        conversation
            .send_text(&PromptRef::of(&conversation, found).decide(harness, "reject").to_string())
            .await?;
        harness.end_of(&conversation, session).await;
    }
    harness.finish(conversation).await;
    Ok(())
}

pub(super) async fn one_cannot(
    harness: &Harness<'_>,
    conversations: &[Conversation],
) -> Result<(), PartError> {
    let (conversation, other) = (&conversations[0], &conversations[1]);
    let spec = &specs::ONE_CANNOT;
    let prompt = harness.prompt(conversation, Scenario::Confirm, KIND).await?;
    harness.wait(harness.silence()).await;
    let informed = other.read(|lines| lines.iter().any(|line| line.is(KIND)));
    let delivery = if informed {
        "the one that cannot reply received the prompt"
    } else {
        "the one that cannot reply received no prompt"
    };
    if conversation.read(|lines| judge::settled(lines, prompt)).is_some() {
        harness.end_of_line(conversation, prompt).await;
        conversation
            .read(|lines| report_default(harness, spec, lines, prompt, &format!("at once; {delivery}")));
        return Ok(());
    }
    conversation
        .send_text(&PromptRef::of(conversation, prompt).decide(harness, "accept").to_string())
        .await?;
    let done =
        |lines: &[Line]| matches!(judge::prompt_status(lines, prompt), PromptStatus::Done(_)).then_some(());
    match conversation.until(harness.patience(), done).await {
        Some(()) => {
            harness.passed(spec, format!("the prompt stayed open for the one that can reply; {delivery}"))
        }
        None => {
            let evidence = conversation
                .read(|lines| shown(lines, [prompt].into_iter().chain(judge::settled(lines, prompt))));
            harness.failed(spec, "neither its default nor the one that can reply settled it", evidence);
        }
    }
    harness.end_of_line(conversation, prompt).await;
    Ok(())
}

/// How long a prompt may stay open when no subscriber remains: less than its timeout after a close, and no longer than
/// the reconnect grace after a lost connection.
fn grace(harness: &Harness<'_>, prompt: &Line, goodbye: bool) -> Duration {
    let rest = Duration::from_millis(timeout_ms(prompt).unwrap_or_default().saturating_sub(age_ms(prompt)));
    let most = if goodbye { limits::CLOSE_GRACE } else { limits::BREAK_GRACE };
    let late = if rest < most && !goodbye { limits::DEFAULT_LATE } else { Duration::ZERO };
    // A close must take effect noticeably before the timeout.
    let rest = if goodbye { rest * 3 / 4 } else { rest };
    let grace = most.min(rest) + late;
    grace.min(harness.subject.outlast.max(limits::CLOSE_GRACE))
}

/// The only subscriber that can reply closes its subscription.
pub(super) async fn last_closes(
    harness: &Harness<'_>,
    conversations: &mut Vec<Conversation>,
) -> Result<(), PartError> {
    last_leaves(harness, conversations, &specs::LAST_LEAVES, true).await
}

/// The connection of the only subscriber that can reply breaks.
pub(super) async fn last_breaks_off(
    harness: &Harness<'_>,
    conversations: &mut Vec<Conversation>,
) -> Result<(), PartError> {
    last_leaves(harness, conversations, &specs::BROKEN_OFF, false).await
}

async fn last_leaves(
    harness: &Harness<'_>,
    conversations: &mut Vec<Conversation>,
    spec: &'static Spec,
    goodbye: bool,
) -> Result<(), PartError> {
    let prompt = harness.prompt(&conversations[1], Scenario::Confirm, KIND).await?;
    let conversation = conversations.remove(1);
    let watcher = &conversations[0];
    let prompt_line = conversation.read(|lines| lines[prompt].clone());
    let from = watcher.len();
    let grace = grace(harness, &prompt_line, goodbye);
    if goodbye {
        harness.finish(conversation).await;
    } else {
        let transcript = conversation.cut().await;
        harness.store_transcript(transcript);
    }
    let left = recount_world::moment();
    // Whether the watcher received the prompt does not matter; only what follows counts. Its stream may lag, so events
    // from before the prompt may still arrive.
    let moved = |line: &Line| {
        line.is_event()
            && line.stamp_ms() >= prompt_line.stamp_ms()
            && line.session() == prompt_line.session()
            && ((line.is(Kind::StateChanged) && line.str("to_state") != "awaiting_input")
                || line.is_terminal()
                || line.is(Kind::ToolInvoked))
    };
    let mut settled = watcher.line(from, grace, moved).await;
    let waits_on = settled.is_none();
    // Clients outside this protocol may answer. Then the default follows at the timeout.
    let rest = timeout_ms(&prompt_line).unwrap_or_default().saturating_sub(age_ms(&prompt_line));
    let rest = Duration::from_millis(rest) + limits::DEFAULT_LATE;
    if waits_on {
        settled = watcher.line(from, rest.min(harness.subject.outlast), moved).await;
    }
    let took = left.elapsed().as_millis();
    match settled {
        None if rest > harness.subject.outlast => {
            let detail = format!(
                "the prompt is open {} s more, for others that may answer; that exceeds the waiting time \
                 (--outlast)",
                rest.as_secs()
            );
            harness.not_shown(spec, detail);
            settle_open_prompt(harness, prompt_line.session()).await?;
        }
        None => {
            let detail = format!(
                "the prompt was still open {took} ms after the only subscriber that can answer had left"
            );
            harness.failed(spec, detail, [prompt_line.shown()]);
            watcher
                .line(from, harness.patience(), |line| {
                    line.is_terminal() && line.session() == prompt_line.session()
                })
                .await;
        }
        Some(_) => {
            harness.end_of(watcher, prompt_line.session()).await;
            let mut lines = vec![prompt_line.clone()];
            lines.extend(watcher.read(|lines| lines[from..].to_vec()));
            match default_applied(&lines, 0) {
                Ok(detail) if waits_on => {
                    let detail = format!("{detail} at its timeout, and not before: others may have answered");
                    harness.note(spec, Outcome::Warned, detail, [prompt_line.shown()]);
                }
                Ok(detail) => harness.passed(
                    spec,
                    format!("{detail} {took} ms after the only subscriber that can answer had left"),
                ),
                Err(detail) => harness.failed(spec, detail, lines.iter().map(Line::shown)),
            }
        }
    }
    Ok(())
}

pub(super) async fn one_leaves(
    harness: &Harness<'_>,
    conversations: &mut Vec<Conversation>,
) -> Result<(), PartError> {
    let spec = &specs::ONE_LEAVES;
    let prompt = harness.prompt(&conversations[1], Scenario::Confirm, KIND).await?;
    let conversation = conversations.remove(0);
    let other = &conversations[0];
    harness.finish(conversation).await;
    harness.wait(harness.silence()).await;
    if other.read(|lines| judge::settled(lines, prompt)).is_some() {
        harness.end_of_line(other, prompt).await;
        other.read(|lines| {
            report_default(harness, spec, lines, prompt, "although a subscriber remained that can answer")
        });
        return Ok(());
    }
    let sent = other.send_text(&PromptRef::of(other, prompt).decide(harness, "accept").to_string()).await;
    let done =
        |lines: &[Line]| matches!(judge::prompt_status(lines, prompt), PromptStatus::Done(_)).then_some(());
    match other.until(harness.patience(), done).await {
        Some(()) => harness.passed(spec, "the prompt stayed open for the other, whose reply counted"),
        None => {
            let evidence =
                other.read(|lines| shown(lines, [prompt].into_iter().chain(judge::settled(lines, prompt))));
            harness.failed(spec, "neither its default nor the remaining subscriber settled it", evidence);
        }
    }
    harness.end_of_line(other, prompt).await;
    sent.map(|_| ())
}

/// A subscription ends while its prompt is open. Its subscriber subscribes anew, first without a position and then after
/// the last event that it received.
pub(super) async fn made_anew(
    harness: &Harness<'_>,
    conversations: &mut Vec<Conversation>,
) -> Result<(), PartError> {
    let spec = &specs::MADE_ANEW;
    let prompt = harness.prompt(&conversations[1], Scenario::Confirm, KIND).await?;
    let ended = conversations.remove(1);
    let stays = &conversations[0];
    let earlier = PromptRef::of(&ended, prompt);
    let session = ended.read(|lines| lines[prompt].session().to_owned());
    let last = ended.read(|lines| lines.iter().rev().find_map(|line| line.id.clone()));
    let is_prompt = |line: &Line| line.is(KIND) && line.session() == session;
    let Some(there) = stays.line(0, harness.patience(), is_prompt).await else {
        return Err("the second subscription did not get the prompt".to_owned());
    };
    harness.finish(ended).await;
    harness.wait(harness.silence()).await;
    if stays.read(|lines| judge::settled(lines, there)).is_some() {
        harness.inapplicable(spec, "the default was applied when one of two subscribers left");
        harness.end_of(stays, &session).await;
        return Ok(());
    }
    let last = last.filter(|_| matches!(harness.target, Target::Http { .. }));
    let attempts =
        [("made anew", None)].into_iter().chain(last.map(|last| ("made anew, to resume", Some(last))));
    let attempts: Vec<_> = attempts.collect();
    let count = attempts.len();
    for (number, (label, last)) in (1..).zip(attempts) {
        let again = harness.subscribe_after(label, last).await?;
        let received = again.line(0, while_open(harness, stays, there), is_prompt).await;
        let token = received.map(|received| PromptRef::of(&again, received));
        if token.is_some() && number < count {
            harness.finish(again).await;
            continue;
        }
        let reply = token
            .clone()
            .unwrap_or_else(|| PromptRef { subscription: subscription(&again), ..earlier.clone() });
        again.send_text(&reply.decide(harness, "accept").to_string()).await?;
        let settled = stays.until(harness.silence(), |lines| judge::settled(lines, there)).await;
        let evidence = stays.read(|lines| shown(lines, [there]));
        match (token, settled) {
            (Some(_), Some(_)) => harness.passed(spec, "the prompt came again, and a reply to it counted"),
            (None, Some(_)) => harness.passed(spec, "a reply with the earlier token counted"),
            (Some(_), None) => {
                harness.failed(spec, "the prompt came again, and a reply to it had no effect", evidence);
            }
            (None, None) => {
                let detail =
                    format!("a subscription {label} got no prompt, and the earlier token had no effect");
                harness.failed(spec, detail, evidence);
            }
        }
        harness.finish(again).await;
        if settled.is_none() {
            turn_down(harness, stays, there).await?;
        }
        harness.end_of(stays, &session).await;
        return Ok(());
    }
    Ok(())
}
