//! Spans of the GenAI conventions of OpenTelemetry (`gen_ai.*`), and of OpenInference: the spans of a trace as a run.
//!
//! Each span is kept as an event when it arrives ([`TraceSpan::keep`]). When the trace is complete, [`record`] adds turns
//! and calls in the order of their start. It must not know how spans arrive. Start with [`TraceSpan::of`].

mod texts;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::claude_telemetry::{as_real, micros_of};
use crate::kept::{cut, keep, short};
use crate::otlp::Span;
use crate::{CallStart, Ending, How, Outcome, Recording, Source, TurnEnd, TurnStart, Usage, limits};

/// The name of the source in runs.
pub const SOURCE: &str = "otlp-spans";

/// The attribute that all spans of our own export have.
const OWN_RUN: &str = "recount.run.id";

/// The type of the events that keep spans.
pub const KEPT: &str = "ext.otlp.span";

/// What a span is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanKind {
    Agent,
    Chat,
    Tool,
    /// Something else with a model, such as embeddings.
    Other,
}

const KINDS: [(&str, SpanKind); 4] = [
    ("invoke_agent", SpanKind::Agent),
    ("chat", SpanKind::Chat),
    ("execute_tool", SpanKind::Tool),
    ("other", SpanKind::Other),
];

/// A span about a model, an agent or a tool, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
    id: String,
    parent: String,
    kind: SpanKind,
    name: String,
    start_ns: u64,
    end_ns: u64,
    /// The type of its error.
    error: Option<String>,
    message: Option<String>,
    /// The request: of a chat the last message of a user, of a call its arguments.
    input: Option<String>,
    output: Option<String>,
    attributes: Map<String, Value>,
    left_out: Vec<String>,
}

/// Whether a span was exported by a Recount server, which must not record it again.
pub fn is_own_export(span: &Span) -> bool {
    span.attributes.contains_key(OWN_RUN)
}

/// The conversation that a span names.
pub fn conversation(span: &Span) -> Option<&str> {
    let names = ["gen_ai.conversation.id", "session.id"];
    names.iter().find_map(|name| span.attributes.get(*name)?.as_str()).filter(|id| !id.is_empty())
}

/// The name and the version of the agent, as far as spans have them; otherwise those of the service.
pub fn agent(spans: &[Span]) -> (String, Option<String>) {
    let of_span = |name: &str| {
        spans.iter().find_map(|span| span.attributes.get(name)?.as_str()).filter(|text| !text.is_empty())
    };
    let of_service = |name: &str| spans.first().and_then(|span| span.resource.get(name)?.as_str());
    let (name, version) = match of_span("gen_ai.agent.name") {
        Some(name) => (name, of_span("gen_ai.agent.version")),
        None => (of_service("service.name").unwrap_or("unknown agent"), of_service("service.version")),
    };
    let bounded = |text: &str| short(text, limits::NAME_BYTES_MAX);
    (bounded(name), version.map(bounded))
}

/// The source of a run.
pub fn source() -> Source {
    let shows =
        ["turns with tokens, calls of tools with their outcome, errors", "contents, only if spans have them"];
    let does_not_show = ["text as it is written", "approvals", "what the instrumentation does not cover"];
    Source::new("otlp", SOURCE, &shows, &does_not_show)
}

impl TraceSpan {
    /// `None`: the span is about something else.
    pub fn of(span: &Span) -> Option<TraceSpan> {
        let attributes = &span.attributes;
        let text = |name: &str| attributes.get(name).and_then(Value::as_str);
        let kind = match text("gen_ai.operation.name") {
            Some("invoke_agent" | "invoke_workflow") => SpanKind::Agent,
            Some("chat" | "generate_content" | "text_completion") => SpanKind::Chat,
            Some("execute_tool") => SpanKind::Tool,
            Some(_) => SpanKind::Other,
            None => match (text("openinference.span.kind"), text("traceloop.span.kind")) {
                (Some("AGENT"), _) | (_, Some("agent" | "workflow")) => SpanKind::Agent,
                (Some("LLM"), _) => SpanKind::Chat,
                (Some("TOOL"), _) | (_, Some("tool")) => SpanKind::Tool,
                (Some("EMBEDDING" | "RERANKER" | "RETRIEVER" | "GUARDRAIL" | "EVALUATOR"), _) => {
                    SpanKind::Other
                }
                _ if text("llm.request.type").is_some_and(|kind| kind == "chat" || kind == "completion") => {
                    SpanKind::Chat
                }
                _ => return None,
            },
        };
        let error = text("error.type").map(|text| short(text, limits::NAME_BYTES_MAX));
        let mut left_out = Vec::new();
        let mut bounded = |name: &str, text: Option<String>| {
            let text = text?;
            let (mut kept, _) = cut(&text, limits::SPAN_TEXT_BYTES_MAX);
            if Value::from(kept).to_string().len() > limits::SPAN_TEXT_JSON_BYTES_MAX {
                (kept, _) = cut(kept, limits::SPAN_TEXT_BYTES_MAX / 6);
            }
            if kept.len() < text.len() {
                left_out.push(name.to_owned());
            }
            Some(kept.to_owned())
        };
        let (input, output) = match kind {
            SpanKind::Tool => (texts::arguments(attributes), texts::result(attributes)),
            _ => (texts::request(attributes), texts::answer(attributes)),
        };
        let (input, output) = (bounded("input", input), bounded("output", output));
        let mut room = limits::SPAN_ATTRIBUTES_BYTES_MAX;
        let mut kept = Map::new();
        for (name, value) in attributes {
            let value = bounded_value(value);
            let bytes = Value::from(name.as_str()).to_string().len() + value.to_string().len();
            if texts::is_message(name) && (input.is_some() || output.is_some()) {
                continue;
            }
            if bytes > limits::SPAN_ATTRIBUTE_BYTES_MAX || bytes > room {
                if left_out.len() < limits::SPAN_LEFT_OUT_MAX {
                    left_out.push(short(name, limits::SPAN_LEFT_OUT_BYTES_MAX));
                }
                continue;
            }
            room -= bytes;
            kept.insert(name.clone(), value);
        }
        Some(TraceSpan {
            id: span.span_id.clone(),
            parent: span.parent_id.clone(),
            kind,
            name: short(&span.name, limits::NAME_BYTES_MAX),
            start_ns: span.start_ns,
            end_ns: span.end_ns.max(span.start_ns),
            error: error.or_else(|| span.is_error.then(|| "error".to_owned())),
            message: span.error.as_deref().map(|text| short(text, limits::SPAN_MESSAGE_BYTES_MAX)),
            input,
            output,
            attributes: kept,
            left_out,
        })
    }

    /// The title of a run that it opens.
    pub fn title(&self, agent: &str) -> String {
        match &self.input {
            Some(text) if self.kind != SpanKind::Tool => crate::transcript::title_of(text),
            _ => agent.to_owned(),
        }
    }

    /// Keeps the span in its run. A repeated one adds nothing.
    pub fn keep(&self, recording: &mut Recording) {
        let kind = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("other", |(name, _)| *name);
        let body = json!({
            "span_id": self.id, "parent_span_id": self.parent, "kind": kind, "name": self.name,
            // As texts, because the log has no integers of that size.
            "start_ns": self.start_ns.to_string(), "end_ns": self.end_ns.to_string(),
            "error": self.error, "message": self.message, "input": self.input, "output": self.output,
            "attributes": self.attributes, "left_out": self.left_out,
        });
        recording.happened_at(Some(self.start_ns / 1_000_000));
        recording.raw("span", &body, Some(&self.id));
        recording.happened_at(None);
    }

    /// The span of an event that [`TraceSpan::keep`] recorded. `None`: it was too large to be kept whole.
    pub fn kept(data: &Value) -> Option<TraceSpan> {
        let raw = data.get("raw")?;
        let text = |name: &str| raw.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| raw.get(name)?.as_str()?.parse().ok();
        let kind = text("kind")?;
        Some(TraceSpan {
            id: text("span_id")?,
            parent: text("parent_span_id")?,
            kind: KINDS.iter().find(|(name, _)| *name == kind).map(|(_, kind)| *kind)?,
            name: text("name")?,
            start_ns: number("start_ns")?,
            end_ns: number("end_ns")?,
            error: text("error"),
            message: text("message"),
            input: text("input"),
            output: text("output"),
            attributes: raw.get("attributes")?.as_object()?.clone(),
            left_out: Vec::new(),
        })
    }

    /// Whether it is the root of its trace.
    pub fn is_root(&self) -> bool {
        self.parent.is_empty()
    }

    /// Bytes that it takes in memory, about.
    pub fn bytes(&self) -> usize {
        let texts = [&self.input, &self.output, &self.message].into_iter().flatten();
        Value::Object(self.attributes.clone()).to_string().len() + texts.map(String::len).sum::<usize>() + 512
    }

    fn text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.attributes.get(*name)?.as_str()).map(str::to_owned)
    }

    fn number(&self, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|name| match self.attributes.get(*name)? {
            Value::String(text) => text.parse().ok(),
            value => value.as_u64(),
        })
    }

    fn usage(&self) -> Usage {
        let cost = ["gen_ai.usage.cost", "llm.cost.total"].iter().find_map(|name| self.attributes.get(*name));
        Usage {
            input_tokens: self.number(&[
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.prompt_tokens",
                "llm.token_count.prompt",
            ]),
            cached_input_tokens: self.number(&[
                "gen_ai.usage.cache_read.input_tokens",
                "llm.token_count.prompt_details.cache_read",
            ]),
            output_tokens: self.number(&[
                "gen_ai.usage.output_tokens",
                "gen_ai.usage.completion_tokens",
                "llm.token_count.completion",
            ]),
            cost_micros_usd: cost.and_then(as_real).map(micros_of),
            duration_ms: Some((self.end_ns - self.start_ns) / 1_000_000),
        }
    }

    fn turn(&self) -> TurnStart {
        TurnStart {
            model: self.text(&["gen_ai.response.model", "gen_ai.request.model", "llm.model_name"]),
            provider: self.text(&["gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"]),
        }
    }

    fn stop_reason(&self) -> &'static str {
        let names = ["gen_ai.response.finish_reasons", "llm.finish_reason"];
        let reasons = names.iter().find_map(|name| self.attributes.get(*name));
        let reason = reasons.and_then(|reasons| reasons.as_str().or_else(|| reasons.get(0)?.as_str()));
        match reason {
            _ if self.error.is_some() => "error",
            Some("length" | "max_tokens") => "max_tokens",
            Some("tool_call" | "tool_calls" | "tool_use" | "function_call") => "tool_use",
            Some("content_filter" | "refusal") => "refusal",
            _ => "end_turn",
        }
    }

    /// `id`: a unique one of the call.
    fn call(&self, id: &str) -> CallStart {
        let input = self.input.as_deref();
        let name = self.text(&["gen_ai.tool.name", "tool.name", "traceloop.entity.name"]);
        CallStart {
            foreign_id: id.to_owned(),
            name: name.unwrap_or_else(|| self.name.clone()),
            input: input.map_or(Value::Null, texts::json_or_text),
            ..CallStart::default()
        }
    }

    fn outcome(&self) -> Outcome {
        let duration_ms = Some((self.end_ns - self.start_ns) / 1_000_000);
        let output = self.output.as_deref().map(texts::json_or_text);
        match &self.error {
            None => Outcome { output, duration_ms, ..Outcome::of(How::Completed) },
            Some(code) => Outcome {
                error: self.message.clone().or_else(|| Some(code.clone())),
                code: Some(code.clone()),
                output,
                duration_ms,
                ..Outcome::of(How::Failed)
            },
        }
    }
}

/// A value that the log takes as it is: what is nested becomes text, and so do integers that some readers would round.
fn bounded_value(value: &Value) -> Value {
    let is_nested = |value: &Value| value.is_array() || value.is_object();
    let is_deep = match value {
        Value::Array(items) => items.iter().any(is_nested),
        Value::Object(fields) => fields.values().any(is_nested),
        _ => false,
    };
    if is_deep { value.to_string().into() } else { keep(value, limits::SPAN_ATTRIBUTE_BYTES_MAX).0 }
}

/// One step of a run.
enum Step<'a> {
    /// A chat, and the calls after it.
    Turn(&'a TraceSpan, Vec<usize>),
    CallStart(usize),
    CallEnd(usize),
}

/// Records the turns and calls of a trace in the order of their start, and ends the run. `is_complete`: the root of the trace
/// has arrived.
pub fn record(recording: &mut Recording, mut spans: Vec<TraceSpan>, is_complete: bool) {
    spans.sort_by(|one, other| (one.start_ns, &one.id).cmp(&(other.start_ns, &other.id)));
    let by_id: BTreeMap<&str, &TraceSpan> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    let is_chat = |span: &&TraceSpan| span.kind == SpanKind::Chat;
    // Two instrumentations may report the same request, one within the other.
    let is_repeated = |span: &TraceSpan| by_id.get(span.parent.as_str()).is_some_and(is_chat);
    let chats: Vec<&TraceSpan> = spans.iter().filter(|span| is_chat(span) && !is_repeated(span)).collect();
    let tools: Vec<&TraceSpan> = spans.iter().filter(|span| span.kind == SpanKind::Tool).collect();
    let ids = call_ids(&tools);
    let mut calls_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, tool) in tools.iter().enumerate() {
        if let Some(chat) = chats.partition_point(|chat| chat.start_ns <= tool.start_ns).checked_sub(1) {
            calls_of.entry(chat).or_default().push(at);
        }
    }
    let turns = chats
        .iter()
        .enumerate()
        .map(|(at, chat)| (chat.start_ns, 0, Step::Turn(chat, calls_of.remove(&at).unwrap_or_default())));
    let calls = tools.iter().enumerate().flat_map(|(at, tool)| {
        [(tool.start_ns, 1, Step::CallStart(at)), (tool.end_ns, 2, Step::CallEnd(at))]
    });
    let mut steps: Vec<(u64, u8, Step<'_>)> = turns.chain(calls).collect();
    steps.sort_by_key(|(at, rank, _)| (*at, *rank));

    let agents = || spans.iter().filter(|span| span.kind == SpanKind::Agent);
    let request = agents().chain(chats.iter().copied()).find_map(|span| Some((span, span.input.as_ref()?)));
    if let Some((span, text)) = request {
        recording.happened_at(Some(span.start_ns / 1_000_000));
        recording.user(Some(&span.id), text);
    }
    for (at_ns, _, step) in steps {
        recording.happened_at(Some(at_ns / 1_000_000));
        match step {
            Step::Turn(chat, calls) => {
                recording.turn_begin(chat.turn());
                if let Some(text) = &chat.output {
                    recording.text(&chat.id, text);
                }
                calls.into_iter().for_each(|at| recording.call(tools[at].call(&ids[at])));
                recording.happened_at(Some(chat.end_ns / 1_000_000));
                recording.turn_end(TurnEnd { stop_reason: chat.stop_reason(), usage: Some(chat.usage()) });
                recording.cost_tick();
            }
            Step::CallStart(at) => {
                recording.call(tools[at].call(&ids[at]));
                recording.call_running(&ids[at]);
            }
            Step::CallEnd(at) => recording.call_end(&ids[at], tools[at].outcome()),
        }
    }
    for other in spans.iter().filter(|span| span.kind == SpanKind::Other) {
        let usage = other.usage();
        if usage.input_tokens.is_some() || usage.output_tokens.is_some() {
            recording.happened_at(Some(other.end_ns / 1_000_000));
            recording.add_usage(&usage);
        }
    }
    recording.happened_at(spans.iter().map(|span| span.end_ns / 1_000_000).max());
    let top = agents().find(|span| !by_id.contains_key(span.parent.as_str()));
    let top = top.or_else(|| spans.iter().find(|span| span.parent.is_empty()));
    end(recording, top.filter(|_| is_complete), is_complete);
    recording.happened_at(None);
}

fn end(recording: &mut Recording, top: Option<&TraceSpan>, is_complete: bool) {
    if !is_complete {
        recording.gap("root_not_seen", "the root span of the trace, and spans that were not exported");
        return recording.end(Ending::Finished { status: "end_not_seen".into() });
    }
    recording.end(match top.and_then(|top| Some((top, top.error.clone()?))) {
        Some((top, code)) => {
            Ending::Failed { message: top.message.clone().unwrap_or_else(|| code.clone()), code }
        }
        None => Ending::Finished { status: "completed".into() },
    });
}

/// Unique ids of calls: those of the model, or of their spans where these are missing or repeated.
fn call_ids(tools: &[&TraceSpan]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let id = |tool: &&TraceSpan| {
        let named = tool.text(&["gen_ai.tool.call.id", "tool_call.id"]).filter(|id| !id.is_empty());
        let id = named.filter(|id| !taken.contains(id)).unwrap_or_else(|| format!("span-{}", tool.id));
        taken.insert(id.clone());
        id
    };
    tools.iter().map(id).collect()
}
