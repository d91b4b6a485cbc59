//! Tests of filters, the rate, critical events and numbers: for any stream, nothing is lost and no second exceeds the
//! rate.

use std::collections::BTreeMap;

use proptest::prelude::*;
use recount_aaep::build;
use recount_aaep::wire::{Body, CancelledBy, ErrorCategory, Urgency};
use recount_aaep::{Event, Kind};
use serde_json::json;

use super::stage::{Stage, called, handoff, progress, prompt, returned, stage, state};

/// R-117, G-20: `exclude` overrides `include`, a star matches the rest, and critical events pass (R-116).
#[test]
fn filters_drop_excluded_events() {
    let everything = |stage: &mut Stage| {
        stage.emit(build::session_started("Hello."));
        stage.emit(state("idle", "calling_tool"));
        stage.emit(called("call_1"));
        stage.emit(returned("call_1"));
        stage.emit(prompt("rpl_1"));
        stage.write_last("Done.");
        stage.emit(handoff());
        stage.emit(build::session_errored(ErrorCategory::Unknown, "It broke."));
    };
    for (filters, passed) in [
        (
            json!({"include": ["aaep:agent.tool.*"], "exclude": ["aaep:agent.tool.completed"]}),
            &["tool.invoked", "awaiting.confirmation", "handoff.requested", "session.errored"][..],
        ),
        (
            json!({"exclude": ["aaep:agent.*"]}),
            &["awaiting.confirmation", "handoff.requested", "session.errored"],
        ),
        (
            json!({"exclude": ["aaep:agent.s*", "https://aaep-protocol.org/types/agent.tool.*"]}),
            &["awaiting.confirmation", "output.streaming", "handoff.requested", "session.errored"],
        ),
    ] {
        let mut stage = stage(&json!({"event_filters": filters}));
        everything(&mut stage);
        assert_eq!(stage.kinds(), passed, "{filters}");
        let numbers: Vec<_> =
            stage.out.iter().map(|(_, event)| event.envelope.sequence_number.unwrap()).collect();
        assert_eq!(
            numbers,
            (0..passed.len() as u64).collect::<Vec<_>>(),
            "filtered events leave no gap in the numbers (G-27)"
        );
    }
}

/// A session whose ending is filtered out still gets all its text.
#[test]
fn text_is_sent_even_if_the_ending_is_filtered() {
    let mut stage = stage(&json!({"event_filters": {"exclude": ["aaep:agent.session.*"]}}));
    stage.write("An unfinished", None);
    stage.emit(build::session_cancelled(CancelledBy::User, "Given up."));
    assert_eq!(stage.chunks(), [("An unfinished", "none")]);
}

/// R-116: a prompt never waits. G-26: earlier text is sent before it, joined: first up to an agreed boundary, then the
/// rest as a fragment, which the reader joins to the continuation (R-061).
#[test]
fn a_prompt_is_sent_at_once_after_all_text_before_it() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(build::session_started("Hello."));
    stage.emit(called("call_1"));
    for piece in ["I will pay. ", "It costs 5 €. ", "Are you"] {
        stage.write(piece, None);
    }
    stage.emit(progress(1));
    stage.emit(prompt("rpl_1"));
    assert_eq!(
        stage.kinds(),
        ["session.started", "output.streaming", "output.streaming", "awaiting.confirmation"]
    );
    assert_eq!(stage.chunks(), [("I will pay. It costs 5 €. ", "sentence"), ("Are you", "none")]);
    assert_eq!(stage.now, 0);
    stage.write_last(" sure?");
    stage.drain();
    assert_eq!(stage.kinds()[4..], ["tool.invoked", "progress.updated", "output.streaming"]);
    assert_eq!(stage.chunks()[2..], [(" sure?", "completion")]);
    // The overdraft delays later events, two seconds at most.
    assert_eq!(stage.out.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 0, 0, 0, 3_000, 4_000, 5_000]);
    assert!(
        stage
            .out
            .windows(2)
            .all(|pair| pair[0].1.envelope.timestamp.millis() <= pair[1].1.envelope.timestamp.millis())
    );
}

/// Texts with another waiting event between them are joined before a prompt.
#[test]
fn text_on_both_sides_of_a_call_is_joined_before_a_prompt() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(build::session_started("Hello."));
    stage.write("One.", None);
    stage.emit(called("call_1"));
    stage.write(" Two", None);
    stage.emit(prompt("rpl_1"));
    assert_eq!(stage.chunks(), [("One.", "sentence"), (" Two", "none")]);
    assert_eq!(stage.kinds().last(), Some(&"awaiting.confirmation"));
    stage.write_last(" and three.");
    stage.drain();
    assert_eq!(stage.chunks()[2..], [(" and three.", "completion")]);
}

/// R-185: a character that may still grow is not sent before a prompt, but after it, complete.
#[test]
fn text_before_a_prompt_is_not_cut_inside_a_character() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(build::session_started("Hello."));
    stage.write("Look 👩", None);
    stage.emit(prompt("rpl_1"));
    assert_eq!(stage.chunks(), [("Look ", "none")]);
    stage.write_last("\u{200D}💻.");
    stage.drain();
    assert_eq!(stage.chunks()[1..], [("👩\u{200D}💻.", "completion")]);
}

/// R-030: no event precedes the start of its session, not even a critical one.
#[test]
fn a_session_begins_before_its_prompt() {
    for urgent in ["prompt", "error", "progress"] {
        let mut stage = stage(&json!({"max_events_per_second": 1}));
        stage.emit_in("sess_2", build::session_started("Hello."));
        stage.emit(build::session_started("Hello."));
        stage.write("Just one", None);
        match urgent {
            "prompt" => stage.emit(prompt("rpl_1")),
            "error" => stage.emit(build::session_errored(ErrorCategory::Unknown, "It broke.")),
            _ => stage.emit(progress(1).urgency(Urgency::Critical)),
        };
        let begins = stage.out[1].1.envelope.session_id.as_str();
        assert_eq!((stage.kinds()[1], begins), ("session.started", "sess_1"), "{urgent}");
        assert_eq!(stage.now, 0);
    }
}

/// No event follows an ending, so all held events are sent before an error, which does not wait (R-031, R-034).
#[test]
fn an_error_is_sent_at_once_after_all_held_events() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(build::session_started("Hello."));
    stage.emit_in("sess_2", build::session_started("Hello, too."));
    stage.emit(state("idle", "calling_tool"));
    stage.emit(called("call_1"));
    stage.write("Half a", None);
    stage.emit(build::session_errored(ErrorCategory::Transient, "It broke."));
    assert_eq!(
        stage.kinds(),
        ["session.started", "state.changed", "tool.invoked", "output.streaming", "session.errored"]
    );
    stage.drain();
    assert_eq!(stage.out[5].0, 3_000, "two seconds at most for the overdraft, and its own");
}

/// G-24: marking everything critical does not bypass the limits.
#[test]
fn unneeded_critical_events_are_metered() {
    let mut stage = stage(&json!({"max_events_per_second": 1, "event_filters": {"exclude": ["*"]}}));
    for step in 0..50 {
        stage.emit(progress(step + 1).urgency(Urgency::Critical));
    }
    assert_eq!(stage.out.len(), 6, "the meter's five, and one of the rate");
    assert_eq!(stage.shaper.counts().metered, 45);
    stage.drain();
    assert_eq!(stage.out.len(), 50, "they are late, but none is lost, joined or filtered");

    let mut stage = super::stage::stage(&json!({"max_events_per_second": 1}));
    for at in 0..50 {
        stage.emit(prompt(&format!("rpl_{at}")));
    }
    assert_eq!(stage.out.len(), 50, "prompts are critical by themselves");
    assert_eq!(stage.shaper.counts().metered, 0);
}

#[test]
fn extension_types_may_be_declared_critical() {
    let alert = |at: u32| {
        Event::parse(&format!(
            r#"{{"@context":["https://aaep-protocol.org/context/v1","https://example.org/medai/v1"],"type":"medai:alert",
            "event_id":"evt_a{at}","session_id":"sess_1","timestamp":"2026-05-24T14:22:11.342Z","urgency":"critical",
            "producer":{{"agent_id":"a"}},"dose":{at}}}"#
        ))
        .unwrap()
    };
    for (allowed, at_once) in [(&["medai:alert"][..], 40), (&[], 6)] {
        let mut stage = stage(&json!({"max_events_per_second": 1}));
        stage.shaper =
            std::mem::replace(&mut stage.shaper, stage_shaper()).with_critical(allowed.iter().copied());
        for at in 0..40 {
            stage.push(alert(at));
        }
        assert_eq!(stage.out.len(), at_once, "{allowed:?}");
    }
}

fn stage_shaper() -> recount_aaep::shaping::Shaper {
    stage(&json!({})).shaper
}

/// Output that is marked critical is sent at once with the text before it, in order.
#[test]
fn critical_output_is_sent_with_the_text_before_it() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(build::session_started("Hello."));
    stage.write("Stop. It", None);
    let piece = build::output(" burns", 8, recount_aaep::wire::Boundary::Word);
    stage.emit(piece.output_id("out_1").urgency(Urgency::Critical));
    assert_eq!(stage.chunks().iter().map(|(chunk, _)| *chunk).collect::<String>(), "Stop. It burns");
    assert_eq!(stage.now, 0);
}

/// G-25: consecutive states become one, the last progress is kept, tools are unchanged.
#[test]
fn waiting_events_are_merged_by_kind() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(build::session_started("Hello."));
    stage.emit(state("idle", "thinking"));
    stage.emit(progress(1));
    stage.emit(state("thinking", "calling_tool"));
    stage.emit(called("call_1"));
    stage.emit(progress(2));
    stage.emit(returned("call_1"));
    stage.emit(progress(3));
    stage.emit(state("calling_tool", "thinking"));
    stage.emit(state("thinking", "writing_output"));
    stage.emit(build::session_completed("Done."));
    stage.drain();
    assert_eq!(
        stage.kinds(),
        [
            "session.started",
            "state.changed",
            "tool.invoked",
            "tool.completed",
            "progress.updated",
            "state.changed",
            "session.completed"
        ]
    );
    let states: Vec<(&str, &str)> = stage
        .out
        .iter()
        .filter_map(|(_, event)| match &event.body {
            Body::StateChanged(state) => Some((state.from_state.as_str(), state.to_state.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(states, [("idle", "calling_tool"), ("calling_tool", "writing_output")]);
    let notes: Vec<String> = stage
        .out
        .iter()
        .filter_map(|(_, event)| event.envelope.extensions.get("recount").map(|raw| raw.get().to_owned()))
        .collect();
    let note = |ids: &[&str]| json!({"coalesced_count": ids.len(), "coalesced_from": ids}).to_string();
    assert_eq!(
        notes,
        [note(&["evt_1", "evt_3"]), note(&["evt_2", "evt_5", "evt_7"]), note(&["evt_8", "evt_9"])]
    );
    assert_eq!(stage.shaper.counts().merged, 4);
}

/// Changes of state in the order in which they were sent, each with its time; prompts are between them.
fn course(stage: &Stage) -> Vec<String> {
    let step = |(when, event): &(u64, Event)| match &event.body {
        Body::StateChanged(change) => Some(format!("{when} {}>{}", change.from_state, change.to_state)),
        Body::AwaitingConfirmation(_) => Some(format!("{when} prompt")),
        Body::HandoffRequested(_) => Some(format!("{when} handoff")),
        Body::ToolInvoked(_) => Some(format!("{when} invoked")),
        Body::ToolCompleted(_) => Some(format!("{when} completed")),
        _ => None,
    };
    stage.out.iter().filter_map(step).collect()
}

/// R-071, R-088: each listener receives the end of the prompt, and the prompt after
/// the state `awaiting_input`.
#[test]
fn a_decision_is_received_at_any_rate() {
    for wish in [
        json!({"max_events_per_second": 1}),
        json!({"max_events_per_second": 2}),
        json!({"max_events_per_second": 5}),
        json!({"cognitive_load": "low"}),
        json!({"cognitive_load": "low", "max_events_per_second": 1}),
        json!({}),
    ] {
        let mut stage = stage(&wish);
        stage.emit(build::session_started("Hello."));
        stage.emit(state("idle", "thinking"));
        stage.emit(state("thinking", "deciding"));
        stage.emit(state("deciding", "awaiting_input"));
        stage.emit(prompt("rpl_1"));
        stage.wait(200);
        let decided = stage.emit(state("awaiting_input", "calling_tool"));
        stage.emit(called("call_1"));
        stage.emit(returned("call_1"));
        stage.emit(state("calling_tool", "thinking"));
        stage.emit(state("thinking", "writing_output"));
        stage.drain();
        let course = course(&stage);
        let at = course.iter().position(|step| step == "0 prompt").unwrap();
        assert!(course[at - 1].ends_with(">awaiting_input"), "{wish}: {course:?}");
        assert_eq!(course[at + 1], "200 awaiting_input>calling_tool", "{wish}: {course:?}");
        assert!(stage.out.iter().any(|(_, event)| event.envelope.event_id.as_str() == decided), "{wish}");
    }
}

/// Held states are sent before a prompt and before its end, merged up to the state of the prompt. Calls wait for the
/// rate, except the end of a call that is known to run (R-055).
#[test]
fn held_states_are_sent_before_a_prompt() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    stage.emit(build::session_started("Hello."));
    stage.emit(state("idle", "calling_tool"));
    stage.emit(called("call_1"));
    stage.wait(3_000);
    stage.emit(progress(1));
    stage.emit(returned("call_1"));
    stage.emit(state("calling_tool", "thinking"));
    stage.emit(called("call_2"));
    stage.emit(returned("call_2"));
    stage.emit(state("thinking", "deciding"));
    stage.emit(state("deciding", "awaiting_input"));
    stage.emit(prompt("rpl_1"));
    stage.emit(prompt("rpl_2"));
    stage.emit(state("awaiting_input", "calling_tool"));
    stage.emit(state("calling_tool", "awaiting_input"));
    stage.emit(state("awaiting_input", "thinking"));
    stage.emit(state("thinking", "handing_off"));
    stage.emit(handoff());
    stage.drain();
    assert_eq!(
        course(&stage),
        [
            "1000 idle>calling_tool",
            "2000 invoked",
            "3000 completed",
            "3000 calling_tool>deciding",
            "3000 deciding>awaiting_input",
            "3000 prompt",
            "3000 prompt",
            "3000 awaiting_input>calling_tool",
            "3000 calling_tool>awaiting_input",
            "3000 awaiting_input>thinking",
            "3000 thinking>handing_off",
            "3000 handoff",
            "6000 invoked",
            "7000 completed",
        ]
    );
}

/// A prompt that was not sent to this subscriber does not let states pass the rate; they are not merged either.
#[test]
fn states_of_a_prompt_of_others_keep_to_the_rate() {
    let mut stage = stage(&json!({"max_events_per_second": 1}));
    for (from, to) in [
        ("idle", "thinking"),
        ("thinking", "awaiting_input"),
        ("awaiting_input", "awaiting_input"),
        ("awaiting_input", "thinking"),
        ("thinking", "deciding"),
        ("deciding", "writing_output"),
    ] {
        stage.emit(state(from, to));
    }
    stage.drain();
    assert_eq!(
        course(&stage),
        [
            "0 idle>thinking",
            "1000 thinking>awaiting_input",
            "2000 awaiting_input>awaiting_input",
            "3000 awaiting_input>thinking",
            "4000 thinking>writing_output",
        ]
    );
}

/// Without a rate no event waits, so none are joined.
#[test]
fn without_a_rate_events_are_sent_unchanged() {
    let mut stage = stage(&json!({}));
    let mut ids = Vec::new();
    for step in 1..20 {
        ids.push(stage.emit(state("thinking", "thinking")));
        ids.push(stage.emit(progress(step)));
    }
    let seen: Vec<&str> = stage.out.iter().map(|(_, event)| event.envelope.event_id.as_str()).collect();
    assert_eq!(seen, ids);
    assert_eq!(stage.shaper.next_due(), None);
}

/// R-120: new terms apply to later events and do not affect earlier ones.
#[test]
fn a_renegotiation_applies_to_later_events() {
    let mut stage = stage(&json!({"max_events_per_second": 10}));
    for call in 0..10 {
        stage.emit(called(&format!("call_{call}")));
    }
    stage.wait(250);
    assert_eq!(stage.out.len(), 3);
    stage.shaper.terms_changed(super::stage::terms(
        &json!({"max_events_per_second": 1, "event_filters": {"exclude": ["aaep:agent.tool.completed"]}}),
    ));
    for call in 0..10 {
        stage.emit(returned(&format!("call_{call}")));
    }
    stage.drain();
    assert_eq!(stage.out.len(), 10, "waiting events are sent, newly excluded ones are not");
    assert!(stage.out[3..].windows(2).all(|pair| pair[1].0 - pair[0].0 >= 1_000));
    let numbers: Vec<u64> =
        stage.out.iter().map(|(_, event)| event.envelope.sequence_number.unwrap()).collect();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
}

#[test]
fn flushing_returns_all_held_events() {
    let mut stage = stage(&json!({"max_events_per_second": 1, "coalesce_boundaries": ["completion"]}));
    stage.emit(build::session_started("Hello."));
    stage.emit(called("call_1"));
    stage.write("Half a sent", None);
    let rest = stage.shaper.flush();
    assert_eq!(rest.len(), 2);
    assert_eq!((stage.shaper.held_events(), stage.shaper.next_due()), (0, None));
}

#[derive(Debug, Clone)]
enum Step {
    Text(usize),
    LastText,
    State(u8),
    Progress,
    Call,
    Prompt,
    Handoff,
    Ends(u8),
    Waits(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_usize..5).prop_map(Step::Text),
        1 => Just(Step::LastText),
        3 => (0_u8..4).prop_map(Step::State),
        3 => Just(Step::Progress),
        2 => Just(Step::Call),
        1 => Just(Step::Prompt),
        1 => Just(Step::Handoff),
        1 => (0_u8..3).prop_map(Step::Ends),
        4 => prop_oneof![0_u64..30, 0_u64..2_000].prop_map(Step::Waits),
    ]
}

#[derive(Default)]
struct Expected {
    started: bool,
    /// Ids of states into and out of `awaiting_input`, in order.
    of_prompts: Vec<String>,
    text: String,
    output: usize,
    state: String,
    /// Ids of unmerged events, in order.
    alone: Vec<String>,
    progress: u64,
    tools: usize,
}

const AWAITING: &str = "awaiting_input";

const STATES: [&str; 4] = ["thinking", "calling_tool", "writing_output", "deciding"];

/// Performs a step; returns whether it ends the session.
fn perform(
    stage: &mut Stage,
    session: &str,
    one: &mut Expected,
    step: &Step,
    urgent: &mut u64,
) -> Result<bool, TestCaseError> {
    let mut ended = false;
    let output = format!("out_{}", one.output);
    match *step {
        Step::Text(which) => {
            let piece = ["word ", "An end. ", "e", "\u{301}x", "你好。"][which];
            one.text.push_str(piece);
            stage.write_in(session, &output, piece, None, false);
        }
        Step::LastText => {
            one.text.push('.');
            one.output += 1;
            stage.write_in(session, &output, ".", None, true);
        }
        Step::State(to) => {
            let from = std::mem::replace(&mut one.state, STATES[usize::from(to)].into());
            let id = stage.emit_in(session, state(&from, STATES[usize::from(to)]));
            if from == AWAITING {
                let (when, event) = stage.out.last().unwrap();
                let sent = (*when, event.envelope.event_id.as_str());
                prop_assert_eq!(sent, (stage.now, id.as_str()), "the end of a prompt did not wait");
                one.of_prompts.push(id);
                *urgent += 1;
            }
        }
        Step::Progress => {
            one.progress += 1;
            let step = one.progress;
            stage.emit_in(session, progress(step));
        }
        Step::Call => {
            one.tools += 1;
            let call = format!("call_{}", one.tools);
            one.alone.push(stage.emit_in(session, called(&call)));
            one.alone.push(stage.emit_in(session, returned(&call)));
        }
        Step::Prompt | Step::Handoff => {
            let id = match step {
                Step::Prompt => {
                    let from = std::mem::replace(&mut one.state, AWAITING.into());
                    if from != AWAITING {
                        one.of_prompts.push(stage.emit_in(session, state(&from, AWAITING)));
                    }
                    stage.emit_in(session, prompt("rpl_1"))
                }
                _ => stage.emit_in(session, handoff()),
            };
            let of_session = |(_, event): &&(u64, Event)| event.envelope.session_id.as_str() == session;
            let last_state =
                stage.out.iter().filter(of_session).rev().find_map(|(_, event)| match &event.body {
                    Body::StateChanged(change) => Some(change.to_state.as_str()),
                    _ => None,
                });
            prop_assert_eq!(last_state.unwrap_or("idle"), &one.state, "all states are sent before it");
            *urgent += 1;
            let (when, event) = stage.out.last().unwrap();
            prop_assert_eq!(
                (*when, event.envelope.event_id.as_str()),
                (stage.now, id.as_str()),
                "it did not wait"
            );
        }
        Step::Ends(how) => {
            let id = match how {
                0 => stage.emit_in(session, build::session_completed("Done.")),
                1 => stage.emit_in(session, build::session_cancelled(CancelledBy::User, "Given up.")),
                _ => stage.emit_in(session, build::session_errored(ErrorCategory::Unknown, "It broke.")),
            };
            if how == 2 {
                prop_assert_eq!(stage.out.last().unwrap().1.envelope.event_id.as_str(), id.as_str());
                prop_assert_eq!(stage.out.last().unwrap().0, stage.now);
            }
            one.alone.push(id);
            ended = true;
        }
        Step::Waits(_) => {}
    }
    Ok(ended)
}

/// Compares the sent with the pushed events; returns the times of the events that are not critical.
fn follow(stage: &Stage, expected: &BTreeMap<String, Expected>) -> Result<Vec<u64>, TestCaseError> {
    let mut last: BTreeMap<&str, (u64, i64, u64, String)> = BTreeMap::new();
    let mut seen: BTreeMap<&str, (String, Vec<String>, u64)> = BTreeMap::new();
    let mut of_prompts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut times = Vec::new();
    for (when, event) in &stage.out {
        let envelope = &event.envelope;
        let session = envelope.session_id.as_str();
        let critical = event.kind().is_some_and(Kind::is_critical);
        if !critical {
            times.push(*when);
        }
        // Numbers have no gaps, times do not decrease.
        let (number, millis, ended, state) = last.entry(session).or_insert((0, 0, 0, "idle".into()));
        prop_assert_eq!(*ended, 0, "no event after an ending");
        prop_assert_eq!(
            *number == 0,
            event.kind() == Some(Kind::SessionStarted),
            "no event before the start"
        );
        prop_assert_eq!(envelope.sequence_number, Some(*number));
        *number += 1;
        prop_assert!(envelope.timestamp.millis() >= *millis);
        *millis = envelope.timestamp.millis();
        let (text, alone, step) = seen.entry(session).or_default();
        match &event.body {
            Body::OutputStreaming(output) => text.push_str(&output.chunk),
            Body::StateChanged(change) => {
                prop_assert_eq!(&change.from_state, &*state, "the chain of states holds");
                state.clone_from(&change.to_state);
                if [&change.from_state, &change.to_state].iter().any(|state| state.as_str() == AWAITING) {
                    of_prompts.entry(session).or_default().push(envelope.event_id.as_str().to_owned());
                }
            }
            Body::ProgressUpdated(update) => {
                let now = update.progress.step.unwrap();
                prop_assert!(now > *step);
                *step = now;
            }
            Body::AwaitingConfirmation(_) | Body::HandoffRequested(_) => {}
            _ => alone.push(envelope.event_id.as_str().to_owned()),
        }
        *ended = u64::from(event.kind().is_some_and(Kind::is_terminal));
    }
    for (session, expected) in expected {
        let Some((text, alone, step)) = seen.get(session.as_str()) else {
            prop_assert!(!expected.started);
            continue;
        };
        prop_assert_eq!(text, &expected.text, "text of {}", session);
        prop_assert_eq!(alone, &expected.alone, "unmerged events, in order, in {}", session);
        let of_prompts = of_prompts.remove(session.as_str()).unwrap_or_default();
        prop_assert_eq!(&of_prompts, &expected.of_prompts, "states of prompts are never merged");
        prop_assert_eq!(*step, expected.progress);
        prop_assert_eq!(&last[session.as_str()].3, &expected.state);
    }
    Ok(times)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// R-115, R-116, R-118, G-25 to G-27: any sessions, any rate.
    #[test]
    fn nothing_is_lost_and_no_second_is_too_full(
        steps in prop::collection::vec((0_usize..3, step()), 1..150),
        rate in prop::option::of(1_u32..12),
        low in any::<bool>(),
    ) {
        let mut wish = json!({});
        if let Some(rate) = rate {
            wish["max_events_per_second"] = rate.into();
        }
        if low {
            wish["cognitive_load"] = "low".into();
        }
        let mut stage = stage(&wish);
        let mut expected: BTreeMap<String, Expected> = BTreeMap::new();
        let mut names: Vec<u32> = vec![0; 3];
        let mut urgent = 0_u64;
        for (at, step) in steps {
            let session = format!("sess_{at}x{}", names[at]);
            let one = expected.entry(session.clone()).or_insert_with(|| Expected { state: "idle".into(), ..Expected::default() });
            if let Step::Waits(millis) = step {
                stage.wait(millis);
                continue;
            }
            if !one.started {
                one.started = true;
                one.alone.push(stage.emit_in(&session, build::session_started("Hello.")));
            }
            if perform(&mut stage, &session, one, &step, &mut urgent)? {
                names[at] += 1;
            }
        }
        stage.drain();
        let rest = stage.shaper.flush();
        prop_assert!(rest.iter().all(|event| event.kind() == Some(Kind::OutputStreaming)), "only incomplete sentences wait");
        let now = stage.now;
        stage.out.extend(rest.into_iter().map(|event| (now, event)));

        let times = follow(&stage, &expected)?;
        // Without critical events no second exceeds the agreed rate.
        let ends_badly = stage.out.iter().any(|(_, event)| event.kind() == Some(Kind::SessionErrored));
        if let Some(rate) = rate
            && urgent == 0
            && !ends_badly
        {
            // The events of the flush above do not count.
            let counted = times.iter().filter(|time| **time < now).count();
            for from in 0..counted {
                let second = times[from..counted].iter().take_while(|time| **time < times[from] + 1_000).count();
                prop_assert!(second <= rate as usize, "{second} in a second from {}", times[from]);
            }
        }
        prop_assert_eq!(stage.shaper.counts().ahead, 0);
    }
}

/// A valid session stays valid: after shaping with any terms it has no error, and without a rate and with fine
/// boundaries no warning.
#[test]
fn a_shaped_session_breaks_no_rule() {
    use recount_aaep::rule::Severity;
    use recount_aaep::session::{Checker, Options};
    let mut wishes =
        vec![json!({}), json!({"coalesce_boundaries": ["completion"]}), json!({"cognitive_load": "low"})];
    wishes.extend((1..12).map(|rate| json!({"max_events_per_second": rate})));
    for wish in wishes {
        let mut wish = wish;
        wish["supports_confirmation_reply"] = true.into();
        let mut stage = stage(&wish);
        stage.now = 1_000;
        stage.emit(build::session_started("Hello."));
        stage.emit(state("idle", "thinking"));
        stage.wait(30);
        stage.emit(progress(1));
        stage.emit(state("thinking", "calling_tool"));
        stage.emit(called("call_1"));
        stage.wait(300);
        stage.emit(returned("call_1"));
        stage.emit(state("calling_tool", "writing_output"));
        for piece in ["I ", "will ", "pay. ", "It ", "costs ", "5 €."] {
            stage.write(piece, None);
            stage.wait(20);
        }
        stage.write_last("");
        stage.emit(state("writing_output", "awaiting_input"));
        stage.emit(prompt("rpl_1").irreversible(true).for_call("pay", "call_2"));
        let answered = stage.out.len();
        stage.wait(2_000);
        stage.emit(state("awaiting_input", "calling_tool"));
        let pay = build::tool_invoked("pay", "Paying.").tool_call_id("call_2").irreversible(true);
        stage.emit(pay);
        stage.emit(
            build::tool_completed("pay", recount_aaep::wire::ToolStatus::Success, "Paid.")
                .tool_call_id("call_2"),
        );
        stage.emit(state("calling_tool", "thinking"));
        stage.emit(build::session_completed("Done."));
        stage.drain();
        let mut checker = Checker::new(Options::default());
        for (at, (_, event)) in stage.out.iter().enumerate() {
            checker.text(at + 1, &event.to_json());
            if at + 1 == answered {
                checker.text(999, r#"{"type":"confirmation.reply","reply_token":"rpl_1","decision":"accept","subscription_id":"sub_1","timestamp":"1970-01-01T00:00:02.500Z"}"#);
            }
        }
        checker.finish();
        let most =
            if wish.get("max_events_per_second").is_some() { Severity::Error } else { Severity::Warning };
        let found: Vec<String> = checker
            .take()
            .iter()
            .filter(|finding| finding.severity >= most)
            .map(|finding| format!("{finding} {:?}", finding.line))
            .collect();
        assert!(found.is_empty(), "{wish}: {found:#?}\n{:?}", stage.kinds());
    }
}
