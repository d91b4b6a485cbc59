//! Writes a story down: short-hand in, stored events out. The same short-hand gives the same bytes.
//!
//! In the JSON of a story, `@call.ls` (or any other prefix) means an id, `@at.5000` for an instant that
//! many milliseconds after the start, `@digest.ls` for the digest of a proposed call, `@run.file` for the run
//! of another story and `@art.file/patch` for an id of another story.

use std::collections::BTreeMap;

use base64::Engine as _;
use recount_event::codec::encode;
use recount_event::digest::call_digest;
use recount_event::family::run::Driver;
use recount_event::{Draft, Event, EventId, ForeignId, Minter, Payload, RunId, SessionId, Stamp, TaskId};
use recount_event::{door, time};
use serde_json::Value;

/// 2026-05-03T08:00:00Z. Stories start within the next twelve hours.
const FIRST_MS: u64 = 1_777_795_200_000;
const SPREAD_MS: u64 = 12 * 3_600_000;

/// How far apart the pieces of a text come.
const PIECE_MS: u64 = 40;

/// A run, and what is needed to write its next events.
pub(crate) struct Story {
    pub(crate) name: &'static str,
    pub(crate) events: Vec<Event>,
    start_ms: u64,
    run_id: RunId,
    task_id: Option<TaskId>,
    session_id: Option<SessionId>,
    minter: Minter,
    /// The last event's offset.
    now: u64,
    run_started: u64,
    calls: BTreeMap<String, KnownCall>,
    turn: Turn,
    turns_completed: u64,
    /// Input tokens, output tokens, micro-dollars; and what earlier runs used of each.
    used: [u64; 3],
    prior: [u64; 3],
    budget_micros_usd: Option<u64>,
}

/// A call as it was proposed or invoked.
struct KnownCall {
    tool_name: String,
    turn_index: Option<u64>,
    digest: String,
}

#[derive(Default)]
struct Turn {
    index: Option<u64>,
    since: u64,
    proposed: u64,
}

/// A number that depends on the words only.
fn hash(words: &str) -> u128 {
    let digest = call_digest("story", words);
    let digits = digest.split_once(':').expect("a digest names its method").1;
    u128::from_str_radix(&digits[..32], 16).expect("a digest is in hex")
}

fn start_of(story: &str) -> u64 {
    let at =
        u64::try_from(hash(&format!("{story} starts")) % u128::from(SPREAD_MS)).expect("below the spread");
    FIRST_MS + at
}

/// An id of a story: `run`, `task`, or one for a label.
fn minted(prefix: &str, story: &str, label: &str, at_ms: u64) -> ForeignId {
    let entropy = hash(&format!("{story} {prefix} {label}"));
    ForeignId::minted(&format!("{prefix}_"), Minter::default().mint(Stamp { now_ms: at_ms, entropy }))
}

impl Story {
    /// A run of a task.
    pub(crate) fn of_task(name: &'static str) -> Self {
        Story::begin(name, start_of(name), true, false)
    }

    /// A run that answers a message of a conversation.
    pub(crate) fn of_session(name: &'static str) -> Self {
        Story::begin(name, start_of(name), false, true)
    }

    /// A run that carries on the task of another.
    pub(crate) fn after(name: &'static str, other: &Story) -> Self {
        let mut story = Story::begin(name, other.start_ms + other.now + 60_000, true, false);
        story.task_id = other.task_id;
        story.prior = other.used;
        story.used = other.used;
        story
    }

    fn begin(name: &'static str, start_ms: u64, task: bool, session: bool) -> Self {
        let id = |prefix: &str| minted(prefix, name, "", start_ms);
        Story {
            name,
            events: Vec::new(),
            start_ms,
            run_id: id("run").parse().expect("it was minted as one"),
            task_id: task.then(|| id("task").parse().expect("it was minted as one")),
            session_id: session.then(|| id("chat").parse().expect("it was minted as one")),
            minter: Minter::default(),
            now: 0,
            run_started: 0,
            calls: BTreeMap::new(),
            turn: Turn::default(),
            turns_completed: 0,
            used: [0; 3],
            prior: [0; 3],
            budget_micros_usd: None,
        }
    }

    /// With a budget, which every `cost.tick` has.
    pub(crate) fn with_budget(mut self, micros_usd: u64) -> Self {
        self.budget_micros_usd = Some(micros_usd);
        self
    }

    /// The stored form: one event a line.
    pub(crate) fn text(&self) -> String {
        let line = |event: &Event| String::from_utf8(encode(event)).expect("events are text") + "\n";
        self.events.iter().map(line).collect()
    }

    /// The sequence of the first event of a type.
    pub(crate) fn place(&self, type_name: &str) -> u64 {
        let found = self.events.iter().find(|event| event.type_name() == type_name);
        found.unwrap_or_else(|| panic!("{} has no {type_name}", self.name)).sequence
    }

    fn driver(&self) -> Driver {
        let queued = self.events.iter().find_map(|event| match event.payload() {
            Payload::RunQueued(queued) => Some(queued.driver),
            _ => None,
        });
        queued.unwrap_or(Driver::Own)
    }

    /// The next event, `at` milliseconds after the start. Events of one append share their instant.
    pub(crate) fn emit(&mut self, at: u64, type_name: &str, data: &str) {
        assert!(at >= self.now, "{}: {type_name} at {at} comes before {}", self.name, self.now);
        self.now = at;
        let data = self.filled(data);
        let draft = door::draft(type_name, &data)
            .unwrap_or_else(|why| panic!("{}: {type_name} {data}: {why}", self.name));
        if type_name == "run.started" && self.events.iter().all(|event| event.type_name() != type_name) {
            self.run_started = at;
        }
        let sequence = self.events.len() as u64;
        let now_ms = self.start_ms + at;
        let entropy = hash(&format!("{} event at {at}", self.name));
        let event = Event {
            event_id: EventId::new(self.minter.mint(Stamp { now_ms, entropy })),
            run_id: self.run_id,
            task_id: self.task_id,
            session_id: self.session_id,
            sequence,
            occurred_ms: now_ms,
            body: self.body(draft),
            extra: Vec::new(),
        };
        self.events.push(event);
    }

    /// Events of our own runs are written from the payload; those of a producer are kept as given.
    fn body(&self, draft: Draft) -> Draft {
        if self.driver() == Driver::External && !matches!(draft.payload, Payload::RunQueued(_)) {
            return draft;
        }
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("it is JSON");
        let (given, kept) = (draft.verbatim.as_deref().map(read), read(&draft.payload.write()));
        let mut missing = given.expect("the door keeps the text");
        if let (Some(missing), Some(kept)) = (missing.as_object_mut(), kept.as_object()) {
            missing.retain(|name, value| kept.get(name) != Some(value));
        }
        let nothing = missing.as_object().is_some_and(|missing| missing.is_empty());
        let name = draft.payload.type_name();
        assert!(nothing, "{}: {name} does not keep {missing}", self.name);
        draft.payload.into()
    }

    /// Puts ids, instants and digests in place of their labels.
    fn filled(&self, data: &str) -> String {
        let mut parts = data.split('@');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (kind, rest) = part.split_once('.').expect("@kind.label");
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_/".contains(c)));
            let (label, rest) = rest.split_at(end.unwrap_or(rest.len()));
            text.push_str(&self.filling(kind, label));
            text.push_str(rest);
        }
        text
    }

    fn filling(&self, kind: &str, label: &str) -> String {
        match kind {
            "at" => {
                let offset: u64 = label.parse().expect("@at.<milliseconds>");
                time::format_ms(self.start_ms + offset)
            }
            "digest" => self.known_call(label).digest.clone(),
            "run" => minted("run", label, "", start_of(label)).to_string(),
            prefix => match label.split_once('/') {
                Some((story, label)) => minted(prefix, story, label, start_of(story)).to_string(),
                None => minted(prefix, self.name, label, self.start_ms).to_string(),
            },
        }
    }

    fn known_call(&self, label: &str) -> &KnownCall {
        self.calls
            .get(label)
            .unwrap_or_else(|| panic!("{}: no call {label} was proposed or invoked", self.name))
    }

    /// A turn begins: the next one, or the same once more.
    pub(crate) fn turn(&mut self, at: u64, index: u64) {
        self.turn = Turn { index: Some(index), since: at, proposed: 0 };
        self.emit(
            at,
            "turn.started",
            &format!(r#"{{"turn_index":{index},"model":"claude-sonnet-4-5","provider":"anthropic"}}"#),
        );
    }

    fn open_turn(&self) -> u64 {
        self.turn.index.unwrap_or_else(|| panic!("{}: no turn is open", self.name))
    }

    /// Pieces of a block, in order.
    pub(crate) fn pieces(&mut self, at: u64, block: u64, pieces: &[&str]) {
        let turn = self.open_turn();
        for (place, piece) in (0..).zip(pieces) {
            let piece = Value::from(*piece);
            let data = format!(r#"{{"turn_index":{turn},"block_index":{block},"delta":{piece}}}"#);
            self.emit(at + place * PIECE_MS, "assistant.text_delta", &data);
        }
    }

    /// A block in pieces, and then as a whole.
    pub(crate) fn text_block(&mut self, at: u64, block: u64, pieces: &[&str]) {
        self.pieces(at, block, pieces);
        let (turn, text) = (self.open_turn(), Value::from(pieces.concat()));
        let data = format!(r#"{{"turn_index":{turn},"block_index":{block},"text":{text}}}"#);
        self.emit(self.now, "assistant.text_complete", &data);
    }

    /// The model proposes a tool call.
    pub(crate) fn propose(&mut self, at: u64, label: &str, tool_name: &str, input: &str) {
        let turn = self.open_turn();
        let input = door::compact(&self.filled(input)).expect("an input is JSON");
        let call = KnownCall {
            tool_name: tool_name.to_owned(),
            turn_index: Some(turn),
            digest: call_digest(tool_name, &input),
        };
        self.calls.insert(label.to_owned(), call);
        self.turn.proposed += 1;
        let provider = format!("toolu_{:012x}", hash(&format!("{} {label}", self.name)) >> 80);
        self.emit(
            at,
            "assistant.tool_call_proposed",
            &format!(
                r#"{{"turn_index":{turn},"tool_call_id":"@call.{label}","tool_name":"{tool_name}","input":{input},"provider_call_id":"{provider}"}}"#
            ),
        );
    }

    /// The model is done with everything.
    pub(crate) fn answer(&mut self, at: u64, summary: &str) {
        let (turn, summary) = (self.open_turn(), Value::from(summary));
        let data = format!(r#"{{"turn_index":{turn},"summary":{summary}}}"#);
        self.emit(at, "assistant.final_answer", &data);
    }

    /// The open turn is over; what it used is added up.
    pub(crate) fn turn_done(&mut self, at: u64, stop_reason: &str, used: [u64; 3]) {
        let turn = self.open_turn();
        let [input, output, cost] = used;
        let (calls, duration) = (self.turn.proposed, at - self.turn.since);
        self.emit(
            at,
            "turn.completed",
            &format!(
                r#"{{"turn_index":{turn},"stop_reason":"{stop_reason}","input_tokens":{input},"output_tokens":{output},"cached_input_tokens":0,"cost_micros_usd":{cost},"duration_ms":{duration},"tool_calls":{calls}}}"#
            ),
        );
        self.turn = Turn::default();
        self.turns_completed += 1;
        for (sum, more) in self.used.iter_mut().zip(used) {
            *sum += more;
        }
        let [input, output, cost] = self.used;
        let budget = self.budget_micros_usd.map_or_else(String::new, |budget| {
            let left = budget.saturating_sub(cost);
            format!(r#","task_budget_micros_usd":{budget},"task_budget_remaining_micros_usd":{left}"#)
        });
        self.emit(
            at,
            "cost.tick",
            &format!(
                r#"{{"cumulative_input_tokens":{input},"cumulative_output_tokens":{output},"cumulative_cost_micros_usd":{cost}{budget}}}"#
            ),
        );
    }

    /// The open turn fails.
    pub(crate) fn turn_failed(&mut self, at: u64, code: &str, message: &str, will_retry: bool) {
        let (turn, message) = (self.open_turn(), Value::from(message));
        self.turn = Turn::default();
        let data = format!(
            r#"{{"turn_index":{turn},"code":"{code}","message":{message},"will_retry":{will_retry}}}"#
        );
        self.emit(at, "turn.failed", &data);
    }

    /// A call's life: `tool.invoked`, `tool.started`, an outcome, `tool.refused`. More fields as JSON members.
    pub(crate) fn tool(&mut self, at: u64, type_name: &str, label: &str, members: &str) {
        let call = self.known_call(label);
        let tool_name = &call.tool_name;
        let turn = match call.turn_index.filter(|_| type_name != "tool.refused") {
            Some(turn) => format!(r#","turn_index":{turn}"#),
            None => String::new(),
        };
        let more = if members.is_empty() { String::new() } else { format!(",{members}") };
        self.emit(
            at,
            type_name,
            &format!(r#"{{"tool_call_id":"@call.{label}","tool_name":"{tool_name}"{turn}{more}}}"#),
        );
    }

    /// A call without a proposal: a command given directly.
    pub(crate) fn command(&mut self, at: u64, label: &str, tool_name: &str, members: &str) {
        let call = KnownCall {
            tool_name: tool_name.to_owned(),
            turn_index: None,
            digest: call_digest(tool_name, "{}"),
        };
        self.calls.insert(label.to_owned(), call);
        self.tool(at, "tool.invoked", label, members);
    }

    /// An event of a running tool.
    pub(crate) fn tool_event(&mut self, at: u64, type_name: &str, label: &str, members: &str) {
        self.emit(at, type_name, &format!(r#"{{"tool_call_id":"@call.{label}",{members}}}"#));
    }

    /// A process from its command to its exit. Each piece is an offset, `o` or `e`, and bytes.
    pub(crate) fn process(
        &mut self,
        at: u64,
        label: &str,
        argv: &str,
        pieces: &[(u64, char, &[u8])],
        exit: (u64, i64),
    ) {
        self.tool_event(
            at,
            "tool.shell.command",
            label,
            &format!(
                r#""argv":{argv},"cwd":"/srv/recount/workspaces/budget","env_keys":["PATH","HOME"],"sandbox_layer":"bwrap""#
            ),
        );
        let mut sent = [0_usize; 2];
        for (at, stream, bytes) in pieces {
            let (place, stream) = if *stream == 'o' { (0, "stdout") } else { (1, "stderr") };
            let (data, encoding) = match std::str::from_utf8(bytes) {
                Ok(text) => (Value::from(text), ""),
                Err(_) => {
                    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                    (Value::from(text), r#","encoding":"base64""#)
                }
            };
            let offset = sent[place];
            sent[place] += bytes.len();
            self.tool_event(
                *at,
                "tool.shell.output_chunk",
                label,
                &format!(r#""stream":"{stream}","data":{data},"byte_offset":{offset}{encoding}"#),
            );
        }
        let [stdout, stderr] = sent;
        self.tool_event(
            exit.0,
            "tool.shell.exited",
            label,
            &format!(
                r#""exit_code":{},"signal":null,"stdout_bytes":{stdout},"stderr_bytes":{stderr},"truncated":false"#,
                exit.1
            ),
        );
    }

    /// Turns, cost and duration of this run, as fields of its ending.
    pub(crate) fn figures(&self, at: u64) -> String {
        let cost = self.used[2] - self.prior[2];
        let (turns, duration) = (self.turns_completed, at - self.run_started);
        format!(r#""turns":{turns},"cost_micros_usd":{cost},"duration_ms":{duration}"#)
    }

    pub(crate) fn finished(&mut self, at: u64) {
        self.finished_as(at, "completed");
    }

    pub(crate) fn finished_as(&mut self, at: u64, final_status: &str) {
        let data = format!(r#"{{"final_status":"{final_status}",{}}}"#, self.figures(at));
        self.emit(at, "run.finished", &data);
    }

    pub(crate) fn failed(&mut self, at: u64, code: &str, message: &str, retriable: bool) {
        let message = Value::from(message);
        let figures = self.figures(at);
        let data = format!(r#"{{"code":"{code}","message":{message},"retriable":{retriable},{figures}}}"#);
        self.emit(at, "run.failed", &data);
    }

    pub(crate) fn cancelled(&mut self, at: u64, by: &str, reason: &str) {
        let reason = Value::from(reason);
        let data = format!(r#"{{"by":"{by}","reason":{reason},{}}}"#, self.figures(at));
        self.emit(at, "run.cancelled", &data);
    }
}
