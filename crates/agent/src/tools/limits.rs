//! Limits of tools: what one call may read, change, search, run and return. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

// Files and searches.

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

/// Places that are named when a text occurs in a file too often; the rest is counted.
pub const PLACES_TOLD_MAX: usize = 10;

/// Lines of a file that are compared when a text is not in it, to name the nearest; further ones are not looked at.
pub const NEAREST_LINES_MAX: usize = 20_000;

/// How alike two lines must be for one to be called near the other, in thousandths; less is not told.
pub const LIKENESS_MIN: u32 = 500;

/// Characters of a line of a file that a message repeats; the rest is left out.
pub const LINE_TOLD_CHARS: usize = 160;

// Commands and git.

/// Tools of ours that run at once when nothing else is configured; further calls wait in a queue, and the logs of their
/// runs say so with `run.throttled`.
pub const TOOLS_AT_ONCE: usize = 64;

/// Bytes of one piece of output; a longer one becomes several.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Pieces of output that are told with the end of a command; more are told before it.
pub const CHUNKS_TOLD_LAST: usize = 4;

/// How long output gathers to that length; then what there is is told.
pub const CHUNK_WAIT: Duration = Duration::from_millis(100);

/// Bytes of one stream that are read ahead of what is durable; then the command waits.
pub const OUTPUT_AHEAD_BYTES: usize = 8 * CHUNK_BYTES;

/// Bytes at the beginning of a stream that the model is told.
pub const OUTPUT_HEAD_BYTES: usize = 12 << 10;

/// Bytes at the end of a stream that the model is told; what lies between is counted.
pub const OUTPUT_TAIL_BYTES: usize = 12 << 10;

/// Bytes of one argument of a tool that runs git; a longer one is refused with `invalid_input`.
pub const GIT_ARGUMENT_BYTES_MAX: usize = 16 << 10;

/// Bytes of the names of a repository's settings; with more, git is not run (`git_settings_unreadable`).
pub const GIT_SETTINGS_BYTES_MAX: usize = 1 << 20;

/// Arguments of a tool that runs git; more are refused with `invalid_input`.
pub const GIT_ARGUMENTS_MAX: usize = 256;

// Looking for files, lists and questions.

/// How deep a search goes into folders; deeper ones are left out, and the answer says that it is not whole.
pub const WALK_DEPTH_MAX: usize = 100;

/// Files and folders that a search goes through; further ones are left out, and the answer says so.
pub const WALK_ENTRIES_MAX: usize = 500_000;

/// Files and folders after which a search looks again whether it is cancelled.
pub const WALK_LOOK_EVERY: usize = 1_000;

/// Files that `glob` lists; further ones are counted.
pub const GLOB_MATCHES_MAX: usize = 1_000;

/// Lines that `grep` finds; then it stops.
pub const GREP_MATCHES_MAX: usize = 500;

/// Characters of a line that `grep` tells; the rest is left out.
pub const GREP_TEXT_CHARS_MAX: usize = 400;

/// Lines before and after one that was found; more cannot be asked for.
pub const GREP_CONTEXT_LINES_MAX: usize = 20;

/// Bytes of a line that `grep` holds; a file with a longer one is not searched to its end, and the answer says so.
pub const GREP_LINE_BYTES_MAX: usize = 4 << 20;

/// Bytes of what a search tells; then it stops or counts.
pub const SEARCH_OUTPUT_BYTES_MAX: usize = 128 * 1024;

/// Things on the list of things to do; more are refused.
pub const TODOS_MAX: usize = 100;

/// Characters of one thing to do; a longer one is refused.
pub const TODO_CHARS_MAX: usize = 500;

/// Characters of a question to a person; a longer one is refused.
pub const QUESTION_CHARS_MAX: usize = 4_000;

/// Answers to choose from; more are refused.
pub const CHOICES_MAX: usize = 20;

/// Characters of an answer to choose from; a longer one is refused.
pub const CHOICE_CHARS_MAX: usize = 500;

/// Characters of what is handed on to the person or agent that takes over; more are refused.
pub const HANDOFF_CONTEXT_CHARS_MAX: usize = 65_536;

// Stored results.

/// Bytes of a stored result that one call of `read_result` reads; the model is told where to continue.
pub const RESULT_READ_BYTES_MAX: u64 = 16 * 1024;

/// Characters of the id of a call that `read_result` takes; a longer id is refused.
pub const RESULT_CALL_ID_CHARS_MAX: usize = 128;

// Runs that start runs.

/// Bytes of what a started run is to do; a longer text is refused.
pub const CHILD_RUN_PROMPT_BYTES_MAX: usize = 64 << 10;

/// Tools that a started run may be given by name; a longer list is refused.
pub const CHILD_RUN_TOOLS_MAX: usize = 64;
