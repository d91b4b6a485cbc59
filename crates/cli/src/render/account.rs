//! Prints a run, or the feed, event by event. See [`Account`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::sentence::{self, Data, Sentence};
use super::{clean, count};

/// Lines of a text that are shown without `--all`; the number of omitted ones is printed.
const TEXT_LINES_MAX: usize = 20;

/// Characters of a text that is put after the sentence rather than below it.
const INLINE_CHARS_MAX: usize = 160;

/// Bytes of text gathered from deltas; at the limit the oldest block is printed incomplete.
const GATHERED_BYTES_MAX: usize = 1 << 20;

/// Turns envelopes into lines.
///
/// Pieces of text are gathered: the complete block tells them. What never became complete is told by
/// [`Account::finish`].
pub(crate) struct Account {
    all: bool,
    names_runs: bool,
    day: String,
    gathered: BTreeMap<Block, Gathered>,
    gathered_bytes: usize,
}

/// A block of text: its run, the type of its pieces, turn and place.
type Block = (String, &'static str, u64, u64);

struct Gathered {
    first_sequence: u64,
    text: String,
}

#[derive(Deserialize)]
struct StoredEnvelope<'a> {
    #[serde(borrow)]
    schema_version: Cow<'a, str>,
    #[serde(borrow)]
    run_id: Cow<'a, str>,
    sequence: u64,
    #[serde(borrow)]
    occurred_at: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    type_name: Cow<'a, str>,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Account {
    /// Of one run. With `all`, pieces are printed too and no text is shortened.
    pub(crate) fn of_run(all: bool) -> Self {
        let gathered = BTreeMap::new();
        Account { all, names_runs: false, day: String::new(), gathered, gathered_bytes: 0 }
    }

    /// Of all runs: each line begins with the run's id.
    pub(crate) fn of_feed(all: bool) -> Self {
        Account { names_runs: true, ..Account::of_run(all) }
    }

    /// The lines of one event.
    pub(crate) fn event(&mut self, bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(bytes);
        let envelope: StoredEnvelope<'_> = match serde_json::from_str(&text) {
            Ok(envelope) => envelope,
            Err(_) => return vec![format!("not an event: {}", clean::line(&text))],
        };
        if envelope.schema_version != "1" {
            let version = clean::line(&envelope.schema_version);
            let text = clean::line(&text);
            return vec![format!("event of unknown schema version {version}: {text}")];
        }
        let data = Data::read(envelope.data.get());
        if !self.all {
            if let Some(lines) = self.gather(&envelope, &data) {
                return lines;
            }
            self.complete(&envelope, &data);
        }
        let sentence = sentence::of(&envelope.type_name, &data)
            .unwrap_or_else(|| Sentence::line(format!("data {}", envelope.data.get())));
        let mut lines = Vec::new();
        if let Some(day) = envelope.occurred_at.get(..10).filter(|day| *day != self.day) {
            self.day = day.to_owned();
            lines.push(format!("Day {} in UTC", clean::line(day)));
        }
        let time = envelope.occurred_at.get(11..23).unwrap_or(&envelope.occurred_at);
        let mut head = String::new();
        if self.names_runs {
            head.push_str(&clean::line(&envelope.run_id));
            head.push_str("  ");
        }
        let type_name = clean::line(&envelope.type_name);
        head.push_str(&format!("{}  {}  {type_name}", envelope.sequence, clean::line(time)));
        self.push_sentence(head, &sentence, &mut lines);
        lines
    }

    /// What was started and never completed.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some((block, gathered)) = self.gathered.pop_first() {
            self.push_gathered(&block, &gathered, &mut lines);
        }
        self.gathered_bytes = 0;
        lines
    }

    /// Keeps a piece of text for its block. `None` when the event is no piece.
    fn gather(&mut self, envelope: &StoredEnvelope<'_>, data: &Data) -> Option<Vec<String>> {
        let (block, piece) = match &*envelope.type_name {
            "assistant.text_delta" => (self.block(envelope, data, "text")?, data.text("delta")?),
            "assistant.thinking_delta" => (self.block(envelope, data, "thinking")?, data.text("delta")?),
            // The proposed call carries the whole input.
            "assistant.tool_call_input_delta" => return Some(Vec::new()),
            _ => return None,
        };
        let gathered = self
            .gathered
            .entry(block)
            .or_insert_with(|| Gathered { first_sequence: envelope.sequence, text: String::new() });
        gathered.text.push_str(piece);
        self.gathered_bytes += piece.len();
        let mut lines = Vec::new();
        while self.gathered_bytes > GATHERED_BYTES_MAX {
            let Some((block, gathered)) = self.gathered.pop_first() else { break };
            self.gathered_bytes -= gathered.text.len();
            self.push_gathered(&block, &gathered, &mut lines);
        }
        Some(lines)
    }

    /// Forgets the pieces of a block that is now printed as a whole.
    fn complete(&mut self, envelope: &StoredEnvelope<'_>, data: &Data) {
        let kind = match &*envelope.type_name {
            "assistant.text_complete" => "text",
            "assistant.thinking_complete" => "thinking",
            _ => return,
        };
        let block = self.block(envelope, data, kind);
        if let Some(gathered) = block.and_then(|block| self.gathered.remove(&block)) {
            self.gathered_bytes -= gathered.text.len();
        }
    }

    fn block(&self, envelope: &StoredEnvelope<'_>, data: &Data, kind: &'static str) -> Option<Block> {
        Some((
            envelope.run_id.clone().into_owned(),
            kind,
            data.number("turn_index")?,
            data.number("block_index")?,
        ))
    }

    fn push_gathered(&self, block: &Block, gathered: &Gathered, lines: &mut Vec<String>) {
        let (run, kind, turn, _) = block;
        let run = if self.names_runs { format!("{}  ", clean::line(run)) } else { String::new() };
        let head = format!("{run}{}  unfinished {kind} of turn {turn}", gathered.first_sequence);
        self.push_sentence(head, &Sentence::text("", &gathered.text), lines);
    }

    /// Puts a sentence after its head, and its text after or below it.
    fn push_sentence(&self, head: String, sentence: &Sentence, lines: &mut Vec<String>) {
        let mut first = head;
        if !sentence.line.is_empty() {
            first.push_str("  ");
            first.push_str(&clean::line(&sentence.line));
        }
        let Some(text) = sentence.text.as_deref().map(|text| text.trim_end_matches('\n')) else {
            lines.push(first);
            return;
        };
        let inline = !text.contains('\n') && text.chars().count() <= INLINE_CHARS_MAX;
        let joint = if sentence.line.is_empty() { "  " } else { ": " };
        if inline {
            first.push_str(joint);
            first.push_str(&clean::line(text));
            lines.push(first);
            return;
        }
        let total = text.lines().count();
        first.push_str(&format!("{joint}{}:", count(total as u64, "line")));
        lines.push(first);
        let shown = if self.all { usize::MAX } else { TEXT_LINES_MAX };
        lines.extend(clean::lines(text).take(shown).map(|line| format!("    {line}").trim_end().to_owned()));
        if total > shown {
            lines.push(format!("    ({} not shown)", count((total - shown) as u64, "more line")));
        }
    }
}
