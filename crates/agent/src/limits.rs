//! Every bound of the agent, and what happens at it.

use std::time::Duration;

// Models: what providers may send, and how long they may be silent.

/// How long a provider may leave a request without a byte of the answer's stream, where its settings do not say;
/// then the attempt fails with `model_timeout`. Long, because a model on a small machine reads long before it
/// speaks.
pub const MODEL_FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a provider may be silent in the middle of an answer, where its settings do not say; then the attempt
/// fails with `model_timeout`.
pub const MODEL_SILENCE_TIMEOUT: Duration = Duration::from_secs(120);

/// Bytes of what a provider says of an error that go into a message; the rest is left out.
pub const MODEL_ERROR_MESSAGE_BYTES_MAX: usize = 500;

// Scripted models.

/// Bytes of one script; a larger one is refused when it is loaded.
pub const SCRIPT_BYTES_MAX: usize = 4 << 20;

/// Scripts in a folder; a folder with more is refused when it is loaded.
pub const SCRIPTS_MAX: usize = 1_000;

/// The slowest that a script may speak; a slower one is refused when it is loaded.
pub const SCRIPT_TOKENS_PER_SECOND_MIN: f64 = 0.001;

/// The longest that a script may wait before it speaks; a longer wait is refused when it is loaded.
pub const SCRIPT_DELAY_MAX: Duration = Duration::from_secs(86_400);

/// Conversations whose failed attempts a script counts; beyond that the one counted longest is forgotten, and
/// fails anew.
pub const SCRIPT_ATTEMPTS_REMEMBERED_MAX: usize = 10_000;
