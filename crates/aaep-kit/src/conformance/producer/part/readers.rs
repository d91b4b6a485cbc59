//! Readers that are slow, break off, come back, or come amid a session.

use std::collections::BTreeSet;

use recount_aaep::Kind;
use serde_json::Value;

use super::reply::{Asked, shown};
use super::terms::fine;
use crate::conformance::judge;
use crate::conformance::producer::specs;
use crate::conformance::producer::stage::{Stage, Trouble};
use crate::conformance::talk::Talk;
use crate::conformance::transcript::{Line, Scope, Transcript};
use crate::limits;
use crate::link::Target;
use crate::scenario::Scenario;

pub(super) async fn run(stage: &Stage<'_>) -> Result<(), Trouble> {
    stage.needs_sharing()?;
    if stage.wants(&[&specs::NOT_HELD_UP, &specs::STALLED, &specs::IN_ORDER]) {
        slow(stage).await?;
    }
    if stage.wants(&[&specs::SURVIVES]) {
        survives(stage).await?;
    }
    if stage.wants(&[&specs::RESUMED, &specs::AGED, &specs::AT_LEAST_ONCE]) {
        resumed(stage).await?;
    }
    if stage.wants(&[&specs::MIDWAY]) {
        midway(stage).await?;
    }
    Ok(())
}

/// Sessions that fill what lies between a producer and a reader that does not read.
fn filling() -> impl Iterator<Item = Scenario> {
    let large = std::iter::repeat_n(Scenario::Handoff, limits::STALL_HANDOFFS);
    std::iter::repeat_n(Scenario::LongStream, 2).chain(large).chain([Scenario::Error])
}

async fn listen(stage: &Stage<'_>, label: &str, scope: Scope) -> Result<Talk, Trouble> {
    if stage.has_own_terms() {
        stage.subscribe(label, scope, fine()).await
    } else {
        stage.listen(label, scope).await
    }
}

fn of_session(talk: &Talk, session: &str) -> Vec<Line> {
    talk.read(|lines| {
        lines.iter().filter(|line| line.is_event() && line.session() == session).cloned().collect()
    })
}

async fn slow(stage: &Stage<'_>) -> Result<(), Trouble> {
    let slow = listen(stage, "a reader that does not read", Scope::Part).await?;
    let quick = listen(stage, "a reader beside it", Scope::Whole).await?;
    let outcome = async {
        slow.pause(true).await;
        let mut sessions = Vec::new();
        let began = recount_world::moment();
        for scenario in filling() {
            let session = match stage.begin(&quick, scenario).await {
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
            if stage.end_of(&quick, &session).await.is_none() {
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
        stage.passed(
            &specs::NOT_HELD_UP,
            format!("{} sessions came to their end in {took} ms", sessions.len()),
        );
        order(stage, &quick.lines());
        slow.pause(false).await;
        let last = sessions.last().cloned().unwrap_or_default();
        stage.end_of(&slow, &last).await;
        stalled(stage, &slow, &quick, &sessions);
        Ok(())
    };
    let outcome = outcome.await;
    slow.pause(false).await;
    stage.finish(slow).await;
    stage.finish(quick).await;
    outcome
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
    stage.passed(spec, format!("{had} messages behind the rest, {all} for who read all the time"));
}

fn order(stage: &Stage<'_>, lines: &[Line]) {
    if let Some((line, expected)) = judge::misplaced(lines) {
        return stage.failed(
            &specs::IN_ORDER,
            format!("the next piece should be at {expected}"),
            [line.shown()],
        );
    }
    let number = |line: &Line| line.json.get("sequence_number").and_then(Value::as_u64);
    let mut last: std::collections::BTreeMap<&str, (Option<u64>, Option<i64>)> =
        std::collections::BTreeMap::new();
    for line in lines.iter().filter(|line| line.is_event()) {
        let before = last.insert(line.session(), (number(line), line.stamp_ms()));
        let Some((sequence, stamp)) = before else { continue };
        let falls =
            |before: Option<u64>, now: Option<u64>| matches!((before, now), (Some(a), Some(b)) if b <= a);
        if falls(sequence, number(line)) || matches!((stamp, line.stamp_ms()), (Some(a), Some(b)) if b < a) {
            return stage.failed(&specs::IN_ORDER, "an event came behind a later one", [line.shown()]);
        }
    }
    stage.passed(&specs::IN_ORDER, format!("{} events", lines.iter().filter(|line| line.is_event()).count()));
}

/// A connection that breaks amid a story, and one that comes back behind the last event it had.
async fn resumed(stage: &Stage<'_>) -> Result<(), Trouble> {
    if !matches!(stage.target, Target::Http { .. }) {
        for spec in [&specs::RESUMED, &specs::AGED, &specs::AT_LEAST_ONCE] {
            stage.inapplicable(spec, "this transport has no way to go on; who comes back begins anew");
        }
        return Ok(());
    }
    let whole = listen(stage, "a reader that stays", Scope::Whole).await?;
    let outcome = async {
        let talk = listen(stage, "a reader that breaks off", Scope::Part).await?;
        let id = talk.id.clone();
        let session = stage.begin(&whole, Scenario::LongStream).await?;
        let some = |lines: &[Line]| (lines.iter().filter(|line| line.is_event()).count() >= 10).then_some(());
        talk.until(stage.patience(), some).await;
        let mut first = talk.cut().await;
        let last = first.lines.iter().rfind(|line| line.is_event()).and_then(|line| line.id.clone());
        let Some(last) = last else {
            stage.keep(first);
            for spec in [&specs::RESUMED, &specs::AGED] {
                stage.failed(spec, "frames carry no id, so nobody can say what was had", []);
            }
            stage.not_shown(&specs::AT_LEAST_ONCE, "nobody can say what was had");
            stage.end_of(&whole, &session).await;
            return Ok(());
        };
        stage.wait(limits::EFFECT_WAIT).await;
        let again = stage.resume("the same reader, come back", id, &last).await?;
        stage.end_of(&whole, &session).await;
        stage.end_of(&again, &session).await;
        first.lines.extend(again.lines());
        complete(stage, &first, &of_session(&whole, &session), &session, &last);
        stage.keep(first);
        stage.finish(again).await;
        aged(stage).await
    };
    let outcome = outcome.await;
    stage.finish(whole).await;
    outcome
}

fn complete(stage: &Stage<'_>, had: &Transcript, all: &[Line], session: &str, last: &str) {
    // The same event may come twice; it counts once.
    let mut ids = BTreeSet::new();
    let had: Vec<Line> =
        had.of_session(session).filter(|line| ids.insert(line.str("event_id").to_owned())).cloned().collect();
    let text = |lines: &[Line]| judge::joined(lines).into_values().collect::<String>();
    let rest = |lines: &[Line]| {
        let others =
            lines.iter().filter(|line| !line.is(Kind::OutputStreaming) && !line.is(Kind::ProgressUpdated));
        others.map(|line| format!("{} {}", line.type_name(), line.str("to_state"))).collect::<Vec<_>>()
    };
    let (mine, theirs) = (text(&had), text(all));
    if mine == theirs && rest(&had) == rest(all) {
        stage.passed(&specs::RESUMED, format!("behind `{last}`: nothing was missed"));
        return stage
            .passed(&specs::AT_LEAST_ONCE, format!("{} of {} events were had", had.len(), all.len()));
    }
    let said = format!(
        "{} of {} characters and {} of {} other events were had",
        mine.chars().count(),
        theirs.chars().count(),
        rest(&had).len(),
        rest(all).len()
    );
    let seam = had.iter().position(|line| line.id.as_deref() == Some(last)).unwrap_or_default();
    let evidence = shown(&had, seam..(seam + 3).min(had.len()));
    stage.failed(&specs::RESUMED, said.clone(), evidence.clone());
    stage.failed(&specs::AT_LEAST_ONCE, said, evidence);
}

/// Comes back with an id that nobody knows, while a prompt is open.
async fn aged(stage: &Stage<'_>) -> Result<(), Trouble> {
    let whole = listen(stage, "a reader with an open prompt", Scope::Part).await?;
    let outcome = async {
        let talk = listen(stage, "a reader that forgets what it had", Scope::Part).await?;
        let id = talk.id.clone();
        let prompt = stage.prompt(&whole, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
        let first = talk.cut().await;
        stage.keep(first);
        let draw = stage.world.entropy.draw();
        let again = stage.resume("come back with an unknown id", id, &format!("evt_{draw:032x}")).await?;
        let heard = again.line(0, stage.silence() * 2, Line::is_event).await;
        match heard.map(|number| again.read(|lines| lines[number].clone())) {
            Some(line) if line.is(Kind::StateChanged) => {
                stage.passed(
                    &specs::AGED,
                    format!("`state.changed` to `{}` came first", line.str("to_state")),
                );
            }
            Some(line) => stage.failed(&specs::AGED, "something else came first", [line.shown()]),
            None => stage.failed(&specs::AGED, "nothing came", []),
        }
        whole.say(&Asked::of(&whole, prompt).decide(stage, "reject").to_string()).await?;
        stage.end_of_line(&whole, prompt).await;
        stage.finish(again).await;
        Ok(())
    };
    let outcome = outcome.await;
    stage.finish(whole).await;
    outcome
}

async fn midway(stage: &Stage<'_>) -> Result<(), Trouble> {
    let whole = listen(stage, "who was there before", Scope::Part).await?;
    let outcome = async {
        let prompt = stage.prompt(&whole, Scenario::Confirm, Kind::AwaitingConfirmation).await?;
        let late = listen(stage, "who comes amid a session", Scope::Part).await?;
        // That the session had begun may be told first.
        let summary = |line: &Line| line.is(Kind::StateChanged);
        match late.line(0, stage.silence() * 2, summary).await {
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
        whole.say(&Asked::of(&whole, prompt).decide(stage, "reject").to_string()).await?;
        stage.end_of_line(&whole, prompt).await;
        stage.finish(late).await;
        Ok(())
    };
    let outcome = outcome.await;
    stage.finish(whole).await;
    outcome
}

async fn survives(stage: &Stage<'_>) -> Result<(), Trouble> {
    for _ in 0..limits::BREAKS_TRIED {
        let talk = listen(stage, "a connection that breaks off", Scope::Part).await?;
        talk.cut().await;
    }
    let talk = listen(stage, "after connections broke off", Scope::Whole).await?;
    let ended = match stage.begin(&talk, Scenario::Brief).await {
        Ok(session) => stage.end_of(&talk, &session).await.is_some(),
        Err(_) => false,
    };
    if ended {
        stage.passed(&specs::SURVIVES, format!("{} broke off", limits::BREAKS_TRIED));
    } else {
        stage.failed(
            &specs::SURVIVES,
            format!("after {} broke off no session came to its end", limits::BREAKS_TRIED),
            [],
        );
    }
    stage.finish(talk).await;
    Ok(())
}
