//! Narration of AAEP sessions as speech, and control by keys. Pure, with the time passed in.
//!
//! [`Narrator`] converts events to utterances and keys to messages; [`SpeechQueue`] chooses the next utterance. They
//! must not depend on the speech engine, which is [`ssip`], or on the connection, which is [`listener`]. The crate must
//! not depend on the engine or on runs: all producers are treated alike.

mod dialog;
mod held_text;
mod keys;
mod level;
pub mod limits;
pub mod listener;
mod narrator;
mod open_prompt;
mod outgoing;
mod phrases;
mod queue;
mod sessions;
pub mod ssip;
mod utterance;
mod wording;

#[cfg(test)]
mod tests;

pub use dialog::NarratorKey;
pub use level::SpeechLevel;
pub use narrator::{Narrator, NarratorEffect, NarratorOptions, NarratorSignal};
pub use outgoing::Outgoing;
pub use phrases::{PhraseKey, Phrases};
pub use queue::SpeechQueue;
pub use sessions::SessionEnd;
pub use utterance::{SpeechPriority, SpeechSubject, Utterance};
