//! The compacted history of a session equals what the model gets: two independent folds of the same events agree, with
//! retries, interruptions and cancellations.

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

/// An attempt: the number of complete texts, whether another one is cut, the number of calls, and how it ends.
type Attempt = (usize, bool, usize, End);

fn attempt() -> impl Strategy<Value = Attempt> {
    let end = prop_oneof![3 => Just(End::Completes), 3 => Just(End::IsRetried), 1 => Just(End::IsCancelled)];
    (0..3_usize, any::<bool>(), 0..3_usize, end)
}

/// The runs of a session, each with its attempts.
fn session() -> impl Strategy<Value = Vec<Vec<Attempt>>> {
    proptest::collection::vec(proptest::collection::vec(attempt(), 1..6), 1..4)
}

/// Creates the events of a session.
struct Writer {
    events: Vec<Event>,
    run: u128,
    named: u64,
}

impl Writer {
    fn emit(&mut self, type_name: &str, data: &str) {
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
        let number = self.name();
        self.emit("run.queued", r#"{"kind":"agent_loop","prior_run_id":null}"#);
        self.emit("user.message", &format!(r#"{{"text":"question {number}"}}"#));
        let mut turn = 0;
        for (at, attempt) in attempts.iter().enumerate() {
            self.emit("turn.started", &format!(r#"{{"turn_index":{turn}}}"#));
            match attempt.3 {
                End::Completes => {
                    self.completes(turn, attempt);
                    turn += 1;
                }
                End::IsRetried if at + 1 < attempts.len() => self.fails(turn, attempt, true),
                End::IsRetried | End::IsCancelled => {
                    self.fails(turn, attempt, false);
                    return self.emit("run.cancelled", r#"{"by":"operator","reason":"enough"}"#);
                }
            }
        }
        self.emit("run.finished", r#"{"final_status":"completed"}"#);
    }

    fn speaks(&mut self, turn: u64, texts: usize) {
        for _ in 0..texts {
            let block = self.name();
            let thought =
                format!(r#"{{"turn_index":{turn},"block_index":{block},"text":"thought {block}"}}"#);
            self.emit("assistant.thinking_complete", &thought);
            let block = self.name();
            for (kind, key) in [("delta", "delta"), ("complete", "text")] {
                let data =
                    format!(r#"{{"turn_index":{turn},"block_index":{block},"{key}":"text {block}. "}}"#);
                self.emit(&format!("assistant.text_{kind}"), &data);
            }
        }
    }

    fn proposes(&mut self, turn: u64, calls: usize) -> Vec<u64> {
        let names: Vec<u64> = (0..calls).map(|_| self.name()).collect();
        for call in &names {
            let data = format!(
                r#"{{"turn_index":{turn},"tool_call_id":"c{call}","tool_name":"look","input":{{}}}}"#
            );
            self.emit("assistant.tool_call_proposed", &data);
        }
        names
    }

    fn completes(&mut self, turn: u64, (texts, _, calls, _): &Attempt) {
        self.speaks(turn, *texts);
        let calls = self.proposes(turn, *calls);
        let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
        self.emit("turn.completed", &format!(r#"{{"turn_index":{turn},"stop_reason":"{stop}"}}"#));
        for call in calls {
            let ended = format!(r#"{{"tool_call_id":"c{call}","tool_name":"look","turn_index":{turn}"#);
            self.emit("tool.invoked", &format!("{ended}}}"));
            self.emit("tool.completed", &format!(r#"{ended},"output":"seen {call}"}}"#));
        }
    }

    fn fails(&mut self, turn: u64, (texts, is_cut, calls, _): &Attempt, will_retry: bool) {
        self.speaks(turn, *texts);
        if *is_cut {
            let block = self.name();
            let data = format!(
                r#"{{"turn_index":{turn},"block_index":{block},"text":"half {block}","aborted":true}}"#
            );
            self.emit("assistant.text_complete", &data);
        }
        for call in self.proposes(turn, *calls) {
            let data = format!(
                r#"{{"tool_call_id":"c{call}","tool_name":"look","code":"cancelled","message":"no"}}"#
            );
            self.emit("tool.refused", &data);
        }
        let data =
            format!(r#"{{"turn_index":{turn},"code":"model_cut","message":"m","will_retry":{will_retry}}}"#);
        self.emit("turn.failed", &data);
    }
}

/// Joins adjacent texts.
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

fn sent_to_the_model(events: &[Event]) -> Vec<(&'static str, String)> {
    let mut conversation = Conversation::default();
    let mut run = None;
    for event in events {
        if run.replace(event.run_id).is_some_and(|before| before != event.run_id) {
            conversation.next_run();
        }
        conversation.event(event);
    }
    let words = |parts: &[Part]| match parts {
        // The note on where to read the rest is for the model only; an application has no tool for it.
        [Part::Text(text)] => text.split("\n[shortened; ").next().unwrap_or_default().to_owned(),
        other => panic!("{other:?}"),
    };
    let mut sent = Vec::new();
    for message in conversation.messages(None) {
        match message {
            Message::User(parts) => {
                sent.extend(parts.iter().map(|part| ("user", words(std::slice::from_ref(part)))))
            }
            Message::Assistant { text, calls } => {
                sent.extend(text.map(|text| ("text", text)));
                sent.extend(calls.into_iter().map(|call| ("call", call.id)));
            }
            Message::Results(results) => {
                sent.extend(
                    results
                        .iter()
                        .map(|result| ("result", format!("{} {}", result.call_id, words(&result.parts)))),
                );
            }
        }
    }
    // The message that makes the model continue without a user message is not part of the conversation.
    sent.retain(|(kind, words)| (*kind, words.as_str()) != ("user", "Go on."));
    joined(sent)
}

fn compacted_lines(events: &[Event]) -> Vec<(&'static str, String)> {
    let mut history = History::new();
    events.iter().for_each(|event| history.event(event));
    let mut sent = Vec::new();
    for placed in history.compacted().1 {
        match placed.line {
            Line::User { text, .. } => sent.push(("user", text)),
            Line::Assistant { blocks } => sent.extend(blocks.into_iter().map(|answer| match answer.block {
                Block::Text(text) => ("text", text),
                Block::Thinking(text) => ("thinking", text),
                Block::ToolUse { tool_call_id, .. } => ("call", tool_call_id.to_string()),
            })),
            Line::Tool { tool_call_id, output } => {
                let words = match output {
                    Output::Json(json) => serde_json::from_str(json.text()).unwrap(),
                    Output::Text(text) => text,
                };
                sent.push(("result", format!("{tool_call_id} {words}")));
            }
        }
    }
    joined(sent)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn the_model_gets_the_compacted_history(session in session()) {
        let mut writer = Writer { events: Vec::new(), run: 0, named: 0 };
        session.iter().for_each(|attempts| writer.run(attempts));
        let sent = sent_to_the_model(&writer.events);
        prop_assert!(!sent.is_empty());
        prop_assert_eq!(compacted_lines(&writer.events), sent);
    }
}

/// The same for a run that was shortened while it was active: truncated results, summarized steps, and the complete
/// request.
#[test]
fn the_model_gets_the_compacted_history_of_a_shortened_run() {
    let mut writer = Writer { events: Vec::new(), run: 0, named: 0 };
    writer.run(&[
        (1, false, 2, End::Completes),
        (1, false, 1, End::Completes),
        (1, false, 1, End::Completes),
    ]);
    // An ended run is sent like an active one.
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
    writer.emit("context.trimmed", &both);
    let sent = sent_to_the_model(&writer.events);
    let note = "bytes of this result were omitted";
    assert_eq!(sent.iter().filter(|(_, words)| words.contains(note)).count(), 2, "{sent:?}");
    assert_eq!(compacted_lines(&writer.events), sent);

    let (run, through) = (writer.events[0].run_id, {
        let second = |event: &&Event| event.payload().type_name() == "tool.completed";
        writer.events.iter().filter(second).nth(2).unwrap().sequence
    });
    let cut = format!(
        r#"{{"through_run_id":"{run}","through_sequence":{through},"summary":"in short","request_kept":true}}"#
    );
    writer.emit("context.compacted", &cut);
    let mut sent = sent_to_the_model(&writer.events);
    assert_eq!(sent.remove(0), ("user", "in short".to_owned()));
    assert_eq!(sent[0], ("user", "question 1".to_owned()));
    assert_eq!(sent.iter().filter(|(kind, _)| *kind == "call").count(), 1, "{sent:?}");
    assert_eq!(compacted_lines(&writer.events), sent);
}
