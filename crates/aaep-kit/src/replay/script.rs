//! Reads a recording to replay it: the producer's lines, the pauses between them, and the prompts among them. Entry:
//! [`ReplayScript::read`]. It does not know who listens.
//!
//! Lines are kept byte for byte. Handshakes and replies of the recording are not sent, because the replay answers its
//! own subscribers; they show only where a prompt was answered, and how.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::ops::Range;

use bytes::Bytes;

use super::times::RecordedTimes;
use crate::aaep::field::Field;
use crate::aaep::json::{Piece, Reader, Splitter};
use crate::aaep::lex::time::Moment;
use crate::aaep::{Kind, MessageKind, Reading, lex, rule};
use crate::limits;
use crate::recording::Direction;

/// What is to be said, in order.
pub struct ReplayScript {
    held: Bytes,
    pub(super) lines: Vec<ScriptLine>,
    /// In the order in which they are said.
    pub(super) prompts: Vec<Prompt>,
    /// Sums of all ids, so that they are known wherever they stand.
    pub(super) ids: HashSet<u64>,
    /// Who speaks, as JSON.
    pub(super) producer: Option<String>,
    /// Languages that texts are in, the first one first.
    pub(super) languages: Vec<String>,
    /// What is odd about the recording.
    warnings: Vec<String>,
    /// Lines that are not said.
    unsaid: usize,
}

/// A line that is said.
pub(super) struct ScriptLine {
    text: Range<u32>,
    /// Where its event id is in the text.
    id: Range<u32>,
    /// In the file, from 1.
    pub(super) number: u32,
    /// Since the line before it was said.
    pub(super) pause_ms: u32,
    /// How far its time lies behind one that stands before it.
    pub(super) back_ms: u32,
    /// The line that said the very same event first; where none did, this one.
    pub(super) first: usize,
}

impl ScriptLine {
    fn bytes(&self) -> Range<usize> {
        self.text.start as usize..self.text.end as usize
    }
}

/// A line that asks something.
pub(super) struct Prompt {
    /// Which line of those that are said.
    pub(super) line: usize,
    /// The line before which the answer came; the next one where the recording holds no answer.
    pub(super) settled: usize,
    pub(super) token: String,
    pub(super) timeout_ms: u64,
    pub(super) asks: Asks,
    /// The answer that the recording holds.
    pub(super) recorded: Option<String>,
}

/// What a prompt wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asks {
    /// One of these decisions.
    Decision(Vec<String>),
    Response,
}

/// Why a recording is not replayed.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    #[error(
        "the file has no producer events; a recording has one event per line, as `aaep capture` writes it"
    )]
    Empty,
    #[error("more than {} bytes to replay; split the recording", limits::REPLAY_BYTES_MAX)]
    TooLarge,
    #[error("line {line}: {why}; it is too large to replay")]
    Line { line: usize, why: String },
}

impl ReplayScript {
    /// Reads a recording to its end; `times` is the text beside it that tells when each line came, if there is one.
    pub fn read(mut recording: impl Read, times: Option<&str>) -> Result<ReplayScript, ScriptError> {
        let mut reading = Building { times: times.map(RecordedTimes::read), ..Building::default() };
        if let Some(fault) = reading.times.as_ref().and_then(|times| times.fault.clone()) {
            reading.warn(fault);
        }
        let mut splitter = Splitter::new();
        let mut room = vec![0; limits::REPLAY_READ_BYTES];
        loop {
            let count = match recording.read(&mut room) {
                Ok(0) => break,
                Ok(count) => count,
                Err(why) if why.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(why) => return Err(why.into()),
            };
            splitter.push(&room[..count], |piece| reading.piece(piece));
            if let Some(error) = reading.error.take() {
                return Err(error);
            }
        }
        splitter.finish(|piece| reading.piece(piece));
        reading.done()
    }

    /// Lines that are said.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Lines that are not said: handshakes and replies.
    pub fn unsaid(&self) -> usize {
        self.unsaid
    }

    /// What is odd about the recording, in sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(super) fn text(&self, at: usize) -> Bytes {
        self.held.slice(self.lines[at].bytes())
    }

    /// The event's id, where it can stand in a frame.
    pub(super) fn id(&self, at: usize) -> Option<&str> {
        let (text, id) = (&self.held[self.lines[at].bytes()], &self.lines[at].id);
        let id = std::str::from_utf8(&text[id.start as usize..id.end as usize]).ok()?;
        (!id.is_empty()).then_some(id)
    }
}

impl std::fmt::Debug for ReplayScript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplayScript").field("lines", &self.len()).field("unsaid", &self.unsaid).finish()
    }
}

/// What ids are compared by.
pub(super) fn sum(id: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Fields whose values are ids.
pub(super) const ID_FIELDS: [Field; 5] =
    [Field::EventId, Field::SessionId, Field::ReplyToken, Field::ToolCallId, Field::OutputId];

#[derive(Default)]
struct Building {
    times: Option<RecordedTimes>,
    reader: Reader,
    held: Vec<u8>,
    lines: Vec<ScriptLine>,
    prompts: Vec<Prompt>,
    /// Prompts by their token.
    prompt_by_token: BTreeMap<String, usize>,
    ids: HashSet<u64>,
    /// The latest moment in a line, in milliseconds since 1970.
    latest_ms: Option<i64>,
    /// When the line before this one was said or written, in milliseconds of whatever clock tells it.
    before_ms: Option<i64>,
    /// The first line of each event, by the sum of its id.
    firsts: HashMap<u64, usize>,
    /// Pauses of lines that are not said count for the next one that is.
    pause_ms: i64,
    producer: Option<String>,
    languages: Vec<String>,
    warnings: Vec<String>,
    unwarned: usize,
    unsaid: usize,
    /// Lines that are no JSON objects.
    broken: usize,
    error: Option<ScriptError>,
}

/// What one line is, as far as it matters here.
#[derive(Default)]
struct Facts {
    message: Option<MessageKind>,
    /// Something a subscriber said that is no message of the protocol.
    driver: bool,
    ids: Vec<u64>,
    moment: Option<Moment>,
    /// Of the event id, in the text.
    id: Range<usize>,
    asks: Option<(String, u64, Asks)>,
    /// Of a reply: its token and what it says.
    answer: Option<(String, String)>,
    producer: Option<String>,
    language: Option<String>,
    /// Why it is no JSON object.
    fault: Option<String>,
}

impl Building {
    fn piece(&mut self, piece: Piece<'_>) {
        if self.error.is_some() {
            return;
        }
        match piece.text {
            Ok(text) => {
                // A text over several lines is told in one, as frames and recordings hold it.
                let mut text = text.trim_ascii().to_vec();
                text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
                self.line(piece.line, &text);
            }
            Err(crate::aaep::json::Fault::TooLong(_)) => {
                let why = format!("more than {} bytes", crate::aaep::limits::PIECE_BYTES_MAX);
                self.error = Some(ScriptError::Line { line: piece.line, why });
            }
            Err(fault) => self.warn(format!("line {}: {fault}", piece.line)),
        }
    }

    fn line(&mut self, number: usize, text: &[u8]) {
        let facts = self.facts(text);
        let id = std::str::from_utf8(&text[facts.id.clone()]).unwrap_or_default();
        let written =
            self.times.as_ref().and_then(|times| times.of(number)).and_then(|time| time.id.as_deref());
        if let Some(written) = written.filter(|written| !id.is_empty() && *written != id) {
            let words =
                format!("line {number} is {id}, but the times file names {written}; the times are not used");
            self.times = None;
            self.warn(words);
        }
        let time = self.times.as_ref().and_then(|times| times.of(number));
        let ours = time.is_some_and(|time| time.direction == Direction::Out);
        let at_ms = match (&self.times, time) {
            (Some(_), time) => time.and_then(|time| i64::try_from(time.after_ms).ok()),
            (None, _) => facts.moment.map(Moment::millis),
        };
        if let (Some(at), Some(before)) = (at_ms, self.before_ms) {
            self.pause_ms += (at - before).max(0);
        }
        // Clocks that step back and lines without a time begin anew, as if no time had passed.
        self.before_ms = at_ms.or(self.before_ms);
        let unsaid = ours || facts.message.is_some() || facts.driver;
        if unsaid {
            self.unsaid += 1;
            if let Some((token, value)) = facts.answer {
                self.settle(&token, value);
            }
            return;
        }
        self.push_line(number, text, facts);
    }

    fn push_line(&mut self, number: usize, text: &[u8], facts: Facts) {
        if self.held.len() + text.len() > limits::REPLAY_BYTES_MAX {
            self.error = Some(ScriptError::TooLarge);
            return;
        }
        if let Some(fault) = facts.fault {
            self.broken += 1;
            self.warn(format!("line {number}: {fault}; it is sent unchanged"));
        }
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let start = self.held.len();
        self.held.extend_from_slice(text);
        if let Some((token, timeout_ms, asks)) = facts.asks {
            self.ask(token, timeout_ms, asks);
        }
        let at_ms = facts.moment.map(Moment::millis);
        let back_ms = at_ms.zip(self.latest_ms).map_or(0, |(at, latest)| (latest - at).max(0));
        self.latest_ms = self.latest_ms.max(at_ms);
        self.producer = self.producer.take().or(facts.producer);
        self.ids.extend(facts.ids);
        if let Some(language) = facts.language
            && self.languages.len() < limits::REPLAY_LANGUAGES_MAX
            && !self.languages.contains(&language)
        {
            self.languages.push(language);
        }
        let line = self.lines.len();
        let id = std::str::from_utf8(&text[facts.id.clone()]).unwrap_or_default();
        let first = if id.is_empty() { line } else { *self.firsts.entry(sum(id)).or_insert(line) };
        // What was delivered twice is the same to the last byte.
        let same = self.lines.get(first).is_some_and(|first| self.held[first.bytes()] == *text);
        self.lines.push(ScriptLine {
            first: if same { first } else { line },
            text: small(start)..small(self.held.len()),
            id: small(facts.id.start)..small(facts.id.end),
            number: small(number),
            pause_ms: u32::try_from(self.pause_ms).unwrap_or(u32::MAX),
            back_ms: u32::try_from(back_ms).unwrap_or(u32::MAX),
        });
        self.pause_ms = 0;
    }

    fn ask(&mut self, token: String, timeout_ms: u64, asks: Asks) {
        let line = self.lines.len();
        // The same prompt may be said again to who comes back.
        if self.prompt_by_token.contains_key(&token) {
            return;
        }
        self.prompt_by_token.insert(token.clone(), self.prompts.len());
        self.prompts.push(Prompt { line, settled: line + 1, token, timeout_ms, asks, recorded: None });
    }

    /// The recording holds an answer, before the line that is said next.
    fn settle(&mut self, token: &str, value: String) {
        let next = self.lines.len();
        if let Some(prompt) = self.prompt_by_token.get(token).map(|at| &mut self.prompts[*at])
            && prompt.recorded.is_none()
        {
            prompt.settled = next;
            prompt.recorded = Some(value);
        }
    }

    fn facts(&mut self, text: &[u8]) -> Facts {
        let doc = match self.reader.read_bytes(text) {
            Ok(doc) => doc,
            Err(error) => return Facts { fault: Some(error.to_string()), ..Facts::default() },
        };
        let Some(reading) = Reading::of(doc) else {
            return Facts { fault: Some("not a JSON object".to_owned()), ..Facts::default() };
        };
        let message = rule::message_kind(&reading);
        let get =
            |name: &str| reading.node().get(name).and_then(|node| node.str().map(|text| text.into_owned()));
        let mut facts = Facts { message, ..Facts::default() };
        match message {
            Some(MessageKind::ConfirmationReply | MessageKind::ClarificationReply) => {
                let value = ["decision", "response"].iter().find_map(|name| reading.node().get(name));
                facts.answer = get("reply_token").zip(value.map(|value| value.source().to_owned()));
                facts.moment = get("timestamp").and_then(|text| Moment::parse(&text));
                return facts;
            }
            Some(_) => return facts,
            None => {}
        }
        facts.driver = !reading.has(Field::Type) && reading.node().get("kind").is_some();
        facts.ids = ID_FIELDS.iter().filter_map(|field| reading.text(*field)).map(|id| sum(&id)).collect();
        facts.moment = reading.text(Field::Timestamp).and_then(|text| Moment::parse(&text));
        facts.producer = reading.get(Field::Producer).map(|node| node.source().to_owned());
        let hints = reading.get(Field::LocalizationHints);
        let language = hints.and_then(|hints| hints.get("primary_language")).and_then(|node| node.plain());
        facts.language = language.filter(|tag| (lex::LANGUAGE.test)(tag)).map(str::to_owned);
        if let Some(node) = reading.get(Field::EventId)
            && let Some(id) = node.plain().filter(|id| (lex::EVENT_ID.test)(id) || fits_in_frame(id))
        {
            facts.id = node.offset()..node.offset() + id.len();
        }
        let token = reading.text(Field::ReplyToken).map(|token| token.into_owned());
        let timeout = reading.int(Field::TimeoutSeconds).and_then(|seconds| u64::try_from(seconds).ok());
        let asks = match reading.kind() {
            Some(Kind::AwaitingConfirmation) => {
                let allowed = reading.get(Field::AllowedReplies);
                let allowed = allowed.into_iter().flat_map(|node| node.items());
                Some(Asks::Decision(
                    allowed.filter_map(|node| node.str()).map(|text| text.into_owned()).collect(),
                ))
            }
            Some(Kind::AwaitingClarification) => Some(Asks::Response),
            _ => None,
        };
        if let (Some(token), Some(asks)) = (token, asks) {
            facts.asks = Some((token, timeout.unwrap_or_default().saturating_mul(1_000), asks));
        }
        facts
    }

    fn warn(&mut self, words: String) {
        if self.warnings.len() < limits::REPLAY_WARNINGS_MAX {
            self.warnings.push(words);
        } else {
            self.unwarned += 1;
        }
    }

    fn done(mut self) -> Result<ReplayScript, ScriptError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.lines.len() == self.broken {
            return Err(ScriptError::Empty);
        }
        if self.unwarned > 0 {
            self.warnings.push(format!("{} more lines have such problems", self.unwarned));
        }
        Ok(ReplayScript {
            held: self.held.into(),
            lines: self.lines,
            prompts: self.prompts,
            ids: self.ids,
            producer: self.producer,
            languages: self.languages,
            warnings: self.warnings,
            unsaid: self.unsaid,
        })
    }
}

/// Ids of any make, as long as they are one short visible word.
fn fits_in_frame(id: &str) -> bool {
    (1..=limits::REPLAY_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}
