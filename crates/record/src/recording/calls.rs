//! Calls of tools: proposed, invoked, settled once.

use serde_json::{Value, json};

use super::Recording;
use super::reports::{CallStart, Elsewhere, How, Outcome};
use super::turns::counted;
use crate::draft::Fields;
use crate::ids::{key, map_id};
use crate::kept::{keep, short};
use crate::limits;

#[derive(Debug, Clone)]
pub(super) struct OpenCall {
    pub(super) name: String,
    pub(super) invoked: bool,
    /// A person refused it in Recount, or its deadline passed.
    pub(super) denied: bool,
    /// The input as it is kept, to find the call by it.
    pub(super) input: Value,
    pub(super) summary: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) mcp: Option<(String, String)>,
}

impl Recording {
    /// The agent is about to make a call, which may still be refused. The same call a second time adds nothing.
    pub fn call(&mut self, start: CallStart) {
        let id = map_id(&start.foreign_id);
        if self.ended || self.calls.contains_key(&id) || self.over.get(key(&id)).is_some() {
            return;
        }
        let name = if start.name.is_empty() {
            "unknown".to_owned()
        } else {
            short(&start.name, limits::NAME_BYTES_MAX)
        };
        let (input, _) = keep(&start.input, limits::VALUE_BYTES_MAX);
        let full = self.calls.len() >= limits::CALLS_OPEN_MAX || self.calls_seen >= limits::CALLS_MAX;
        let turn = if full { None } else { self.ensure_turn() };
        let Some(turn) = turn else {
            let body = json!({ "tool_call_id": id, "tool_name": name, "input": input });
            return self.note("call_beyond_limit", &body);
        };
        self.calls_seen += 1;
        self.has_proposed();
        let fields = Fields::new()
            .put("tool_call_id", id.as_str())
            .put("tool_name", name.as_str())
            .put("turn_index", turn)
            .put("input", input.clone())
            .put("provider_call_id", short(&start.foreign_id, limits::ORIGINAL_ID_BYTES_MAX));
        self.put("assistant.tool_call_proposed", fields);
        let call = OpenCall {
            name,
            invoked: false,
            denied: false,
            input,
            summary: start.summary.map(|text| short(&text, limits::SENTENCE_BYTES_MAX)),
            kind: start.kind.map(|text| short(&text, limits::NAME_BYTES_MAX)),
            mcp: start.mcp.map(|(server, tool)| {
                (short(&server, limits::NAME_BYTES_MAX), short(&tool, limits::NAME_BYTES_MAX))
            }),
        };
        self.calls.insert(id, call);
    }

    /// The call is being carried out, as far as the source shows that before its outcome.
    pub fn call_running(&mut self, foreign_id: &str) {
        self.invoke(&map_id(foreign_id));
    }

    /// Whether a call is open.
    pub fn has_open_call(&self, foreign_id: &str) -> bool {
        self.calls.contains_key(&map_id(foreign_id))
    }

    /// Whether a call is being carried out.
    pub fn has_running_call(&self) -> bool {
        self.calls.values().any(|call| call.invoked)
    }

    /// Whether a call is known, open or over.
    pub fn knows_call(&self, foreign_id: &str) -> bool {
        let id = map_id(foreign_id);
        self.calls.contains_key(&id) || self.over.get(key(&id)).is_some()
    }

    /// The open call of a tool with this input that is not carried out yet and that no permission is open for: the one
    /// that a permission without an id is about. The id is the mapped one, which maps to itself.
    pub fn find_call(&self, name: &str, input: &Value) -> Option<String> {
        let (input, _) = keep(input, limits::VALUE_BYTES_MAX);
        let has_prompt = |id: &str| self.prompts.values().any(|prompt| prompt.call == id);
        let fits =
            |call: &OpenCall| !call.invoked && !call.denied && call.name == name && call.input == input;
        self.calls.iter().find(|(id, call)| fits(call) && !has_prompt(id)).map(|(id, _)| id.clone())
    }

    /// The open approval of a call of a tool with this input.
    pub fn find_approval(&self, name: &str, input: &Value) -> Option<String> {
        let (input, _) = keep(input, limits::VALUE_BYTES_MAX);
        let fits = |id: &str| self.calls.get(id).is_some_and(|call| call.name == name && call.input == input);
        self.prompts.iter().find(|(_, prompt)| fits(&prompt.call)).map(|(id, _)| id.clone())
    }

    /// Ids of the open calls.
    pub fn open_calls(&self) -> Vec<String> {
        self.calls.keys().cloned().collect()
    }

    /// Before the side effect, or at the latest before the outcome. A permission that is still open was decided by
    /// the agent: it runs.
    fn invoke(&mut self, id: &str) -> bool {
        let Some(call) = self.calls.get(id) else { return false };
        if call.denied {
            return false;
        }
        if call.invoked {
            return true;
        }
        self.withdraw_for(id, Elsewhere::approved(&self.source.agent.clone()));
        let Some(call) = self.calls.get_mut(id) else { return false };
        call.invoked = true;
        let fields = Fields::new()
            .put("tool_call_id", id)
            .put("tool_name", call.name.as_str())
            .maybe("args_summary", call.summary.clone())
            .maybe("kind", call.kind.clone())
            .maybe("mcp_server", call.mcp.clone().map(|mcp| mcp.0))
            .maybe("mcp_tool", call.mcp.clone().map(|mcp| mcp.1));
        self.put("tool.invoked", fields);
        true
    }

    /// The outcome of a call. A repeated one adds nothing; one that contradicts an earlier one is noted as it is.
    pub fn call_end(&mut self, foreign_id: &str, outcome: Outcome) {
        let id = map_id(foreign_id);
        let Some(call) = self.calls.get(&id) else {
            return match self.over.get(key(&id)) {
                Some(how) if how == outcome.how => {}
                Some(_) => self.note_outcome("outcome_after_end", &id, &outcome),
                None => self.note_outcome("outcome_without_call", &id, &outcome),
            };
        };
        let (invoked, denied) = (call.invoked, call.denied);
        match outcome.how {
            How::Refused | How::Cancelled if !invoked => {
                self.withdraw_for(&id, Elsewhere::rejected(&self.source.agent.clone()));
                let code = match (outcome.how, denied, outcome.code.as_deref()) {
                    (How::Cancelled, false, _) => "cancelled",
                    (
                        _,
                        _,
                        Some(
                            known @ ("blocked" | "budget" | "cancelled" | "invalid_input" | "timed_out"
                            | "unavailable" | "unknown_tool"),
                        ),
                    ) => known,
                    _ => "denied",
                };
                self.refuse(&id, code, outcome.error.as_deref().unwrap_or("the call was not executed"));
                self.over.insert(key(&id), outcome.how);
            }
            _ if denied => {
                self.refuse(&id, "denied", "denied in Recount");
                self.note_outcome("outcome_after_denial", &id, &outcome);
                self.over.insert(key(&id), outcome.how);
            }
            _ => {
                self.invoke(&id);
                self.settle(&id, &outcome);
            }
        }
    }

    fn settle(&mut self, id: &str, outcome: &Outcome) {
        let Some(call) = self.calls.remove(id) else { return };
        self.over.insert(key(id), outcome.how);
        let kind = match outcome.how {
            How::Completed => "tool.completed",
            How::Failed | How::Refused => "tool.failed",
            How::Cancelled => "tool.cancelled",
            How::TimedOut => "tool.timed_out",
        };
        let fields = Fields::new()
            .put("tool_call_id", id)
            .put("tool_name", call.name)
            .maybe("output", outcome.output.as_ref().map(|output| keep(output, limits::VALUE_BYTES_MAX).0))
            .maybe("error", outcome.error.as_deref().map(|text| short(text, limits::SENTENCE_BYTES_MAX)))
            .maybe("code", outcome.code.as_deref().map(|text| short(text, limits::NAME_BYTES_MAX)))
            .maybe("summary", outcome.summary.as_deref().map(|text| short(text, limits::SENTENCE_BYTES_MAX)))
            .maybe("duration_ms", counted(outcome.duration_ms))
            .maybe("kind", call.kind)
            .maybe("mcp_server", call.mcp.clone().map(|mcp| mcp.0))
            .maybe("mcp_tool", call.mcp.map(|mcp| mcp.1));
        self.put(kind, fields);
    }

    pub(super) fn refuse(&mut self, id: &str, code: &str, message: &str) {
        let Some(call) = self.calls.remove(id) else { return };
        self.over.insert(key(id), How::Refused);
        let fields = Fields::new()
            .put("tool_call_id", id)
            .put("tool_name", call.name)
            .put("code", code)
            .put("message", short(message, limits::SENTENCE_BYTES_MAX));
        self.put("tool.refused", fields);
    }

    /// An outcome that no open call has.
    fn note_outcome(&mut self, name: &str, id: &str, outcome: &Outcome) {
        let how = match outcome.how {
            How::Completed => "completed",
            How::Failed => "failed",
            How::Cancelled => "cancelled",
            How::TimedOut => "timed_out",
            How::Refused => "refused",
        };
        if self.is_new(&format!("{name} {id} {how}")) {
            let body =
                json!({ "tool_call_id": id, "how": how, "error": outcome.error, "output": outcome.output });
            self.note(name, &body);
        }
    }

    /// Settles what is open at the end: what became of it was not seen.
    pub(super) fn close_calls(&mut self, why: &str) {
        for id in self.open_calls() {
            let unseen = format!("{why} before the outcome of the call was reported");
            let by = self.source.agent.clone();
            self.withdraw_for(&id, Elsewhere::undecided(&by, why));
            match self.calls.get(&id) {
                Some(call) if call.invoked => {
                    let outcome = Outcome {
                        error: Some(unseen),
                        code: Some("outcome_unknown".into()),
                        ..Outcome::of(How::Cancelled)
                    };
                    self.settle(&id, &outcome);
                }
                Some(call) if call.denied => self.refuse(&id, "denied", "denied in Recount"),
                Some(_) => self.refuse(&id, "cancelled", &unseen),
                None => {}
            }
        }
    }
}
