//! Listeners that join a run in its middle: the summary, the open prompts again, and then the rest of the session.

use std::collections::BTreeSet;

use recount_aaep::rule::Severity;
use recount_aaep::session::{Checker, Options};
use recount_aaep::wire::Urgency;
use recount_aaep::{Body, Event as AaepEvent};
use recount_event::Event;
use recount_face_aaep::project::{JoinReason, Place, Projector, informational};
use recount_face_aaep::speech::Speech;

use super::holds::token;
use super::transcripts::stories;

/// Joins a run after its first events: the received events, the open prompts and the summary.
struct Joined {
    received: Vec<AaepEvent>,
    prompts: Vec<AaepEvent>,
    summary: AaepEvent,
}

fn join(events: &[Event], at: usize, language: &str, late_ms: u64) -> Option<Joined> {
    let mut projector = Projector::new(events[0].run_id, Speech::of(language));
    for event in &events[..at] {
        projector.event(event, &token);
    }
    let joined = projector.join_summary(events[at - 1].occurred_ms + late_ms, JoinReason::Joined)?;
    let prompts: Vec<AaepEvent> = joined.prompts.iter().map(|prompt| prompt.event.clone()).collect();
    let summary = joined.summary.clone();
    let mut received: Vec<AaepEvent> = joined.into_events().collect();
    for event in &events[at..] {
        received.extend(projector.event(event, &token));
    }
    Some(Joined { received, prompts, summary })
}

fn open_at(events: &[Event], at: usize) -> usize {
    let count = |name: &str| events[..at].iter().filter(|event| event.type_name() == name).count();
    let opening = ["approval.requested", "clarification.requested", "handoff.requested"];
    let settled = [
        "approval.resolved",
        "approval.timed_out",
        "clarification.answered",
        "clarification.timed_out",
        "handoff.acknowledged",
        "handoff.rejected",
        "handoff.timed_out",
    ];
    opening.map(count).iter().sum::<usize>() - settled.map(count).iter().sum::<usize>()
}

/// What the checker cannot know without the beginning of a session: how it was opened, where open texts were, and which
/// calls and permissions came before.
const OF_THE_BEGINNING: [&str; 5] =
    ["session.start_first", "state.first", "stream.position", "tool.not_invoked", "tool.unconfirmed"];

/// Errors that do not come from the beginning that is missing.
fn errors(received: &[AaepEvent]) -> Vec<String> {
    let mut checker = Checker::new(Options::default());
    for (line, event) in received.iter().enumerate() {
        checker.text(line + 1, &event.to_json());
    }
    checker.finish();
    let findings = checker.take();
    let errors = findings.iter().filter(|finding| {
        finding.severity == Severity::Error && !OF_THE_BEGINNING.contains(&finding.rule.id)
    });
    errors.map(ToString::to_string).collect()
}

#[test]
fn a_joining_listener_receives_a_summary_and_every_open_prompt() {
    let mut broken = BTreeSet::new();
    for (name, events) in stories() {
        for at in 1..events.len() {
            for language in Speech::languages() {
                let Some(joined) = join(&events, at, language, 0) else { continue };
                assert_eq!(joined.prompts.len(), open_at(&events, at), "{name} at {at}");
                let Body::StateChanged(change) = &joined.summary.body else { panic!("{}", joined.summary) };
                assert_eq!(change.from_state, change.to_state);
                let places: Vec<Place> = joined
                    .received
                    .iter()
                    .map(|event| Place::parse(event.envelope.event_id.as_str()).unwrap())
                    .collect();
                assert!(places.is_sorted_by(|one, next| one < next), "{name} at {at}: {places:?}");
                let of_the_log = places.iter().filter(|place| !place.is_of_the_log()).count();
                assert_eq!(of_the_log, 1 + joined.prompts.len());
                let times: Vec<i64> = joined.received.iter().map(|e| e.envelope.timestamp.millis()).collect();
                assert!(times.is_sorted(), "{name} at {at}");
                broken.extend(errors(&joined.received));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_repeated_prompt_has_the_remaining_time_and_its_own_token() {
    let mut seen = 0;
    for (name, events) in stories() {
        for at in 1..events.len() {
            let (Some(now), Some(later)) =
                (join(&events, at, "en-US", 0), join(&events, at, "en-US", 90_000))
            else {
                continue;
            };
            for (one, other) in now.prompts.iter().zip(&later.prompts) {
                let (Body::AwaitingConfirmation(first), Body::AwaitingConfirmation(second)) =
                    (&one.body, &other.body)
                else {
                    continue;
                };
                assert_eq!(first.reply_token, second.reply_token);
                let passed = first.timeout_seconds.saturating_sub(90).max(1);
                assert_eq!(second.timeout_seconds, passed, "{name} at {at}");
                assert_eq!(
                    second
                        .deadline_ms(&other.envelope.timestamp)
                        .max(other.envelope.timestamp.millis() + 1_000),
                    first.deadline_ms(&one.envelope.timestamp).max(other.envelope.timestamp.millis() + 1_000),
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn an_informational_prompt_has_no_token_and_is_not_critical() {
    let mut seen = BTreeSet::new();
    for (_, events) in stories() {
        for language in Speech::languages() {
            let mut projector = Projector::new(events[0].run_id, Speech::of(language));
            for projected in
                events.iter().flat_map(|event| projector.event(event, &token)).collect::<Vec<_>>()
            {
                let Some(shown) = informational(&projected) else {
                    assert!(!projected.to_json().contains("\"rpl_"), "{projected}");
                    continue;
                };
                assert!(!shown.to_json().contains("rpl_"), "{shown}");
                assert_eq!(shown.envelope.urgency(), &Urgency::Normal);
                assert_eq!(shown.envelope.event_id, projected.envelope.event_id);
                let text = shown.summaries.normal.clone().unwrap();
                let prompt_text = match &projected.body {
                    Body::AwaitingConfirmation(ask) => ask.action.clone(),
                    Body::AwaitingClarification(ask) => ask.question.clone(),
                    _ => unreachable!("only prompts are shown so"),
                };
                assert!(text.contains(&prompt_text), "{text}");
                seen.insert(text);
            }
        }
    }
    assert!(seen.len() > 4, "{seen:?}");
}

#[test]
fn before_the_session_and_after_it_there_is_nothing_to_join() {
    let (_, events) = stories().remove(0);
    let mut projector = Projector::new(events[0].run_id, Speech::of("en-US"));
    assert!(projector.join_summary(0, JoinReason::Joined).is_none());
    for event in &events {
        projector.event(event, &token);
    }
    assert!(projector.join_summary(u64::MAX, JoinReason::Missed).is_none());
}
