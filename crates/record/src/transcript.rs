//! Transcripts of other agents: translates a line into steps that all formats share, and the steps into drafts.
//!
//! It must never know a file, nor whether a line was imported before. Begin at [`Transcript`] and [`apply`].

use serde_json::Value;

use crate::draft::Draft;
use crate::kept::{cut, short};
use crate::limits;
use crate::patch::Patch;
use crate::recording::{CallStart, Ending, Outcome, Recording, TurnEnd, TurnStart};
use crate::source::Source;

/// Reads one format, line by line from the beginning of a file. Lines that are in the log already are read again, too, as
/// later ones build on them.
pub trait Transcript {
    /// The source, with the agent's version as far as the lines so far have it.
    fn source(&self) -> Source;

    /// The agent's name, as `run.queued` has it.
    fn agent(&self) -> &'static str;

    /// The agent's id of the session, as its other recorders have it.
    fn session(&self) -> Option<&str>;

    /// The folder that the agent worked in, as far as it is known.
    fn folder(&self) -> Option<&str>;

    /// The steps of a line. `number` counts from 1.
    fn line(&mut self, number: u64, line: &str) -> TranscriptLine;

    /// Whether the agent reported the end of its turn. Otherwise it may still be active.
    fn is_complete(&self) -> bool;

    /// The steps that end the run when no more lines follow.
    fn rest(&mut self) -> Vec<TranscriptStep>;
}

/// The content of one line.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptLine {
    /// Recognises the line; its raw event has it as `key`, mapped by [`crate::map_id`].
    pub key: String,
    /// The name of its raw event.
    pub name: String,
    /// When it happened, as in the source.
    pub time: Option<String>,
    pub place: LinePlace,
    /// The steps that end the run that is open before this line, if the line starts another.
    pub before: Vec<TranscriptStep>,
    pub steps: Vec<TranscriptStep>,
    /// The type of a line that this release does not know; its raw text is kept.
    pub unknown: Option<String>,
}

/// Which run a line belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinePlace {
    /// It starts a run with this title and this request.
    Begins { title: String, request: String },
    /// The run that is open. If there is none, one begins that continues the last.
    Within,
    /// The run that is open. If there is none, the next, which keeps its raw text.
    Around,
}

/// One step that a line contains.
#[derive(Debug, Clone, PartialEq)]
pub enum TranscriptStep {
    User {
        id: Option<String>,
        text: String,
    },
    TurnBegin(TurnStart),
    TurnEnd(TurnEnd),
    Text {
        id: String,
        text: String,
    },
    Call(CallStart),
    CallEnd {
        id: String,
        outcome: Outcome,
    },
    Gap {
        reason: &'static str,
        what: String,
    },
    Note {
        name: &'static str,
        details: Value,
    },
    /// A cost that belongs to no turn. `is_whole`: it has that of all turns so far.
    Cost {
        micros_usd: u64,
        is_whole: bool,
    },
    /// What the source showed after all.
    Source(Source),
    /// A change of a file, to be uploaded, and what became of it.
    Patch {
        patch: Patch,
        status: Option<&'static str>,
    },
    End(Ending),
}

impl TranscriptLine {
    pub(crate) fn new(key: String, name: impl Into<String>) -> Self {
        TranscriptLine {
            key,
            name: name.into(),
            time: None,
            place: LinePlace::Around,
            before: Vec::new(),
            steps: Vec::new(),
            unknown: None,
        }
    }

    /// A line that is not UTF-8, not JSON, or not an object.
    pub fn invalid(number: u64, line: &str, why: &str) -> Self {
        let what = format!("line {number} of the transcript cannot be read: {why}");
        let steps = vec![TranscriptStep::Gap { reason: "line_invalid", what }];
        TranscriptLine { steps, ..TranscriptLine::new(line_key(number, line), "invalid_line") }
    }

    /// A line that is longer than a reader takes. Its beginning is kept.
    pub fn too_long(number: u64, beginning: &str, bytes_max: usize) -> Self {
        let what = format!(
            "line {number} of the transcript has more than {bytes_max} bytes; only its beginning is stored"
        );
        let steps = vec![TranscriptStep::Gap { reason: "line_too_long", what }];
        TranscriptLine { steps, ..TranscriptLine::new(line_key(number, beginning), "long_line") }
    }
}

/// Recognises a line by its place and its bytes.
pub(crate) fn line_key(number: u64, line: &str) -> String {
    let digest = blake3::hash(line.trim_end().as_bytes()).to_hex();
    format!("line-{number}-{}", &digest.as_str()[..24])
}

/// Reads a line as an object, or returns why it is none.
pub(crate) fn object(number: u64, line: &str) -> Result<Value, Box<TranscriptLine>> {
    match serde_json::from_str::<Value>(line) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(Box::new(TranscriptLine::invalid(number, line, "it is not a JSON object"))),
        Err(why) => Err(Box::new(TranscriptLine::invalid(number, line, &why.to_string()))),
    }
}

/// The title of a run: the first line of its request.
pub(crate) fn title_of(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("(empty message)");
    let (start, is_cut) = cut(first.trim(), limits::TITLE_BYTES_MAX);
    if is_cut { format!("{start}…") } else { start.to_owned() }
}

/// Records a line: its steps, its raw text, and an ending last. Each draft carries the time of the source as
/// `source_time`.
pub fn apply(recording: &mut Recording, line: &TranscriptLine, raw: &str) -> Vec<Draft> {
    let (endings, others): (Vec<&TranscriptStep>, Vec<&TranscriptStep>) =
        line.steps.iter().partition(|step| matches!(step, TranscriptStep::End(_)));
    others.into_iter().for_each(|step| one(recording, step));
    recording.raw_text(&line.name, raw, Some(&line.key));
    endings.into_iter().for_each(|step| one(recording, step));
    timed(recording.drain(), line.time.as_deref())
}

/// Records only a line's raw text, what could not be read of it, and a cost, which no other line repeats.
pub fn apply_raw(recording: &mut Recording, line: &TranscriptLine, raw: &str) -> Vec<Draft> {
    let is_kept =
        |step: &&TranscriptStep| matches!(step, TranscriptStep::Gap { .. } | TranscriptStep::Cost { .. });
    for step in line.steps.iter().filter(is_kept) {
        one(recording, step);
    }
    recording.raw_text(&line.name, raw, Some(&line.key));
    timed(recording.drain(), line.time.as_deref())
}

/// Records steps that no line of their own has.
pub fn apply_steps(recording: &mut Recording, steps: &[TranscriptStep]) -> Vec<Draft> {
    steps.iter().for_each(|step| one(recording, step));
    recording.drain()
}

fn one(recording: &mut Recording, step: &TranscriptStep) {
    match step {
        TranscriptStep::User { id, text } => recording.user(id.as_deref(), text),
        TranscriptStep::TurnBegin(start) => recording.turn_begin(start.clone()),
        TranscriptStep::TurnEnd(end) => {
            let is_counted = recording.in_turn() && end.usage.is_some();
            recording.turn_end(end.clone());
            if is_counted {
                recording.cost_tick();
            }
        }
        TranscriptStep::Text { id, text } => recording.text(id, text),
        TranscriptStep::Call(start) => recording.call(start.clone()),
        TranscriptStep::CallEnd { id, outcome } => recording.call_end(id, outcome.clone()),
        TranscriptStep::Gap { reason, what } => recording.gap(reason, what),
        TranscriptStep::Note { name, details } => recording.note(name, details),
        TranscriptStep::Cost { micros_usd, is_whole } => recording.add_cost(*micros_usd, *is_whole),
        // Who uploads it records it.
        TranscriptStep::Patch { .. } => {}
        TranscriptStep::Source(source) => recording.correct_source(&source.shows, &source.does_not_show),
        TranscriptStep::End(ending) => recording.end(ending.clone()),
    }
}

fn timed(mut drafts: Vec<Draft>, time: Option<&str>) -> Vec<Draft> {
    let Some(time) = time else { return drafts };
    for draft in &mut drafts {
        if let Value::Object(fields) = &mut draft.data {
            let time = short(time, limits::NAME_BYTES_MAX);
            fields.entry("source_time").or_insert_with(|| time.into());
        }
    }
    drafts
}

/// A text field.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}
