//! Rollouts of Codex: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-*.jsonl`, a line for each `{timestamp, type, payload}`.
//!
//! The types are those of `RolloutItem` in the program's crate `codex-rs/protocol`; `docs/record/import.md` names the
//! versions that were read. It must not know files. Entry point: [`CodexRollout`].

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::claude_transcripts::mcp_of;
use crate::recording::{CallStart, Ending, How, Outcome, TurnEnd, TurnStart, Usage};
use crate::source::Source;
use crate::transcript::{
    LinePlace, Transcript, TranscriptLine, TranscriptStep, line_key, object, text, title_of,
};

/// Types of lines, and of their payloads, that hold nothing which is translated; their raw text is kept.
const KNOWN: [&str; 5] = [
    "compacted",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "session_meta",
    "world_state",
];
const KNOWN_ITEMS: [&str; 13] = [
    "additional_tools",
    "agent_message",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "context_compaction",
    "ghost_snapshot",
    "image_generation_call",
    "other",
    "reasoning",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];

/// Reads the lines of one rollout.
#[derive(Debug, Default)]
pub struct CodexRollout {
    version: Option<String>,
    folder: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    /// What the session used so far, as in the last `token_count`.
    total: Usage,
    is_in_turn: bool,
    /// Texts of the session, to name each.
    texts: u64,
    open_calls: BTreeSet<String>,
    /// Whether the model answered, and called nothing afterwards.
    is_answered: bool,
}

impl CodexRollout {
    pub fn new() -> Self {
        CodexRollout::default()
    }

    fn item(&mut self, item: &Value, line: &mut TranscriptLine) {
        match text(item, "type").unwrap_or_default() {
            "message" if text(item, "role") == Some("assistant") => {
                line.place = LinePlace::Within;
                self.turn(line);
                self.is_answered = true;
                self.texts += 1;
                let blocks = item.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let texts: Vec<&str> = blocks.iter().filter_map(|block| text(block, "text")).collect();
                line.steps
                    .push(TranscriptStep::Text { id: format!("text-{}", self.texts), text: texts.join("") });
            }
            // What a person typed is in `user_message`; these are that again, and what the program adds.
            "message" => {}
            "function_call" => {
                let name = text(item, "name").unwrap_or_default();
                let arguments = text(item, "arguments").unwrap_or_default();
                // Arguments are JSON in a text; what is not stays text.
                let input = serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into());
                self.call(item, name, input, line);
            }
            "custom_tool_call" => {
                let name = text(item, "name").unwrap_or_default();
                let input = item.get("input").cloned().unwrap_or(Value::Null);
                self.call(item, name, input, line);
            }
            "local_shell_call" => {
                let input = item.get("action").cloned().unwrap_or(Value::Null);
                self.call(item, "local_shell", input, line);
            }
            "function_call_output" | "custom_tool_call_output" => self.output(item, line),
            known if KNOWN_ITEMS.contains(&known) => {}
            other => line.unknown = Some(format!("response_item {other}")),
        }
    }

    fn call(&mut self, item: &Value, name: &str, input: Value, line: &mut TranscriptLine) {
        let Some(id) = text(item, "call_id").or_else(|| text(item, "id")) else {
            line.unknown = Some("a call without call_id".to_owned());
            return;
        };
        line.place = LinePlace::Within;
        self.turn(line);
        self.is_answered = false;
        self.open_calls.insert(id.to_owned());
        line.steps.push(TranscriptStep::Call(CallStart {
            foreign_id: id.to_owned(),
            name: name.to_owned(),
            summary: None,
            kind: kind_of(name).map(str::to_owned),
            mcp: mcp_of(name),
            input,
        }));
    }

    fn output(&mut self, item: &Value, line: &mut TranscriptLine) {
        let Some(id) = text(item, "call_id") else {
            line.unknown = Some("an output without call_id".to_owned());
            return;
        };
        line.place = LinePlace::Within;
        self.open_calls.remove(id);
        let output = item.get("output").cloned();
        // Some tools write a JSON text with the exit code; nothing else shows whether a call failed.
        let result = output
            .as_ref()
            .and_then(Value::as_str)
            .and_then(|result| serde_json::from_str::<Value>(result).ok());
        let exit =
            result.as_ref().and_then(|result| result.pointer("/metadata/exit_code")).and_then(Value::as_i64);
        let outcome = match exit {
            Some(code) if code != 0 => Outcome {
                output,
                error: Some(format!("exit status {code}")),
                code: Some("exit_status".to_owned()),
                ..Outcome::of(How::Failed)
            },
            _ => Outcome { output, ..Outcome::of(How::Completed) },
        };
        line.steps.push(TranscriptStep::CallEnd { id: id.to_owned(), outcome });
    }

    fn event(&mut self, event: &Value, line: &mut TranscriptLine) {
        match text(event, "type").unwrap_or_default() {
            "user_message" => {
                let typed = text(event, "message").unwrap_or_default();
                line.before = self.rest();
                line.place = LinePlace::Begins { title: title_of(typed), request: typed.to_owned() };
                line.steps.push(TranscriptStep::User { id: Some(line.key.clone()), text: typed.to_owned() });
                let images = ["images", "local_images"].iter().filter_map(|name| event.get(name)?.as_array());
                let count: usize = images.map(Vec::len).sum();
                if count > 0 {
                    let what = format!(
                        "{count} images of the message; its raw text contains them, as far as it is stored"
                    );
                    line.steps.push(TranscriptStep::Gap { reason: "attachment_not_imported", what });
                }
            }
            "token_count" => self.tokens(event, line),
            "task_complete" | "turn_complete" => {
                line.steps = self.turn_end(None);
                line.steps.push(TranscriptStep::End(Ending::Finished { status: "completed".to_owned() }));
                self.begin();
            }
            "turn_aborted" => {
                let why = text(event, "reason").unwrap_or("aborted");
                let by = if why == "interrupted" { "operator" } else { "system" };
                line.steps = self.turn_end(None);
                let reason = format!("the turn was aborted: {why}");
                line.steps.push(TranscriptStep::End(Ending::Cancelled { by: by.to_owned(), reason }));
                self.begin();
            }
            "" => line.unknown = Some("event_msg (without a type)".to_owned()),
            // Events for the program's own screen; the items have the same content.
            _ => {}
        }
    }

    /// `token_count` is cumulative: what a request used is the difference to the one before.
    fn tokens(&mut self, event: &Value, line: &mut TranscriptLine) {
        let Some(total) = event.pointer("/info/total_token_usage").and_then(usage) else { return };
        if total == self.total {
            return;
        }
        let since = |now: Option<u64>, before: Option<u64>| now?.checked_sub(before.unwrap_or(0));
        let used = Usage {
            input_tokens: since(total.input_tokens, self.total.input_tokens),
            cached_input_tokens: since(total.cached_input_tokens, self.total.cached_input_tokens),
            output_tokens: since(total.output_tokens, self.total.output_tokens),
            ..Usage::default()
        };
        let used = if used.input_tokens.is_some() && used.output_tokens.is_some() {
            Some(used)
        } else {
            // The count began anew, as after a fork of the session.
            let what = "the cumulative token count decreased; only the usage of the last request is counted"
                .to_owned();
            line.steps.push(TranscriptStep::Gap { reason: "token_count_fell", what });
            event.pointer("/info/last_token_usage").and_then(usage)
        };
        self.total = total;
        if self.is_in_turn {
            line.place = LinePlace::Within;
            line.steps.extend(self.turn_end(used));
        } else {
            let details = json!({
                "reason": "tokens without a response of the model in the transcript",
                "input_tokens": used.and_then(|used| used.input_tokens),
                "output_tokens": used.and_then(|used| used.output_tokens),
            });
            line.steps.push(TranscriptStep::Note { name: "tokens_not_counted", details });
        }
    }

    /// One answer of the model, from its first item to the count of its tokens.
    fn turn(&mut self, line: &mut TranscriptLine) {
        if !self.is_in_turn {
            self.is_in_turn = true;
            let (model, provider) = (self.model.clone(), self.provider.clone());
            line.steps.push(TranscriptStep::TurnBegin(TurnStart { model, provider }));
        }
    }

    fn turn_end(&mut self, usage: Option<Usage>) -> Vec<TranscriptStep> {
        if !std::mem::take(&mut self.is_in_turn) {
            return Vec::new();
        }
        let stop_reason = if self.is_answered { "end_turn" } else { "tool_use" };
        vec![TranscriptStep::TurnEnd(TurnEnd { stop_reason, usage })]
    }

    fn begin(&mut self) {
        self.is_in_turn = false;
        self.open_calls.clear();
        self.is_answered = false;
    }
}

impl Transcript for CodexRollout {
    fn source(&self) -> Source {
        let shows = ["messages", "tool calls", "tokens"];
        let does_not_show = [
            "permissions",
            "streaming",
            "thinking outside the raw lines",
            "cost",
            "whether most calls failed",
        ];
        Source::new("codex", "codex-rollouts", &shows, &does_not_show).with_version(self.version.clone())
    }

    fn agent(&self) -> &'static str {
        "codex"
    }

    fn folder(&self) -> Option<&str> {
        self.folder.as_deref()
    }

    fn line(&mut self, number: u64, raw: &str) -> TranscriptLine {
        let value = match object(number, raw) {
            Ok(value) => value,
            Err(line) => return *line,
        };
        let kind = text(&value, "type").unwrap_or_default();
        let payload = value.get("payload").unwrap_or(&Value::Null);
        let name = match (kind, text(payload, "type")) {
            ("", _) => "line".to_owned(),
            ("response_item" | "event_msg", Some(inner)) => format!("{kind}.{inner}"),
            (kind, _) => kind.to_owned(),
        };
        let mut line = TranscriptLine::new(line_key(number, raw), name);
        line.time = text(&value, "timestamp").map(str::to_owned);
        match kind {
            // Of several, as in a fork, the first is the session's own.
            "session_meta" if self.version.is_none() => {
                self.version = text(payload, "cli_version").map(str::to_owned);
                self.folder = text(payload, "cwd").map(str::to_owned);
                self.provider = text(payload, "model_provider").map(str::to_owned);
            }
            "turn_context" => self.model = text(payload, "model").map(str::to_owned).or(self.model.take()),
            "response_item" => self.item(payload, &mut line),
            "event_msg" => self.event(payload, &mut line),
            known if KNOWN.contains(&known) => {}
            "" => line.unknown = Some("(without a type)".to_owned()),
            other => line.unknown = Some(other.to_owned()),
        }
        line
    }

    fn is_complete(&self) -> bool {
        self.is_answered && self.open_calls.is_empty()
    }

    fn rest(&mut self) -> Vec<TranscriptStep> {
        // Without `task_complete` it is not known whether the agent was done.
        let mut steps = self.turn_end(None);
        steps.push(TranscriptStep::End(Ending::Finished { status: "end_not_seen".to_owned() }));
        self.begin();
        steps
    }
}

fn usage(usage: &Value) -> Option<Usage> {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    Some(Usage {
        input_tokens: Some(count("input_tokens")?),
        cached_input_tokens: count("cached_input_tokens"),
        output_tokens: Some(count("output_tokens")?),
        ..Usage::default()
    })
}

fn kind_of(tool: &str) -> Option<&'static str> {
    match tool {
        "shell" | "local_shell" | "shell_command" | "exec_command" | "write_stdin" | "unified_exec" => {
            Some("shell")
        }
        "apply_patch" => Some("file"),
        mcp if mcp.starts_with("mcp__") => Some("mcp"),
        _ => None,
    }
}
