//! What is to hold of every run that is told.

use std::collections::{BTreeMap, BTreeSet};

use recount_aaep::rule::Severity;
use recount_aaep::session::{Checker, Options};
use recount_aaep::wire::ReplyToken;
use recount_aaep::{Body, Event as Told};
use recount_event::{Event, ForeignId, Payload};
use recount_face_aaep::project::{Place, Projector};
use recount_face_aaep::speech::Speech;
use recount_run::ASKING_TOOLS;

/// A token as the server makes them, without its key.
pub(crate) fn token(prompt: &ForeignId) -> ReplyToken {
    let letters: String = prompt.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    ReplyToken::new(format!("rpl_{letters}")).unwrap()
}

/// What each event of a run says.
pub(crate) fn told(events: &[Event], language: &str) -> Vec<(u64, Told)> {
    let mut projector = Projector::new(events[0].run_id, Speech::of(language));
    let mut told = Vec::new();
    for event in events {
        told.extend(projector.event(event, &token).into_iter().map(|said| (event.sequence, said)));
    }
    assert!(projector.is_over(), "the run has ended, and so has the session");
    told
}

/// Everything that is to hold, whatever run it is.
pub(crate) fn holds(events: &[Event], language: &str) -> Vec<(u64, Told)> {
    let told = told(events, language);
    breaks_no_rule(&told);
    every_place_is_named_once(events, &told);
    says_all_text_exactly(events, &told);
    asks_as_often_as_the_run(events, &told);
    told
}

fn breaks_no_rule(told: &[(u64, Told)]) {
    let mut checker = Checker::new(Options::default());
    for (line, (_, event)) in told.iter().enumerate() {
        checker.text(line + 1, &event.to_json());
    }
    checker.finish();
    let errors: Vec<String> = checker
        .take()
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| {
            format!(
                "{finding}\n  {}",
                told.get(finding.line.saturating_sub(1)).map_or(String::new(), |(_, event)| event.to_json())
            )
        })
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

fn every_place_is_named_once(events: &[Event], told: &[(u64, Told)]) {
    let places: Vec<Place> =
        told.iter().map(|(_, event)| Place::parse(event.envelope.event_id.as_str()).unwrap()).collect();
    assert!(places.is_sorted_by(|one, next| one < next), "places grow, and none comes twice");
    for (place, (sequence, _)) in places.iter().zip(told) {
        assert_eq!((place.run, place.sequence), (events[0].run_id, *sequence));
    }
}

/// The blocks that were completed, word for word, and positions that count them.
fn says_all_text_exactly(events: &[Event], told: &[(u64, Told)]) {
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for (_, event) in told {
        if let Body::OutputStreaming(piece) = &event.body {
            let text = said.entry(piece.output_id.clone().unwrap()).or_default();
            assert_eq!(piece.position, text.chars().count() as u64);
            text.push_str(&piece.chunk);
        }
    }
    for event in events {
        if let Payload::AssistantTextComplete(whole) = event.payload() {
            let name = format!("out_t{}b{}", whole.turn_index, whole.block_index);
            assert_eq!(said.remove(&name).unwrap_or_default(), whole.text, "{name}");
        }
    }
    assert!(said.values().all(String::is_empty), "text that is not in the run: {said:?}");
}

fn asks_as_often_as_the_run(events: &[Event], told: &[(u64, Told)]) {
    let count = |of: fn(&Payload) -> bool| events.iter().filter(|event| of(event.payload())).count();
    let heard = |of: fn(&Body) -> bool| told.iter().filter(|(_, event)| of(&event.body)).count();
    let asked = [
        // One that is given more time is asked again.
        count(|payload| matches!(payload, Payload::ApprovalRequested(_) | Payload::ApprovalExtended(_))),
        count(|payload| {
            matches!(payload, Payload::ClarificationRequested(_) | Payload::ClarificationExtended(_))
        }),
        count(|payload| matches!(payload, Payload::HandoffRequested(_))),
        calls_heard(events),
    ];
    let said = [
        heard(|body| matches!(body, Body::AwaitingConfirmation(_))),
        heard(|body| matches!(body, Body::AwaitingClarification(_))),
        heard(|body| matches!(body, Body::HandoffRequested(_))),
        heard(|body| matches!(body, Body::ToolInvoked(_))),
    ];
    assert_eq!(asked, said, "prompts, handoffs and calls");
}

/// Calls of the tools that only ask are not heard when what they ask was.
fn calls_heard(events: &[Event]) -> usize {
    let mut asking = BTreeSet::new();
    let mut heard = |event: &Event| match event.payload() {
        Payload::TurnStarted(_) => {
            asking.clear();
            false
        }
        Payload::ClarificationRequested(asked) => {
            asking.extend(asked.tool_call_id.clone());
            false
        }
        Payload::HandoffRequested(asked) => {
            asking.extend(asked.tool_call_id.clone());
            false
        }
        Payload::ToolInvoked(call) => {
            !ASKING_TOOLS.contains(&call.tool_name.as_str()) || !asking.contains(&call.tool_call_id)
        }
        _ => false,
    };
    events.iter().filter(|event| heard(event)).count()
}
