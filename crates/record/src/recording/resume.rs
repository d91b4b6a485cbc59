//! Rebuilds a recording from the events of its run, so that a restarted recorder continues it.

use serde_json::Value;

use super::Recording;
use super::calls::OpenCall;
use super::prompts::OpenPrompt;
use super::reports::{Answer, How};
use crate::ids::key;
use crate::source::Source;

impl Recording {
    /// Reads the events of a run from its beginning: their types and data, as stored. A run that has no `run.started` yet
    /// gets one. Pieces of text that waited for an earlier one are not in the run; their absence is seen again when the
    /// next piece comes.
    pub fn resume<'a>(source: &Source, events: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Self {
        let mut recording = Recording::resuming(source);
        for (kind, data) in events {
            recording.saw(kind, data);
        }
        recording.resumed();
        recording
    }

    /// The same event by event: [`Recording::saw`] each, then [`Recording::resumed`].
    pub fn resuming(source: &Source) -> Self {
        Recording::blank(source)
    }

    /// All events of the run were read.
    pub fn resumed(&mut self) {
        if !self.started && !self.ended {
            self.put_beginning();
        }
    }

    /// Takes note of an event that is in the run: of one that another client appended, such as the answer to an
    /// approval. What this recording handed out itself is not to be given back to it.
    pub fn saw(&mut self, kind: &str, data: &Value) {
        let text = |name: &str| data.get(name).and_then(Value::as_str);
        let number = |name: &str| data.get(name).and_then(Value::as_u64);
        let (call, turn) = (text("tool_call_id"), number("turn_index").unwrap_or(0));
        match kind {
            "run.started" => self.started = true,
            "run.finished" | "run.failed" | "run.cancelled" => self.ended = true,
            "user.message" => {
                self.prompted = true;
                if let Some(id) = text("message_id") {
                    self.is_new(&format!("user {id}"));
                }
            }
            "turn.started" => self.saw_turn_started(turn),
            "turn.completed" => {
                self.saw_usage(data);
                self.saw_turn_over();
            }
            "turn.failed" => self.saw_turn_over(),
            "cost.tick" => self.saw_tick(data),
            "ext.recount.source" => self.source.saw(data),
            "assistant.text_delta" => {
                self.spoken = true;
                let delta = text("delta").unwrap_or("");
                self.saw_delta(number("block_index").unwrap_or(0), delta, text("source_ref"));
            }
            "assistant.text_complete" => {
                self.saw_text_over(number("block_index").unwrap_or(0), text("source_ref"));
            }
            "assistant.tool_call_proposed" => self.saw_proposed(data),
            "tool.invoked" => self.saw_invoked(data),
            "tool.completed" => self.saw_call_over(call, How::Completed),
            "tool.failed" => self.saw_call_over(call, How::Failed),
            "tool.cancelled" => self.saw_call_over(call, How::Cancelled),
            "tool.timed_out" => self.saw_call_over(call, How::TimedOut),
            "tool.refused" => self.saw_call_over(call, How::Refused),
            "approval.requested" => self.saw_request(text("approval_id"), call),
            "approval.resolved" => self.saw_answer(text("approval_id"), data),
            "approval.timed_out" => self.saw_answer(text("approval_id"), data),
            extension if extension.starts_with("ext.") => {
                if let Some(key) = text("key") {
                    self.is_new(&format!("raw {key}"));
                }
            }
            _ => {}
        }
    }

    fn saw_proposed(&mut self, data: &Value) {
        let Some(id) = data.get("tool_call_id").and_then(Value::as_str) else { return };
        self.calls_seen += 1;
        self.has_proposed();
        let call = OpenCall::seen(data);
        self.calls.insert(id.to_owned(), call);
    }

    fn saw_invoked(&mut self, data: &Value) {
        let Some(id) = data.get("tool_call_id").and_then(Value::as_str) else { return };
        if !self.calls.contains_key(id) {
            self.calls_seen += 1;
        }
        self.calls.entry(id.to_owned()).or_insert_with(|| OpenCall::seen(data)).invoked = true;
    }

    fn saw_call_over(&mut self, id: Option<&str>, how: How) {
        if let Some(id) = id {
            self.calls.remove(id);
            self.over.insert(key(id), how);
        }
    }

    fn saw_request(&mut self, id: Option<&str>, call: Option<&str>) {
        let (Some(id), Some(call)) = (id, call) else { return };
        self.prompts_seen += 1;
        self.is_new(&format!("approval {id}"));
        self.prompts.insert(id.to_owned(), OpenPrompt { call: call.to_owned() });
    }

    fn saw_answer(&mut self, id: Option<&str>, data: &Value) {
        let Some(prompt) = id.and_then(|id| self.prompts.remove(id)) else { return };
        let word = |name: &str| data.get(name).and_then(Value::as_str);
        let denied = match (word("decision"), word("decided_elsewhere")) {
            (Some("approved"), _) => false,
            (Some("cancelled"), Some(elsewhere)) => elsewhere == "rejected",
            _ => true,
        };
        if denied && let Some(call) = self.calls.get_mut(&prompt.call) {
            call.denied = true;
        }
    }

    /// Takes an answer that [`Recording::saw`] receives as an event, and settles the call that it denies.
    pub fn saw_resolved(&mut self, kind: &str, data: &Value) {
        let word = |name: &str| data.get(name).and_then(Value::as_str);
        let Some(id) = word("approval_id") else { return };
        match (kind, word("decision")) {
            ("approval.resolved", Some("approved")) => self.answered(id, Answer::Approved),
            ("approval.resolved", Some("rejected")) => self.answered(id, Answer::Rejected),
            ("approval.timed_out", Some("approved")) => self.answered(id, Answer::Approved),
            ("approval.timed_out", _) => self.answered(id, Answer::TimedOut),
            _ => self.saw(kind, data),
        }
    }
}

impl OpenCall {
    fn seen(data: &Value) -> Self {
        OpenCall {
            name: data.get("tool_name").and_then(Value::as_str).unwrap_or("unknown").to_owned(),
            invoked: false,
            denied: false,
            input: data.get("input").cloned().unwrap_or(Value::Null),
            summary: None,
            kind: data.get("kind").and_then(Value::as_str).map(str::to_owned),
            mcp: None,
        }
    }
}
