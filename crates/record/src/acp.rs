//! Translates the Agent Client Protocol as a recorder between an editor and an agent sees it. Look at [`PromptRecording`].
//!
//! One prompt of a session is one run. It must not know how messages are transported, or which program answers them.

mod patch;
mod permission;
mod replay;
mod tool_call;

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

pub use self::patch::Patch;
pub use self::permission::{Choice, Options};
pub use self::replay::Replay;
use self::tool_call::ToolCall;
use crate::draft::Draft;
use crate::kept::cut;
use crate::recording::{Ending, How, Outcome, PatchFacts, Prompt, Recording, Todo, TurnEnd};
use crate::{CallStart, Elsewhere, Source, limits};

/// The highest protocol version whose messages are understood. Those of later ones are kept raw.
pub const VERSION_MAX: u64 = 2;

/// What this source shows, of an agent in a version that spoke this version of the protocol.
pub fn source(agent_version: Option<String>, protocol_version: u64) -> Source {
    let shows =
        ["prompts", "texts", "thoughts", "tool calls", "plans", "permissions", "requests to the editor"];
    let does_not_show = [
        "model calls (a prompt counts as one turn)",
        "tokens",
        "whether a change shown by a tool call was written to the file",
    ];
    Source::new("acp", &format!("acp version {protocol_version}"), &shows, &does_not_show)
        .with_version(agent_version)
}

/// The next draft to append, or patch to upload.
#[derive(Debug, Clone, PartialEq)]
pub enum AcpStep {
    Draft(Draft),
    /// To be uploaded, and then passed to [`PromptRecording::patch_draft`].
    Patch(Patch),
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
            other => {
                self.settle_waiting();
                self.recording.raw(other, update, None);
            }
        }
    }

    fn message_chunk(&mut self, update: &Value) {
        self.settle_waiting();
        let (id, content) = (update["messageId"].as_str(), &update["content"]);
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
        if !is_recorded && matches!(&*status, "" | "pending") {
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
            "in_progress" => self.recording.call_running(&id),
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
        let (Some(path), Some(new)) = (change["path"].as_str(), change["newText"].as_str()) else {
            return self.recording.raw("diff", change, None);
        };
        let digest = crate::ids::key(&format!("{call} {change}"));
        if self.patches_seen.len() >= limits::ACP_CALLS_REMEMBERED_MAX || !self.patches_seen.insert(digest) {
            return;
        }
        let relative = path.strip_prefix(&*self.folder).map_or(path, |rest| rest.trim_start_matches('/'));
        let patch = Patch::of(call, relative, change["oldText"].as_str(), new);
        if patch.hunks > 0 {
            self.steps.push_back(AcpStep::Patch(patch));
        }
    }

    /// The draft that names an uploaded patch.
    pub fn patch_draft(patch: &Patch, artifact_id: &str, hash: Option<String>, size_bytes: u64) -> Draft {
        let source = source(None, 0);
        let mut recording = Recording::begin(&source);
        recording.drain();
        let facts = PatchFacts {
            artifact_id: artifact_id.to_owned(),
            hash,
            path: patch.path.clone(),
            size_bytes,
            additions: patch.additions,
            deletions: patch.deletions,
            hunks: patch.hunks,
        };
        recording.patch(Some(&patch.call), &facts);
        recording.drain().remove(0)
    }

    /// The draft for a patch that could not be uploaded: its text, within the bound.
    pub fn inline_patch_draft(patch: &Patch, why: &str) -> Draft {
        let (text, truncated) = cut(&patch.text, limits::RAW_BYTES_MAX);
        let mut data = json!({ "tool_call_id": crate::map_id(&patch.call), "path": patch.path, "diff": text, "reason": why });
        if truncated {
            data["truncated"] = true.into();
            data["size_bytes"] = patch.text.len().into();
        }
        Draft { kind: "ext.acp.patch".into(), data }
    }

    fn end_call(&mut self, id: &str, how: How) {
        let Some(call) = self.calls.get(id) else { return };
        // The agent reports a call as failed that was not executed.
        let how = if call.is_denied && how == How::Failed { How::Refused } else { how };
        let outcome = Outcome { output: call.output(), ..Outcome::of(how) };
        self.recording.call_end(id, outcome);
    }

    /// Whether calls are not recorded yet because more of their input may come.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Records the calls that wait for more of their input as they are known so far.
    pub fn settle_waiting(&mut self) {
        for id in std::mem::take(&mut self.waiting) {
            self.record_call(&id);
        }
    }

    // Requests of the agent to the editor.

    /// A request other than for a permission.
    pub fn request(&mut self, id: &str, method: &str, params: &Value) {
        self.settle_waiting();
        self.close_text();
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
                summary: Some(permission_summary(params, about)),
                kind: Some("permission".to_owned()),
                mcp: None,
            }
        });
        let call_id = start.foreign_id.clone();
        let requested = match approval_id {
            Some(approval_id) => self.recording.prompt(Prompt {
                approval_id: approval_id.to_owned(),
                call: start,
                summary: permission_summary(params, about),
                preview: preview(params, about),
                risk_level: None,
                timeout_seconds,
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
        if elsewhere.decided == Decided::Rejected
            && let Some(call) = self.calls.get_mut(call)
        {
            call.is_denied = true;
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

    /// The agent's answer to the prompt.
    pub fn answered(&mut self, response: &Value) {
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
        for id in std::mem::take(&mut self.permissions).into_keys().collect::<Vec<_>>() {
            self.permission_withdrawn(&id, "agent", "the prompt ended before the request was answered");
        }
        if stop_reason != "error" && self.recording.in_turn() && self.recording.open_calls().is_empty() {
            self.recording.turn_end(TurnEnd { stop_reason, usage: None });
        }
        self.recording.end(ending);
    }
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

fn permission_summary(params: &Value, about: &Value) -> String {
    let texts = [&params["title"], &about["title"], &params["subject"]["command"]];
    let summary = texts.into_iter().find_map(Value::as_str).map(str::to_owned);
    summary.unwrap_or_else(|| "the agent requests a permission".to_owned())
}

/// The text that a person reads before deciding.
fn preview(params: &Value, about: &Value) -> Option<(&'static str, String)> {
    let command = params["subject"]["command"].as_str().or(about["rawInput"]["command"].as_str());
    if let Some(command) = command {
        return Some(("command", command.to_owned()));
    }
    let diffs = about["content"].as_array().into_iter().flatten().filter(|part| part["type"] == "diff");
    let diffs: String = diffs
        .filter_map(|part| {
            let path = part["path"].as_str()?;
            Some(
                Patch::of(
                    "",
                    path.trim_start_matches('/'),
                    part["oldText"].as_str(),
                    part["newText"].as_str()?,
                )
                .text,
            )
        })
        .collect();
    if !diffs.is_empty() {
        return Some(("diff", diffs));
    }
    let input = &about["rawInput"];
    (!input.is_null()).then(|| ("input", input.to_string()))
}
