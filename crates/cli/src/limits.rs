//! Bounds of the command line, and what happens at them.

use std::time::Duration;

pub(crate) use recount_command_line::limits::COLUMNS_DEFAULT;

/// Bytes of signed heads in one export; runs beyond them are exported without, and counted. Less than a reader takes as one
/// line.
pub(crate) const EXPORT_SIGNED_BYTES_MAX: usize = 32 << 20;

/// Bytes of a line that a person types as an answer; a longer one is read as several.
pub(crate) const TYPED_BYTES_MAX: usize = 64 * 1024;

/// How long input is read and dropped before a prompt is shown; what arrives later is its answer.
pub(crate) const DISCARD_WAIT: std::time::Duration = std::time::Duration::from_millis(20);

/// How long before its start a report looks for runs that were still at work; those of longer ago are not in it.
pub(crate) const TODAY_LOOKBACK: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Runs of a report that are read at a time.
pub(crate) const TODAY_PAGE: usize = 200;

/// Runs that a report reads; if there are more, it notes that its figures are too small.
pub(crate) const TODAY_RUNS_MAX: usize = 20_000;

/// Approvals, questions and handoffs of each kind that a report names; the rest is in the lists of these.
pub(crate) const TODAY_WAITING_MAX: usize = 100;

/// Bytes of one line of a transcript; of a longer one the beginning is kept, and a gap records it.
pub(crate) const TRANSCRIPT_LINE_BYTES_MAX: usize = 16 << 20;

/// Transcripts of one import; more are refused before anything is imported.
pub(crate) const TRANSCRIPTS_MAX: usize = 20_000;

/// Folders below the one that is imported that are looked into; deeper ones are not.
pub(crate) const TRANSCRIPT_FOLDERS_DEEP_MAX: usize = 8;

/// Runs of one transcript that an import compares with; more are refused.
pub(crate) const TRANSCRIPT_RUNS_MAX: usize = 100_000;

/// Lines that wait for the next run of a transcript. Beyond that the oldest are dropped; the next run records the gap.
pub(crate) const TRANSCRIPT_HELD_LINES_MAX: usize = 1000;

/// Their bytes; the same happens beyond that.
pub(crate) const TRANSCRIPT_HELD_BYTES_MAX: usize = 4 << 20;

/// Events after which an import sends what it gathered.
pub(crate) const TRANSCRIPT_BATCH_EVENTS: usize = 500;

/// Bytes after which it does.
pub(crate) const TRANSCRIPT_BATCH_BYTES: usize = 2 << 20;

/// Bytes of the request of an imported run; the message itself is in its first event, as far as one event holds it.
pub(crate) const TRANSCRIPT_REQUEST_BYTES_MAX: usize = 8 << 10;

/// How long a transcript that stops in the middle of a turn must be unchanged to be taken for over.
pub(crate) const TRANSCRIPT_IDLE: Duration = Duration::from_secs(60 * 60);

/// How often transcripts that are followed are looked at.
pub(crate) const TRANSCRIPT_POLL: Duration = Duration::from_millis(500);

/// Looks at a followed transcript, without a new line, after which a turn that is complete ends its run.
pub(crate) const TRANSCRIPT_QUIET_POLLS: u32 = 4;

/// Transcripts whose place is kept while they are followed; of more, the one that was quiet longest is read again from its
/// beginning when it grows.
pub(crate) const TRANSCRIPTS_OPEN_MAX: usize = 64;

/// Bytes from which on the title of a recorded run may be only the beginning of its prompt's first line.
pub(crate) const RECORDED_TITLE_BYTES: usize = 190;

/// Bytes that are forwarded between an MCP client and server at a time.
pub(crate) const MCP_READ_BYTES: usize = 64 << 10;

/// Messages that wait to be recorded. What does not fit is forwarded, not recorded, and a gap counts them.
pub(crate) const MCP_QUEUE_MESSAGES_MAX: usize = 4096;

/// Their bytes; the same happens beyond that.
pub(crate) const MCP_QUEUE_BYTES_MAX: usize = 32 << 20;

/// Bytes of a message that is read; of a longer one the beginning is recorded, with a gap.
pub(crate) const MCP_LINE_BYTES_MAX: usize = 8 << 20;

/// Bytes of the standard error of a child that are shown on a terminal at a time; more follow when they are shown.
pub(crate) const CHILD_OUTPUT_BYTES: usize = 8 << 10;

/// How long the end of a program waits for the rest of that; what another process writes later is not shown.
pub(crate) const CHILD_OUTPUT_WAIT: Duration = Duration::from_secs(1);

/// Bytes of that beginning; the rest is forwarded alone.
pub(crate) const MCP_LONG_BEGINNING_BYTES: usize = 64 << 10;

/// Messages of a client that wait to be posted to an MCP server; more are left in the pipe.
pub(crate) const MCP_HTTP_LINES_MAX: usize = 16;

/// Requests to an MCP server at one time; further ones wait.
pub(crate) const MCP_HTTP_REQUESTS_MAX: usize = 64;

/// Subscriptions to events of an MCP server (`events/stream`) that are open at a time; further ones are refused.
pub(crate) const MCP_SUBSCRIPTIONS_MAX: usize = 16;

/// How long open requests to an MCP server may take after the client has ended its input.
pub(crate) const MCP_HTTP_LAST_WAIT: Duration = Duration::from_secs(30);

/// Bytes of a message from an MCP server; a longer one is an error of its request.
pub(crate) const MCP_HTTP_MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Bytes of an error response of an MCP server that are read.
pub(crate) const MCP_HTTP_ERROR_BYTES_MAX: usize = 64 << 10;

/// Bytes of events that wait while the server does not respond; then recording ends with a note, and forwarding continues.
pub(crate) const MCP_WAITING_BYTES_MAX: usize = 32 << 20;

/// Events of one batch; further ones wait for the next.
pub(crate) const MCP_BATCH_EVENTS_MAX: usize = 500;

/// Bytes of one batch; further events wait for the next.
pub(crate) const MCP_BATCH_BYTES_MAX: usize = 2 << 20;

/// How long messages gather before they are sent.
pub(crate) const MCP_GATHER: Duration = Duration::from_millis(20);

/// How long the run is not created while the MCP server has not sent its name, which is the run's title. Then the title has the name
/// from the command line.
pub(crate) const MCP_NAME_WAIT: Duration = Duration::from_secs(2);

/// How often a request is retried while the server does not respond.
pub(crate) const MCP_RETRY: Duration = Duration::from_secs(1);

/// How long waiting events are sent after the connection is over; then they are dropped with a note.
pub(crate) const MCP_LAST_WAIT: Duration = Duration::from_secs(3);

/// How long an MCP server may take to end after its output has ended; then it is killed.
pub(crate) const MCP_EXIT_WAIT: Duration = Duration::from_secs(5);

/// How often it is looked whether it has ended.
pub(crate) const MCP_EXIT_POLL: Duration = Duration::from_millis(10);

/// Bytes of the command in the title of a recorded run; the rest is cut.
pub(crate) const MCP_TITLE_BYTES_MAX: usize = 120;

/// Open prompts of a run that are shown here one after the other; for more, only how to answer them
/// from elsewhere is printed.
pub(crate) const PROMPTS_MAX: usize = 100;

/// Lines of a prompt that are shown at once where there is no terminal; the number of remaining ones is printed, and `m`
/// shows the next. A terminal shows as many rows as it has.
pub(crate) const PREVIEW_PAGE_LINES: usize = 100;

/// Rows of a page of a prompt on a terminal that is too small for the page and the question.
pub(crate) const PAGE_ROWS_MIN: usize = 5;

/// Characters of the end of an id that names it; a shorter text is taken as a whole id.
pub(crate) const ID_END_MIN: usize = 4;

/// Newest ids among which the end of one is searched; older ones are only found by their whole id.
pub(crate) const IDS_SEARCHED_MAX: usize = 20_000;

/// Ids that the error about an end of several names.
pub(crate) const IDS_NAMED_MAX: usize = 5;

/// Columns of the title of a prompt that shows the whole call below it; a cut is marked.
pub(crate) const PROMPT_TITLE_COLUMNS_MAX: usize = 160;

/// Pending approvals among which a chat looks for the one of its call; beyond them the prompt has only the call's input.
pub(crate) const CHAT_APPROVALS_MAX: usize = 10_000;

/// Columns of a fact next to a question, such as the consequence; the rest is in the details, and that is stated.
pub(crate) const FACT_COLUMNS_MAX: usize = 400;

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

/// How long the demo waits for an answer without input from the terminal; then it answers.
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

/// Messages that are printed when a session is continued; the number of earlier ones is printed.
pub(crate) const HISTORY_SHOWN_MAX: usize = 10;

/// Turns in a row in which answers are given by rule and not by a person; then the chat ends, so that an agent that
/// asks for ever is not answered for ever.
pub(crate) const RULED_TURNS_MAX: usize = 100;

/// How often in a row a page of an export is requested again while the server does not respond, over about a minute; then
/// the export fails and leaves no file.
pub(crate) const READ_ATTEMPTS_MAX: u32 = 12;

/// The wait before a page is requested again; it doubles with each failed attempt, up to [`READ_RETRY_MAX`].
pub(crate) const READ_RETRY: Duration = Duration::from_millis(250);

/// The longest wait before a page is requested again.
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

/// Damaged ranges of one run that `verify` names; further ones are summarised in one sentence.
pub(crate) const DAMAGED_NAMED_MAX: usize = 20;

/// How often a person is prompted about an unfinished run; then nothing is done.
pub(crate) const CHOICE_ATTEMPTS_MAX: usize = 3;
/// How long nothing is received before a sign of life is shown on a terminal; it is redrawn each [`PULSE_EVERY`].
pub(crate) const PULSE_FIRST: Duration = Duration::from_secs(1);

/// How often the sign of life on a terminal is drawn.
pub(crate) const PULSE_EVERY: Duration = Duration::from_secs(1);

/// Seconds after which signs of life are written where there is no terminal; after the last, as often as that is long.
pub(crate) const PULSE_NOTES_SECONDS: [u64; 6] = [10, 30, 60, 120, 300, 600];

/// How long the last word of a text waits for its end, so that it is not broken; then it is written as it is.
pub(crate) const HELD_WORD_WAIT: Duration = Duration::from_millis(200);

/// Bytes that are read from the keyboard at a time; more wait in the terminal.
pub(crate) const KEY_BYTES: usize = 256;

/// Bells when a run needs a person; then the bell is silent until the next signal.
pub(crate) const BELLS_NEEDS_YOU: u8 = 2;

/// Bells when a run has finished; then the bell is silent until the next signal.
pub(crate) const BELLS_FINISHED: u8 = 1;

/// Bells when a run has failed or was cancelled; then the bell is silent until the next signal.
pub(crate) const BELLS_FAILED: u8 = 3;

/// The pause between two bells of a pattern; terminals merge those that follow at once.
pub(crate) const BELL_PAUSE: Duration = Duration::from_millis(250);

/// How long one utterance may take beside the time of its characters; then it is cancelled and the next one is spoken.
pub(crate) const SPEECH_UTTERANCE_WAIT: Duration = Duration::from_secs(10);

/// How long each character of an utterance may take: twice as long as with the slowest rate.
pub(crate) const SPEECH_CHARACTER_WAIT: Duration = Duration::from_millis(250);

/// How long the end of an utterance that was cancelled is awaited; then the next one is spoken.
pub(crate) const SPEECH_CANCEL_WAIT: Duration = Duration::from_secs(2);

/// How long the rest is spoken after a subscription has ended; then the program ends.
pub(crate) const SPEECH_FINISH_WAIT: Duration = Duration::from_secs(60);

/// Bytes of one ACP message that are held until it is complete; a longer one is forwarded as it is read, and recorded with
/// its beginning only.
pub(crate) const ACP_LINE_HELD_BYTES_MAX: usize = 8 << 20;

/// Bytes of such a message, or of one that cannot be read, that are recorded.
pub(crate) const ACP_LONG_KEPT_BYTES: usize = 16 << 10;

/// Bytes that are read from the editor or the agent at a time.
pub(crate) const ACP_READ_BUFFER_BYTES: usize = 64 << 10;

/// Messages that wait to be recorded; one more is forwarded, and counted as not recorded.
pub(crate) const ACP_QUEUE_MESSAGES_MAX: usize = 16_384;

/// Bytes of them; likewise.
pub(crate) const ACP_QUEUE_BYTES_MAX: usize = 32 << 20;

/// Bytes of events that wait to be sent; beyond it messages wait in the queue.
pub(crate) const ACP_WAITING_BYTES_MAX: usize = 32 << 20;

/// Messages that are taken from the queue before their events are sent.
pub(crate) const ACP_ITEMS_AT_ONCE: usize = 500;

/// Events of one batch.
pub(crate) const ACP_BATCH_EVENTS_MAX: usize = 500;

/// Bytes of one batch; one event that is larger goes alone.
pub(crate) const ACP_BATCH_BYTES_MAX: usize = 2 << 20;

/// Open requests of either side that are followed; one more is forwarded, and gets no answer when the agent ends.
pub(crate) const ACP_REQUESTS_OPEN_MAX: usize = 4_096;

/// Sessions of one connection that are remembered; for one more an idle one is forgotten.
pub(crate) const ACP_SESSIONS_MAX: usize = 256;

/// Messages outside of a prompt that are kept until the next one; for one more the oldest is dropped.
pub(crate) const ACP_OUTSIDE_MAX: usize = 64;

/// Bytes of such a message; beyond it its beginning is kept.
pub(crate) const ACP_OUTSIDE_BYTES_MAX: usize = 16 << 10;

/// Answers of faces that wait for the recorder; then following the run waits.
pub(crate) const ACP_DECISIONS_MAX: usize = 64;

/// The wait before the server is tried again; it doubles with each attempt in vain, up to [`ACP_RETRY_WAIT_MAX`].
pub(crate) const ACP_RETRY_WAIT: Duration = Duration::from_millis(100);

/// The longest wait before the server is tried again.
pub(crate) const ACP_RETRY_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long the recorder tries to send after the agent has ended without getting further; what is not sent by then is
/// reported as lost.
pub(crate) const ACP_FINISH_WAIT: Duration = Duration::from_secs(10);

/// The same, where it does get further.
pub(crate) const ACP_FINISH_WAIT_MAX: Duration = Duration::from_secs(60);

/// How long an agent may go on after it has closed its output; then it is killed.
pub(crate) const ACP_AGENT_EXIT_WAIT: Duration = Duration::from_secs(10);

/// Bytes of an agent's name or version; the rest is cut.
pub(crate) const ACP_NAME_BYTES_MAX: usize = 128;

/// Bytes of a run's title, which is the first line of the prompt; the rest is cut.
pub(crate) const ACP_TITLE_BYTES_MAX: usize = 200;

/// Bytes of a prompt in the request of its run; all of it is in the event.
pub(crate) const ACP_REQUEST_TEXT_BYTES_MAX: usize = 8 << 10;

/// Sessions on a page when one is looked for.
pub(crate) const ACP_LOOKUP_PAGE: usize = 100;

/// Pages on which one is looked for, newest first; beyond them it counts as not recorded.
pub(crate) const ACP_LOOKUP_PAGES_MAX: usize = 20;

/// Runs of a session that is loaded from the log; earlier ones are not shown.
pub(crate) const ACP_LOADED_RUNS_MAX: usize = 1_000;

/// Bytes of a session that is loaded from the log; earlier runs are left out with a note.
pub(crate) const ACP_LOADED_BYTES_MAX: usize = 32 << 20;

/// How long events are gathered before they are sent, so that a stream of messages is not a stream of requests. Permission
/// requests and the ends of prompts are sent at once.
pub(crate) const ACP_GATHER: Duration = Duration::from_millis(20);

/// How long a tool call that is pending waits for more of its input, while nothing else comes, before it is recorded.
pub(crate) const ACP_CALL_WAIT: Duration = Duration::from_millis(250);

/// How long a tool call that is reported as running waits for a request for its permission, while nothing else comes, before
/// its start is recorded.
pub(crate) const ACP_START_WAIT: Duration = Duration::from_secs(2);

/// The same, while the agent sent no input of the call: it may still be written.
pub(crate) const ACP_START_WAIT_WITHOUT_INPUT: Duration = Duration::from_secs(5);

/// Files of earlier recorders that are looked at; more are left to the next recorder.
pub(crate) const ACP_LEFT_OPEN_MAX: usize = 1_000;

/// How often the run of an ended recorder is read and closed again, if its last events arrive meanwhile.
pub(crate) const ACP_CLOSE_ATTEMPTS_MAX: u64 = 3;

/// How long a recorder that has ended goes on closing the runs of earlier ones; what is left is for the next recorder.
pub(crate) const ACP_CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Bytes of a hook's body; a larger one is not sent and is counted, so that the record has its gap.
pub(crate) const HOOK_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of hooks that wait on disk for one server; what does not fit is counted, so that the record has its gap.
pub(crate) const HOOK_SPOOL_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Sessions for which hooks that were not kept are counted apart; those of further sessions are counted together.
pub(crate) const HOOK_DROPPED_SESSIONS_MAX: usize = 64;

/// How long all of `recount hook` may take for a hook that is only recorded, less than agents allow; then the hook waits
/// on disk, and the agent works on. `recount connect` waits as long for the server, and then reports that it is silent.
pub(crate) const HOOK_RECORD_WAIT: Duration = Duration::from_millis(2500);

/// The least time that one call of it has, however late it is.
pub(crate) const HOOK_POST_WAIT_MIN: Duration = Duration::from_millis(250);

/// How long one hook sends what waited on disk before it; the rest is left to the next one.
pub(crate) const HOOK_DRAIN_WAIT: Duration = Duration::from_secs(1);

/// Milliseconds after a call that took too long in which hooks go to disk at once; then the next one tries again.
pub(crate) const HOOK_AWAY_PAUSE_MS: u64 = 10_000;

/// Seconds that a permission request waits for an answer if `--wait` is not given; then the agent asks itself.
pub(crate) const HOOK_ASK_SECONDS_DEFAULT: u64 = 300;

/// The most seconds that `--wait` takes; more is refused.
pub(crate) const HOOK_ASK_SECONDS_MAX: u64 = 3600;

/// How much longer than the server's wait the call of a permission request may take; then the agent asks itself.
pub(crate) const HOOK_ASK_MARGIN: Duration = Duration::from_secs(5);

/// Bytes of the file with sign-ins that are read; a larger one is refused.
pub(crate) const LOGINS_BYTES_MAX: u64 = 1024 * 1024;

/// The longest pause between two requests about a sign-in, also where the server requests a longer one.
pub(crate) const LOGIN_POLL_MAX: Duration = Duration::from_secs(60);

/// Bytes of an agent's configuration file that is changed; a larger one is refused.
pub(crate) const SETTINGS_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// How deep an agent's configuration file may be nested; a deeper one is refused.
pub(crate) const SETTINGS_DEPTH_MAX: usize = 64;
