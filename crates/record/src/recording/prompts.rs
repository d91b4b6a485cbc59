//! Permissions: asked of Recount's faces, answered there, or withdrawn because they were decided elsewhere.

use super::Recording;
use super::calls::CallStart;
use crate::draft::Fields;
use crate::ids::map_id;
use crate::kept::{cut, short};
use crate::limits;

/// A permission that the agent asks for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prompt {
    /// Unique among all approvals of the server, such as `appr_` and a ULID.
    pub approval_id: String,
    /// The call that it is about; it is recorded first, if it is not yet.
    pub call: CallStart,
    /// One line for people.
    pub summary: String,
    /// What a person reads before deciding, and its kind: `command`, `diff` or `input`.
    pub preview: Option<(&'static str, String)>,
    /// `low`, `medium` or `high`.
    pub risk_level: Option<&'static str>,
    /// How long an answer is waited for. The recorder withdraws the approval then; give the server a little more.
    pub timeout_seconds: Option<u64>,
}

/// What a face of Recount answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Approved,
    Rejected,
    /// Nobody answered in time, and the default, to reject, was applied.
    TimedOut,
}

/// A decision that was made elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    Approved,
    Rejected,
    /// Not yet, or it is not known.
    Undecided,
}

/// Who decided elsewhere, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Such as `claude` or `editor`: where it was decided. What a person is called there is rarely known.
    pub by: String,
    pub decided: Decided,
    pub comment: String,
}

impl Elsewhere {
    pub fn approved(by: &str) -> Self {
        let comment = "the agent went on with the call, which was approved outside Recount".into();
        Elsewhere { by: by.to_owned(), decided: Decided::Approved, comment }
    }

    pub fn rejected(by: &str) -> Self {
        let comment = "the call was refused outside Recount".into();
        Elsewhere { by: by.to_owned(), decided: Decided::Rejected, comment }
    }

    pub fn undecided(by: &str, comment: &str) -> Self {
        Elsewhere { by: by.to_owned(), decided: Decided::Undecided, comment: comment.to_owned() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct OpenPrompt {
    /// Our id of the call.
    pub(super) call: String,
}

impl Recording {
    /// Asks for a permission. `None` if that is not possible: the call is carried out already, over or denied, it is
    /// asked about already, or there are too many. Then a note is recorded, and the agent's own dialog decides.
    pub fn prompt(&mut self, prompt: Prompt) -> Option<String> {
        if self.ended {
            return None;
        }
        let call_id = map_id(&prompt.call.foreign_id);
        let approval_id = map_id(&prompt.approval_id);
        self.call(prompt.call);
        let asked = self.prompts.values().any(|open| open.call == call_id);
        let full = self.prompts.len() >= limits::PROMPTS_OPEN_MAX || self.prompts_seen >= limits::PROMPTS_MAX;
        let call = self.calls.get(&call_id).filter(|call| !call.invoked && !call.denied);
        let is_new = !self.prompts.contains_key(&approval_id);
        let Some(call) = call.filter(|_| !asked && !full && is_new) else {
            let body = serde_json::json!({ "tool_call_id": call_id, "summary": short(&prompt.summary, limits::SENTENCE_BYTES_MAX) });
            self.note("permission_not_asked", &body);
            return None;
        };
        let name = call.name.clone();
        if !self.is_new(&format!("approval {approval_id}")) {
            return None;
        }
        self.prompts_seen += 1;
        let preview = prompt
            .preview
            .as_ref()
            .map(|(kind, text)| (kind, cut(text, limits::PREVIEW_BYTES_MAX), text.len()));
        let fields = Fields::new()
            .put("approval_id", approval_id.as_str())
            .put("tool_call_id", call_id.as_str())
            .put("kind", name)
            .put("summary", short(&prompt.summary, limits::SENTENCE_BYTES_MAX))
            .put("default_decision", "reject")
            .maybe("preview_kind", preview.map(|(kind, _, _)| *kind))
            .maybe("preview", preview.map(|(_, (start, _), _)| start))
            .maybe("preview_size_bytes", preview.and_then(|(_, (_, is_cut), size)| is_cut.then_some(size)))
            .maybe(
                "risk_level",
                prompt.risk_level.filter(|level| matches!(*level, "low" | "medium" | "high")),
            )
            .maybe(
                "timeout_seconds",
                prompt.timeout_seconds.map(|seconds| seconds.min(limits::PROMPT_SECONDS_MAX)),
            );
        self.put("approval.requested", fields);
        self.prompts.insert(approval_id.clone(), OpenPrompt { call: call_id });
        Some(approval_id)
    }

    /// Whether a permission can be asked for this call: it is not carried out, over or denied, and not asked about yet.
    pub fn can_be_asked_about(&self, foreign_id: &str) -> bool {
        let id = map_id(foreign_id);
        let asked = self.prompts.values().any(|open| open.call == id);
        !asked && self.calls.get(&id).is_some_and(|call| !call.invoked && !call.denied)
    }

    /// Whether an approval waits for an answer.
    pub fn is_asking(&self, approval_id: &str) -> bool {
        self.prompts.contains_key(&map_id(approval_id))
    }

    /// The open approval for a call.
    pub fn approval_for(&self, foreign_id: &str) -> Option<String> {
        let call = map_id(foreign_id);
        self.prompts.iter().find(|(_, open)| open.call == call).map(|(id, _)| id.clone())
    }

    /// The open approvals.
    pub fn open_approvals(&self) -> Vec<String> {
        self.prompts.keys().cloned().collect()
    }

    /// A face of Recount answered: this is in the run already. A call that was denied is settled.
    pub fn answered(&mut self, approval_id: &str, answer: Answer) {
        let Some(prompt) = self.prompts.remove(&map_id(approval_id)) else { return };
        if answer == Answer::Approved {
            return;
        }
        if let Some(call) = self.calls.get_mut(&prompt.call) {
            call.denied = true;
            let message = match answer {
                Answer::TimedOut => "nobody answered in time",
                _ => "denied in Recount",
            };
            let code = if answer == Answer::TimedOut { "timed_out" } else { "denied" };
            self.refuse(&prompt.call, code, message);
        }
    }

    /// The approval is withdrawn, because it is decided elsewhere. A call that was rejected there is settled by its
    /// outcome, as one that was approved there.
    pub fn withdraw(&mut self, approval_id: &str, elsewhere: &Elsewhere) {
        let id = map_id(approval_id);
        let Some(prompt) = self.prompts.remove(&id) else { return };
        let decided = match elsewhere.decided {
            Decided::Approved => "approved",
            Decided::Rejected => "rejected",
            Decided::Undecided => "undecided",
        };
        let fields = Fields::new()
            .put("approval_id", id)
            .put("tool_call_id", prompt.call.as_str())
            .put("decision", "cancelled")
            .put("by", short(&elsewhere.by, limits::NAME_BYTES_MAX))
            .put("comment", short(&elsewhere.comment, limits::SENTENCE_BYTES_MAX))
            .put("decided_elsewhere", decided);
        self.put("approval.resolved", fields);
        if elsewhere.decided == Decided::Rejected
            && let Some(call) = self.calls.get_mut(&prompt.call)
        {
            call.denied = true;
        }
    }

    /// The same by the call.
    pub(super) fn withdraw_for(&mut self, call_id: &str, elsewhere: Elsewhere) {
        let open = self.prompts.iter().find(|(_, open)| open.call == call_id).map(|(id, _)| id.clone());
        if let Some(id) = open {
            self.withdraw(&id, &elsewhere);
        }
    }
}
