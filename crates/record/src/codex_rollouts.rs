//! Rollouts of Codex: `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-*.jsonl`, a line for each `{timestamp, type, payload}`.
//!
//! The types are those of `RolloutItem` in the program's crate `codex-rs/protocol`; `docs/record/import.md` names the
//! versions that were read. It must not know files. Entry point: [`CodexRollout`].

mod items;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::claude_transcripts::mcp_of;
use crate::exit_status::exit_status;
use crate::ids::key;
use crate::recording::{CallStart, Ending, How, Outcome, TurnEnd, TurnStart, Usage};
use crate::source::Source;
use crate::transcript::{
    LinePlace, Transcript, TranscriptLine, TranscriptStep, line_key, object, text, title_of,
};

/// Types of lines, and of their payloads, that hold nothing which is translated; their raw text is kept.
const KNOWN: [&str; 7] = [
    "compacted",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "realtime_item",
    "retained_context",
    "session_meta",
    "world_state",
];
const KNOWN_ITEMS: [&str; 14] = [
    "additional_tools",
    "agent_message",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "configuration_update",
    "context_compaction",
    "ghost_snapshot",
    "image_generation_call",
    "other",
    "reasoning",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
];

/// Events for the program's own screen: items of the rollout, or its settings, have the same content.
const KNOWN_EVENTS: [&str; 39] = [
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "agent_reasoning_section_break",
    "background_event",
    "context_compacted",
    "deprecation_notice",
    "dynamic_tool_call_request",
    "dynamic_tool_call_response",
    "entered_review_mode",
    "error",
    "exec_approval_request",
    "exec_command_begin",
    "exited_review_mode",
    "guardian_assessment",
    "guardian_warning",
    "hook_completed",
    "hook_started",
    "image_generation_end",
    "item_started",
    "mcp_tool_call_begin",
    "mcp_tool_call_end",
    "model_reroute",
    "patch_apply_begin",
    "plan_update",
    "session_configured",
    "stream_error",
    "sub_agent_activity",
    "thread_goal_updated",
    "thread_name_updated",
    "thread_rolled_back",
    "thread_settings_applied",
    "turn_diff",
    "turn_moderation_metadata",
    "undo_completed",
    "view_image_tool_call",
    "warning",
    "web_search_begin",
    "web_search_end",
];

/// Reads the lines of one rollout.
#[derive(Debug, Default)]
pub struct CodexRollout {
    version: Option<String>,
    session: Option<String>,
    folder: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    /// What the session used so far, as in the last `token_count`.
    total: Usage,
    is_in_turn: bool,
    /// Texts of the session, to name each.
    texts: u64,
    /// Open calls, each with the command that it runs.
    open_calls: BTreeMap<String, Option<String>>,
    /// Outcomes that items have of open calls, before the output of the call.
    outcomes: BTreeMap<String, Outcome>,
    /// Calls of the run that are over.
    over: BTreeSet<String>,
    /// How often each text of the run came as a response, as an item, and was recorded.
    spoken: BTreeMap<u64, [u64; 3]>,
    /// The last message of a person in the run, and whether the agent did something since.
    prompt: Option<(String, bool)>,
    /// Whether the agent is at work on a task.
    is_in_task: bool,
    shows_tokens: bool,
    shows_status: bool,
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
                self.assistant_text(&texts_of(item), 0, line);
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
        self.open_calls.insert(id.to_owned(), items::command_of_input(&input));
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
        self.over.insert(id.to_owned());
        let output = item.get("output").cloned();
        let outcome = match self.outcomes.remove(id) {
            Some(outcome) => Outcome { output, ..outcome },
            None => {
                let status = output.as_ref().and_then(exit_status);
                self.shows_status |= status.is_some();
                Outcome { output, ..Outcome::of(How::Completed) }.with_exit_status(status)
            }
        };
        line.steps.push(TranscriptStep::CallEnd { id: id.to_owned(), outcome });
    }

    fn event(&mut self, event: &Value, line: &mut TranscriptLine) {
        match text(event, "type").unwrap_or_default() {
            "user_message" => {
                let typed = text(event, "message").unwrap_or_default();
                let images = ["images", "local_images"].iter().filter_map(|name| event.get(name)?.as_array());
                self.message(typed, images.map(Vec::len).sum(), line);
            }
            "item_completed" => self.completed(event.get("item").unwrap_or(&Value::Null), line),
            "exec_command_end" => self.command_ended(event, line),
            "patch_apply_end" => self.files_changed(event, line),
            "token_count" => {
                let (total, last) =
                    (event.pointer("/info/total_token_usage"), event.pointer("/info/last_token_usage"));
                self.tokens(total.and_then(usage), last.and_then(usage), line);
            }
            "task_started" | "turn_started" => {
                self.is_in_task = true;
                self.prompt = None;
            }
            "task_complete" | "turn_complete" => {
                line.steps = self.ends();
                line.steps.push(TranscriptStep::End(Ending::Finished { status: "completed".to_owned() }));
                self.begin();
            }
            "turn_aborted" => {
                let why = text(event, "reason").unwrap_or("aborted");
                let by = if why == "interrupted" { "operator" } else { "system" };
                line.steps = self.ends();
                let reason = format!("the turn was aborted: {why}");
                line.steps.push(TranscriptStep::End(Ending::Cancelled { by: by.to_owned(), reason }));
                self.begin();
            }
            "" => line.unknown = Some("event_msg (without a type)".to_owned()),
            known if KNOWN_EVENTS.contains(&known) => {}
            other => line.unknown = Some(format!("event_msg {other}")),
        }
    }

    /// A message that a person typed. Some versions write it twice.
    fn message(&mut self, typed: &str, images: usize, line: &mut TranscriptLine) {
        if self.prompt.as_ref().is_some_and(|(last, is_answered)| last == typed && !is_answered) {
            return;
        }
        if self.is_in_task && self.prompt.is_some() {
            // It is sent to the agent while it works.
            line.place = LinePlace::Within;
        } else {
            let is_in_task = self.is_in_task;
            line.before = self.rest();
            self.is_in_task = is_in_task;
            line.place = LinePlace::Begins { title: title_of(typed), request: typed.to_owned() };
        }
        self.prompt = Some((typed.to_owned(), false));
        line.steps.push(TranscriptStep::User { id: Some(line.key.clone()), text: typed.to_owned() });
        if images > 0 {
            let what =
                format!("{images} images of the message; its raw text contains them, as far as it is stored");
            line.steps.push(TranscriptStep::Gap { reason: "attachment_not_imported", what });
        }
    }

    /// A text of the model, as a response (0) or as an item (1). Some versions write both.
    fn assistant_text(&mut self, text: &str, form: usize, line: &mut TranscriptLine) {
        line.place = LinePlace::Within;
        let counts = self.spoken.entry(key(text)).or_default();
        counts[form] += 1;
        if counts[form] <= counts[2] {
            return;
        }
        counts[2] += 1;
        self.turn(line);
        self.is_answered = true;
        self.texts += 1;
        line.steps.push(TranscriptStep::Text { id: format!("text-{}", self.texts), text: text.to_owned() });
    }

    /// A count is cumulative: what a request used is the difference to the one before.
    fn tokens(&mut self, total: Option<Usage>, last: Option<Usage>, line: &mut TranscriptLine) {
        let Some(total) = total else { return };
        self.shows_tokens = true;
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
            last
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
        if let Some((_, is_answered)) = &mut self.prompt {
            *is_answered = true;
        }
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

    /// The steps before the end of a run: the calls whose outcomes are known, its turn, and what the source showed.
    fn ends(&mut self) -> Vec<TranscriptStep> {
        self.is_in_task = false;
        let known = std::mem::take(&mut self.outcomes).into_iter();
        let mut steps: Vec<_> = known.map(|(id, outcome)| TranscriptStep::CallEnd { id, outcome }).collect();
        steps.extend(self.turn_end(None));
        steps.push(TranscriptStep::Source(self.source()));
        steps
    }

    fn begin(&mut self) {
        self.is_in_turn = false;
        self.open_calls.clear();
        self.over.clear();
        self.spoken.clear();
        self.prompt = None;
        self.is_answered = false;
    }
}

impl Transcript for CodexRollout {
    fn source(&self) -> Source {
        let mut shows = vec!["messages", "tool calls"];
        let mut does_not_show = vec!["permissions", "streaming", "thinking outside the raw lines", "cost"];
        if self.shows_tokens { &mut shows } else { &mut does_not_show }.push("tokens");
        match self.shows_status {
            true => shows.push("exit statuses of commands"),
            false => does_not_show.push("whether a command failed"),
        }
        Source::new("codex", "codex-rollouts", &shows, &does_not_show).with_version(self.version.clone())
    }

    fn agent(&self) -> &'static str {
        "codex"
    }

    fn session(&self) -> Option<&str> {
        self.session.as_deref()
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
                self.session = text(payload, "id").map(str::to_owned);
                self.folder = text(payload, "cwd").map(str::to_owned);
                self.provider = text(payload, "model_provider").map(str::to_owned);
            }
            "turn_context" => self.model = text(payload, "model").map(str::to_owned).or(self.model.take()),
            "response_item" => self.item(payload, &mut line),
            "event_msg" => self.event(payload, &mut line),
            "token_usage_record" => {
                let count = |name: &str| payload.get(name).and_then(usage);
                self.tokens(count("thread_token_usage"), count("usage"), &mut line);
            }
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
        let mut steps = self.ends();
        steps.push(TranscriptStep::End(Ending::Finished { status: "end_not_seen".to_owned() }));
        self.begin();
        steps
    }
}

/// The texts of the content of an item, joined.
fn texts_of(item: &Value) -> String {
    let blocks = item.get("content").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let texts: Vec<&str> = blocks.iter().filter_map(|block| text(block, "text")).collect();
    texts.join("")
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
