//! Records one external run: takes observations of another agent, returns drafts of events in a legal order.
//!
//! Every method is total. What comes late, twice or out of place becomes an extension event, or nothing where it
//! says nothing new. Begin with [`Recording::begin`], or [`Recording::resume`] after a restart; take the drafts with
//! [`Recording::drain`].

mod beside;
mod calls;
mod memory;
mod prompts;
mod reports;
mod resume;
mod turns;

use std::collections::BTreeMap;

use serde_json::Value;

pub use beside::{PatchFacts, Todo};
pub use reports::{Answer, CallStart, Decided, Elsewhere, How, Outcome, Prompt};
pub use turns::{TurnEnd, TurnStart, Usage};

use crate::draft::{Draft, Fields};
use crate::ids::{extension_kind, key, map_id};
use crate::kept::{cut, raw, raw_text, short};
use crate::limits;
use crate::source::Source;
use memory::Memory;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It came to its end; the status is `completed`, or what the agent calls it.
    Finished {
        status: String,
    },
    Failed {
        code: String,
        message: String,
    },
    /// `by` is `operator`, `system`, `policy`, `timeout` or `shutdown`.
    Cancelled {
        by: String,
        reason: String,
    },
}

/// The recording of one external run.
#[derive(Debug)]
pub struct Recording {
    source: Source,
    drafts: Vec<Draft>,
    started: bool,
    ended: bool,
    turns: turns::Turns,
    calls: BTreeMap<String, calls::OpenCall>,
    calls_seen: u64,
    /// Calls that are over, and how.
    over: Memory<How>,
    prompts: BTreeMap<String, prompts::OpenPrompt>,
    prompts_seen: u64,
    /// Keys of bodies and messages that are recorded.
    seen: Memory<()>,
    prompted: bool,
    spoken: bool,
    /// The usage of the turn that is open at the end of the run.
    last_usage: Option<Usage>,
    /// When it happened, as in the source.
    source_time: Option<String>,
}

impl Recording {
    /// Starts the recording of a new run: `run.started` and `ext.recount.source`.
    pub fn begin(source: &Source) -> Self {
        let mut recording = Self::blank(source);
        recording.put_beginning();
        recording
    }

    fn put_beginning(&mut self) {
        self.started = true;
        self.put("run.started", Fields::new());
        let fields = self.source.fields();
        self.put("ext.recount.source", Fields::new().all(fields));
    }

    fn blank(source: &Source) -> Self {
        Recording {
            source: source.clone(),
            drafts: Vec::new(),
            started: false,
            ended: false,
            turns: turns::Turns::default(),
            calls: BTreeMap::new(),
            calls_seen: 0,
            over: Memory::default(),
            prompts: BTreeMap::new(),
            prompts_seen: 0,
            seen: Memory::default(),
            prompted: false,
            spoken: false,
            last_usage: None,
            source_time: None,
        }
    }

    /// The time of what is recorded from now on, as the source reports it; each event has it as `source_time`.
    pub fn happened_at(&mut self, ms: Option<u64>) {
        self.source_time = ms.map(recount_event::time::format_ms);
    }

    /// Takes what is to be appended, in order.
    pub fn drain(&mut self) -> Vec<Draft> {
        std::mem::take(&mut self.drafts)
    }

    /// Whether nothing more can be recorded in this run.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// A person sent a message. The same `id` a second time adds nothing.
    pub fn user(&mut self, id: Option<&str>, text: &str) {
        let id = id.map(map_id);
        if let Some(id) = &id
            && !self.is_new(&format!("user {id}"))
        {
            return;
        }
        self.prompted = true;
        let (kept, truncated) = cut(text, limits::USER_TEXT_BYTES_MAX);
        self.put("user.message", Fields::new().put("text", kept).maybe("message_id", id));
        if truncated {
            self.truncated("user.message", text.len(), kept.len());
        }
    }

    /// An event of the agent as it came, as `ext.<agent>.<name>`. `key` recognises a repeated one, which adds nothing; it
    /// is kept in the event, so that this holds after a restart, too.
    pub fn raw(&mut self, name: &str, body: &Value, key: Option<&str>) {
        self.raw_if_new(name, body, key);
    }

    /// [`Recording::raw`]; returns whether it is new.
    pub fn raw_if_new(&mut self, name: &str, body: &Value, key: Option<&str>) -> bool {
        let kind = extension_kind(&self.source.agent.clone(), name);
        let key = key.map(map_id);
        let is_new = key.as_ref().is_none_or(|key| self.is_new(&format!("raw {key}")));
        if is_new {
            self.put(
                kind,
                Fields::new()
                    .put("name", short(name, limits::NAME_BYTES_MAX))
                    .maybe("key", key)
                    .all(raw(body)),
            );
        }
        is_new
    }

    /// The same for a body that is not JSON, or is to be kept byte for byte.
    pub fn raw_text(&mut self, name: &str, body: &str, key: Option<&str>) {
        let kind = extension_kind(&self.source.agent.clone(), name);
        let key = key.map(map_id);
        if key.as_ref().is_none_or(|key| self.is_new(&format!("raw {key}"))) {
            let fields = Fields::new().put("name", short(name, limits::NAME_BYTES_MAX)).maybe("key", key);
            self.put(kind, fields.all(raw_text(body)));
        }
    }

    /// An extension event of the recorder itself, `ext.recount.<name>`: what it observed and no registered type says.
    pub fn note(&mut self, name: &str, details: &Value) {
        self.put(extension_kind("recount", name), Fields::new().all(raw(details)));
    }

    /// Something was not seen: `ext.recount.gap`. `what` says what may be missing, `reason` why, in one word
    /// (`server_away`, `spool_full`, `piece_lost`).
    pub fn gap(&mut self, reason: &str, what: &str) {
        let fields = Fields::new()
            .put("reason", short(reason, limits::NAME_BYTES_MAX))
            .put("what", short(what, limits::SENTENCE_BYTES_MAX));
        self.put("ext.recount.gap", fields);
    }

    /// Reports the facts that the source provided after all, if its lists at the beginning of the run were others.
    pub fn correct_source(&mut self, shows: &[String], does_not_show: &[String]) {
        if (shows, does_not_show) == (&*self.source.shows, &*self.source.does_not_show) {
            return;
        }
        (self.source.shows, self.source.does_not_show) = (shows.to_vec(), does_not_show.to_vec());
        let fields = self.source.fields();
        self.put("ext.recount.source", Fields::new().all(fields));
    }

    /// The usage of the turn that [`Recording::end`] closes.
    pub fn used_at_end(&mut self, usage: Usage) {
        self.last_usage = Some(usage);
    }

    /// Ends the run; what is open is closed first. A second ending adds nothing.
    pub fn end(&mut self, ending: Ending) {
        if self.ended {
            return;
        }
        let why = match &ending {
            Ending::Finished { .. } => "the run ended",
            Ending::Failed { .. } => "the run failed",
            Ending::Cancelled { .. } => "the run was cancelled",
        };
        self.close_texts(!matches!(ending, Ending::Finished { .. }));
        self.close_calls(why);
        let usage = self.last_usage.take();
        match &ending {
            Ending::Finished { .. } => self.turn_end(TurnEnd { stop_reason: "end_turn", usage }),
            Ending::Failed { .. } => self.turn_end(TurnEnd { stop_reason: "error", usage }),
            Ending::Cancelled { reason, .. } => self.turn_cancelled(reason, usage),
        }
        if usage.is_some() {
            self.cost_tick();
        }
        match ending {
            Ending::Finished { status } => {
                self.put("run.finished", Fields::new().put("final_status", name_or(&status, "completed")));
            }
            Ending::Failed { code, message } => {
                let fields = Fields::new()
                    .put("code", name_or(&code, "failed"))
                    .put("message", short(&message, limits::SENTENCE_BYTES_MAX))
                    .put("retriable", false);
                self.put("run.failed", fields);
            }
            Ending::Cancelled { by, reason } => {
                let fields = Fields::new()
                    .put("by", name_or(&by, "operator"))
                    .put("reason", short(&reason, limits::SENTENCE_BYTES_MAX));
                self.put("run.cancelled", fields);
            }
        }
        self.ended = true;
    }

    /// Adds a draft, unless the run is over.
    fn put(&mut self, kind: impl Into<std::borrow::Cow<'static, str>>, fields: Fields) {
        if !self.ended {
            let fields = fields.maybe("source_time", self.source_time.clone());
            self.drafts.push(Draft::new(kind, fields.done()));
        }
    }

    /// Whether something with this name is recorded for the first time since this recording began or was resumed.
    pub fn first_time(&mut self, name: &str) -> bool {
        self.is_new(&format!("first {name}"))
    }

    /// Whether a person's message is recorded.
    pub fn has_prompt(&self) -> bool {
        self.prompted
    }

    /// Whether a message of a person is recorded under this id.
    pub fn has_message(&self, id: &str) -> bool {
        self.seen.get(key(&format!("user {}", map_id(id)))).is_some()
    }

    /// Whether the agent wrote any text.
    pub fn has_text(&self) -> bool {
        self.spoken
    }

    /// Whether this was not seen before in the run; from now on it was.
    fn is_new(&mut self, name: &str) -> bool {
        self.seen.insert(key(name), ()).is_none()
    }

    fn truncated(&mut self, of: &str, size: usize, kept: usize) {
        self.put(
            "ext.recount.truncated",
            Fields::new().put("of", of).put("size_bytes", size).put("kept_bytes", kept),
        );
    }
}

fn name_or(text: &str, otherwise: &str) -> String {
    let text = if text.is_empty() { otherwise } else { text };
    short(text, limits::NAME_BYTES_MAX)
}
