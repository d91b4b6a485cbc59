//! Limits of this face, and what happens at each.

use std::time::Duration;

/// Bytes of a message; more is refused.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// How long a message may take to arrive; then it is refused.
pub const BODY_WAIT: Duration = Duration::from_secs(10);

/// Bytes of the text of a result. The rest is left out, with a note and a cursor.
pub const RESULT_BYTES_MAX: usize = 48 << 10;

/// Bytes of the text of a list of prompts. A prompt is never cut: those that do not fit follow after the cursor.
pub const PROMPTS_BYTES_MAX: usize = 160 << 10;

/// Characters of one string of an event, unless whole events are requested; longer strings are cut and marked.
pub const FIELD_CHARS_MAX: usize = 400;

/// Characters of one message of a run; longer ones are cut and marked.
pub const MESSAGE_CHARS_MAX: usize = 2_000;

/// Runs of a search by default.
pub const RUNS_DEFAULT: u64 = 20;

/// Runs of a search; a larger `limit` is refused.
pub const RUNS_MAX: u64 = 50;

/// Messages of a run by default.
pub const MESSAGES_DEFAULT: u64 = 5;

/// Messages of a run; a larger number is refused.
pub const MESSAGES_MAX: u64 = 20;

/// Events at the end of a run in which its last messages are looked for.
pub const MESSAGES_SCAN_EVENTS: u64 = 1_000;

/// Events of a page by default.
pub const EVENTS_DEFAULT: u64 = 50;

/// Events of a page; a larger `limit` is refused.
pub const EVENTS_MAX: u64 = 200;

/// Pages of the native face that one call reads; then it returns what it has, with a cursor.
pub const PAGES_MAX: usize = 8;

/// Prompts of a list by default.
pub const PROMPTS_DEFAULT: u64 = 10;

/// Prompts of a list; a larger `limit` is refused.
pub const PROMPTS_MAX: u64 = 20;

/// Reads of the native face for one list of prompts, of which those of prompts that the client may not see are a part; then
/// it returns what it has, with a cursor.
pub const PROMPT_READS_MAX: usize = 100;

/// Patches of a run that are listed; more are counted as left out.
pub const PATCHES_MAX: usize = 200;

/// Resources of a page of `resources/list`.
pub const RESOURCES_PAGE: u64 = 50;

/// Bytes of one response of the native face; a larger one is refused.
pub const NATIVE_BYTES_MAX: usize = 32 << 20;

/// Events of a poll by default.
pub const OCCURRENCES_DEFAULT: u64 = 50;

/// Events of a poll; a larger `maxEvents` counts as this.
pub const OCCURRENCES_MAX: u64 = 100;

/// Events of one read of a poll. So few that the largest events fit into [`NATIVE_BYTES_MAX`].
pub const OCCURRENCES_READ: u64 = 16;

/// Bytes of stored events that a poll reads before it returns what it has; the others follow after the cursor.
pub const OCCURRENCES_BYTES_MAX: usize = 8 << 20;

/// Faults of a stream without an event between them; at one more it ends, and the client continues from its cursor.
pub const STREAM_FAULTS_MAX: u32 = 8;

/// How long a stream waits after a fault before it reads again.
pub const STREAM_FAULT_WAIT: Duration = Duration::from_secs(1);

/// When a client that polls for events is to come again.
pub const NEXT_POLL: Duration = Duration::from_secs(5);

/// Characters of an input that an error repeats; the rest is left out.
pub const SHOWN_CHARS_MAX: usize = 80;

/// Characters of an argument that is an id or a cursor; a longer one is refused.
pub const ID_CHARS_MAX: usize = 300;

/// Characters of a text argument; a longer one is refused.
pub const TEXT_CHARS_MAX: usize = 4_000;
