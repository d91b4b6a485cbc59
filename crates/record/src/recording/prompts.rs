//! Permissions: requested through Recount's faces, answered there, or withdrawn because they were decided elsewhere.

use super::Recording;
use super::reports::{Answer, Decided, Elsewhere, Prompt};
use crate::draft::Fields;
use crate::ids::map_id;
use crate::kept::{cut, short};
use crate::limits;

#[derive(Debug, Clone)]
pub(super) struct OpenPrompt {
    /// Our id of the call.
    pub(super) call: String,
}

impl Recording {
    /// Asks for a permission. `None` if that is not possible: the call is carried out already, over or denied, it is
    /// has a request already, or there are too many. Then a note is recorded, and the agent's own dialog decides.
    pub fn prompt(&mut self, prompt: Prompt) -> Option<String> {
        if self.ended {
            return None;
        }
        let call_id = map_id(&prompt.call.foreign_id);
        let approval_id = map_id(&prompt.approval_id);
        self.call(prompt.call);
        let has_prompt = self.prompts.values().any(|open| open.call == call_id);
        let full = self.prompts.len() >= limits::PROMPTS_OPEN_MAX || self.prompts_seen >= limits::PROMPTS_MAX;
        let call = self.calls.get(&call_id).filter(|call| !call.invoked && !call.denied);
        let is_new = !self.prompts.contains_key(&approval_id);
        let Some(call) = call.filter(|_| !has_prompt && !full && is_new) else {
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
            .maybe("default_decision", (!prompt.withdrawn_at_deadline).then_some("reject"))
            .maybe("withdrawn_at_deadline", prompt.withdrawn_at_deadline.then_some(true))
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

    /// Whether a permission can be requested for this call: it is not executed, settled or denied, and has no request.
    pub fn can_request_permission(&self, foreign_id: &str) -> bool {
        let id = map_id(foreign_id);
        let has_prompt = self.prompts.values().any(|open| open.call == id);
        !has_prompt && self.calls.get(&id).is_some_and(|call| !call.invoked && !call.denied)
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
                Answer::TimedOut => "the approval request timed out",
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
