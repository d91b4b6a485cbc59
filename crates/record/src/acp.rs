//! Translates the Agent Client Protocol as a recorder between an editor and an agent sees it. Look at [`PromptRecording`].
//!
//! One prompt of a session is one run. It must not know how messages are transported, or which program answers them.

mod permission;
mod preview;
mod replay;
mod tool_call;
mod usage;

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

pub use self::permission::{Choice, Options};
pub use self::replay::Replay;
use self::tool_call::{ShownPatch, ToolCall};
use self::usage::added;
pub use self::usage::{Reported, SessionUsage};
use crate::draft::Draft;
use crate::patch::Patch;
use crate::recording::{
    Ending, How, Outcome, PatchFacts, Prompt, Recording, Todo, TurnEnd, TurnStart, Usage,
};
use crate::{CallStart, Elsewhere, Source, limits};

/// The highest protocol version whose messages are understood. Those of later ones are kept raw.
pub const VERSION_MAX: u64 = 2;

/// The optional facts that an agent sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reports {
    pub tokens: bool,
    pub cost: bool,
}

/// What this source shows, of an agent in a version that spoke this version of the protocol.
pub fn source(agent_version: Option<String>, protocol_version: u64) -> Source {
    source_of(agent_version, protocol_version, Reports::default())
}

/// The same of an agent that sent some of the optional facts.
pub fn source_of(agent_version: Option<String>, protocol_version: u64, reports: Reports) -> Source {
    let mut shows =
        vec!["prompts", "texts", "thoughts", "tool calls", "plans", "permissions", "requests to the editor"];
    let mut does_not_show = vec![
        "model calls (a prompt counts as one turn)",
        "whether a change shown by a tool call was written to the file",
        "whether a command failed, where the agent sends no exit status",
    ];
    if reports.tokens { &mut shows } else { &mut does_not_show }.push("tokens");
    if reports.cost { &mut shows } else { &mut does_not_show }.push("cost");
    Source::new("acp", &format!("acp version {protocol_version}"), &shows, &does_not_show)
        .with_version(agent_version)
}

/// The next draft to append, or patch to upload.
#[derive(Debug, Clone, PartialEq)]
pub enum AcpStep {
    Draft(Draft),
    /// To be uploaded, and then passed to [`PromptRecording::patch_draft`].
    Patch(Patch),
    /// What became of the patch with this key; for [`PromptRecording::patch_status_draft`].
    PatchStatus {
        key: u64,
        status: &'static str,
    },
}

/// An approval that was requested in Recount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedApproval {
    pub approval_id: String,
    pub options: Options,
}

/// The recording of one prompt.
#[derive(Debug)]
pub struct PromptRecording {
    recording: Recording,
    steps: VecDeque<AcpStep>,
    /// The agent's folder, to which paths are relative.
    folder: String,
    /// The open text, by our name for it.
    open_text: Option<String>,
    texts: u64,
    plans: u64,
    permissions_without_call: u64,
    calls: BTreeMap<String, ToolCall>,
    /// Ids of calls, oldest first, as far as they are remembered.
    call_order: VecDeque<String>,
    /// Calls that are not recorded yet: all of their input, or the rest of it, is still to come.
    waiting: Vec<String>,
    /// Calls that the agent reports as running, and whose start is not recorded yet: a permission may still be requested.
    starting: Vec<String>,
    /// The usage that is reported so far: of the requests, of the whole prompt, and its cost.
    used: (Option<Usage>, Option<Usage>, Option<u64>),
    patches_seen: std::collections::BTreeSet<u64>,
    /// Open requests of the agent to the editor, by id: our ids of the calls.
    requests: BTreeMap<String, String>,
    requests_seen: u64,
    /// Open permissions by the id of the request.
    permissions: BTreeMap<String, OpenPermission>,
    cancelled_by_editor: bool,
    /// How it has ended, as far as this recording knows.
    ending: Option<(&'static str, Ending)>,
}

#[derive(Debug, Clone)]
struct OpenPermission {
    approval_id: Option<String>,
    /// The call that it is for, or the recorded call that represents it.
    call: Option<String>,
    is_permission_call: bool,
    options: Options,
}

impl PromptRecording {
    /// Begins the recording of a prompt with its text.
    pub fn begin(source: &Source, folder: &str, session: &str, prompt: &Value) -> Self {
        let mut recording = Recording::begin(source);
        recording.note("acp_session", &json!({ "session_id": session, "cwd": folder }));
        let mut this = PromptRecording {
            recording,
            steps: VecDeque::new(),
            folder: folder.to_owned(),
            open_text: None,
            texts: 0,
            plans: 0,
            permissions_without_call: 0,
            calls: BTreeMap::new(),
            call_order: VecDeque::new(),
            waiting: Vec::new(),
            starting: Vec::new(),
            used: (None, None, None),
            patches_seen: std::collections::BTreeSet::new(),
            requests: BTreeMap::new(),
            requests_seen: 0,
            permissions: BTreeMap::new(),
            cancelled_by_editor: false,
            ending: None,
        };
        if let Some(text) = prompt_text(prompt) {
            this.recording.user(None, &text);
        }
        if has_more_than_text(prompt) {
            this.recording.raw("session/prompt", prompt, None);
        }
        this
    }

    /// The next steps, in order.
    pub fn drain(&mut self) -> Vec<AcpStep> {
        self.take_drafts();
        self.steps.drain(..).collect()
    }

    fn take_drafts(&mut self) {
        self.steps.extend(self.recording.drain().into_iter().map(AcpStep::Draft));
    }

    pub fn is_ended(&self) -> bool {
        self.recording.is_ended()
    }

    /// Goes on with a run whose events are these, after drafts of ours were not taken. An ending among them is made again.
    pub fn resume<'a>(&mut self, events: impl IntoIterator<Item = (&'a str, &'a Value)>) {
        let source = self.recording.source().clone();
        self.recording = Recording::resume(&source, events);
        if let Some((stop_reason, ending)) = self.ending.clone() {
            self.end(stop_reason, ending);
        }
    }

    /// `update` of a `session/update`.
    pub fn update(&mut self, update: &Value) {
        let name = update["sessionUpdate"].as_str().unwrap_or("");
        match name {
            "agent_message_chunk" => self.message_chunk(update),
            "agent_message" => self.message(update),
            "agent_thought_chunk" | "agent_thought" => {
                self.close_text();
                self.recording.raw(name, update, None);
            }
            "tool_call" | "tool_call_update" => {
                self.close_text();
                self.tool_call(update);
            }
            "plan" => self.plan(update, &update["entries"]),
            "plan_update" => self.plan(update, &update["plan"]["entries"]),
            // It names a change of the session in addition to the message.
            "" => self.recording.raw("session/update", update, None),
            // About the session, such as its title or its usage: the input of a call may still come.
            other => {
                self.settle_known();
                self.recording.raw(other, update, None);
            }
        }
    }

    fn message_chunk(&mut self, update: &Value) {
        let (id, content) = (update["messageId"].as_str(), &update["content"]);
        // Some agents send their usage with an empty text while they still prepare a call.
        if content["type"] == "text" && content["text"] == "" {
            return self.recording.raw("agent_message_chunk", update, None);
        }
        self.settle_waiting();
        let Some(text) = content["text"].as_str().filter(|_| content["type"] == "text") else {
            self.close_text();
            return self.recording.raw("agent_message_chunk", update, None);
        };
        let name = match (id, &self.open_text) {
            (Some(id), _) => format!("message:{id}"),
            (None, Some(open)) if open.starts_with("text:") => open.clone(),
            (None, _) => {
                self.texts += 1;
                format!("text:{}", self.texts)
            }
        };
        if self.open_text.as_ref().is_some_and(|open| *open != name) {
            self.close_text();
        }
        self.recording.text_delta(&name, None, text);
        self.open_text = Some(name);
    }

    /// A whole message, which replaces its chunks.
    fn message(&mut self, update: &Value) {
        self.settle_waiting();
        self.close_text();
        match (update["messageId"].as_str(), prompt_text(&update["content"])) {
            (Some(id), Some(text)) => self.recording.text(&format!("message:{id}"), &text),
            _ => self.recording.raw("agent_message", update, None),
        }
    }

    fn close_text(&mut self) {
        if let Some(open) = self.open_text.take() {
            self.recording.text_end(&open, None);
        }
    }

    fn plan(&mut self, update: &Value, entries: &Value) {
        self.settle_waiting();
        self.close_text();
        let Some(entries) = entries.as_array() else { return self.recording.raw("plan", update, None) };
        let text = |entry: &Value, name: &str| entry[name].as_str().map(str::to_owned);
        let todo = |entry: &Value| Todo {
            content: text(entry, "content").unwrap_or_default(),
            status: text(entry, "status").unwrap_or_default(),
            priority: text(entry, "priority"),
        };
        self.plans += 1;
        let todos: Vec<Todo> = entries.iter().map(todo).collect();
        self.recording.todos(&format!("plan-{}", self.plans), &todos);
    }

    // Tool calls.

    fn tool_call(&mut self, update: &Value) {
        let Some(id) = update["toolCallId"].as_str().map(str::to_owned) else {
            return self.recording.raw("tool_call", update, None);
        };
        let call = self.remember_call(&id);
        call.merge(update);
        let (status, is_recorded) = (call.status.clone(), call.is_recorded);
        let has_more_to_come = match &*status {
            "" | "pending" => true,
            // Some agents report a call as running while its input is still being written.
            "in_progress" => !call.has_input() && !is_effect(update),
            _ => false,
        };
        if !is_recorded && has_more_to_come {
            // Many agents send the input, or the rest of it, in a second message.
            if !self.waiting.contains(&id) {
                self.waiting.push(id);
            }
            return;
        }
        self.waiting.retain(|waiting| *waiting != id);
        if is_recorded
            && update.get("rawInput").is_some_and(|input| !input.is_null())
            && !self.is_input_recorded(&id)
        {
            self.recording.raw("tool_call_input", update, None);
        }
        self.record_call(&id);
        match &*status {
            "in_progress" if is_effect(update) => self.starts(&id),
            "in_progress" if !self.starting.contains(&id) => self.starting.push(id),
            "completed" => self.end_call(&id, How::Completed),
            "failed" => self.end_call(&id, How::Failed),
            "cancelled" => self.end_call(&id, How::Cancelled),
            _ => {}
        }
    }

    fn remember_call(&mut self, id: &str) -> &mut ToolCall {
        if !self.calls.contains_key(id) {
            if self.call_order.len() >= limits::ACP_CALLS_REMEMBERED_MAX
                && let Some(oldest) = self.call_order.pop_front()
            {
                self.calls.remove(&oldest);
            }
            self.call_order.push_back(id.to_owned());
        }
        self.calls.entry(id.to_owned()).or_default()
    }

    fn is_input_recorded(&self, id: &str) -> bool {
        self.calls.get(id).is_some_and(|call| call.recorded_input.as_ref() == Some(&call.input))
    }

    /// Records that the call is about to be made, once, and the changes that it shows so far.
    fn record_call(&mut self, id: &str) {
        let Some(call) = self.calls.get_mut(id) else { return };
        if !std::mem::replace(&mut call.is_recorded, true) {
            call.recorded_input = Some(call.input.clone());
            let start = call.start(id);
            self.recording.call(start);
        }
        if let Some(mut rest) = call.take_rest() {
            rest.insert("toolCallId".to_owned(), id.into());
            self.recording.raw("tool_call_fields", &rest.into(), None);
        }
        let changes = call.take_changes();
        self.take_drafts();
        for change in changes {
            self.change(id, &change);
        }
    }

    /// One change that a call shows. The same a second time adds nothing.
    fn change(&mut self, call: &str, change: &Value) {
        let input = self.calls.get(call).map_or(&Value::Null, |call| &call.input);
        let Some(patch) = preview::changed(call, change, &self.folder, input) else {
            return self.recording.raw("diff", change, None);
        };
        let key = patch.key();
        if patch.hunks == 0
            || self.patches_seen.len() >= limits::ACP_CALLS_REMEMBERED_MAX
            || !self.patches_seen.insert(key)
        {
            return;
        }
        match self.calls.get_mut(call) {
            Some(call) if patch.is_fragment => return call.fragments.push(patch),
            Some(call) => {
                let result = crate::ids::key(change["newText"].as_str().unwrap_or(""));
                call.patches.push(ShownPatch { key, path: patch.path.clone(), result });
            }
            None => {}
        }
        self.steps.push_back(AcpStep::Patch(patch));
    }

    /// The changes of a call whose places the agent has not sent.
    fn add_fragments(&mut self, call: &str) {
        let Some(call) = self.calls.get_mut(call) else { return };
        for fragment in std::mem::take(&mut call.fragments) {
            if !call.patches.iter().any(|shown| shown.path == fragment.path) {
                self.steps.push_back(AcpStep::Patch(fragment));
            }
        }
    }

    /// The drafts that name an uploaded patch.
    pub fn patch_draft(patch: &Patch, artifact_id: &str, hash: Option<String>, size_bytes: u64) -> Draft {
        let facts = PatchFacts::of(patch, artifact_id, hash, size_bytes);
        one_draft(|recording| recording.patch(Some(&patch.call), &facts))
    }

    /// The draft for what became of an uploaded patch.
    pub fn patch_status_draft(artifact_id: &str, status: &str) -> Draft {
        one_draft(|recording| recording.patch_status(artifact_id, status))
    }

    /// The draft for a patch that could not be uploaded: its text, within the bound.
    pub fn inline_patch_draft(patch: &Patch, why: &str) -> Draft {
        one_draft(|recording| recording.patch_not_stored(patch, why))
    }

    fn end_call(&mut self, id: &str, how: How) {
        self.starting.retain(|starting| starting != id);
        let Some(call) = self.calls.get_mut(id) else { return };
        call.shown_changes.clear();
        // The agent reports a call as failed that was not executed.
        let how = if call.is_denied && how == How::Failed { How::Refused } else { how };
        let error = if how == How::Failed { call.text() } else { None };
        let outcome = Outcome { output: call.output(), error, ..Outcome::of(how) };
        if let Some(shown) = call.shown_beside_output() {
            let body = json!({ "toolCallId": id, "content": shown });
            self.recording.raw("tool_call_content", &body, None);
        }
        let outcome = outcome.with_exit_status(call.exit_status());
        let status = match outcome.how {
            How::Completed => Some("applied"),
            How::Refused => Some("rejected"),
            How::Failed | How::Cancelled | How::TimedOut => None,
        };
        self.take_drafts();
        self.add_fragments(id);
        let patches =
            self.calls.get_mut(id).map(|call| std::mem::take(&mut call.patches)).unwrap_or_default();
        self.recording.call_end(id, outcome);
        self.take_drafts();
        if let Some(status) = status {
            for (at, ShownPatch { key, path, result }) in patches.iter().enumerate() {
                // Some agents show a changed file as a new one first, and then again with its old text.
                let is_again = |later: &ShownPatch| later.path == *path && later.result == *result;
                let status = if patches[at + 1..].iter().any(is_again) { "rejected" } else { status };
                self.steps.push_back(AcpStep::PatchStatus { key: *key, status });
            }
        }
    }

    /// The call is executed.
    fn starts(&mut self, id: &str) {
        self.starting.retain(|starting| starting != id);
        self.recording.call_running(id);
    }

    /// Whether calls that are reported as running may still need a permission, and whether the input of one of them is
    /// known. While a person decides about one, or one is executed, the others wait.
    pub fn starting(&self) -> Option<bool> {
        let may_start = self.permissions.is_empty() && !self.recording.has_running_call();
        let is_any = !self.starting.is_empty() || !self.waiting.is_empty();
        (may_start && is_any).then(|| self.starting.iter().any(|id| self.has_input(id)))
    }

    fn has_input(&self, id: &str) -> bool {
        self.calls.get(id).is_some_and(ToolCall::has_input)
    }

    /// Records the start of these calls, as no request for a permission came: of those whose input is known, if there
    /// are any.
    pub fn settle_starting(&mut self) {
        let Some(with_input) = self.starting() else { return };
        if !with_input {
            self.settle_waiting();
        }
        let is_due = |id: &&String| !with_input || self.calls.get(*id).is_some_and(ToolCall::has_input);
        for id in self.starting.iter().filter(is_due).cloned().collect::<Vec<_>>() {
            self.starts(&id);
        }
    }

    /// Whether calls with an input are not recorded yet because more of it may come.
    pub fn has_waiting(&self) -> bool {
        self.waiting.iter().any(|id| self.has_input(id))
    }

    /// Records those calls as they are known so far.
    pub fn settle_known(&mut self) {
        let (known, unknown) =
            std::mem::take(&mut self.waiting).into_iter().partition(|id| self.has_input(id));
        self.waiting = known;
        self.settle_waiting();
        self.waiting = unknown;
    }

    /// Records the calls that wait for more of their input as they are known so far.
    pub fn settle_waiting(&mut self) {
        for id in std::mem::take(&mut self.waiting) {
            self.record_call(&id);
            if self.calls.get(&id).is_some_and(|call| call.status == "in_progress") {
                self.starting.push(id);
            }
        }
    }

    // Requests of the agent to the editor.

    /// A request other than for a permission.
    pub fn request(&mut self, id: &str, method: &str, params: &Value) {
        self.settle_waiting();
        self.close_text();
        // Reading may precede a permission.
        if matches!(method, "terminal/create" | "fs/write_text_file")
            && let [only] = &self.starting[..]
        {
            self.starts(&only.clone());
        }
        self.requests_seen += 1;
        let call = format!("request-{}", self.requests_seen);
        self.recording.client_call(&call, method, params, &request_summary(method, params));
        if self.requests.len() < limits::ACP_REQUESTS_OPEN_MAX {
            self.requests.insert(id.to_owned(), call);
        }
    }

    /// The editor's answer to it: whether a request with this id was open in this run.
    pub fn response(&mut self, id: &str, response: &Value) -> bool {
        let Some(call) = self.requests.remove(id) else { return false };
        let error = &response["error"];
        let outcome = if error.is_null() {
            Outcome { output: Some(response["result"].clone()), ..Outcome::of(How::Completed) }
        } else {
            Outcome {
                error: Some(error["message"].as_str().unwrap_or("the editor returned an error").to_owned()),
                code: error["code"].as_i64().map(|code| code.to_string()),
                ..Outcome::of(How::Failed)
            }
        };
        self.recording.call_end(&call, outcome);
        true
    }

    /// The agent requests a permission. With `approval_id` an approval is requested in Recount, too. `None`: not possible.
    pub fn permission(
        &mut self,
        id: &str,
        params: &Value,
        approval_id: Option<&str>,
        timeout_seconds: Option<u64>,
    ) -> Option<RequestedApproval> {
        self.close_text();
        let options = Options::of(params);
        let about =
            if params["subject"].is_object() { &params["subject"]["toolCall"] } else { &params["toolCall"] };
        let call = about["toolCallId"].as_str().map(str::to_owned);
        // The request may have the rest of its own call's input.
        self.waiting.retain(|waiting| call.as_ref() != Some(waiting));
        self.settle_waiting();
        if let Some(call) = &call {
            // It starts with the permission.
            self.starting.retain(|starting| starting != call);
            let remembered = self.remember_call(call);
            let status = std::mem::take(&mut remembered.status);
            remembered.merge(about);
            // The request does not begin or end the call.
            remembered.status = status;
            self.record_call(call);
        }
        if self.permissions.len() >= limits::ACP_REQUESTS_OPEN_MAX {
            self.recording.raw("session/request_permission", params, None);
            return None;
        }
        let known = call.as_ref().and_then(|call| self.calls.get(call));
        let (summary, preview) =
            (preview::summary(params, about, known), preview::preview(params, about, known));
        let can_request = call.as_ref().is_some_and(|call| self.recording.can_request_permission(call));
        let start = match &call {
            Some(call) if can_request => self.calls.get(call).map(|known| known.start(call)),
            _ => None,
        };
        let is_permission_call = start.is_none();
        let start = start.unwrap_or_else(|| {
            self.permissions_without_call += 1;
            CallStart {
                foreign_id: format!("permission-{}", self.permissions_without_call),
                name: "request_permission".to_owned(),
                input: params.clone(),
                summary: Some(summary.clone()),
                kind: Some("permission".to_owned()),
                mcp: None,
            }
        });
        let call_id = start.foreign_id.clone();
        let requested = match approval_id {
            Some(approval_id) => self.recording.prompt(Prompt {
                approval_id: approval_id.to_owned(),
                call: start,
                summary,
                preview,
                risk_level: None,
                timeout_seconds,
                withdrawn_at_deadline: false,
            }),
            None => {
                self.recording.call(start);
                self.recording.raw("session/request_permission", params, None);
                None
            }
        };
        let open = OpenPermission {
            approval_id: requested.clone(),
            call: Some(call_id),
            is_permission_call,
            options: options.clone(),
        };
        self.permissions.insert(id.to_owned(), open);
        requested.map(|approval_id| RequestedApproval { approval_id, options })
    }

    /// The editor answered a permission, and that answer went to the agent: whether one with this id was open in this run.
    pub fn permission_answered(&mut self, id: &str, response: &Value) -> bool {
        let Some(open) = self.permissions.remove(id) else { return false };
        let elsewhere = open.options.elsewhere(response);
        match &open.approval_id {
            Some(approval_id) => self.recording.withdraw(approval_id, &elsewhere),
            None => self.recording.raw("permission_answer", response, None),
        }
        self.decided(&open, &elsewhere, response);
        true
    }

    /// Recount's answer went to the agent. The event with it is in the run already.
    pub fn permission_answered_here(&mut self, id: &str, kind: &str, data: &Value, result: &Value) {
        let Some(open) = self.permissions.remove(id) else { return };
        self.recording.saw_resolved(kind, data);
        let is_approved = data["decision"] == "approved";
        let elsewhere =
            if is_approved { Elsewhere::approved("recount") } else { Elsewhere::rejected("recount") };
        self.decided(&open, &elsewhere, result);
    }

    /// The permission is no longer wanted, or cannot be answered: why.
    pub fn permission_withdrawn(&mut self, id: &str, by: &str, why: &str) {
        let Some(open) = self.permissions.remove(id) else { return };
        let elsewhere = Elsewhere::undecided(by, why);
        if let Some(approval_id) = &open.approval_id {
            self.recording.withdraw(approval_id, &elsewhere);
        }
        self.decided(&open, &elsewhere, &json!(null));
    }

    fn decided(&mut self, open: &OpenPermission, elsewhere: &Elsewhere, answer: &Value) {
        use crate::Decided;
        let Some(call) = &open.call else { return };
        if open.is_permission_call {
            let outcome = match elsewhere.decided {
                Decided::Approved => Outcome { output: Some(answer.clone()), ..Outcome::of(How::Completed) },
                Decided::Rejected => {
                    Outcome { error: Some(elsewhere.comment.clone()), ..Outcome::of(How::Refused) }
                }
                Decided::Undecided => {
                    Outcome { error: Some(elsewhere.comment.clone()), ..Outcome::of(How::Cancelled) }
                }
            };
            return self.recording.call_end(call, outcome);
        }
        let Some(known) = self.calls.get_mut(call) else { return };
        match elsewhere.decided {
            Decided::Rejected => known.is_denied = true,
            // It was reported as running before.
            Decided::Approved if known.status == "in_progress" => self.recording.call_running(call),
            Decided::Approved | Decided::Undecided => {}
        }
    }

    /// Any other message: of another kind, or unreadable.
    pub fn raw(&mut self, name: &str, body: &Value) {
        self.recording.raw(name, body, None);
    }

    /// Bytes that are no message.
    pub fn raw_text(&mut self, name: &str, body: &str) {
        self.recording.raw_text(name, body, None);
    }

    pub fn note(&mut self, name: &str, details: &Value) {
        self.recording.note(name, details);
    }

    pub fn gap(&mut self, reason: &str, what: &str) {
        self.recording.gap(reason, what);
    }

    // Endings.

    /// The editor requested that the agent stops.
    pub fn cancel(&mut self) {
        self.cancelled_by_editor = true;
        self.recording.raw("session/cancel", &json!({}), None);
    }

    /// A usage that the agent reports of this prompt.
    pub fn used(&mut self, reported: Reported) {
        let (requests, prompt, cost) = &mut self.used;
        match reported {
            Reported::Request(usage) => *requests = Some(added(requests.unwrap_or_default(), usage)),
            Reported::Prompt(usage) => *prompt = Some(usage),
            Reported::Cost(micros) => *cost = Some(cost.unwrap_or(0).saturating_add(micros)),
        }
    }

    /// Which optional facts the agent sent so far.
    pub fn reports(&self) -> Reports {
        let (requests, prompt, cost) = self.used;
        Reports { tokens: requests.or(prompt).is_some(), cost: cost.is_some() }
    }

    /// The agent's answer to the prompt.
    pub fn answered(&mut self, response: &Value) {
        let more = response["result"]
            .as_object()
            .filter(|fields| fields.iter().any(|(name, value)| name != "stopReason" && !value.is_null()));
        if more.is_some() {
            self.recording.raw("prompt_result", &response["result"], None);
        }
        let error = &response["error"];
        if error.is_null() {
            return self.stopped(response["result"]["stopReason"].as_str(), &response["result"]);
        }
        let code =
            error["code"].as_i64().map_or_else(|| "acp_error".to_owned(), |code| format!("acp_error_{code}"));
        let message = error["message"].as_str().unwrap_or("the agent returned an error").to_owned();
        if !error["data"].is_null() {
            self.recording.raw("error", error, None);
        }
        self.end("error", Ending::Failed { code, message });
    }

    /// The agent has stopped, for a reason that it may name.
    pub fn stopped(&mut self, reason: Option<&str>, body: &Value) {
        match reason {
            Some("cancelled") => {
                let (by, reason) = if self.cancelled_by_editor {
                    ("operator", "cancelled in the editor")
                } else {
                    ("system", "the agent reported that it was cancelled")
                };
                self.end("error", Ending::Cancelled { by: by.into(), reason: reason.into() });
            }
            Some("error") => {
                let message =
                    body["error"]["message"].as_str().unwrap_or("the agent reported an error").to_owned();
                self.end("error", Ending::Failed { code: "agent_error".into(), message });
            }
            Some("end_turn") => self.end("end_turn", Ending::Finished { status: "completed".into() }),
            Some(other) => {
                let stop = match other {
                    "max_tokens" => "max_tokens",
                    "refusal" => "refusal",
                    _ => "end_turn",
                };
                self.end(stop, Ending::Finished { status: other.to_owned() });
            }
            None => self.end("end_turn", Ending::Finished { status: "no_stop_reason".into() }),
        }
    }

    /// It ends without an answer of the agent.
    pub fn broken_off(&mut self, code: &str, message: &str) {
        self.end("error", Ending::Failed { code: code.to_owned(), message: message.to_owned() });
    }

    fn end(&mut self, stop_reason: &'static str, ending: Ending) {
        self.ending.get_or_insert((stop_reason, ending.clone()));
        self.settle_waiting();
        self.close_text();
        for id in std::mem::take(&mut self.starting) {
            self.recording.call_running(&id);
        }
        self.take_drafts();
        for id in self.calls.keys().cloned().collect::<Vec<_>>() {
            self.add_fragments(&id);
        }
        for id in std::mem::take(&mut self.permissions).into_keys().collect::<Vec<_>>() {
            self.permission_withdrawn(&id, "agent", "the prompt ended before the request was answered");
        }
        let (requests, prompt, cost_micros_usd) = self.used;
        let usage = prompt.or(requests).or(cost_micros_usd.map(|_| Usage::default()));
        let usage = usage.map(|usage| Usage { cost_micros_usd, ..usage });
        if usage.is_some() && !self.recording.in_turn() {
            self.recording.turn_begin(TurnStart::default());
        }
        let is_over = stop_reason != "error" && self.recording.open_calls().is_empty();
        if is_over && self.recording.in_turn() {
            self.recording.turn_end(TurnEnd { stop_reason, usage });
            usage.iter().for_each(|_| self.recording.cost_tick());
        } else if let Some(usage) = usage {
            self.recording.used_at_end(usage);
        }
        let lists = source_of(None, 0, self.reports());
        self.recording.correct_source(&lists.shows, &lists.does_not_show);
        self.recording.end(ending);
    }
}

/// The one draft that a report gives.
fn one_draft(report: impl FnOnce(&mut Recording)) -> Draft {
    let mut recording = Recording::begin(&source(None, 0));
    recording.drain();
    report(&mut recording);
    recording.drain().remove(0)
}

/// Whether an update shows that its call is executed, and not only what it would do.
fn is_effect(update: &Value) -> bool {
    // A terminal may be shown before the permission is requested.
    let is_output = |name: &String| name.starts_with("terminal_output") || name == "terminal_exit";
    let has_output = update["_meta"].as_object().is_some_and(|meta| meta.keys().any(is_output));
    has_output || !update["rawOutput"].is_null()
}

/// The texts of content blocks, joined; `None` where there is none.
pub fn prompt_text(blocks: &Value) -> Option<String> {
    let text = |block: &Value| match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(str::to_owned),
        Some("resource_link") => block["uri"].as_str().map(|uri| format!("[{uri}]")),
        Some("resource") => block["resource"]["uri"].as_str().map(|uri| format!("[{uri}]")),
        Some(other) => Some(format!("[{other}]")),
        None => None,
    };
    let texts: Vec<String> = blocks.as_array().into_iter().flatten().filter_map(text).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn has_more_than_text(blocks: &Value) -> bool {
    blocks.as_array().is_none_or(|blocks| blocks.iter().any(|block| block["type"] != "text"))
}

/// A request in one line.
fn request_summary(method: &str, params: &Value) -> String {
    let word = |name: &str| params[name].as_str();
    let about = word("path").or(word("command")).or(word("terminalId")).or(word("message"));
    let args = params["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let args: String = args.flat_map(|arg| [" ", arg]).collect();
    about.map_or_else(|| method.to_owned(), |about| format!("{about}{args}"))
}
