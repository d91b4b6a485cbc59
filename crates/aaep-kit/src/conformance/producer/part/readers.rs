//! Checks of readers that are slow, disconnect, return, or join in the middle of a session.

use std::time::Duration;

use recount_aaep::Kind;

use super::delivery;
use super::listening::{listen, of_session};
use super::prompt::timeout_ms;
use super::reply::turn_down;
use crate::conformance::judge;
use crate::conformance::producer::specs;
use crate::conformance::producer::stage::{Stage, Trouble};
use crate::conformance::talk::Talk;
use crate::conformance::transcript::{Line, Scope};
use crate::limits;
use crate::scenario::Scenario;

/// Sessions that fill what lies between a producer and a reader that does not read.
fn filling() -> impl Iterator<Item = Scenario> {
    let large = std::iter::repeat_n(Scenario::Handoff, limits::STALL_HANDOFFS);
    std::iter::repeat_n(Scenario::LongStream, 2).chain(large).chain([Scenario::Error])
}

pub(super) async fn slow(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let (quick, slow) = (&talks[0], &talks[1]);
    let outcome = beside_slow(stage, quick, slow).await;
    slow.pause(false).await;
    outcome
}

async fn beside_slow(stage: &Stage<'_>, quick: &Talk, slow: &Talk) -> Result<(), Trouble> {
    slow.pause(true).await;
    let mut sessions = Vec::new();
    let began = recount_world::moment();
    for scenario in filling() {
        let session = match stage.begin(quick, scenario).await {
            Ok(session) => session,
            Err(trouble) => {
                stage.failed(
                    &specs::NOT_HELD_UP,
                    format!("beside a subscription that does not read: {trouble}"),
                    [],
                );
                return Err(trouble);
            }
        };
        if stage.end_of(quick, &session).await.is_none() {
            let last = quick.read(|lines| lines.last().map(Line::shown));
            stage.failed(
                &specs::NOT_HELD_UP,
                "a session did not come to its end for a subscription that reads",
                last,
            );
            return Err("a subscription that does not read holds up the others".to_owned());
        }
        sessions.push(session);
    }
    let took = began.elapsed().as_millis();
    stage.passed(&specs::NOT_HELD_UP, format!("{} sessions came to their end in {took} ms", sessions.len()));
    delivery::order(stage, &quick.lines());
    slow.pause(false).await;
    let last = sessions.last().cloned().unwrap_or_default();
    stage.end_of(slow, &last).await;
    stalled(stage, slow, quick, &sessions);
    Ok(())
}

fn stalled(stage: &Stage<'_>, slow: &Talk, quick: &Talk, sessions: &[String]) {
    let spec = &specs::STALLED;
    for session in sessions {
        let (had, all) = (of_session(slow, session), of_session(quick, session));
        let text = |lines: &[Line]| judge::joined(lines).into_values().collect::<Vec<_>>();
        if text(&had) != text(&all) {
            return stage.failed(spec, "text was lost", had.last().map(Line::shown));
        }
        let must = |lines: &[Line]| {
            lines
                .iter()
                .filter(|line| line.is_critical() || line.is_terminal())
                .filter_map(Line::kind)
                .collect::<Vec<_>>()
        };
        if must(&had) != must(&all) {
            let evidence = [format!("had: {:?}", must(&had)), format!("others: {:?}", must(&all))];
            return stage.failed(spec, "what is critical, or ends a session, was lost", evidence);
        }
    }
    let (had, all) = (slow.read(<[Line]>::len), quick.read(<[Line]>::len));
    stage.passed(spec, format!("{had} messages after the stall, {all} for a reader that never stopped"));
}

/// Comes back with an id that nobody knows, while a prompt is open.
pub(super) async fn aged(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let whole = &talks[0];
    let talk = listen(stage, "a reader that forgets what it had", Scope::Part).await?;
    let id = talk.id.clone();
    let prompt = stage.prompt(whole, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let first = talk.cut().await;
    stage.keep(first);
    let has_ids = whole.read(|lines| lines.iter().any(|line| line.is_event() && line.id.is_some()));
    if !has_ids {
        stage.failed(&specs::AGED, delivery::NO_IDS, []);
        turn_down(stage, whole, prompt).await?;
        return Ok(());
    }
    let draw = stage.world.entropy.draw();
    let again = stage.resume("come back with an unknown id", id, &format!("evt_{draw:032x}")).await?;
    let heard = again.line(0, while_open(stage, whole, prompt), Line::is_event).await;
    match heard.map(|number| again.read(|lines| lines[number].clone())) {
        Some(line) if line.is(Kind::StateChanged) => {
            stage.passed(&specs::AGED, format!("`state.changed` to `{}` came first", line.str("to_state")));
        }
        Some(line) => stage.failed(&specs::AGED, "something else came first", [line.shown()]),
        None => stage.failed(&specs::AGED, "nothing came", []),
    }
    turn_down(stage, whole, prompt).await?;
    stage.finish(again).await;
    Ok(())
}

/// How long what is told to a late reader is waited for: not until the prompt's default is told to everybody.
fn while_open(stage: &Stage<'_>, talk: &Talk, prompt: usize) -> Duration {
    let timeout = talk.read(|lines| timeout_ms(&lines[prompt]));
    let half = timeout.map_or(stage.patience(), |timeout| Duration::from_millis(timeout / 2));
    half.min(stage.patience())
}

pub(super) async fn midway(stage: &Stage<'_>, talks: &[Talk]) -> Result<(), Trouble> {
    let whole = &talks[0];
    let prompt = stage.prompt(whole, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let late = listen(stage, "who comes amid a session", Scope::Part).await?;
    // `session.started` may come first.
    let summary = |line: &Line| line.is(Kind::StateChanged);
    match late.line(0, while_open(stage, whole, prompt), summary).await {
        Some(number) => {
            let state = late.read(|lines| lines[number].str("to_state").to_owned());
            stage.passed(&specs::MIDWAY, format!("`state.changed` to `{state}` came"));
        }
        None => stage.failed(
            &specs::MIDWAY,
            "no `state.changed` came",
            late.read(|lines| lines.last().map(Line::shown)),
        ),
    }
    turn_down(stage, whole, prompt).await?;
    stage.finish(late).await;
    Ok(())
}

pub(super) async fn survives(stage: &Stage<'_>) -> Result<(), Trouble> {
    for _ in 0..limits::BREAKS_TRIED {
        let talk = listen(stage, "a connection that breaks off", Scope::Part).await?;
        talk.cut().await;
    }
    let talk = listen(stage, "after connections broke off", Scope::Whole).await?;
    let ended = match stage.begin(&talk, Scenario::Brief).await {
        Ok(session) => stage.end_of(&talk, &session).await.is_some(),
        Err(_) => false,
    };
    let broke = limits::BREAKS_TRIED;
    let wrong = format!("after {broke} broke off no session came to its end");
    stage.hold(&specs::SURVIVES, (!ended).then_some([]), wrong, format!("{broke} broke off"));
    stage.finish(talk).await;
    Ok(())
}
