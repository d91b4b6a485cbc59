//! How long a provider may be silent.
//!
//! Look at [`Patience`]. It must never know what a provider says, only that it says something.

use std::time::Duration;

use crate::model::limits;

/// Bounds of silence. They bound waits for bytes, never a whole answer, which may take as long as it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From the request to the first byte of the answer's stream.
    pub first: Duration,
    /// Between two chunks of it.
    pub between: Duration,
    /// Between two things said, when nothing but signs of life comes.
    pub between_words: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            first: limits::MODEL_FIRST_BYTE_TIMEOUT,
            between: limits::MODEL_SILENCE_TIMEOUT,
            between_words: limits::MODEL_LIFE_SIGNS_TIMEOUT,
        }
    }
}
