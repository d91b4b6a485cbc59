//! Checks of confirmations: rejected, answered by several subscribers, timed out, accepted with changes, requested
//! twice.

use std::time::Duration;

use futures_util::StreamExt;
use recount_aaep::Kind;
use serde_json::{Value, json};

use super::irreversible::store_response;
use super::listening;
use super::reply::{PromptRef, shown, with};
use crate::conformance::conversation::Conversation;
use crate::conformance::judge::{self, PromptStatus};
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs::{self, Spec};
use crate::conformance::report::Outcome;
use crate::conformance::transcript::Line;
use crate::limits;
use crate::scenario::Scenario;

pub(super) async fn rejected(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let conversation = &conversations[0];
    let prompt = harness.prompt(conversation, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let prompt_ref = PromptRef::of(conversation, prompt);
    other_token(harness, conversation, prompt, &prompt_ref).await?;
    if conversation.read(|lines| judge::settled(lines, prompt)).is_some() {
        return Err("the prompt was settled before it was rejected".to_owned());
    }
    conversation.send_text(&prompt_ref.decide(harness, "reject").to_string()).await?;
    let settled = conversation.until(harness.patience(), |lines| judge::settled(lines, prompt)).await;
    harness.end_of_line(conversation, prompt).await;
    conversation.read(|lines| match (settled, judge::prompt_status(lines, prompt)) {
        (None, _) => {
            harness.failed(&specs::REJECTED, "nothing followed the rejection", shown(lines, [prompt]))
        }
        (_, PromptStatus::Done(call)) => {
            harness.failed(&specs::REJECTED, "the action was done", shown(lines, [prompt, call]))
        }
        (Some(number), _) if lines[number].is(Kind::SessionCompleted) => {
            let evidence = shown(lines, [prompt, number]);
            harness.failed(&specs::REJECTED, "the session completed without reporting it", evidence);
        }
        (Some(_), prompt_status) => {
            let detail = prompt_status.line().map_or(String::new(), |number| follow_up(&lines[number]));
            harness.passed(&specs::REJECTED, detail);
        }
    });
    harness
        .ended_tokens
        .lock()
        .expect("no code panics while holding this lock")
        .push(prompt_ref.token.clone());
    let Some(other) = conversations.get(1) else {
        harness.inapplicable(&specs::ALL_HEAR, super::UNSHARED);
        return Ok(());
    };
    check_outcome_received(harness, &prompt_ref, other).await;
    let session = conversation.read(|lines| lines[prompt].session().to_owned());
    harness.end_of(other, &session).await;
    listening::same_bytes(harness, &conversation.lines(), &other.lines());
    Ok(())
}

fn follow_up(line: &Line) -> String {
    match line.kind() {
        Some(Kind::StateChanged) => format!("`state.changed` to `{}` reported it", line.str("to_state")),
        Some(kind) => format!("`{kind}` reported it"),
        None => String::new(),
    }
}

async fn other_token(
    harness: &Harness<'_>,
    conversation: &Conversation,
    prompt: usize,
    prompt_ref: &PromptRef,
) -> Result<(), PartError> {
    let old = harness.ended_tokens.lock().expect("no code panics while holding this lock").last().cloned();
    let Some(old) = old else {
        harness.not_shown(&specs::OTHER_TOKEN, "no prompt of an earlier session was answered");
        return Ok(());
    };
    let reply = with(prompt_ref.decide(harness, "accept"), json!({"reply_token": old}));
    let answer = conversation.send_ineffective(&reply.to_string()).await?;
    store_response(harness, "a reply with the token of an earlier session".into(), answer);
    let settled = conversation.until(limits::EFFECT_WAIT, |lines| judge::settled(lines, prompt)).await;
    let settled = settled.map(|settled| conversation.read(|lines| shown(lines, [prompt, settled])));
    harness.check(&specs::OTHER_TOKEN, settled, "it settled the prompt", "");
    Ok(())
}

async fn check_outcome_received(harness: &Harness<'_>, prompt_ref: &PromptRef, other: &Conversation) {
    let Some(prompt) = other.line(0, harness.patience(), |line| prompt_ref.is(line)).await else {
        return harness.not_shown(&specs::ALL_HEAR, "the second subscription did not get the prompt");
    };
    match other.until(harness.patience(), |lines| judge::settled(lines, prompt)).await {
        // The end of the session reveals nothing about the prompt.
        Some(number) if !other.read(|lines| lines[number].is(Kind::SessionCompleted)) => {
            harness.passed(&specs::ALL_HEAR, other.read(|lines| follow_up(&lines[number])));
        }
        settled => {
            let evidence = other.read(|lines| shown(lines, [prompt].into_iter().chain(settled)));
            harness.failed(
                &specs::ALL_HEAR,
                "the subscription that did not reply received no outcome",
                evidence,
            );
        }
    }
}

pub(super) async fn race(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let (conversation, other) = (&conversations[0], conversations.get(1).unwrap_or(&conversations[0]));
    let prompt = harness.prompt(conversation, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let prompt_ref = PromptRef::of(conversation, prompt);
    let Some(there) = other.line(0, harness.patience(), |line| prompt_ref.is(line)).await else {
        return Err("the second subscription did not get the prompt".to_owned());
    };
    let also = PromptRef::of(other, there);
    let replies = (0..limits::RACE_REPLIES).map(|number| {
        let decision = if number % 4 < 2 { "accept" } else { "reject" };
        let (by, prompt_ref) = if number % 2 == 0 { (conversation, &prompt_ref) } else { (other, &also) };
        let text = prompt_ref.decide(harness, decision).to_string();
        async move { by.send_ineffective(&text).await }
    });
    let refused = futures_util::stream::iter(replies)
        .buffer_unordered(limits::RACE_AT_ONCE)
        .filter_map(async |outcome| outcome.err())
        .collect::<Vec<_>>()
        .await;
    harness.end_of_line(conversation, prompt).await;
    let session = conversation.read(|lines| lines[prompt].session().to_owned());
    harness.end_of(other, &session).await;
    harness.wait(limits::EFFECT_WAIT).await;
    let views = [(conversation.lines(), prompt), (other.lines(), there)].map(|(lines, prompt)| {
        let calls = judge::calls_of(&lines, prompt);
        let moves = judge::departures(&lines, prompt);
        let evidence = shown(&lines, calls.iter().chain(&moves).copied());
        let prompt_status = std::mem::discriminant(&judge::prompt_status(&lines, prompt));
        (calls.len(), moves.len(), prompt_status, evidence)
    });
    let [one, two] = &views;
    let evidence = || one.3.iter().chain(&two.3).cloned().collect::<Vec<_>>();
    if one.0.max(two.0) > 1 || one.1.max(two.1) > 1 {
        harness.failed(&specs::RACE, "more than one of them took effect", evidence());
    } else if one.2 == std::mem::discriminant(&PromptStatus::Open) {
        harness.failed(
            &specs::RACE,
            "none of them took effect",
            conversation.read(|lines| shown(lines, [prompt])),
        );
    } else if one.2 != two.2 {
        harness.failed(&specs::RACE, "the two subscriptions received different outcomes", evidence());
    } else {
        let lost = match refused.len() {
            0 => String::new(),
            lost => format!("; {lost} of them got no response: {}", refused[0]),
        };
        let how = if one.0 == 1 { "accepted" } else { "rejected" };
        harness.passed(&specs::RACE, format!("the action was {how}, once{lost}"));
    }
    Ok(())
}

/// The timeout of a prompt, from its timestamp.
pub(super) fn timeout_ms(prompt: &Line) -> Option<u64> {
    Some(prompt.json.get("timeout_seconds")?.as_u64()? * 1_000)
}

/// How much of the timeout had passed on arrival, by both clocks as far as they agree.
pub(super) fn age_ms(prompt: &Line) -> u64 {
    let stamp = prompt.stamp_ms().and_then(|stamp| u64::try_from(stamp).ok());
    let age = stamp.and_then(|stamp| prompt.wall_ms.checked_sub(stamp)).unwrap_or(0);
    if age > limits::CLOCK_SKEW_MS { 0 } else { age }
}

/// Waits for the default when no reply is sent; returns the milliseconds since the prompt's timestamp.
pub(super) async fn outlast(
    harness: &Harness<'_>,
    conversation: &Conversation,
    prompt: usize,
    spec: &'static Spec,
) -> Option<(usize, u64)> {
    let line = conversation.read(|lines| lines[prompt].clone());
    let Some(timeout) = timeout_ms(&line) else {
        harness.not_shown(spec, "the prompt has no `timeout_seconds`");
        return None;
    };
    let most = u64::try_from(harness.subject.outlast.as_millis()).unwrap_or(u64::MAX);
    if timeout > most {
        let (timeout, most) = (timeout / 1_000, most / 1_000);
        harness.not_shown(
            spec,
            format!(
                "the prompt waits {timeout} s, longer than the waiting time ({most} s; --outlast {})",
                timeout + 1
            ),
        );
        return None;
    }
    let rest = Duration::from_millis(timeout.saturating_sub(age_ms(&line))) + limits::DEFAULT_LATE * 3;
    let settled = conversation.until(rest, |lines| judge::settled(lines, prompt)).await;
    let Some(settled) = settled else {
        let detail = format!(
            "nothing happened within {} ms after the timeout",
            (limits::DEFAULT_LATE * 3).as_millis()
        );
        harness.failed(spec, detail, [line.shown()]);
        return None;
    };
    let at = conversation.read(|lines| lines[settled].at_ms);
    Some((settled, (at - line.at_ms) + age_ms(&line)))
}

pub(super) async fn timed_out(
    harness: &Harness<'_>,
    conversations: &[Conversation],
) -> Result<(), PartError> {
    let conversation = &conversations[0];
    let prompt = harness.prompt(conversation, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let prompt_ref = PromptRef::of(conversation, prompt);
    let line = conversation.read(|lines| lines[prompt].clone());
    let Some((settled, took)) = outlast(harness, conversation, prompt, &specs::DEFAULT_ON_TIME).await else {
        // Settle the prompt.
        conversation.send_text(&prompt_ref.decide(harness, "reject").to_string()).await?;
        for spec in [&specs::DEFAULT_APPLIED, &specs::EXPIRED, &specs::COUNTDOWN] {
            harness.not_shown(spec, "no time ran out while we waited");
        }
        return Ok(());
    };
    let timeout = timeout_ms(&line).unwrap_or_default();
    let evidence = conversation.read(|lines| shown(lines, [prompt, settled]));
    let late = u64::try_from(limits::DEFAULT_LATE.as_millis()).unwrap_or(u64::MAX);
    let detail =
        format!("it was applied {took} ms after the timestamp of a prompt with a timeout of {timeout} ms");
    if took + limits::DEFAULT_EARLY_MS < timeout || took > timeout + late {
        harness.failed(&specs::DEFAULT_ON_TIME, detail, evidence.clone());
    } else {
        harness.passed(&specs::DEFAULT_ON_TIME, detail);
    }
    countdown(harness, conversation, prompt, settled, timeout);
    let answer = conversation.send_ineffective(&prompt_ref.decide(harness, "accept").to_string()).await?;
    store_response(harness, "a reply after the timeout".into(), answer);
    harness.end_of_line(conversation, prompt).await;
    harness.wait(limits::EFFECT_WAIT).await;
    conversation.read(|lines| {
        let default = lines[prompt].str("default_decision");
        let calls = judge::calls_of(lines, prompt);
        match (default, calls.len()) {
            ("accept", 1) | ("reject", 0) => {
                harness.passed(&specs::DEFAULT_APPLIED, format!("the default was `{default}`"));
                harness.passed(&specs::EXPIRED, "");
            }
            ("reject", _)
                if lines[..calls[0]].iter().any(|line| {
                    line.origin == crate::conformance::transcript::LineOrigin::SentIneffective
                }) =>
            {
                harness.failed(&specs::EXPIRED, "the action was done", shown(lines, [prompt, calls[0]]));
                harness.not_shown(&specs::DEFAULT_APPLIED, "a late reply overtook it");
            }
            (_, calls) => {
                let detail = format!("the default was `{default}` and the tool was called {calls} times");
                harness.failed(&specs::DEFAULT_APPLIED, detail, evidence);
                harness.not_shown(&specs::EXPIRED, "the default was not applied as announced");
            }
        }
    });
    Ok(())
}

fn countdown(
    harness: &Harness<'_>,
    conversation: &Conversation,
    prompt: usize,
    settled: usize,
    timeout: u64,
) {
    if timeout <= 60_000 {
        return harness.inapplicable(
            &specs::COUNTDOWN,
            format!("the prompt waits {} s; more than 60 s count as long", timeout / 1_000),
        );
    }
    let counts = conversation.read(|lines| {
        let updates = lines[prompt..settled].iter().filter(|line| line.is(Kind::ProgressUpdated));
        updates.filter(|line| line.session() == lines[prompt].session()).count()
    });
    match counts {
        0 | 1 => harness.failed(&specs::COUNTDOWN, format!("{counts} updates came while it waited"), []),
        _ => harness.passed(&specs::COUNTDOWN, format!("{counts} updates came while it waited")),
    }
}

pub(super) async fn modified(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let conversation = &conversations[0];
    let prompt = harness.prompt(conversation, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let change = json!({"modified_action": {"recount_conformance": "nobody supports this"}});
    let reply = with(PromptRef::of(conversation, prompt).decide(harness, "accept"), change);
    conversation.send_text(&reply.to_string()).await?;
    let settled = conversation.until(harness.patience(), |lines| judge::settled(lines, prompt)).await;
    harness.end_of_line(conversation, prompt).await;
    conversation.read(|lines| match (settled, judge::prompt_status(lines, prompt)) {
        (None, _) => harness.failed(&specs::MODIFIED, "nothing followed it", shown(lines, [prompt])),
        (_, PromptStatus::Done(call)) => {
            harness.failed(&specs::MODIFIED, "the action was done", shown(lines, [prompt, call]));
        }
        _ => harness.passed(&specs::MODIFIED, "the action was not done"),
    });
    Ok(())
}

pub(super) async fn twice(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let conversation = &conversations[0];
    let prompt = harness.prompt(conversation, Scenario::Twice, Kind::AwaitingConfirmation).await?;
    harness.wait(harness.silence()).await;
    let open: Vec<usize> = conversation.read(|lines| {
        let same = |line: &Line| {
            line.is(Kind::AwaitingConfirmation)
                && (line.session(), line.str("action"))
                    == (lines[prompt].session(), lines[prompt].str("action"))
        };
        let prompts = (prompt..lines.len()).filter(|number| same(&lines[*number]));
        prompts.filter(|number| judge::settled(lines, *number).is_none()).collect()
    });
    match open.len() {
        0 => harness.not_shown(&specs::ONE_PROMPT, "the prompt was settled before a second could come"),
        1 => harness.passed(&specs::ONE_PROMPT, ""),
        count => {
            let evidence = conversation.read(|lines| shown(lines, open.iter().copied()));
            harness.failed(&specs::ONE_PROMPT, format!("{count} prompts for it are open"), evidence);
        }
    }
    // Reject the other prompts of this session until it ends.
    let session = conversation.read(|lines| lines[prompt].session().to_owned());
    let mut from = prompt;
    for _ in 0..limits::PROMPTS_ANSWERED_MAX {
        let next = |line: &Line| {
            line.session() == session && (line.is(Kind::AwaitingConfirmation) || line.is_terminal())
        };
        let Some(number) = conversation.line(from, harness.patience(), next).await else { break };
        if conversation.read(|lines| lines[number].is_terminal()) {
            break;
        }
        conversation
            .send_text(&PromptRef::of(conversation, number).decide(harness, "reject").to_string())
            .await?;
        from = number + 1;
    }
    Ok(())
}

/// Whether the outcome matches the prompt's default.
pub(super) fn default_applied(lines: &[Line], prompt: usize) -> Result<String, String> {
    let default = lines[prompt].json.get("default_decision").and_then(Value::as_str).unwrap_or_default();
    let calls = judge::calls_of(lines, prompt).len();
    match (default, calls) {
        ("accept", 1) | ("reject", 0) => Ok(format!("the default `{default}` was applied")),
        _ => Err(format!("the default is `{default}`, and the tool was called {calls} times")),
    }
}

/// Reports how a prompt without a possible replier was settled.
pub(super) fn report_default(
    harness: &Harness<'_>,
    spec: &'static Spec,
    lines: &[Line],
    prompt: usize,
    when: &str,
) {
    let settled = judge::settled(lines, prompt);
    match default_applied(lines, prompt) {
        Ok(detail) => harness.note(spec, Outcome::Passed, format!("{detail} {when}"), []),
        Err(detail) => harness.failed(spec, detail, shown(lines, [prompt].into_iter().chain(settled))),
    }
}
