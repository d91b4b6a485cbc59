//! Transcripts of Claude Code: `~/.claude/projects/*/*.jsonl`, one JSON object a line.
//!
//! The format is private to the program and undocumented. This reads what versions 1.0 to 2.1 write, as public descriptions
//! of it agree (`docs/record/import.md` names them), and keeps the raw text of every line. It must not know files.
//! Entry point: [`ClaudeTranscript`].

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::patch::Patch;
use crate::recording::{CallStart, Ending, How, Outcome, TurnEnd, TurnStart, Usage};
use crate::source::Source;
use crate::transcript::{
    LinePlace, Transcript, TranscriptLine, TranscriptStep, line_key, object, text, title_of,
};

/// Types of lines that hold no part of the conversation.
const AROUND: [&str; 24] = [
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "atis-latch",
    "attachment",
    "bridge-session",
    "content-replacement",
    "custom-title",
    "file-history-delta",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "relocated",
    "speculation-accept",
    "summary",
    "system",
    "tag",
    "task-summary",
    "worktree-state",
];

/// The prefix of a message of the program itself: it has the form of a user message, but no person typed it.
const NOT_TYPED: [&str; 6] = [
    "<local-command-stdout>",
    "<local-command-stderr>",
    "<local-command-caveat>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
];

const INTERRUPTED: &str = "[Request interrupted by user";

/// Reads the lines of one transcript.
#[derive(Debug, Default)]
pub struct ClaudeTranscript {
    version: Option<String>,
    folder: Option<String>,
    session: Option<String>,
    /// Whether the whole file is of a sub-agent, as in its first message.
    is_of_subagent: Option<bool>,
    turn: Option<Turn>,
    open_calls: BTreeSet<String>,
    /// Whether something of a run was read since it began or ended.
    is_answered: bool,
    /// The cost of the session, as it was reported last, in millionths of a US dollar.
    cost_micros_usd: u64,
    shows_cost: bool,
}

/// The message of the model that the lines are part of: one message is written as a line for each of its blocks.
#[derive(Debug, Default)]
struct Turn {
    message: String,
    usage: Option<Usage>,
    stop_reason: Option<String>,
    cost_micros_usd: Option<u64>,
}

impl ClaudeTranscript {
    pub fn new() -> Self {
        ClaudeTranscript::default()
    }

    fn user(&mut self, value: &Value, line: &mut TranscriptLine) {
        let is = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        if self.is_aside(value) || is("isMeta") || is("isCompactSummary") {
            return;
        }
        match value.pointer("/message/content") {
            Some(Value::String(typed)) => self.message(value, typed, line),
            Some(Value::Array(blocks)) => {
                let results: Vec<&Value> =
                    blocks.iter().filter(|block| text(block, "type") == Some("tool_result")).collect();
                if !results.is_empty() {
                    line.place = LinePlace::Within;
                    results.into_iter().for_each(|result| self.result(value, result, line));
                    return;
                }
                let texts: Vec<&str> = blocks.iter().filter_map(|block| text(block, "text")).collect();
                self.message(value, &texts.join("\n"), line);
                let others = blocks.len() - texts.len();
                if others > 0 {
                    line.steps.push(TranscriptStep::Gap {
                        reason: "attachment_not_imported",
                        what: format!(
                            "{others} attachments of the message; its raw text contains them, as far as it \
                             is stored"
                        ),
                    });
                }
            }
            _ => line.unknown = Some("user without content".to_owned()),
        }
    }

    /// A message that a person typed, or that has the form of one.
    fn message(&mut self, value: &Value, typed: &str, line: &mut TranscriptLine) {
        if typed.starts_with(INTERRUPTED) {
            let (by, reason) = ("operator".to_owned(), typed.to_owned());
            line.steps = self.turn_end("error");
            line.steps.push(TranscriptStep::Source(self.source()));
            line.steps.push(TranscriptStep::End(Ending::Cancelled { by, reason }));
            self.begin();
            return;
        }
        if NOT_TYPED.iter().any(|mark| typed.trim_start().starts_with(mark)) {
            self.is_answered = true;
            return;
        }
        line.before = self.rest();
        line.place = LinePlace::Begins { title: title_of(typed), request: typed.to_owned() };
        line.steps.push(TranscriptStep::User {
            id: text(value, "uuid").map(str::to_owned),
            text: typed.to_owned(),
        });
        self.begin();
    }

    fn begin(&mut self) {
        self.turn = None;
        self.open_calls.clear();
        self.is_answered = false;
    }

    fn result(&mut self, value: &Value, result: &Value, line: &mut TranscriptLine) {
        let Some(id) = text(result, "tool_use_id") else { return };
        self.open_calls.remove(id);
        let is_error = result.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let output = result.get("content").cloned();
        let message = output.as_ref().map(plain).unwrap_or_default();
        let how = match (is_error, value.get("toolUseResult").and_then(Value::as_str)) {
            // The program writes this when a person refuses a call.
            (true, Some(why)) if why.starts_with("User rejected tool use") => How::Refused,
            (true, _) => How::Failed,
            (false, _) => How::Completed,
        };
        let outcome = Outcome { output, error: is_error.then_some(message), ..Outcome::of(how) };
        line.steps.push(TranscriptStep::CallEnd { id: id.to_owned(), outcome });
        let made = value.get("toolUseResult").filter(|_| how == How::Completed);
        if let Some(patch) = made.and_then(|made| made_patch(id, made, self.folder.as_deref())) {
            line.steps.push(TranscriptStep::Patch { patch, status: Some("applied") });
        }
    }

    fn assistant(&mut self, value: &Value, line: &mut TranscriptLine) {
        if self.is_aside(value) {
            return;
        }
        line.place = LinePlace::Within;
        self.is_answered = true;
        let Some(message) = value.get("message") else {
            line.unknown = Some("assistant without message".to_owned());
            return;
        };
        let id = text(message, "id").or_else(|| text(value, "uuid")).unwrap_or("unnamed").to_owned();
        if self.turn.as_ref().is_none_or(|turn| turn.message != id) {
            line.steps.extend(self.turn_end("tool_use"));
            let model = text(message, "model").filter(|model| *model != "<synthetic>").map(str::to_owned);
            let provider = model.is_some().then(|| "anthropic".to_owned());
            line.steps.push(TranscriptStep::TurnBegin(TurnStart { model, provider }));
            self.turn = Some(Turn { message: id.clone(), ..Turn::default() });
        }
        if let Some(turn) = &mut self.turn {
            // Each line of a message repeats it; the last one is complete.
            turn.usage = message.get("usage").and_then(usage).or(turn.usage);
            turn.stop_reason = text(message, "stop_reason").map(str::to_owned).or(turn.stop_reason.take());
            let cost = value.get("costUSD").and_then(Value::as_f64).filter(|cost| *cost >= 0.0);
            turn.cost_micros_usd = cost.map(micros).or(turn.cost_micros_usd);
            self.shows_cost |= cost.is_some();
            if value.get("isApiErrorMessage").and_then(Value::as_bool) == Some(true) {
                turn.stop_reason = Some("error".to_owned());
            }
        }
        let name = text(value, "uuid").unwrap_or(&id);
        match message.get("content") {
            Some(Value::String(content)) => {
                line.steps.push(TranscriptStep::Text { id: name.to_owned(), text: content.clone() })
            }
            Some(Value::Array(blocks)) => {
                for (at, block) in blocks.iter().enumerate() {
                    self.block(&format!("{name}:{at}"), block, line);
                }
            }
            _ => line.unknown = Some("assistant without content".to_owned()),
        }
    }

    fn block(&mut self, name: &str, block: &Value, line: &mut TranscriptLine) {
        match text(block, "type") {
            Some("text") => {
                let message = text(block, "text").unwrap_or_default().to_owned();
                line.steps.push(TranscriptStep::Text { id: name.to_owned(), text: message });
            }
            // The raw text has it.
            Some("thinking" | "redacted_thinking") => {}
            Some("tool_use" | "server_tool_use") => {
                let Some(id) = text(block, "id") else { return };
                self.open_calls.insert(id.to_owned());
                let tool = text(block, "name").unwrap_or_default();
                line.steps.push(TranscriptStep::Call(CallStart {
                    foreign_id: id.to_owned(),
                    name: tool.to_owned(),
                    input: block.get("input").cloned().unwrap_or(Value::Null),
                    summary: block.pointer("/input/description").and_then(Value::as_str).map(str::to_owned),
                    kind: kind_of(tool).map(str::to_owned),
                    mcp: mcp_of(tool),
                }));
            }
            other => {
                let details = json!({ "block": other.unwrap_or("without a type") });
                line.steps.push(TranscriptStep::Note { name: "block_not_imported", details });
            }
        }
    }

    /// The program reports the cost of its session so far from time to time, without a price for each message.
    fn cost(&mut self, value: &Value, line: &mut TranscriptLine) {
        let total = value.get("totalCostUSD").and_then(Value::as_f64).filter(|total| *total >= 0.0);
        let Some(total) = total.map(micros) else { return };
        // A total that fell is that of another process.
        let more = total.checked_sub(self.cost_micros_usd).unwrap_or(total);
        self.cost_micros_usd = total;
        self.shows_cost = true;
        let stop_reason = self.turn.as_ref().and_then(|turn| turn.stop_reason.as_deref());
        if matches!(stop_reason, Some("end_turn" | "stop_sequence" | "max_tokens" | "refusal")) {
            line.steps = self.turn_end("end_turn");
        }
        if more > 0 {
            let is_whole = value.get("hasUnknownModelCost").and_then(Value::as_bool) != Some(true);
            line.steps.push(TranscriptStep::Cost { micros_usd: more, is_whole });
        }
    }

    /// Whether a line is of a sub-agent, within the transcript of another.
    fn is_aside(&mut self, value: &Value) -> bool {
        let is_sidechain = value.get("isSidechain").and_then(Value::as_bool).unwrap_or(false);
        is_sidechain && !*self.is_of_subagent.get_or_insert(is_sidechain)
    }

    fn turn_end(&mut self, otherwise: &'static str) -> Vec<TranscriptStep> {
        let Some(turn) = self.turn.take() else { return Vec::new() };
        let stop_reason = match turn.stop_reason.as_deref() {
            Some("end_turn" | "stop_sequence") => "end_turn",
            Some("tool_use") => "tool_use",
            Some("max_tokens") => "max_tokens",
            Some("refusal") => "refusal",
            Some("error") => "error",
            _ => otherwise,
        };
        let usage = match (turn.usage, turn.cost_micros_usd) {
            (None, None) => None,
            (usage, cost_micros_usd) => Some(Usage { cost_micros_usd, ..usage.unwrap_or_default() }),
        };
        vec![TranscriptStep::TurnEnd(TurnEnd { stop_reason, usage })]
    }
}

impl Transcript for ClaudeTranscript {
    fn source(&self) -> Source {
        let mut shows = vec!["messages", "tool calls", "tokens"];
        let mut does_not_show = vec!["permissions", "streaming", "thinking outside the raw lines"];
        if self.shows_cost { &mut shows } else { &mut does_not_show }.push("cost");
        Source::new("claude", "claude-transcripts", &shows, &does_not_show).with_version(self.version.clone())
    }

    fn agent(&self) -> &'static str {
        "claude-code"
    }

    fn session(&self) -> Option<&str> {
        // The transcript of a sub-agent has the id of its parent.
        self.session.as_deref().filter(|_| self.is_of_subagent != Some(true))
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
        let is_message = matches!(kind, "user" | "assistant");
        let key = match text(&value, "uuid").filter(|_| is_message) {
            Some(uuid) => uuid.to_owned(),
            None => line_key(number, raw),
        };
        let mut line = TranscriptLine::new(key, if kind.is_empty() { "line" } else { kind });
        line.time = text(&value, "timestamp").map(str::to_owned);
        if self.version.is_none() {
            self.version = text(&value, "version").map(str::to_owned);
        }
        if self.folder.is_none() {
            self.folder = text(&value, "cwd").map(str::to_owned);
        }
        if self.session.is_none() {
            self.session = text(&value, "sessionId").map(str::to_owned);
        }
        if is_message && self.is_of_subagent.is_none() {
            let is_sidechain = value.get("isSidechain").and_then(Value::as_bool).unwrap_or(false);
            self.is_of_subagent = Some(is_sidechain);
        }
        match kind {
            "user" => self.user(&value, &mut line),
            "assistant" => self.assistant(&value, &mut line),
            "cost-state" => self.cost(&value, &mut line),
            known if AROUND.contains(&known) => {}
            "" => line.unknown = Some("(without a type)".to_owned()),
            other => line.unknown = Some(other.to_owned()),
        }
        line
    }

    fn is_complete(&self) -> bool {
        let is_over = match &self.turn {
            Some(turn) => matches!(
                turn.stop_reason.as_deref(),
                Some("end_turn" | "stop_sequence" | "max_tokens" | "refusal" | "error")
            ),
            // A command of the program itself is answered without a model.
            None => self.is_answered,
        };
        is_over && self.open_calls.is_empty()
    }

    fn rest(&mut self) -> Vec<TranscriptStep> {
        let is_complete = self.is_complete();
        let stop_reason = self.turn.as_ref().and_then(|turn| turn.stop_reason.as_deref());
        let ending = match stop_reason {
            Some("error") => Ending::Failed {
                code: "api_error".to_owned(),
                message: "the transcript ends with an error of the model's provider".to_owned(),
            },
            _ if is_complete => Ending::Finished { status: "completed".to_owned() },
            _ => Ending::Finished { status: "end_not_seen".to_owned() },
        };
        let mut steps = self.turn_end("end_turn");
        steps.push(TranscriptStep::Source(self.source()));
        steps.push(TranscriptStep::End(ending));
        self.begin();
        steps
    }
}

/// The change that the result of a tool reports as made, with its place in the file.
pub(crate) fn made_patch(call: &str, result: &Value, folder: Option<&str>) -> Option<Patch> {
    let path = within(text(result, "filePath")?, folder);
    if text(result, "type") == Some("create") {
        return Some(Patch::of(call, path, None, text(result, "content")?)).filter(|patch| patch.hunks > 0);
    }
    Patch::of_hunks(call, path, result.get("structuredPatch")?.as_array()?)
}

/// A path relative to the agent's folder.
pub(crate) fn within<'p>(path: &'p str, folder: Option<&str>) -> &'p str {
    let rest = folder.and_then(|folder| path.strip_prefix(folder)).and_then(|rest| rest.strip_prefix('/'));
    rest.unwrap_or_else(|| path.trim_start_matches('/'))
}

/// Millionths of a dollar.
fn micros(dollars: f64) -> u64 {
    (dollars * 1e6).round() as u64
}

/// The tokens of a message; those read from and written to the cache are input, too.
fn usage(usage: &Value) -> Option<Usage> {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64);
    let cached = count("cache_read_input_tokens");
    let input = count("input_tokens")?;
    let written = count("cache_creation_input_tokens").unwrap_or(0);
    Some(Usage {
        input_tokens: input.checked_add(cached.unwrap_or(0))?.checked_add(written),
        cached_input_tokens: cached,
        output_tokens: count("output_tokens"),
        ..Usage::default()
    })
}

fn kind_of(tool: &str) -> Option<&'static str> {
    match tool {
        "Bash" | "BashOutput" | "KillShell" => Some("shell"),
        "Read" | "Write" | "Edit" | "MultiEdit" | "NotebookEdit" => Some("file"),
        "WebFetch" | "WebSearch" => Some("http"),
        "Task" | "Agent" => Some("agent"),
        mcp if mcp.starts_with("mcp__") => Some("mcp"),
        _ => None,
    }
}

/// `mcp__server__tool`.
pub(crate) fn mcp_of(tool: &str) -> Option<(String, String)> {
    let (server, name) = tool.strip_prefix("mcp__")?.split_once("__")?;
    Some((server.to_owned(), name.to_owned()))
}

/// The text of a result: a text, or blocks of text.
fn plain(content: &Value) -> String {
    match content {
        Value::String(content) => content.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| text(block, "text")).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
