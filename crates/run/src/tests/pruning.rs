//! Runs whose beginning was pruned: lists show the same facts as before.

use proptest::prelude::*;
use recount_event::{Code, Event, Payload, Stamp};

use super::properties;
use super::story::{Story, T0, run_id, script};
use crate::{Auditor, CancelledBy, Command, Illegal, State, Summary, apply, decide};

fn prune(before: Option<u64>) -> Command {
    Command::Prune { before, reason: "age".into() }
}

/// The state that is read from the events that remain after pruning.
fn read_again(left: &[Event]) -> State {
    let mut state = State::beginning_at(left[0].sequence, run_id(), None, None);
    left.iter().for_each(|event| apply(&mut state, event));
    state
}

fn audited(left: &[Event]) -> Result<(), Illegal> {
    let mut auditor = Auditor::beginning_at(left[0].sequence);
    left.iter().try_for_each(|event| auditor.read(event))?;
    auditor.finish()
}

/// Prunes an ended run at every place, and every part that is left once more.
fn pruned_everywhere(events: &[Event], state: &State) {
    let ending = state.ending_sequence().expect("the run has ended");
    let stamp = Stamp { now_ms: T0 * 2, entropy: 1 };
    for before in 1..=ending {
        let appended = decide(state, prune(Some(before)), stamp).unwrap();
        let [marker] = appended.as_slice() else { panic!("one marker, not {appended:?}") };
        let mut lived = state.clone();
        apply(&mut lived, marker);
        let kept = usize::try_from(before).unwrap();
        let left: Vec<Event> = events[kept..].iter().chain([marker]).cloned().collect();
        audited(&left).unwrap_or_else(|illegal| panic!("{illegal}"));
        let read = read_again(&left);
        same(&lived, &read);
        if before < ending {
            let second = decide(&lived, prune(None), stamp).unwrap();
            assert_eq!(second, decide(&read, prune(None), stamp).unwrap(), "the marker is the same");
            apply(&mut lived, &second[0]);
            let kept = usize::try_from(ending).unwrap();
            let left: Vec<Event> = events[kept..].iter().chain([marker]).chain(&second).cloned().collect();
            audited(&left).unwrap_or_else(|illegal| panic!("{illegal}"));
            same(&lived, &read_again(&left));
        }
        assert_eq!(
            decide(&lived, prune(Some(before)), stamp),
            Ok(vec![]),
            "pruned events are not pruned again"
        );
    }
}

fn same(lived: &State, read: &State) {
    let listed = |state: &State| -> (Summary, u64) { (state.summary(), state.first_sequence()) };
    assert_eq!(listed(lived), listed(read));
    assert!(read.is_ended() && read.ending_sequence() == lived.ending_sequence());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn lists_show_a_pruned_run_unchanged(numbers in prop::collection::vec(any::<u16>(), 0..600), own: bool) {
        let lived = properties::live(&numbers, own);
        let (mut events, mut state) = (lived.events.clone(), lived.last().clone());
        // The random events may include a marker without a pruning.
        let was_pruned = events.iter().any(|event| matches!(event.payload(), Payload::GapEventsPruned(_)));
        if events.is_empty() || was_pruned {
            return Ok(());
        }
        if !state.is_ended() {
            let cancel = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
            let stamp = Stamp { now_ms: state.last_occurred_ms(), entropy: 1 };
            for event in decide(&state, cancel, stamp).unwrap() {
                apply(&mut state, &event);
                events.push(event);
            }
        }
        pruned_everywhere(&events, &state);
    }
}

const ENDED_RUN: &str = "run.queued {'kind':'external','driver':'external','title':'a task','prior_run_id':null}\n\
                    run.started {}\n@tick 5 6 7\n@ask a c\n@say a approved\n@invoke c\n@complete c\n@finished";

#[test]
fn the_marker_has_the_fields_of_lists() {
    let mut story = Story::of(ENDED_RUN);
    assert_eq!(story.does(prune(None)), ["gap.events_pruned"]);
    assert_eq!(
        story.last("gap.events_pruned"),
        "{\"first_pruned_sequence\":0,\"last_pruned_sequence\":6,\"pruned_at\":\"2026-05-03T10:23:45.008Z\",\
         \"reason\":\"age\",\"catalogue\":{\"kind\":\"external\",\"driver\":\"external\",\
         \"created_at\":\"2026-05-03T10:23:45.000Z\",\"title\":\"a task\",\
         \"started_at\":\"2026-05-03T10:23:45.001Z\",\"input_tokens\":5,\"output_tokens\":6,\
         \"cost_micros_usd\":7}}"
    );
}

#[test]
fn only_events_before_the_ending_are_pruned() {
    let code = |text: &str| Story::of(text).refuses(prune(None)).code;
    assert_eq!(code("@ext"), Code::RunActive);
    assert_eq!(code("@own\n@ask a c\n@wait approval a"), Code::RunActive);
    let mut story = Story::of(ENDED_RUN);
    assert_eq!(story.does(prune(Some(0))), [""; 0]);
    assert_eq!(story.does(prune(Some(99))), ["gap.events_pruned"]);
    assert_eq!(story.state.first_sequence(), 7, "how it ended stays");
    assert_eq!(story.does(prune(None)), [""; 0]);
}

#[test]
fn a_run_of_a_session_is_not_pruned() {
    let session = "chat_01HZX3Q0M0000000000000000B".parse().unwrap();
    let mut state = State::blank(run_id(), None, Some(session));
    let stamp = Stamp { now_ms: T0, entropy: 1 };
    for event in super::story::placed_all(script(ENDED_RUN)) {
        apply(&mut state, &Event { session_id: Some(session), ..event });
    }
    assert_eq!(decide(&state, prune(None), stamp).unwrap_err().code, Code::RunInSession);
}

#[test]
fn a_gap_without_a_marker_is_found() {
    let mut story = Story::of(ENDED_RUN);
    assert!(audited(&story.events[3..]).is_err_and(|found| found.rule == "gap.pruned"));
    story.does(prune(Some(3)));
    assert_eq!(audited(&story.events[3..]), Ok(()));
    for wrong in [2, 4] {
        let found = audited(&story.events[wrong..]).expect_err("the marker says three");
        assert_eq!((found.rule, found.sequence), ("gap.pruned", 9), "{wrong}");
    }
    let queued = Event { sequence: 3, ..story.events[0].clone() };
    assert!(audited(&[queued]).is_err_and(|found| found.rule == "queued.once"));
    let early = Event { sequence: 3, ..story.events[8].clone() };
    assert!(audited(&[early]).is_err_and(|found| found.rule == "gap.pruned"));
    let twice = Event { sequence: 8, event_id: super::story::event_id(9), ..story.events[7].clone() };
    assert!(audited(&[story.events[7].clone(), twice]).is_err_and(|found| found.rule == "ending.once"));
}
