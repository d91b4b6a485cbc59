//! The runs of the simulation, of our own performer and of other producers, as sessions: all of them, and not only
//! those that would be requests before something grave.

use std::collections::{BTreeMap, BTreeSet};

use recount_aaep::rule::Severity;
use recount_aaep::session::{Checker, Options};
use recount_event::family::approval::Decision;
use recount_event::family::run::Driver;
use recount_event::family::tool::RiskLevel;
use recount_event::{Event, ForeignId, Payload, time};
use recount_face_aaep::speech::Speech;
use recount_sim::rules;

use super::holds::projected;

/// A third of those that every change is held to in the simulation itself.
const SEEDS: u64 = 100;

/// Counts calls for which no session can be valid in the strict profile, because of their producer: a grave call
/// without an approval, a different call than the approved one, or an approval after the deadline of its prompt.
fn beyond_the_protocol(events: &[Event]) -> usize {
    let mut requests: BTreeMap<&ForeignId, (u64, &ForeignId, bool)> = BTreeMap::new();
    let mut granted: BTreeSet<&ForeignId> = BTreeSet::new();
    let mut count = 0;
    for event in events {
        match event.payload() {
            Payload::ApprovalRequested(ask) => {
                let until = event.occurred_ms + ask.timeout_seconds.unwrap_or(86_400) * 1_000;
                requests.insert(&ask.approval_id, (until, &ask.tool_call_id, ask.is_grave()));
            }
            Payload::ApprovalExtended(more) => {
                if let Some((until, ..)) = requests.get_mut(&more.approval_id) {
                    *until = time::parse_ms(&more.expires_at).unwrap();
                }
            }
            Payload::ApprovalResolved(resolved) if resolved.decision == Decision::Approved => {
                if let Some((until, call, _)) = requests.get(&resolved.approval_id)
                    && event.occurred_ms < *until
                {
                    granted.insert(call);
                }
            }
            Payload::ApprovalTimedOut(late) if late.decision == Some(Decision::Approved) => {
                granted.extend(requests.get(&late.approval_id).map(|(_, call, _)| *call));
            }
            Payload::ToolInvoked(call) => {
                let grave = call.irreversible == Some(true) || call.risk_level == Some(RiskLevel::High);
                let had_approval = requests.values().any(|(_, other, _)| **other == call.tool_call_id);
                count += usize::from((grave || had_approval) && !granted.contains(&call.tool_call_id));
            }
            _ => {}
        }
    }
    count
}

/// The rules that such calls break.
const OF_CALLS: [&str; 4] =
    ["tool.unconfirmed", "tool.high_risk", "tool.before_answer", "tool.after_default_reject"];

#[test]
fn every_simulated_run_is_a_session_that_breaks_no_rule() {
    let (mut runs, mut external, mut beyond) = (0, 0, 0);
    for seed in 0..SEEDS {
        for events in rules::runs(seed).unwrap() {
            let mut checker = Checker::new(Options::default());
            let language = Speech::languages().nth(runs % 2).unwrap();
            let sent = projected(&events, language);
            for (line, (_, event)) in sent.iter().enumerate() {
                checker.text(line + 1, &event.to_json());
            }
            checker.finish();
            let findings = checker.take();
            let (calls, other): (Vec<_>, Vec<_>) = findings
                .iter()
                .filter(|finding| finding.severity == Severity::Error)
                .partition(|finding| OF_CALLS.contains(&finding.rule.id));
            let allowed = beyond_the_protocol(&events);
            assert!(calls.len() <= allowed, "seed {seed}: {allowed} calls explain {calls:#?}");
            assert!(other.is_empty(), "seed {seed}: {other:#?}");
            runs += 1;
            beyond += usize::from(allowed > 0);
            let Some(Payload::RunQueued(queued)) =
                events.iter().map(Event::payload).find(|payload| matches!(payload, Payload::RunQueued(_)))
            else {
                panic!("seed {seed}: no run.queued")
            };
            external += usize::from(queued.driver == Driver::External);
        }
    }
    assert!(
        runs > 400 && external > 80 && beyond * 2 < runs,
        "{runs} runs, {external} external, {beyond} beyond"
    );
}
