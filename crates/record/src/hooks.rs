//! Hooks of agents: one event that the agent reports while it works, read and recorded.
//!
//! [`read`] takes the body of a hook of any known agent and returns its content as a [`Hook`]; [`Hook::record`] puts
//! it into a [`Recording`]. The agents' own formats are in `claude_hooks`, `codex_hooks` and `gemini_hooks`.

use serde_json::{Map, Value, json};

pub use crate::hook_body::Seen;

use crate::claude_transcripts::made_patch;
use crate::hook_body::BodyFields;
use crate::ids::{map_id, session_title};
use crate::kept::short;
use crate::{
    Answer, CallStart, Elsewhere, Ending, How, Outcome, Patch, Prompt, Recording, Source, claude_hooks,
    codex_hooks, gemini_hooks, limits,
};

/// Not of an agent: `recount hook` reports how many hooks it could not store while the server was unreachable.
const SPOOL_DROPPED: &str = "recount.spool_dropped";

/// Agents whose hooks are understood.
pub const AGENTS: &[&str] = &["claude", "codex", "gemini"];

/// One event of a hook.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    pub agent: &'static str,
    /// As the agent calls it: `PreToolUse`.
    pub event: String,
    /// The agent's id of the session.
    pub session: String,
    /// The agent's id of the prompt, if it has one.
    pub prompt: Option<String>,
    pub folder: Option<String>,
    pub version: Option<String>,
    /// Recognises the same body.
    pub key: String,
    pub seen: Seen,
    /// BodyFields that `seen` does not have and that are not the same in each event of the session.
    pub rest: Map<String, Value>,
    /// BodyFields that are the same in each event of the session.
    pub context: Map<String, Value>,
}

/// Why a body is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    UnknownAgent,
    NotAnObject,
    /// There is no `session_id`.
    NoSession,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Unreadable::UnknownAgent => "unknown agent; send claude, codex or gemini",
            Unreadable::NotAnObject => {
                "the body is not a JSON object; send the hook input of the agent unchanged"
            }
            Unreadable::NoSession => "the body has no session_id; send the hook input of the agent unchanged",
        })
    }
}

/// Names of fields that identify where an event belongs; they are not content.
const CONTEXT: &[&str] = &[
    "session_id",
    "transcript_path",
    "cwd",
    "permission_mode",
    "model",
    "version",
    "cli_version",
    "timestamp",
];

/// Reads the body of a hook. `event` is the name in the address; the body's own `hook_event_name` goes before it.
pub fn read(agent: &str, event: &str, body: Value) -> Result<Hook, Unreadable> {
    let agent = *AGENTS.iter().find(|known| **known == agent).ok_or(Unreadable::UnknownAgent)?;
    let text = body.to_string();
    let Value::Object(fields) = body else { return Err(Unreadable::NotAnObject) };
    let mut fields = BodyFields(fields);
    let event = fields.take_text("hook_event_name").unwrap_or_else(|| event.to_owned());
    let key = blake3::hash(format!("{agent} {event} {text}").as_bytes()).to_hex()[..32].to_owned();
    let session = match fields.0.get("session_id") {
        Some(Value::String(id)) if !id.is_empty() => id.clone(),
        _ => return Err(Unreadable::NoSession),
    };
    let mut context = Map::new();
    for name in CONTEXT {
        if let Some(value) = fields.0.remove(*name) {
            context.insert((*name).to_owned(), value);
        }
    }
    let of_context = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
    let (folder, version) = (of_context("cwd"), of_context("version").or_else(|| of_context("cli_version")));
    let prompt = ["prompt_id", "turn_id"].iter().find_map(|name| match fields.0.get(*name) {
        // Texts of Claude have a turn, too, which is not the prompt.
        Some(Value::String(id)) if *name == "prompt_id" || agent == "codex" => Some(id.clone()),
        _ => None,
    });
    if let Some(prompt) = &prompt {
        fields.0.retain(|name, value| {
            !(name == "prompt_id" || name == "turn_id") || value.as_str() != Some(prompt)
        });
    }
    let seen = match agent {
        _ if event == SPOOL_DROPPED => Seen::Aside,
        "claude" => claude_hooks::seen(&event, &mut fields),
        "codex" => codex_hooks::seen(&event, &mut fields),
        _ => gemini_hooks::seen(&event, &mut fields),
    };
    Ok(Hook { agent, event, session, prompt, folder, version, key, seen, rest: fields.0, context })
}

/// The source of the hooks of an agent.
pub fn source(agent: &str, version: Option<String>) -> Source {
    let source = match agent {
        "codex" => codex_hooks::source(),
        "gemini" => gemini_hooks::source(),
        _ => claude_hooks::source(),
    };
    source.with_version(version)
}

/// The answer to a permission request, as the agent's hook returns it. `None`: the agent's own dialog decides.
pub fn permission_answer(agent: &str, answer: Option<Answer>, comment: Option<&str>) -> Value {
    let decision = match answer {
        Some(Answer::Approved) => json!({ "behavior": "allow" }),
        Some(Answer::Rejected) => {
            let message =
                comment.map_or("denied in Recount".to_owned(), |text| format!("denied in Recount: {text}"));
            json!({ "behavior": "deny", "message": short(&message, limits::SENTENCE_BYTES_MAX) })
        }
        Some(Answer::TimedOut) | None => return json!({}),
    };
    match agent {
        "claude" | "codex" => {
            json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } })
        }
        // Gemini's hooks may only deny; they never request a permission.
        _ => json!({}),
    }
}

impl Hook {
    /// Whether it may be the first event of a run. Others wait for one.
    pub fn opens_run(&self) -> bool {
        !matches!(
            self.seen,
            Seen::SessionStarted | Seen::SessionEnded { .. } | Seen::Stopped { .. } | Seen::Aside
        )
    }

    /// The title of a run that it opens.
    pub fn title(&self) -> String {
        let line = match &self.seen {
            Seen::Prompted { text } => {
                text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("")
            }
            _ => "",
        };
        match line {
            "" => match &self.folder {
                Some(folder) => short(&format!("{} in {folder}", self.agent_name()), limits::NAME_BYTES_MAX),
                None => self.agent_name().to_owned(),
            },
            line => short(line, limits::NAME_BYTES_MAX),
        }
    }

    /// The title of its session: the agent, the folder, and the agent's id of the session.
    pub fn session_title(&self) -> String {
        session_title(self.agent_name(), self.folder.as_deref(), &self.session)
    }

    /// The name of the agent in runs, the same as that of its imported transcripts.
    pub fn agent_name(&self) -> &'static str {
        if self.agent == "claude" { "claude-code" } else { self.agent }
    }

    /// What the first event of a run records of the session.
    pub fn session_facts(&self) -> Value {
        let mut facts = self.context.clone();
        if let Some(prompt) = &self.prompt {
            facts.insert("prompt_id".into(), prompt.as_str().into());
        }
        Value::Object(facts)
    }

    /// The id under which a prompt's message is recorded.
    pub fn message_id(&self) -> String {
        map_id(self.prompt.as_ref().unwrap_or(&self.key))
    }

    /// Records the hook in an open run. A permission is recorded as the agent's own question;
    /// [`Hook::ask`] asks Recount's faces instead. An ending closes the run when its calls have their outcomes, or
    /// with `now`; whether it is to be ended later is returned.
    pub fn record(&self, recording: &mut Recording, now: bool) -> bool {
        match &self.seen {
            Seen::Prompted { text } => {
                recording.user(Some(&self.message_id()), text);
                self.rest(recording);
            }
            Seen::CallStarting(call) => {
                let id = self.id_of(call);
                recording.call(CallStart { foreign_id: id, ..call.clone() });
                self.rest(recording);
            }
            Seen::CallEnded { call, outcome } => {
                self.call_ended(recording, call, outcome);
                self.rest(recording);
            }
            Seen::Permission { call, summary, .. } => {
                let body = json!({ "tool_name": call.name, "input": call.input, "summary": summary, "more": self.rest });
                recording.raw(&self.event, &body, Some(&self.key));
            }
            Seen::Text { name, piece, text, is_last } => {
                recording.text_delta(name, *piece, text);
                match piece {
                    Some(piece) if *is_last => recording.text_last(name, *piece),
                    None if *is_last => recording.text_end(name, None),
                    _ => {}
                }
                self.rest(recording);
            }
            Seen::Stopped { last_text, error } => {
                return self.stopped(recording, last_text.as_deref(), error.as_deref(), now);
            }
            Seen::SessionEnded { reason } => {
                self.raw(recording);
                let ending = Ending::Cancelled {
                    by: "operator".into(),
                    reason: format!(
                        "the session of the agent ended: {}",
                        if reason.is_empty() { "no reason given" } else { reason.as_str() }
                    ),
                };
                recording.end(if recording.has_prompt() {
                    ending
                } else {
                    Ending::Finished { status: "no_prompt".into() }
                });
            }
            Seen::SessionStarted | Seen::Aside | Seen::Other => {
                if self.event == SPOOL_DROPPED {
                    self.gap(recording);
                }
                self.raw(recording);
            }
        }
        false
    }

    fn stopped(
        &self,
        recording: &mut Recording,
        last_text: Option<&str>,
        error: Option<&str>,
        now: bool,
    ) -> bool {
        self.last_text(recording, last_text);
        if !now && !recording.open_calls().is_empty() {
            return true;
        }
        recording.end(match error {
            None => Ending::Finished { status: "completed".into() },
            Some(error) => Ending::Failed { code: "agent_failed".into(), message: error.to_owned() },
        });
        false
    }

    /// Records what a stop reports, without the end of the run, which [`Hook::record`] adds later.
    pub fn record_before_end(&self, recording: &mut Recording) {
        if let Seen::Stopped { last_text, .. } = &self.seen {
            self.last_text(recording, last_text.as_deref());
        }
    }

    fn last_text(&self, recording: &mut Recording, last_text: Option<&str>) {
        if let Some(text) = last_text
            && !recording.has_text()
            && !text.is_empty()
        {
            recording.text(&format!("last-{}", self.key), text);
        }
        self.rest(recording);
    }

    fn call_ended(&self, recording: &mut Recording, call: &CallStart, outcome: &Outcome) {
        let known = match call.foreign_id.is_empty() {
            true if !recording.first_time(&format!("outcome {}", self.key)) => return,
            true => recording.find_call(&call.name, &call.input),
            false => Some(call.foreign_id.clone()),
        };
        let id = known.unwrap_or_else(|| self.id_of(call));
        recording.call(CallStart { foreign_id: id.clone(), ..call.clone() });
        recording.call_end(&id, outcome.clone());
    }

    /// The changes of files that the hook reports as made, unless it is repeated.
    pub fn patches(&self, recording: &Recording) -> Vec<Patch> {
        let Seen::CallEnded { call, outcome } = &self.seen else { return Vec::new() };
        let id = &call.foreign_id;
        let is_over = recording.knows_call(id) && !recording.has_open_call(id);
        if outcome.how != How::Completed || id.is_empty() || is_over {
            return Vec::new();
        }
        let made = outcome.output.as_ref().and_then(|output| made_patch(id, output, self.folder.as_deref()));
        made.into_iter().collect()
    }

    /// Requests an approval in Recount, with an unused approval id. Returns its id: an approval that is open for
    /// the same call, or the new one. `None`: it cannot be requested.
    pub fn ask(&self, recording: &mut Recording, approval_id: &str, wait_seconds: u64) -> Option<String> {
        let Seen::Permission { call, summary, preview } = &self.seen else { return None };
        let id = match call.foreign_id.is_empty() {
            false => call.foreign_id.clone(),
            true => match recording.find_approval(&call.name, &call.input) {
                Some(approval) => return Some(approval),
                None => recording
                    .find_call(&call.name, &call.input)
                    // Its start was not seen. Another one with the same words is another call.
                    .unwrap_or_else(|| format!("unseen-{approval_id}")),
            },
        };
        if let Some(open) = recording.approval_for(&id) {
            return Some(open);
        }
        self.rest(recording);
        recording.prompt(Prompt {
            approval_id: approval_id.to_owned(),
            call: CallStart { foreign_id: id, ..call.clone() },
            summary: summary.clone(),
            preview: preview.clone(),
            risk_level: None,
            timeout_seconds: Some(wait_seconds),
            withdrawn_at_deadline: true,
        })
    }

    /// Hooks that are missing from the record.
    fn gap(&self, recording: &mut Recording) {
        let reason = self.rest.get("reason").and_then(Value::as_str).unwrap_or("spool_full");
        let number = |name: &str| self.rest.get(name).and_then(Value::as_u64).unwrap_or(0);
        let (count, first, last) = (number("count"), number("first_at_ms"), number("last_at_ms"));
        recording.gap(reason, &format!("{count} hooks between {first} and {last} (milliseconds since 1970)"));
    }

    /// The whole body as an event.
    fn raw(&self, recording: &mut Recording) {
        recording.raw(&self.event, &Value::Object(self.rest.clone()), Some(&self.key));
    }

    /// The fields that the typed events do not have.
    fn rest(&self, recording: &mut Recording) {
        if !self.rest.is_empty() {
            self.raw(recording);
        }
    }

    fn id_of(&self, call: &CallStart) -> String {
        if call.foreign_id.is_empty() { format!("unnamed-{}", self.key) } else { call.foreign_id.clone() }
    }
}

/// Withdraws every approval that is open: the agent continued, or ended.
pub fn withdraw_all(recording: &mut Recording, by: &str, why: &str) {
    for approval in recording.open_approvals() {
        recording.withdraw(&approval, &Elsewhere::undecided(by, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_hooks_are_a_gap_and_open_no_run() {
        let body = json!({
            "hook_event_name": SPOOL_DROPPED, "session_id": "s1", "reason": "spool_full", "count": 3,
            "first_at_ms": 5, "last_at_ms": 9,
        });
        let hook = read("codex", SPOOL_DROPPED, body).expect("it can be read");
        assert!(!hook.opens_run());
        let mut recording = Recording::begin(&source("codex", None));
        recording.drain();
        hook.record(&mut recording, false);
        let drafts = recording.drain();
        let gap = drafts.iter().find(|draft| draft.kind == "ext.recount.gap").expect("there is a gap");
        assert_eq!(gap.data["reason"], "spool_full");
        assert_eq!(gap.data["what"], "3 hooks between 5 and 9 (milliseconds since 1970)");
    }
}
