//! Follows a connection message by message: the run of each message, and open permission requests. See [`AcpConnection`].
//!
//! It must not do I/O. What a message means within a run is in `recount_record::acp`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use recount_record::acp::{self, Options, PromptRecording, Reported, SessionUsage};
use serde_json::{Value, json};

use super::gate::{Held, cancelled_request};
use super::queue::{AcpItem, AcpSide, DroppedMessages};
use super::run::RecordedRun;
use crate::limits;
use crate::render::count;

/// What the recorder must do because of a message.
#[derive(Debug)]
pub(super) enum AcpAction {
    /// The server has, or will have, an approval for this permission request.
    PermissionRequested { request: String },
    /// A permission request that only Recount could answer, but no approval can be created for it.
    CannotAsk { request: String },
    /// Answer an open permission as cancelled, because the prompt was cancelled or the agent took it back.
    CancelPermission { request: String, is_taken_back: bool },
    /// Answer `session/load` from the log.
    Load { request: String, session: String, params: Value },
    /// Refuse a prompt to a session that only the log has.
    RefusePrompt { request: String },
    /// The agent answered a request of the recorder's own.
    OwnAnswer { request: String, answer: Value },
}

/// A permission that is open in Recount, or held back for it.
#[derive(Debug, Clone)]
pub(super) struct PermissionInRecount {
    pub(super) run: u64,
    pub(super) approval_id: Option<String>,
    pub(super) options: Options,
    session: String,
    /// The request as it came, where the editor does not have it.
    pub(super) held_line: Option<Arc<[u8]>>,
}

/// A request of the editor that is not answered yet.
#[derive(Debug)]
enum OpenRequest {
    Initialize,
    New { folder: String },
    Replay { session: String },
    Prompt { session: String, run: u64 },
    Other { session: Option<String>, method: String },
}

#[derive(Debug, Default)]
struct AcpSession {
    folder: String,
    /// The agent made it on this connection, so that no earlier run has it.
    is_new: bool,
    /// The agent shows its history again: nothing of that is new.
    is_replaying: bool,
    /// OpenRequest prompts, oldest first: the updates are of the first.
    prompts: VecDeque<u64>,
    /// What came outside of prompts; it is recorded with the next one.
    outside: VecDeque<(String, Value)>,
    /// What it used so far.
    usage: SessionUsage,
}

/// How permissions are requested.
#[derive(Debug, Clone)]
pub(super) struct ApprovalTerms {
    /// Whether approvals are created in Recount.
    pub(super) in_recount: bool,
    pub(super) timeout_seconds: Option<u64>,
    /// What approval ids begin with; unique to this process.
    pub(super) prefix: String,
}

pub(super) struct AcpConnection {
    asking: ApprovalTerms,
    /// As the agent calls itself, or else as its command is called.
    pub(super) agent: String,
    pub(super) agent_version: Option<String>,
    pub(super) protocol_version: u64,
    requests: HashMap<String, OpenRequest>,
    /// OpenRequest requests of the agent: their runs.
    agent_requests: HashMap<String, u64>,
    sessions: BTreeMap<String, AcpSession>,
    pub(super) runs: BTreeMap<u64, RecordedRun>,
    runs_started: u64,
    /// The run of a connection whose protocol version is not known.
    unknown_version: Option<u64>,
    permission_count: u64,
    pub(super) permissions: BTreeMap<String, PermissionInRecount>,
    /// The optional facts that the last prompt had.
    reports: acp::Reports,
    /// What came before any session; it is recorded with the first prompt.
    loose: VecDeque<(String, Value)>,
}

impl AcpConnection {
    pub(super) fn new(agent: &str, asking: ApprovalTerms) -> Self {
        AcpConnection {
            asking,
            agent: agent.to_owned(),
            agent_version: None,
            protocol_version: 1,
            requests: HashMap::new(),
            agent_requests: HashMap::new(),
            sessions: BTreeMap::new(),
            runs: BTreeMap::new(),
            runs_started: 0,
            unknown_version: None,
            permission_count: 0,
            permissions: BTreeMap::new(),
            reports: acp::Reports::default(),
            loose: VecDeque::new(),
        }
    }

    pub(super) fn take(&mut self, item: AcpItem) -> Vec<AcpAction> {
        match item {
            AcpItem::Message { from, line, held } => self.line(from, &line, held),
            AcpItem::Long { from, head, beginning, bytes } => {
                let beginning = String::from_utf8_lossy(&beginning).into_owned();
                let method = head.method.clone().unwrap_or_default();
                let body = json!({
                    "from": name(from), "method": method, "size_bytes": bytes, "beginning": beginning, "truncated": true,
                });
                self.anywhere("message_too_long", &body);
                if let Some(id) = head.response().filter(|_| from == AcpSide::Agent) {
                    self.long_answer(id);
                }
                Vec::new()
            }
            AcpItem::Unfinished { from, bytes } => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(limits::ACP_LONG_KEPT_BYTES)]);
                let body = json!({ "from": name(from), "size_bytes": bytes.len(), "beginning": text });
                self.anywhere("unfinished_message", &body);
                Vec::new()
            }
            AcpItem::Dropped(dropped) => {
                self.dropped(dropped);
                Vec::new()
            }
            AcpItem::EditorLeft => {
                self.anywhere("editor_left", &json!({}));
                Vec::new()
            }
            AcpItem::AgentEnded(how) => {
                self.agent_ended(&how);
                Vec::new()
            }
        }
    }

    fn line(&mut self, from: AcpSide, line: &Arc<[u8]>, held: Option<Held>) -> Vec<AcpAction> {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            let text =
                String::from_utf8_lossy(&line[..line.len().min(limits::ACP_LONG_KEPT_BYTES)]).into_owned();
            if !text.trim().is_empty() {
                self.anywhere(
                    "not_a_message",
                    &json!({ "from": name(from), "size_bytes": line.len(), "text": text }),
                );
            }
            return Vec::new();
        };
        let mut actions = Vec::new();
        let id = message.get("id").filter(|id| id.is_string() || id.is_number()).map(Value::to_string);
        let method = message["method"].as_str().unwrap_or("").to_owned();
        if let Some(run) = self.unknown_version.and_then(|run| self.runs.get_mut(&run)) {
            run.recording.raw(&format!("from_{}", name(from)), &message);
            return actions;
        }
        match (from, id, method.is_empty()) {
            (AcpSide::Editor, Some(id), false) => {
                self.editor_request(id, &method, &message, held, &mut actions)
            }
            (AcpSide::Editor, None, false) => self.editor_notification(&method, &message, &mut actions),
            (AcpSide::Editor, Some(id), true) => self.editor_response(&id, &message, held),
            (AcpSide::Agent, Some(id), false) => {
                self.agent_request(id, &method, &message, line, held, &mut actions)
            }
            (AcpSide::Agent, None, false) => {
                self.agent_notification(&method, &message, line, held, &mut actions)
            }
            (AcpSide::Agent, Some(id), true) if held == Some(Held::OwnAnswer) => {
                actions.push(AcpAction::OwnAnswer { request: id, answer: message });
            }
            (AcpSide::Agent, Some(id), true) => self.agent_response(&id, &message),
            (_, None, true) => self.anywhere("message", &json!({ "from": name(from), "message": message })),
        }
        actions
    }

    // From the editor.

    fn editor_request(
        &mut self,
        id: String,
        method: &str,
        message: &Value,
        held: Option<Held>,
        actions: &mut Vec<AcpAction>,
    ) {
        let params = &message["params"];
        let session = params["sessionId"].as_str().map(str::to_owned);
        let folder = || params["cwd"].as_str().unwrap_or("").to_owned();
        if self.requests.len() >= limits::ACP_REQUESTS_OPEN_MAX {
            return self.anywhere("request_not_followed", &json!({ "method": method }));
        }
        let open = match (method, session) {
            ("initialize", _) => {
                self.keep_loose("initialize", params);
                OpenRequest::Initialize
            }
            ("session/new", _) => OpenRequest::New { folder: folder() },
            ("session/load" | "session/resume", Some(session)) => {
                let known = self.session(&session);
                known.folder = folder();
                if held == Some(Held::Load) {
                    actions.push(AcpAction::Load { request: id, session, params: params.clone() });
                    return;
                }
                known.is_replaying = method == "session/load" || !params["replayFrom"].is_null();
                OpenRequest::Replay { session }
            }
            ("session/prompt", Some(session)) => {
                if held == Some(Held::Prompt) {
                    return actions.push(AcpAction::RefusePrompt { request: id });
                }
                let run = self.begin(&session, &params["prompt"]);
                OpenRequest::Prompt { session, run }
            }
            (_, session) => {
                self.in_session(session.as_deref(), method, params);
                OpenRequest::Other { session, method: method.to_owned() }
            }
        };
        self.requests.insert(id, open);
    }

    fn editor_notification(&mut self, method: &str, message: &Value, actions: &mut Vec<AcpAction>) {
        let params = &message["params"];
        let session = params["sessionId"].as_str();
        if method != "session/cancel" {
            return self.in_session(session, method, params);
        }
        let Some(session) = session else { return };
        for run in self.session(session).prompts.clone() {
            if let Some(run) = self.runs.get_mut(&run) {
                run.recording.cancel();
            }
        }
        let held =
            self.permissions.iter().filter(|(_, open)| open.session == session && open.held_line.is_some());
        actions.extend(held.map(|(request, _)| AcpAction::CancelPermission {
            request: request.clone(),
            is_taken_back: false,
        }));
    }

    fn editor_response(&mut self, id: &str, message: &Value, held: Option<Held>) {
        let Some(run) = self.agent_requests.get(id).copied() else {
            if held.is_some() {
                self.anywhere("late_answer", &json!({ "from": "editor", "answer": message }));
            }
            return;
        };
        let Some(recorded) = self.runs.get_mut(&run) else { return };
        match held {
            Some(Held::LateAnswer) => {
                recorded.recording.note("late_answer", &json!({ "from": "editor", "answer": message }))
            }
            Some(Held::EditorError) => {
                return recorded.recording.note("editor_cannot_ask", &json!({ "answer": message }));
            }
            _ => {
                let _ = recorded.recording.permission_answered(id, message)
                    || recorded.recording.response(id, message);
                self.permissions.remove(id);
            }
        }
        self.agent_requests.remove(id);
    }

    // From the agent.

    fn agent_request(
        &mut self,
        id: String,
        method: &str,
        message: &Value,
        line: &Arc<[u8]>,
        held: Option<Held>,
        actions: &mut Vec<AcpAction>,
    ) {
        let params = &message["params"];
        let session = params["sessionId"].as_str().unwrap_or("").to_owned();
        let Some(run) = self.run_of(&session, true) else {
            if held == Some(Held::PermissionRequest) {
                actions.push(AcpAction::CannotAsk { request: id });
            }
            return self.in_session(Some(&session), method, params);
        };
        if self.agent_requests.len() >= limits::ACP_REQUESTS_OPEN_MAX {
            return self.anywhere("request_not_followed", &json!({ "method": method }));
        }
        self.agent_requests.insert(id.clone(), run);
        let Some(recorded) = self.runs.get_mut(&run) else { return };
        if method != "session/request_permission" {
            return recorded.recording.request(&id, method, params);
        }
        self.permission_count += 1;
        let approval_id = format!("{}{}", self.asking.prefix, self.permission_count);
        let approval_id = self.asking.in_recount.then_some(&*approval_id);
        let permission = recorded.recording.permission(&id, params, approval_id, self.asking.timeout_seconds);
        let held_line = (held == Some(Held::PermissionRequest)).then(|| Arc::clone(line));
        let (approval_id, options) = match permission {
            Some(permission) => (Some(permission.approval_id), permission.options),
            None => (None, Options::of(params)),
        };
        actions.push(match approval_id {
            Some(_) => AcpAction::PermissionRequested { request: id.clone() },
            None => AcpAction::CannotAsk { request: id.clone() },
        });
        self.permissions.insert(id, PermissionInRecount { run, approval_id, options, session, held_line });
    }

    fn agent_notification(
        &mut self,
        method: &str,
        message: &Value,
        line: &[u8],
        held: Option<Held>,
        actions: &mut Vec<AcpAction>,
    ) {
        let params = &message["params"];
        let session = params["sessionId"].as_str().unwrap_or("");
        match method {
            "session/update" => self.update(session, &params["update"]),
            "$/cancel_request" => {
                let Some(request) = cancelled_request(line) else { return };
                if held == Some(Held::PermissionTakenBack) {
                    return actions.push(AcpAction::CancelPermission { request, is_taken_back: true });
                }
                self.anywhere("cancel_request", params);
            }
            _ => self.in_session(params["sessionId"].as_str(), method, params),
        }
    }

    fn update(&mut self, session: &str, update: &Value) {
        let known = self.sessions.get_mut(session);
        let (used, is_replaying) =
            known.map_or((None, false), |known| (known.usage.update(update), known.is_replaying));
        if is_replaying {
            return;
        }
        let kind = update["sessionUpdate"].as_str().unwrap_or("").to_owned();
        let is_speech = matches!(
            &*kind,
            "agent_message_chunk"
                | "agent_message"
                | "agent_thought_chunk"
                | "tool_call"
                | "tool_call_update"
                | "plan"
        );
        let Some(run) = self.run_of(session, is_speech) else {
            if let (Some(Reported::Cost(micros)), Some(known)) = (used, self.sessions.get_mut(session)) {
                known.usage.keep_cost(micros);
            }
            return self.in_session(Some(session), &kind, update);
        };
        let Some(recorded) = self.runs.get_mut(&run) else { return };
        used.into_iter().for_each(|used| recorded.recording.used(used));
        recorded.recording.update(update);
        let is_idle = kind == "state_update" && update["state"] == "idle";
        // A state may be reported again before the agent starts the prompt.
        recorded.has_started |= is_speech || update["state"] == "running";
        if is_idle && recorded.has_started {
            let agent = self.agent.clone();
            let known = self.session(session);
            known.prompts.retain(|prompt| *prompt != run);
            let used = known.usage.result(&agent, update);
            let Some(recorded) = self.runs.get_mut(&run) else { return };
            used.into_iter().for_each(|used| recorded.recording.used(used));
            self.reports = recorded.recording.reports();
            recorded.recording.stopped(update["stopReason"].as_str(), update);
        }
    }

    fn agent_response(&mut self, id: &str, message: &Value) {
        let result = &message["result"];
        match self.requests.remove(id) {
            None => {}
            Some(OpenRequest::Initialize) => self.initialized(message),
            Some(OpenRequest::New { folder }) => match result["sessionId"].as_str() {
                Some(session) => {
                    let known = self.session(session);
                    known.folder = folder;
                    known.is_new = true;
                    known.usage = SessionUsage::of_new_session();
                }
                None => self.keep_loose("session/new", message),
            },
            Some(OpenRequest::Replay { session }) => {
                self.session(&session).is_replaying = false;
                if !message["error"].is_null() {
                    self.in_session(Some(&session), "session_not_resumed", message);
                }
            }
            Some(OpenRequest::Prompt { session, run }) => {
                let acknowledges =
                    self.protocol_version > 1 && message["error"].is_null() && result["stopReason"].is_null();
                let Some(recorded) = self.runs.get_mut(&run) else { return };
                if acknowledges {
                    return recorded.recording.raw("prompt_accepted", result);
                }
                let agent = self.agent.clone();
                let known = self.session(&session);
                known.prompts.retain(|prompt| *prompt != run);
                let used = known.usage.result(&agent, result);
                let Some(recorded) = self.runs.get_mut(&run) else { return };
                used.into_iter().for_each(|used| recorded.recording.used(used));
                self.reports = recorded.recording.reports();
                recorded.recording.answered(message);
            }
            Some(OpenRequest::Other { session, method }) if !message["error"].is_null() => {
                self.in_session(session.as_deref(), &format!("{method}_failed"), message);
            }
            Some(OpenRequest::Other { .. }) => {}
        }
    }

    fn initialized(&mut self, message: &Value) {
        let result = &message["result"];
        let info = if result["agentInfo"].is_object() { &result["agentInfo"] } else { &result["info"] };
        if let Some(name) = info["name"].as_str().filter(|name| !name.is_empty()) {
            self.agent = recount_record::cut(name, limits::ACP_NAME_BYTES_MAX).0.to_owned();
        }
        let version = info["version"].as_str();
        self.agent_version =
            version.map(|version| recount_record::cut(version, limits::ACP_NAME_BYTES_MAX).0.to_owned());
        self.keep_loose("initialized", message);
        let Some(version) = result["protocolVersion"].as_u64() else { return };
        self.protocol_version = version;
        if version == 0 || version > acp::VERSION_MAX {
            let run = self.begin("", &Value::Null);
            if let Some(recorded) = self.runs.get_mut(&run) {
                recorded.recording.gap(
                    "unknown_version",
                    "messages are stored unparsed, because the protocol version is unknown",
                );
            }
            self.unknown_version = Some(run);
        }
    }

    /// The folder of a session, and whether the agent made it on this connection.
    pub(super) fn session_facts(&self, session: &str) -> (String, bool) {
        self.sessions.get(session).map(|known| (known.folder.clone(), known.is_new)).unwrap_or_default()
    }

    // Where a message belongs.

    fn session(&mut self, session: &str) -> &mut AcpSession {
        if !self.sessions.contains_key(session) && self.sessions.len() >= limits::ACP_SESSIONS_MAX {
            let idle =
                self.sessions.iter().find(|(_, known)| known.prompts.is_empty()).map(|(id, _)| id.clone());
            if let Some(idle) = idle {
                self.sessions.remove(&idle);
            }
        }
        self.sessions.entry(session.to_owned()).or_default()
    }

    /// The run of the session's open prompt. Where the agent speaks without a prompt, it gets a run if `is_speech`.
    fn run_of(&mut self, session: &str, is_speech: bool) -> Option<u64> {
        let open = self.sessions.get(session).and_then(|known| known.prompts.front().copied());
        if open.is_some() || !is_speech || session.is_empty() {
            return open;
        }
        let run = self.begin(session, &Value::Null);
        if let Some(recorded) = self.runs.get_mut(&run) {
            recorded.recording.note("without_prompt", &json!({}));
        }
        Some(run)
    }

    fn begin(&mut self, session: &str, prompt: &Value) -> u64 {
        self.break_off_uncertain(session);
        self.runs_started += 1;
        let run = self.runs_started;
        let source = acp::source_of(self.agent_version.clone(), self.protocol_version, self.reports);
        let loose = std::mem::take(&mut self.loose);
        let known = self.session(session);
        let folder = known.folder.clone();
        let outside = std::mem::take(&mut known.outside);
        let cost_before = known.usage.take_kept_cost();
        // An editor that prompts has read all that was shown again.
        known.is_replaying = false;
        known.prompts.push_back(run);
        let mut recording = PromptRecording::begin(&source, &folder, session, prompt);
        for (name, body) in loose.into_iter().chain(outside) {
            recording.raw(&name, &body);
        }
        cost_before.into_iter().for_each(|micros| recording.used(Reported::Cost(micros)));
        let text = acp::prompt_text(prompt);
        self.runs.insert(run, RecordedRun::new(recording, session, &folder, text.as_deref()));
        run
    }

    /// A prompt whose response may have been dropped ends when the next one comes; so does a run without a prompt.
    fn break_off_uncertain(&mut self, session: &str) {
        let Some(known) = self.sessions.get_mut(session) else { return };
        let open_prompts: Vec<u64> = self
            .requests
            .values()
            .filter_map(|open| if let OpenRequest::Prompt { run, .. } = open { Some(*run) } else { None })
            .collect();
        for run in known.prompts.clone() {
            let Some(recorded) = self.runs.get_mut(&run) else { continue };
            if recorded.has_gap {
                recorded
                    .recording
                    .broken_off("not_recorded", "the response to the prompt is in a gap of the recording");
            } else if open_prompts.contains(&run) || self.protocol_version > 1 {
                continue;
            } else {
                recorded.recording.stopped(None, &Value::Null);
            }
            known.prompts.retain(|prompt| *prompt != run);
        }
    }

    fn in_session(&mut self, session: Option<&str>, name: &str, body: &Value) {
        let Some(session) = session.filter(|session| !session.is_empty()) else {
            return self.anywhere(name, body);
        };
        if let Some(run) = self.run_of(session, false).and_then(|run| self.runs.get_mut(&run)) {
            return run.recording.raw(name, body);
        }
        let body = recount_record::keep(body, limits::ACP_OUTSIDE_BYTES_MAX).0;
        keep_last(&mut self.session(session).outside, name, body);
    }

    /// In the runs of all open prompts, or with the next one.
    fn anywhere(&mut self, name: &str, body: &Value) {
        let open: Vec<u64> =
            self.sessions.values().filter_map(|known| known.prompts.front().copied()).collect();
        if open.is_empty() {
            return self.keep_loose(name, body);
        }
        for run in open {
            if let Some(run) = self.runs.get_mut(&run) {
                run.recording.raw(name, body);
            }
        }
    }

    fn keep_loose(&mut self, name: &str, body: &Value) {
        let body = recount_record::keep(body, limits::ACP_OUTSIDE_BYTES_MAX).0;
        keep_last(&mut self.loose, name, body);
    }

    // What is missing, and endings.

    /// The answer to a request was too long to be read.
    fn long_answer(&mut self, id: &str) {
        if let Some(OpenRequest::Prompt { session, run }) = self.requests.remove(id) {
            if let Some(recorded) = self.runs.get_mut(&run) {
                recorded
                    .recording
                    .broken_off("not_recorded", "the response to the prompt is too large to record");
            }
            self.session(&session).prompts.retain(|prompt| *prompt != run);
        }
    }

    /// Whether calls wait for more of their input.
    pub(super) fn has_waiting(&self) -> bool {
        self.runs.values().any(|run| run.recording.has_waiting())
    }

    pub(super) fn settle_known(&mut self) {
        self.runs.values_mut().for_each(|run| run.recording.settle_known());
    }

    /// How long calls that are reported as running wait for a request for their permission.
    pub(super) fn start_wait(&self) -> Option<Duration> {
        let has_input = self
            .runs
            .values()
            .filter_map(|run| run.recording.starting())
            .reduce(|one, other| one || other)?;
        Some(if has_input { limits::ACP_START_WAIT } else { limits::ACP_START_WAIT_WITHOUT_INPUT })
    }

    pub(super) fn settle_starting(&mut self, waited: Duration) {
        let has_input = waited < limits::ACP_START_WAIT_WITHOUT_INPUT;
        for run in self.runs.values_mut().filter(|run| run.recording.starting() == Some(has_input)) {
            run.recording.settle_starting();
        }
    }

    pub(super) fn dropped(&mut self, dropped: DroppedMessages) {
        let what = format!(
            "{} ({}) were forwarded and not recorded",
            count(dropped.messages, "message"),
            count(dropped.bytes, "byte")
        );
        let mut is_recorded = false;
        for run in self.runs.values_mut().filter(|run| !run.recording.is_ended()) {
            run.recording.gap("recorder_too_slow", &what);
            run.has_gap = true;
            is_recorded = true;
        }
        if !is_recorded {
            self.keep_loose("gap", &json!({ "reason": "recorder_too_slow", "what": what }));
        }
    }

    fn agent_ended(&mut self, how: &str) {
        for run in self.runs.values_mut() {
            run.recording
                .broken_off("agent_ended", &format!("the agent {how} before it answered the prompt"));
        }
        self.sessions.values_mut().for_each(|known| known.prompts.clear());
        self.permissions.clear();
    }
}

fn keep_last(kept: &mut VecDeque<(String, Value)>, name: &str, body: Value) {
    if kept.len() >= limits::ACP_OUTSIDE_MAX {
        kept.pop_front();
    }
    kept.push_back((name.to_owned(), body));
}

fn name(side: AcpSide) -> &'static str {
    match side {
        AcpSide::Editor => "editor",
        AcpSide::Agent => "agent",
    }
}
