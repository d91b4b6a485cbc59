//! What a model has to be told of the past: a pure fold of what was said before a session began and of events, of one
//! run after another.
//!
//! Aborted texts, failed turns and what was only thought are left out; every call that is told of has its result.
//! Look at [`Conversation::event`] and [`Conversation::messages`]. It must never know a provider: pictures stay
//! named by their artifact until a client fetches them.

mod compact;
pub mod limits;
mod messages;
mod packed;
mod seed;
mod trim;
mod words;

use recount_event::family::assistant::ToolCallProposed;
use recount_event::family::tool::Ended;
use recount_event::family::user::Message;
use recount_event::{Event, ForeignId, Payload, RunId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::BYTES_PER_TOKEN;
use words::Words;
pub use words::{Picture, Shown};

/// See the file's head.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// What was said to the model before all else, beside its agent's own words.
    system: Vec<String>,
    /// What stands for all that was said before.
    extract: Option<String>,
    said: Vec<Placed>,
    /// The turn that is open: what it said and called so far.
    open: ModelTurn,
    /// Pictures of calls that have not ended.
    brought: Vec<(ForeignId, Picture)>,
    /// Pictures that stand among the texts of the last message, and need not be told again as attached.
    placed: Vec<ForeignId>,
}

/// Where something is in the log: its run and the last event that is part of it. Runs that go on from others are
/// younger, so places are in the order in which things were said.
type Place = (RunId, u64);

/// Something that was said, and where; nowhere when it was said before the session began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Placed {
    said: Said,
    #[serde(with = "packed::place")]
    at: Option<Place>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Said {
    User(Vec<Words>),
    Turn(ModelTurn),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct ModelTurn {
    texts: Vec<String>,
    calls: Vec<Asked>,
}

/// A call, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Asked {
    /// Of a call that the log tells of.
    tool_call_id: Option<ForeignId>,
    provider_call_id: String,
    name: String,
    #[serde(with = "packed::json")]
    input: Value,
    result: Option<StoredResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredResult {
    words: Vec<Words>,
    is_error: bool,
}

impl Conversation {
    /// Takes the next event in.
    pub fn event(&mut self, event: &Event) {
        self.take(event.payload(), (event.run_id, event.sequence));
    }

    /// The same of what is not in the log yet, and will stand there.
    pub(crate) fn take(&mut self, payload: &Payload, place: Place) {
        match payload {
            Payload::UserMessage(message) => self.message(message, place),
            // What stands among the texts of its message is told there.
            Payload::UserAttachment(attached)
                if attached.kind == "image" && !self.placed.contains(&attached.artifact_id) =>
            {
                let picture =
                    Picture { artifact_id: attached.artifact_id.clone(), mime: attached.mime.clone() };
                self.attached(Words::Image(picture), Some(place));
            }
            Payload::TurnStarted(_) => self.open = ModelTurn::default(),
            Payload::AssistantTextComplete(text) if text.aborted != Some(true) => {
                self.open.texts.push(text.text.clone());
            }
            Payload::AssistantToolCallProposed(proposed) => self.open.calls.push(asked(proposed)),
            Payload::TurnCompleted(_) => {
                let turn = std::mem::take(&mut self.open);
                if !turn.texts.is_empty() || !turn.calls.is_empty() {
                    self.push(Said::Turn(turn), Some(place));
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
                    self.brought.push((call.clone(), picture));
                }
            }
            Payload::ToolRefused(refused) => {
                let words = vec![Words::Text(refused.message.clone())];
                self.settle(&refused.tool_call_id, words, true, place);
            }
            Payload::ToolCompleted(ended) => self.ended(ended, false, place),
            Payload::ToolFailed(ended) | Payload::ToolCancelled(ended) | Payload::ToolTimedOut(ended) => {
                self.ended(ended, true, place);
            }
            _ => {}
        }
    }

    /// An ended run follows: what was left open in it stays so.
    pub fn next_run(&mut self) {
        self.open = ModelTurn::default();
        self.brought.clear();
        self.placed.clear();
    }

    /// What is told before all else, beside the agent's own words.
    pub(crate) fn system(&self) -> &[String] {
        &self.system
    }

    fn push(&mut self, said: Said, at: Option<Place>) {
        self.said.push(Placed { said, at });
    }

    fn message(&mut self, message: &Message, place: Place) {
        self.placed.clear();
        let mut words: Vec<Words> = Vec::new();
        for block in message.blocks.iter().flatten() {
            words.extend(serde_json::from_str(block.text()).ok().and_then(|block| words::block(&block)));
        }
        if words.is_empty() {
            words.push(Words::Text(message.text.clone()));
        }
        for word in &words {
            if let Words::Image(picture) = word {
                self.placed.push(picture.artifact_id.clone());
            }
        }
        self.push(Said::User(words), Some(place));
    }

    /// What comes along with the message before it, or is one of its own where there is none.
    fn attached(&mut self, words: Words, at: Option<Place>) {
        match self.said.last_mut() {
            Some(Placed { said: Said::User(parts), at: place }) => {
                parts.push(words);
                *place = at;
            }
            _ => self.push(Said::User(vec![words]), at),
        }
    }

    fn ended(&mut self, ended: &Ended, is_error: bool, place: Place) {
        let told = match (&ended.output, &ended.error) {
            (Some(output), _) => words::told(output),
            (None, Some(error)) => vec![Words::Text(error.clone())],
            (None, None) => vec![Words::Text(ended.summary.clone().unwrap_or_default())],
        };
        self.settle(&ended.tool_call_id, told, is_error, place);
    }

    fn settle(&mut self, id: &ForeignId, mut words: Vec<Words>, is_error: bool, place: Place) {
        self.brought.retain(|(call, picture)| {
            let is_its_own = call == id;
            if is_its_own {
                words.push(Words::Image(picture.clone()));
            }
            !is_its_own
        });
        let told = Some(StoredResult { words, is_error });
        let is_it = |asked: &&mut Asked| asked.tool_call_id.as_ref() == Some(id);
        if let Some(asked) = self.open.calls.iter_mut().find(is_it) {
            asked.result = told;
            return;
        }
        for placed in self.said.iter_mut().rev() {
            let Said::Turn(turn) = &mut placed.said else { continue };
            if let Some(asked) = turn.calls.iter_mut().find(is_it) {
                asked.result = told;
                placed.at = Some(place);
                return;
            }
        }
    }

    /// Everything that people and tools said.
    fn words(&self) -> impl Iterator<Item = &Words> {
        self.said.iter().flat_map(|placed| placed.said.words())
    }

    /// The pictures it speaks of by artifact.
    pub fn pictures(&self) -> Vec<Picture> {
        let picture = |words: &Words| match words {
            Words::Image(picture) => Some(picture.clone()),
            _ => None,
        };
        self.words().filter_map(picture).collect()
    }

    /// Whether there is any picture to be seen.
    pub(crate) fn has_pictures(&self) -> bool {
        self.words().any(Words::is_picture)
    }

    /// About how many tokens it has.
    pub fn tokens_estimate(&self) -> u64 {
        tokens(self.bytes())
    }

    /// The same where more was said.
    pub(crate) fn tokens_estimate_with(&self, more: &Conversation) -> u64 {
        tokens(self.bytes() + more.bytes())
    }

    /// Bytes of all its texts.
    fn bytes(&self) -> usize {
        let extract = self.extract.as_deref().map_or(0, str::len);
        extract + self.said.iter().map(|placed| placed.said.bytes()).sum::<usize>()
    }
}

fn tokens(bytes: usize) -> u64 {
    (bytes / BYTES_PER_TOKEN) as u64
}

impl Said {
    fn words(&self) -> impl Iterator<Item = &Words> {
        let (words, calls): (&[Words], &[Asked]) = match self {
            Said::User(words) => (words, &[]),
            Said::Turn(turn) => (&[], &turn.calls),
        };
        words
            .iter()
            .chain(calls.iter().filter_map(|asked| asked.result.as_ref()).flat_map(|told| &told.words))
    }

    /// Bytes of its texts.
    fn bytes(&self) -> usize {
        let (texts, inputs): (&[String], usize) = match self {
            Said::Turn(turn) => (&turn.texts, turn.input_bytes()),
            Said::User(_) => (&[], 0),
        };
        inputs
            + texts.iter().map(String::len).sum::<usize>()
            + self.words().map(|words| words.text().len()).sum::<usize>()
    }
}

fn asked(proposed: &ToolCallProposed) -> Asked {
    let id = proposed.tool_call_id.clone();
    Asked {
        provider_call_id: proposed.provider_call_id.clone().unwrap_or_else(|| id.to_string()),
        tool_call_id: Some(id),
        name: proposed.tool_name.clone(),
        input: serde_json::from_str(proposed.input.text()).unwrap_or_default(),
        result: None,
    }
}
