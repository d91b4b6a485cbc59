//! Names, defaults and values of query parameters.

/// Exclusive: events after this sequence. Absent or -1 is from the start.
pub const AFTER_SEQUENCE: &str = "after_sequence";
/// Exclusive: events after this position of the feed. Absent, -1 or 0 is from the start.
pub const AFTER_POSITION: &str = "after_position";
/// As a value of [`AFTER_POSITION`]: only what happens from now on.
pub const LATEST: &str = "latest";
/// Exclusive: things after this cursor of a list.
pub const AFTER: &str = "after";
/// How many at most.
pub const LIMIT: &str = "limit";
/// Only items with this status.
pub const STATUS: &str = "status";
/// Only what is of this task.
pub const TASK_ID: &str = "task_id";
/// Only what is of this run.
pub const RUN_ID: &str = "run_id";
/// Only what is of this session.
pub const SESSION_ID: &str = "session_id";
/// Only what reaches so far.
pub const SCOPE: &str = "scope";
/// Only events of these types.
pub const TYPE: &str = "type";
/// Only what is of runs of this kind.
pub const KIND: &str = "kind";
/// Whether a check-up reads everything.
pub const FULL: &str = "full";
/// What it is called where it comes from.
pub const NAME: &str = "name";
/// Only runs that wait for an answer, or only those that do not.
pub const NEEDS_ATTENTION: &str = "needs_attention";
/// Whether the server of a tool says that a call may destroy something.
pub const DESTRUCTIVE: &str = "destructive";
/// In a path: what an MCP server calls itself.
pub const MCP_SERVER: &str = "mcp_server";
/// In a path: what it calls its tool.
pub const MCP_TOOL: &str = "mcp_tool";
/// Characters of the name of an MCP server, or of its tool.
pub const MCP_NAME_MAX: usize = 200;
/// Only runs of agents whose name begins with this.
pub const AGENT: &str = "agent";
/// Only runs whose recorder's source begins with this.
pub const SOURCE: &str = "source";
/// Only what has this in its title or its message.
pub const TEXT: &str = "text";
/// Characters of it.
pub const TEXT_MAX: usize = 200;
/// On streams, in place of a token.
pub const TICKET: &str = "ticket";

/// Words that one parameter may hold, with commas between them.
pub const WORDS_MAX: usize = 50;

/// Events per page by default, and at most.
pub const EVENTS_LIMIT_DEFAULT: usize = 500;
pub const EVENTS_LIMIT_MAX: usize = 1000;
/// Items per list by default, and at most.
pub const LIST_LIMIT_DEFAULT: usize = 50;
pub const LIST_LIMIT_MAX: usize = 200;

/// What a run can be.
pub const RUN_STATUSES: [&str; 6] = ["queued", "running", "waiting", "finished", "failed", "cancelled"];
/// What can become of a request for permission.
pub const APPROVAL_STATUSES: [&str; 5] = ["pending", "approved", "rejected", "cancelled", "timed_out"];
/// How far an allowance can reach.
pub const ALLOWANCE_SCOPES: [&str; 3] = ["run", "session", "workspace"];
/// What can become of a question.
pub const CLARIFICATION_STATUSES: [&str; 4] = ["pending", "answered", "timed_out", "cancelled"];
/// What can become of a handoff.
pub const HANDOFF_STATUSES: [&str; 4] = ["pending", "acknowledged", "rejected", "timed_out"];
/// What can become of an artifact; those of a patch are the last three.
pub const ARTIFACT_STATUSES: [&str; 4] = ["created", "proposed", "applied", "rejected"];
/// The part of a form that holds the bytes.
pub const FILE: &str = "file";
/// What may be sent in.
pub const UPLOAD_KINDS: [&str; 2] = ["image", "file"];
/// Characters of the name of what is sent in.
pub const NAME_MAX: usize = 255;
/// What a task can be: without a run, or as its latest run is.
pub const TASK_STATUSES: [&str; 7] =
    ["idle", "queued", "running", "waiting", "finished", "failed", "cancelled"];
/// What sorts of runs there are.
pub const RUN_KINDS: [&str; 5] = ["agent_loop", "shell", "git", "file", "external"];
