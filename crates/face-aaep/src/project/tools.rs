//! Projects tool calls, and the sentences about policy decisions and errors. Must not depend on envelopes. Start with
//! [`Course::apply_tool_event`].

use recount_aaep::wire::{Level, Progress, ProgressUpdated, ToolCompleted, ToolInvoked, ToolStatus, Urgency};
use recount_event::Payload;
use recount_event::family::shell;
use recount_event::family::tool::{self, RiskLevel, TodoStatus};
use recount_run::ASKING_TOOLS;
use serde_json::{Map, Value};

use super::course::{Course, DAY_MS};
use super::event_builder::EventBuilder;
use super::open_call::OpenCall;
use super::state::State;
use super::{id, text};
use crate::limits;
use crate::speech::{Arg, Key};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Completed,
    Failed,
    Cancelled,
    TimedOut,
}

impl Course {
    /// Projects an event of a tool call. Returns false for other events.
    pub(super) fn apply_tool_event(&mut self, to: &mut EventBuilder<'_>, payload: &Payload) -> bool {
        match payload {
            Payload::ToolInvoked(call) => self.start_call(to, call),
            Payload::ToolCompleted(ended) => self.end_call(to, ended, End::Completed),
            Payload::ToolFailed(ended) => self.end_call(to, ended, End::Failed),
            Payload::ToolCancelled(ended) => self.end_call(to, ended, End::Cancelled),
            Payload::ToolTimedOut(ended) => self.end_call(to, ended, End::TimedOut),
            Payload::ToolShellOutputChunk(chunk) => self.report_progress(to, chunk),
            Payload::ToolRefused(no) => {
                self.prompted_calls.remove(&no.tool_call_id);
                self.push_tool_sentence(to, Key::ToolRefused, &no.tool_name, ("reason", &no.message));
            }
            Payload::ToolTodoWriteUpdated(list) => todo(to, &list.todos),
            // For a known call, its refusal follows with the same message.
            Payload::PolicyToolBlocked(no) if no.tool_call_id.is_none() => {
                self.push_tool_sentence(to, Key::Blocked, &no.tool_name, ("reason", &no.reason));
            }
            Payload::ErrorToolUnavailable(no) if no.tool_call_id.is_none() => {
                self.push_tool_sentence(to, Key::ToolUnavailable, &no.tool_name, ("reason", &no.reason));
            }
            Payload::PolicyModelRewrote(other) => {
                let [from, into, reason] =
                    [&other.from_model, &other.to_model, &other.reason].map(|t| text::quoted(t));
                let args: [(&'static str, Arg<'_>); 3] =
                    [("from", (&*from).into()), ("to", (&*into).into()), ("reason", (&*reason).into())];
                self.push_sentence(to, Key::ModelRewritten, &args);
            }
            Payload::ErrorModelCapabilityMissing(no) => {
                let [model, capability] = [&no.model, &no.missing_capability].map(|t| text::quoted(t));
                let args = [("model", (&*model).into()), ("capability", (&*capability).into())];
                self.push_sentence(to, Key::CapabilityMissing, &args);
            }
            Payload::ErrorUpstream(no) => {
                let [provider, message] = [&no.provider, &no.message].map(|t| text::quoted(t));
                let args = [("provider", (&*provider).into()), ("message", (&*message).into())];
                self.push_sentence(to, Key::Upstream, &args);
                self.reported = Some(message);
            }
            _ => return false,
        }
        true
    }

    fn push_tool_sentence(
        &mut self,
        to: &mut EventBuilder<'_>,
        key: Key,
        tool: &str,
        (name, why): (&'static str, &str),
    ) {
        let (tool, why) = (text::quoted(tool), text::quoted(why));
        self.push_sentence(to, key, &[("tool", tool.as_str().into()), (name, why.as_str().into())]);
    }

    fn start_call(&mut self, to: &mut EventBuilder<'_>, call: &tool::Invoked) {
        // A call of a prompting tool was projected as a prompt, with its answer. Another producer may have a different
        // tool of the same name, so the name alone is not enough.
        let has_prompt = self.asking_calls.remove(&call.tool_call_id);
        let only_asks = has_prompt && ASKING_TOOLS.contains(&call.tool_name.as_str());
        if only_asks || self.calls.contains_key(&call.tool_call_id) {
            return;
        }
        if self.prompts.is_empty() {
            self.enter(to, State::CallingTool);
        }
        let name = text::quoted(&call.tool_name);
        let arguments = text::some_quoted(call.args_summary.as_deref());
        let tool = ("tool", Arg::Text(&name));
        let irreversible = call.irreversible == Some(true);
        let is_grave = irreversible || call.risk_level == Some(RiskLevel::High);
        let is_unasked = !self.prompted_calls.remove(&call.tool_call_id) && is_grave;
        let summaries = match &arguments {
            _ if is_unasked => {
                let key = if irreversible { Key::ToolUnaskedIrreversible } else { Key::ToolUnasked };
                to.render(key, &[tool, ("arguments", arguments.as_deref().unwrap_or_default().into())])
            }
            Some(arguments) => {
                let key = if irreversible { Key::ToolIrreversible } else { Key::ToolInvokedWith };
                to.render(key, &[tool, ("arguments", arguments.as_str().into())])
            }
            None => to.render(Key::ToolInvoked, &[tool]),
        };
        let mut body = ToolInvoked::new(id::tool(&call.tool_name));
        body.args_summary = text::some_field(call.args_summary.as_deref());
        body.risk_level = call.risk_level.map(level).filter(|_| !is_unasked);
        body.irreversible = call.irreversible.filter(|_| !is_unasked);
        body.tool_call_id = Some(id::call_id(&call.tool_call_id));
        to.push(body, summaries, Urgency::Normal);
        if is_unasked {
            to.extend_last(unasked(call));
        }
        self.calls.insert(call.tool_call_id.clone(), OpenCall::new(&call.tool_name, to.millis()));
        self.calls_started += 1;
    }

    fn end_call(&mut self, to: &mut EventBuilder<'_>, ended: &tool::Ended, end: End) {
        let Some(OpenCall { tool_name, .. }) = self.calls.remove(&ended.tool_call_id) else { return };
        let name = text::quoted(&tool_name);
        let tool = ("tool", Arg::Text(&name));
        let interrupted = ended.code.as_deref() == Some("interrupted");
        let error = text::some_quoted(ended.error.as_deref()).map(text::without_ticks).map(text::ended);
        let summary = text::some_quoted(ended.summary.as_deref()).map(text::aloud).map(text::ended);
        let (status, summaries) = match (end, &summary, &error) {
            (End::Completed, Some(summary), _) => {
                let args = [tool, ("summary", summary.as_str().into())];
                (ToolStatus::Success, to.render(Key::ToolSucceededWithSummary, &args))
            }
            (End::Completed, None, _) => (ToolStatus::Success, to.render(Key::ToolSucceeded, &[tool])),
            (End::TimedOut, ..) => (ToolStatus::Timeout, to.render(Key::ToolTimedOut, &[tool])),
            _ if interrupted => (ToolStatus::Timeout, to.render(Key::ToolInterrupted, &[tool])),
            (End::Cancelled, ..) => (ToolStatus::Error, to.render(Key::ToolCancelled, &[tool])),
            (End::Failed, _, Some(error)) => {
                let args = [tool, ("error", error.as_str().into())];
                (ToolStatus::Error, to.render(Key::ToolFailed, &args))
            }
            (End::Failed, _, None) => (ToolStatus::Error, to.render(Key::ToolFailedPlain, &[tool])),
        };
        let mut body = ToolCompleted::new(id::tool(&tool_name), status);
        body.tool_call_id = Some(id::call_id(&ended.tool_call_id));
        body.duration_ms = ended.duration_ms.filter(|duration| *duration <= DAY_MS);
        body.error_message = text::some_field(ended.error.as_deref()).filter(|_| end != End::Completed);
        to.push(body, summaries, Urgency::Normal);
        if self.calls.is_empty() && self.state == State::CallingTool {
            self.enter(to, State::Thinking);
        }
    }

    /// Reports the progress of a long call at intervals.
    fn report_progress(&mut self, to: &mut EventBuilder<'_>, chunk: &shell::OutputChunk) {
        let Some(call) = self.calls.get_mut(&chunk.tool_call_id) else { return };
        let due = call.seconds_when_due(to.millis(), limits::TOOL_PROGRESS_EVERY_MS);
        let Some(seconds) = due else { return };
        let name = text::quoted(&call.tool_name);
        let last_line = chunk.data.lines().map(text::quoted).rfind(|line| !line.is_empty());
        // Encoded binary output is not spoken.
        let last_line = last_line.filter(|_| chunk.encoding.is_none());
        let args = [("tool", Arg::Text(&name)), ("seconds", seconds.into())];
        let summaries = match &last_line {
            Some(line) => {
                let [tool, seconds] = args;
                to.render(Key::ToolRunningWithLine, &[tool, seconds, ("line", line.as_str().into())])
            }
            None => to.render(Key::ToolRunning, &args),
        };
        let description = last_line.or_else(|| summaries.normal.clone());
        let progress = Progress { step: None, total_steps: None, description, percent: None };
        to.push(ProgressUpdated::new(progress), summaries, Urgency::Background);
    }

    /// Closes calls that are still open when the run ends.
    pub(super) fn abandon_calls(&mut self, to: &mut EventBuilder<'_>) {
        for (call, OpenCall { tool_name, .. }) in std::mem::take(&mut self.calls) {
            let summaries =
                to.render(Key::ToolAbandoned, &[("tool", text::quoted(&tool_name).as_str().into())]);
            let mut body = ToolCompleted::new(id::tool(&tool_name), ToolStatus::Timeout);
            body.tool_call_id = Some(id::call_id(&call));
            to.push(body, summaries, Urgency::Normal);
        }
    }
}

/// The facts about a grave call whose permission was not requested. The protocol forbids the fields that state them on
/// such a call.
fn unasked(call: &tool::Invoked) -> Map<String, Value> {
    let mut facts = Map::from_iter([("permission".to_owned(), "not_requested".into())]);
    if let Some(irreversible) = call.irreversible {
        facts.insert("irreversible".into(), irreversible.into());
    }
    if let Some(risk) = call.risk_level {
        facts.insert("risk_level".into(), level(risk).as_str().into());
    }
    facts
}

/// Reports a to-do list as progress: the current step of all steps.
fn todo(to: &mut EventBuilder<'_>, todos: &[tool::Todo]) {
    let Some(current) = todos
        .iter()
        .position(|todo| todo.status == TodoStatus::InProgress)
        .or_else(|| todos.iter().position(|todo| todo.status == TodoStatus::Pending))
        .or(todos.len().checked_sub(1))
    else {
        return;
    };
    let (step, total) = (current as u64 + 1, todos.len() as u64);
    let item = text::quoted(&todos[current].content);
    let args = [("step", step.into()), ("total", total.into()), ("item", item.as_str().into())];
    let summaries = to.render(Key::Todo, &args);
    let progress = Progress {
        step: Some(step),
        total_steps: Some(total),
        description: text::some_field(Some(&item)),
        percent: None,
    };
    to.push(ProgressUpdated::new(progress), summaries, Urgency::Background);
}

pub(super) fn level(risk: RiskLevel) -> Level {
    match risk {
        RiskLevel::Low => Level::Low,
        RiskLevel::Medium => Level::Medium,
        RiskLevel::High => Level::High,
    }
}
