//! Texts of a run that arrive in pieces: blocks of the model, inputs of calls, output of commands.
//!
//! Their state comes from the log alone, so it is the same after a restart.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recount_event::family::assistant::TextDelta;
use recount_event::family::shell::{Encoding, OutputChunk, Stream};
use recount_event::{Draft, Event, ForeignId, Payload};
use recount_redact::{MASK, Online, Redactor};

/// The name of a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TextName {
    /// Turn and block.
    Block(u64, u64),
    Output(ForeignId, Stream),
    Input(ForeignId),
}

/// The state of the unfinished texts of a run.
#[derive(Default)]
pub(crate) struct Texts {
    open: BTreeMap<TextName, Online>,
}

/// The part of a text in one event.
pub(crate) struct Piece<'a> {
    /// The field of `data`.
    pub(super) field: &'static str,
    text: &'a str,
    name: TextNameRef<'a>,
}

enum TextNameRef<'a> {
    Block(&'a TextDelta),
    Output(&'a OutputChunk),
    Input(&'a ForeignId),
}

impl Texts {
    pub(crate) fn get(&self, name: &TextName) -> Option<&Online> {
        self.open.get(name)
    }

    /// Adds an event of the log. `pieces`: whether to add its piece of text.
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

    /// Stores the state of the texts that a batch extended.
    pub(crate) fn settle(&mut self, texts: Vec<(TextName, Online)>) {
        self.open.extend(texts);
    }
}

impl<'a> Piece<'a> {
    pub(super) fn of(payload: &'a Payload) -> Option<Self> {
        Some(match payload {
            Payload::AssistantTextDelta(delta) | Payload::AssistantThinkingDelta(delta) => {
                Piece { field: "delta", text: &delta.delta, name: TextNameRef::Block(delta) }
            }
            Payload::ToolShellOutputChunk(chunk) => {
                Piece { field: "data", text: &chunk.data, name: TextNameRef::Output(chunk) }
            }
            Payload::AssistantToolCallInputDelta(delta) => {
                Piece { field: "delta", text: &delta.delta, name: TextNameRef::Input(&delta.tool_call_id) }
            }
            _ => return None,
        })
    }

    pub(super) fn name(&self) -> TextName {
        match self.name {
            TextNameRef::Block(delta) => TextName::Block(delta.turn_index, delta.block_index),
            TextNameRef::Output(chunk) => TextName::Output(chunk.tool_call_id.clone(), chunk.stream),
            TextNameRef::Input(call) => TextName::Input(call.clone()),
        }
    }

    pub(super) fn is_of(&self, name: &TextName) -> bool {
        match (&self.name, name) {
            (TextNameRef::Block(delta), TextName::Block(turn, block)) => {
                (delta.turn_index, delta.block_index) == (*turn, *block)
            }
            (TextNameRef::Output(chunk), TextName::Output(call, stream)) => {
                chunk.stream == *stream && chunk.tool_call_id == *call
            }
            (TextNameRef::Input(of), TextName::Input(call)) => *of == call,
            _ => false,
        }
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.name {
            TextNameRef::Output(chunk) => chunk.encoding,
            TextNameRef::Block(_) | TextNameRef::Input(_) => None,
        }
    }

    /// The content. Invalid base64 is used as it is; the rules refuse it.
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

    /// The piece with ranges masked, in its original encoding.
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
        // Characters of several bytes are masked completely or not at all, except one that a producer split.
        String::from_utf8(bytes).unwrap_or_else(|broken| {
            let text: Vec<u8> = broken.into_bytes();
            text.iter()
                .map(|byte| if byte.is_ascii() { char::from(*byte) } else { char::from(MASK) })
                .collect()
        })
    }

    /// Whether the event has no other text: its data are as long as the known fields and a text without escapes.
    /// Masking the most frequent events twice would be slow.
    pub(super) fn is_all_of(&self, draft: &Draft) -> bool {
        let TextNameRef::Block(delta) = self.name else { return false };
        const AROUND: usize = r#"{"turn_index":,"block_index":,"delta":""}"#.len();
        let known = AROUND + digits(delta.turn_index) + digits(delta.block_index) + self.text.len();
        draft.verbatim.as_ref().is_none_or(|text| text.len() == known)
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Whether an event may complete a text; `false` for almost all events.
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

/// Whether an event completes a text.
pub(super) fn closes(payload: &Payload, name: &TextName) -> bool {
    match (payload, name) {
        (
            Payload::AssistantTextComplete(whole) | Payload::AssistantThinkingComplete(whole),
            TextName::Block(turn, block),
        ) => (whole.turn_index, whole.block_index) == (*turn, *block),
        // One turn is open at a time.
        (Payload::TurnCompleted(_) | Payload::TurnFailed(_), TextName::Block(..) | TextName::Input(_)) => {
            true
        }
        (Payload::ToolShellExited(exited), TextName::Output(call, _)) => exited.tool_call_id == *call,
        (
            Payload::ToolCompleted(ended)
            | Payload::ToolFailed(ended)
            | Payload::ToolCancelled(ended)
            | Payload::ToolTimedOut(ended),
            TextName::Output(call, _) | TextName::Input(call),
        ) => ended.tool_call_id == *call,
        (Payload::AssistantToolCallProposed(proposed), TextName::Input(call)) => {
            proposed.tool_call_id == *call
        }
        (Payload::ToolRefused(refused), TextName::Input(call)) => refused.tool_call_id == *call,
        (Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_), _) => true,
        _ => false,
    }
}
