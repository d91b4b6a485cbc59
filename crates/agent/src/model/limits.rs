//! Limits of models: sizes of responses, timeouts of providers, and sizes of scripts. Each constant says what happens
//! at the limit.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

/// The default timeout from a request to the first byte of the response; then the attempt fails with `model_timeout`.
/// It is long, because a model on a small machine takes long to process its input.
pub const MODEL_FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(300);

/// The default timeout between two chunks of a response; then the attempt fails with `model_timeout`.
pub const MODEL_SILENCE_TIMEOUT: Duration = Duration::from_secs(120);

/// The default timeout between two events with content, while only keep-alive messages arrive; then the attempt fails
/// with `model_timeout`.
pub const MODEL_LIFE_SIGNS_TIMEOUT: Duration = Duration::from_secs(600);

/// The longest timeout that settings can request; a longer one is reduced to it.
pub const MODEL_PATIENCE_MAX: Duration = Duration::from_secs(86_400);

/// The timeout to connect to a provider; then the attempt fails with `model_unreachable`.
pub const MODEL_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an idle connection to a provider is kept open; then it is closed.
pub const MODEL_CONNECTION_IDLE: Duration = Duration::from_secs(60);

/// The wait for the end of a stream after its final event, so that its connection can be reused; then the connection is
/// closed.
pub const MODEL_TAIL_TIMEOUT: Duration = Duration::from_millis(100);

/// Bytes of one line of a provider's stream; more fails the attempt with `model_malformed`.
pub const MODEL_LINE_BYTES_MAX: usize = 2 << 20;

/// Bytes of one event of a provider's stream; more fails the attempt with `model_malformed`.
pub const MODEL_EVENT_BYTES_MAX: usize = 4 << 20;

/// Bytes of a provider's complete stream; more fails the attempt with `model_malformed`.
pub const MODEL_ANSWER_BYTES_MAX: usize = 64 << 20;

/// Bytes of the inputs of all calls of a response; more fails the attempt with `model_malformed`.
pub const MODEL_CALL_BYTES_MAX: usize = 4 << 20;

/// The maximum of one usage figure of a provider; a larger one counts as this, and `turn.completed` reports it. More
/// than any model reads or writes, and small enough that the totals of a run stay below 2^53.
pub const MODEL_TOKENS_MAX: u64 = 1 << 32;

/// The longest `Retry-After` of a provider; a longer one is reduced to it.
pub const MODEL_RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// The minimum bytes of a cut-off key at the end of a message that are masked; fewer reveal nothing about it.
pub const MODEL_KEY_PART_BYTES: usize = 4;

// Scripted models.

/// Bytes of one script; a larger one is refused when it is loaded.
pub const SCRIPT_BYTES_MAX: usize = 4 << 20;

/// Scripts in a folder; a folder with more is refused when it is loaded.
pub const SCRIPTS_MAX: usize = 1_000;

/// The slowest output rate of a script; a slower one is refused when it is loaded.
pub const SCRIPT_TOKENS_PER_SECOND_MIN: f64 = 0.001;

/// The longest delay of a script before its output; a longer one is refused when it is loaded.
pub const SCRIPT_DELAY_MAX: Duration = Duration::from_secs(86_400);

/// Conversations whose failed attempts a script counts; beyond that the count of the oldest one starts again.
pub const SCRIPT_ATTEMPTS_REMEMBERED_MAX: usize = 10_000;
