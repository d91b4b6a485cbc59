//! Limits of models: what providers may send, how long they may be silent, and what scripts may hold. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

/// How long a provider may leave a request without a byte of the answer's stream, where its settings do not say;
/// then the attempt fails with `model_timeout`. Long, because a model on a small machine reads long before it
/// speaks.
pub const MODEL_FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a provider may be silent in the middle of an answer, where its settings do not say; then the attempt
/// fails with `model_timeout`.
pub const MODEL_SILENCE_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a provider may give signs of life and say nothing, where its settings do not say; then the attempt
/// fails with `model_timeout`.
pub const MODEL_LIFE_SIGNS_TIMEOUT: Duration = Duration::from_secs(600);

/// The longest patience that settings may ask for; a longer one is cut to it.
pub const MODEL_PATIENCE_MAX: Duration = Duration::from_secs(86_400);

/// How long a provider may take to accept a connection; then the attempt fails with `model_unreachable`.
pub const MODEL_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection to a provider is kept for the next request; then it is closed.
pub const MODEL_CONNECTION_IDLE: Duration = Duration::from_secs(60);

/// How long the end of a stream is waited for once its last word is there, so that its connection can be used
/// again; then the connection is closed.
pub const MODEL_TAIL_TIMEOUT: Duration = Duration::from_millis(100);

/// Bytes of one line of a provider's stream; more fails the attempt with `model_malformed`.
pub const MODEL_LINE_BYTES_MAX: usize = 2 << 20;

/// Bytes of one event of a provider's stream; more fails the attempt with `model_malformed`.
pub const MODEL_EVENT_BYTES_MAX: usize = 4 << 20;

/// Bytes of a provider's whole stream; more fails the attempt with `model_malformed`.
pub const MODEL_ANSWER_BYTES_MAX: usize = 64 << 20;

/// Bytes of the inputs of all calls of an answer; more fails the attempt with `model_malformed`.
pub const MODEL_CALL_BYTES_MAX: usize = 4 << 20;

/// Tokens that one figure of a provider's usage may be; a larger one counts as this, and `turn.completed` says so. More
/// than any model takes or writes, and small enough that the figures of a whole run stay below 2^53.
pub const MODEL_TOKENS_MAX: u64 = 1 << 32;

/// The longest that a provider's wish to be left alone is told; a longer one is cut to it.
pub const MODEL_RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Bytes of the beginning of a key that are masked where a message was cut in the middle of it; fewer say nothing of it.
pub const MODEL_KEY_PART_BYTES: usize = 4;

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
