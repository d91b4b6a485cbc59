//! What holds of every run: streams that clients can fold, the same again however they are cut, and the same in every
//! mode as in the history.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use recount_event::family::run::WaitKind;
use recount_event::family::turn;
use recount_event::{Event, ForeignId, Payload};
use recount_face_aap::project::{Mode, Projector};
use recount_run_generator::own_run;
use recount_tier::times;
use serde_json::{Map, Value, json};

use super::checker::{Folded, RequestedMode, Session, as_deltas, check, joined_text};
use super::projected::{
    Segment, bytes, client_calls, counting, frames, generated, history, reply, rest, segments, text_of_all,
};

/// The number of cases; `PROPTEST_CASES` overrides it for long runs.
fn cases(usual: u32) -> u32 {
    u32::try_from(times(usual.into())).unwrap()
}

fn numbers() -> impl Strategy<Value = Vec<u16>> {
    proptest::collection::vec(any::<u16>(), 0..400)
}

/// Everything that is to hold of a run, property or story.
pub(super) fn holds(events: &[Event]) -> BTreeMap<String, u64> {
    let mut seen = BTreeMap::new();
    let own = client_calls(events);
    let all_lines = history(events);
    let lines = counting(&all_lines);
    let mut sessions = [Session::default(), Session::default()];
    for id in &own {
        sessions.iter_mut().for_each(|session| session.carries_out(id));
    }
    let mut after = None;
    for segment in segments(events) {
        for session in &mut sessions {
            settle_elsewhere(events, after, segment, session);
        }
        after = Some(segment.close);
        let expected = generated(&lines, &own, segment);
        let [delta, message] = &mut sessions;
        let delta = in_mode(events, segment, Mode::Delta, RequestedMode::Delta, delta);
        let message = in_mode(events, segment, Mode::Message, RequestedMode::Message, message);
        assert_eq!(message.messages, expected, "P-032, P-066: whole blocks are the history");
        assert_eq!(
            delta.messages,
            as_deltas(&expected),
            "pieces are the history, except for what pieces cannot carry"
        );
        let joined = joined_text(&bytes(&frames(events, Mode::Delta, segment.opening)));
        assert_eq!(
            joined,
            text_of_all(&all_lines, segment),
            "a client that joins all text has the full history"
        );
        assert_eq!((&message.stop, &message.pending), (&delta.stop, &delta.pending));
        agrees(&reply(events, segment.opening), &message);
        stops_for_the_right_reason(events, segment, &message.stop);
        let reason = message.stop["stopReason"].as_str().unwrap().to_owned();
        *seen.entry(reason).or_default() += 1;
    }
    seen
}

/// The stop and its figures, by the events of the segment.
fn stops_for_the_right_reason(events: &[Event], segment: Segment, stop: &Map<String, Value>) {
    let within = |event: &&Event| segment.opening <= event.sequence && event.sequence <= segment.close;
    let turns: Vec<&turn::Completed> = events
        .iter()
        .filter(within)
        .filter_map(|event| match event.payload() {
            Payload::TurnCompleted(completed) => Some(completed.as_ref()),
            _ => None,
        })
        .collect();
    let sum = |of: fn(&turn::Completed) -> Option<u64>| turns.iter().filter_map(|turn| of(turn)).sum::<u64>();
    let mut usage = json!({
        "inputTokens": sum(|turn| turn.input_tokens),
        "outputTokens": sum(|turn| turn.output_tokens),
        "cachedInputTokens": sum(|turn| turn.cached_input_tokens),
    });
    if turns.iter().any(|turn| turn.cost_micros_usd.is_some()) {
        usage["costMicrosUsd"] = json!(sum(|turn| turn.cost_micros_usd));
    }
    assert_eq!(stop["usage"], usage);
    let close = events.iter().find(|event| event.sequence == segment.close).unwrap();
    let (reason, error, awaiting) = match close.payload() {
        Payload::RunFailed(failed) => ("error", Some(failed.code.as_str()), None),
        Payload::RunCancelled(_) => ("error", Some("cancelled"), None),
        Payload::RunWaiting(waiting) => match waiting.waits_for[0].kind {
            WaitKind::Approval | WaitKind::ClientTool => ("tool_use", None, None),
            kind => ("end_turn", None, Some(kind.as_str())),
        },
        _ => match turns.last().map_or("end_turn", |turn| turn.stop_reason.as_str()) {
            "tool_use" => ("end_turn", None, None),
            "error" => ("error", Some("model_error"), None),
            reason => (reason, None, None),
        },
    };
    assert_eq!(stop["stopReason"], reason);
    assert_eq!(stop.get("error").map(|error| error["code"].as_str().unwrap()), error);
    assert_eq!(stop.get("awaiting").map(|awaiting| awaiting["kind"].as_str().unwrap()), awaiting);
}

/// What became of calls between two turns: the application brought it, or reads it in the history.
fn settle_elsewhere(events: &[Event], after: Option<u64>, segment: Segment, session: &mut Session) {
    let Some(after) = after else { return };
    for event in events.iter().filter(|event| after < event.sequence && event.sequence < segment.opening) {
        match event.payload() {
            Payload::ToolRefused(no) => session.knows(&no.tool_call_id),
            Payload::ToolCompleted(ended)
            | Payload::ToolFailed(ended)
            | Payload::ToolCancelled(ended)
            | Payload::ToolTimedOut(ended) => session.knows(&ended.tool_call_id),
            _ => {}
        }
    }
}

fn in_mode(
    events: &[Event],
    segment: Segment,
    mode: Mode,
    requested: RequestedMode,
    session: &mut Session,
) -> Folded {
    let all = frames(events, mode, segment.opening);
    let whole = bytes(&all);
    for at in 0..all.len() {
        let last = all[at].id.unwrap();
        let again = rest(frames(events, mode, segment.opening), last);
        assert!(bytes(&again) == bytes(&all[at + 1..]), "after a cut at {last}, the rest differs");
    }
    // Projecting from the opening gives the same frames as projecting everything before.
    let mut projector = Projector::new(mode, segment.opening);
    let from_opening = events.iter().filter(|event| event.sequence >= segment.opening);
    assert_eq!(from_opening.flat_map(|event| projector.event(event)).collect::<Vec<_>>(), all);
    check(&whole, requested, session)
}

/// The reply in one piece is what a client makes of the stream.
fn agrees(reply: &str, folded: &Folded) {
    let mut reply: Map<String, Value> = serde_json::from_str(reply).unwrap();
    assert_eq!(reply.remove("messages"), Some(Value::Array(folded.messages.clone())), "P-029");
    assert_eq!(reply, folded.stop);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(200)) })]

    /// P-021 to P-024, P-026, P-029, P-031, P-032, P-038 to P-040, P-042, P-043, P-045, P-050.
    #[test]
    fn every_turn_of_every_run_can_be_folded_resumed_and_agrees_with_the_history(numbers in numbers()) {
        holds(&own_run(&numbers));
    }
}

/// What the runs above are worth: all sorts of stops come in them, and in numbers.
#[test]
fn the_generator_makes_all_kinds_of_turns() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut types: BTreeSet<String> = BTreeSet::new();
    let (mut mixed, mut abandoned) = (0, 0);
    for seed in 0..150_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let numbers: Vec<u16> = (0..400)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 24) as u16
            })
            .collect();
        let events = own_run(&numbers);
        types.extend(events.iter().map(|event| event.type_name().to_owned()));
        mixed += u64::from(is_mixed(&events));
        abandoned += segments(&events).iter().filter(|segment| is_retracted(&events, **segment)).count();
        for (reason, count) in holds(&events) {
            *seen.entry(reason).or_default() += count;
        }
    }
    for (reason, least) in
        [("end_turn", 50), ("tool_use", 100), ("max_tokens", 5), ("refusal", 5), ("error", 20)]
    {
        assert!(seen.get(reason).is_some_and(|count| *count >= least), "{seen:?}");
    }
    for name in [
        "approval.timed_out",
        "approval.resolved",
        "clarification.answered",
        "clarification.timed_out",
        "handoff.acknowledged",
        "handoff.rejected",
        "gap.run_disconnected",
        "turn.failed",
        "tool.cancelled",
        "tool.timed_out",
        "assistant.thinking_delta",
    ] {
        assert!(types.contains(name), "{name} comes in no run");
    }
    assert!(abandoned >= 20, "{abandoned} answers were abandoned");
    assert!(mixed >= 10, "{mixed} runs wait for permissions and results at once");
}

/// Whether sent pieces are retracted.
fn is_retracted(events: &[Event], segment: Segment) -> bool {
    let stream = bytes(&frames(events, Mode::Delta, segment.opening));
    String::from_utf8(stream).unwrap().contains("\"retracts\":")
}

/// P-049: both sorts of answers are waited for at once, and a call that needs neither ran in the same step.
fn is_mixed(events: &[Event]) -> bool {
    let refused_or_run: BTreeSet<ForeignId> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::ToolCompleted(ended) => Some(ended.tool_call_id.clone()),
            _ => None,
        })
        .collect();
    events.iter().any(|event| match event.payload() {
        Payload::RunWaiting(waiting) => {
            let kinds: BTreeSet<&str> = waiting.waits_for.iter().map(|one| one.kind.as_str()).collect();
            kinds.len() > 1 && !refused_or_run.is_empty()
        }
        _ => false,
    })
}
