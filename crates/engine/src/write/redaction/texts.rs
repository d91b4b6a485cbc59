//! The texts of a run that come in pieces: the model's blocks, the inputs of its calls, the output of commands.
//!
//! What is known of them comes from the log alone, so a writer that wakes knows what one that never slept does.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_event::family::assistant::TextDelta;
use recount_event::family::shell::{Encoding, OutputChunk, Stream};
use recount_event::{Draft, Event, ForeignId, Payload};
use recount_redact::{MASK, Online, Redactor};

/// Names a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// Turn and block.
    Block(u64, u64),
    Output(ForeignId, Stream),
    Input(ForeignId),
}

/// What is known of the open texts of a run.
#[derive(Default)]
pub(crate) struct Texts {
    open: BTreeMap<Name, Online>,
}

/// What one event adds to a text.
pub(crate) struct Piece<'a> {
    /// Where in `data` it stands.
    pub(super) field: &'static str,
    text: &'a str,
    name: Named<'a>,
}

enum Named<'a> {
    Block(&'a TextDelta),
    Output(&'a OutputChunk),
    Input(&'a ForeignId),
}

impl Texts {
    pub(crate) fn get(&self, name: &Name) -> Option<&Online> {
        self.open.get(name)
    }

    /// An event of the log, as it stands there. `pieces`: whether what it adds to a text is still to be added.
    pub(crate) fn event(&mut self, event: &Event, pieces: bool, redactor: &Redactor) {
        let payload = event.payload();
        if let Some(piece) = Piece::of(payload) {
            if pieces {
                self.open.entry(piece.name()).or_default().add_stored(redactor, &piece.bytes());
            }
        } else if may_close(payload) {
            self.open.retain(|name, _| !closes(payload, name));
        }
    }

    /// What masking came to for the texts that a batch made longer.
    pub(crate) fn settle(&mut self, texts: Vec<(Name, Online)>) {
        self.open.extend(texts);
    }
}

impl<'a> Piece<'a> {
    pub(super) fn of(payload: &'a Payload) -> Option<Self> {
        Some(match payload {
            Payload::AssistantTextDelta(delta) | Payload::AssistantThinkingDelta(delta) => {
                Piece { field: "delta", text: &delta.delta, name: Named::Block(delta) }
            }
            Payload::ToolShellOutputChunk(chunk) => {
                Piece { field: "data", text: &chunk.data, name: Named::Output(chunk) }
            }
            Payload::AssistantToolCallInputDelta(delta) => {
                Piece { field: "delta", text: &delta.delta, name: Named::Input(&delta.tool_call_id) }
            }
            _ => return None,
        })
    }

    pub(super) fn name(&self) -> Name {
        match self.name {
            Named::Block(delta) => Name::Block(delta.turn_index, delta.block_index),
            Named::Output(chunk) => Name::Output(chunk.tool_call_id.clone(), chunk.stream),
            Named::Input(call) => Name::Input(call.clone()),
        }
    }

    pub(super) fn is_of(&self, name: &Name) -> bool {
        match (&self.name, name) {
            (Named::Block(delta), Name::Block(turn, block)) => {
                (delta.turn_index, delta.block_index) == (*turn, *block)
            }
            (Named::Output(chunk), Name::Output(call, stream)) => {
                chunk.stream == *stream && chunk.tool_call_id == *call
            }
            (Named::Input(of), Name::Input(call)) => *of == call,
            _ => false,
        }
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.name {
            Named::Output(chunk) => chunk.encoding,
            Named::Block(_) | Named::Input(_) => None,
        }
    }

    /// What it says. Base64 that is none is looked at as it stands; the rules refuse it.
    pub(super) fn bytes(&self) -> Cow<'a, [u8]> {
        match self.encoding() {
            None => self.text.as_bytes().into(),
            Some(Encoding::Base64) => match STANDARD.decode(self.text) {
                Ok(bytes) => bytes.into(),
                Err(_) => self.text.as_bytes().into(),
            },
        }
    }

    pub(super) fn push_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.bytes());
    }

    /// What it becomes when parts of it are masked, written as it was.
    pub(super) fn masked(&self, spans: &[Range<usize>]) -> String {
        let mut bytes = self.bytes().into_owned();
        for span in spans {
            for byte in bytes[span.clone()].iter_mut().filter(|byte| !matches!(byte, b'\n' | b'\r')) {
                *byte = MASK;
            }
        }
        if self.encoding() == Some(Encoding::Base64) && STANDARD.decode(self.text).is_ok() {
            return STANDARD.encode(bytes);
        }
        // Characters of several bytes are masked whole or not at all, but for one that a producer cut.
        String::from_utf8(bytes).unwrap_or_else(|broken| {
            let text: Vec<u8> = broken.into_bytes();
            text.iter()
                .map(|byte| if byte.is_ascii() { char::from(*byte) } else { char::from(MASK) })
                .collect()
        })
    }

    /// Whether the event says nothing else that could be a secret: then its data are as long as the members
    /// that are known and a text without escapes. Looking twice at the most frequent events costs too much.
    pub(super) fn is_all_of(&self, draft: &Draft) -> bool {
        let Named::Block(delta) = self.name else { return false };
        const AROUND: usize = r#"{"turn_index":,"block_index":,"delta":""}"#.len();
        let known = AROUND + digits(delta.turn_index) + digits(delta.block_index) + self.text.len();
        draft.verbatim.as_ref().is_none_or(|text| text.len() == known)
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Whether an event may end a text. Nearly always not.
pub(super) fn may_close(payload: &Payload) -> bool {
    matches!(
        payload,
        Payload::AssistantTextComplete(_)
            | Payload::AssistantThinkingComplete(_)
            | Payload::AssistantToolCallProposed(_)
            | Payload::TurnCompleted(_)
            | Payload::TurnFailed(_)
            | Payload::ToolShellExited(_)
            | Payload::ToolCompleted(_)
            | Payload::ToolFailed(_)
            | Payload::ToolCancelled(_)
            | Payload::ToolTimedOut(_)
            | Payload::ToolRefused(_)
            | Payload::RunFinished(_)
            | Payload::RunFailed(_)
            | Payload::RunCancelled(_)
    )
}

/// Whether an event ends a text.
pub(super) fn closes(payload: &Payload, name: &Name) -> bool {
    match (payload, name) {
        (
            Payload::AssistantTextComplete(whole) | Payload::AssistantThinkingComplete(whole),
            Name::Block(turn, block),
        ) => (whole.turn_index, whole.block_index) == (*turn, *block),
        // One turn is open at a time.
        (Payload::TurnCompleted(_) | Payload::TurnFailed(_), Name::Block(..) | Name::Input(_)) => true,
        (Payload::ToolShellExited(exited), Name::Output(call, _)) => exited.tool_call_id == *call,
        (
            Payload::ToolCompleted(ended)
            | Payload::ToolFailed(ended)
            | Payload::ToolCancelled(ended)
            | Payload::ToolTimedOut(ended),
            Name::Output(call, _) | Name::Input(call),
        ) => ended.tool_call_id == *call,
        (Payload::AssistantToolCallProposed(proposed), Name::Input(call)) => proposed.tool_call_id == *call,
        (Payload::ToolRefused(refused), Name::Input(call)) => refused.tool_call_id == *call,
        (Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_), _) => true,
        _ => false,
    }
}
