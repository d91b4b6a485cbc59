//! Narration: what a listener hears of AAEP sessions, and what the listener's keys do. Pure, with the time passed in.
//!
//! [`Narrator`] makes utterances of events and messages of keys, [`SpeechQueue`] decides which utterance is spoken next.
//! They must not know how speech is made, which is [`ssip`], or how events arrive, which is [`listener`]. The crate must not
//! know the engine or runs: it treats every producer alike.

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
pub use narrator::{Narrator, NarratorEffect};
pub use outgoing::Outgoing;
pub use phrases::{PhraseKey, Phrases};
pub use queue::SpeechQueue;
pub use sessions::SessionEnd;
pub use utterance::{SpeechPriority, Utterance};
