//! The states of a session, as the protocol names them.

use crate::speech::Key;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Thinking,
    Deciding,
    CallingTool,
    WritingOutput,
    AwaitingInput,
    HandingOff,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Thinking => "thinking",
            State::Deciding => "deciding",
            State::CallingTool => "calling_tool",
            State::WritingOutput => "writing_output",
            State::AwaitingInput => "awaiting_input",
            State::HandingOff => "handing_off",
        }
    }

    /// The sentence for entering the state without another reason.
    pub(super) fn key(self) -> Key {
        match self {
            State::Idle | State::Thinking => Key::Thinking,
            State::Deciding => Key::Deciding,
            State::CallingTool => Key::CallingTool,
            State::WritingOutput => Key::Writing,
            State::AwaitingInput => Key::AwaitingInput,
            State::HandingOff => Key::HandingOff,
        }
    }
}
