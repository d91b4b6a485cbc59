//! Limits of the native face, and what happens at each.

use std::time::Duration;

/// A body with a batch of events; larger is refused with `body_too_large`.
pub const BATCH_BODY_BYTES_MAX: usize = 8 << 20;

/// Any other body; larger is refused with `body_too_large`.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// The answer to a question, as JSON with its envelope; larger is refused with `body_too_large`.
pub const ANSWER_BODY_BYTES_MAX: usize = recount_run::limits::RESPONSE_BYTES_MAX + (4 << 10);

/// Characters of a command that become the title of its run; later words are left out.
pub const COMMAND_TITLE_CHARS_MAX: usize = 80;

/// The lines of one run that is imported; more is refused with `body_too_large`.
pub const IMPORT_BODY_BYTES_MAX: usize = recount_api::export::RUN_BYTES_MAX;

/// An upload for a run; larger is refused with `body_too_large`.
pub const UPLOAD_BODY_BYTES_MAX: usize = recount_engine::limits::ARTIFACT_BYTES_MAX;

/// Bytes of a form around the file in it: boundaries, headers, other fields; larger is refused with `body_too_large`.
pub const FORM_AROUND_BYTES_MAX: usize = 16 << 10;

/// Parts of a form with an upload; more are refused with `body_malformed`, like the two limits below.
pub const FORM_PARTS_MAX: usize = 8;

/// Bytes of the headers of one part, names and values.
pub const FORM_HEADER_BYTES_MAX: usize = 4 << 10;

/// Bytes of a field of a form that is no file.
pub const FORM_FIELD_BYTES_MAX: usize = 4 << 10;

/// Bytes of artifacts that are transferred at a time, because each is in memory whole; a transfer beyond that is
/// refused with `store_busy`.
pub const ARTIFACT_BYTES_AT_ONCE: usize = 160 << 20;

/// The part of those that is reserved for each tenant: two of the largest artifacts. Further tenants may each use
/// as much memory in addition.
pub const ARTIFACT_BYTES_OWN: usize =
    2 * (UPLOAD_BODY_BYTES_MAX + FORM_AROUND_BYTES_MAX + ARTIFACT_PIECE_BYTES);

/// Bytes of one piece in which they are sent and counted.
pub const ARTIFACT_PIECE_BYTES: usize = 64 << 10;

/// Bytes that count as transferred for an artifact in the log: one page of events and its output.
pub const LOGGED_BYTES_HELD: u64 = 1 << 20;

/// Smaller responses are never compressed, because the framing would take what it saves.
pub const GZIP_BYTES_MIN: u64 = 1 << 10;

/// A patch up to this size is shown with its text; the text of a larger one has to be requested.
pub const DIFF_INLINE_BYTES_MAX: u64 = 64 << 10;

/// The media type of an upload; a longer one is refused with `media_type_unsupported`.
pub const MIME_BYTES_MAX: usize = 255;

/// Concurrent imports, because each holds a whole run in memory; the next one is refused with
/// `store_busy`.
pub const IMPORTS_MAX: usize = 2;

/// The part of those that is reserved for each tenant.
pub const IMPORTS_OWN_MAX: usize = 1;

/// How long a body may take to arrive; then `body_timeout`.
pub const BODY_WAIT: Duration = Duration::from_secs(30);

/// Tasks read to fill one page of a filtered list; then the page is short and its cursor advances.
pub const TASKS_LOOKED_AT_MAX: usize = 1000;

/// Streams open at a time; the next one is refused with `too_many_streams`.
pub const STREAMS_MAX: usize = 20_000;

/// The part of those that is reserved for each tenant.
pub const STREAMS_OWN_MAX: usize = 64;

/// Pieces of a stream that are sent after the server began to shut down, if they were committed before; a reader gets the
/// others after the restart.
pub const SHUTDOWN_PIECES_MAX: usize = 64;

/// `Retry-After` of `too_many_streams`.
pub const STREAMS_RETRY: Duration = Duration::from_secs(5);

/// Texts that people write into commands; longer is refused.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

/// Tools that one request names; more are refused with `limit_reached`, like all limits below.
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

/// The most model turns that a request may allow.
pub const TURNS_MAX: u64 = 1_000;

/// Tokens that a request may allow one answer of a model.
pub const OUTPUT_TOKENS_MAX: u64 = 1 << 20;

/// The longest time that a request may allow a command.
pub const TIMEOUT_SECONDS_MAX: u64 = 24 * 60 * 60;

/// The most output that a request may allow a command.
pub const OUTPUT_BYTES_MAX: u64 = 1 << 30;

/// Runs after a run that are named with it; older ones are left out.
pub const SUCCESSORS_SHOWN_MAX: usize = 50;

/// Runs of a session that are searched for the one that a message continues; without one the message starts with
/// defaults.
pub const SESSION_RUNS_LOOKED_AT_MAX: usize = 20;

/// `Retry-After` of a temporary failure that has none.
pub const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Characters of an `Idempotency-Key`; more is refused with `header_invalid`.
pub const IDEMPOTENCY_KEY_MAX: usize = 255;

/// Characters of a client's `X-Request-Id`; a longer one is ignored.
pub const REQUEST_ID_MAX: usize = 128;
