//! Reads a recording for a replay: the producer's lines, the pauses between them, and the prompts. Entry:
//! [`ReplayScript::read`]. It does not depend on listeners.
//!
//! Lines are kept byte for byte. Recorded handshakes and replies are not sent, because the replay answers its own
//! subscribers; they only show when and how a prompt was answered.

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

/// The lines to send, in order.
pub struct ReplayScript {
    held: Bytes,
    pub(super) lines: Vec<ScriptLine>,
    /// In sending order.
    pub(super) prompts: Vec<ScriptPrompt>,
    /// Hashes of all ids, to recognize them in any field.
    pub(super) ids: HashSet<u64>,
    /// The producer object as JSON.
    pub(super) producer: Option<String>,
    /// Languages of texts in order of first occurrence.
    pub(super) languages: Vec<String>,
    /// Problems of the recording.
    warnings: Vec<String>,
    /// Lines that are not sent.
    skipped_lines: usize,
}

/// A line to send.
pub(super) struct ScriptLine {
    text: Range<u32>,
    /// The range of its event id in the text.
    id: Range<u32>,
    /// The line number in the file, from 1.
    pub(super) number: u32,
    /// The pause since the previous line.
    pub(super) pause_ms: u32,
    /// How far its timestamp is before an earlier one.
    pub(super) back_ms: u32,
    /// The first line with the identical event, or this one.
    pub(super) first: usize,
}

impl ScriptLine {
    fn bytes(&self) -> Range<usize> {
        self.text.start as usize..self.text.end as usize
    }
}

/// A line with a prompt.
pub(super) struct ScriptPrompt {
    /// The index among the lines to send.
    pub(super) line: usize,
    /// The line before which the reply was recorded; the next line if there is none.
    pub(super) settled: usize,
    pub(super) token: String,
    pub(super) timeout_ms: u64,
    pub(super) expected_reply: ExpectedReply,
    /// The recorded reply.
    pub(super) recorded: Option<String>,
}

/// The reply that a prompt expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExpectedReply {
    /// One of these decisions.
    Decision(Vec<String>),
    Response,
}

/// Why a recording cannot be replayed.
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
    /// Reads a recording to its end; `times` is the content of its times file, if there is one.
    pub fn read(mut recording: impl Read, times: Option<&str>) -> Result<ReplayScript, ScriptError> {
        let mut reading = ScriptBuilder { times: times.map(RecordedTimes::read), ..ScriptBuilder::default() };
        if let Some(fault) = reading.times.as_ref().and_then(|times| times.fault.clone()) {
            reading.warn(fault);
        }
        let mut splitter = Splitter::new();
        let mut buffer = vec![0; limits::REPLAY_READ_BYTES];
        loop {
            let count = match recording.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(why) if why.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(why) => return Err(why.into()),
            };
            splitter.push(&buffer[..count], |piece| reading.piece(piece));
            if let Some(error) = reading.error.take() {
                return Err(error);
            }
        }
        splitter.finish(|piece| reading.piece(piece));
        reading.done()
    }

    /// The number of lines to send.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The number of lines that are not sent: handshakes and replies.
    pub fn skipped_lines(&self) -> usize {
        self.skipped_lines
    }

    /// Problems of the recording, as sentences.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(super) fn text(&self, at: usize) -> Bytes {
        self.held.slice(self.lines[at].bytes())
    }

    /// The event's id, if it is allowed in a frame.
    pub(super) fn id(&self, at: usize) -> Option<&str> {
        let (text, id) = (&self.held[self.lines[at].bytes()], &self.lines[at].id);
        let id = std::str::from_utf8(&text[id.start as usize..id.end as usize]).ok()?;
        (!id.is_empty()).then_some(id)
    }
}

impl std::fmt::Debug for ReplayScript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplayScript")
            .field("lines", &self.len())
            .field("unsaid", &self.skipped_lines)
            .finish()
    }
}

/// The hash by which ids are compared.
pub(super) fn sum(id: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Fields that contain ids.
pub(super) const ID_FIELDS: [Field; 5] =
    [Field::EventId, Field::SessionId, Field::ReplyToken, Field::ToolCallId, Field::OutputId];

#[derive(Default)]
struct ScriptBuilder {
    times: Option<RecordedTimes>,
    reader: Reader,
    held: Vec<u8>,
    lines: Vec<ScriptLine>,
    prompts: Vec<ScriptPrompt>,
    /// Prompts by their token.
    prompt_by_token: BTreeMap<String, usize>,
    ids: HashSet<u64>,
    /// The latest timestamp so far, in milliseconds since 1970.
    latest_ms: Option<i64>,
    /// The time of the previous line, in milliseconds of the clock that is used.
    before_ms: Option<i64>,
    /// The first line of each event, by the hash of its id.
    firsts: HashMap<u64, usize>,
    /// Pauses of lines that are not sent are added to the next one.
    pause_ms: i64,
    producer: Option<String>,
    languages: Vec<String>,
    warnings: Vec<String>,
    unlisted_warnings: usize,
    skipped_lines: usize,
    /// Lines that are no JSON objects.
    broken: usize,
    error: Option<ScriptError>,
}

/// The relevant contents of one line.
#[derive(Default)]
struct LineFacts {
    message: Option<MessageKind>,
    /// Whether it is a subscriber's message outside the protocol.
    driver: bool,
    ids: Vec<u64>,
    moment: Option<Moment>,
    /// The range of the event id in the text.
    id: Range<usize>,
    expected_reply: Option<(String, u64, ExpectedReply)>,
    /// Token and value of a reply.
    answer: Option<(String, String)>,
    producer: Option<String>,
    language: Option<String>,
    /// Why it is not a JSON object.
    fault: Option<String>,
}

impl ScriptBuilder {
    fn piece(&mut self, piece: Piece<'_>) {
        if self.error.is_some() {
            return;
        }
        match piece.text {
            Ok(text) => {
                // A text over several lines becomes one line, as frames and recordings require.
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
        let line_facts = self.line_facts(text);
        let id = std::str::from_utf8(&text[line_facts.id.clone()]).unwrap_or_default();
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
            (None, _) => line_facts.moment.map(Moment::millis),
        };
        if let (Some(at), Some(before)) = (at_ms, self.before_ms) {
            self.pause_ms += (at - before).max(0);
        }
        // After a clock step or a line without a time, measuring starts again without a pause.
        self.before_ms = at_ms.or(self.before_ms);
        let skipped_lines = ours || line_facts.message.is_some() || line_facts.driver;
        if skipped_lines {
            self.skipped_lines += 1;
            if let Some((token, value)) = line_facts.answer {
                self.settle(&token, value);
            }
            return;
        }
        self.push_line(number, text, line_facts);
    }

    fn push_line(&mut self, number: usize, text: &[u8], line_facts: LineFacts) {
        if self.held.len() + text.len() > limits::REPLAY_BYTES_MAX {
            self.error = Some(ScriptError::TooLarge);
            return;
        }
        if let Some(fault) = line_facts.fault {
            self.broken += 1;
            self.warn(format!("line {number}: {fault}; it is sent unchanged"));
        }
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let start = self.held.len();
        self.held.extend_from_slice(text);
        if let Some((token, timeout_ms, expected_reply)) = line_facts.expected_reply {
            self.push_prompt(token, timeout_ms, expected_reply);
        }
        let at_ms = line_facts.moment.map(Moment::millis);
        let back_ms = at_ms.zip(self.latest_ms).map_or(0, |(at, latest)| (latest - at).max(0));
        self.latest_ms = self.latest_ms.max(at_ms);
        self.producer = self.producer.take().or(line_facts.producer);
        self.ids.extend(line_facts.ids);
        if let Some(language) = line_facts.language
            && self.languages.len() < limits::REPLAY_LANGUAGES_MAX
            && !self.languages.contains(&language)
        {
            self.languages.push(language);
        }
        let line = self.lines.len();
        let id = std::str::from_utf8(&text[line_facts.id.clone()]).unwrap_or_default();
        let first = if id.is_empty() { line } else { *self.firsts.entry(sum(id)).or_insert(line) };
        // A repeated delivery is identical to the last byte.
        let same = self.lines.get(first).is_some_and(|first| self.held[first.bytes()] == *text);
        self.lines.push(ScriptLine {
            first: if same { first } else { line },
            text: small(start)..small(self.held.len()),
            id: small(line_facts.id.start)..small(line_facts.id.end),
            number: small(number),
            pause_ms: u32::try_from(self.pause_ms).unwrap_or(u32::MAX),
            back_ms: u32::try_from(back_ms).unwrap_or(u32::MAX),
        });
        self.pause_ms = 0;
    }

    fn push_prompt(&mut self, token: String, timeout_ms: u64, expected_reply: ExpectedReply) {
        let line = self.lines.len();
        // The same prompt may be sent again to a returning subscriber.
        if self.prompt_by_token.contains_key(&token) {
            return;
        }
        self.prompt_by_token.insert(token.clone(), self.prompts.len());
        self.prompts.push(ScriptPrompt {
            line,
            settled: line + 1,
            token,
            timeout_ms,
            expected_reply,
            recorded: None,
        });
    }

    /// Records the reply to a prompt before the next line.
    fn settle(&mut self, token: &str, value: String) {
        let next = self.lines.len();
        if let Some(prompt) = self.prompt_by_token.get(token).map(|at| &mut self.prompts[*at])
            && prompt.recorded.is_none()
        {
            prompt.settled = next;
            prompt.recorded = Some(value);
        }
    }

    fn line_facts(&mut self, text: &[u8]) -> LineFacts {
        let doc = match self.reader.read_bytes(text) {
            Ok(doc) => doc,
            Err(error) => return LineFacts { fault: Some(error.to_string()), ..LineFacts::default() },
        };
        let Some(reading) = Reading::of(doc) else {
            return LineFacts { fault: Some("not a JSON object".to_owned()), ..LineFacts::default() };
        };
        let message = rule::message_kind(&reading);
        let get =
            |name: &str| reading.node().get(name).and_then(|node| node.str().map(|text| text.into_owned()));
        let mut line_facts = LineFacts { message, ..LineFacts::default() };
        match message {
            Some(MessageKind::ConfirmationReply | MessageKind::ClarificationReply) => {
                let value = ["decision", "response"].iter().find_map(|name| reading.node().get(name));
                line_facts.answer = get("reply_token").zip(value.map(|value| value.source().to_owned()));
                line_facts.moment = get("timestamp").and_then(|text| Moment::parse(&text));
                return line_facts;
            }
            Some(_) => return line_facts,
            None => {}
        }
        line_facts.driver = !reading.has(Field::Type) && reading.node().get("kind").is_some();
        line_facts.ids =
            ID_FIELDS.iter().filter_map(|field| reading.text(*field)).map(|id| sum(&id)).collect();
        line_facts.moment = reading.text(Field::Timestamp).and_then(|text| Moment::parse(&text));
        line_facts.producer = reading.get(Field::Producer).map(|node| node.source().to_owned());
        let hints = reading.get(Field::LocalizationHints);
        let language = hints.and_then(|hints| hints.get("primary_language")).and_then(|node| node.plain());
        line_facts.language = language.filter(|tag| (lex::LANGUAGE.test)(tag)).map(str::to_owned);
        if let Some(node) = reading.get(Field::EventId)
            && let Some(id) = node.plain().filter(|id| (lex::EVENT_ID.test)(id) || fits_in_frame(id))
        {
            line_facts.id = node.offset()..node.offset() + id.len();
        }
        let token = reading.text(Field::ReplyToken).map(|token| token.into_owned());
        let timeout = reading.int(Field::TimeoutSeconds).and_then(|seconds| u64::try_from(seconds).ok());
        let expected_reply = match reading.kind() {
            Some(Kind::AwaitingConfirmation) => {
                let allowed = reading.get(Field::AllowedReplies);
                let allowed = allowed.into_iter().flat_map(|node| node.items());
                Some(ExpectedReply::Decision(
                    allowed.filter_map(|node| node.str()).map(|text| text.into_owned()).collect(),
                ))
            }
            Some(Kind::AwaitingClarification) => Some(ExpectedReply::Response),
            _ => None,
        };
        if let (Some(token), Some(expected_reply)) = (token, expected_reply) {
            line_facts.expected_reply =
                Some((token, timeout.unwrap_or_default().saturating_mul(1_000), expected_reply));
        }
        line_facts
    }

    fn warn(&mut self, words: String) {
        if self.warnings.len() < limits::REPLAY_WARNINGS_MAX {
            self.warnings.push(words);
        } else {
            self.unlisted_warnings += 1;
        }
    }

    fn done(mut self) -> Result<ReplayScript, ScriptError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.lines.len() == self.broken {
            return Err(ScriptError::Empty);
        }
        if self.unlisted_warnings > 0 {
            self.warnings.push(format!("{} more lines have such problems", self.unlisted_warnings));
        }
        Ok(ReplayScript {
            held: self.held.into(),
            lines: self.lines,
            prompts: self.prompts,
            ids: self.ids,
            producer: self.producer,
            languages: self.languages,
            warnings: self.warnings,
            skipped_lines: self.skipped_lines,
        })
    }
}

/// Ids of any grammar, as long as they are one short visible word.
fn fits_in_frame(id: &str) -> bool {
    (1..=limits::REPLAY_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}
