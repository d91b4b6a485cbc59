//! Bounds of the command line, and what happens at them.

use std::time::Duration;

/// Bytes of a line that a person types as an answer; a longer one is read as several.
pub(crate) const TYPED_BYTES_MAX: usize = 64 * 1024;

/// Things that a run asks at once and that are asked here one after the other; of more, only how to answer them
/// from elsewhere is told.
pub(crate) const PROMPTS_MAX: usize = 100;

/// Lines of what a call would do that are shown at once; how many are left is told, and `m` shows the next.
pub(crate) const PREVIEW_PAGE_LINES: usize = 100;

/// Bytes of what a call would do that are fetched to be shown before it is allowed; of more, the beginning is shown and
/// where the rest is.
pub(crate) const PREVIEW_FETCH_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of a change of a file that are fetched to be shown; a larger one is named.
pub(crate) const PATCH_BYTES_MAX: u64 = 256 * 1024;

/// Bytes of a file that is attached, as many as a server takes for one artifact; a larger one is refused before anything
/// is sent.
pub(crate) const ATTACHED_BYTES_MAX: u64 = 10 << 20;

/// How long the server that this program is itself may take to end; then it is left as it is, which loses nothing
/// that was acknowledged.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(10);

/// How long the demo waits for an answer when nobody is at the terminal; then it answers.
pub(crate) const DEMO_WAIT: Duration = Duration::from_secs(3);

/// The same when a person is.
pub(crate) const DEMO_WAIT_ATTENDED: Duration = Duration::from_secs(15);

/// Threads of a program that may be a server itself; it serves one run.
pub(crate) const STAYING_THREADS: usize = 2;

/// Names that are tried for a temporary folder; when all are taken the demo does not begin.
pub(crate) const FOLDER_ATTEMPTS_MAX: u32 = 100;

/// Bytes of one message that is typed or read from a pipe in a chat; a longer one is refused, and the chat ends.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a picture that is sent in a chat; a larger one is refused before anything is sent. As text it is a third
/// larger.
pub(crate) const IMAGE_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// Bytes of a file that an option or a token is read from; a larger one is refused.
pub(crate) const VALUE_FILE_BYTES_MAX: u64 = 256 * 1024;

/// Messages that are told of a session that is gone on with; how many came before is said.
pub(crate) const HISTORY_SHOWN_MAX: usize = 10;

/// Turns in a row in which answers are given by rule and not by a person; then the chat ends, so that an agent that
/// asks for ever is not answered for ever.
pub(crate) const RULED_TURNS_MAX: usize = 100;

/// How often in a row a page of an export is asked for again while the server does not answer, over about a minute; then
/// the export fails and leaves no file.
pub(crate) const READ_ATTEMPTS_MAX: u32 = 12;

/// The wait before a page is asked for again; it doubles with each attempt in vain, up to [`READ_RETRY_MAX`].
pub(crate) const READ_RETRY: Duration = Duration::from_millis(250);

/// The longest wait before a page is asked for again.
pub(crate) const READ_RETRY_MAX: Duration = Duration::from_secs(8);

/// Bytes of one run that an export holds until the run was read whole; a longer run is read twice.
pub(crate) const EXPORT_HELD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How often an export reads a run again whose beginning was pruned meanwhile; then the run counts as one that cannot be
/// read.
pub(crate) const EXPORT_PRUNED_MAX: usize = 3;

/// Patches of one exported series, as many as four digits number; more are refused.
pub(crate) const SERIES_PATCHES_MAX: usize = 9999;

/// Bytes of one exported series, which is held until all of it was read; more are refused.
pub(crate) const SERIES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Successors that the reply of a run names at most. A series of patches is refused for a run without a task that may have
/// more.
pub(crate) const SUCCESSORS_SHOWN: usize = 50;

/// Damaged stretches of one run that `verify` names; that there are more is said in one sentence.
pub(crate) const DAMAGED_NAMED_MAX: usize = 20;

/// How often a person is asked what becomes of an unfinished run; then nothing is done.
pub(crate) const CHOICE_ATTEMPTS_MAX: usize = 3;
/// How long nothing is heard before a sign of life is shown on a terminal; then it is drawn anew each [`PULSE_EVERY`].
pub(crate) const PULSE_FIRST: Duration = Duration::from_secs(1);

/// How often the sign of life on a terminal is drawn.
pub(crate) const PULSE_EVERY: Duration = Duration::from_secs(1);

/// Seconds after which signs of life are written where there is no terminal; after the last, as often as that is long.
pub(crate) const PULSE_NOTES_SECONDS: [u64; 6] = [10, 30, 60, 120, 300, 600];

/// How long the last word of a text waits for its end, so that it is not broken; then it is written as it is.
pub(crate) const HELD_WORD_WAIT: Duration = Duration::from_millis(200);

/// Columns of a terminal that does not say how many it has.
pub(crate) const COLUMNS_DEFAULT: usize = 80;

/// Bytes that are read from the keyboard at a time; more wait in the terminal.
pub(crate) const KEY_BYTES: usize = 256;

/// How long one utterance may take beside the time of its characters; then the next one is spoken, whatever is reported.
pub(crate) const SPEECH_UTTERANCE_WAIT: Duration = Duration::from_secs(10);

/// How long each character of an utterance may take: twice as long as with the slowest rate.
pub(crate) const SPEECH_CHARACTER_WAIT: Duration = Duration::from_millis(250);

/// How long the end of an utterance that was cancelled is awaited; then the next one is spoken.
pub(crate) const SPEECH_CANCEL_WAIT: Duration = Duration::from_secs(2);

/// How long the rest is spoken after a subscription has ended; then the program ends.
pub(crate) const SPEECH_FINISH_WAIT: Duration = Duration::from_secs(60);
