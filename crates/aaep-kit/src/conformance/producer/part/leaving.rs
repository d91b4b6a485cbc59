//! Checks of prompts without a subscriber that can answer, and of prompts whose subscriber leaves.
//!
//! The protocol says both that the default is applied at once and that others may still answer (§5.5.4, §5.8.2, §6.6,
//! §6.7). Either passes here: the default, or a prompt that stays open for another who can answer. The report says
//! which it was.

use std::time::Duration;

use recount_aaep::Kind;

use super::prompt::{age_ms, default_applied, tell_default, timeout_ms};
use super::reply::{Asked, shown};
use crate::conformance::judge::{self, Fate};
use crate::conformance::producer::specs::{self, Spec};
use crate::conformance::producer::stage::{Stage, Trouble};
use crate::conformance::report::Outcome;
use crate::conformance::talk::Talk;
use crate::conformance::transcript::{Line, Scope};
use crate::limits;
use crate::scenario::Scenario;

const KIND: Kind = Kind::AwaitingConfirmation;

pub(super) async fn nobody(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let talk = &talks[0];
    let spec = &specs::CANNOT_REPLY;
    let session = stage.begin(talk, Scenario::Confirm).await?;
    let (began, own) = (recount_world::moment(), |line: &Line| line.session() == session);
    // A prompt that others may answer is open until its time is up, which nothing tells here.
    let patience = stage.patience().max(stage.subject.outlast);
    let end = talk.line(0, patience, |line| own(line) && (line.is(KIND) || line.is_terminal())).await;
    let Some(end) = end else {
        stage.not_shown(spec, format!("neither a prompt nor an ending came within {} s", patience.as_secs()));
        return put_away(stage, &session).await;
    };
    if talk.read(|lines| lines[end].is(KIND)) {
        let evidence = talk.read(|lines| shown(lines, [end]));
        stage.failed(
            spec,
            "a prompt was sent to a subscription that had said it cannot answer, and nobody else could",
            evidence,
        );
        stage.end_of(talk, &session).await;
        return Ok(());
    }
    talk.read(|lines| {
        let told = lines.iter().filter(|line| own(line) && line.is(Kind::StateChanged)).count();
        let calls = lines.iter().filter(|line| own(line) && line.is(Kind::ToolInvoked)).count();
        let how = if calls == 0 { "the action was not done" } else { "the action was done" };
        match told {
            0 if calls == 0 => stage.failed(spec, "nothing tells that it was not done", shown(lines, [end])),
            _ if began.elapsed() > limits::CLOSE_GRACE => {
                let said = format!(
                    "nothing was asked and the default was not applied at once, but {} s later, others may have \
                     answered: {how}",
                    began.elapsed().as_secs()
                );
                stage.note(spec, Outcome::Warned, said, shown(lines, [end]));
            }
            _ => stage.passed(spec, format!("nothing was asked and the default was applied at once: {how}")),
        }
    });
    Ok(())
}

/// Settles a prompt that is still open: later parts would join its session in the middle, and must not take that for a
/// session without a beginning.
async fn put_away(stage: &Stage<'_>, session: &str) -> Result<(), Trouble> {
    let talk = stage.listen("a prompt that was left open", Scope::Part).await?;
    let is = |line: &Line| line.session() == session && (line.is(KIND) || line.is_terminal());
    if let Some(found) = talk.line(0, stage.patience(), is).await
        && talk.read(|lines| lines[found].is(KIND))
    {
        talk.say(&Asked::of(&talk, found).decide(stage, "reject").to_string()).await?;
        stage.end_of(&talk, session).await;
    }
    stage.finish(talk).await;
    Ok(())
}

pub(super) async fn one_cannot(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let (talk, other) = (&talks[0], &talks[1]);
    let spec = &specs::ONE_CANNOT;
    let prompt = stage.prompt(talk, Scenario::Confirm, KIND).await?;
    stage.wait(stage.silence()).await;
    let informed = other.read(|lines| lines.iter().any(|line| line.is(KIND)));
    let told = if informed { "who cannot answer was told of it" } else { "who cannot answer was not asked" };
    if talk.read(|lines| judge::settled(lines, prompt)).is_some() {
        stage.end_of_line(talk, prompt).await;
        talk.read(|lines| tell_default(stage, spec, lines, prompt, &format!("at once; {told}")));
        return Ok(());
    }
    talk.say(&Asked::of(talk, prompt).decide(stage, "accept").to_string()).await?;
    let done = |lines: &[Line]| matches!(judge::fate(lines, prompt), Fate::Done(_)).then_some(());
    match talk.until(stage.patience(), done).await {
        Some(()) => stage.passed(spec, format!("the prompt was left open for who can answer; {told}")),
        None => {
            let evidence =
                talk.read(|lines| shown(lines, [prompt].into_iter().chain(judge::settled(lines, prompt))));
            stage.failed(spec, "it was neither settled by its default nor by who could answer", evidence);
        }
    }
    stage.end_of_line(talk, prompt).await;
    Ok(())
}

/// How long a prompt may stay open when no subscriber is left: less than its time after a close, and not
/// longer than the grace for who may come back after a connection broke.
fn grace(stage: &Stage<'_>, prompt: &Line, goodbye: bool) -> Duration {
    let rest = Duration::from_millis(timeout_ms(prompt).unwrap_or_default().saturating_sub(age_ms(prompt)));
    let most = if goodbye { limits::CLOSE_GRACE } else { limits::BREAK_GRACE };
    let late = if rest < most && !goodbye { limits::DEFAULT_LATE } else { Duration::ZERO };
    // By then a close must have shown more than that the time was up.
    let rest = if goodbye { rest * 3 / 4 } else { rest };
    let grace = most.min(rest) + late;
    grace.min(stage.subject.outlast.max(limits::CLOSE_GRACE))
}

/// The only one who can answer says goodbye.
pub(super) async fn last_closes(stage: &Stage<'_>, talks: &mut Vec<Talk>) -> Result<(), Trouble> {
    last_leaves(stage, talks, &specs::LAST_LEAVES, true).await
}

/// The connection of the only one who can answer breaks.
pub(super) async fn last_breaks_off(stage: &Stage<'_>, talks: &mut Vec<Talk>) -> Result<(), Trouble> {
    last_leaves(stage, talks, &specs::BROKEN_OFF, false).await
}

async fn last_leaves(
    stage: &Stage<'_>,
    talks: &mut Vec<Talk>,
    spec: &'static Spec,
    goodbye: bool,
) -> Result<(), Trouble> {
    let prompt = stage.prompt(&talks[1], Scenario::Confirm, KIND).await?;
    let talk = talks.remove(1);
    let watcher = &talks[0];
    let asked = talk.read(|lines| lines[prompt].clone());
    let from = watcher.len();
    let grace = grace(stage, &asked, goodbye);
    if goodbye {
        stage.finish(talk).await;
    } else {
        let transcript = talk.cut().await;
        stage.keep(transcript);
    }
    let left = recount_world::moment();
    // The watcher may have been told of the prompt or not; what follows is what counts. Its stream may lag, so what was
    // said before the prompt can still come.
    let moved = |line: &Line| {
        line.is_event()
            && line.stamp_ms() >= asked.stamp_ms()
            && line.session() == asked.session()
            && ((line.is(Kind::StateChanged) && line.str("to_state") != "awaiting_input")
                || line.is_terminal()
                || line.is(Kind::ToolInvoked))
    };
    let mut settled = watcher.line(from, grace, moved).await;
    let waits_on = settled.is_none();
    // Others may answer who are not subscribers of this protocol. Then the default comes when the time is up.
    let rest = timeout_ms(&asked).unwrap_or_default().saturating_sub(age_ms(&asked));
    let rest = Duration::from_millis(rest) + limits::DEFAULT_LATE;
    if waits_on {
        settled = watcher.line(from, rest.min(stage.subject.outlast), moved).await;
    }
    let took = left.elapsed().as_millis();
    match settled {
        None if rest > stage.subject.outlast => {
            let said = format!(
                "the prompt is open {} s more, for others who may answer; longer than is waited here (--outlast)",
                rest.as_secs()
            );
            stage.not_shown(spec, said);
            put_away(stage, asked.session()).await?;
        }
        None => {
            let said = format!(
                "the prompt was still open {took} ms after the only one who could answer it had left"
            );
            stage.failed(spec, said, [asked.shown()]);
            watcher
                .line(from, stage.patience(), |line| line.is_terminal() && line.session() == asked.session())
                .await;
        }
        Some(_) => {
            stage.end_of(watcher, asked.session()).await;
            let mut lines = vec![asked.clone()];
            lines.extend(watcher.read(|lines| lines[from..].to_vec()));
            match default_applied(&lines, 0) {
                Ok(said) if waits_on => {
                    let said =
                        format!("{said} when its time was up, and not before: others may have answered");
                    stage.note(spec, Outcome::Warned, said, [asked.shown()]);
                }
                Ok(said) => stage
                    .passed(spec, format!("{said} {took} ms after the only one who could answer had left")),
                Err(said) => stage.failed(spec, said, lines.iter().map(Line::shown)),
            }
        }
    }
    Ok(())
}

pub(super) async fn one_leaves(stage: &Stage<'_>, talks: &mut Vec<Talk>) -> Result<(), Trouble> {
    let spec = &specs::ONE_LEAVES;
    let prompt = stage.prompt(&talks[1], Scenario::Confirm, KIND).await?;
    let talk = talks.remove(0);
    let other = &talks[0];
    stage.finish(talk).await;
    stage.wait(stage.silence()).await;
    if other.read(|lines| judge::settled(lines, prompt)).is_some() {
        stage.end_of_line(other, prompt).await;
        other.read(|lines| {
            tell_default(stage, spec, lines, prompt, "although a subscriber was left that could answer")
        });
        return Ok(());
    }
    let said = other.say(&Asked::of(other, prompt).decide(stage, "accept").to_string()).await;
    let done = |lines: &[Line]| matches!(judge::fate(lines, prompt), Fate::Done(_)).then_some(());
    match other.until(stage.patience(), done).await {
        Some(()) => stage.passed(spec, "the prompt was left open for the other, whose reply counted"),
        None => {
            let evidence =
                other.read(|lines| shown(lines, [prompt].into_iter().chain(judge::settled(lines, prompt))));
            stage.failed(spec, "it was neither settled by its default nor by who was left", evidence);
        }
    }
    stage.end_of_line(other, prompt).await;
    said.map(|_| ())
}
