//! Checks that a subscription with a low rate follows a prompt that another subscription decides at once: the state before
//! the prompt, the prompt, and its outcome.

use recount_aaep::Kind;
use serde_json::json;

use super::reply::{PromptRef, shown};
use super::terms::{close, fine, open};
use crate::conformance::conversation::Conversation;
use crate::conformance::judge;
use crate::conformance::producer::harness::{Harness, PartError, able};
use crate::conformance::producer::specs;
use crate::conformance::transcript::{Line, Scope};
use crate::scenario::Scenario;

const KIND: Kind = Kind::AwaitingConfirmation;

/// The tested rates, in events per second.
const RATES: [(&str, u32); 3] = [("one a second", 1), ("two a second", 2), ("five a second", 5)];

pub(super) async fn at_low_rates(harness: &Harness<'_>) -> Result<(), PartError> {
    let mut terms = vec![("a quick decision", Scope::Part, fine())];
    terms.extend(RATES.map(|(name, rate)| (name, Scope::Part, able(json!({"max_events_per_second": rate})))));
    let conversations = open(harness, terms).await?;
    let outcome = async {
        let quick = &conversations["a quick decision"];
        let prompt = harness.prompt(quick, Scenario::Confirm, KIND).await?;
        quick.send_text(&PromptRef::of(quick, prompt).decide(harness, "accept").to_string()).await?;
        harness.end_of_line(quick, prompt).await;
        let lines = quick.lines();
        let session = lines[prompt].session();
        let mut missing = Vec::new();
        let mut overtaken = Vec::new();
        for (name, _) in RATES {
            let slow = &conversations[name];
            let is_prompt = |line: &Line| line.is(KIND) && line.session() == session;
            let Some(there) = slow.line(0, harness.patience(), is_prompt).await else {
                return Err(format!("the subscription of {name} did not get the prompt"));
            };
            if enters(&lines[..prompt], session) && !slow.read(|lines| enters(&lines[..there], session)) {
                overtaken.push((name, slow.read(|lines| shown(lines, [there]))));
            }
            if !is_outcome_received(harness, &lines, prompt, slow, there).await {
                missing.push((name, slow.read(|lines| shown(lines, there..(there + 3).min(lines.len())))));
            }
        }
        let of = |found: &[(&str, Vec<String>)]| {
            let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
            (names.join(" and "), found.first().map(|(_, evidence)| evidence.clone()))
        };
        let rates = "with one, two and five events a second";
        let (names, evidence) = of(&missing);
        let amiss = format!("at {names}, no event reports the outcome of the prompt");
        harness.check(&specs::SLOW_OUTCOME, evidence, amiss, rates);
        let (names, evidence) = of(&overtaken);
        let amiss = format!("at {names}, the prompt comes before the state `awaiting_input`");
        harness.check(&specs::SLOW_STATE, evidence, amiss, rates);
        Ok(())
    };
    let outcome = outcome.await;
    close(harness, conversations).await;
    outcome
}

/// Whether a session enters `awaiting_input`.
fn enters(lines: &[Line], session: &str) -> bool {
    lines.iter().any(|line| {
        line.is(Kind::StateChanged) && line.session() == session && line.str("to_state") == "awaiting_input"
    })
}

/// Whether a subscription receives what reports the outcome to the one without a rate: the departure from
/// `awaiting_input`, or otherwise any step after the prompt but the end of the session.
async fn is_outcome_received(
    harness: &Harness<'_>,
    lines: &[Line],
    prompt: usize,
    slow: &Conversation,
    there: usize,
) -> bool {
    let departs = !judge::departures(lines, prompt).is_empty();
    let ends = |line: &Line| line.is_terminal() && line.session() == lines[prompt].session();
    let found = slow
        .until(harness.patience(), |lines| {
            let report = match departs {
                true => judge::departures(lines, there).first().copied(),
                false => judge::settled(lines, there),
            };
            report.or_else(|| (there..lines.len()).find(|number| ends(&lines[*number])))
        })
        .await;
    found.is_some_and(|number| slow.read(|lines| !ends(&lines[number])))
}
