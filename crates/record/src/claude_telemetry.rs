//! Log events of Claude Code's OpenTelemetry: tokens and cost of each request, decisions about calls, and errors.
//!
//! An event is recorded beside the hooks of the same prompt ([`TelemetryEvent::record_beside`]), or alone if there are none
//! ([`record_alone`]). Read from claude-code 2.1.332. It must not know how events arrive. Start with [`read`].

use serde_json::{Map, Value};

use crate::ids::{map_id, session_title};
use crate::kept::short;
use crate::otlp::LogRecord;
use crate::transcript::title_of;
use crate::{CallStart, How, Outcome, Recording, Source, TurnEnd, TurnStart, Usage, limits};

/// The name of the source in runs that only have this one.
pub const SOURCE: &str = "claude-code-otel";

const SCOPE: &str = "com.anthropic.claude_code.events";
const SERVICE: &str = "claude-code";

/// What the agent sends in the place of a text, unless its user allows the text.
const REDACTED: &str = "<REDACTED>";

/// Attributes that are the same in each event of a session.
const CONTEXT: &[&str] = &[
    "session.id",
    "user.id",
    "user.email",
    "user.account_uuid",
    "user.account_id",
    "organization.id",
    "terminal.type",
    "app.version",
    "anthropic.provider",
    "anthropic.custom_base_url",
];

/// What the source of a run with hooks shows with this one.
const SHOWN: &str = "tokens and cost of each request to a model (from the telemetry of the agent)";

/// What the hooks alone do not show.
pub(crate) const NOT_SHOWN: &str = "tokens and cost";

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryEvent {
    /// As the agent calls it: `api_request`.
    pub event: String,
    /// The agent's id of the session.
    pub session: String,
    /// The agent's id of the prompt, if it belongs to one.
    pub prompt: Option<String>,
    pub version: Option<String>,
    /// Recognises the same event.
    pub key: String,
    time_ms: u64,
    attributes: Map<String, Value>,
}

/// The content of a log record.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordContent {
    /// It is not of Claude Code.
    Foreign,
    /// It is about the program, and not about a prompt.
    OfProgram,
    Event(TelemetryEvent),
}

/// Reads a log record.
pub fn read(record: &LogRecord) -> RecordContent {
    let text = |name: &str| record.attributes.get(name).and_then(Value::as_str);
    let is_agent = &*record.scope == SCOPE
        || record.resource.get("service.name").and_then(Value::as_str) == Some(SERVICE);
    let session = text("session.id").filter(|id| !id.is_empty());
    let (true, Some(session), false) = (is_agent, session, record.event.is_empty()) else {
        return RecordContent::Foreign;
    };
    let event = record.event.trim_start_matches("claude_code.").to_owned();
    let prompt = text("prompt.id").filter(|id| !id.is_empty()).map(str::to_owned);
    let is_request = matches!(event.as_str(), "api_request" | "api_error");
    // Hooks report the hooks themselves.
    if !(prompt.is_some() || is_request) || event.starts_with("hook_") {
        return RecordContent::OfProgram;
    }
    let identity =
        format!("{session} {event} {} {}", record.time_ns, Value::Object(record.attributes.clone()));
    let version = record.resource.get("service.version").and_then(Value::as_str);
    let mut attributes = record.attributes.clone();
    attributes.retain(|name, _| !CONTEXT.contains(&name.as_str()));
    RecordContent::Event(TelemetryEvent {
        session: session.to_owned(),
        prompt,
        version: version.map(str::to_owned),
        key: blake3::hash(identity.as_bytes()).to_hex()[..32].to_owned(),
        time_ms: record.time_ns / 1_000_000,
        event,
        attributes,
    })
}

/// The source of a run that only has these events.
pub fn source(version: Option<String>) -> Source {
    let shows = [
        "tokens and cost of each request to a model, the names and outcomes of tool calls, decisions about calls, errors",
        "texts, only if the agent is configured to send them",
    ];
    let does_not_show = [
        "inputs and outputs of tool calls",
        "thinking",
        "the end of a prompt (the run ends at the next prompt, or after a quiet time)",
    ];
    Source::new("claude", SOURCE, &shows, &does_not_show).with_version(version)
}

impl TelemetryEvent {
    /// The name of the agent in runs.
    pub fn agent_name(&self) -> &'static str {
        "claude-code"
    }

    /// The title of its session.
    pub fn session_title(&self) -> String {
        session_title(self.agent_name(), None, &self.session)
    }

    /// The title of a run that it opens.
    pub fn title(&self) -> String {
        match self.text("prompt") {
            Some(prompt) if self.event == "user_prompt" => title_of(prompt),
            _ => self.agent_name().to_owned(),
        }
    }

    /// The id under which a prompt's message is recorded.
    pub fn message_id(&self) -> Option<String> {
        self.prompt.as_deref().map(map_id)
    }

    /// Whether it reports tokens.
    pub fn is_usage(&self) -> bool {
        self.event == "api_request"
    }

    /// Records the event in a run that the hooks of the agent record: what these do not show.
    pub fn record_beside(&self, recording: &mut Recording) {
        let is_new = self.raw(recording);
        recording.happened_at(None);
        if !is_new || !self.is_usage() {
            return;
        }
        let source = recording.source().clone();
        if !source.shows.iter().any(|shown| shown == SHOWN) {
            let shows = [source.shows, vec![SHOWN.to_owned()]].concat();
            let missing =
                source.does_not_show.into_iter().filter(|missing| missing != NOT_SHOWN).collect::<Vec<_>>();
            recording.correct_source(&shows, &missing);
        }
        recording.add_usage(&self.usage());
    }

    /// Records the attributes as an event of the agent. Returns whether it is new.
    fn raw(&self, recording: &mut Recording) -> bool {
        recording.happened_at(Some(self.time_ms));
        let body = Value::Object(self.attributes.clone());
        recording.raw_if_new(&format!("otel.{}", self.event), &body, Some(&self.key))
    }

    fn usage(&self) -> Usage {
        let number = |name: &str| self.number(name);
        // Tokens that are read from the cache or written to it are input.
        let parts = ["input_tokens", "cache_read_tokens", "cache_creation_tokens"].map(number);
        let cost = self.attributes.get("cost_usd").and_then(as_real).map(micros_of);
        Usage {
            input_tokens: parts[0]
                .map(|_| parts.iter().flatten().fold(0, |sum: u64, part| sum.saturating_add(*part))),
            cached_input_tokens: parts[1],
            output_tokens: number("output_tokens"),
            cost_micros_usd: number("cost_usd_micros").or(cost),
            duration_ms: number("duration_ms"),
        }
    }

    fn number(&self, name: &str) -> Option<u64> {
        match self.attributes.get(name)? {
            Value::String(text) => text.parse().ok(),
            value => value.as_u64(),
        }
    }

    /// A text that the agent was allowed to send.
    fn text(&self, name: &str) -> Option<&str> {
        let text = self.attributes.get(name)?.as_str()?;
        (text != REDACTED && !text.is_empty()).then_some(text)
    }

    fn turn(&self) -> TurnStart {
        TurnStart { model: self.text("model").map(str::to_owned), provider: None }
    }

    fn call(&self) -> CallStart {
        let input = self.text("tool_input").or_else(|| self.text("tool_parameters"));
        let input =
            input.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| text.into()));
        CallStart {
            foreign_id: self.text("tool_use_id").unwrap_or(&self.key).to_owned(),
            name: self.text("tool_name").unwrap_or_default().to_owned(),
            input,
            ..CallStart::default()
        }
    }
}

/// Records events in the order of their session in a run that only has these.
pub fn record_alone(recording: &mut Recording, events: &[TelemetryEvent]) {
    for (at, event) in events.iter().enumerate() {
        if !event.raw(recording) {
            recording.happened_at(None);
            continue;
        }
        match event.event.as_str() {
            "user_prompt" => {
                if let Some(prompt) = event.text("prompt") {
                    recording.user(event.message_id().as_deref(), prompt);
                }
            }
            "api_request" => {
                if !recording.in_turn() {
                    recording.turn_begin(event.turn());
                }
                // The agent reports a request before the text that it returned.
                if let Some(next) = events.get(at + 1).filter(|next| next.event == "assistant_response")
                    && let Some(text) = next.text("response")
                {
                    recording.text(&next.key, text);
                }
                recording.turn_end(TurnEnd { stop_reason: "end_turn", usage: Some(event.usage()) });
                recording.cost_tick();
            }
            "tool_decision" => {
                // And the calls of a request before the request itself.
                if !recording.in_turn() {
                    let request = events[at..].iter().find(|later| later.is_usage());
                    recording.turn_begin(request.map(TelemetryEvent::turn).unwrap_or_default());
                }
                let call = event.call();
                recording.call(call.clone());
                if event.text("decision") == Some("reject") {
                    recording.call_end(&call.foreign_id, Outcome::of(How::Refused));
                }
            }
            "tool_result" => {
                let call = event.call();
                let is_success =
                    event.attributes.get("success").is_some_and(|value| value == "true" || value == true);
                let outcome = Outcome {
                    error: event.text("error").map(|text| short(text, limits::SENTENCE_BYTES_MAX)),
                    duration_ms: event.number("duration_ms"),
                    ..Outcome::of(if is_success { How::Completed } else { How::Failed })
                };
                recording.call(call.clone());
                recording.call_end(&call.foreign_id, outcome);
            }
            _ => {}
        }
        recording.happened_at(None);
    }
}

/// A number, which may be a text.
pub(crate) fn as_real(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_f64(),
    }
}

/// US dollars as millionths; none for what is no amount.
pub(crate) fn micros_of(dollars: f64) -> u64 {
    // Out of range and not a number become the nearest bound and 0.
    (dollars * 1e6).round() as u64
}
