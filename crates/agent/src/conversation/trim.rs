//! Shortening within one request: old results of calls first, then whole steps, then the newest results.
//!
//! Pure, and the same every time; `docs/compaction.md` states the rules. It must never know providers or the log.
//! Entry point: [`Conversation::shortening`].

use recount_event::family::context::{Trimmed, TrimmedResult};
use recount_event::{ForeignId, Payload, RunId};
use recount_run::view::trimmed;
use serde::Serialize as _;
use serde_json::Value;

use super::compact::bytes;
use super::{Asked, Conversation, ModelTurn, Said, StoredResult, Words};
use crate::conversation::limits;
use crate::tools::read_result::READ_RESULT;

impl Conversation {
    /// The events that shorten a conversation of more than `above` tokens, in the order in which they apply. Empty when
    /// it is short enough, or when nothing of it can go.
    pub(crate) fn shortening(&self, above: u64) -> Vec<Payload> {
        let mut events = Vec::new();
        if self.tokens_estimate() <= above {
            return events;
        }
        let mut after = self.clone();
        // A conversation that was shortened has room for a while, so that not every turn shortens it again.
        let enough = above - above / 4;
        let steps: [fn(&Conversation, u64) -> Option<Payload>; 4] = [
            // A result can be read again, and a summary cannot.
            |it, above| it.old_results(above).map(|done| Payload::ContextTrimmed(Box::new(done))),
            |it, above| it.compaction(above).map(|done| Payload::ContextCompacted(Box::new(done))),
            |it, above| it.old_steps(above).map(|done| Payload::ContextCompacted(Box::new(done))),
            |it, above| it.newest_results(above).map(|done| Payload::ContextTrimmed(Box::new(done))),
        ];
        for step in steps {
            if after.tokens_estimate() <= enough {
                break;
            }
            if let Some(event) = step(&after, above) {
                // Neither event needs a place of its own.
                after.take(&event, (RunId::new(0.into()), 0));
                events.push(event);
            }
        }
        events
    }

    /// Takes in that results are seen in part from here on.
    pub(super) fn trim(&mut self, results: &[TrimmedResult]) {
        for result in results {
            let is_it = |asked: &&mut Asked| asked.tool_call_id.as_ref() == Some(&result.tool_call_id);
            let call = self.said.iter_mut().rev().find_map(|placed| match &mut placed.said {
                Said::Turn(turn) => turn.calls.iter_mut().find(is_it),
                Said::User(_) => None,
            });
            if let Some(told) = call.and_then(|asked| asked.result.as_mut()) {
                let text = told.text();
                let shortened = trimmed(&text, result.kept_bytes);
                told.words = vec![Words::Text(match text.len() as u64 > result.kept_bytes {
                    true => shortened + &reference(&result.tool_call_id),
                    false => text,
                })];
            }
        }
    }

    /// Leaves out the results of older steps: those beyond half of the bound, counted from the newest step, which keeps
    /// its own.
    fn old_results(&self, above: u64) -> Option<Trimmed> {
        let newest = self.newest_step()?;
        let room = bytes(above / 2);
        let mut used = 0;
        let mut results = Vec::new();
        for (at, placed) in self.said.iter().enumerate().rev() {
            used += placed.said.bytes();
            if let (Said::Turn(turn), true) = (&placed.said, at < newest && used > room) {
                let long = |bytes: &u64| *bytes > limits::TRIMMED_BYTES_MIN;
                results.extend(
                    turn.results()
                        .rev()
                        .filter(|(_, bytes)| long(bytes))
                        .map(|(id, bytes)| (id, bytes, kept_of(bytes))),
                );
            }
        }
        results.reverse();
        self.trimming(results)
    }

    /// Shortens the results of the newest step, each to an equal share of half of the bound.
    fn newest_results(&self, above: u64) -> Option<Trimmed> {
        let Said::Turn(turn) = &self.said[self.newest_step()?].said else { return None };
        let results: Vec<(ForeignId, u64)> = turn.results().collect();
        let share = bytes(above / 2) as u64 / (results.len() as u64).max(1);
        let share = share.max(limits::TRIMMED_BYTES_MIN);
        let long = results.into_iter().filter(|(_, bytes)| *bytes > share + limits::TRIMMED_BYTES_MIN);
        self.trimming(long.map(|(id, bytes)| (id, bytes, share)).collect())
    }

    /// The event, when it makes the conversation shorter.
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

    fn newest_step(&self) -> Option<usize> {
        self.said.iter().rposition(|placed| matches!(placed.said, Said::Turn(_)))
    }
}

/// Where a model finds the rest.
fn reference(call: &ForeignId) -> String {
    format!("\n[the whole result: {READ_RESULT} with call_id {call}]")
}

/// What stays of an old result.
fn kept_of(bytes: u64) -> u64 {
    if bytes >= limits::TRIMMED_ENDS_BYTES_MIN { limits::TRIMMED_ENDS_BYTES } else { 0 }
}

impl ModelTurn {
    /// The calls with a result, and the bytes of each. What came before a session has no id that the log knows.
    fn results(&self) -> impl DoubleEndedIterator<Item = (ForeignId, u64)> + '_ {
        self.calls.iter().filter_map(|asked| {
            let id = asked.tool_call_id.clone()?;
            Some((id, asked.result.as_ref()?.text().len() as u64))
        })
    }

    /// Bytes of what its calls were asked to do.
    pub(super) fn input_bytes(&self) -> usize {
        self.calls.iter().map(|asked| json_bytes(&asked.input)).sum()
    }
}

impl StoredResult {
    /// Its texts, without pictures.
    fn text(&self) -> String {
        let texts = self.words.iter().filter(|words| !words.is_picture());
        texts.map(Words::text).collect::<Vec<_>>().join("\n")
    }
}

/// Bytes of a value as compact JSON, without making it.
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
    use crate::conversation::Place;
    use crate::model::{Message, Part};

    fn place(sequence: u64) -> Place {
        (RunId::new(1.into()), sequence)
    }

    /// A request and so many steps, each with one call and a result of so many bytes.
    fn long_run(steps: u64, result_bytes: usize) -> Conversation {
        let mut conversation = Conversation::default();
        conversation.push(Said::User(vec![Words::Text("build it all".into())]), Some(place(1)));
        for step in 0..steps {
            let id = ForeignId::parse(&format!("call_{step}")).unwrap();
            let told = StoredResult { words: vec![Words::Text("r".repeat(result_bytes))], is_error: false };
            let asked = Asked {
                tool_call_id: Some(id.clone()),
                provider_call_id: id.to_string(),
                name: "look".into(),
                input: json!({ "at": step }),
                result: Some(told),
            };
            let turn = ModelTurn { texts: vec![format!("step {step}")], calls: vec![asked] };
            conversation.push(Said::Turn(turn), Some(place(10 + step)));
        }
        conversation
    }

    fn shortened(mut conversation: Conversation, above: u64) -> (Vec<Payload>, Conversation) {
        let events = conversation.shortening(above);
        let again = conversation.shortening(above);
        assert_eq!(events, again, "the same every time");
        for event in &events {
            conversation.take(event, place(1_000));
        }
        (events, conversation)
    }

    fn names(events: &[Payload]) -> Vec<&str> {
        events.iter().map(Payload::type_name).collect()
    }

    #[test]
    fn old_results_go_first_and_the_newest_stay() {
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
        assert_eq!(messages.len(), 21, "no step is gone");
        let Message::Results(results) = &messages[2] else { panic!("{messages:?}") };
        let [Part::Text(text)] = &results[0].parts[..] else { panic!("{results:?}") };
        assert!(text.starts_with("[2000 bytes of this result were left out"), "{text}");
        let Message::Results(results) = messages.last().unwrap() else { panic!("{messages:?}") };
        assert_eq!(results[0].parts, [Part::Text("r".repeat(2_000))]);
    }

    #[test]
    fn a_large_old_result_keeps_its_ends_and_says_where_the_rest_is() {
        // Bytes of a result, and what stays of it.
        for (bytes, kept) in [(513, 0), (4_095, 0), (4_096, 512), (50_000, 512)] {
            let mut after = long_run(10, bytes);
            let events = after.shortening(bytes as u64);
            after.take(&events[0], place(1_000));
            let Payload::ContextTrimmed(trimmed) = &events[0] else { panic!("{events:?}") };
            assert!(trimmed.results.iter().all(|result| result.kept_bytes == kept), "{bytes}: {trimmed:?}");
            let Message::Results(results) = &after.messages(None)[2] else { unreachable!() };
            let [Part::Text(text)] = &results[0].parts[..] else { panic!("{results:?}") };
            assert!(text.ends_with("[the whole result: read_result with call_id call_0]"), "{text}");
            assert_eq!(text.matches('r').count() > 512, kept > 0, "{text}");
            assert!(text.len() < 800, "{text}");
        }
    }

    #[test]
    fn then_whole_steps_go_and_the_request_stays_whole() {
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
        assert!(text(&messages[0]).contains("assistant: step 1"), "the extract comes first: {messages:?}");
        assert!(text(&messages[1]).contains("build it all"));
        assert!(matches!(&messages[2], Message::Assistant { calls, .. } if calls.len() == 1));
        // A second time works on the first, and the request is still there once.
        let mut after = after;
        for step in 300..400 {
            let more = long_run(1, 900).said.pop().unwrap();
            after.push(more.said, Some(place(step)));
        }
        let (events, after) = shortened(after, 2_000);
        assert!(names(&events).contains(&"context.compacted"));
        let said = format!("{:?}", after.messages(None));
        assert_eq!(said.matches("build it all").count(), 1, "{said}");
    }

    #[test]
    fn one_result_that_fills_all_room_is_cut_in_its_middle() {
        let (events, after) = shortened(long_run(1, 100_000), 1_000);
        assert_eq!(names(&events), ["context.trimmed"]);
        let Payload::ContextTrimmed(trimmed) = &events[0] else { unreachable!() };
        assert_eq!((trimmed.results[0].bytes, trimmed.results[0].kept_bytes), (100_000, 2_000));
        assert!(after.tokens_estimate() < 1_000);
    }

    #[test]
    fn a_request_that_fills_all_room_cannot_be_shortened() {
        let mut conversation = Conversation::default();
        conversation.push(Said::User(vec![Words::Text("w".repeat(10_000))]), Some(place(1)));
        assert_eq!(conversation.shortening(100), []);
    }

    #[test]
    fn what_calls_are_asked_to_do_counts() {
        let mut conversation = long_run(1, 0);
        let before = conversation.tokens_estimate();
        let Said::Turn(turn) = &mut conversation.said[1].said else { unreachable!() };
        turn.calls[0].input = json!({ "content": "x".repeat(4_000) });
        assert!(conversation.tokens_estimate() >= before + 1_000);
    }
}
