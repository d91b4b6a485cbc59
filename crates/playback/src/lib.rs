//! Plays recorded streams of model providers on a real socket, for tests and for people who have no key.
//!
//! Look at [`Player`]; what it plays is a [`Shelf`] of [`Recording`]s, files that hold what a provider sends, byte
//! for byte, and how: in one go, slowly, cut off, or never. It must never know our own models, runs or events: it
//! stands where a stranger would.

mod body;
pub mod limits;
mod player;
mod recording;

pub use player::{Player, Seen};
pub use recording::{Answer, Api, End, Recording, RecordingError, Shelf, recordings};
