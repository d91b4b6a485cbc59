//! Tests of producer sessions: any order of calls produces valid events, and a rejected call changes nothing.

mod any;
mod replies;
mod steps;

use recount_aaep::Event;
use recount_aaep::build::{self, Draft, Frame};
use recount_aaep::produce::{ProducerSession, Stamp};
use recount_aaep::rule::{Layer, Severity};
use recount_aaep::session::{Checker, Options};
use recount_aaep::wire::{Level, ToolInvoked};

/// A time in the year 2026.
const START_MS: i64 = 1_779_632_534_000;

fn at(seconds: i64) -> Stamp {
    Stamp { now_ms: START_MS + seconds * 1_000, entropy: [7; 32] }
}

fn session() -> ProducerSession {
    ProducerSession::new(Frame::new("sess_1", "planner", "en-US").unwrap()).unwrap()
}

fn started() -> (ProducerSession, Vec<Event>) {
    let mut session = session();
    let events = session.start(at(0), build::session_started("Planning.")).unwrap();
    (session, events)
}

/// A call that cannot be undone.
fn payment() -> Draft<ToolInvoked> {
    build::tool_invoked("pay", "Paying 5 euros.")
        .args_summary("5 euros")
        .irreversible(true)
        .risk_level(Level::High)
}

fn texts(events: &[Event]) -> Vec<String> {
    events.iter().map(Event::to_json).collect()
}

fn types(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.type_name().trim_start_matches("aaep:agent.")).collect()
}

/// Findings of the strict checker: errors, and warnings of session rules.
fn accusations(lines: &[String], ended: bool) -> Vec<String> {
    let mut checker = Checker::new(Options::default());
    for (at, line) in lines.iter().enumerate() {
        checker.text(at + 1, line);
    }
    if ended {
        checker.finish();
    }
    let mut findings = checker.take();
    findings.retain(|finding| {
        let session = finding.rule.layer == Layer::Session && finding.severity == Severity::Warning;
        // The caller chooses the state and the summary of `set_state`.
        let by_caller = finding.rule.id.starts_with("reply.") || finding.rule.id == "state.unchanged";
        (finding.severity == Severity::Error || session) && !by_caller
    });
    findings.iter().map(ToString::to_string).collect()
}
