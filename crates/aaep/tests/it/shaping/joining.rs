//! Tests of joining a session in its middle: the current state is sent first, then open prompts, then later events.

use recount_aaep::build::{self, Frame};
use recount_aaep::wire::{EventId, Urgency};
use serde_json::{Value, json};

use super::stage::{Stage, called, progress, prompt, stage, state};

/// Whether an id marks a lead-in event.
fn is_lead_in(id: &EventId) -> bool {
    id.as_str().starts_with("evt_Z")
}

fn joining(wish: &Value) -> Stage {
    let mut stage = stage(wish);
    stage.shaper = stage.shaper.with_lead_in(is_lead_in);
    stage
}

/// Pushes a lead-in with the current state of a session.
fn push_state(stage: &mut Stage, session: &str) {
    let draft = build::state_changed("thinking", "thinking", "The agent is thinking.");
    push_state_as(stage, session, draft);
}

fn push_state_as(
    stage: &mut Stage,
    session: &str,
    draft: recount_aaep::build::Draft<recount_aaep::wire::StateChanged>,
) {
    let frame = Frame::new(session, "planner", "en-US").unwrap();
    let id = format!("evt_Z{session}").replace('_', "").replacen("evt", "evt_", 1);
    stage.push(frame.event(&id, i64::try_from(stage.now).unwrap(), draft).unwrap());
}

fn sessions(stage: &Stage) -> Vec<(&str, &str)> {
    let sessions = stage.out.iter().map(|(_, event)| event.envelope.session_id.as_str());
    sessions.zip(stage.kinds()).collect()
}

#[test]
fn the_current_state_is_sent_first_then_open_prompts() {
    let mut stage = joining(&json!({"max_events_per_second": 1}));
    for session in ["sess_1", "sess_2", "sess_3"] {
        push_state(&mut stage, session);
        if session == "sess_2" {
            stage.emit_in(session, prompt("rpl_1"));
        }
    }
    // The first used the rate; the second was sent with its prompt, which does not wait.
    assert_eq!(
        sessions(&stage),
        [("sess_1", "state.changed"), ("sess_2", "state.changed"), ("sess_2", "awaiting.confirmation")]
    );
    assert_eq!(stage.now, 0);
    stage.emit_in("sess_1", state("thinking", "calling_tool"));
    stage.emit_in("sess_1", called("call_1"));
    push_state(&mut stage, "sess_4");
    stage.drain();
    let rest = ["sess_3", "sess_4", "sess_1", "sess_1"];
    assert_eq!(sessions(&stage)[3..].iter().map(|(session, _)| *session).collect::<Vec<_>>(), rest);
    // The rate applies to them too: one was overdrawn, and each of the others took one second.
    let times: Vec<u64> = stage.out.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 0, 0, 2_000, 3_000, 4_000, 5_000]);
}

#[test]
fn nothing_is_merged_with_the_current_state() {
    let mut stage = joining(&json!({"max_events_per_second": 1, "cognitive_load": "low"}));
    stage.emit(called("call_0"));
    push_state(&mut stage, "sess_1");
    for to in ["calling_tool", "thinking", "calling_tool"] {
        stage.emit(state("thinking", to));
        stage.emit(progress(1));
    }
    stage.drain();
    let ids: Vec<bool> = stage.out.iter().map(|(_, event)| is_lead_in(&event.envelope.event_id)).collect();
    assert_eq!(ids[..2], [false, true]);
    assert_eq!(ids.iter().filter(|is| **is).count(), 1);
    assert!(!stage.out[1].1.envelope.extensions.contains_key("recount"));
    assert_eq!(stage.kinds()[2..], ["state.changed", "progress.updated"], "the others were merged");
}

/// Lead-ins do not bypass the rate or the filters.
#[test]
fn a_critical_mark_on_a_lead_in_is_ignored() {
    let critical =
        || build::state_changed("thinking", "thinking", "The agent is thinking.").urgency(Urgency::Critical);
    let mut stage = joining(&json!({"max_events_per_second": 1}));
    for session in 0..20 {
        push_state_as(&mut stage, &format!("sess_{session}"), critical());
    }
    assert_eq!((stage.out.len(), stage.shaper.counts().metered), (1, 0));
    stage.drain();
    assert_eq!(stage.out.len(), 20);
    assert!(stage.out.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 1_000));

    let mut stage = joining(&json!({"event_filters": {"exclude": ["aaep:agent.state.changed"]}}));
    push_state_as(&mut stage, "sess_1", critical());
    assert_eq!((stage.out.len(), stage.shaper.counts().filtered), (0, 1));
}
