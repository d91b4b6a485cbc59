//! Projects the events of one run to finished spans: `invoke_agent` for the run, and below it `chat` for each attempt of
//! a turn, `execute_tool` for each call and `agent.approval` for each wait for a person.
//!
//! Pure: times and ids come from the events. It must not know where spans are sent. Start with [`RunSpans`].

pub mod attributes;
mod contents;
mod facts;
pub mod records;
pub mod turns;

use std::collections::BTreeMap;

use recount_event::family::run::{Agent, Driver, Queued};
use recount_event::family::tool::{Ended, Invoked, Refused};
use recount_event::family::turn;
use recount_event::family::{gap, run};
use recount_event::{
    Event, ForeignId, Json, Payload, PromptEvent, PromptName, PromptStep, RunId, SessionId, TaskId, time,
};
use serde_json::{Value, json};

use self::attributes as name;
use self::contents::{Messages, write_text};
use self::facts::{
    Attempts, SOURCE_EVENT, Settled, Source, add, add_completed, add_invoked, add_request, call_error,
    dollars, finish_reason, nanos, refusal, status_message,
};
use self::turns::{Turn, TurnHistograms};
use crate::ids::{Origin, SpanName};
use crate::proto::{KeyValue, Span, SpanKind, Status, StatusCode};

/// The spans of one run, made from its events in order. Holds what is open; finished spans are handed out at once.
pub struct RunSpans {
    run: RunId,
    origin: Origin,
    /// Whether prompts, arguments, outputs and messages are exported.
    with_contents: bool,
    top: RunFields,
    turn: Option<OpenTurn>,
    attempts: Attempts,
    calls: BTreeMap<ForeignId, OpenCall>,
    prompts: BTreeMap<PromptName, OpenSpan>,
    /// Messages since the model was last called.
    input: Messages,
    last_ms: u64,
    histograms: TurnHistograms,
}

/// What the run's own span has.
#[derive(Default)]
struct RunFields {
    start_ms: Option<u64>,
    end_ms: Option<u64>,
    task: Option<TaskId>,
    session: Option<SessionId>,
    kind: Option<&'static str>,
    driver: Option<Driver>,
    agent: Option<Agent>,
    model: Option<String>,
    provider: Option<String>,
    requested_by: Option<String>,
    prior: Option<String>,
    source: Option<Source>,
    title: Option<String>,
    request: Option<String>,
    input: Messages,
    /// The last text of the model.
    answer: Option<String>,
    status: Option<String>,
    cancelled_by: Option<String>,
    error: Option<SpanError>,
    turns: u64,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cost_micros_usd: Option<u64>,
    /// Input tokens, output tokens and cost of a recorded run, as its recorder reports them for all of it.
    reported: Option<[u64; 3]>,
    /// Whether events are missing.
    is_incomplete: bool,
}

/// What a run used, as far as its source has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunTotals {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros_usd: u64,
    pub is_failed: bool,
}

struct OpenSpan {
    start_ms: u64,
    attributes: Vec<KeyValue>,
}

struct OpenTurn {
    index: u64,
    attempt: u64,
    model: Option<String>,
    provider: Option<String>,
    span: OpenSpan,
    first_chunk_ms: Option<u64>,
    output: Messages,
}

/// A call that was proposed or invoked.
struct OpenCall {
    tool: String,
    arguments: Option<Json>,
    invoked: Option<OpenSpan>,
}

struct SpanError {
    /// Few values: a code of the log.
    code: String,
    message: Option<String>,
}

impl RunFields {
    /// Input tokens, output tokens and cost: the sums of the turns, or of a source that has none for turns its totals.
    fn used(&self) -> [Option<u64>; 3] {
        let of_turns = [self.input_tokens, self.output_tokens, self.cost_micros_usd];
        match (of_turns, self.reported) {
            ([None, None, None], Some(reported)) => {
                reported.map(|number| Some(number).filter(|number| *number > 0))
            }
            (of_turns, _) => of_turns,
        }
    }
}

impl RunSpans {
    pub fn new(run: RunId, origin: Origin, with_contents: bool) -> Self {
        RunSpans {
            run,
            origin,
            with_contents,
            top: RunFields::default(),
            turn: None,
            attempts: Attempts::default(),
            calls: BTreeMap::new(),
            prompts: BTreeMap::new(),
            input: Messages::default(),
            last_ms: 0,
            histograms: TurnHistograms::default(),
        }
    }

    /// Events are missing here.
    pub fn skip(&mut self) {
        self.top.is_incomplete = true;
    }

    /// The totals of the run so far.
    pub fn totals(&self) -> RunTotals {
        let [input_tokens, output_tokens, cost_micros_usd] = self.top.used().map(Option::unwrap_or_default);
        let is_failed = self.top.status.as_deref() == Some("failed");
        RunTotals { input_tokens, output_tokens, cost_micros_usd, is_failed }
    }

    /// The turns so far, which are not returned again.
    pub fn take_histograms(&mut self) -> TurnHistograms {
        std::mem::take(&mut self.histograms)
    }

    /// Takes the next event and adds the spans that it finishes.
    pub fn event(&mut self, event: &Event, finished: &mut Vec<Span>) {
        let at = event.occurred_ms;
        if self.top.end_ms.is_none() {
            self.top.start_ms.get_or_insert(at);
            self.last_ms = at;
        }
        self.top.task = self.top.task.or(event.task_id);
        self.top.session = self.top.session.or(event.session_id);
        match event.payload() {
            Payload::RunQueued(queued) => self.queued(queued),
            Payload::RunFinished(ending) => self.ended(at, &ending.final_status, None),
            Payload::RunFailed(ending) => {
                self.ended(at, "failed", Some((&ending.code, Some(&ending.message))));
            }
            Payload::RunCancelled(ending) => self.cancelled(at, ending),
            Payload::GapEventsPruned(pruned) => self.pruned(pruned),
            Payload::GapEventsDamaged(_) => self.skip(),
            Payload::UserMessage(message) if self.with_contents => {
                self.input.text("user", "text", &message.text);
                self.top.input.text("user", "text", &message.text);
            }
            Payload::TurnStarted(started) => self.turn_started(at, started, finished),
            Payload::TurnCompleted(completed) => finished.extend(self.turn_completed(at, completed)),
            Payload::CostTick(tick) if self.top.source.is_some() => {
                let tokens = [tick.cumulative_input_tokens, tick.cumulative_output_tokens];
                self.top.reported = Some([tokens[0], tokens[1], tick.cumulative_cost_micros_usd]);
            }
            Payload::TurnFailed(failed) => {
                self.measure(at, None, Turn { error: Some(&failed.code), ..Turn::default() });
                finished.extend(self.turn_failed(at, &failed.code, Some(&failed.message)));
            }
            Payload::AssistantTextDelta(_)
            | Payload::AssistantThinkingDelta(_)
            | Payload::AssistantToolCallInputDelta(_) => {
                if let Some(turn) = &mut self.turn {
                    turn.first_chunk_ms.get_or_insert(at);
                }
            }
            Payload::AssistantTextComplete(block) => {
                self.answered("text", &block.text);
                self.top.answer = self.with_contents.then(|| block.text.clone());
            }
            Payload::AssistantThinkingComplete(block) => self.answered("reasoning", &block.text),
            Payload::AssistantToolCallProposed(proposed) => {
                let arguments = self.with_contents.then(|| proposed.input.clone());
                if let (Some(input), Some(turn)) = (&arguments, &mut self.turn) {
                    turn.output.call(proposed.tool_call_id.as_str(), &proposed.tool_name, input);
                }
                let call = OpenCall { tool: proposed.tool_name.clone(), arguments, invoked: None };
                self.calls.insert(proposed.tool_call_id.clone(), call);
            }
            Payload::ToolInvoked(invoked) => self.invoked(at, invoked),
            Payload::ToolShellExited(exited) => {
                self.note(
                    &exited.tool_call_id,
                    exited.exit_code.map(|code| KeyValue::new(name::EXIT_CODE, code)),
                );
            }
            Payload::ChildRunStarted(child) => {
                if let Some(call) = &child.tool_call_id {
                    self.note(call, Some(KeyValue::new(name::CHILD_RUN, child.child_run_id.as_str())));
                }
            }
            Payload::ToolCompleted(ended) => finished.push(self.call_ended(at, ended, "completed")),
            Payload::ToolFailed(ended) => finished.push(self.call_ended(at, ended, "failed")),
            Payload::ToolCancelled(ended) => finished.push(self.call_ended(at, ended, "cancelled")),
            Payload::ToolTimedOut(ended) => finished.push(self.call_ended(at, ended, "timed_out")),
            Payload::ToolRefused(refused) => finished.push(self.refused(at, refused)),
            Payload::Opaque(other) if &*other.type_name == SOURCE_EVENT => self.source(&other.data),
            payload => {
                if let Some(prompt) = PromptEvent::of(payload) {
                    finished.extend(self.prompt(at, &prompt, payload));
                }
            }
        }
    }

    /// Closes what is still open, and adds the span of the run last.
    pub fn finish(mut self, finished: &mut Vec<Span>) {
        let at = self.top.end_ms.unwrap_or(self.last_ms);
        let is_open = self.turn.is_some() || !self.calls.is_empty() || !self.prompts.is_empty();
        self.top.is_incomplete |= is_open || self.top.end_ms.is_none() || self.top.kind.is_none();
        finished.extend(self.turn_failed(at, "incomplete", None));
        for (id, call) in std::mem::take(&mut self.calls) {
            if let Some(invoked) = call.invoked {
                finished.push(self.call_span(
                    &id,
                    &call.tool,
                    invoked,
                    at,
                    "incomplete",
                    Some("incomplete"),
                    None,
                ));
            }
        }
        for (prompt, span) in std::mem::take(&mut self.prompts) {
            finished.push(self.prompt_span(&prompt, span, at, "incomplete", None));
        }
        finished.push(self.run_span(at));
    }

    fn queued(&mut self, queued: &Queued) {
        let contents = |text: &Option<String>| text.clone().filter(|_| self.with_contents);
        let (title, request) = (contents(&queued.title), contents(&queued.request_text));
        let top = &mut self.top;
        top.kind = Some(queued.kind.as_str());
        top.driver = Some(queued.driver);
        top.agent.clone_from(&queued.agent);
        top.model.clone_from(&queued.model);
        top.provider.clone_from(&queued.provider);
        top.requested_by.clone_from(&queued.requested_by);
        top.prior.clone_from(&queued.prior_run_id);
        (top.title, top.request) = (title, request);
    }

    /// Takes from the marker what only pruned events had.
    fn pruned(&mut self, pruned: &gap::EventsPruned) {
        self.skip();
        let Some(facts) = pruned.facts() else { return };
        let title = facts.title.filter(|_| self.with_contents);
        let top = &mut self.top;
        top.kind = top.kind.or(Some(facts.kind.as_str()));
        top.driver = top.driver.or(Some(facts.driver));
        top.agent = top.agent.take().or(facts.agent);
        top.model = top.model.take().or(facts.model);
        top.provider = top.provider.take().or(facts.provider);
        top.prior = top.prior.take().or(facts.prior_run_id);
        top.title = top.title.take().or(title);
        let created = time::parse_stored_ms(&facts.created_at);
        top.start_ms = [top.start_ms, created].into_iter().flatten().min();
    }

    fn source(&mut self, data: &str) {
        self.top.source = self.top.source.take().or_else(|| Source::parse(data));
    }

    fn ended(&mut self, at: u64, status: &str, error: Option<(&str, Option<&String>)>) {
        self.top.end_ms = Some(at);
        self.top.status = Some(status.to_owned());
        self.top.error = error.map(|(code, message)| self.error(code, message.map(String::as_str)));
    }

    /// A person who cancels a run is not an error.
    fn cancelled(&mut self, at: u64, ending: &run::Cancelled) {
        let is_error = ending.by != "operator";
        self.ended(at, "cancelled", is_error.then_some(("cancelled", Some(&ending.reason))));
        self.top.cancelled_by = Some(ending.by.clone());
    }

    fn turn_started(&mut self, at: u64, started: &turn::Started, finished: &mut Vec<Span>) {
        finished.extend(self.turn_failed(at, "incomplete", None));
        let index = started.turn_index;
        let attempt = self.attempts.start(index);
        let model = started.model.clone().or_else(|| self.top.model.clone());
        let provider = started.provider.clone().or_else(|| self.top.provider.clone());
        let mut attributes = vec![KeyValue::new(name::OPERATION, "chat"), KeyValue::new(name::TURN, index)];
        add(&mut attributes, name::ATTEMPT, (attempt > 0).then_some(attempt));
        add(&mut attributes, name::PROVIDER, provider.as_deref());
        add(&mut attributes, name::MODEL, model.as_deref());
        if self.with_contents {
            let texts =
                started.instructions.iter().flatten().filter_map(|instruction| instruction.text.as_deref());
            let parts: Vec<Value> = texts.map(|text| json!({"type": "text", "content": text})).collect();
            if !parts.is_empty() {
                write_text(name::INSTRUCTIONS, &Value::from(parts).to_string(), &mut attributes);
            }
            if let (true, Some(request)) = (self.input.is_empty() && index == 0, &self.top.request) {
                self.input.text("user", "text", request);
            }
        }
        // A repeated attempt gets the same messages again.
        self.input.write(name::INPUT, &mut attributes);
        let span = OpenSpan { start_ms: at, attributes };
        let (first_chunk_ms, output) = (None, Messages::default());
        self.turn = Some(OpenTurn { index, attempt, model, provider, span, first_chunk_ms, output });
    }

    /// The model answered with a part of a message.
    fn answered(&mut self, kind: &str, text: &str) {
        if let Some(turn) = self.turn.as_mut().filter(|_| self.with_contents) {
            turn.output.text("assistant", kind, text);
        }
    }

    /// Adds the open turn to the histograms. Times of recorded runs are those of their recorder, so their turns have no
    /// duration unless it is reported.
    fn measure(&mut self, at: u64, reported_ms: Option<u64>, measured: Turn<'_>) {
        let Some(turn) = &self.turn else { return };
        let is_own = self.top.driver == Some(Driver::Own);
        let duration_ms = reported_ms.or_else(|| is_own.then(|| at.saturating_sub(turn.span.start_ms)));
        let (provider, model) = (turn.provider.as_deref(), turn.model.as_deref());
        self.histograms.note(&Turn { provider, model, duration_ms, ..measured });
    }

    fn turn_completed(&mut self, at: u64, completed: &turn::Completed) -> Option<Span> {
        let (input_tokens, output_tokens) = (completed.input_tokens, completed.output_tokens);
        self.measure(at, completed.duration_ms, Turn { input_tokens, output_tokens, ..Turn::default() });
        let mut turn = self.turn.take()?;
        self.top.turns += 1;
        let sum = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = more.map(|more| sum.unwrap_or(0).saturating_add(more)).or(*sum);
        };
        sum(&mut self.top.input_tokens, completed.input_tokens);
        sum(&mut self.top.output_tokens, completed.output_tokens);
        sum(&mut self.top.cost_micros_usd, completed.cost_micros_usd);
        self.input = Messages::default();
        let reason = finish_reason(completed.stop_reason);
        turn.output.finish(reason);
        add_completed(&mut turn.span.attributes, completed);
        Some(self.turn_span(turn, at, None))
    }

    fn turn_failed(&mut self, at: u64, code: &str, message: Option<&str>) -> Option<Span> {
        let turn = self.turn.take()?;
        let error = self.error(code, message);
        Some(self.turn_span(turn, at, Some(error)))
    }

    fn turn_span(&self, mut turn: OpenTurn, at: u64, error: Option<SpanError>) -> Span {
        let start_ms = turn.span.start_ms;
        let attributes = &mut turn.span.attributes;
        let first_chunk = turn.first_chunk_ms.map(|first| first.saturating_sub(start_ms) as f64 / 1e3);
        add(attributes, name::FIRST_CHUNK, first_chunk);
        turn.output.write(name::OUTPUT, attributes);
        let title = turn.model.map_or("chat".to_owned(), |model| format!("chat {model}"));
        let id = SpanName::Turn { index: turn.index, attempt: turn.attempt };
        self.span(id, title, SpanKind::Client, turn.span, at, error)
    }

    fn invoked(&mut self, at: u64, invoked: &Invoked) {
        let mut attributes = Vec::new();
        add_invoked(&mut attributes, invoked);
        let tool = invoked.tool_name.clone();
        let call = self.calls.entry(invoked.tool_call_id.clone());
        let call = call.or_insert_with(|| OpenCall { tool, arguments: None, invoked: None });
        if let Some(arguments) = call.arguments.take() {
            write_text(name::ARGUMENTS, arguments.text(), &mut attributes);
        }
        call.invoked = Some(OpenSpan { start_ms: at, attributes });
    }

    /// Adds an attribute to a call that is at work.
    fn note(&mut self, call: &ForeignId, attribute: Option<KeyValue>) {
        if let Some(open) = self.calls.get_mut(call).and_then(|call| call.invoked.as_mut()) {
            // Few events of a call have one, but a producer may repeat them.
            open.attributes.retain(|there| attribute.as_ref().is_none_or(|new| there.key != new.key));
            open.attributes.extend(attribute);
        }
    }

    fn call_ended(&mut self, at: u64, ended: &Ended, outcome: &str) -> Span {
        let open = self.calls.remove(&ended.tool_call_id).and_then(|call| call.invoked);
        let mut span = open.unwrap_or_else(|| {
            // Its beginning is missing.
            self.top.is_incomplete = true;
            OpenSpan { start_ms: at.saturating_sub(ended.duration_ms.unwrap_or(0)), attributes: Vec::new() }
        });
        span.start_ms = span.start_ms.max(self.top.start_ms.unwrap_or(0));
        for (key, value) in [(name::TOOL_KIND, &ended.kind), (name::MCP_SERVER, &ended.mcp_server)] {
            if !span.attributes.iter().any(|there| there.key == key) {
                add(&mut span.attributes, key, value.as_deref());
            }
        }
        if let (true, Some(output)) = (self.with_contents, &ended.output) {
            let text = output.texts();
            write_text(name::RESULT, &text, &mut span.attributes);
            self.input.response(ended.tool_call_id.as_str(), &text);
        }
        let code = call_error(ended, outcome);
        let (id, tool, message) = (&ended.tool_call_id, &ended.tool_name, ended.error.as_deref());
        self.call_span(id, tool, span, at, outcome, code, message)
    }

    /// A refused call did not run, so its span has no length. What a person decided is not an error.
    fn refused(&mut self, at: u64, refused: &Refused) -> Span {
        let call = self.calls.remove(&refused.tool_call_id);
        let mut attributes = Vec::new();
        if let Some(arguments) = call.and_then(|call| call.arguments) {
            write_text(name::ARGUMENTS, arguments.text(), &mut attributes);
        }
        if self.with_contents {
            self.input.response(refused.tool_call_id.as_str(), &refused.message);
        }
        let (outcome, code) = refusal(refused);
        let span = OpenSpan { start_ms: at, attributes };
        self.call_span(
            &refused.tool_call_id,
            &refused.tool_name,
            span,
            at,
            outcome,
            code,
            Some(&refused.message),
        )
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is in the one span")]
    fn call_span(
        &self,
        id: &ForeignId,
        tool: &str,
        mut span: OpenSpan,
        at: u64,
        outcome: &str,
        code: Option<&str>,
        message: Option<&str>,
    ) -> Span {
        span.attributes.splice(
            0..0,
            [
                KeyValue::new(name::OPERATION, "execute_tool"),
                KeyValue::new(name::TOOL, tool),
                KeyValue::new(name::TOOL_TYPE, "function"),
                KeyValue::new(name::CALL, id.as_str()),
                KeyValue::new(name::TOOL_OUTCOME, outcome),
            ],
        );
        let error = code.map(|code| self.error(code, message));
        let title = format!("execute_tool {tool}");
        self.span(SpanName::Call(id), title, SpanKind::Internal, span, at, error)
    }

    fn prompt(&mut self, at: u64, prompt: &PromptEvent<'_>, payload: &Payload) -> Option<Span> {
        match prompt.step {
            PromptStep::Requested => {
                let mut attributes = Vec::new();
                add_request(&mut attributes, payload, self.with_contents);
                self.prompts.insert(prompt.name(), OpenSpan { start_ms: at, attributes });
                None
            }
            PromptStep::Extended(_) => None,
            PromptStep::Settled => {
                let mut span = self.prompts.remove(&prompt.name())?;
                let settled = Settled::of(payload)?;
                if let (true, Some(answer)) = (self.with_contents, settled.answer) {
                    write_text(name::APPROVAL_ANSWER, &answer, &mut span.attributes);
                }
                Some(self.prompt_span(&prompt.name(), span, at, settled.outcome, settled.by))
            }
        }
    }

    fn prompt_span(
        &self,
        prompt: &PromptName,
        mut span: OpenSpan,
        at: u64,
        outcome: &str,
        by: Option<&str>,
    ) -> Span {
        span.attributes.splice(
            0..0,
            [
                KeyValue::new(name::APPROVAL_KIND, prompt.kind.as_str()),
                KeyValue::new(name::APPROVAL_ID, prompt.id.as_str()),
                KeyValue::new(name::APPROVAL_OUTCOME, outcome),
            ],
        );
        add(&mut span.attributes, name::APPROVAL_BY, by);
        self.span(SpanName::Prompt(prompt), name::APPROVAL.to_owned(), SpanKind::Internal, span, at, None)
    }

    fn run_span(&mut self, at: u64) -> Span {
        let top = std::mem::take(&mut self.top);
        let mut attributes = vec![KeyValue::new(name::OPERATION, "invoke_agent")];
        let agent = top.agent.as_ref();
        add(&mut attributes, name::AGENT, agent.map(|agent| agent.name.as_str()));
        add(&mut attributes, name::AGENT_VERSION, agent.and_then(|agent| agent.version.as_deref()));
        add(&mut attributes, name::PROVIDER, top.provider.as_deref());
        add(&mut attributes, name::MODEL, top.model.as_deref());
        add(&mut attributes, name::RUN_KIND, top.kind);
        add(&mut attributes, name::RUN_DRIVER, top.driver.map(|driver| driver.as_str()));
        add(&mut attributes, name::RUN_TASK, top.task.map(|task| task.to_string()));
        add(&mut attributes, name::RUN_PRIOR, top.prior.as_deref());
        add(&mut attributes, name::USER, top.requested_by.as_deref());
        if let Some(source) = &top.source {
            source.add(&mut attributes);
        }
        add(&mut attributes, name::RUN_STATUS, top.status.as_deref());
        add(&mut attributes, name::CANCELLED_BY, top.cancelled_by.as_deref());
        attributes.push(KeyValue::new(name::RUN_TURNS, top.turns));
        let [input_tokens, output_tokens, cost_micros_usd] = top.used();
        add(&mut attributes, name::RUN_INPUT_TOKENS, input_tokens);
        add(&mut attributes, name::RUN_OUTPUT_TOKENS, output_tokens);
        add(&mut attributes, name::RUN_COST, cost_micros_usd.map(dollars));
        add(&mut attributes, name::RUN_INCOMPLETE, top.is_incomplete.then_some(true));
        if let Some(title) = &top.title {
            write_text(name::RUN_TITLE, title, &mut attributes);
        }
        let (mut input, mut output) = (top.input, Messages::default());
        if let (true, Some(request)) = (input.is_empty(), &top.request) {
            input.text("user", "text", request);
        }
        input.write(name::INPUT, &mut attributes);
        if let Some(answer) = &top.answer {
            output.text("assistant", "text", answer);
            output.finish("stop");
            output.write(name::OUTPUT, &mut attributes);
        }
        let title = agent.map_or("invoke_agent".to_owned(), |agent| format!("invoke_agent {}", agent.name));
        let span = OpenSpan { start_ms: top.start_ms.unwrap_or(at), attributes };
        self.top.session = top.session;
        self.span(SpanName::Run, title, SpanKind::Internal, span, at, top.error)
    }

    /// The finished span.
    fn span(
        &self,
        id: SpanName<'_>,
        title: String,
        kind: SpanKind,
        open: OpenSpan,
        end_ms: u64,
        error: Option<SpanError>,
    ) -> Span {
        let parent = match id {
            SpanName::Run => self.origin.parent,
            _ => Some(SpanName::Run.id(self.run)),
        };
        let mut attributes = open.attributes;
        attributes.push(KeyValue::new(name::RUN, self.run.to_string()));
        if let Some(session) = self.top.session {
            attributes.push(KeyValue::new(name::CONVERSATION, session.to_string()));
            attributes.push(KeyValue::new(name::SESSION, session.to_string()));
        }
        let status = error.map(|error| {
            attributes.push(KeyValue::new(name::ERROR, error.code.as_str()));
            Status { message: error.message.unwrap_or(error.code), code: StatusCode::Error.into() }
        });
        Span {
            trace_id: self.origin.trace.to_vec(),
            span_id: id.id(self.run).to_vec(),
            parent_span_id: parent.map(|id| id.to_vec()).unwrap_or_default(),
            name: title,
            kind: kind.into(),
            start_time_unix_nano: nanos(open.start_ms.min(end_ms)),
            end_time_unix_nano: nanos(end_ms),
            attributes,
            status,
        }
    }

    /// Messages may contain paths, arguments and text of models, so they are contents.
    fn error(&self, code: &str, message: Option<&str>) -> SpanError {
        let message = message.filter(|_| self.with_contents).map(status_message);
        SpanError { code: code.to_owned(), message }
    }
}
