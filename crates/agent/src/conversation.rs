//! What a model has to be told of the past: a pure fold of events, of one run after another.
//!
//! Aborted texts, failed turns and what was only thought are left out; every call that is told of has its result.
//! Look at [`Conversation::event`] and [`Conversation::messages`]. It must never know a provider: pictures stay
//! named by their artifact until somebody fetches them.

use std::collections::BTreeMap;

use recount_event::family::assistant::ToolCallProposed;
use recount_event::family::tool::Ended;
use recount_event::{Event, ForeignId, Json, Payload};
use serde_json::Value;

use crate::limits;
use crate::model::{Call, CallResult, Message, Part};

/// See the file's head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    said: Vec<Said>,
    /// The turn that is open: what it said and called so far.
    open: Turn,
    /// Pictures of calls that have not ended.
    brought: Vec<(ForeignId, Picture)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Said {
    User(Vec<Words>),
    Turn(Turn),
}

/// A part of a message before pictures are fetched.
#[derive(Debug, Clone, PartialEq)]
enum Words {
    Text(String),
    Image(Picture),
}

/// A picture, by artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub artifact_id: ForeignId,
    pub mime: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Turn {
    texts: Vec<String>,
    calls: Vec<Asked>,
}

/// A call, and what came of it.
#[derive(Debug, Clone, PartialEq)]
struct Asked {
    tool_call_id: ForeignId,
    provider_call_id: String,
    name: String,
    input: Value,
    result: Option<Told>,
}

#[derive(Debug, Clone, PartialEq)]
struct Told {
    words: Vec<Words>,
    is_error: bool,
}

impl Conversation {
    /// Takes the next event in.
    pub fn event(&mut self, event: &Event) {
        match event.payload() {
            Payload::UserMessage(message) => self.user(Words::Text(message.text.clone())),
            Payload::UserAttachment(attached) if attached.kind == "image" => {
                let picture =
                    Picture { artifact_id: attached.artifact_id.clone(), mime: attached.mime.clone() };
                self.user(Words::Image(picture));
            }
            Payload::TurnStarted(_) => self.open = Turn::default(),
            Payload::AssistantTextComplete(text) if text.aborted != Some(true) => {
                self.open.texts.push(text.text.clone());
            }
            Payload::AssistantToolCallProposed(proposed) => self.open.calls.push(asked(proposed)),
            Payload::TurnCompleted(_) => {
                let turn = std::mem::take(&mut self.open);
                if !turn.texts.is_empty() || !turn.calls.is_empty() {
                    self.said.push(Said::Turn(turn));
                }
            }
            Payload::TurnFailed(_) => self.open = Turn::default(),
            Payload::ArtifactCreated(created) if created.kind == "image" => {
                if let Some(call) = &created.tool_call_id {
                    let mime = created.mime.clone().unwrap_or_default();
                    let picture = Picture { artifact_id: created.artifact_id.clone(), mime };
                    self.brought.push((call.clone(), picture));
                }
            }
            Payload::ToolRefused(refused) => {
                self.settle(&refused.tool_call_id, refused.message.clone(), true);
            }
            Payload::ToolCompleted(ended) => self.ended(ended, false),
            Payload::ToolFailed(ended) | Payload::ToolCancelled(ended) | Payload::ToolTimedOut(ended) => {
                self.ended(ended, true);
            }
            _ => {}
        }
    }

    /// An ended run follows: what was left open in it stays so.
    pub fn next_run(&mut self) {
        self.open = Turn::default();
        self.brought.clear();
    }

    fn user(&mut self, words: Words) {
        match self.said.last_mut() {
            Some(Said::User(parts)) => parts.push(words),
            _ => self.said.push(Said::User(vec![words])),
        }
    }

    fn ended(&mut self, ended: &Ended, is_error: bool) {
        let told = match (&ended.output, &ended.error) {
            (Some(output), _) => as_text(output),
            (None, Some(error)) => error.clone(),
            (None, None) => ended.summary.clone().unwrap_or_default(),
        };
        self.settle(&ended.tool_call_id, told, is_error);
    }

    fn settle(&mut self, id: &ForeignId, text: String, is_error: bool) {
        let mut words = vec![Words::Text(text)];
        self.brought.retain(|(call, picture)| {
            let is_its_own = call == id;
            if is_its_own {
                words.push(Words::Image(picture.clone()));
            }
            !is_its_own
        });
        if let Some(asked) = self.call(id) {
            asked.result = Some(Told { words, is_error });
        }
    }

    fn call(&mut self, id: &ForeignId) -> Option<&mut Asked> {
        let of = |turn: &'_ mut Turn| -> Option<usize> {
            turn.calls.iter().position(|asked| asked.tool_call_id == *id)
        };
        if let Some(at) = of(&mut self.open) {
            return self.open.calls.get_mut(at);
        }
        self.said.iter_mut().rev().find_map(|said| match said {
            Said::Turn(turn) => turn.calls.iter_mut().find(|asked| asked.tool_call_id == *id),
            Said::User(_) => None,
        })
    }

    /// The pictures it speaks of.
    pub fn pictures(&self) -> Vec<Picture> {
        let mut found = Vec::new();
        let mut look = |words: &[Words]| {
            for word in words {
                if let Words::Image(picture) = word {
                    found.push(picture.clone());
                }
            }
        };
        for said in &self.said {
            match said {
                Said::User(words) => look(words),
                Said::Turn(turn) => {
                    turn.calls
                        .iter()
                        .filter_map(|asked| asked.result.as_ref())
                        .for_each(|told| look(&told.words));
                }
            }
        }
        found
    }

    /// About how many tokens it has.
    pub fn tokens_estimate(&self) -> u64 {
        let words = |words: &[Words]| -> usize {
            words.iter().map(|word| if let Words::Text(text) = word { text.len() } else { 0 }).sum()
        };
        let bytes: usize = self
            .said
            .iter()
            .map(|said| match said {
                Said::User(parts) => words(parts),
                Said::Turn(turn) => {
                    let texts: usize = turn.texts.iter().map(String::len).sum();
                    let results = turn.calls.iter().filter_map(|asked| asked.result.as_ref());
                    texts + results.map(|told| words(&told.words)).sum::<usize>()
                }
            })
            .sum();
        (bytes / limits::BYTES_PER_TOKEN) as u64
    }

    /// As providers want it: what was called is answered by the message behind. `pictures` holds those that could be
    /// fetched and that the model can see; in place of others it is told that there is one.
    pub fn messages(&self, pictures: &BTreeMap<ForeignId, bytes::Bytes>) -> Vec<Message> {
        let parts = |words: &[Words]| -> Vec<Part> {
            words
                .iter()
                .map(|word| match word {
                    Words::Text(text) => Part::Text(text.clone()),
                    Words::Image(picture) => match pictures.get(&picture.artifact_id) {
                        Some(bytes) => Part::Image { mime: picture.mime.clone(), bytes: bytes.clone() },
                        None => {
                            Part::Text(format!("[a picture that cannot be shown: {}]", picture.artifact_id))
                        }
                    },
                })
                .collect()
        };
        let mut messages = Vec::new();
        // Whether the model has the word.
        let mut is_asked = false;
        for said in &self.said {
            match said {
                Said::User(words) => {
                    is_asked = true;
                    messages.push(Message::User(parts(words)));
                }
                Said::Turn(turn) => {
                    if !is_asked {
                        messages.push(go_on());
                    }
                    is_asked = !turn.calls.is_empty();
                    let text = turn.texts.join("");
                    let text = (!text.is_empty()).then_some(text);
                    let calls = turn.calls.iter().map(Asked::call).collect();
                    messages.push(Message::Assistant { text, calls });
                    if !turn.calls.is_empty() {
                        let results = turn.calls.iter().map(|asked| asked.answer(&parts)).collect();
                        messages.push(Message::Results(results));
                    }
                }
            }
        }
        if !is_asked {
            messages.push(go_on());
        }
        messages
    }
}

/// What is said where nobody has said anything, so that the model goes on: the same each time it is told.
fn go_on() -> Message {
    Message::User(vec![Part::Text("Go on.".to_owned())])
}

impl Asked {
    fn call(&self) -> Call {
        Call { id: self.provider_call_id.clone(), name: self.name.clone(), input: self.input.clone() }
    }

    fn answer(&self, parts: &impl Fn(&[Words]) -> Vec<Part>) -> CallResult {
        let call_id = self.provider_call_id.clone();
        match &self.result {
            Some(told) => CallResult { call_id, parts: parts(&told.words), is_error: told.is_error },
            // Providers refuse a conversation with a call that has no answer.
            None => {
                let unsettled = "nothing is known of what became of this call".to_owned();
                CallResult { call_id, parts: vec![Part::Text(unsettled)], is_error: true }
            }
        }
    }
}

fn asked(proposed: &ToolCallProposed) -> Asked {
    let id = proposed.tool_call_id.clone();
    Asked {
        provider_call_id: proposed.provider_call_id.clone().unwrap_or_else(|| id.to_string()),
        tool_call_id: id,
        name: proposed.tool_name.clone(),
        input: serde_json::from_str(proposed.input.text()).unwrap_or_default(),
        result: None,
    }
}

/// What the model was told, where it is a text; else as it stands.
fn as_text(output: &Json) -> String {
    match serde_json::from_str::<Value>(output.text()) {
        Ok(Value::String(text)) => text,
        _ => output.text().to_owned(),
    }
}
