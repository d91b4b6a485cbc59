//! Properties of every run, whatever the commands.

use std::collections::BTreeMap;

use proptest::prelude::*;
use recount_event::{Code, Event, Payload, Stamp, codec};
use recount_run_generator::{Dice, own_run};

use super::dice;
use super::story::{T0, event_id, placed, placed_all, run_id};
use crate::judge::judge;
use crate::{
    CancelledBy, Command, Effects, Illegal, RULES, Reach, Rejection, State, apply, audit, decide, outstanding,
};

/// A run as it was lived, and the states it went through.
pub(super) struct RecordedRun {
    pub(super) events: Vec<Event>,
    /// The number of events, and the state they added up to when they were new.
    states: Vec<(usize, State)>,
    commands: u64,
    /// Rejections by rule, or by code where no rule was named.
    refusals: BTreeMap<String, u64>,
}

impl RecordedRun {
    pub(super) fn last(&self) -> &State {
        &self.states.last().unwrap().1
    }
}

pub(super) fn live(numbers: &[u16], own: bool) -> RecordedRun {
    let mut dice = Dice::new(numbers);
    let mut state = State::blank(run_id(), None, None);
    let mut lived = RecordedRun {
        events: Vec::new(),
        states: vec![(0, state.clone())],
        commands: 0,
        refusals: BTreeMap::new(),
    };
    let mut now_ms = T0;
    // A few commands more after the ending, which may do nothing.
    let mut left_after_ending = 12;
    while !dice.is_used_up() && left_after_ending > 0 {
        left_after_ending -= usize::from(state.is_ended());
        // The clock advances, stops, jumps and steps back.
        now_ms = match dice.below(16) {
            0..9 => now_ms + dice.below(900) as u64,
            9..12 => now_ms,
            12 => now_ms + 1_000 * dice.below(30) as u64,
            _ => now_ms.saturating_sub(dice.below(5_000) as u64),
        };
        let stamp = Stamp { now_ms, entropy: dice.below(1 << 16) as u128 };
        let command = if state.is_blank() && dice.below(9) < 8 {
            dice::queue(&mut dice, own)
        } else {
            dice::command(&mut dice, &state)
        };
        lived.commands += 1;
        match decide(&state, command.clone(), stamp) {
            Ok(events) => {
                for event in &events {
                    assert_eq!(judge(&state, event.payload()), Ok(()));
                    apply(&mut state, event);
                }
                lived.events.extend(events);
                lived.states.push((lived.events.len(), state.clone()));
            }
            Err(no) => {
                assert_ne!(no.code, Code::Internal, "{no:?} after {command:?}");
                let name = no.rule.map_or(no.code.to_string(), str::to_owned);
                *lived.refusals.entry(name).or_default() += 1;
                refused_by_both(&lived.events, &state, &command, stamp, &no);
            }
        }
        let owed = outstanding(&state);
        assert!(!state.is_ended() || owed == Effects::default(), "an ended run is owed {owed:?}");
        assert!(state.is_own() || owed.work.is_empty(), "an external run is owed {owed:?}");
    }
    lived
}

/// What `decide` refuses by a rule of the log, `audit` finds illegal by the same rule.
fn refused_by_both(so_far: &[Event], state: &State, command: &Command, stamp: Stamp, no: &Rejection) {
    let (Some(index), Some(rule)) = (no.index, no.rule) else { return };
    let of_the_log = RULES.iter().any(|row| row.id == rule && row.reach == Reach::Log);
    let (Command::Append { drafts } | Command::Progress { drafts }, true) = (command, of_the_log) else {
        assert!(RULES.iter().any(|row| row.id == rule), "{rule} is no rule");
        return;
    };
    let refused = &drafts[index];
    // Types we do not know may have been written by a release that knows better.
    if matches!(refused.payload, Payload::Opaque(_)) {
        return;
    }
    let before = match command {
        Command::Append { .. } => Command::Append { drafts: drafts[..index].to_vec() },
        _ => Command::Progress { drafts: drafts[..index].to_vec() },
    };
    let mut events = so_far.to_vec();
    let accepted = decide(state, before, stamp).unwrap();
    // A waiting run may have gone on where the shorter batch ended, or it has an ending.
    if accepted.len() != index {
        return;
    }
    events.extend(accepted);
    assert_eq!(audit(&events), None);
    // The times stay, because deadlines depend on them.
    let at = events.len();
    let last_ms = events.last().map_or(T0, |last| last.occurred_ms);
    events.push(Event { occurred_ms: last_ms, ..placed(at as u64, refused.payload.clone()) });
    (0..).zip(&mut events).for_each(|(sequence, event)| event.event_id = event_id(sequence));
    let found = audit(&events).map(|illegal| (illegal.index, illegal.rule));
    assert_eq!(found, Some((at, rule)), "{no:?} for {:?}", refused.payload);
}

/// Judges event by event, as `decide` would.
fn first_refused(events: &[Event]) -> Option<(usize, &'static str)> {
    let mut state = State::blank(run_id(), None, None);
    for (index, event) in events.iter().enumerate() {
        if let Err(no) = judge(&state, event.payload()) {
            return Some((index, no.rule));
        }
        apply(&mut state, event);
    }
    None
}

fn legal(lived: &RecordedRun) {
    if let Some(illegal) = audit(&lived.events) {
        panic!("{illegal} in {:#?}", lived.events);
    }
    let endings = lived.events.iter().filter(|event| is_ending(event)).count();
    assert_eq!(endings, usize::from(lived.last().is_ended()));
}

fn is_ending(event: &Event) -> bool {
    matches!(event.type_name(), "run.finished" | "run.failed" | "run.cancelled")
}

/// Written down, read again and added up, events give the states they gave when they were new.
fn replays(lived: &RecordedRun) {
    let mut state = State::blank(run_id(), None, None);
    let mut states = lived.states.iter().peekable();
    let mut compare = |count: usize, state: &State| {
        while let Some((_, then)) = states.next_if(|(at, _)| *at == count) {
            assert!(then == state, "after {count} events:\n{then:#?}\n{state:#?}");
        }
    };
    compare(0, &state);
    for (count, event) in lived.events.iter().enumerate() {
        let bytes = codec::encode(event);
        let read = codec::decode(&bytes).unwrap();
        assert_eq!(codec::encode(&read), bytes);
        apply(&mut state, &read);
        // States between two commands were never seen; the ones after them must be the same.
        compare(count + 1, &state);
    }
    assert!(states.next().is_none());
}

/// Whatever has happened, the run can be stopped, and then nothing is owed.
fn can_be_cancelled(lived: &RecordedRun) {
    let state = lived.last();
    let cancel = Command::Cancel { by: CancelledBy::Shutdown, reason: "down".into() };
    match decide(state, cancel, Stamp { now_ms: T0, entropy: 3 }) {
        Ok(closing) => {
            let mut events = lived.events.clone();
            events.extend(closing);
            assert_eq!(audit(&events), None);
            assert!(is_ending(events.last().unwrap()));
        }
        Err(no) => assert!(
            (no.code == Code::RunEnded && state.is_ended())
                || (no.code == Code::RunNotFound && state.is_blank())
        ),
    }
}

/// The number in `PROPTEST_CASES`, for long test runs.
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

pub(super) fn numbers() -> impl Strategy<Value = Vec<u16>> {
    proptest::collection::vec(any::<u16>(), 0..900)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(250)) })]

    #[test]
    fn every_run_is_legal_replayable_and_can_be_ended(numbers in numbers(), own in any::<bool>()) {
        let lived = live(&numbers, own);
        legal(&lived);
        replays(&lived);
        can_be_cancelled(&lived);
    }

    #[test]
    fn generated_runs_are_legal_for_decide_and_audit(numbers in numbers()) {
        let events = own_run(&numbers);
        prop_assert_eq!(first_refused(&events), None);
        prop_assert_eq!(audit(&events), None);
        prop_assert!(is_ending(events.last().unwrap()));
    }

    /// Events dropped, doubled, swapped and put in elsewhere: both readings find the same first fault, or
    /// both find none.
    #[test]
    fn decide_and_audit_agree(
        numbers in numbers(),
        own in any::<bool>(),
        changes in proptest::collection::vec((0..4_u8, any::<u16>(), any::<u16>()), 1..4),
    ) {
        let lived = live(&numbers, own);
        let mut payloads: Vec<Payload> =
            lived.events.iter().map(|event| event.payload().clone()).collect();
        for (how, a, b) in changes {
            if payloads.is_empty() {
                break;
            }
            let (a, b) = (usize::from(a) % payloads.len(), usize::from(b) % payloads.len());
            match how {
                0 => drop(payloads.remove(a)),
                1 => payloads.insert(b, payloads[a].clone()),
                2 => payloads.swap(a, b),
                _ => {
                    let state = &lived.states[b % lived.states.len()].1;
                    payloads[a] = dice::draft(&mut Dice::new(&numbers[numbers.len() / 2..]), state);
                }
            }
        }
        let opaque = payloads.iter().any(|payload| matches!(payload, Payload::Opaque(_)));
        let events = placed_all(payloads);
        let found = audit(&events);
        if !opaque {
            let refused = first_refused(&events);
            prop_assert_eq!(
                found.as_ref().map(|illegal| (illegal.index, illegal.rule)), refused, "{:?}", found
            );
        }
        // A fault does not depend on later events.
        if let Some(Illegal { index, .. }) = found {
            prop_assert_eq!(audit(&events[..index]), None);
            prop_assert_eq!(audit(&events[..=index]), found);
        }
    }
}

/// The stories above are worth something only when things happen in them.
#[test]
fn generated_runs_cover_the_event_types() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    let mut seed = 1_u64;
    for story in 0..600 {
        let numbers: Vec<u16> = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as u16
        })
        .take(900)
        .collect();
        let lived = live(&numbers, story % 2 == 0);
        *seen.entry("commands".into()).or_default() += lived.commands;
        for event in &lived.events {
            *seen.entry(event.type_name().to_owned()).or_default() += 1;
            if let Payload::ApprovalResolved(resolved) = event.payload() {
                *seen.entry("allowed or not by an application".into()).or_default() +=
                    u64::from(resolved.via.is_some());
                *seen.entry("answered in the place of a call".into()).or_default() +=
                    u64::from(resolved.answer.is_some());
            }
        }
        for pair in lived.events.windows(2) {
            if pair[0].type_name() == "run.continued" && pair[1].type_name() == "tool.invoked" {
                *seen.entry("granted after a wait".into()).or_default() += 1;
            }
            if pair[0].type_name() == "run.continued" && pair[1].type_name() == "run.waiting" {
                *seen.entry("answered in part".into()).or_default() += 1;
            }
            if is_ending(&pair[1]) && pair[0].payload().write().contains(r#""by":"producer""#) {
                *seen.entry("withdrawn by an ending".into()).or_default() += 1;
            }
            if pair[0].type_name() == "run.continued" && pair[1].type_name() == "tool.refused" {
                *seen.entry("refused after a wait".into()).or_default() += 1;
            }
        }
        let mut started_turns = Vec::new();
        for event in &lived.events {
            if let Payload::TurnStarted(started) = event.payload() {
                if started_turns.contains(&started.turn_index) {
                    *seen.entry("a turn again".into()).or_default() += 1;
                }
                started_turns.push(started.turn_index);
            }
        }
        for (rule, count) in lived.refusals {
            *refused.entry(rule).or_default() += count;
        }
    }
    let least = [
        ("run.finished", 20),
        ("run.failed", 20),
        ("run.cancelled", 40),
        ("run.waiting", 100),
        ("run.continued", 60),
        ("granted after a wait", 3),
        ("refused after a wait", 3),
        ("withdrawn by an ending", 20),
        ("allowed or not by an application", 20),
        ("answered in the place of a call", 5),
        ("answered in part", 20),
        ("a turn again", 60),
        ("approval.requested", 200),
        ("approval.resolved", 60),
        ("approval.timed_out", 20),
        ("clarification.requested", 60),
        ("clarification.answered", 10),
        ("clarification.timed_out", 10),
        ("handoff.requested", 20),
        ("handoff.acknowledged", 5),
        ("handoff.rejected", 5),
        ("handoff.timed_out", 5),
        ("approval.extended", 1),
        ("tool.refused", 100),
        ("tool.completed", 100),
        ("tool.shell.output_chunk", 100),
        ("tool.shell.exited", 40),
        ("assistant.text_complete", 100),
        ("gap.run_disconnected", 40),
        ("gap.events_pruned", 10),
        ("cost.tick", 60),
        ("ext.acme.note", 10),
    ];
    for (what, at_least) in least {
        let count = seen.get(what).copied().unwrap_or(0);
        assert!(count >= at_least, "{what}: {count}, wanted {at_least}");
    }
    let breakable: Vec<_> = RULES.iter().filter(|rule| rule.reach != Reach::Limit).collect();
    let rules = breakable.iter().filter(|rule| refused.contains_key(rule.id)).count();
    let all = breakable.len();
    assert!(rules * 10 >= all * 7, "only {rules} of {all} rules were broken: {refused:#?}");
}
