//! Limits of the agent towards an editor, and what happens at each.

use std::time::Duration;

/// Bytes of one message of the editor; images are sent in it. A longer one is skipped to its end and answered with a
/// parse error.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes that are read from the editor at once.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Requests of the editor in progress; one more is refused until another is done.
pub const REQUESTS_MAX: usize = 256;

/// Sessions that are open at a time; one more is refused until another is closed.
pub const SESSIONS_MAX: usize = 256;

/// Content blocks of one prompt; more are refused.
pub const BLOCKS_MAX: usize = 256;

/// Runs of a session whose events are replayed by `session/load`, the newest ones; the replay reports how many are
/// omitted.
pub const REPLAYED_RUNS_MAX: usize = 2_000;

/// Events of one page of a replay.
pub(crate) const PAGE_EVENTS: usize = 1_000;

/// Runs of one page of a session's runs.
pub(crate) const PAGE_RUNS: usize = 200;

/// Pages of the server's sessions that one `session/list` reads to fill a page of sessions in a folder. The cursor
/// continues after them.
pub const LIST_PAGES_MAX: usize = 20;

/// Sessions in a full page of `session/list`.
pub const LIST_SESSIONS: usize = 50;

/// Attempts of one call while the server does not respond; then the call fails, or the answer is left to other faces.
pub(crate) const CALL_ATTEMPTS_MAX: u32 = 60;

/// The pause between these attempts.
pub(crate) const CALL_RETRY_WAIT: Duration = Duration::from_millis(500);

/// Bytes of a running command's output that are shown while it runs. The rest is shown with the result.
pub const LIVE_OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a patch that are shown as a diff; for a larger one the artifact is named.
pub const PATCH_BYTES_MAX: usize = 1024 * 1024;

/// Characters of a session's title from its first message, and of the title of a call; the rest is cut.
pub const TITLE_CHARS_MAX: usize = 100;

/// Characters of a text from the editor that an error repeats.
pub(crate) const SHOWN_CHARS_MAX: usize = 100;

/// How long requests in progress may take after the editor closed its side; then they are dropped.
pub(crate) const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Failed connections in a row to the events of a run; then the prompt is answered with the error, and the run
/// continues on the server.
pub(crate) const FOLLOW_ATTEMPTS_MAX: u32 = 120;
