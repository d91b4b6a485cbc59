//! Projects events of runs to log records, one for each event, also while the run is open: with the attributes of spans, and in
//! the span that the trace of the run will have.
//!
//! Pure. It must not know where records are sent. Start with [`RunRecords`].

use recount_event::{Event, ForeignId, Payload, PromptEvent, PromptName, PromptStep};
use serde::Deserialize;

use super::attributes as name;
use super::contents::{Messages, write_text};
use super::facts::{
    Attempts, SOURCE_EVENT, Settled, Source, add, add_completed, add_invoked, add_request, call_error,
    dollars, nanos, refusal, status_message,
};
use crate::ids::{SpanName, TraceId};
use crate::proto::{AnyValue, KeyValue, LogRecord, Severity, Value};

/// Types that are not exported because there are very many of them: pieces of streamed text, and output of commands.
const PIECES: [&str; 4] = [
    "assistant.text_delta",
    "assistant.thinking_delta",
    "assistant.tool_call_input_delta",
    "tool.shell.output_chunk",
];

/// Whether events of a type are exported.
pub fn is_exported(type_name: &str) -> bool {
    !PIECES.contains(&type_name)
}

/// Whether the span of an event depends on the turns before it.
pub fn depends_on_turns(type_name: &str) -> bool {
    let starts = |beginning: &str| type_name.starts_with(beginning);
    starts("turn.") || starts("assistant.") || matches!(type_name, "error.upstream" | "cost.tick")
}

/// The log records of one run. Holds its trace and its open turn.
#[derive(Debug, Clone)]
pub struct RunRecords {
    trace: TraceId,
    attempts: Attempts,
    /// Its index and attempt.
    turn: Option<(u64, u64)>,
}

/// What a record has besides its time and ids.
struct Described {
    severity: Severity,
    attributes: Vec<KeyValue>,
}

/// What all events about a call have.
#[derive(Deserialize)]
struct CallFields {
    #[serde(default)]
    tool_call_id: Option<ForeignId>,
    #[serde(default)]
    tool_name: Option<String>,
}

impl RunRecords {
    pub fn new(trace: TraceId) -> Self {
        RunRecords { trace, attempts: Attempts::default(), turn: None }
    }

    /// Takes the next event of the run. Returns its turn.
    pub fn pass(&mut self, payload: &Payload) -> Option<(u64, u64)> {
        match payload {
            Payload::TurnStarted(started) => {
                self.turn = Some((started.turn_index, self.attempts.start(started.turn_index)));
                self.turn
            }
            Payload::TurnCompleted(_) | Payload::TurnFailed(_) => self.turn.take(),
            _ => self.turn,
        }
    }

    /// The record of the next event.
    pub fn record(&mut self, event: &Event, with_contents: bool) -> LogRecord {
        let payload = event.payload();
        let turn = self.pass(payload).filter(|_| depends_on_turns(event.type_name()));
        let prompt = PromptEvent::of(payload);
        let prompt_name = prompt.as_ref().map(PromptEvent::name);
        let call = call_fields(event);
        let span = match (turn, &prompt_name, call.as_ref().and_then(|call| call.tool_call_id.as_ref())) {
            (Some((index, attempt)), _, _) => SpanName::Turn { index, attempt },
            (None, Some(prompt), _) => SpanName::Prompt(prompt),
            (None, None, Some(call)) => SpanName::Call(call),
            (None, None, None) => SpanName::Run,
        };
        let mut described = Described { severity: Severity::Info, attributes: Vec::new() };
        if let Some((index, attempt)) = turn {
            described.attributes.push(KeyValue::new(name::TURN, index));
            described.add(name::ATTEMPT, (attempt > 0).then_some(attempt));
        }
        if let Some(call) = &call {
            described.add(name::TOOL, call.tool_name.as_deref());
            described.add(name::CALL, call.tool_call_id.as_ref().map(ForeignId::as_str));
        }
        match (&prompt, &prompt_name) {
            (Some(prompt), Some(name)) => described.prompt(prompt, name, payload, with_contents),
            _ => described.payload(payload, with_contents),
        }
        let body = described.body(event.type_name());
        let mut attributes = vec![
            KeyValue::new(name::RECORD_ID, event.event_id.to_string()),
            KeyValue::new(name::EVENT_ID, event.event_id.to_string()),
            KeyValue::new(name::RUN, event.run_id.to_string()),
            KeyValue::new(name::SEQUENCE, event.sequence),
        ];
        add(&mut attributes, name::RUN_TASK, event.task_id.map(|task| task.to_string()));
        for key in [name::CONVERSATION, name::SESSION] {
            add(&mut attributes, key, event.session_id.map(|session| session.to_string()));
        }
        attributes.append(&mut described.attributes);
        LogRecord {
            time_unix_nano: nanos(event.occurred_ms),
            severity_number: described.severity.into(),
            severity_text: described.severity.text().to_owned(),
            body: Some(AnyValue { value: Some(body.into()) }),
            attributes,
            trace_id: self.trace.to_vec(),
            span_id: span.id(event.run_id).to_vec(),
            observed_time_unix_nano: nanos(event.occurred_ms),
            event_name: event.type_name().to_owned(),
        }
    }
}

/// The call of an event about a tool.
fn call_fields(event: &Event) -> Option<CallFields> {
    let is_about_call = event.type_name().starts_with("tool.")
        || matches!(
            event.payload(),
            Payload::AssistantToolCallProposed(_)
                | Payload::ChildRunStarted(_)
                | Payload::ErrorToolUnavailable(_)
        );
    let data = event.body.verbatim.as_deref().filter(|_| is_about_call)?;
    serde_json::from_str(data).ok()
}

impl Severity {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Severity::Unspecified => "",
            Severity::Info => "INFO",
            Severity::Warn => "WARN",
            Severity::Error => "ERROR",
        }
    }
}

impl Described {
    fn add<V: Into<Value>>(&mut self, key: &str, value: Option<V>) {
        add(&mut self.attributes, key, value);
    }

    /// Messages may contain paths, arguments and text of models, so they are contents.
    fn fault(&mut self, severity: Severity, code: &str, message: Option<&str>) {
        self.severity = severity;
        self.add(name::ERROR, Some(code));
        self.add(name::ERROR_MESSAGE, message.map(status_message));
    }

    /// The type of the event, what it is about, and its outcome: never contents.
    fn body(&self, type_name: &str) -> String {
        let text = |keys: &[&str]| {
            let found = keys.iter().find_map(|key| self.attributes.iter().find(|there| there.key == *key))?;
            match found.value.as_ref()?.value.as_ref()? {
                Value::Text(text) => Some(text.clone()),
                _ => None,
            }
        };
        let mut body = type_name.to_owned();
        if let Some(subject) =
            text(&[name::TOOL, name::APPROVAL_TOOL, name::MODEL, name::AGENT, name::SOURCE])
        {
            body = format!("{body} {subject}");
        }
        if let Some(outcome) = text(&[name::ERROR, name::APPROVAL_OUTCOME, name::RUN_STATUS]) {
            body = format!("{body}: {outcome}");
        }
        body
    }

    fn message(&mut self, key: &str, role: &str, kind: &str, text: &str) {
        let mut messages = Messages::default();
        messages.text(role, kind, text);
        messages.write(key, &mut self.attributes);
    }

    fn prompt(&mut self, prompt: &PromptEvent<'_>, id: &PromptName, payload: &Payload, with_contents: bool) {
        self.add(name::APPROVAL_KIND, Some(id.kind.as_str()));
        self.add(name::APPROVAL_ID, Some(id.id.as_str()));
        if prompt.step == PromptStep::Requested {
            add_request(&mut self.attributes, payload, with_contents);
        }
        let Some(settled) = Settled::of(payload) else { return };
        if settled.outcome == "timed_out" {
            self.severity = Severity::Warn;
        }
        self.add(name::APPROVAL_OUTCOME, Some(settled.outcome));
        self.add(name::APPROVAL_BY, settled.by);
        if let (true, Some(answer)) = (with_contents, settled.answer) {
            write_text(name::APPROVAL_ANSWER, &answer, &mut self.attributes);
        }
    }

    fn payload<'e>(&mut self, payload: &'e Payload, with_contents: bool) {
        let message = |text: &'e str| Some(text).filter(|_| with_contents);
        match payload {
            Payload::TurnStarted(started) => {
                self.add(name::OPERATION, Some("chat"));
                self.add(name::PROVIDER, started.provider.as_deref());
                self.add(name::MODEL, started.model.as_deref());
            }
            Payload::TurnCompleted(completed) => add_completed(&mut self.attributes, completed),
            Payload::TurnFailed(failed) => {
                let severity = if failed.will_retry { Severity::Warn } else { Severity::Error };
                self.fault(severity, &failed.code, message(&failed.message));
            }
            Payload::UserMessage(text) if with_contents => {
                self.message(name::INPUT, "user", "text", &text.text)
            }
            Payload::AssistantTextComplete(block) if with_contents => {
                self.message(name::OUTPUT, "assistant", "text", &block.text);
            }
            Payload::AssistantThinkingComplete(block) if with_contents => {
                self.message(name::OUTPUT, "assistant", "reasoning", &block.text);
            }
            Payload::AssistantToolCallProposed(proposed) if with_contents => {
                write_text(name::ARGUMENTS, proposed.input.text(), &mut self.attributes);
            }
            Payload::ToolInvoked(invoked) => add_invoked(&mut self.attributes, invoked),
            Payload::ToolShellExited(exited) => self.add(name::EXIT_CODE, exited.exit_code),
            Payload::ToolCompleted(ended) => self.call_ended(ended, "completed", with_contents),
            Payload::ToolFailed(ended) => self.call_ended(ended, "failed", with_contents),
            Payload::ToolCancelled(ended) => self.call_ended(ended, "cancelled", with_contents),
            Payload::ToolTimedOut(ended) => self.call_ended(ended, "timed_out", with_contents),
            Payload::ToolRefused(refused) => {
                let (outcome, code) = refusal(refused);
                self.add(name::TOOL_OUTCOME, Some(outcome));
                if let Some(code) = code {
                    self.fault(Severity::Warn, code, message(&refused.message));
                }
            }
            Payload::ChildRunStarted(child) => self.add(name::CHILD_RUN, Some(child.child_run_id.as_str())),
            Payload::CostTick(tick) => {
                self.add(name::TASK_INPUT_TOKENS, Some(tick.cumulative_input_tokens));
                self.add(name::TASK_OUTPUT_TOKENS, Some(tick.cumulative_output_tokens));
                self.add(name::TASK_COST, Some(dollars(tick.cumulative_cost_micros_usd)));
            }
            Payload::Opaque(other) if &*other.type_name == SOURCE_EVENT => {
                if let Some(source) = Source::parse(&other.data) {
                    source.add(&mut self.attributes);
                }
            }
            _ => self.of_run(payload, with_contents),
        }
    }

    /// Events about the run as a whole, and its warnings.
    fn of_run<'e>(&mut self, payload: &'e Payload, with_contents: bool) {
        let message = |text: &'e str| Some(text).filter(|_| with_contents);
        match payload {
            Payload::RunQueued(queued) => {
                let agent = queued.agent.as_ref();
                self.add(name::OPERATION, Some("invoke_agent"));
                self.add(name::AGENT, agent.map(|agent| agent.name.as_str()));
                self.add(name::AGENT_VERSION, agent.and_then(|agent| agent.version.as_deref()));
                self.add(name::PROVIDER, queued.provider.as_deref());
                self.add(name::MODEL, queued.model.as_deref());
                self.add(name::RUN_KIND, Some(queued.kind.as_str()));
                self.add(name::RUN_DRIVER, Some(queued.driver.as_str()));
                self.add(name::RUN_PRIOR, queued.prior_run_id.as_deref());
                self.add(name::USER, queued.requested_by.as_deref());
                if let Some(title) = queued.title.as_ref().filter(|_| with_contents) {
                    write_text(name::RUN_TITLE, title, &mut self.attributes);
                }
                if let Some(request) = queued.request_text.as_ref().filter(|_| with_contents) {
                    self.message(name::INPUT, "user", "text", request);
                }
            }
            Payload::RunFinished(ending) => self.add(name::RUN_STATUS, Some(ending.final_status.as_str())),
            Payload::RunFailed(ending) => {
                self.add(name::RUN_STATUS, Some("failed"));
                self.fault(Severity::Error, &ending.code, message(&ending.message));
            }
            Payload::RunCancelled(ending) => {
                self.add(name::RUN_STATUS, Some("cancelled"));
                self.add(name::CANCELLED_BY, Some(ending.by.as_str()));
                // A person who cancels a run is not an error.
                if ending.by != "operator" {
                    self.fault(Severity::Error, "cancelled", message(&ending.reason));
                }
            }
            Payload::WorkspaceFailed(_) => self.fault(Severity::Error, "workspace_failed", None),
            Payload::ErrorUpstream(error) => {
                self.add(name::PROVIDER, Some(error.provider.as_str()));
                self.add(name::HTTP_STATUS, error.status);
                let severity = if error.retriable { Severity::Warn } else { Severity::Error };
                self.fault(severity, "upstream", message(&error.message));
            }
            Payload::ErrorToolUnavailable(error) => {
                self.fault(Severity::Warn, "tool_unavailable", message(&error.reason));
            }
            Payload::ErrorModelCapabilityMissing(_) => {
                self.fault(Severity::Warn, "model_capability_missing", None);
            }
            Payload::CostBudgetWarning(_)
            | Payload::CostBudgetExceeded(_)
            | Payload::PolicyToolBlocked(_)
            | Payload::GapEventsDamaged(_)
            | Payload::GapRunDisconnected(_) => self.severity = Severity::Warn,
            _ => {}
        }
    }

    fn call_ended(&mut self, ended: &recount_event::family::tool::Ended, outcome: &str, with_contents: bool) {
        self.add(name::TOOL_OUTCOME, Some(outcome));
        self.add(name::TOOL_KIND, ended.kind.as_deref());
        self.add(name::MCP_SERVER, ended.mcp_server.as_deref());
        if let (true, Some(output)) = (with_contents, &ended.output) {
            write_text(name::RESULT, &output.texts(), &mut self.attributes);
        }
        if let Some(code) = call_error(ended, outcome) {
            self.fault(Severity::Error, code, ended.error.as_deref().filter(|_| with_contents));
        }
    }
}
