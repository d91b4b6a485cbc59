//! Decides about each message whether it is forwarded: open requests, the race for a permission, and what is answered here.
//!
//! It must not do I/O or wait. Everything that it does not recognise is forwarded. See [`Gate`].

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::message_head::{Head, id_text};
use crate::limits;

/// Where a permission is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Ask {
    /// In the editor and in Recount; the first valid answer wins
    Both,
    /// Only in the editor; Recount shows the request and cannot answer it
    Editor,
    /// Only in Recount; in the editor while the server is unreachable
    Recount,
}

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Forward,
    Hold(Held),
}

/// Why a message is not forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// A permission request that only Recount answers.
    PermissionRequest,
    /// The agent takes back a permission request that the editor never saw.
    PermissionTakenBack,
    /// `session/load` for an agent that cannot load.
    Load,
    /// A prompt to a session that was loaded from the log and that the agent cannot resume.
    Prompt,
    /// The editor's answer to a permission that was already given here.
    LateAnswer,
    /// The editor cannot ask for the permission; Recount still can.
    EditorError,
    /// The agent's answer to a request that was sent from here.
    OwnAnswer,
}

/// The abilities that the agent declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Abilities {
    pub(super) load: bool,
    pub(super) resume: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PermissionRace {
    at_editor: bool,
    /// Recount has answered; the editor's answer is still to come.
    is_answered: bool,
    /// An approval is open in Recount.
    is_open_in_recount: bool,
}

#[derive(Default)]
struct GateState {
    /// Open requests of the editor, by id, with their methods.
    editor_requests: HashMap<String, String>,
    permissions: HashMap<String, PermissionRace>,
    own_requests: HashSet<String>,
    /// Sessions that were shown from the log and that the agent cannot resume.
    ended_sessions: HashSet<String>,
    abilities: Option<Abilities>,
}

/// Open requests of both sides. Its lock is held for a few lines only.
pub(super) struct Gate {
    ask: Ask,
    state: Mutex<GateState>,
}

impl Gate {
    pub(super) fn new(ask: Ask) -> Self {
        Gate { ask, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().expect("no code panics while it holds this lock")
    }

    /// A message of the editor. `message` is `None` where it is too long to be held.
    pub(super) fn of_editor(&self, head: &Head, message: Option<&[u8]>) -> Verdict {
        let mut state = self.state();
        if let Some((id, method)) = head.request() {
            if state.editor_requests.len() < limits::ACP_REQUESTS_OPEN_MAX {
                state.editor_requests.insert(id.to_owned(), method.to_owned());
            }
            let cannot_load = state.abilities.is_some_and(|abilities| !abilities.load);
            let is_ended = || session_of(message?).filter(|session| state.ended_sessions.contains(session));
            return match method {
                "session/load" if cannot_load && message.is_some() => Verdict::Hold(Held::Load),
                "session/prompt" if is_ended().is_some() => Verdict::Hold(Held::Prompt),
                _ => Verdict::Forward,
            };
        }
        let Some(id) = head.response() else { return Verdict::Forward };
        let Some(permission) = state.permissions.get_mut(id) else { return Verdict::Forward };
        if permission.is_answered {
            state.permissions.remove(id);
            return Verdict::Hold(Held::LateAnswer);
        }
        if head.has_error && permission.is_open_in_recount {
            permission.at_editor = false;
            return Verdict::Hold(Held::EditorError);
        }
        state.permissions.remove(id);
        Verdict::Forward
    }

    /// A message of the agent.
    pub(super) fn of_agent(&self, head: &Head, message: Option<&[u8]>) -> Verdict {
        let mut state = self.state();
        if let Some((id, method)) = head.request() {
            let is_permission = method == "session/request_permission";
            if !is_permission || state.permissions.len() >= limits::ACP_REQUESTS_OPEN_MAX {
                return Verdict::Forward;
            }
            let at_editor = self.ask != Ask::Recount || message.is_none();
            let permission = PermissionRace { at_editor, is_answered: false, is_open_in_recount: false };
            state.permissions.insert(id.to_owned(), permission);
            return if at_editor { Verdict::Forward } else { Verdict::Hold(Held::PermissionRequest) };
        }
        if head.method.as_deref() == Some("$/cancel_request") {
            let id = message.and_then(cancelled_request);
            let hidden = |id: &String| state.permissions.get(id).is_some_and(|open| !open.at_editor);
            return match id.filter(hidden) {
                Some(_) => Verdict::Hold(Held::PermissionTakenBack),
                None => Verdict::Forward,
            };
        }
        let Some(id) = head.response() else { return Verdict::Forward };
        if state.own_requests.remove(id) {
            return Verdict::Hold(Held::OwnAnswer);
        }
        if state.editor_requests.remove(id).as_deref() == Some("initialize") {
            state.abilities = message.and_then(abilities);
        }
        Verdict::Forward
    }

    pub(super) fn abilities(&self) -> Abilities {
        self.state().abilities.unwrap_or_default()
    }

    /// An approval for this permission is open in Recount now.
    pub(super) fn opened_in_recount(&self, id: &str) {
        if let Some(permission) = self.state().permissions.get_mut(id) {
            permission.is_open_in_recount = true;
        }
    }

    /// The approval is no longer open in Recount. Returns whether it is open nowhere any more.
    pub(super) fn closed_in_recount(&self, id: &str) -> bool {
        let mut state = self.state();
        let Some(permission) = state.permissions.get_mut(id) else { return false };
        permission.is_open_in_recount = false;
        !permission.at_editor && !permission.is_answered
    }

    /// Takes the right to answer a permission that has no answer. Returns whether it is open in the editor.
    pub(super) fn claim(&self, id: &str) -> Option<bool> {
        let mut state = self.state();
        let permission = state.permissions.get_mut(id).filter(|permission| !permission.is_answered)?;
        permission.is_answered = true;
        let at_editor = permission.at_editor;
        if !at_editor {
            state.permissions.remove(id);
        }
        Some(at_editor)
    }

    /// Opens the permission in the editor. Returns whether it was not open there yet and has no answer.
    pub(super) fn pass_to_editor(&self, id: &str) -> bool {
        let mut state = self.state();
        let open = state.permissions.get_mut(id).filter(|open| !open.at_editor && !open.is_answered);
        open.map(|permission| permission.at_editor = true).is_some()
    }

    /// A request is sent to the agent from here: its answer is not for the editor.
    pub(super) fn own_request(&self, id: &str) {
        self.state().own_requests.insert(id.to_owned());
    }

    /// A request of the editor is answered from here.
    pub(super) fn answered_here(&self, id: &str) {
        self.state().editor_requests.remove(id);
    }

    /// Prompts to this session are refused from now on.
    pub(super) fn session_is_over(&self, session: &str) {
        let mut state = self.state();
        if state.ended_sessions.len() < limits::ACP_SESSIONS_MAX {
            state.ended_sessions.insert(session.to_owned());
        }
    }

    /// The ids of all open requests of the editor; they are no longer open.
    pub(super) fn take_editor_requests(&self) -> Vec<String> {
        self.state().editor_requests.drain().map(|(id, _)| id).collect()
    }
}

#[derive(Deserialize)]
struct WithParams<P> {
    params: P,
}

/// The session that a request is for.
pub(super) fn session_of(message: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct SessionParams {
        session_id: String,
    }
    Some(serde_json::from_slice::<WithParams<SessionParams>>(message).ok()?.params.session_id)
}

/// The id that `$/cancel_request` names, as JSON text.
pub(super) fn cancelled_request(message: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct CancelParams {
        request_id: Box<RawValue>,
    }
    let message: WithParams<CancelParams> = serde_json::from_slice(message).ok()?;
    id_text(message.params.request_id.get())
}

/// The session abilities in the response to `initialize`; `None` if the response cannot be read.
fn abilities(message: &[u8]) -> Option<Abilities> {
    let message: serde_json::Value = serde_json::from_slice(message).ok()?;
    let result = message.get("result")?;
    let capabilities = &result["agentCapabilities"];
    // From version 2 on every agent resumes, and none loads.
    let is_later = result["protocolVersion"].as_u64().is_some_and(|version| version > 1);
    let load = is_later || capabilities["loadSession"] == true;
    Some(Abilities { load, resume: !capabilities["sessionCapabilities"]["resume"].is_null() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn editor(gate: &Gate, message: &Value) -> Verdict {
        let message = message.to_string();
        gate.of_editor(&Head::of(message.as_bytes()), Some(message.as_bytes()))
    }

    fn agent(gate: &Gate, message: &Value) -> Verdict {
        let message = message.to_string();
        gate.of_agent(&Head::of(message.as_bytes()), Some(message.as_bytes()))
    }

    fn permission(id: u64) -> Value {
        json!({"id": id, "method": "session/request_permission", "params": {"sessionId": "s"}})
    }

    fn selected(id: u64) -> Value {
        json!({"id": id, "result": {"outcome": {"outcome": "selected", "optionId": "a"}}})
    }

    #[test]
    fn the_first_answer_wins_and_the_second_goes_nowhere() {
        let gate = Gate::new(Ask::Both);
        for id in [1, 2] {
            assert_eq!(agent(&gate, &permission(id)), Verdict::Forward);
            gate.opened_in_recount(&id.to_string());
        }
        assert_eq!(editor(&gate, &selected(1)), Verdict::Forward);
        assert_eq!(gate.claim("1"), None, "the editor was first");
        assert_eq!(gate.claim("2"), Some(true));
        assert_eq!(gate.claim("2"), None);
        assert_eq!(editor(&gate, &selected(2)), Verdict::Hold(Held::LateAnswer));
        assert_eq!(editor(&gate, &selected(2)), Verdict::Forward, "the request is no longer known");
    }

    #[test]
    fn an_error_of_the_editor_is_no_answer_where_recount_asks_too() {
        let gate = Gate::new(Ask::Both);
        let error = json!({"id": 1, "error": {"code": -32601, "message": "no such method"}});
        agent(&gate, &permission(1));
        gate.opened_in_recount("1");
        assert_eq!(editor(&gate, &error), Verdict::Hold(Held::EditorError));
        assert!(gate.closed_in_recount("1"), "it is asked nowhere any more");
        assert_eq!(gate.claim("1"), Some(false));
        agent(&gate, &permission(1));
        assert_eq!(editor(&gate, &error), Verdict::Forward);
    }

    #[test]
    fn a_held_permission_reaches_the_editor_only_when_passed_on() {
        let gate = Gate::new(Ask::Recount);
        assert_eq!(agent(&gate, &permission(1)), Verdict::Hold(Held::PermissionRequest));
        let taken_back = json!({"method": "$/cancel_request", "params": {"requestId": 1}});
        assert_eq!(agent(&gate, &taken_back), Verdict::Hold(Held::PermissionTakenBack));
        assert!(gate.pass_to_editor("1"));
        assert!(!gate.pass_to_editor("1"));
        assert_eq!(agent(&gate, &taken_back), Verdict::Forward);
        assert_eq!(editor(&gate, &selected(1)), Verdict::Forward);
    }

    #[test]
    fn a_load_is_answered_here_only_where_the_agent_cannot() {
        let load = json!({"id": 2, "method": "session/load", "params": {"sessionId": "s"}});
        let prompt = json!({"id": 3, "method": "session/prompt", "params": {"sessionId": "s"}});
        for (result, verdict) in [
            (json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}}), Verdict::Forward),
            (json!({"protocolVersion": 1}), Verdict::Hold(Held::Load)),
            (json!({"protocolVersion": 2}), Verdict::Forward),
        ] {
            let gate = Gate::new(Ask::Both);
            assert_eq!(editor(&gate, &load), Verdict::Forward, "nothing is known yet");
            editor(&gate, &json!({"id": 1, "method": "initialize"}));
            agent(&gate, &json!({"id": 1, "result": result}));
            assert_eq!(editor(&gate, &load), verdict);
            assert_eq!(editor(&gate, &prompt), Verdict::Forward);
            gate.session_is_over("s");
            assert_eq!(editor(&gate, &prompt), Verdict::Hold(Held::Prompt));
        }
    }

    #[test]
    fn open_requests_of_the_editor_are_known() {
        let gate = Gate::new(Ask::Both);
        for id in [1, 2, 3] {
            editor(&gate, &json!({"id": id, "method": "session/prompt", "params": {}}));
        }
        agent(&gate, &json!({"id": 2, "result": null}));
        gate.answered_here("3");
        assert_eq!(gate.take_editor_requests(), ["1"]);
        gate.own_request("\"r\"");
        assert_eq!(agent(&gate, &json!({"id": "r", "result": {}})), Verdict::Hold(Held::OwnAnswer));
    }
}
