//! Limits of tools: what one call may read, change, search, run and return. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

// Files and searches.

/// Lines of a file that one call shows; the rest can be read with an offset.
pub const READ_LINES_MAX: u64 = 2_000;

/// Bytes of a file that one call shows, including line numbers; the rest can be read with an offset.
pub const READ_OUTPUT_BYTES_MAX: usize = 128 * 1024;

/// Bytes of one line that are shown; the rest is counted.
pub const LINE_SHOWN_BYTES_MAX: usize = 2_000;

/// The largest line number that a call may request; a larger one is refused.
pub const LINE_NUMBER_MAX: u64 = 1 << 40;

/// Bytes of a file in which lines are counted beyond those that are shown; of a larger file the number of lines is not
/// reported.
pub const COUNT_BYTES_MAX: u64 = 64 << 20;

/// Bytes at the beginning of a file that decide whether it is text.
pub const BINARY_LOOK_BYTES: usize = 8 * 1024;

/// Bytes of an image that is shown to a model; a larger one is refused. Providers accept 5 MiB in base64.
pub const IMAGE_BYTES_MAX: u64 = 3_750_000;

/// Bytes of a file below which a partial read stores no snapshot.
pub const SNAPSHOT_BYTES_MIN: u64 = 64 * 1024;

/// Bytes of a file that a partial read stores as a snapshot; a larger one is not stored.
pub const SNAPSHOT_BYTES_MAX: u64 = 8 << 20;

/// Time that a tool spends on reading or searching; then it returns what it has.
pub const SEARCH_TIME_MAX: Duration = Duration::from_secs(20);

/// Bytes of a file that a tool may change; a larger one is refused, because its diff would take long.
pub const EDIT_FILE_BYTES_MAX: usize = 4 << 20;

/// Edits of one call of `multi_edit`; more are refused.
pub const EDITS_MAX: usize = 100;

/// Bytes of all files of one call of `multi_edit` together; more are refused.
pub const EDITS_BYTES_MAX: usize = 16 << 20;

/// Time that a diff may take; then the rest is reported as removed and added.
pub const DIFF_TIME_MAX: Duration = Duration::from_millis(500);

/// Context lines around a change in a patch.
pub const DIFF_CONTEXT_LINES: usize = 3;

/// Lines that are listed when a text occurs too often in a file; the rest is counted.
pub const OCCURRENCES_LISTED_MAX: usize = 10;

/// Lines of a file that are compared to find the one closest to a missing text; further ones are ignored.
pub const NEAREST_LINES_MAX: usize = 20_000;

/// How similar two lines must be to be called close, in thousandths; less similar ones are not named.
pub const LIKENESS_MIN: u32 = 500;

/// Characters of a file's line that a message quotes; the rest is omitted.
pub const LINE_QUOTED_CHARS: usize = 160;

// Commands and git.

/// Built-in tools that run at once by default; further calls wait in a queue, and the logs of their runs get
/// `run.throttled`.
pub const TOOLS_AT_ONCE: usize = 64;

/// Bytes of one output chunk; longer output is split.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Output chunks that are reported together with the end of a command; more are reported before it.
pub const FINAL_CHUNKS_MAX: usize = 4;

/// How long output is collected for a full chunk; then a shorter one is reported.
pub const CHUNK_WAIT: Duration = Duration::from_millis(100);

/// Bytes of one stream that are read before the earlier ones are durable; then the command waits.
pub const OUTPUT_AHEAD_BYTES: usize = 8 * CHUNK_BYTES;

/// Bytes at the beginning of a stream that the model sees.
pub const OUTPUT_HEAD_BYTES: usize = 12 << 10;

/// Bytes at the end of a stream that the model sees; those between are counted.
pub const OUTPUT_TAIL_BYTES: usize = 12 << 10;

/// Bytes of one argument of a tool that runs git; a longer one is refused with `invalid_input`.
pub const GIT_ARGUMENT_BYTES_MAX: usize = 16 << 10;

/// Bytes of the names of a repository's settings; with more, git is not run (`git_settings_unreadable`).
pub const GIT_SETTINGS_BYTES_MAX: usize = 1 << 20;

/// Arguments of a tool that runs git; more are refused with `invalid_input`.
pub const GIT_ARGUMENTS_MAX: usize = 256;

// File searches, to-do lists and questions.

/// Nested folders that a search enters; deeper ones are omitted, and the result says that it is incomplete.
pub const WALK_DEPTH_MAX: usize = 100;

/// Files and folders that a search visits; further ones are omitted, and the result says so.
pub const WALK_ENTRIES_MAX: usize = 500_000;

/// Files and folders between two checks for cancellation.
pub const WALK_LOOK_EVERY: usize = 1_000;

/// Files that `glob` lists; further ones are counted.
pub const GLOB_MATCHES_MAX: usize = 1_000;

/// Lines that `grep` finds; then it stops.
pub const GREP_MATCHES_MAX: usize = 500;

/// Characters of a line that `grep` returns; the rest is omitted.
pub const GREP_TEXT_CHARS_MAX: usize = 400;

/// Context lines before and after a match; a larger number is refused.
pub const GREP_CONTEXT_LINES_MAX: usize = 20;

/// Bytes of the longest line that `grep` can hold; a file with a longer one is not searched completely, and the result
/// says so.
pub const GREP_LINE_BYTES_MAX: usize = 4 << 20;

/// Bytes of the output of a search; then it stops or counts.
pub const SEARCH_OUTPUT_BYTES_MAX: usize = 128 * 1024;

/// Items of a to-do list; more are refused.
pub const TODOS_MAX: usize = 100;

/// Characters of a to-do item; a longer one is refused.
pub const TODO_CHARS_MAX: usize = 500;

/// Characters of a question to a person; a longer one is refused.
pub const QUESTION_CHARS_MAX: usize = 4_000;

/// Suggested replies; more are refused.
pub const CHOICES_MAX: usize = 20;

/// Characters of a suggested reply; a longer one is refused.
pub const CHOICE_CHARS_MAX: usize = 500;

/// Characters of the context of a handoff; more are refused.
pub const HANDOFF_CONTEXT_CHARS_MAX: usize = 65_536;

/// Bytes of the context and the data of a handoff together, as JSON; more are refused.
pub const HANDOFF_PACKAGE_BYTES_MAX: usize = 400_000;

/// Characters of the URI of the recipient of a handoff; a longer one is refused.
pub const HANDOFF_URI_CHARS_MAX: usize = 2_048;

// Stored results.

/// Bytes of a stored result that one call of `read_result` returns; the output names the offset to continue with.
pub const RESULT_READ_BYTES_MAX: u64 = 16 * 1024;

/// Characters of the call id that `read_result` accepts; a longer id is refused.
pub const RESULT_CALL_ID_CHARS_MAX: usize = 128;

// Child runs.

/// Bytes of the prompt of a child run; a longer one is refused.
pub const CHILD_RUN_PROMPT_BYTES_MAX: usize = 64 << 10;

/// Tools that a child run may be given by name; a longer list is refused.
pub const CHILD_RUN_TOOLS_MAX: usize = 64;
