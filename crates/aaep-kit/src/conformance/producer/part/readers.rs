//! Checks of readers that are slow, disconnect, return, or join in the middle of a session.

use std::time::Duration;

use recount_aaep::Kind;

use super::delivery;
use super::listening::{listen, of_session};
use super::prompt::timeout_ms;
use super::reply::turn_down;
use crate::conformance::conversation::Conversation;
use crate::conformance::judge;
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs;
use crate::conformance::transcript::{Line, Scope};
use crate::limits;
use crate::scenario::Scenario;

/// Sessions that fill the buffers between a producer and a reader that does not read.
fn filling() -> impl Iterator<Item = Scenario> {
    let large = std::iter::repeat_n(Scenario::Handoff, limits::STALL_HANDOFFS);
    std::iter::repeat_n(Scenario::LongStream, 2).chain(large).chain([Scenario::Error])
}

pub(super) async fn slow(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let (quick, slow) = (&conversations[0], &conversations[1]);
    let outcome = beside_slow(harness, quick, slow).await;
    slow.pause(false).await;
    outcome
}

async fn beside_slow(
    harness: &Harness<'_>,
    quick: &Conversation,
    slow: &Conversation,
) -> Result<(), PartError> {
    slow.pause(true).await;
    let mut sessions = Vec::new();
    let began = recount_world::moment();
    for scenario in filling() {
        let session = match harness.begin(quick, scenario).await {
            Ok(session) => session,
            Err(error) => {
                harness.failed(
                    &specs::NOT_HELD_UP,
                    format!("beside a subscription that does not read: {error}"),
                    [],
                );
                return Err(error);
            }
        };
        if harness.end_of(quick, &session).await.is_none() {
            let last = quick.read(|lines| lines.last().map(Line::shown));
            harness.failed(&specs::NOT_HELD_UP, "a session did not end for a subscription that reads", last);
            return Err("a subscription that does not read holds up the others".to_owned());
        }
        sessions.push(session);
    }
    let took = began.elapsed().as_millis();
    harness.passed(&specs::NOT_HELD_UP, format!("{} sessions ended in {took} ms", sessions.len()));
    delivery::order(harness, &quick.lines());
    slow.pause(false).await;
    let last = sessions.last().cloned().unwrap_or_default();
    harness.end_of(slow, &last).await;
    stalled(harness, slow, quick, &sessions);
    Ok(())
}

fn stalled(harness: &Harness<'_>, slow: &Conversation, quick: &Conversation, sessions: &[String]) {
    let spec = &specs::STALLED;
    for session in sessions {
        let (had, all) = (of_session(slow, session), of_session(quick, session));
        let text = |lines: &[Line]| judge::joined(lines).into_values().collect::<Vec<_>>();
        if text(&had) != text(&all) {
            return harness.failed(spec, "text was lost", had.last().map(Line::shown));
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
            return harness.failed(spec, "a critical event or the end of a session was lost", evidence);
        }
    }
    let (had, all) = (slow.read(<[Line]>::len), quick.read(<[Line]>::len));
    harness.passed(spec, format!("{had} messages after the stall, {all} for a reader that never stopped"));
}

/// Reconnects with an unknown event id while a prompt is open.
pub(super) async fn aged(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let whole = &conversations[0];
    let conversation = listen(harness, "a reader that forgets what it had", Scope::Part).await?;
    let id = conversation.id.clone();
    let prompt = harness.prompt(whole, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let first = conversation.cut().await;
    harness.store_transcript(first);
    let has_ids = whole.read(|lines| lines.iter().any(|line| line.is_event() && line.id.is_some()));
    if !has_ids {
        harness.failed(&specs::AGED, delivery::NO_IDS, []);
        turn_down(harness, whole, prompt).await?;
        return Ok(());
    }
    let draw = harness.world.entropy.draw();
    let again = harness.resume("come back with an unknown id", id, &format!("evt_{draw:032x}")).await?;
    let received = again.line(0, while_open(harness, whole, prompt), Line::is_event).await;
    match received.map(|number| again.read(|lines| lines[number].clone())) {
        Some(line) if line.is(Kind::StateChanged) => {
            harness.passed(&specs::AGED, format!("`state.changed` to `{}` came first", line.str("to_state")));
        }
        Some(line) => harness.failed(&specs::AGED, "something else came first", [line.shown()]),
        None => harness.failed(&specs::AGED, "nothing came", []),
    }
    turn_down(harness, whole, prompt).await?;
    harness.finish(again).await;
    Ok(())
}

/// How long to wait for events sent to a late reader: not until the prompt's default is sent to all readers.
pub(super) fn while_open(harness: &Harness<'_>, conversation: &Conversation, prompt: usize) -> Duration {
    let timeout = conversation.read(|lines| timeout_ms(&lines[prompt]));
    let half = timeout.map_or(harness.patience(), |timeout| Duration::from_millis(timeout / 2));
    half.min(harness.patience())
}

pub(super) async fn midway(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let whole = &conversations[0];
    let prompt = harness.prompt(whole, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
    let late = listen(harness, "a subscriber that joins during a session", Scope::Part).await?;
    // `session.started` may come first.
    let summary = |line: &Line| line.is(Kind::StateChanged);
    match late.line(0, while_open(harness, whole, prompt), summary).await {
        Some(number) => {
            let state = late.read(|lines| lines[number].str("to_state").to_owned());
            harness.passed(&specs::MIDWAY, format!("`state.changed` to `{state}` came"));
        }
        None => harness.failed(
            &specs::MIDWAY,
            "no `state.changed` came",
            late.read(|lines| lines.last().map(Line::shown)),
        ),
    }
    turn_down(harness, whole, prompt).await?;
    harness.finish(late).await;
    Ok(())
}

pub(super) async fn survives(harness: &Harness<'_>) -> Result<(), PartError> {
    for _ in 0..limits::BREAKS_TRIED {
        let conversation = listen(harness, "a connection that breaks off", Scope::Part).await?;
        conversation.cut().await;
    }
    let conversation = listen(harness, "after connections broke off", Scope::Whole).await?;
    let ended = match harness.begin(&conversation, Scenario::Brief).await {
        Ok(session) => harness.end_of(&conversation, &session).await.is_some(),
        Err(_) => false,
    };
    let broke = limits::BREAKS_TRIED;
    let wrong = format!("no session ended after {broke} broke off");
    harness.check(&specs::SURVIVES, (!ended).then_some([]), wrong, format!("{broke} broke off"));
    harness.finish(conversation).await;
    Ok(())
}
