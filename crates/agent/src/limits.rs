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

// Files and searches.

/// Bytes of a path in a call; a longer one is refused.
pub const PATH_BYTES_MAX: usize = 4095;

/// Attempts at opening a path while folders on its way are renamed; then the call fails.
pub const OPEN_ATTEMPTS_MAX: u32 = 16;

/// Bytes that are read from a file at a time.
pub const READ_PIECE_BYTES: usize = 64 * 1024;

/// Lines of a file that are shown at once; the rest is asked for with an offset.
pub const READ_LINES_MAX: u64 = 2_000;

/// Bytes of a file that are shown at once, line numbers included; the rest is asked for with an offset.
pub const READ_OUTPUT_BYTES_MAX: usize = 128 * 1024;

/// Bytes of one line that are shown; the rest is counted.
pub const LINE_SHOWN_BYTES_MAX: usize = 2_000;

/// The largest number of a line that can be asked for; a larger one is refused.
pub const LINE_NUMBER_MAX: u64 = 1 << 40;

/// Bytes of a file in which lines are counted beyond those that are shown; of a larger file the number of lines is
/// not told.
pub const COUNT_BYTES_MAX: u64 = 64 << 20;

/// Bytes at the beginning of a file that decide whether it is text.
pub const BINARY_LOOK_BYTES: usize = 8 * 1024;

/// Bytes of a picture that is shown to a model; a larger one is refused. Providers take 5 MiB in base64.
pub const IMAGE_BYTES_MAX: u64 = 3_750_000;

/// Bytes of a file below which nothing is kept when only a part of it is read.
pub const SNAPSHOT_BYTES_MIN: u64 = 64 * 1024;

/// Bytes of a file that is kept when only a part of it is read; a larger one is not kept.
pub const SNAPSHOT_BYTES_MAX: u64 = 8 << 20;

/// Time that a tool spends on reading or searching; then it tells what it has.
pub const SEARCH_TIME_MAX: Duration = Duration::from_secs(20);

/// Characters of a summary; the rest is left out.
pub const SUMMARY_CHARS_MAX: usize = 200;

/// Characters of a name from outside that are repeated in a message; the rest is left out.
pub const NAMED_CHARS_MAX: usize = 80;

/// Bytes of a file that is changed by a tool; a larger one is refused, because its difference would take long.
pub const EDIT_FILE_BYTES_MAX: usize = 4 << 20;

/// Edits of one call of `multi_edit`; more are refused.
pub const EDITS_MAX: usize = 100;

/// Bytes of all files of one call of `multi_edit` together; more are refused.
pub const EDITS_BYTES_MAX: usize = 16 << 20;

/// Time that a difference may take; then what was not compared yet is told as removed and added.
pub const DIFF_TIME_MAX: Duration = Duration::from_millis(500);

/// Lines around a change that a patch shows.
pub const DIFF_CONTEXT_LINES: usize = 3;

/// Places that are named when a text stands in a file too often; the rest is counted.
pub const PLACES_TOLD_MAX: usize = 10;

/// Lines of a file that are compared when a text is not in it, to name the nearest; further ones are not looked at.
pub const NEAREST_LINES_MAX: usize = 20_000;

/// How alike two lines must be for one to be called near the other, in thousandths; less is not told.
pub const LIKENESS_MIN: u32 = 500;

/// Characters of a line of a file that a message repeats; the rest is left out.
pub const LINE_TOLD_CHARS: usize = 160;
