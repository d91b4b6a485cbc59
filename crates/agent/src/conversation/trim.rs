//! Shortens a conversation within one request: old results first, then whole steps, then the newest results.
//!
//! Pure and deterministic; `docs/compaction.md` states the rules. It must never depend on providers or the log. Start
//! with [`Conversation::shortening`].

use recount_event::family::context::{Trimmed, TrimmedResult};
use recount_event::{ForeignId, Payload, RunId};
use recount_run::view::trimmed;
use serde::Serialize as _;
use serde_json::Value;

use super::compact::bytes;
use super::{Conversation, HistoryCall, HistoryItem, ModelTurn, StoredPart, StoredResult};
use crate::conversation::limits;
use crate::tools::read_result::READ_RESULT;

impl Conversation {
    /// The events that shorten a conversation of more than `above` tokens, in order. Empty when it is short enough or
    /// when nothing can be removed.
    pub(crate) fn shortening(&self, above: u64) -> Vec<Payload> {
        let mut events = Vec::new();
        if self.tokens_estimate() <= above {
            return events;
        }
        let mut after = self.clone();
        // Shorten below the limit, so that not every turn shortens the conversation again.
        let target = above - above / 4;
        let steps: [fn(&Conversation, u64) -> Option<Payload>; 4] = [
            // A result can be read again, and a summary cannot.
            |it, above| it.old_results(above).map(|done| Payload::ContextTrimmed(Box::new(done))),
            |it, above| it.compaction(above).map(|done| Payload::ContextCompacted(Box::new(done))),
            |it, above| it.step_compaction(above).map(|done| Payload::ContextCompacted(Box::new(done))),
            |it, above| it.newest_results(above).map(|done| Payload::ContextTrimmed(Box::new(done))),
        ];
        for step in steps {
            if after.tokens_estimate() <= target {
                break;
            }
            if let Some(event) = step(&after, above) {
                // The reference has no effect for these events.
                after.apply(&event, (RunId::new(0.into()), 0));
                events.push(event);
            }
        }
        events
    }

    /// Applies the shortened results of a `context.trimmed` event.
    pub(super) fn trim(&mut self, results: &[TrimmedResult]) {
        for result in results {
            let has_id = |call: &&mut HistoryCall| call.tool_call_id.as_ref() == Some(&result.tool_call_id);
            let call = self.history.iter_mut().rev().find_map(|entry| match &mut entry.item {
                HistoryItem::Turn(turn) => turn.calls.iter_mut().find(has_id),
                HistoryItem::User(_) => None,
            });
            if let Some(stored) = call.and_then(|call| call.result.as_mut()) {
                let text = stored.text();
                let shortened = trimmed(&text, result.kept_bytes);
                stored.parts = vec![StoredPart::Text(match text.len() as u64 > result.kept_bytes {
                    true => shortened + &reference(&result.tool_call_id),
                    false => text,
                })];
            }
        }
    }

    /// Trims the results of older steps: those beyond half of the limit, counted from the newest step. The newest step
    /// keeps its results.
    fn old_results(&self, above: u64) -> Option<Trimmed> {
        let newest = self.newest_step()?;
        let limit = bytes(above / 2);
        let mut used = 0;
        let mut results = Vec::new();
        for (at, entry) in self.history.iter().enumerate().rev() {
            used += entry.item.bytes();
            if let (HistoryItem::Turn(turn), true) = (&entry.item, at < newest && used > limit) {
                let long = |bytes: &u64| *bytes > limits::TRIMMED_BYTES_MIN;
                results.extend(
                    turn.results()
                        .rev()
                        .filter(|(_, bytes)| long(bytes))
                        .map(|(id, bytes)| (id, bytes, kept_bytes(bytes))),
                );
            }
        }
        results.reverse();
        self.trimming(results)
    }

    /// Shortens the results of the newest step, each to an equal share of half of the limit.
    fn newest_results(&self, above: u64) -> Option<Trimmed> {
        let HistoryItem::Turn(turn) = &self.history[self.newest_step()?].item else { return None };
        let results: Vec<(ForeignId, u64)> = turn.results().collect();
        let share = bytes(above / 2) as u64 / (results.len() as u64).max(1);
        let share = share.max(limits::TRIMMED_BYTES_MIN);
        let long = results.into_iter().filter(|(_, bytes)| *bytes > share + limits::TRIMMED_BYTES_MIN);
        self.trimming(long.map(|(id, bytes)| (id, bytes, share)).collect())
    }

    /// The event, if it shortens the conversation.
    fn trimming(&self, results: Vec<(ForeignId, u64, u64)>) -> Option<Trimmed> {
        let results: Vec<TrimmedResult> = results
            .into_iter()
            .take(limits::TRIMMED_RESULTS_MAX)
            .map(|(tool_call_id, bytes, kept_bytes)| TrimmedResult { tool_call_id, bytes, kept_bytes })
            .collect();
        let mut after = self.clone();
        after.trim(&results);
        let (before, after) = (self.tokens_estimate(), after.tokens_estimate());
        (after < before).then(|| {
            let mut done = Trimmed::new(results);
            (done.tokens_before, done.tokens_after) = (Some(before), Some(after));
            done
        })
    }

    pub(super) fn newest_step(&self) -> Option<usize> {
        self.history.iter().rposition(|entry| matches!(entry.item, HistoryItem::Turn(_)))
    }
}

/// The note for the model on how to read the rest.
fn reference(call: &ForeignId) -> String {
    format!("\n[shortened; read the complete result with {READ_RESULT}, call_id {call}]")
}

/// Bytes that are kept of an old result.
fn kept_bytes(bytes: u64) -> u64 {
    if bytes >= limits::TRIMMED_ENDS_BYTES_MIN { limits::TRIMMED_ENDS_BYTES } else { 0 }
}

impl ModelTurn {
    /// The calls with a result, and the bytes of each. Calls of the seed messages have no id in the log.
    fn results(&self) -> impl DoubleEndedIterator<Item = (ForeignId, u64)> + '_ {
        self.calls.iter().filter_map(|call| {
            let id = call.tool_call_id.clone()?;
            Some((id, call.result.as_ref()?.text().len() as u64))
        })
    }

    /// Bytes of the inputs of its calls.
    pub(super) fn input_bytes(&self) -> usize {
        self.calls.iter().map(|call| json_bytes(&call.input)).sum()
    }
}

impl StoredResult {
    /// Its texts, without pictures.
    fn text(&self) -> String {
        let texts = self.parts.iter().filter(|part| !part.is_picture());
        texts.map(StoredPart::text).collect::<Vec<_>>().join("\n")
    }
}

/// Bytes of a value as compact JSON, without allocating it.
fn json_bytes(value: &Value) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
            self.0 += piece.len();
            Ok(piece.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // Counting cannot fail.
    value.serialize(&mut serde_json::Serializer::new(&mut counter)).ok();
    counter.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::conversation::EventRef;
    use crate::model::{Message, Part};

    fn event_ref(sequence: u64) -> EventRef {
        (RunId::new(1.into()), sequence)
    }

    /// A request and `steps` steps, each with one call and a result of `result_bytes` bytes.
    fn long_run(steps: u64, result_bytes: usize) -> Conversation {
        let mut conversation = Conversation::default();
        conversation
            .push(HistoryItem::User(vec![StoredPart::Text("build it all".into())]), Some(event_ref(1)));
        for step in 0..steps {
            let id = ForeignId::parse(&format!("call_{step}")).unwrap();
            let result =
                StoredResult { parts: vec![StoredPart::Text("r".repeat(result_bytes))], is_error: false };
            let call = HistoryCall {
                tool_call_id: Some(id.clone()),
                provider_call_id: id.to_string(),
                name: "look".into(),
                input: json!({ "at": step }),
                result: Some(result),
            };
            let turn = ModelTurn { texts: vec![format!("step {step}")], calls: vec![call] };
            conversation.push(HistoryItem::Turn(turn), Some(event_ref(10 + step)));
        }
        conversation
    }

    fn shortened(mut conversation: Conversation, above: u64) -> (Vec<Payload>, Conversation) {
        let events = conversation.shortening(above);
        let again = conversation.shortening(above);
        assert_eq!(events, again, "shortening is deterministic");
        for event in &events {
            conversation.apply(event, event_ref(1_000));
        }
        (events, conversation)
    }

    fn names(events: &[Payload]) -> Vec<&str> {
        events.iter().map(Payload::type_name).collect()
    }

    #[test]
    fn old_results_are_trimmed_first_and_the_newest_stay() {
        let conversation = long_run(10, 2_000);
        assert_eq!(conversation.shortening(conversation.tokens_estimate()), []);
        let (events, after) = shortened(conversation, 4_000);
        assert_eq!(names(&events), ["context.trimmed"]);
        let Payload::ContextTrimmed(trimmed) = &events[0] else { unreachable!() };
        assert_eq!(trimmed.results[0].tool_call_id.to_string(), "call_0");
        assert!((6..=7).contains(&trimmed.results.len()), "{}", trimmed.results.len());
        assert!(trimmed.results.iter().all(|result| (result.bytes, result.kept_bytes) == (2_000, 0)));
        assert_eq!(trimmed.tokens_after, Some(after.tokens_estimate()));
        let messages = after.messages(None);
        assert_eq!(messages.len(), 21, "no step is removed");
        let Message::Results(results) = &messages[2] else { panic!("{messages:?}") };
        let [Part::Text(text)] = &results[0].parts[..] else { panic!("{results:?}") };
        assert!(text.starts_with("[2000 bytes of this result were omitted"), "{text}");
        let Message::Results(results) = messages.last().unwrap() else { panic!("{messages:?}") };
        assert_eq!(results[0].parts, [Part::Text("r".repeat(2_000))]);
    }

    #[test]
    fn a_large_old_result_keeps_its_ends_and_names_the_tool_for_the_rest() {
        // Bytes of a result, and the bytes that are kept.
        for (bytes, kept) in [(513, 0), (4_095, 0), (4_096, 512), (50_000, 512)] {
            let mut after = long_run(10, bytes);
            let events = after.shortening(bytes as u64);
            after.apply(&events[0], event_ref(1_000));
            let Payload::ContextTrimmed(trimmed) = &events[0] else { panic!("{events:?}") };
            assert!(trimmed.results.iter().all(|result| result.kept_bytes == kept), "{bytes}: {trimmed:?}");
            let Message::Results(results) = &after.messages(None)[2] else { unreachable!() };
            let [Part::Text(text)] = &results[0].parts[..] else { panic!("{results:?}") };
            assert!(
                text.ends_with("[shortened; read the complete result with read_result, call_id call_0]"),
                "{text}"
            );
            assert_eq!(text.matches('r').count() > 512, kept > 0, "{text}");
            assert!(text.len() < 800, "{text}");
        }
    }

    #[test]
    fn whole_steps_are_removed_next_and_the_request_is_kept() {
        let (events, after) = shortened(long_run(200, 600), 2_000);
        assert_eq!(names(&events), ["context.trimmed", "context.compacted"]);
        let Payload::ContextCompacted(compacted) = &events[1] else { unreachable!() };
        assert_eq!(compacted.request_kept, Some(true));
        assert!(after.tokens_estimate() <= 1_500, "{}", after.tokens_estimate());
        let messages = after.messages(None);
        let text = |message: &Message| match message {
            Message::User(parts) => format!("{parts:?}"),
            other => panic!("{other:?}"),
        };
        assert!(text(&messages[0]).contains("assistant: step 1"), "the summary comes first: {messages:?}");
        assert!(text(&messages[1]).contains("build it all"));
        assert!(matches!(&messages[2], Message::Assistant { calls, .. } if calls.len() == 1));
        // A second shortening extends the first summary and keeps the request once.
        let mut after = after;
        for step in 300..400 {
            let more = long_run(1, 900).history.pop().unwrap();
            after.push(more.item, Some(event_ref(step)));
        }
        let (events, after) = shortened(after, 2_000);
        assert!(names(&events).contains(&"context.compacted"));
        let messages = format!("{:?}", after.messages(None));
        assert_eq!(messages.matches("build it all").count(), 1, "{messages}");
    }

    #[test]
    fn a_single_result_above_the_limit_is_cut_in_the_middle() {
        let (events, after) = shortened(long_run(1, 100_000), 1_000);
        assert_eq!(names(&events), ["context.trimmed"]);
        let Payload::ContextTrimmed(trimmed) = &events[0] else { unreachable!() };
        assert_eq!((trimmed.results[0].bytes, trimmed.results[0].kept_bytes), (100_000, 2_000));
        assert!(after.tokens_estimate() < 1_000);
    }

    #[test]
    fn a_request_above_the_limit_is_not_shortened() {
        let mut conversation = Conversation::default();
        conversation.push(HistoryItem::User(vec![StoredPart::Text("w".repeat(10_000))]), Some(event_ref(1)));
        assert_eq!(conversation.shortening(100), []);
    }

    #[test]
    fn inputs_of_calls_count_as_tokens() {
        let mut conversation = long_run(1, 0);
        let before = conversation.tokens_estimate();
        let HistoryItem::Turn(turn) = &mut conversation.history[1].item else { unreachable!() };
        turn.calls[0].input = json!({ "content": "x".repeat(4_000) });
        assert!(conversation.tokens_estimate() >= before + 1_000);
    }
}
