//! Limits of the native face, and what happens at each.

use std::time::Duration;

/// A body with a batch of events; larger is refused with `body_too_large`.
pub const BATCH_BODY_BYTES_MAX: usize = 8 << 20;

/// Any other body; larger is refused with `body_too_large`.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// An answer to a question, in JSON, and a little around it; larger is refused with `body_too_large`.
pub const ANSWER_BODY_BYTES_MAX: usize = recount_run::limits::RESPONSE_BYTES_MAX + (4 << 10);

/// The lines of one run that is imported; more is refused with `body_too_large`.
pub const IMPORT_BODY_BYTES_MAX: usize = recount_api::export::RUN_BYTES_MAX;

/// What is sent in for a run; larger is refused with `body_too_large`.
pub const UPLOAD_BODY_BYTES_MAX: usize = recount_engine::limits::ARTIFACT_BYTES_MAX;

/// Bytes of artifacts that are on their way in or out at a time, because each is in memory whole; what would go
/// beyond is refused with `store_busy`.
pub const ARTIFACT_BYTES_AT_ONCE: usize = 160 << 20;

/// Of those, the ones that each tenant has to itself, two of the largest artifacts: others cannot take them, so that
/// with further tenants as much more may be in memory for each.
pub const ARTIFACT_BYTES_OWN: usize = 2 * (UPLOAD_BODY_BYTES_MAX + ARTIFACT_PIECE_BYTES);

/// Bytes that they are given out in, and counted in.
pub const ARTIFACT_PIECE_BYTES: usize = 64 << 10;

/// A patch up to this size is shown with its text; the text of a larger one has to be requested.
pub const DIFF_INLINE_BYTES_MAX: u64 = 64 << 10;

/// The type of what is sent in; a longer one is refused with `media_type_unsupported`.
pub const MIME_BYTES_MAX: usize = 255;

/// Imports taken in at a time, because each holds a whole run in memory; the next one is refused with
/// `store_busy`.
pub const IMPORTS_MAX: usize = 2;

/// Of those, the ones that each tenant has to itself: others cannot take them.
pub const IMPORTS_OWN_MAX: usize = 1;

/// How long a body may take to arrive; then `body_timeout`.
pub const BODY_WAIT: Duration = Duration::from_secs(30);

/// Tasks looked at to fill one page of a filtered list; the page may then be short, its cursor goes on.
pub const TASKS_LOOKED_AT_MAX: usize = 1000;

/// Streams open at a time; the next one is refused with `too_many_streams`.
pub const STREAMS_MAX: usize = 20_000;

/// Of those, the ones that each tenant has to itself: others cannot take them.
pub const STREAMS_OWN_MAX: usize = 64;

/// When to come again after `too_many_streams`.
pub const STREAMS_RETRY: Duration = Duration::from_secs(5);

/// Texts that people write into commands; longer is refused.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

/// Tools that one order names; more are refused with `limit_reached`, as is all below.
pub const TOOLS_MAX: usize = 100;

/// Bytes of the name of a model or a tool.
pub const NAME_BYTES_MAX: usize = 256;

/// Arguments of one command of `git`.
pub const ARGS_MAX: usize = 256;

/// Bytes of one of them.
pub const ARG_BYTES_MAX: usize = 8 << 10;

/// Bytes of the path of a folder, or of the name of a file.
pub const PATH_BYTES_MAX: usize = 4096;

/// Artifacts that belong to one request.
pub const ATTACHMENTS_MAX: usize = 20;

/// How often a request may let a model be asked.
pub const TURNS_MAX: u64 = 1_000;

/// Tokens that a request may allow one answer of a model.
pub const OUTPUT_TOKENS_MAX: u64 = 1 << 20;

/// How long a request may let a command take.
pub const TIMEOUT_SECONDS_MAX: u64 = 24 * 60 * 60;

/// How much a request may let a command write.
pub const OUTPUT_BYTES_MAX: u64 = 1 << 30;

/// Runs of a session that are searched for the one that a message continues; without one the message starts afresh.
pub const SESSION_RUNS_LOOKED_AT_MAX: usize = 20;

/// When to come again after a failure that may pass and names no time of its own.
pub const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Characters of an `Idempotency-Key`; more is refused with `header_invalid`.
pub const IDEMPOTENCY_KEY_MAX: usize = 255;

/// An answer that is remembered for a request that carries a key of its own; of a larger one only what was made is.
pub const KEPT_ANSWER_BYTES_MAX: usize = 64 << 10;

/// Characters of an `X-Request-Id` that a client chose; a longer one is passed over.
pub const REQUEST_ID_MAX: usize = 128;
