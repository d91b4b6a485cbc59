//! Limits of runs, turns and calls, and limits that several modules use. Each constant says what happens at the limit.
//!
//! Limits of one module are in the `limits.rs` of its folder.

use std::time::Duration;

// Limits that several modules use.

/// Characters of a tool name that is sent to a provider; a longer name is cut, and a duplicate gets a number.
pub const MODEL_TOOL_NAME_CHARS_MAX: usize = 64;

/// Bytes that are read of an error response; the rest is not read.
pub const MODEL_ERROR_BODY_BYTES_MAX: usize = 16 << 10;

/// Bytes of a provider's error text in a message; the rest is left out.
pub const MODEL_ERROR_MESSAGE_BYTES_MAX: usize = 500;

/// Bytes of a path in a call; a longer one is refused.
pub const PATH_BYTES_MAX: usize = 4095;

/// Bytes of one read from a file.
pub const READ_PIECE_BYTES: usize = 64 * 1024;

/// Characters of a summary; the rest is left out.
pub const SUMMARY_CHARS_MAX: usize = 200;

/// Characters of an external name in a message; the rest is left out.
pub const NAMED_CHARS_MAX: usize = 80;

/// Bytes of a file before or after a diff is applied to it; beyond that the diff is refused.
pub const PATCHED_FILE_BYTES_MAX: usize = 16 << 20;

/// Bytes of a command line; a longer one is refused with `invalid_input`. The operating system's limit for one argument
/// is higher.
pub const COMMAND_BYTES_MAX: usize = 120 << 10;

/// Time for a command to end after the request to end; then it is killed with all its processes.
pub const TERM_GRACE: Duration = Duration::from_secs(2);

/// Time to wait for more output of an ended command while another process holds its pipes open. Only time counts in
/// which a read was possible and no data arrived. Then `tool.shell.exited` names the streams in `left_open`.
pub const DRAIN_WAIT: Duration = Duration::from_millis(500);

/// Bytes of one read from an output stream.
pub const READ_AT_ONCE_BYTES: usize = 64 << 10;

/// Bytes of an ignore file; the rest is not read.
pub const IGNORE_FILE_BYTES_MAX: u64 = 256 * 1024;

/// Characters of a file or line pattern; a longer one is refused.
pub const PATTERN_CHARS_MAX: usize = 1_000;

/// Bytes of a compiled regular expression; a larger one is refused.
pub const REGEX_BYTES_MAX: usize = 4 << 20;

/// The maximum approval timeout of a rule, a week; a longer one is refused.
pub const APPROVAL_TIMEOUT_SECONDS_MAX: u64 = 7 * 86_400;

/// The maximum depth of folders in a workspace.
pub const WORKSPACE_DEPTH_MAX: usize = 128;

/// Bytes of a picture that is sent to a model; a note replaces a larger one.
pub const PICTURE_BYTES_MAX: usize = 5 << 20;

// Turns.

/// Calls in one response; more fail the attempt with `model_malformed`.
pub const MODEL_CALLS_MAX: usize = 128;

/// Millionths of a dollar that one turn may cost; a higher figure, which only a wrong price gives, counts as this.
pub const TURN_COST_MICROS_MAX: u64 = 1 << 36;

/// Bytes of a provider's id for a call. A longer id, or one with control characters, is replaced by our own, and
/// `turn.completed` reports it.
pub const MODEL_CALL_ID_BYTES_MAX: usize = 512;

/// Approximate bytes of one text delta; further text starts another.
pub const DELTA_BYTES: usize = 1 << 10;

/// How long the end of a text or output is held back because it may start a secret; then everything that identifies no
/// secret is released, and the rest waits for more text.
pub const HOLD_WAIT: Duration = Duration::from_secs(1);

/// How long text is batched into one delta; later text starts another.
pub const DELTA_TIME: Duration = Duration::from_millis(30);

/// Bytes of text that wait for a report; at the limit, reading from the model pauses.
pub const RESPONSE_PENDING_BYTES_MAX: usize = 64 << 10;

/// Bytes of one text block; a longer text continues in another block. Less than the rules of a run allow.
pub const BLOCK_BYTES_MAX: usize = 256 << 10;

/// Bytes of one text block as JSON, where control characters take six; a longer text continues in another block. Less
/// than one event may hold.
pub const BLOCK_QUOTED_BYTES_MAX: usize = 768 << 10;

/// Bytes of text that are processed at once; a longer piece is divided.
pub const TEXT_PIECE_BYTES_MAX: usize = 16 << 10;

/// Text and thinking blocks of one turn, its retries included; a turn with more fails with `model_malformed`. Less than
/// the rules of a run allow.
pub const TURN_BLOCKS_MAX: u64 = 4_000;

/// Bytes per token in estimates.
pub const BYTES_PER_TOKEN: usize = 4;

/// Calls of one turn; further ones, up to [`MODEL_CALLS_MAX`], are refused with a message to the model.
pub const CALLS_PER_TURN_MAX: usize = 64;

/// Read-only calls of one turn that run in parallel; further ones run after them.
pub const READS_AT_ONCE: usize = 8;

/// Reports of parallel calls that wait to be logged: one each.
pub const READ_REPORTS_QUEUED_MAX: usize = READS_AT_ONCE;

/// Bytes of a call's input; a call with more is refused with a message to the model.
pub const CALL_INPUT_BYTES_MAX: usize = 256 << 10;

/// Bytes of a call's input that are logged as deltas, if these are enabled. The complete input is logged with the call.
pub const CALL_INPUT_DELTAS_BYTES_MAX: usize = 64 << 10;

/// Images of one response that are stored, if these are enabled; further ones are dropped, and the log reports it.
pub const MODEL_IMAGES_MAX: usize = 4;

/// Bytes, as JSON, of an unreadable input that is kept as text; the rest is left out.
pub const CALL_INPUT_QUOTED_BYTES_MAX: usize = 512 << 10;

/// Characters of the name of a client tool; a longer one is refused.
pub const CLIENT_TOOL_NAME_CHARS_MAX: usize = 128;

/// Turns of a run without a limit of its own; then it fails with `turn_limit`.
pub const TURNS_DEFAULT: u64 = 100;

/// Tokens of one response in a run without a limit of its own.
pub const OUTPUT_TOKENS_DEFAULT: u32 = 8192;

/// Attempts at one turn; then the turn fails.
pub const ATTEMPTS_MAX: u64 = 4;

/// The wait before the second attempt; each further wait is twice as long.
pub const BACK_OFF: Duration = Duration::from_millis(500);

/// The longest wait that a provider may request; after a longer one the turn fails.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The share of a budget that triggers the warning, in percent.
pub const BUDGET_WARNING_PCT: u64 = 80;

/// Pictures that are sent to a model in one turn; notes replace earlier ones.
pub const PICTURES_MAX: usize = 20;

// Approvals.

/// Bytes of a call's input that the policy judges on the worker's thread; longer inputs are judged on a blocking
/// thread.
pub const JUDGED_AT_ONCE_BYTES: usize = 4 << 10;

/// Bytes of a call in an approval request. Of a longer one the beginning is shown with the full size, and the rest is
/// stored as an artifact.
pub const PREVIEW_BYTES_MAX: usize = 64 << 10;

/// Combinations of earlier allowed changes of a run that an allowed change accepts as its starting point; beyond that
/// only the files as displayed are accepted.
pub const APPROVED_BASES_MAX: usize = 64;

/// Allowed file changes that an active run remembers. Beyond that, a change that was displayed before a later change
/// was made needs a new approval.
pub const FILE_REVISIONS_MAX: usize = 1_000;

// Calls.

/// Bytes of a call's error; the rest is left out.
pub const CALL_ERROR_BYTES_MAX: usize = 16 << 10;

/// Bytes of a call's output in the log and for the model; the rest is stored as an artifact.
pub const OUTPUT_SHOWN_BYTES: usize = 32 << 10;

/// Time for a cancelled call to clean up; then it is abandoned.
pub const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// The timeout of a command without one of its own.
pub const COMMAND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10 * 60);

/// The longest timeout that can be requested.
pub const COMMAND_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Output bytes of a command without a limit of its own; then it is stopped.
pub const COMMAND_OUTPUT_DEFAULT: u64 = 16 << 20;

/// The highest output limit that can be requested.
pub const COMMAND_OUTPUT_MAX: u64 = 1 << 30;

/// Characters of the summary line of a call or response; a longer one is cut.
pub const LINE_CHARS_MAX: usize = 500;

// Git, files with headers, and queues.

/// Settings of a repository that name programs and are replaced; with more, git is not run (`git_settings_refused`).
pub const GIT_OVERRIDES_MAX: usize = 500;

/// The timeout of git commands of the server; then git is killed.
pub const OWN_GIT_TIME_MAX: Duration = Duration::from_secs(60);

/// Output bytes of git commands of the server; then git is killed.
pub const OWN_GIT_OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Bytes of a file with a header value; a longer one is rejected when the configuration is read.
pub const HEADER_FILE_BYTES_MAX: u64 = 16 << 10;

/// Runs of a tenant that lend their work slot while they wait for MCP servers; further ones keep their slot.
pub const MCP_LENDERS_MAX: u64 = 1024;

// Earlier runs and instructions.

/// Earlier runs in the conversation of a run; at the limit only the newest [`EARLIER_RUNS_MIN`] are used.
pub const EARLIER_RUNS_MAX: usize = 500;

/// Earlier runs that are used when there are too many.
pub const EARLIER_RUNS_MIN: usize = 250;

/// Bytes of cached conversations; beyond that random entries are evicted.
pub const CONVERSATION_CACHE_BYTES_MAX: usize = 32 << 20;

/// Sessions in the conversation cache; beyond that random entries are evicted.
pub const CONVERSATION_CACHE_SESSIONS_MAX: usize = 4_000;

/// How long a conversation is cached after it was read; then it is read again, without events that were pruned since.
pub const CONVERSATION_CACHE_AGE_MAX: Duration = Duration::from_secs(600);

/// Bytes of one `AGENTS.md` file that are sent to a model; the rest is left out, and the log reports it.
pub const INSTRUCTION_BYTES_MAX: usize = 16 << 10;

/// Bytes of all `AGENTS.md` files of a workspace that are sent to a model; the rest is left out, and the log reports
/// it.
pub const INSTRUCTIONS_BYTES_MAX: usize = 32 << 10;

/// Bytes of an `AGENTS.md` file; a larger one is not read, and the log reports it.
pub const INSTRUCTION_FILE_BYTES_MAX: u64 = 1 << 20;

/// `AGENTS.md` files of a workspace that are read, those nearest to the root first; if there are more, the log reports
/// that the list may be incomplete.
pub const INSTRUCTION_FILES_MAX: usize = 16;

/// The depth to which `AGENTS.md` files are searched; if there are deeper folders, the log reports that the list may be
/// incomplete.
pub const INSTRUCTIONS_DEPTH_MAX: usize = 4;

/// Files and folders that the search for `AGENTS.md` files visits; then it stops, and the log reports it.
pub const INSTRUCTIONS_ENTRIES_MAX: usize = 5_000;

/// The time limit of the search for `AGENTS.md` files; then it stops, and the log reports it.
pub const INSTRUCTIONS_TIME_MAX: Duration = Duration::from_secs(2);

/// Runs in which `read_result` looks for a call: this one and those that it continues. For older results the tool must
/// be called again.
pub const RESULT_RUNS_MAX: usize = 20;

/// Consecutive rejections of a conversation as too long, each after it was shortened; then the run fails with
/// `model_context_full`.
pub const CONTEXT_REFUSALS_MAX: u64 = 8;

/// Events of an earlier run in one read.
pub const EARLIER_PAGE: usize = 500;

// Runs that start runs.

/// Ancestors of a run that cannot start child runs; the tool is not offered there.
pub const CHILD_RUN_DEPTH_MAX: u64 = 3;

/// Child runs of one run; the next call is refused.
pub const CHILD_RUNS_MAX: u64 = 32;
