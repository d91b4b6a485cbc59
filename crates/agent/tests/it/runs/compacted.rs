//! The compacted history of a session is what the model is told: two folds of the same events, written apart, add up to
//! the same, whatever was retried, cut off or cancelled.

use proptest::prelude::*;
use recount_agent::conversation::Conversation;
use recount_agent::model::{Message, Part};
use recount_event::{Event, EventId, Payload, RunId};
use recount_run::view::{Block, History, Line, Output};

/// How an attempt of the model ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Completes,
    /// Another attempt follows.
    IsRetried,
    /// The run is cancelled.
    IsCancelled,
}

/// An attempt: how many texts are complete, whether one more is cut off, how many calls it makes, and how it ends.
type Attempt = (usize, bool, usize, End);

fn attempt() -> impl Strategy<Value = Attempt> {
    let end = prop_oneof![3 => Just(End::Completes), 3 => Just(End::IsRetried), 1 => Just(End::IsCancelled)];
    (0..3_usize, any::<bool>(), 0..3_usize, end)
}

/// Runs of a session, each with its attempts.
fn session() -> impl Strategy<Value = Vec<Vec<Attempt>>> {
    proptest::collection::vec(proptest::collection::vec(attempt(), 1..6), 1..4)
}

/// Writes the events of a session down.
struct Writer {
    events: Vec<Event>,
    run: u128,
    named: u64,
}

impl Writer {
    fn says(&mut self, type_name: &str, data: &str) {
        let payload =
            Payload::read(type_name, data).unwrap_or_else(|why| panic!("{type_name} {data}: {why}"));
        let run_id = RunId::new(self.run.into());
        let sequence = self.events.iter().filter(|event| event.run_id == run_id).count() as u64;
        self.events.push(Event {
            event_id: EventId::new(u128::from(self.events.len() as u64).into()),
            run_id,
            task_id: None,
            session_id: None,
            sequence,
            occurred_ms: 1_777_803_825_000 + sequence,
            body: payload.into(),
            extra: Vec::new(),
        });
    }

    fn name(&mut self) -> u64 {
        self.named += 1;
        self.named
    }

    fn run(&mut self, attempts: &[Attempt]) {
        self.run += 1;
        let asked = self.name();
        self.says("run.queued", r#"{"kind":"agent_loop","prior_run_id":null}"#);
        self.says("user.message", &format!(r#"{{"text":"question {asked}"}}"#));
        let mut turn = 0;
        for (at, attempt) in attempts.iter().enumerate() {
            self.says("turn.started", &format!(r#"{{"turn_index":{turn}}}"#));
            match attempt.3 {
                End::Completes => {
                    self.completes(turn, attempt);
                    turn += 1;
                }
                End::IsRetried if at + 1 < attempts.len() => self.fails(turn, attempt, true),
                End::IsRetried | End::IsCancelled => {
                    self.fails(turn, attempt, false);
                    return self.says("run.cancelled", r#"{"by":"operator","reason":"enough"}"#);
                }
            }
        }
        self.says("run.finished", r#"{"final_status":"completed"}"#);
    }

    fn speaks(&mut self, turn: u64, texts: usize) {
        for _ in 0..texts {
            let block = self.name();
            let thought =
                format!(r#"{{"turn_index":{turn},"block_index":{block},"text":"thought {block}"}}"#);
            self.says("assistant.thinking_complete", &thought);
            let block = self.name();
            for (kind, key) in [("delta", "delta"), ("complete", "text")] {
                let data =
                    format!(r#"{{"turn_index":{turn},"block_index":{block},"{key}":"text {block}. "}}"#);
                self.says(&format!("assistant.text_{kind}"), &data);
            }
        }
    }

    fn proposes(&mut self, turn: u64, calls: usize) -> Vec<u64> {
        let names: Vec<u64> = (0..calls).map(|_| self.name()).collect();
        for call in &names {
            let data = format!(
                r#"{{"turn_index":{turn},"tool_call_id":"c{call}","tool_name":"look","input":{{}}}}"#
            );
            self.says("assistant.tool_call_proposed", &data);
        }
        names
    }

    fn completes(&mut self, turn: u64, (texts, _, calls, _): &Attempt) {
        self.speaks(turn, *texts);
        let calls = self.proposes(turn, *calls);
        let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
        self.says("turn.completed", &format!(r#"{{"turn_index":{turn},"stop_reason":"{stop}"}}"#));
        for call in calls {
            let ended = format!(r#"{{"tool_call_id":"c{call}","tool_name":"look","turn_index":{turn}"#);
            self.says("tool.invoked", &format!("{ended}}}"));
            self.says("tool.completed", &format!(r#"{ended},"output":"seen {call}"}}"#));
        }
    }

    fn fails(&mut self, turn: u64, (texts, is_cut, calls, _): &Attempt, will_retry: bool) {
        self.speaks(turn, *texts);
        if *is_cut {
            let block = self.name();
            let data = format!(
                r#"{{"turn_index":{turn},"block_index":{block},"text":"half {block}","aborted":true}}"#
            );
            self.says("assistant.text_complete", &data);
        }
        for call in self.proposes(turn, *calls) {
            let data = format!(
                r#"{{"tool_call_id":"c{call}","tool_name":"look","code":"cancelled","message":"no"}}"#
            );
            self.says("tool.refused", &data);
        }
        let data =
            format!(r#"{{"turn_index":{turn},"code":"model_cut","message":"m","will_retry":{will_retry}}}"#);
        self.says("turn.failed", &data);
    }
}

/// Text that follows text is one.
fn joined(parts: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    let mut joined: Vec<(&'static str, String)> = Vec::new();
    for (kind, words) in parts {
        match joined.last_mut() {
            Some((last, text)) if (*last, kind) == ("text", "text") => text.push_str(&words),
            _ => joined.push((kind, words)),
        }
    }
    joined
}

fn told_to_the_model(events: &[Event]) -> Vec<(&'static str, String)> {
    let mut conversation = Conversation::default();
    let mut run = None;
    for event in events {
        if run.replace(event.run_id).is_some_and(|before| before != event.run_id) {
            conversation.next_run();
        }
        conversation.event(event);
    }
    let words = |parts: &[Part]| match parts {
        // Where the model reads the rest is of no use to an application, which has no tool for it.
        [Part::Text(text)] => text.split("\n[the whole result: ").next().unwrap_or_default().to_owned(),
        other => panic!("{other:?}"),
    };
    let mut told = Vec::new();
    for message in conversation.messages(None) {
        match message {
            Message::User(parts) => {
                told.extend(parts.iter().map(|part| ("user", words(std::slice::from_ref(part)))))
            }
            Message::Assistant { text, calls } => {
                told.extend(text.map(|text| ("text", text)));
                told.extend(calls.into_iter().map(|call| ("call", call.id)));
            }
            Message::Results(results) => {
                told.extend(
                    results
                        .iter()
                        .map(|result| ("result", format!("{} {}", result.call_id, words(&result.parts)))),
                );
            }
        }
    }
    // What is said so that the model goes on where nobody asked it anything is no part of the conversation.
    told.retain(|(kind, words)| (*kind, words.as_str()) != ("user", "Go on."));
    joined(told)
}

fn told_as_compacted(events: &[Event]) -> Vec<(&'static str, String)> {
    let mut history = History::new();
    events.iter().for_each(|event| history.event(event));
    let mut told = Vec::new();
    for placed in history.compacted().1 {
        match placed.line {
            Line::User { text, .. } => told.push(("user", text)),
            Line::Assistant { blocks } => told.extend(blocks.into_iter().map(|answer| match answer.block {
                Block::Text(text) => ("text", text),
                Block::Thinking(text) => ("thinking", text),
                Block::ToolUse { tool_call_id, .. } => ("call", tool_call_id.to_string()),
            })),
            Line::Tool { tool_call_id, output } => {
                let words = match output {
                    Output::Json(json) => serde_json::from_str(json.text()).unwrap(),
                    Output::Text(text) => text,
                };
                told.push(("result", format!("{tool_call_id} {words}")));
            }
        }
    }
    joined(told)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn the_compacted_history_is_what_the_model_is_told(session in session()) {
        let mut writer = Writer { events: Vec::new(), run: 0, named: 0 };
        session.iter().for_each(|attempts| writer.run(attempts));
        let told = told_to_the_model(&writer.events);
        prop_assert!(!told.is_empty());
        prop_assert_eq!(told_as_compacted(&writer.events), told);
    }
}

/// The same where the run was shortened while it went on: results in part, steps by a summary, and the request whole.
#[test]
fn the_compacted_history_of_a_shortened_run_is_what_the_model_is_told() {
    let mut writer = Writer { events: Vec::new(), run: 0, named: 0 };
    writer.run(&[
        (1, false, 2, End::Completes),
        (1, false, 1, End::Completes),
        (1, false, 1, End::Completes),
    ]);
    // A run that has ended is told as one that goes on.
    writer.events.pop();
    let calls: Vec<String> = writer
        .events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::ToolCompleted(ended) => Some(ended.tool_call_id.to_string()),
            _ => None,
        })
        .collect();
    let trim = |call: &str| format!(r#"{{"tool_call_id":"{call}","bytes":6,"kept_bytes":0}}"#);
    let both = format!(r#"{{"results":[{},{}]}}"#, trim(&calls[0]), trim(&calls[3]));
    writer.says("context.trimmed", &both);
    let told = told_to_the_model(&writer.events);
    let note = "bytes of this result were left out to save space";
    assert_eq!(told.iter().filter(|(_, words)| words.contains(note)).count(), 2, "{told:?}");
    assert_eq!(told_as_compacted(&writer.events), told);

    let (run, through) = (writer.events[0].run_id, {
        let second = |event: &&Event| event.payload().type_name() == "tool.completed";
        writer.events.iter().filter(second).nth(2).unwrap().sequence
    });
    let cut = format!(
        r#"{{"through_run_id":"{run}","through_sequence":{through},"summary":"in short","request_kept":true}}"#
    );
    writer.says("context.compacted", &cut);
    let mut told = told_to_the_model(&writer.events);
    assert_eq!(told.remove(0), ("user", "in short".to_owned()));
    assert_eq!(told[0], ("user", "question 1".to_owned()));
    assert_eq!(told.iter().filter(|(kind, _)| *kind == "call").count(), 1, "{told:?}");
    assert_eq!(told_as_compacted(&writer.events), told);
}
