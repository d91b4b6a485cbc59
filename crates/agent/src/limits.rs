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

/// How long a provider may give signs of life and say nothing, where its settings do not say; then the attempt
/// fails with `model_timeout`.
pub const MODEL_LIFE_SIGNS_TIMEOUT: Duration = Duration::from_secs(600);

/// The longest patience that settings may ask for; a longer one is cut to it.
pub const MODEL_PATIENCE_MAX: Duration = Duration::from_secs(86_400);

/// How long a provider may take to accept a connection; then the attempt fails with `model_unreachable`.
pub const MODEL_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection to a provider is kept for the next request; then it is closed.
pub const MODEL_CONNECTION_IDLE: Duration = Duration::from_secs(60);

/// How long the end of a stream is waited for once its last word is there, so that its connection can be used
/// again; then the connection is closed.
pub const MODEL_TAIL_TIMEOUT: Duration = Duration::from_millis(100);

/// Bytes of one line of a provider's stream; more fails the attempt with `model_malformed`.
pub const MODEL_LINE_BYTES_MAX: usize = 2 << 20;

/// Bytes of one event of a provider's stream; more fails the attempt with `model_malformed`.
pub const MODEL_EVENT_BYTES_MAX: usize = 4 << 20;

/// Bytes of a provider's whole stream; more fails the attempt with `model_malformed`.
pub const MODEL_ANSWER_BYTES_MAX: usize = 64 << 20;

/// Calls in one answer; more fails the attempt with `model_malformed`.
pub const MODEL_CALLS_MAX: usize = 128;

/// Bytes of the inputs of all calls of an answer; more fails the attempt with `model_malformed`.
pub const MODEL_CALL_BYTES_MAX: usize = 4 << 20;

/// Tokens that one figure of a provider's usage may be; a larger one counts as this, and `turn.completed` says so. More
/// than any model takes or writes, and small enough that the figures of a whole run stay below 2^53.
pub const MODEL_TOKENS_MAX: u64 = 1 << 32;

/// Millionths of a dollar that one turn may cost; a higher figure, which only a wrong price gives, counts as this.
pub const TURN_COST_MICROS_MAX: u64 = 1 << 36;

/// Bytes of a provider's name for a call; of a call with a longer one, or with control characters in it, our own id is
/// sent back, and `turn.completed` says so.
pub const MODEL_CALL_ID_BYTES_MAX: usize = 512;

/// Characters of a tool's name that a provider is told; the rest is left out, and where two would be one the second is
/// numbered.
pub const MODEL_TOOL_NAME_CHARS_MAX: usize = 64;

/// Bytes of an answer that is an error that are read; what is more is left in the socket.
pub const MODEL_ERROR_BODY_BYTES_MAX: usize = 16 << 10;

/// The longest that a provider's wish to be left alone is told; a longer one is cut to it.
pub const MODEL_RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Bytes of the beginning of a key that are masked where a message was cut in the middle of it; fewer say nothing of it.
pub const MODEL_KEY_PART_BYTES: usize = 4;

/// Bytes of what a provider says of an error that go into a message; the rest is left out.
pub const MODEL_ERROR_MESSAGE_BYTES_MAX: usize = 500;

// MCP servers.

/// Characters of the name of a server; a longer one is refused when the configuration is read.
pub const MCP_SERVER_NAME_CHARS_MAX: usize = 24;

/// Servers of a configuration; more are refused when it is read.
pub const MCP_SERVERS_MAX: usize = 32;

/// Tools of a server; the others are not offered, and the log says so.
pub const MCP_TOOLS_MAX: usize = 128;

/// Pages of a server's list of tools that are read; what is on further ones is not offered.
pub const MCP_PAGES_MAX: usize = 32;

/// Bytes of a tool's name on its server; one with a longer name is not offered, and the log says so.
pub const MCP_TOOL_NAME_BYTES_MAX: usize = 256;

/// Bytes of the schema of a server's tool; one with a longer schema is not offered, and the log says so.
pub const MCP_SCHEMA_BYTES_MAX: usize = 64 << 10;

/// Bytes of the description of a server's tool that models are told; the rest is left out.
pub const MCP_DESCRIPTION_BYTES_MAX: usize = 8 << 10;

/// Bytes of one message of a server; a longer one fails the call with `mcp_flooded` and ends the connection.
pub const MCP_MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Bytes that a server may send for one request; more fails the call with `mcp_flooded` and ends the connection.
pub const MCP_CALL_BYTES_MAX: usize = 16 << 20;

/// Messages that a server may send for one request; more fails the call with `mcp_flooded` and ends the connection.
pub const MCP_CALL_MESSAGES_MAX: usize = 10_000;

/// Lines that a server may write which are no messages; one more fails the call with `mcp_garbled` and ends the connection.
pub const MCP_ODD_LINES_MAX: usize = 64;

/// Rounds of one call in which a server may ask for more input; then the call fails with `mcp_input_required`.
pub const MCP_ROUNDS_MAX: usize = 8;

/// Parts of a result that are read; the model is told how many were left out.
pub const MCP_BLOCKS_MAX: usize = 256;

/// Bytes of a result that are kept; the rest is left out, and the model is told so.
pub const MCP_OUTPUT_BYTES_MAX: usize = 2 << 20;

/// Characters of a link, or of another label of a result, that the model is told; the rest is left out.
pub const MCP_LINK_CHARS_MAX: usize = 2_000;

/// Bytes of what a server says of an error that are kept; the rest is left out.
pub const MCP_ERROR_BYTES_MAX: usize = 2_000;

/// Bytes of a file that holds a header; a longer one is refused when the configuration is read.
pub const HEADER_FILE_BYTES_MAX: u64 = 16 << 10;

/// How often a server is reached for a run until the run leaves its servers; then its tools are missing and calls fail
/// with `mcp_unreachable`.
pub const MCP_STARTS_MAX: usize = 5;

/// Different messages about missing tools that one worker writes to the log; further ones are left out.
pub const MCP_SAID_MAX: usize = 64;

/// How long a server has to start and to list its tools, where the settings do not say; then its tools are missing.
pub const MCP_START_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a server has to answer a call, where the settings do not say; then the call fails with `mcp_timeout`.
pub const MCP_CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The longest of these times that settings may say; a longer one is refused when the configuration is read.
pub const MCP_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// How long a server has to answer `server/discover`; then it is spoken with in the older way.
pub const MCP_DISCOVER_WAIT: Duration = Duration::from_secs(5);

/// How long a server is told goodbye, or that a call was given up; then it is ended without.
pub const MCP_FAREWELL_WAIT: Duration = Duration::from_secs(1);

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

/// Bytes of a file before or after a diff is applied to it; beyond that the diff is refused.
pub const PATCHED_FILE_BYTES_MAX: usize = 16 << 20;

/// Files that one diff may be of; beyond that it is refused.
pub const PATCH_FILES_MAX: usize = 1_000;

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

// Commands: what they may use, and how they are held to it.

/// Memory of all processes of a command, where the settings do not say; one that takes more is killed and fails
/// with `memory_limit`.
pub const COMMAND_MEMORY_BYTES: u64 = 4 << 30;

/// Memory of the warden, which is counted with the command's where the kernel bounds it.
pub const COMMAND_MEMORY_SLACK_BYTES: u64 = 32 << 20;

/// Processes and threads of a command, where the settings do not say; one that starts more is killed and fails
/// with `process_limit`.
pub const COMMAND_PROCESSES: u32 = 512;

/// Processes and threads that an ordinary user may have beyond those at the start of a command and those that the
/// command is allowed; then the command can start no more.
pub const COMMAND_PROCESSES_SLACK: u64 = 2_048;

/// The same where the command has a user of its own, as where the server is root; then the command can start no more.
pub const COMMAND_PROCESSES_ALONE_SLACK: u64 = 8;

/// Names that are tried for the control group of a command, where others are left of processes with the same number; then the
/// command has none, and is not started where the log says that it has.
pub const COMMAND_GROUP_NAMES: usize = 16;

/// Files that one process of a command may have open; then it can open no more.
pub const COMMAND_OPEN_FILES: u64 = 65_536;

/// Memory that the processes of a command may keep from being put on a disk; more is refused.
pub const COMMAND_LOCKED_BYTES: u64 = 64 << 20;

/// Signals that may wait for the processes of a user, its timers among them, when one of a command queues another; then that
/// is refused.
pub const COMMAND_SIGNALS_WAITING: u64 = 32_768;

/// Bytes of queues of messages that a user may have when a command makes another; then that is refused.
pub const COMMAND_QUEUE_BYTES: u64 = 800 << 10;

/// The longest file that a command may write, where the settings do not say; writing on fails.
pub const COMMAND_FILE_BYTES: u64 = 8 << 30;

/// What a command's own `/tmp` holds, where it is memory and the settings do not say; writing on fails.
pub const COMMAND_TMP_BYTES: u64 = 1 << 30;

/// What a workspace may hold on the disk, where the settings do not say: a copy in all, a folder that is worked in itself
/// beside what was there. A command that writes more is killed and fails with `workspace_limit`; the next one may remove and
/// not write.
pub const COMMAND_WORKSPACE_BYTES: u64 = 10 << 30;

/// Files and folders that a workspace may hold, counted in the same way; more fail with `workspace_limit`, too.
pub const COMMAND_WORKSPACE_ENTRIES: u64 = 2_000_000;

/// Bytes of the workspace's disk that commands leave to others, and never more than a fiftieth of it; a command with which
/// it comes to less is killed and fails with `workspace_limit`, and one that begins then may remove and not write.
pub const COMMAND_DISK_RESERVE_BYTES: u64 = 256 << 20;

/// Files and folders for which the workspace's disk has places that commands leave to others, and never more than a fiftieth
/// of all it has; the same happens then. A disk that does not count them bounds none.
pub const COMMAND_DISK_RESERVE_ENTRIES: u64 = 16_384;

/// Bytes that a full workspace may grow by while a command removes something from it; then that is killed, too.
pub const WORKSPACE_REMOVING_BYTES: u64 = 16 << 20;

/// Files and folders by which it may grow meanwhile; then that is killed, too.
pub const WORKSPACE_REMOVING_ENTRIES: u64 = 1_000;

/// Files and folders that are measured between two looks at a command; the rest waits for the next look.
pub const WORKSPACE_ENTRIES_AT_ONCE: usize = 2_000;

/// Files with several names that a measurement remembers; beyond that each name counts as a file.
pub const WORKSPACE_LINKS_MAX: usize = 400_000;

/// Links that are followed from one `.git`; what is behind more, the operating system does not follow either.
pub const GIT_LINKS_MAX: usize = 40;

/// How long a workspace is measured before a command begins or after it ended. Then a command begins, bounded by how much
/// fuller the disk gets while the measurement goes on beside it; and after one there is an estimate.
pub const WORKSPACE_MEASURE_WAIT: Duration = Duration::from_secs(2);

/// How long it is measured before a command where it is full by such an estimate; then the command may remove and not write.
pub const WORKSPACE_MEASURE_WAIT_IN_DOUBT: Duration = Duration::from_secs(10);

/// How long a command runs until its workspace is measured although the disk did not get fuller.
pub const WORKSPACE_MEASURE_EVERY: Duration = Duration::from_secs(60);

/// How long what a command left in its workspace counts as known; then it is measured again before the next one.
pub const WORKSPACE_KNOWN_FOR: Duration = Duration::from_secs(600);

/// Workspaces of which is remembered what they hold; beyond that all of them are measured again.
pub const WORKSPACES_KNOWN_MAX: usize = 10_000;

/// Bytes of a command line; a longer one is refused with `invalid_input`. The operating system takes less than
/// this in one argument.
pub const COMMAND_BYTES_MAX: usize = 120 << 10;

/// How long a command that was asked to end is waited for; then it is killed with all that came from it.
pub const TERM_GRACE: Duration = Duration::from_secs(2);

/// How long a command is waited for beyond that; then its warden is killed, too.
pub const WARDEN_PATIENCE: Duration = Duration::from_secs(5);

/// How long a command may take to start; then it is not started.
pub const START_WAIT: Duration = Duration::from_secs(20);

/// How often a warden looks what the processes of a command use. Between two looks a command may take more than
/// it is allowed.
pub const TREE_LOOK_EVERY: Duration = Duration::from_millis(20);

/// How far commands stand back when the machine is busy.
pub const COMMAND_NICENESS: i32 = 5;

/// Processes that one look finds; more are not counted, and are many more than any command may have.
pub const TREE_MEMBERS_MAX: usize = 100_000;

/// How often processes that were killed are looked for.
pub const KILL_LOOK_EVERY: Duration = Duration::from_millis(1);

/// Rounds of killing; a process that is still there then cannot be killed, and is left to the operating system.
pub const KILL_ROUNDS_MAX: usize = 10_000;

/// Bytes of what a warden is told of one command; more is not started.
pub const PLAN_BYTES_MAX: usize = 1 << 20;

/// Bytes of one line that a warden tells; a longer one is taken for its end.
pub const NEWS_BYTES_MAX: usize = 16 << 10;

/// Rules that one sandbox of Landlock takes; what needs more is not started.
pub const LANDLOCK_RULES_MAX: usize = 20_000;

/// Names tried for the private folder of a command; when all are taken it is not started.
pub const PRIVATE_FOLDER_ATTEMPTS: u32 = 100;

/// Bytes of a pipe of output; a command that writes more than that before it is read waits.
pub const PIPE_BYTES: usize = 1 << 20;

/// How long the pipes of a command that has ended are waited for when another process holds them open, after all that
/// the command wrote was read. Only time counts in which there was room to read and nothing came. Then
/// `tool.shell.exited` names the streams in `left_open`.
pub const DRAIN_WAIT: Duration = Duration::from_millis(500);

/// Tools of ours that run at once when nothing else is configured; further calls wait in a queue, and the logs of their
/// runs say so with `run.throttled`.
pub const TOOLS_AT_ONCE: usize = 64;

/// Runs of a tenant that may have MCP servers which are commands at one time, when nothing else is configured; further
/// runs wait in a queue, and their logs say so with `run.throttled`.
pub const MCP_AT_ONCE: usize = 128;

/// Runs of a tenant that wait so and let others work in their places; with as many, further ones keep their places.
pub const MCP_LENDERS_MAX: u64 = 1024;

/// Bytes of one piece of output; a longer one becomes several.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Pieces of output that are told with the end of a command; more are told before it.
pub const CHUNKS_TOLD_LAST: usize = 4;

/// Bytes of one stream that one read takes.
pub const READ_AT_ONCE_BYTES: usize = 64 << 10;

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

/// Settings of a repository that name programs and are replaced; with more, git is not run (`git_settings_refused`).
pub const GIT_OVERRIDES_MAX: usize = 500;

/// Bytes of the names of a repository's settings; with more, git is not run (`git_settings_unreadable`).
pub const GIT_SETTINGS_BYTES_MAX: usize = 1 << 20;

/// How long a call of git that is our own may take; then it is killed.
pub const OWN_GIT_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes that a call of git that is our own may write; then it is killed.
pub const OWN_GIT_OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Arguments of a tool that runs git; more are refused with `invalid_input`.
pub const GIT_ARGUMENTS_MAX: usize = 256;

// The web.

/// Bytes of an address; a longer one is refused with `url_refused`.
pub const WEB_URL_BYTES_MAX: usize = 8 << 10;

/// Bytes of an address in a message; the rest is left out.
pub const WEB_NAMED_URL_BYTES_MAX: usize = 500;

/// Addresses that a host resolves to and that are used; further ones are left out.
pub const WEB_ADDRESSES_MAX: usize = 16;

/// Redirects of one request; then the call fails with `too_many_redirects`.
pub const WEB_REDIRECTS_MAX: usize = 8;

/// How long resolving a name, and accepting a connection, may take; then the call fails with `name_not_resolved` or
/// `unreachable`.
pub const WEB_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may send nothing; then the call ends with `timeout`, and what came is told.
pub const WEB_SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a request with all its redirects may take; then the call ends with `timeout`, and what came is told.
pub const WEB_TIMEOUT: Duration = Duration::from_secs(30);

/// Hosts that have headers of their own; with more the configuration is refused.
pub const WEB_HOSTS_MAX: usize = 64;

/// Headers that a call may send; one with more is refused.
pub const WEB_HEADERS_SENT_MAX: usize = 32;

/// Headers of a response; one with more fails with `response_invalid`.
pub const WEB_HEADERS_MAX: usize = 100;

/// Bytes of the headers of a response; one with more fails with `response_invalid`.
pub const WEB_HEADER_BYTES_MAX: usize = 64 << 10;

/// Characters of a header that a model is told; the rest is left out.
pub const WEB_HEADER_CHARS_TOLD: usize = 500;

/// Bytes of a response to `http_request`; the rest is not read, and `body_truncated` says so.
pub const HTTP_BODY_BYTES_MAX: usize = 256 << 10;

/// Bytes of a page that `web_fetch` reads; the rest is not read, and `body_truncated` says so.
pub const WEB_PAGE_BYTES_MAX: usize = 2 << 20;

/// Bytes of the text of a page; the rest is left out, and the last part says so.
pub const WEB_TEXT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a text that one call tells, a little less than [`OUTPUT_TOLD_BYTES`]; `web_fetch` continues where it is told to.
pub const WEB_TOLD_BYTES: usize = 28 << 10;

/// Bytes of the title of a page; the rest is left out.
pub const WEB_TITLE_BYTES_MAX: usize = 300;

/// Bytes of the address of a link in a page; of a longer one only the text is told.
pub const WEB_LINK_BYTES_MAX: usize = 2_000;

/// How long a search may take; then the call ends with `timeout`.
pub const SEARCH_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of a provider's answer to a search; a longer one fails with `search_unreadable`.
pub const SEARCH_BODY_BYTES_MAX: usize = 1 << 20;

/// Characters that may be searched for; more are refused.
pub const SEARCH_QUERY_CHARS_MAX: usize = 500;

/// Results of a search when its call does not say.
pub const SEARCH_HITS_DEFAULT: u64 = 5;

/// The most results that may be asked for.
pub const SEARCH_HITS_MAX: u64 = 10;

/// Characters of a result's title; the rest is left out.
pub const SEARCH_TITLE_CHARS_MAX: usize = 200;

/// Characters of a result's extract; the rest is left out.
pub const SEARCH_SNIPPET_CHARS_MAX: usize = 600;

// Hooks.

/// Hooks of a configuration; more are refused when it is read.
pub const HOOKS_MAX: usize = 32;

/// Characters of the name of a hook; a longer one is refused when the configuration is read.
pub const HOOK_NAME_CHARS_MAX: usize = 64;

/// How long a hook has for one call, where the settings do not say; then it is killed and has failed.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest of these times that settings may say; a longer one is refused when the configuration is read.
pub const HOOK_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Bytes that a hook may write to standard output and standard error together; then it is killed and has failed.
pub const HOOK_OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a hook's reason that the log and the model get; the rest is left out.
pub const HOOK_REASON_BYTES_MAX: usize = 4 << 10;

// Policy.

/// Commands of one command line that are judged one by one; a line with more cannot be judged in full, so people are
/// asked about it.
pub const COMMANDS_MAX: usize = 200;

/// How deep commands may stand in one another; a line with deeper ones cannot be judged in full, so people are asked
/// about it.
pub const COMMAND_DEPTH_MAX: usize = 8;

/// Programs that run a command one in another, as `sudo env nice ls` has three; a line with more cannot be judged in
/// full, so people are asked about it.
pub const COMMAND_WRAPPERS_MAX: usize = 8;

/// Bytes of text and words that are gone through to read one command line, counted each time; a line that needs more
/// cannot be judged in full, so people are asked about it. The longest line may be read about eight times, once for each
/// command that is part of another.
pub const COMMAND_STEPS_MAX: usize = 8 * COMMAND_BYTES_MAX;

/// Bytes of a call's input that are judged at once; a longer one is judged beside the threads that serve others.
pub const JUDGED_AT_ONCE_BYTES: usize = 4 << 10;

/// Bytes of a policy's file; a larger one is refused.
pub const POLICY_BYTES_MAX: usize = 256 * 1024;

/// Rules of a policy; one with more is refused.
pub const POLICY_RULES_MAX: usize = 500;

/// Characters of a rule's id; a longer one is refused.
pub const RULE_ID_CHARS_MAX: usize = 64;

/// Characters of any other text in a rule; a longer one is refused.
pub const RULE_TEXT_CHARS_MAX: usize = 500;

/// Bytes of what people are shown of a call in the request for their permission; of more the beginning is shown, the
/// request says how much there is, and the whole is kept as an artifact.
pub const PREVIEW_BYTES_MAX: usize = 64 << 10;

/// Ways in which allowed changes of the same run may have led to the files that an allowed change finds; of more only
/// the files as they were shown are accepted.
pub const APPROVED_BASES_MAX: usize = 64;

/// Changes of files that were allowed and made which a run remembers while it runs; a change that was shown before a
/// later one was made has to be asked about again.
pub const REWRITTEN_MAX: usize = 1_000;

/// How long people have to answer when a rule does not say.
pub const APPROVAL_TIMEOUT_SECONDS: u64 = 3_600;

/// The longest that a rule may give people to answer, a week; a longer time is refused.
pub const APPROVAL_TIMEOUT_SECONDS_MAX: u64 = 7 * 86_400;

// Looking for files, lists and questions.

/// How deep a search goes into folders; deeper ones are left out, and the answer says that it is not whole.
pub const WALK_DEPTH_MAX: usize = 100;

/// Files and folders that a search goes through; further ones are left out, and the answer says so.
pub const WALK_ENTRIES_MAX: usize = 500_000;

/// Files and folders after which a search looks again whether it is cancelled.
pub const WALK_LOOK_EVERY: usize = 1_000;

/// Bytes of a file that says what is ignored; what stands behind them is not read.
pub const IGNORE_FILE_BYTES_MAX: u64 = 256 * 1024;

/// Characters of a pattern of files or lines; a longer one is refused.
pub const PATTERN_CHARS_MAX: usize = 1_000;

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

/// Bytes that a compiled regular expression may take; one that takes more is refused.
pub const REGEX_BYTES_MAX: usize = 4 << 20;

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

// ---- turns ---------------------------------------------------------------------------------------

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

// ---- calls ---------------------------------------------------------------------------------------

/// Bytes of why a call failed; the rest is left out.
pub const CALL_ERROR_BYTES_MAX: usize = 16 << 10;

/// Bytes of a call's output that the model is told and the log holds; the rest is kept as an artifact.
pub const OUTPUT_TOLD_BYTES: usize = 32 << 10;

/// How long a call that was broken off may take to clean up after itself; then it is left.
pub const CANCEL_PATIENCE: Duration = Duration::from_secs(5);

/// How long an apply waits for tools that still work in the folder or its copy, which those of a run that was cancelled do
/// for up to [`CANCEL_PATIENCE`]; then it is refused with `run_active`.
pub const CLAIM_SOLE_WAIT: Duration = Duration::from_secs(10);

/// How long a run waits for an apply that writes to its folder; then making the folder ready fails with
/// `workspace_failed`, and a call with `workspace_busy`.
pub const CLAIM_SHARED_WAIT: Duration = Duration::from_secs(600);

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

// ---- workspaces ----------------------------------------------------------------------------------

/// Bytes that a workspace may be made of; a folder with more is not copied.
pub const WORKSPACE_BYTES_MAX: u64 = 4 << 30;

/// Files and folders that a workspace may be made of; a folder with more is not copied.
pub const WORKSPACE_FILES_MAX: u64 = 400_000;

/// Bytes of a disk that making a workspace leaves to others; where it cannot, nothing is copied (`workspace_full`).
pub const WORKSPACE_DISK_RESERVE_BYTES: u64 = 64 << 20;

/// Bytes of one block of a file that is copied or digested; a block of zeros is not written.
pub const COPY_BLOCK_BYTES: usize = 64 << 10;

/// How deep its folders may lie in one another.
pub const WORKSPACE_DEPTH_MAX: usize = 128;

/// Bytes of the diff that shows what a run changed in its copy; the rest is left out, and the answer says so.
pub const CHANGES_DIFF_BYTES_MAX: usize = 256 << 10;

/// Bytes of a file that such a diff shows line by line; of a larger one it says that it differs.
pub const CHANGES_FILE_BYTES_MAX: u64 = 1 << 20;

/// Changes that are listed; the rest is counted.
pub const CHANGES_TOLD_MAX: usize = 2_000;

/// Bytes of the journal that says where what an apply moves belongs; more changes than fit are not applied.
pub const APPLY_JOURNAL_BYTES_MAX: u64 = 256 << 20;

/// Changes that a message names; the rest is counted.
pub const CHANGES_NAMED_MAX: usize = 10;

/// Bytes of a picture that a model is shown; of a larger one it is told that it is there.
pub const PICTURE_BYTES_MAX: usize = 5 << 20;

/// Pictures that a model is shown in one turn; of earlier ones it is told that they were there.
pub const PICTURES_MAX: usize = 20;

// ---- the past ------------------------------------------------------------------------------------

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

/// Bytes of the extract that stands for the older part of a conversation; its oldest lines are left out beyond that.
pub const EXTRACT_BYTES_MAX: usize = 64 << 10;

/// Characters of a message that its line in an extract has; the rest is left out.
pub const EXTRACT_LINE_CHARS: usize = 200;

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

/// Bytes of a result of a call that is never shortened further for the model; a shorter result stays as it is.
pub const TRIMMED_BYTES_MIN: u64 = 512;

/// Bytes of an old result from which on its beginning and its end stay when it is shortened; of a shorter one only the
/// note.
pub const TRIMMED_ENDS_BYTES_MIN: u64 = 4 * 1024;

/// Bytes that stay of such a result: half from its beginning and half from its end.
pub const TRIMMED_ENDS_BYTES: u64 = 512;

/// Bytes of a stored result that one call of `read_result` reads; the model is told where to continue.
pub const RESULT_READ_BYTES_MAX: u64 = 16 * 1024;

/// Characters of the id of a call that `read_result` takes; a longer id is refused.
pub const RESULT_CALL_ID_CHARS_MAX: usize = 128;

/// Runs in which `read_result` looks for a call: this one and those that it continues. Of earlier ones the tool has to be
/// called again.
pub const RESULT_RUNS_MAX: usize = 20;

/// Results that one event shortens; the newest beyond that stay until the conversation is too long again.
pub const TRIMMED_RESULTS_MAX: usize = 1_000;

/// How often in a row a provider may refuse a conversation as too long, each time with a shorter one; then the run fails
/// with `model_context_full`.
pub const CONTEXT_REFUSALS_MAX: u64 = 8;

/// Events of an earlier run that are read at a time.
pub const EARLIER_PAGE: usize = 500;

// ---- runs that start runs -------------------------------------------------------------------------

/// How many runs may lie above one that starts no more itself; the tool is not offered there.
pub const CHILD_RUN_DEPTH_MAX: u64 = 3;

/// Runs that one run may start; the next call is refused.
pub const CHILD_RUNS_MAX: u64 = 32;

/// Bytes of what a started run is to do; a longer text is refused.
pub const CHILD_RUN_PROMPT_BYTES_MAX: usize = 64 << 10;

/// Tools that a started run may be given by name; a longer list is refused.
pub const CHILD_RUN_TOOLS_MAX: usize = 64;
