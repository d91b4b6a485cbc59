//! What holds for the spans of every run: ids are unique, every parent exists, times nest, and nothing of a run's texts is in
//! them unless contents are exported.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use recount_event::{Event, Payload, PromptEvent};
use recount_otel::ids::Origin;
use recount_otel::project::RunSpans;
use recount_otel::proto::{Span, Value};
use recount_run_generator::own_run;

/// The spans of a whole run that belongs to no other trace.
pub(crate) fn spans(events: &[Event], contents: bool) -> Vec<Span> {
    let run = events[0].run_id;
    let mut projected = RunSpans::new(run, Origin::of(run, None, None), contents);
    let mut finished = Vec::new();
    for event in events {
        projected.event(event, &mut finished);
    }
    projected.finish(&mut finished);
    finished
}

pub(crate) fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a Value> {
    let found = span.attributes.iter().find(|there| there.key == key)?;
    found.value.as_ref()?.value.as_ref()
}

/// Checks what must hold for the spans of any legal, complete run.
pub(crate) fn check(name: &str, events: &[Event]) {
    let with = spans(events, true);
    let without = spans(events, false);
    check_tree(name, &with);
    check_counts(name, events, &with);
    let shape = |spans: &[Span]| -> Vec<_> {
        spans.iter().map(|span| (span.span_id.clone(), span.name.clone(), span.end_time_unix_nano)).collect()
    };
    assert_eq!(shape(&with), shape(&without), "{name}: contents change no span");
    let texts = texts(events);
    for span in &without {
        for there in &span.attributes {
            if let Some(Value::Text(value)) = there.value.as_ref().and_then(|value| value.value.as_ref()) {
                let leaked = texts.iter().find(|text| value.contains(text.as_str()));
                assert_eq!(leaked, None, "{name}: {} of {} has contents", there.key, span.name);
            }
        }
        let message = span.status.as_ref().map_or("", |status| status.message.as_str());
        assert!(!texts.iter().any(|text| message.contains(text.as_str())), "{name}: {message}");
    }
}

fn check_tree(name: &str, spans: &[Span]) {
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (span.span_id.as_slice(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "{name}: ids are unique");
    let tops: Vec<_> = spans.iter().filter(|span| span.parent_span_id.is_empty()).collect();
    assert_eq!(tops.len(), 1, "{name}: one span is the run");
    assert_eq!(spans.last(), tops.first().copied(), "{name}: the run is last");
    for span in spans {
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8), "{name}");
        assert_eq!(span.trace_id, tops[0].trace_id, "{name}: one trace");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{name}: {}", span.name);
        let keys: BTreeSet<&str> = span.attributes.iter().map(|there| there.key.as_str()).collect();
        assert_eq!(keys.len(), span.attributes.len(), "{name}: {:?}", span.attributes);
        if !span.parent_span_id.is_empty() {
            let above = by_id.get(span.parent_span_id.as_slice());
            let above = above.unwrap_or_else(|| panic!("{name}: the parent of {} is missing", span.name));
            assert!(above.start_time_unix_nano <= span.start_time_unix_nano, "{name}: {}", span.name);
            assert!(above.end_time_unix_nano >= span.end_time_unix_nano, "{name}: {}", span.name);
        }
    }
}

/// Counts by the events alone: a span for each attempt of a turn, each call that ran or was refused, each prompt.
fn check_counts(name: &str, events: &[Event], spans: &[Span]) {
    let count =
        |holds: &dyn Fn(&Payload) -> bool| events.iter().filter(|event| holds(event.payload())).count();
    let called = |title: &str| spans.iter().filter(|span| span.name.split(' ').next() == Some(title)).count();
    let turns = count(&|payload| matches!(payload, Payload::TurnStarted(_)));
    let calls = count(&|payload| matches!(payload, Payload::ToolInvoked(_) | Payload::ToolRefused(_)));
    let prompts = count(&|payload| PromptEvent::requested(payload).is_some());
    assert_eq!((called("chat"), called("execute_tool")), (turns, calls), "{name}");
    assert_eq!(called("agent.approval"), prompts, "{name}");
    let whole = |key: &str| {
        let values =
            spans.iter().filter(|span| span.name.starts_with("chat")).filter_map(|span| attribute(span, key));
        values.map(|value| if let Value::Whole(number) = value { *number } else { 0 }).sum::<i64>()
    };
    let tokens: u64 = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::TurnCompleted(completed) => completed.output_tokens,
            _ => None,
        })
        .sum();
    assert_eq!(whole("gen_ai.usage.output_tokens"), i64::try_from(tokens).unwrap(), "{name}");
}

/// Texts that are contents, if they are long enough to be recognized.
pub(crate) fn texts(events: &[Event]) -> Vec<String> {
    let mut texts = Vec::new();
    for event in events {
        match event.payload() {
            Payload::RunQueued(queued) => {
                texts.extend(queued.request_text.clone());
                texts.extend(queued.title.clone());
            }
            Payload::UserMessage(message) => texts.push(message.text.clone()),
            Payload::AssistantTextComplete(block) => texts.push(block.text.clone()),
            Payload::AssistantToolCallProposed(call) => texts.push(call.input.text().to_owned()),
            Payload::ToolCompleted(ended) | Payload::ToolFailed(ended) => {
                texts.extend(ended.output.as_ref().map(recount_event::Json::texts));
                texts.extend(ended.error.clone());
            }
            Payload::ToolRefused(refused) => texts.push(refused.message.clone()),
            Payload::RunFailed(failed) => texts.push(failed.message.clone()),
            Payload::TurnFailed(failed) => texts.push(failed.message.clone()),
            Payload::ClarificationRequested(question) => texts.push(question.question.clone()),
            Payload::HandoffRequested(handoff) => texts.push(handoff.reason.clone()),
            _ => {}
        }
    }
    texts.retain(|text| text.len() > 12);
    texts
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(u32::try_from(recount_tier::times(200)).unwrap_or(u32::MAX))
    })]

    #[test]
    fn the_spans_of_every_run_are_a_tree_whose_times_nest(
        numbers in proptest::collection::vec(any::<u16>(), 0..400)
    ) {
        check("generated", &own_run(&numbers));
    }

    /// A part of a run is what a pruned or damaged run has.
    #[test]
    fn any_part_of_a_run_is_a_tree_whose_times_nest(
        numbers in proptest::collection::vec(any::<u16>(), 0..400),
        from in any::<proptest::sample::Index>(),
        length in any::<proptest::sample::Index>(),
    ) {
        let events = own_run(&numbers);
        let rest = &events[from.index(events.len())..];
        let part = &rest[..=length.index(rest.len())];
        check_tree("part", &spans(part, true));
    }
}
