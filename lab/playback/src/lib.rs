//! Plays recorded streams of model providers on a real socket, for tests and for use without a key.
//!
//! Look at [`Player`]; it plays a [`Shelf`] of [`Recording`]s: files with what a provider sends, byte
//! for byte, and how: at once, slowly, cut off, or never. It must never know our own models, runs or events: it
//! takes the place of a provider.

mod body;
pub mod limits;
mod player;
mod recording;

pub use player::{Player, Seen};
pub use recording::{Answer, Api, End, Recording, RecordingError, Shelf, recordings};
