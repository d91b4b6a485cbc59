//! Limits of this face, and what happens at each.

use std::time::Duration;

/// Bytes of a request's body; more is refused with `body_too_large`.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// How long a body may take to arrive; then `body_timeout`.
pub const BODY_WAIT: Duration = Duration::from_secs(30);

/// Bytes of the texts of one message, as JSON; more is refused with `body_too_large`. The event of a message has it
/// twice, as text and as blocks, and an event holds a mebibyte.
pub const MESSAGE_BYTES_MAX: usize = 400 << 10;

/// Bytes of all answers of one request, as JSON, which are one append; more is refused with `body_too_large`.
pub const ANSWERS_BYTES_MAX: usize = 4 << 20;

/// Messages of one turn; more are refused with `limit_reached`.
pub const TURN_MESSAGES_MAX: usize = 256;

/// Blocks of one message; more are refused with `limit_reached`.
pub const BLOCKS_MAX: usize = 256;

/// Seed messages of a session; more are refused with `limit_reached`.
pub const SEED_MESSAGES_MAX: usize = 10_000;

/// Pictures of one message; more are refused with `image_refused`.
pub const IMAGES_MAX: usize = 20;

/// Bytes of one picture; a larger one is refused with `image_refused`.
pub const IMAGE_BYTES_MAX: usize = 5 << 20;

/// Bytes of the address of a picture; a longer one is refused with `image_refused`.
pub const IMAGE_URL_BYTES_MAX: usize = 2048;

/// Bytes of pictures in one page of history; further ones are replaced by their kind.
pub const HISTORY_IMAGE_BYTES_MAX: usize = 32 << 20;

/// Tools of an application; more are refused with `limit_reached`.
pub const CLIENT_TOOLS_MAX: usize = 128;

/// Bytes of those, as JSON: they are in the first event of each run; more is refused with `body_too_large`.
pub const CLIENT_TOOLS_BYTES_MAX: usize = 128 << 10;

/// Characters of the name of a tool; a longer one is refused with `body_malformed`.
pub const TOOL_NAME_MAX: usize = 64;

/// Tools of an agent that are named in one list; more are refused with `limit_reached`.
pub const TOOLS_MAX: usize = 256;

/// Bytes of the value of an option; a longer one is refused with `option_invalid`.
pub const OPTION_BYTES_MAX: usize = 8 << 10;

/// Bytes of the reason of a refused permission; a longer one is refused with `body_too_large`.
pub const REASON_BYTES_MAX: usize = 16 << 10;

/// Characters of the title of a session; a longer one is refused with `limit_reached`.
pub const TITLE_CHARS_MAX: usize = 200;

/// Characters of a first message that become the title of its run; the rest is cut.
pub const RUN_TITLE_CHARS: usize = 80;

/// Sessions per page by default.
pub const LIST_LIMIT_DEFAULT: usize = 50;

/// Sessions of a page; more are refused with `parameter_invalid`.
pub const LIST_LIMIT_MAX: usize = 200;

/// Sessions read to fill one page of a filtered list; then the page is short and its cursor advances.
pub const LIST_LOOKED_AT_MAX: usize = 1_000;

/// Concurrent turn responses, streamed or not; the next one is refused with `too_many_streams`.
pub const STREAMS_MAX: usize = 20_000;

/// The part of those that is reserved for each tenant.
pub const STREAMS_OWN_MAX: usize = 64;

/// `Retry-After` of that refusal.
pub const STREAMS_RETRY: Duration = Duration::from_secs(5);

/// How long a stream may be silent; then it sends a heartbeat.
pub const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// Runs of a session, newest first, that are searched for a call that is answered late; a call in an older run is
/// unknown.
pub const RUNS_LOOKED_AT_MAX: usize = 50;

/// How often a message is tried when its session changes at the same time; then `session_busy`.
pub const USER_MESSAGE_TRIES: usize = 4;

/// Events read at a time when a turn is shown without following it.
pub const PAGE_EVENTS: usize = 500;

/// Characters of an `Idempotency-Key`; more is refused with `header_invalid`.
pub const IDEMPOTENCY_KEY_MAX: usize = 255;

/// `Retry-After` of a temporary failure that has none.
pub const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Bytes of a call id in seed messages; a longer one is refused with `body_malformed`.
pub const SEED_CALL_ID_BYTES_MAX: usize = 256;

/// Bytes of one result, as JSON, with its pictures: they are in its event; more is refused with
/// `image_refused`.
pub const RESULT_BYTES_MAX: usize = 512 << 10;

/// Events that are searched for calls that are answered late; older ones are ignored.
pub const LATE_EVENTS_MAX: usize = 100_000;

/// Bytes of the path of a folder; a longer one is refused with `workspace_refused`.
pub const PATH_BYTES_MAX: usize = 4096;
