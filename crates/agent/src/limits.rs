//! Limits of runs, turns and calls, and limits that several modules use. Each constant says what happens at it.
//!
//! Limits of one module are in the `limits.rs` of its folder.

use std::time::Duration;

// Limits that several modules use.

/// Characters of a tool's name that a provider is told; the rest is left out, and where two would be one the second is
/// numbered.
pub const MODEL_TOOL_NAME_CHARS_MAX: usize = 64;

/// Bytes of an answer that is an error that are read; what is more is left in the socket.
pub const MODEL_ERROR_BODY_BYTES_MAX: usize = 16 << 10;

/// Bytes of what a provider says of an error that go into a message; the rest is left out.
pub const MODEL_ERROR_MESSAGE_BYTES_MAX: usize = 500;

/// Bytes of a path in a call; a longer one is refused.
pub const PATH_BYTES_MAX: usize = 4095;

/// Bytes that are read from a file at a time.
pub const READ_PIECE_BYTES: usize = 64 * 1024;

/// Characters of a summary; the rest is left out.
pub const SUMMARY_CHARS_MAX: usize = 200;

/// Characters of a name from outside that are repeated in a message; the rest is left out.
pub const NAMED_CHARS_MAX: usize = 80;

/// Bytes of a file before or after a diff is applied to it; beyond that the diff is refused.
pub const PATCHED_FILE_BYTES_MAX: usize = 16 << 20;

/// Bytes of a command line; a longer one is refused with `invalid_input`. The operating system takes less than
/// this in one argument.
pub const COMMAND_BYTES_MAX: usize = 120 << 10;

/// How long a command that was asked to end is waited for; then it is killed with all that came from it.
pub const TERM_GRACE: Duration = Duration::from_secs(2);

/// How long the pipes of a command that has ended are waited for when another process holds them open, after all that
/// the command wrote was read. Only time counts in which there was room to read and nothing came. Then
/// `tool.shell.exited` names the streams in `left_open`.
pub const DRAIN_WAIT: Duration = Duration::from_millis(500);

/// Bytes of one stream that one read takes.
pub const READ_AT_ONCE_BYTES: usize = 64 << 10;

/// Bytes of a file that says what is ignored; what stands behind them is not read.
pub const IGNORE_FILE_BYTES_MAX: u64 = 256 * 1024;

/// Characters of a pattern of files or lines; a longer one is refused.
pub const PATTERN_CHARS_MAX: usize = 1_000;

/// Bytes that a compiled regular expression may take; one that takes more is refused.
pub const REGEX_BYTES_MAX: usize = 4 << 20;

/// The longest that a rule may give people to answer, a week; a longer time is refused.
pub const APPROVAL_TIMEOUT_SECONDS_MAX: u64 = 7 * 86_400;

/// How deep its folders may lie in one another.
pub const WORKSPACE_DEPTH_MAX: usize = 128;

/// Bytes of a picture that a model is shown; of a larger one it is told that it is there.
pub const PICTURE_BYTES_MAX: usize = 5 << 20;

// Turns.

/// Calls in one answer; more fails the attempt with `model_malformed`.
pub const MODEL_CALLS_MAX: usize = 128;

/// Millionths of a dollar that one turn may cost; a higher figure, which only a wrong price gives, counts as this.
pub const TURN_COST_MICROS_MAX: u64 = 1 << 36;

/// Bytes of a provider's name for a call; of a call with a longer one, or with control characters in it, our own id is
/// sent back, and `turn.completed` says so.
pub const MODEL_CALL_ID_BYTES_MAX: usize = 512;

/// Bytes of one text delta, about; what comes then begins another.
pub const DELTA_BYTES: usize = 1 << 10;

/// How long the end of a text or of output waits for what comes next because it may begin a secret; then what of it
/// identifies none is told, and the rest waits on.
pub const HOLD_WAIT: Duration = Duration::from_secs(1);

/// How long a text delta gathers; what comes then begins another.
pub const DELTA_TIME: Duration = Duration::from_millis(30);

/// Bytes of text that wait for a report; then the model is not listened to until it is done.
pub const SAYING_BYTES_MAX: usize = 64 << 10;

/// Bytes of one text block; a longer text goes on in another. Less than the rules of a run allow.
pub const BLOCK_BYTES_MAX: usize = 256 << 10;

/// Bytes of one text block as JSON has it, where control characters take six; a longer text goes on in another block.
/// Less than one event may hold.
pub const BLOCK_QUOTED_BYTES_MAX: usize = 768 << 10;

/// Bytes of a text that are taken in at once; a longer piece is taken in parts.
pub const TEXT_PIECE_BYTES_MAX: usize = 16 << 10;

/// Blocks of text and thoughts of one turn, its retries included; a turn that begins more has failed with
/// `model_malformed`. Less than the rules of a run allow.
pub const TURN_BLOCKS_MAX: u64 = 4_000;

/// Bytes that count as a token where nobody has counted.
pub const BYTES_PER_TOKEN: usize = 4;

/// Calls that one turn may make; those after them are refused and the model is told, up to [`MODEL_CALLS_MAX`].
pub const CALLS_PER_TURN_MAX: usize = 64;

/// Read-only calls of one turn that run side by side; further ones run after them.
pub const READS_AT_ONCE: usize = 8;

/// Calls that side by side wait for their events to be written: one each.
pub const READS_TELLING: usize = READS_AT_ONCE;

/// Bytes of a call's input; a call with more is refused and the model told why.
pub const CALL_INPUT_BYTES_MAX: usize = 256 << 10;

/// Bytes of a call's input that are logged while the model writes it, where that is switched on; the whole input comes
/// with the call anyway.
pub const CALL_INPUT_DELTAS_BYTES_MAX: usize = 64 << 10;

/// Images of one answer that are kept, where that is switched on; further ones are dropped, and the log says so.
pub const MODEL_IMAGES_MAX: usize = 4;

/// Bytes, as JSON has it, of an input that cannot be read and is kept as the text that it is; the rest is left out.
pub const CALL_INPUT_QUOTED_BYTES_MAX: usize = 512 << 10;

/// Characters of the name of a tool that an application brings; a longer one is refused.
pub const CLIENT_TOOL_NAME_CHARS_MAX: usize = 128;

/// Turns of a run when its order does not say; then it fails with `turn_limit`.
pub const TURNS_DEFAULT: u64 = 100;

/// Tokens that a model may write in a turn when its order does not say.
pub const OUTPUT_TOKENS_DEFAULT: u32 = 8192;

/// Attempts at one turn; then it has failed.
pub const ATTEMPTS_MAX: u64 = 4;

/// How long the second attempt waits; each one after that twice as long.
pub const BACK_OFF: Duration = Duration::from_millis(500);

/// The longest wait that a provider may ask for; when it wants more the turn has failed.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The share of a budget at which it is warned of, in percent.
pub const BUDGET_WARNING_PCT: u64 = 80;

/// Pictures that a model is shown in one turn; of earlier ones it is told that they were there.
pub const PICTURES_MAX: usize = 20;

// Approvals.

/// Bytes of a call's input that are judged at once; a longer one is judged beside the threads that serve others.
pub const JUDGED_AT_ONCE_BYTES: usize = 4 << 10;

/// Bytes of what people are shown of a call in the request for their permission; of more the beginning is shown, the
/// request says how much there is, and the whole is kept as an artifact.
pub const PREVIEW_BYTES_MAX: usize = 64 << 10;

/// Ways in which allowed changes of the same run may have led to the files that an allowed change finds; of more only
/// the files as they were shown are accepted.
pub const APPROVED_BASES_MAX: usize = 64;

/// Changes of files that were allowed and made which a run remembers while it runs; a change that was shown before a
/// later one was made has to be asked about again.
pub const REWRITTEN_MAX: usize = 1_000;

// Calls.

/// Bytes of why a call failed; the rest is left out.
pub const CALL_ERROR_BYTES_MAX: usize = 16 << 10;

/// Bytes of a call's output that the model is told and the log holds; the rest is kept as an artifact.
pub const OUTPUT_TOLD_BYTES: usize = 32 << 10;

/// How long a call that was broken off may take to clean up after itself; then it is left.
pub const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// How long a command may take when nothing else is said.
pub const COMMAND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10 * 60);

/// The longest time that may be asked for.
pub const COMMAND_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Bytes that a command may write when nothing else is said; then it is stopped.
pub const COMMAND_OUTPUT_DEFAULT: u64 = 16 << 20;

/// The most that may be asked for.
pub const COMMAND_OUTPUT_MAX: u64 = 1 << 30;

/// Characters of a line that says what a call came to, or of an answer's summary; a longer one is cut.
pub const LINE_CHARS_MAX: usize = 500;

// Git, files with headers, and queues.

/// Settings of a repository that name programs and are replaced; with more, git is not run (`git_settings_refused`).
pub const GIT_OVERRIDES_MAX: usize = 500;

/// How long a call of git that is our own may take; then it is killed.
pub const OWN_GIT_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes that a call of git that is our own may write; then it is killed.
pub const OWN_GIT_OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Bytes of a file that holds a header; a longer one is refused when the configuration is read.
pub const HEADER_FILE_BYTES_MAX: u64 = 16 << 10;

/// Runs of a tenant that wait so and let others work in their places; with as many, further ones keep their places.
pub const MCP_LENDERS_MAX: u64 = 1024;

// Earlier runs and instructions.

/// Earlier runs whose conversation a run goes on with; at as many only the newest [`EARLIER_RUNS_MIN`] are left.
pub const EARLIER_RUNS_MAX: usize = 500;

/// Earlier runs that are left when there are too many; those before are left out.
pub const EARLIER_RUNS_MIN: usize = 250;

/// Bytes of conversations that are kept of sessions whose last run ended here; beyond that any of them are read from the
/// log again.
pub const RECALL_BYTES_MAX: usize = 32 << 20;

/// Sessions whose conversations are kept; beyond that any of them are read from the log again.
pub const RECALL_SESSIONS_MAX: usize = 4_000;

/// How long after the log was read a conversation is kept; then it is read again, so that what was pruned since is gone.
pub const RECALL_AGE_MAX: Duration = Duration::from_secs(600);

/// Bytes of one `AGENTS.md` file that a model is given; the rest is left out, and the log says that it was cut.
pub const INSTRUCTION_BYTES_MAX: usize = 16 << 10;

/// Bytes of all `AGENTS.md` files of a workspace that a model is given together; the rest is left out likewise.
pub const INSTRUCTIONS_BYTES_MAX: usize = 32 << 10;

/// Bytes of an `AGENTS.md` file; a larger one is not read, and the log says so.
pub const INSTRUCTION_FILE_BYTES_MAX: u64 = 1 << 20;

/// `AGENTS.md` files of a workspace that are read, those nearest to its root first; of more the log says that there may
/// be others.
pub const INSTRUCTION_FILES_MAX: usize = 16;

/// How deep `AGENTS.md` files are looked for; deeper folders are not visited, and the log says that there may be others.
pub const INSTRUCTIONS_DEPTH_MAX: usize = 4;

/// Files and folders that are looked at for `AGENTS.md` files; then the search stops, and the log says so.
pub const INSTRUCTIONS_ENTRIES_MAX: usize = 5_000;

/// How long `AGENTS.md` files are looked for; then the search stops, and the log says so.
pub const INSTRUCTIONS_TIME_MAX: Duration = Duration::from_secs(2);

/// Runs in which `read_result` looks for a call: this one and those that it continues. Of earlier ones the tool has to be
/// called again.
pub const RESULT_RUNS_MAX: usize = 20;

/// How often in a row a provider may refuse a conversation as too long, each time with a shorter one; then the run fails
/// with `model_context_full`.
pub const CONTEXT_REFUSALS_MAX: u64 = 8;

/// Events of an earlier run that are read at a time.
pub const EARLIER_PAGE: usize = 500;

// Runs that start runs.

/// How many runs may lie above one that starts no more itself; the tool is not offered there.
pub const CHILD_RUN_DEPTH_MAX: u64 = 3;

/// Runs that one run may start; the next call is refused.
pub const CHILD_RUNS_MAX: u64 = 32;
