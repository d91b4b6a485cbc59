//! Plays recorded responses of model providers on a real socket, for tests and for use without an API key.
//!
//! Start at [`Player`]. It plays a [`Shelf`] of [`Recording`]s: files with the exact bytes of a provider, and their
//! timing: at once, slowly, cut off, or never. The crate must not depend on our models, runs or events, because it
//! replaces a provider.

mod body;
pub mod limits;
mod player;
mod recording;

pub use player::{Player, Seen};
pub use recording::{Api, End, RecordedResponse, Recording, RecordingError, Shelf, recordings};
