//! Tests of the limits on held events: nothing is lost at the limits.

use std::collections::BTreeMap;

use recount_aaep::limits;
use recount_aaep::wire::Body;
use recount_aaep::{Kind, build};
use serde_json::json;

use super::stage::{Stage, called, progress, returned, stage, state};

fn within(stage: &Stage) {
    assert!(stage.shaper.held_events() <= limits::SHAPED_HELD_EVENTS_MAX, "{}", stage.shaper.held_events());
    assert!(stage.shaper.held_bytes() <= limits::SHAPED_HELD_BYTES_MAX, "{}", stage.shaper.held_bytes());
}

#[test]
fn states_are_merged_before_the_rate_is_exceeded() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(build::session_started("Hello."));
    let mut from = "idle";
    for at in 0..100 {
        let to = ["thinking", "calling_tool"][at % 2];
        stage.emit(state(from, to));
        from = to;
        stage.emit(called(&format!("call_{at}")));
        stage.emit(returned(&format!("call_{at}")));
        within(&stage);
    }
    assert_eq!(stage.shaper.counts().ahead, 0);
    assert_eq!(stage.out.len(), 1);
    assert!(stage.shaper.counts().merged >= 50);
    stage.drain();
    let mut state = "idle".to_owned();
    let mut calls = 0;
    for (_, event) in &stage.out {
        match &event.body {
            Body::StateChanged(change) => {
                assert_eq!(change.from_state, state);
                state.clone_from(&change.to_state);
            }
            Body::ToolInvoked(_) | Body::ToolCompleted(_) => calls += 1,
            _ => {}
        }
    }
    assert_eq!((calls, state.as_str()), (200, from));
}

#[test]
fn unjoinable_events_exceed_the_rate_instead_of_being_lost() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    let most = limits::SHAPED_HELD_EVENTS_MAX;
    for at in 0..most + 101 {
        stage.emit(called(&format!("call_{at}")));
        within(&stage);
    }
    assert_eq!(stage.shaper.counts().ahead, 100);
    assert_eq!(stage.out.len(), 101);
    stage.drain();
    let seen: Vec<String> = stage
        .out
        .iter()
        .map(|(_, event)| match &event.body {
            Body::ToolInvoked(call) => call.tool_call_id.clone().unwrap(),
            _ => panic!("{event}"),
        })
        .collect();
    assert_eq!(seen, (0..most + 101).map(|at| format!("call_{at}")).collect::<Vec<_>>());
}

#[test]
fn text_beyond_the_limit_is_sent_in_fragments() {
    let mut stage = stage(&json!({"max_events_per_second": 1, "coalesce_boundaries": ["completion"]}));
    let piece = "much to say ".repeat(1_000);
    for _ in 0..400 {
        stage.write(&piece, None);
        within(&stage);
    }
    assert!(stage.shaper.counts().ahead > 100);
    stage.write_last("");
    stage.drain();
    let joined: String = stage.chunks().iter().map(|(chunk, _)| *chunk).collect();
    assert!(joined == piece.repeat(400));
    assert!(stage.chunks().iter().all(|(chunk, _)| chunk.len() <= limits::SHAPED_CHUNK_BYTES));
}

/// Sessions that never end are dropped at a limit; their held events are not.
#[test]
fn sessions_without_an_end_are_dropped_at_the_limit() {
    let mut stage = stage(&json!({}));
    for at in 0..limits::SHAPED_SESSIONS_MAX + 3_000 {
        stage.emit_in(&format!("sess_{at}"), build::session_started("Hello."));
    }
    assert_eq!(stage.out.len(), limits::SHAPED_SESSIONS_MAX + 3_000);
    let bytes = format!("{:?}", stage.shaper).len();
    assert!(bytes < 400 * limits::SHAPED_SESSIONS_MAX, "{bytes}");
    stage.emit_in(&format!("sess_{}", limits::SHAPED_SESSIONS_MAX + 2_999), progress(1));
    assert_eq!(stage.out.last().unwrap().1.envelope.sequence_number, Some(1), "the newest are known");
}

/// A hundred thousand events of ten sessions at ten events per second, at the speed of a model.
#[test]
fn a_hundred_thousand_events_need_bounded_memory() {
    let mut stage = stage(&json!({"max_events_per_second": 10}));
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut calls = 0_u64;
    let mut most = 0;
    for at in 0..100_000_u64 {
        let session = format!("sess_{}", at % 10);
        match at % 100 {
            0..90 => {
                let word = ["It ", "rains ", "in ", "Lagos", ". "][usize::try_from(at / 10 % 5).unwrap()];
                texts.entry(session.clone()).or_default().push_str(word);
                stage.write_in(&session, "out_1", word, None, false);
            }
            90..95 => drop(stage.emit_in(&session, progress(at))),
            95..99 => drop(stage.emit_in(&session, state("thinking", "thinking"))),
            _ if at % 1_000 == 999 => {
                calls += 1;
                drop(stage.emit_in(&session, called(&format!("call_{at}"))));
            }
            _ => drop(stage.emit_in(&session, progress(at))),
        }
        stage.wait(1);
        if at % 10 == 0 {
            within(&stage);
            most = most.max(stage.shaper.held_bytes());
        }
    }
    for at in 0..10 {
        let session = format!("sess_{at}");
        stage.write_in(&session, "out_1", "", None, true);
        stage.emit_in(&session, build::session_completed("Done."));
    }
    stage.drain();
    let counts = stage.shaper.counts();
    assert_eq!(counts.ahead, 0);
    assert!(most < limits::SHAPED_HELD_BYTES_MAX / 2, "held at most: {most}");
    assert!(stage.out.len() < 1_600, "{}", stage.out.len());
    assert!(counts.sent + counts.merged >= 100_020, "each event went out or into another: {counts:?}");
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (_, event) in &stage.out {
        if let Body::OutputStreaming(output) = &event.body {
            seen.entry(event.envelope.session_id.as_str().into()).or_default().push_str(&output.chunk);
        }
    }
    assert!(seen == texts);
    let kinds = |kind: Kind| stage.out.iter().filter(|(_, event)| event.kind() == Some(kind)).count() as u64;
    assert_eq!((kinds(Kind::ToolInvoked), kinds(Kind::SessionCompleted)), (calls, 10));
}

/// A session that never pauses does not block the others.
#[test]
fn sessions_take_turns() {
    let mut stage = stage(&json!({"max_events_per_second": 2}));
    for at in 0..2_000 {
        stage.write_in("sess_1", "out_1", "On and on. And", None, false);
        stage.emit_in("sess_2", state("thinking", "thinking"));
        stage.emit_in("sess_3", progress(at + 1));
        stage.wait(10);
    }
    for session in ["sess_1", "sess_2", "sess_3"] {
        let sent =
            stage.out.iter().filter(|(_, event)| event.envelope.session_id.as_str() == session).count();
        assert!((12..=15).contains(&sent), "{session} was sent {sent} times of forty");
    }
}
