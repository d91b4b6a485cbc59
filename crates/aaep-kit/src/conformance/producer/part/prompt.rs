//! Checks of confirmations: rejected, answered by several at once, timed out, accepted with changes, asked for twice.

use std::time::Duration;

use futures_util::StreamExt;
use recount_aaep::Kind;
use serde_json::{Value, json};

use super::grave::remember;
use super::listening;
use super::reply::{Asked, shown, with};
use crate::conformance::judge::{self, Fate};
use crate::conformance::producer::specs::{self, Spec};
use crate::conformance::producer::stage::{Stage, Trouble};
use crate::conformance::report::Outcome;
use crate::conformance::talk::Talk;
use crate::conformance::transcript::Line;
use crate::limits;
use crate::scenario::Scenario;

pub(super) async fn rejected(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let talk = &talks[0];
    let prompt = stage.prompt(talk, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let asked = Asked::of(talk, prompt);
    other_token(stage, talk, prompt, &asked).await?;
    if talk.read(|lines| judge::settled(lines, prompt)).is_some() {
        return Err("the prompt was settled before it was rejected".to_owned());
    }
    talk.say(&asked.decide(stage, "reject").to_string()).await?;
    let settled = talk.until(stage.patience(), |lines| judge::settled(lines, prompt)).await;
    stage.end_of_line(talk, prompt).await;
    talk.read(|lines| match (settled, judge::fate(lines, prompt)) {
        (None, _) => stage.failed(&specs::REJECTED, "nothing followed the rejection", shown(lines, [prompt])),
        (_, Fate::Done(call)) => {
            stage.failed(&specs::REJECTED, "the action was done", shown(lines, [prompt, call]))
        }
        (Some(number), _) if lines[number].is(Kind::SessionCompleted) => {
            let evidence = shown(lines, [prompt, number]);
            stage.failed(&specs::REJECTED, "the session completed without a word of it", evidence);
        }
        (Some(_), fate) => {
            let said = fate.line().map_or(String::new(), |number| follow_up(&lines[number]));
            stage.passed(&specs::REJECTED, said);
        }
    });
    stage.old_tokens.lock().expect("nothing panics while it notes").push(asked.token.clone());
    let Some(other) = talks.get(1) else {
        stage.inapplicable(&specs::ALL_HEAR, super::UNSHARED);
        return Ok(());
    };
    all_hear(stage, &asked, other).await;
    let session = talk.read(|lines| lines[prompt].session().to_owned());
    stage.end_of(other, &session).await;
    listening::same_bytes(stage, &talk.lines(), &other.lines());
    Ok(())
}

fn follow_up(line: &Line) -> String {
    match line.kind() {
        Some(Kind::StateChanged) => format!("`state.changed` to `{}` told of it", line.str("to_state")),
        Some(kind) => format!("`{kind}` told of it"),
        None => String::new(),
    }
}

async fn other_token(stage: &Stage<'_>, talk: &Talk, prompt: usize, asked: &Asked) -> Result<(), Trouble> {
    let old = stage.old_tokens.lock().expect("nothing panics while it notes").last().cloned();
    let Some(old) = old else {
        stage.not_shown(&specs::OTHER_TOKEN, "no prompt of an earlier session was answered");
        return Ok(());
    };
    let reply = with(asked.decide(stage, "accept"), json!({"reply_token": old}));
    let answer = talk.say_in_vain(&reply.to_string()).await?;
    remember(stage, "a reply with the token of an earlier session".into(), answer);
    let settled = talk.until(limits::EFFECT_WAIT, |lines| judge::settled(lines, prompt)).await;
    let settled = settled.map(|settled| talk.read(|lines| shown(lines, [prompt, settled])));
    stage.hold(&specs::OTHER_TOKEN, settled, "it settled the prompt", "");
    Ok(())
}

async fn all_hear(stage: &Stage<'_>, asked: &Asked, other: &Talk) {
    let Some(prompt) = other.line(0, stage.patience(), |line| asked.is(line)).await else {
        return stage.not_shown(&specs::ALL_HEAR, "the second subscription did not get the prompt");
    };
    match other.until(stage.patience(), |lines| judge::settled(lines, prompt)).await {
        // That the session is over tells nothing of the prompt.
        Some(number) if !other.read(|lines| lines[number].is(Kind::SessionCompleted)) => {
            stage.passed(&specs::ALL_HEAR, other.read(|lines| follow_up(&lines[number])));
        }
        settled => {
            let evidence = other.read(|lines| shown(lines, [prompt].into_iter().chain(settled)));
            stage.failed(
                &specs::ALL_HEAR,
                "the subscription that did not reply heard nothing of it",
                evidence,
            );
        }
    }
}

pub(super) async fn race(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let (talk, other) = (&talks[0], talks.get(1).unwrap_or(&talks[0]));
    let prompt = stage.prompt(talk, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let asked = Asked::of(talk, prompt);
    let Some(there) = other.line(0, stage.patience(), |line| asked.is(line)).await else {
        return Err("the second subscription did not get the prompt".to_owned());
    };
    let also = Asked::of(other, there);
    let replies = (0..limits::RACE_REPLIES).map(|number| {
        let decision = if number % 4 < 2 { "accept" } else { "reject" };
        let (by, asked) = if number % 2 == 0 { (talk, &asked) } else { (other, &also) };
        let text = asked.decide(stage, decision).to_string();
        async move { by.say_in_vain(&text).await }
    });
    let refused = futures_util::stream::iter(replies)
        .buffer_unordered(limits::RACE_AT_ONCE)
        .filter_map(async |outcome| outcome.err())
        .collect::<Vec<_>>()
        .await;
    stage.end_of_line(talk, prompt).await;
    let session = talk.read(|lines| lines[prompt].session().to_owned());
    stage.end_of(other, &session).await;
    stage.wait(limits::EFFECT_WAIT).await;
    let views = [(talk.lines(), prompt), (other.lines(), there)].map(|(lines, prompt)| {
        let calls = judge::calls_of(&lines, prompt);
        let moves = judge::departures(&lines, prompt);
        let evidence = shown(&lines, calls.iter().chain(&moves).copied());
        let fate = std::mem::discriminant(&judge::fate(&lines, prompt));
        (calls.len(), moves.len(), fate, evidence)
    });
    let [one, two] = &views;
    let evidence = || one.3.iter().chain(&two.3).cloned().collect::<Vec<_>>();
    if one.0.max(two.0) > 1 || one.1.max(two.1) > 1 {
        stage.failed(&specs::RACE, "more than one of them took effect", evidence());
    } else if one.2 == std::mem::discriminant(&Fate::Open) {
        stage.failed(&specs::RACE, "none of them took effect", talk.read(|lines| shown(lines, [prompt])));
    } else if one.2 != two.2 {
        stage.failed(&specs::RACE, "the two subscriptions heard different outcomes", evidence());
    } else {
        let lost = match refused.len() {
            0 => String::new(),
            lost => format!("; {lost} of them got no answer: {}", refused[0]),
        };
        let how = if one.0 == 1 { "accepted" } else { "rejected" };
        stage.passed(&specs::RACE, format!("the action was {how}, once{lost}"));
    }
    Ok(())
}

/// How long a prompt waits, from the moment of its timestamp.
pub(super) fn timeout_ms(prompt: &Line) -> Option<u64> {
    Some(prompt.json.get("timeout_seconds")?.as_u64()? * 1_000)
}

/// How much of its time was gone when it came, by both clocks, as far as these agree.
pub(super) fn age_ms(prompt: &Line) -> u64 {
    let stamp = prompt.stamp_ms().and_then(|stamp| u64::try_from(stamp).ok());
    let age = stamp.and_then(|stamp| prompt.wall_ms.checked_sub(stamp)).unwrap_or(0);
    if age > limits::CLOCK_SKEW_MS { 0 } else { age }
}

/// Waits for what happens when nobody answers; answers the milliseconds since the prompt's timestamp.
pub(super) async fn outlast(
    stage: &Stage<'_>,
    talk: &Talk,
    prompt: usize,
    spec: &'static Spec,
) -> Option<(usize, u64)> {
    let line = talk.read(|lines| lines[prompt].clone());
    let Some(timeout) = timeout_ms(&line) else {
        stage.not_shown(spec, "the prompt says no `timeout_seconds`");
        return None;
    };
    let most = u64::try_from(stage.subject.outlast.as_millis()).unwrap_or(u64::MAX);
    if timeout > most {
        let (timeout, most) = (timeout / 1_000, most / 1_000);
        stage.not_shown(
            spec,
            format!(
                "the prompt waits {timeout} s, longer than is waited here ({most} s; --outlast {})",
                timeout + 1
            ),
        );
        return None;
    }
    let rest = Duration::from_millis(timeout.saturating_sub(age_ms(&line))) + limits::DEFAULT_LATE * 3;
    let settled = talk.until(rest, |lines| judge::settled(lines, prompt)).await;
    let Some(settled) = settled else {
        let said = format!(
            "nothing happened within {} ms after the timeout",
            (limits::DEFAULT_LATE * 3).as_millis()
        );
        stage.failed(spec, said, [line.shown()]);
        return None;
    };
    let at = talk.read(|lines| lines[settled].at_ms);
    Some((settled, (at - line.at_ms) + age_ms(&line)))
}

pub(super) async fn timed_out(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let talk = &talks[0];
    let prompt = stage.prompt(talk, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let asked = Asked::of(talk, prompt);
    let line = talk.read(|lines| lines[prompt].clone());
    let Some((settled, took)) = outlast(stage, talk, prompt, &specs::DEFAULT_ON_TIME).await else {
        // Not to leave it open.
        talk.say(&asked.decide(stage, "reject").to_string()).await?;
        for spec in [&specs::DEFAULT_APPLIED, &specs::EXPIRED, &specs::COUNTDOWN] {
            stage.not_shown(spec, "no time ran out while we waited");
        }
        return Ok(());
    };
    let timeout = timeout_ms(&line).unwrap_or_default();
    let evidence = talk.read(|lines| shown(lines, [prompt, settled]));
    let late = u64::try_from(limits::DEFAULT_LATE.as_millis()).unwrap_or(u64::MAX);
    let said =
        format!("it was applied {took} ms after the timestamp of a prompt with a timeout of {timeout} ms");
    if took + limits::DEFAULT_EARLY_MS < timeout || took > timeout + late {
        stage.failed(&specs::DEFAULT_ON_TIME, said, evidence.clone());
    } else {
        stage.passed(&specs::DEFAULT_ON_TIME, said);
    }
    countdown(stage, talk, prompt, settled, timeout);
    let answer = talk.say_in_vain(&asked.decide(stage, "accept").to_string()).await?;
    remember(stage, "a reply behind the timeout".into(), answer);
    stage.end_of_line(talk, prompt).await;
    stage.wait(limits::EFFECT_WAIT).await;
    talk.read(|lines| {
        let default = lines[prompt].str("default_decision");
        let calls = judge::calls_of(lines, prompt);
        match (default, calls.len()) {
            ("accept", 1) | ("reject", 0) => {
                stage.passed(&specs::DEFAULT_APPLIED, format!("the default was `{default}`"));
                stage.passed(&specs::EXPIRED, "");
            }
            ("reject", _)
                if lines[..calls[0]]
                    .iter()
                    .any(|line| line.way == crate::conformance::transcript::Way::Vain) =>
            {
                stage.failed(&specs::EXPIRED, "the action was done", shown(lines, [prompt, calls[0]]));
                stage.not_shown(&specs::DEFAULT_APPLIED, "a late reply overtook it");
            }
            (_, calls) => {
                let said = format!("the default was `{default}` and the tool was called {calls} times");
                stage.failed(&specs::DEFAULT_APPLIED, said, evidence);
                stage.not_shown(&specs::EXPIRED, "the default was not applied as it was told");
            }
        }
    });
    Ok(())
}

fn countdown(stage: &Stage<'_>, talk: &Talk, prompt: usize, settled: usize, timeout: u64) {
    if timeout <= 60_000 {
        return stage.inapplicable(
            &specs::COUNTDOWN,
            format!("the prompt waits {} s; more than 60 s count as long", timeout / 1_000),
        );
    }
    let counts = talk.read(|lines| {
        let updates = lines[prompt..settled].iter().filter(|line| line.is(Kind::ProgressUpdated));
        updates.filter(|line| line.session() == lines[prompt].session()).count()
    });
    match counts {
        0 | 1 => stage.failed(&specs::COUNTDOWN, format!("{counts} updates came while it waited"), []),
        _ => stage.passed(&specs::COUNTDOWN, format!("{counts} updates came while it waited")),
    }
}

pub(super) async fn modified(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let talk = &talks[0];
    let prompt = stage.prompt(talk, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let change = json!({"modified_action": {"recount_conformance": "nobody supports this"}});
    let reply = with(Asked::of(talk, prompt).decide(stage, "accept"), change);
    talk.say(&reply.to_string()).await?;
    let settled = talk.until(stage.patience(), |lines| judge::settled(lines, prompt)).await;
    stage.end_of_line(talk, prompt).await;
    talk.read(|lines| match (settled, judge::fate(lines, prompt)) {
        (None, _) => stage.failed(&specs::MODIFIED, "nothing followed it", shown(lines, [prompt])),
        (_, Fate::Done(call)) => {
            stage.failed(&specs::MODIFIED, "the action was done", shown(lines, [prompt, call]));
        }
        _ => stage.passed(&specs::MODIFIED, "the action was not done"),
    });
    Ok(())
}

pub(super) async fn twice(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let talk = &talks[0];
    let prompt = stage.prompt(talk, Scenario::Twice, Kind::AwaitingConfirmation).await?;
    stage.wait(stage.silence()).await;
    let open: Vec<usize> = talk.read(|lines| {
        let same = |line: &Line| {
            line.is(Kind::AwaitingConfirmation)
                && (line.session(), line.str("action"))
                    == (lines[prompt].session(), lines[prompt].str("action"))
        };
        let prompts = (prompt..lines.len()).filter(|number| same(&lines[*number]));
        prompts.filter(|number| judge::settled(lines, *number).is_none()).collect()
    });
    match open.len() {
        0 => stage.not_shown(&specs::ONE_PROMPT, "the prompt was settled before a second could come"),
        1 => stage.passed(&specs::ONE_PROMPT, ""),
        count => {
            let evidence = talk.read(|lines| shown(lines, open.iter().copied()));
            stage.failed(&specs::ONE_PROMPT, format!("{count} prompts for it are open"), evidence);
        }
    }
    // Whatever else is asked in this session is turned down, until it ends.
    let session = talk.read(|lines| lines[prompt].session().to_owned());
    let mut from = prompt;
    for _ in 0..limits::PROMPTS_ANSWERED_MAX {
        let next = |line: &Line| {
            line.session() == session && (line.is(Kind::AwaitingConfirmation) || line.is_terminal())
        };
        let Some(number) = talk.line(from, stage.patience(), next).await else { break };
        if talk.read(|lines| lines[number].is_terminal()) {
            break;
        }
        talk.say(&Asked::of(talk, number).decide(stage, "reject").to_string()).await?;
        from = number + 1;
    }
    Ok(())
}

/// Whether an outcome is one that a prompt's default asks for.
pub(super) fn default_applied(lines: &[Line], prompt: usize) -> Result<String, String> {
    let default = lines[prompt].json.get("default_decision").and_then(Value::as_str).unwrap_or_default();
    let calls = judge::calls_of(lines, prompt).len();
    match (default, calls) {
        ("accept", 1) | ("reject", 0) => Ok(format!("the default `{default}` was applied")),
        _ => Err(format!("the default is `{default}`, and the tool was called {calls} times")),
    }
}

/// Tells how a prompt without anybody who can answer came out.
pub(super) fn tell_default(
    stage: &Stage<'_>,
    spec: &'static Spec,
    lines: &[Line],
    prompt: usize,
    when: &str,
) {
    let settled = judge::settled(lines, prompt);
    match default_applied(lines, prompt) {
        Ok(said) => stage.note(spec, Outcome::Passed, format!("{said} {when}"), []),
        Err(said) => stage.failed(spec, said, shown(lines, [prompt].into_iter().chain(settled))),
    }
}
