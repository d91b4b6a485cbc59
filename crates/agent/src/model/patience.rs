//! Timeouts for a streamed response of a provider.
//!
//! It must not depend on the content of a response. Start with [`Patience`].

use std::time::Duration;

use crate::model::limits;

/// Timeouts without data. They limit each wait, never the duration of a complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From the request to the first byte of the response.
    pub first: Duration,
    /// Between two chunks of the response.
    pub between: Duration,
    /// Between two events with content, while only keep-alive messages arrive.
    pub between_content: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            first: limits::MODEL_FIRST_BYTE_TIMEOUT,
            between: limits::MODEL_SILENCE_TIMEOUT,
            between_content: limits::MODEL_LIFE_SIGNS_TIMEOUT,
        }
    }
}
