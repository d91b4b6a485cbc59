//! Tracks what a run waits for: a worker, the model, a call, or a person (not printed). Pure.

use super::Data;

/// See the file's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Busy {
    Nothing,
    Worker,
    Workspace,
    /// Held in a queue, after it was started.
    Place,
    Model,
    /// Calls under way, by id and name, the newest last.
    Calls(Vec<(String, String)>),
}

impl Busy {
    /// Takes an event in.
    pub(super) fn event(&mut self, type_name: &str, data: &Data) {
        let call = || data.text("tool_call_id").map(str::to_owned);
        match type_name {
            "run.queued" => *self = Busy::Worker,
            "run.started" => *self = Busy::Workspace,
            "run.throttled" if matches!(self, Busy::Nothing | Busy::Workspace) => *self = Busy::Place,
            "turn.started" => *self = Busy::Model,
            "tool.invoked" => {
                let name = data.text("tool_name").unwrap_or("a tool").to_owned();
                let Some(id) = call() else { return };
                match self {
                    Busy::Calls(calls) if calls.len() < super::CALLS_MAX => calls.push((id, name)),
                    Busy::Calls(_) => {}
                    other => *other = Busy::Calls(vec![(id, name)]),
                }
            }
            "tool.completed" | "tool.failed" | "tool.cancelled" | "tool.timed_out" => {
                if let (Busy::Calls(calls), Some(id)) = (&mut *self, call()) {
                    calls.retain(|(other, _)| *other != id);
                    if calls.is_empty() {
                        *self = Busy::Nothing;
                    }
                }
            }
            "turn.completed" if matches!(self, Busy::Model) => *self = Busy::Nothing,
            "run.waiting"
            | "run.finished"
            | "run.failed"
            | "run.cancelled"
            | "approval.requested"
            | "clarification.requested"
            | "handoff.requested" => *self = Busy::Nothing,
            _ => {}
        }
    }

    /// In words that follow "waiting for".
    pub(super) fn words(&self) -> Option<String> {
        match self {
            Busy::Nothing => None,
            Busy::Worker => Some("a worker".to_owned()),
            Busy::Workspace => Some("the workspace".to_owned()),
            Busy::Place => Some("a free worker slot".to_owned()),
            Busy::Model => Some("the model".to_owned()),
            Busy::Calls(calls) => calls.last().map(|(_, name)| super::clean::line(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_follows_from_events() {
        let mut busy = Busy::Nothing;
        let call = |id: &str, name: &str| format!(r#"{{"tool_call_id":"{id}","tool_name":"{name}"}}"#);
        for (type_name, data, words) in [
            ("run.queued", "{}".to_owned(), Some("a worker")),
            ("run.throttled", "{}".to_owned(), Some("a worker")),
            ("run.started", "{}".to_owned(), Some("the workspace")),
            ("run.throttled", "{}".to_owned(), Some("a free worker slot")),
            ("turn.started", "{}".to_owned(), Some("the model")),
            ("assistant.text_delta", "{}".to_owned(), Some("the model")),
            ("turn.completed", "{}".to_owned(), None),
            ("tool.invoked", call("a", "grep"), Some("grep")),
            ("tool.invoked", call("b", "shell_exec"), Some("shell_exec")),
            ("run.throttled", "{}".to_owned(), Some("shell_exec")),
            ("tool.completed", call("b", "shell_exec"), Some("grep")),
            ("tool.failed", call("a", "grep"), None),
            ("turn.started", "{}".to_owned(), Some("the model")),
            ("approval.requested", "{}".to_owned(), None),
        ] {
            busy.event(type_name, &Data::read(&data));
            assert_eq!(busy.words().as_deref(), words, "{type_name}");
        }
    }
}
