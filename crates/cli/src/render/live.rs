//! Prints a run while it happens, for the person that started it: the agent's text as it comes, a line for each call
//! and each ending, the output of commands, changes of files, and prompts. See [`Live`].
//!
//! Unlike [`Account`](super::Account), which leaves nothing out, this prints what a person in front of it wants to
//! know, and names where the rest is. A sign such as `▸` or `✓` always has a word beside it.

mod answer;
mod busy;
mod diff;
mod output;
mod paint;
mod prompt;

use std::collections::BTreeMap;

use recount_command_line::output::Screen;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use self::busy::Busy;
use self::output::CallOutput;
pub(crate) use self::paint::{Paint, without_sign};
pub(crate) use self::prompt::{Kind, Prompt};
use super::flow::{self, Flow};
use super::sentence::{self, Data, left_open, money, turns};
use super::{clean, count, short};

/// Calls whose output is tracked; the output of further simultaneous ones is not printed.
const CALLS_MAX: usize = 64;

/// To-do items that are printed; the number of omitted ones is printed.
const TODOS_MAX: usize = 30;

/// Turns events into text for a terminal or a pipe.
pub(crate) struct Live {
    paint: Paint,
    /// Whether signs such as `▸` are left out, and lines begin with what they are about.
    is_plain: bool,
    /// What the lines that are printed now are about, in plain output.
    subject: &'static str,
    width: Option<usize>,
    flow: Flow,
    /// What is waited for.
    busy: Busy,
    /// The block of text that is being printed, by turn and index, while its line is open.
    block: Option<(u64, u64)>,
    /// The block whose pieces were printed last, also when other lines came between.
    streamed: Option<(u64, u64)>,
    /// Whether the last text did not end its line.
    is_mid_line: bool,
    /// A line end that came in two pieces.
    held_return: bool,
    calls: BTreeMap<String, Call>,
    started: bool,
    /// Whether the run is one call of a tool, so that its output is the result.
    is_one_call: bool,
    /// The signal that ended the last command.
    signal: Option<u8>,
    warned_of_sandbox: bool,
    /// The message of the last failure of a model, which is printed once.
    failure: Option<String>,
    cost: Option<Vec<String>>,
    ending: Option<Ending>,
}

/// A call under way.
#[derive(Default)]
struct Call {
    output: CallOutput,
    /// What is known of how its command ended, and whether well.
    exit: Option<(String, bool)>,
    /// Why not all of its output is here.
    missing: Option<String>,
    /// Where its whole output is kept.
    kept: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Finished,
    Failed,
    /// The command that the run was has been ended by this signal.
    Signal(u8),
    Cancelled,
}

/// What one event gives.
#[derive(Debug, Default)]
pub(crate) struct LiveOutput {
    /// To be written unchanged.
    pub(crate) text: String,
    /// Artifacts that are to be fetched and given to [`Live::patch`].
    pub(crate) patches: Vec<String>,
    /// A prompt that opens now.
    pub(crate) prompt: Option<Prompt>,
    /// The prompt that was settled.
    pub(crate) settled: Option<String>,
}

#[derive(Deserialize)]
struct LiveEnvelope<'a> {
    run_id: String,
    #[serde(default)]
    task_id: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Live {
    pub(crate) fn new(paint: Paint) -> Self {
        Live {
            paint,
            is_plain: false,
            subject: "",
            width: None,
            flow: Flow::default(),
            busy: Busy::Nothing,
            block: None,
            streamed: None,
            is_mid_line: false,
            held_return: false,
            calls: BTreeMap::new(),
            started: false,
            is_one_call: false,
            signal: None,
            warned_of_sandbox: false,
            failure: None,
            cost: None,
            ending: None,
        }
    }

    /// Words only, without signs, for screen readers. Lines begin with `agent:`, `tool:` and the like, for a search.
    pub(crate) fn plain(self, is_plain: bool) -> Self {
        Live { is_plain, ..self }
    }

    /// From here on lines are broken after so many columns, or not at all.
    pub(crate) fn set_width(&mut self, width: Option<usize>) {
        self.width = width;
        self.flow.set_width(width);
    }

    /// What the run waits for, in words. `None` where that is a person, or nothing.
    pub(crate) fn waits_for(&self) -> Option<String> {
        self.busy.words()
    }

    /// The word that waits for its end, which has not come.
    pub(crate) fn release(&mut self) -> String {
        self.flow.release()
    }

    /// Whether the last line is still open.
    pub(crate) fn is_mid_line(&self) -> bool {
        self.is_mid_line
    }

    /// Lines to be copied, such as commands, which are not broken.
    pub(crate) fn unbroken(&mut self, lines: &[String]) -> String {
        let mut out = LiveOutput::default();
        lines.iter().for_each(|line| self.whole_line(&mut out, line));
        out.text
    }

    /// How the run ended, once it has.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// The output of one event.
    pub(crate) fn event(&mut self, bytes: &str) -> LiveOutput {
        let mut out = LiveOutput::default();
        let Ok(envelope) = serde_json::from_str::<LiveEnvelope<'_>>(bytes) else {
            self.line(&mut out, &format!("not an event: {}", clean::line(bytes)));
            return out;
        };
        let data = Data::read(envelope.data.get());
        self.busy.event(&envelope.type_name, &data);
        out.prompt = Prompt::of(&envelope.type_name, &data, envelope.session_id.is_some());
        out.settled = Prompt::settled_by(&envelope.type_name, &data);
        self.subject = subject(&envelope.type_name);
        match envelope.type_name.split_once('.').map_or("", |(group, _)| group) {
            "assistant" => self.speech(&envelope.type_name, &data, &mut out),
            "tool" => self.tool(&envelope.type_name, &data, &mut out),
            "run" => self.run(&envelope, &data, &mut out),
            _ => self.other(&envelope.type_name, &data, &mut out),
        }
        self.subject = "";
        out
    }

    /// Lines of our own between those of events.
    pub(crate) fn lines(&mut self, lines: &[String]) -> String {
        let mut out = LiveOutput::default();
        lines.iter().for_each(|line| self.line(&mut out, line));
        out.text
    }

    /// The first page of a prompt.
    pub(crate) fn prompt(&mut self, prompt: &mut Prompt, screen: Option<Screen>) -> String {
        prompt.begin();
        let lines = prompt.next_page(screen);
        self.prompt_lines(lines)
    }

    /// A prompt that is answered elsewhere.
    pub(crate) fn whole_prompt(&mut self, prompt: &Prompt) -> String {
        self.prompt_lines(prompt.all_lines())
    }

    fn prompt_lines(&mut self, mut lines: Vec<String>) -> String {
        let mut out = LiveOutput::default();
        self.line(&mut out, "");
        if let Some(first) = lines.first_mut() {
            let label = PROMPT_LABELS.iter().find(|(head, _)| self.is_plain && first.starts_with(head));
            match label {
                Some((head, label)) => first.replace_range(..head.len(), label),
                None => *first = self.paint.notable(first),
            }
        }
        lines.iter().for_each(|line| self.line(&mut out, line));
        out.text
    }

    /// A change of a file, whose bytes were fetched.
    pub(crate) fn patch(&mut self, id: &str, bytes: &[u8]) -> String {
        let lines = diff::lines(id, bytes, self.paint);
        self.lines(&lines)
    }

    fn speech(&mut self, type_name: &str, data: &Data, out: &mut LiveOutput) {
        let block = data.number("turn_index").zip(data.number("block_index"));
        match (type_name, block) {
            ("assistant.text_delta", Some(block)) => {
                if self.block != Some(block) {
                    self.end_line(out);
                    self.block = Some(block);
                    self.streamed = Some(block);
                    self.begin_text(out);
                }
                if let Some(delta) = data.text("delta") {
                    self.stream(delta, out);
                }
            }
            ("assistant.text_complete", Some(block)) => {
                if self.streamed != Some(block) {
                    self.end_line(out);
                    self.begin_text(out);
                    self.stream(data.text("text").unwrap_or_default(), out);
                }
                self.end_line(out);
                if data.is_true("aborted") {
                    self.line(out, "(the text was cut off here)");
                }
            }
            ("assistant.image_block", _) => self.sentence(type_name, data, out),
            // Thoughts and the input of calls are printed by `show`.
            _ => {}
        }
    }

    fn tool(&mut self, type_name: &str, data: &Data, out: &mut LiveOutput) {
        let Some(id) = data.text("tool_call_id").map(str::to_owned) else { return };
        match type_name {
            "tool.invoked" => self.invoked(&id, data, out),
            "tool.refused" => {
                let (name, message) = (self.name(data), data.text("message").unwrap_or_default());
                let why = data.text("code").unwrap_or("refused").replace('_', " ");
                let sign = self.paint.bad("✗ refused");
                self.line(out, &format!("{sign} {name} ({why}): {}", clean::line(message)));
            }
            "tool.completed" | "tool.failed" | "tool.cancelled" | "tool.timed_out" => {
                self.ended(type_name, &id, data, out);
            }
            "tool.shell.command" => {
                let without = matches!(data.text("sandbox_layer"), Some("off" | "none"));
                if without && !std::mem::replace(&mut self.warned_of_sandbox, true) {
                    let warning = self.paint.notable("commands run without a sandbox");
                    self.line(out, &warning);
                }
            }
            "tool.shell.output_chunk" => self.chunk(&id, data, out),
            "tool.shell.exited" => {
                let exit = match (data.value("exit_code").and_then(Value::as_i64), data.text("signal")) {
                    (Some(code), _) => (format!("exit status {code}"), code == 0),
                    (None, Some(signal)) => (format!("terminated by {}", clean::line(signal)), false),
                    (None, None) => ("no exit status".to_owned(), false),
                };
                self.signal = data.number("signal_number").and_then(|number| u8::try_from(number).ok());
                let truncated = data.is_true("truncated").then(|| "the output was truncated".to_owned());
                let missing = left_open(data).or(truncated);
                if let Some(call) = self.calls.get_mut(&id) {
                    (call.exit, call.missing) = (Some(exit), missing);
                }
            }
            "tool.todo_write.updated" => self.todos(data, out),
            "tool.edit.proposed" | "tool.file_write.proposed" | "tool.multi_edit.proposed" => {
                let paths = data.text("path").map(|path| vec![path]).or_else(|| data.texts("paths"));
                let summary =
                    data.text("summary").map_or(String::new(), |words| format!(" ({})", clean::line(words)));
                let paths = clean::line(&paths.unwrap_or_default().join(", "));
                self.line(out, &format!("  changes {paths}{summary}"));
                let ids = data.text("patch_artifact_id").map(|id| vec![id]);
                let ids = ids.or_else(|| data.texts("patch_artifact_ids")).unwrap_or_default();
                out.patches = ids.into_iter().map(str::to_owned).collect();
            }
            "tool.edit.reverted" | "tool.file_write.reverted" | "tool.multi_edit.reverted" => {
                self.sentence(type_name, data, out);
            }
            // The outcome summarises the other events of a tool.
            _ => {}
        }
    }

    fn invoked(&mut self, id: &str, data: &Data, out: &mut LiveOutput) {
        if self.calls.len() < CALLS_MAX {
            self.calls.insert(id.to_owned(), Call::default());
        }
        let name = self.name(data);
        let sign = self.paint.bold(&format!("▸ call {name}"));
        let about = clean::line(data.text("args_summary").unwrap_or_default());
        let mut line = if about.is_empty() { sign } else { format!("{sign}  {about}") };
        if data.text("executor") == Some("client") {
            line.push_str(" (run by the application)");
        }
        match (data.text("risk_level"), data.is_true("irreversible")) {
            (Some("high"), true) => line.push_str(" (high risk, cannot be undone)"),
            (Some("high"), false) => line.push_str(" (high risk)"),
            (_, true) => line.push_str(" (cannot be undone)"),
            _ => {}
        }
        if let Some(by) = data.text("allowed_by") {
            let scope = data.text("allowance_scope").unwrap_or("run");
            line.push_str(&clean::line(&format!(" (always allowed in this {scope} by {by})")));
        }
        self.line(out, &line);
    }

    fn chunk(&mut self, id: &str, data: &Data, out: &mut LiveOutput) {
        let several = self.calls.len() > 1;
        let Some((call, piece)) = self.calls.get_mut(id).zip(data.text("data")) else { return };
        let lines = match data.text("encoding") {
            Some(_) => call.output.opaque(piece.len() / 4 * 3),
            None => call.output.piece(data.text("stream") == Some("stderr"), piece),
        };
        self.output(id, several, &lines, out);
    }

    /// Lines that a command wrote; with several commands at once, each is marked with its command.
    fn output(&mut self, id: &str, several: bool, lines: &[String], out: &mut LiveOutput) {
        let whose = if several { format!("{}: ", clean::line(&short(id))) } else { String::new() };
        for line in lines {
            self.line(out, format!("    {whose}{line}").trim_end());
        }
    }

    fn ended(&mut self, type_name: &str, id: &str, data: &Data, out: &mut LiveOutput) {
        let several = self.calls.len() > 1;
        let mut call = self.calls.remove(id).unwrap_or_default();
        let rest = call.output.finish();
        self.output(id, several, &rest, out);
        let name = self.name(data);
        let took = data.number("duration_ms").filter(|ms| *ms > 0);
        let took = took.map_or(String::new(), |ms| format!(" in {}", seconds(ms)));
        let words = data.text("error").or_else(|| data.text("summary")).unwrap_or_default();
        let words = clean::line(words.lines().next().unwrap_or_default());
        let (word, is_good) = match type_name {
            "tool.completed" => ("done", call.exit.as_ref().is_none_or(|(_, is_good)| *is_good)),
            "tool.cancelled" => ("cancelled", false),
            "tool.timed_out" => ("timed out", false),
            _ => ("failed", false),
        };
        // Some events name the ending first.
        let after_word = words.strip_prefix(word).filter(|rest| rest.is_empty() || rest.starts_with(' '));
        let words = after_word.map_or(words.as_str(), str::trim_start);
        let sign = match is_good {
            true => self.paint.good(&format!("✓ {word}")),
            false if word == "done" => self.paint.bad("✗ ended"),
            false => self.paint.bad(&format!("✗ {word}")),
        };
        let mut line = format!("{sign} {name}{took}");
        match call.exit {
            Some((exit, _)) if type_name == "tool.completed" || words.is_empty() => {
                line.push_str(&format!(", {exit}"));
            }
            _ if words.is_empty() => {}
            _ if words.starts_with('(') => line.push_str(&format!(" {words}")),
            _ => line.push_str(&format!(": {words}")),
        }
        self.line(out, &line);
        let cut = data.is_true("output_incomplete");
        let missing = call.missing.or_else(|| cut.then(|| "the end of the output may be missing".to_owned()));
        if let Some(missing) = missing {
            let missing = self.paint.notable(&clean::line(&missing));
            self.line(out, &format!("  {missing}"));
        }
        if let Some(output) = data.readable("output").filter(|_| self.is_one_call) {
            let lines = answer::lines(&output);
            lines.iter().for_each(|line| self.line(out, line));
        }
        let kept = data.text("result_artifact_id").map(str::to_owned).or(call.kept);
        let is_complete = call.output.is_whole();
        if let Some(kept) = kept.filter(|_| !is_complete) {
            self.line(out, &format!("  the complete output is stored as {}", clean::line(&kept)));
        }
    }

    fn todos(&mut self, data: &Data, out: &mut LiveOutput) {
        let Some(todos) = data.value("todos").and_then(Value::as_array) else { return };
        if todos.is_empty() {
            self.line(out, "  to do: nothing");
            return;
        }
        self.line(out, "  to do:");
        for todo in todos.iter().take(TODOS_MAX) {
            let field = |name: &str| todo.get(name).and_then(Value::as_str).unwrap_or_default();
            let status = match field("status") {
                "completed" => "[done]",
                "in_progress" => "[now] ",
                _ => "[open]",
            };
            self.line(out, &format!("    {status} {}", clean::line(field("content"))));
        }
        if todos.len() > TODOS_MAX {
            self.line(out, &format!("    ({} more)", todos.len() - TODOS_MAX));
        }
    }

    fn run(&mut self, envelope: &LiveEnvelope<'_>, data: &Data, out: &mut LiveOutput) {
        match envelope.type_name.as_str() {
            "run.queued" => {
                let mut line = format!("run {}", clean::line(&envelope.run_id));
                if let Some(task) = &envelope.task_id {
                    line.push_str(&format!(" of task {}", clean::line(task)));
                }
                if let Some(kind) = data.text("kind") {
                    self.is_one_call = kind == "file";
                    line.push_str(&format!(", kind {}", clean::line(kind)));
                }
                if let Some(model) = data.text("model") {
                    let provider = data.text("provider").map(|name| format!("{name}/")).unwrap_or_default();
                    line.push_str(&format!(", model {}", clean::line(&format!("{provider}{model}"))));
                }
                let line = self.paint.dim(&line);
                self.line(out, &line);
            }
            "run.started" => {
                if std::mem::replace(&mut self.started, true) {
                    self.line(out, "another worker took over the run");
                }
            }
            "run.waiting" | "run.continued" | "run.checkpoint_saved" => {}
            "run.finished" | "run.failed" | "run.cancelled" => self.ending_of(&envelope.type_name, data, out),
            other => self.sentence(other, data, out),
        }
    }

    fn ending_of(&mut self, type_name: &str, data: &Data, out: &mut LiveOutput) {
        let took = data.number("duration_ms").map(seconds);
        let turns = turns(data).filter(|_| data.number("turns") != Some(0));
        let facts: Vec<String> = [turns, took].into_iter().flatten().collect();
        let facts = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        let (ending, line) = match type_name {
            "run.finished" => {
                let status = data.text("final_status").unwrap_or("completed");
                (
                    Ending::Finished,
                    format!("{} {}{facts}", self.paint.good("✓ finished:"), clean::line(status)),
                )
            }
            "run.failed" => {
                let again = if data.is_true("retriable") { "; retry may succeed" } else { "" };
                let (code, why) = (data.text("code"), data.text("message"));
                let (code, why) = (code.unwrap_or("failed"), why.unwrap_or_default());
                let ending = match self.signal.filter(|_| code == "signal") {
                    Some(number) => Ending::Signal(number),
                    None => Ending::Failed,
                };
                let why = match self.failure.as_deref() == Some(why) || why.is_empty() {
                    true => String::new(),
                    false => format!(": {why}"),
                };
                let words = clean::line(&format!("{code}{why}{again}"));
                (ending, format!("{} {words}{facts}", self.paint.bad("✗ failed:")))
            }
            _ => {
                let (by, why) = (data.text("by").unwrap_or("an unknown caller"), data.text("reason"));
                let why = why.filter(|why| !why.is_empty()).map_or(String::new(), |why| format!(": {why}"));
                let words = clean::line(&format!("{by}{why}"));
                (Ending::Cancelled, format!("{} {words}{facts}", self.paint.bad("✗ cancelled by")))
            }
        };
        self.ending = Some(ending);
        self.line(out, "");
        self.line(out, &line);
        self.subject = "run";
        if let Some(facts) = self.cost.take() {
            self.line(out, &format!("cost: {}", facts.join(", ")));
        }
    }

    fn other(&mut self, type_name: &str, data: &Data, out: &mut LiveOutput) {
        match type_name {
            "cost.tick" => self.cost = cost(data),
            "cost.budget_warning" | "cost.budget_exceeded" => {
                let sentence =
                    sentence::of(type_name, data).map(|sentence| sentence.line).unwrap_or_default();
                let line = self.paint.notable(&format!("budget: {}", clean::line(&sentence)));
                self.line(out, &line);
            }
            "artifact.created" => {
                let kept = data.text("artifact_id").filter(|_| data.text("kind") == Some("command_output"));
                if let Some((id, kept)) = data.text("tool_call_id").zip(kept)
                    && let Some(call) = self.calls.get_mut(id)
                {
                    call.kept = Some(kept.to_owned());
                }
            }
            "user.attachment" => {
                let (id, mime) = (data.text("artifact_id"), data.text("mime"));
                let words = format!("attached: {} ({})", id.unwrap_or_default(), mime.unwrap_or_default());
                self.line(out, &clean::line(&words));
            }
            "workspace.provisioned" => {
                let path = data.text("path").unwrap_or_default();
                let files = data.number("files");
                let files = files.map_or(String::new(), |files| format!(" ({})", count(files, "file")));
                let earlier = data.text("files_from_run_id").zip(data.number("files_from_sequence"));
                let words = match (data.text("mode"), data.text("source")) {
                    _ if earlier.is_some() => {
                        let (run, sequence) = earlier.unwrap_or_default();
                        format!(
                            "works on a new copy with the files at event {sequence} of {run}{files}, {path}"
                        )
                    }
                    (Some("in_place"), _) => format!("works in {path}"),
                    (_, Some(source)) => format!("works on a copy of {source}{files}, {path}"),
                    (_, None) => format!("works in an empty folder, {path}"),
                };
                let line = self.paint.dim(&clean::line(&words));
                self.line(out, &line);
            }
            // The failure was printed, and the end of the run follows.
            "turn.failed" if !data.is_true("will_retry") && self.is_printed(data) => {}
            "turn.failed" | "error.upstream" => {
                let is_printed = self.is_printed(data);
                let line = sentence::of(type_name, data).map(|sentence| match sentence.text {
                    Some(text) if !is_printed => format!("{}: {text}", sentence.line),
                    _ => sentence.line,
                });
                line.iter().for_each(|line| self.line(out, &clean::line(line)));
                self.failure = data.text("message").map(str::to_owned);
            }
            "workspace.failed" => self.sentence(type_name, data, out),
            "turn.completed"
                if !matches!(data.text("stop_reason"), Some("end_turn" | "tool_use"))
                    || data.value("adjusted").is_some() =>
            {
                self.sentence(type_name, data, out);
            }
            _ => match type_name.split_once('.').map_or("", |(group, _)| group) {
                // It is printed as a prompt.
                _ if out.prompt.is_some() => {}
                "approval" | "clarification" | "handoff" | "policy" | "error" | "gap" | "context" => {
                    self.sentence(type_name, data, out);
                }
                _ => {}
            },
        }
    }

    /// Whether the message of a failure was printed before.
    fn is_printed(&self, data: &Data) -> bool {
        self.failure.is_some() && self.failure.as_deref() == data.text("message")
    }

    /// An event as its sentence has it, in one line.
    fn sentence(&mut self, type_name: &str, data: &Data, out: &mut LiveOutput) {
        let Some(sentence) = sentence::of(type_name, data) else { return };
        let line = match sentence.text {
            Some(text) if sentence.line.is_empty() => text,
            Some(text) => format!("{}: {text}", sentence.line),
            None => sentence.line,
        };
        self.line(out, &clean::line(line.trim_end()));
    }

    fn name(&self, data: &Data) -> String {
        clean::line(data.text("tool_name").unwrap_or("unknown tool"))
    }

    /// The label of a text of the agent, in plain output.
    fn begin_text(&mut self, out: &mut LiveOutput) {
        if self.is_plain {
            self.stream("agent: ", out);
        }
    }

    /// One piece of a text.
    fn stream(&mut self, piece: &str, out: &mut LiveOutput) {
        let mut text = String::with_capacity(piece.len() + 1);
        if std::mem::take(&mut self.held_return) {
            text.push('\r');
        }
        text.push_str(piece);
        if text.ends_with('\r') {
            text.pop();
            self.held_return = true;
        }
        let text = text.replace("\r\n", "\n");
        for (place, line) in text.split('\n').enumerate() {
            if place > 0 {
                out.text.push_str(&self.flow.end_line());
                self.is_mid_line = false;
            }
            if !line.is_empty() {
                out.text.push_str(&self.flow.piece(&clean::line(line)));
                self.is_mid_line = true;
            }
        }
    }

    fn end_line(&mut self, out: &mut LiveOutput) {
        self.block = None;
        self.held_return = false;
        out.text.push_str(&self.flow.finish());
        if std::mem::take(&mut self.is_mid_line) {
            out.text.push('\n');
        }
    }

    /// A line of ours, broken between words. What is indented by four columns is output or code, and stays as it is.
    fn line(&mut self, out: &mut LiveOutput, line: &str) {
        self.push_line(out, line, self.width);
    }

    fn whole_line(&mut self, out: &mut LiveOutput, line: &str) {
        self.push_line(out, line, None);
    }

    fn push_line(&mut self, out: &mut LiveOutput, line: &str, width: Option<usize>) {
        self.end_line(out);
        let line = match self.is_plain {
            true => flow::broken(&labelled(self.subject, paint::without_sign(line)), width),
            false => flow::broken(line, width),
        };
        out.text.push_str(&line);
        out.text.push('\n');
    }
}

/// The first words of prompts, and the labels that replace them in plain output.
const PROMPT_LABELS: [(&str, &str); 3] = [
    ("Permission requested:", "permission:"),
    ("Question:", "question:"),
    ("Handoff requested:", "handoff:"),
];

/// What the lines of an event are about. The text of the agent is labelled where it begins.
fn subject(type_name: &str) -> &'static str {
    match type_name.split_once('.') {
        Some(("assistant", _)) | None => "",
        Some(("tool", _)) => "tool",
        Some(("approval", _)) => "permission",
        Some(("clarification", _)) => "question",
        Some(("handoff", _)) => "handoff",
        Some(("error", _)) | Some((_, "failed")) => "error",
        Some(_) => "run",
    }
}

/// A line with what it is about at its beginning. Output and code, which are indented, stay as they are. An id at the
/// beginning is left out, because it cannot be remembered by ear; `show` prints it.
fn labelled(subject: &str, line: &str) -> String {
    if subject.is_empty() || line.is_empty() || line.starts_with(' ') {
        return line.to_owned();
    }
    let is_id = |word: &str| ["appr_", "clar_", "hand_"].iter().any(|prefix| word.starts_with(prefix));
    let line = match line.split_once(' ') {
        Some((first, rest)) if is_id(first) || first == subject => rest,
        _ => line,
    };
    format!("{subject}: {line}")
}

/// What was used so far, fact by fact.
fn cost(data: &Data) -> Option<Vec<String>> {
    let mut facts = vec![money(data, "cumulative_cost_micros_usd")?];
    for (field, words) in [("cumulative_input_tokens", "in"), ("cumulative_output_tokens", "out")] {
        facts.extend(data.number(field).map(|tokens| format!("{} {words}", count(tokens, "token"))));
    }
    let left = money(data, "task_budget_remaining_micros_usd");
    let whole = money(data, "task_budget_micros_usd");
    facts.extend(left.zip(whole).map(|(left, whole)| format!("{left} of {whole} remaining")));
    Some(facts)
}

/// A time as people read it.
fn seconds(ms: u64) -> String {
    match ms {
        0..=99 => format!("{ms} ms"),
        100..=59_999 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..=3_599_999 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

#[cfg(test)]
mod tests;
