//! The conversation of a session as a model sees it: a pure fold of the seed messages and of the events of one run
//! after another.
//!
//! Aborted texts, failed turns and thinking are left out. Each call has its result. It must never depend on a provider:
//! pictures are named by their artifact until the caller fetches them. Start with [`Conversation::event`] and
//! [`Conversation::messages`].

mod compact;
pub mod limits;
mod messages;
mod packed;
mod parts;
mod seed;
mod trim;

use recount_event::family::assistant::ToolCallProposed;
use recount_event::family::tool::Ended;
use recount_event::family::user::Message;
use recount_event::{Event, ForeignId, Payload, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::BYTES_PER_TOKEN;
use parts::StoredPart;
pub use parts::{Picture, VisiblePictures};

/// See the file's head.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// System messages of the seed, in addition to the system prompt of the agent.
    system: Vec<String>,
    /// The summary of the messages that compaction removed.
    summary: Option<String>,
    history: Vec<HistoryEntry>,
    /// The open turn: its texts and calls so far.
    open: ModelTurn,
    /// Pictures of calls that have not ended.
    pending_pictures: Vec<(ForeignId, Picture)>,
    /// Pictures in the content blocks of the last message. Their attachment events add nothing.
    inline_pictures: Vec<ForeignId>,
}

/// The run and the sequence of an event. A run that continues another one has a later id, so these references are in
/// the order of the conversation.
type EventRef = (RunId, u64);

/// One item of the conversation, and the last event that is part of it. Seed messages have no event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct HistoryEntry {
    item: HistoryItem,
    #[serde(with = "packed::event_ref")]
    at: Option<EventRef>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum HistoryItem {
    User(Vec<StoredPart>),
    Turn(ModelTurn),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct ModelTurn {
    texts: Vec<String>,
    calls: Vec<HistoryCall>,
}

/// A call and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct HistoryCall {
    /// `None` for a call of the seed messages.
    tool_call_id: Option<ForeignId>,
    provider_call_id: String,
    name: String,
    #[serde(with = "packed::json")]
    input: Value,
    result: Option<StoredResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredResult {
    parts: Vec<StoredPart>,
    is_error: bool,
}

impl Conversation {
    /// Adds the next event of the log.
    pub fn event(&mut self, event: &Event) {
        self.apply(event.payload(), (event.run_id, event.sequence));
    }

    /// Adds an event that may not be in the log yet.
    pub(crate) fn apply(&mut self, payload: &Payload, at: EventRef) {
        match payload {
            Payload::UserMessage(message) => self.add_message(message, at),
            // A picture in the content blocks of its message is already there.
            Payload::UserAttachment(attached)
                if attached.kind == "image" && !self.inline_pictures.contains(&attached.artifact_id) =>
            {
                let picture =
                    Picture { artifact_id: attached.artifact_id.clone(), mime: attached.mime.clone() };
                self.add_attachment(StoredPart::Image(picture), at);
            }
            Payload::TurnStarted(_) => self.open = ModelTurn::default(),
            Payload::AssistantTextComplete(text) if text.aborted != Some(true) => {
                self.open.texts.push(text.text.clone());
            }
            Payload::AssistantToolCallProposed(proposed) => self.open.calls.push(proposed_call(proposed)),
            Payload::TurnCompleted(_) => {
                let turn = std::mem::take(&mut self.open);
                if !turn.texts.is_empty() || !turn.calls.is_empty() {
                    self.push(HistoryItem::Turn(turn), Some(at));
                }
            }
            Payload::TurnFailed(_) => self.open = ModelTurn::default(),
            Payload::ContextCompacted(compacted) => {
                if let Ok(run) = compacted.through_run_id.parse() {
                    let through = (run, compacted.through_sequence);
                    self.compact(through, &compacted.summary, compacted.request_kept == Some(true));
                }
            }
            Payload::ContextTrimmed(trimmed) => self.trim(&trimmed.results),
            Payload::ArtifactCreated(created) if created.kind == "image" => {
                if let Some(call) = &created.tool_call_id {
                    let mime = created.mime.clone().unwrap_or_default();
                    let picture = Picture { artifact_id: created.artifact_id.clone(), mime };
                    self.pending_pictures.push((call.clone(), picture));
                }
            }
            Payload::ToolRefused(refused) => {
                let parts = vec![StoredPart::Text(refused.message.clone())];
                self.set_result(&refused.tool_call_id, parts, true, at);
            }
            Payload::ToolCompleted(ended) => self.end_call(ended, false, at),
            Payload::ToolFailed(ended) | Payload::ToolCancelled(ended) | Payload::ToolTimedOut(ended) => {
                self.end_call(ended, true, at);
            }
            _ => {}
        }
    }

    /// Starts the next run. Calls of the previous run that are still open get no result.
    pub fn next_run(&mut self) {
        self.open = ModelTurn::default();
        self.pending_pictures.clear();
        self.inline_pictures.clear();
    }

    /// The system messages of the seed.
    pub(crate) fn system(&self) -> &[String] {
        &self.system
    }

    fn push(&mut self, item: HistoryItem, at: Option<EventRef>) {
        self.history.push(HistoryEntry { item, at });
    }

    fn add_message(&mut self, message: &Message, at: EventRef) {
        self.inline_pictures.clear();
        let mut parts: Vec<StoredPart> = Vec::new();
        for block in message.blocks.iter().flatten() {
            parts.extend(serde_json::from_str(block.text()).ok().and_then(|block| parts::of_block(&block)));
        }
        if parts.is_empty() {
            parts.push(StoredPart::Text(message.text.clone()));
        }
        for part in &parts {
            if let StoredPart::Image(picture) = part {
                self.inline_pictures.push(picture.artifact_id.clone());
            }
        }
        self.push(HistoryItem::User(parts), Some(at));
    }

    /// Adds an attachment to the user message before it, or as a message of its own.
    fn add_attachment(&mut self, part: StoredPart, at: EventRef) {
        match self.history.last_mut() {
            Some(HistoryEntry { item: HistoryItem::User(parts), at: last }) => {
                parts.push(part);
                *last = Some(at);
            }
            _ => self.push(HistoryItem::User(vec![part]), Some(at)),
        }
    }

    fn end_call(&mut self, ended: &Ended, is_error: bool, at: EventRef) {
        let parts = match (&ended.output, &ended.error) {
            (Some(output), _) => parts::of_output(output),
            (None, Some(error)) => vec![StoredPart::Text(error.clone())],
            (None, None) => vec![StoredPart::Text(ended.summary.clone().unwrap_or_default())],
        };
        self.set_result(&ended.tool_call_id, parts, is_error, at);
    }

    fn set_result(&mut self, id: &ForeignId, mut parts: Vec<StoredPart>, is_error: bool, at: EventRef) {
        self.pending_pictures.retain(|(call, picture)| {
            let is_of_call = call == id;
            if is_of_call {
                parts.push(StoredPart::Image(picture.clone()));
            }
            !is_of_call
        });
        let result = Some(StoredResult { parts, is_error });
        let has_id = |call: &&mut HistoryCall| call.tool_call_id.as_ref() == Some(id);
        if let Some(call) = self.open.calls.iter_mut().find(has_id) {
            call.result = result;
            return;
        }
        for entry in self.history.iter_mut().rev() {
            let HistoryItem::Turn(turn) = &mut entry.item else { continue };
            if let Some(call) = turn.calls.iter_mut().find(has_id) {
                call.result = result;
                entry.at = Some(at);
                return;
            }
        }
    }

    /// The parts of all user messages and results.
    fn parts(&self) -> impl Iterator<Item = &StoredPart> {
        self.history.iter().flat_map(|entry| entry.item.parts())
    }

    /// The pictures that are named by artifact.
    pub fn pictures(&self) -> Vec<Picture> {
        let picture = |part: &StoredPart| match part {
            StoredPart::Image(picture) => Some(picture.clone()),
            _ => None,
        };
        self.parts().filter_map(picture).collect()
    }

    pub(crate) fn has_pictures(&self) -> bool {
        self.parts().any(StoredPart::is_picture)
    }

    /// An estimate of its tokens.
    pub fn tokens_estimate(&self) -> u64 {
        tokens(self.bytes())
    }

    /// An estimate of the tokens of both conversations together.
    pub(crate) fn tokens_estimate_with(&self, more: &Conversation) -> u64 {
        tokens(self.bytes() + more.bytes())
    }

    /// Bytes of all its texts.
    fn bytes(&self) -> usize {
        let summary = self.summary.as_deref().map_or(0, str::len);
        summary + self.history.iter().map(|entry| entry.item.bytes()).sum::<usize>()
    }
}

fn tokens(bytes: usize) -> u64 {
    (bytes / BYTES_PER_TOKEN) as u64
}

impl HistoryItem {
    fn parts(&self) -> impl Iterator<Item = &StoredPart> {
        let (parts, calls): (&[StoredPart], &[HistoryCall]) = match self {
            HistoryItem::User(parts) => (parts, &[]),
            HistoryItem::Turn(turn) => (&[], &turn.calls),
        };
        parts
            .iter()
            .chain(calls.iter().filter_map(|call| call.result.as_ref()).flat_map(|result| &result.parts))
    }

    /// Bytes of its texts.
    fn bytes(&self) -> usize {
        let (texts, inputs): (&[String], usize) = match self {
            HistoryItem::Turn(turn) => (&turn.texts, turn.input_bytes()),
            HistoryItem::User(_) => (&[], 0),
        };
        inputs
            + texts.iter().map(String::len).sum::<usize>()
            + self.parts().map(|part| part.text().len()).sum::<usize>()
    }
}

fn proposed_call(proposed: &ToolCallProposed) -> HistoryCall {
    let id = proposed.tool_call_id.clone();
    HistoryCall {
        provider_call_id: proposed.provider_call_id.clone().unwrap_or_else(|| id.to_string()),
        tool_call_id: Some(id),
        name: proposed.tool_name.clone(),
        input: serde_json::from_str(proposed.input.text()).unwrap_or_default(),
        result: None,
    }
}
