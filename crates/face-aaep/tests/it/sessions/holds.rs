//! The rules that every projected run must follow: [`holds`].

use std::collections::{BTreeMap, BTreeSet};

use recount_aaep::rule::Severity;
use recount_aaep::session::{Checker, Options};
use recount_aaep::wire::ReplyToken;
use recount_aaep::{Body, Event as AaepEvent};
use recount_event::{Event, ForeignId, Payload};
use recount_face_aaep::project::{Place, Projector};
use recount_face_aaep::speech::Speech;
use recount_run::ASKING_TOOLS;

/// A token as the server makes them, without its key.
pub(crate) fn token(prompt: &ForeignId) -> ReplyToken {
    let letters: String = prompt.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    ReplyToken::new(format!("rpl_{letters}")).unwrap()
}

/// The projected events of a run, each with the sequence of its source.
pub(crate) fn projected(events: &[Event], language: &str) -> Vec<(u64, AaepEvent)> {
    let mut projector = Projector::new(events[0].run_id, Speech::of(language));
    let mut projected = Vec::new();
    for event in events {
        projected
            .extend(projector.event(event, &token).into_iter().map(|projected| (event.sequence, projected)));
    }
    assert!(projector.is_over(), "the run has ended, and so has the session");
    projected
}

/// Everything that is to hold, whatever run it is.
pub(crate) fn holds(events: &[Event], language: &str) -> Vec<(u64, AaepEvent)> {
    let projected = projected(events, language);
    breaks_no_rule(&projected);
    every_place_is_named_once(events, &projected);
    emits_all_text_exactly(events, &projected);
    opens_as_many_prompts_as_the_run(events, &projected);
    projected
}

fn breaks_no_rule(projected: &[(u64, AaepEvent)]) {
    let mut checker = Checker::new(Options::default());
    for (line, (_, event)) in projected.iter().enumerate() {
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
                projected
                    .get(finding.line.saturating_sub(1))
                    .map_or(String::new(), |(_, event)| event.to_json())
            )
        })
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

fn every_place_is_named_once(events: &[Event], projected: &[(u64, AaepEvent)]) {
    let places: Vec<Place> =
        projected.iter().map(|(_, event)| Place::parse(event.envelope.event_id.as_str()).unwrap()).collect();
    assert!(places.is_sorted_by(|one, next| one < next), "places grow, and none comes twice");
    for (place, (sequence, _)) in places.iter().zip(projected) {
        assert_eq!((place.run, place.sequence), (events[0].run_id, *sequence));
    }
}

/// The blocks that were completed, word for word, and positions that count them.
fn emits_all_text_exactly(events: &[Event], projected: &[(u64, AaepEvent)]) {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for (_, event) in projected {
        if let Body::OutputStreaming(piece) = &event.body {
            let text = texts.entry(piece.output_id.clone().unwrap()).or_default();
            assert_eq!(piece.position, text.chars().count() as u64);
            text.push_str(&piece.chunk);
        }
    }
    for event in events {
        if let Payload::AssistantTextComplete(whole) = event.payload() {
            let name = format!("out_t{}b{}", whole.turn_index, whole.block_index);
            assert_eq!(texts.remove(&name).unwrap_or_default(), whole.text, "{name}");
        }
    }
    assert!(texts.values().all(String::is_empty), "text that is not in the run: {texts:?}");
}

fn opens_as_many_prompts_as_the_run(events: &[Event], projected: &[(u64, AaepEvent)]) {
    let count = |of: fn(&Payload) -> bool| events.iter().filter(|event| of(event.payload())).count();
    let count_of = |of: fn(&Body) -> bool| projected.iter().filter(|(_, event)| of(&event.body)).count();
    let expected = [
        // One that is given more time is expected again.
        count(|payload| matches!(payload, Payload::ApprovalRequested(_) | Payload::ApprovalExtended(_))),
        count(|payload| {
            matches!(payload, Payload::ClarificationRequested(_) | Payload::ClarificationExtended(_))
        }),
        count(|payload| matches!(payload, Payload::HandoffRequested(_))),
        projected_calls(events),
    ];
    let actual = [
        count_of(|body| matches!(body, Body::AwaitingConfirmation(_))),
        count_of(|body| matches!(body, Body::AwaitingClarification(_))),
        count_of(|body| matches!(body, Body::HandoffRequested(_))),
        count_of(|body| matches!(body, Body::ToolInvoked(_))),
    ];
    assert_eq!(expected, actual, "prompts, handoffs and calls");
}

/// Calls of the tools that only ask are not count_of when what they ask was.
fn projected_calls(events: &[Event]) -> usize {
    let mut asking = BTreeSet::new();
    let mut is_projected = |event: &Event| match event.payload() {
        Payload::TurnStarted(_) => {
            asking.clear();
            false
        }
        Payload::ClarificationRequested(request) => {
            asking.extend(request.tool_call_id.clone());
            false
        }
        Payload::HandoffRequested(request) => {
            asking.extend(request.tool_call_id.clone());
            false
        }
        Payload::ToolInvoked(call) => {
            !ASKING_TOOLS.contains(&call.tool_name.as_str()) || !asking.contains(&call.tool_call_id)
        }
        _ => false,
    };
    events.iter().filter(|event| is_projected(event)).count()
}
