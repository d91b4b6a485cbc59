//! Limits of MCP servers: what they may send, and how long they may take. Each constant documents what happens when it
//! is reached.

use std::time::Duration;

/// Characters of a server's name. A longer one is refused when the configuration is read.
pub const MCP_SERVER_NAME_CHARS_MAX: usize = 24;

/// Servers of a configuration. More are refused when it is read.
pub const MCP_SERVERS_MAX: usize = 32;

/// Tools of a server. The others are not offered, and the log reports this.
pub const MCP_TOOLS_MAX: usize = 128;

/// Pages of a server's tool list. Tools on further pages are not offered.
pub const MCP_PAGES_MAX: usize = 32;

/// Bytes of a tool's name on its server. A tool with a longer name is not offered, and the log reports this.
pub const MCP_TOOL_NAME_BYTES_MAX: usize = 256;

/// Bytes of the schema of a server's tool. A tool with a longer schema is not offered, and the log reports this.
pub const MCP_SCHEMA_BYTES_MAX: usize = 64 << 10;

/// Bytes of the description of a server's tool. The rest is omitted.
pub const MCP_DESCRIPTION_BYTES_MAX: usize = 8 << 10;

/// Bytes of one message of a server. A longer one fails the call with `mcp_flooded` and closes the connection.
pub const MCP_MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Bytes that a server may send for one request. More fails the call with `mcp_flooded` and closes the connection.
pub const MCP_CALL_BYTES_MAX: usize = 16 << 20;

/// Messages that a server may send for one request. More fails the call with `mcp_flooded` and closes the connection.
pub const MCP_CALL_MESSAGES_MAX: usize = 10_000;

/// Lines of a server that are not messages. One more fails the call with `mcp_garbled` and closes the connection.
pub const MCP_OTHER_LINES_MAX: usize = 64;

/// Rounds of one call in which a server may request more input. Then the call fails with `mcp_input_required`.
pub const MCP_ROUNDS_MAX: usize = 8;

/// Parts of a result that are read. The result states how many are omitted.
pub const MCP_BLOCKS_MAX: usize = 256;

/// Parts of a result with binary data that are stored as artifacts. The result states how many are not.
pub const MCP_BLOBS_MAX: usize = 16;

/// Bytes of a result that are kept. The rest is omitted, and the result states this.
pub const MCP_OUTPUT_BYTES_MAX: usize = 2 << 20;

/// Characters of a link or another label in a result. The rest is omitted.
pub const MCP_LINK_CHARS_MAX: usize = 2_000;

/// Bytes of a server's error message that are kept. The rest is omitted.
pub const MCP_ERROR_BYTES_MAX: usize = 2_000;

/// Connections to one server per run. Then the run stops using the server: its tools are missing and calls fail with
/// `mcp_unreachable`.
pub const MCP_STARTS_MAX: usize = 5;

/// Different messages about missing tools that one worker logs. Further ones are omitted.
pub const MCP_MISSING_MESSAGES_MAX: usize = 64;

/// Default time for a server to start and to list its tools. Then its tools are missing.
pub const MCP_START_TIMEOUT: Duration = Duration::from_secs(30);

/// Default time for a server to respond to a call. Then the call fails with `mcp_timeout`.
pub const MCP_CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The maximum of these times. A longer one is refused when the configuration is read.
pub const MCP_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// How long a server has to respond to `server/discover`. Then the older handshake is used.
pub const MCP_DISCOVER_WAIT: Duration = Duration::from_secs(5);

/// How long a closing or cancelling message may take. Then the server is ended without it.
pub const MCP_CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Default number of concurrent runs of a tenant with MCP servers that are commands. Further runs wait in a queue, and
/// their logs report this with `run.throttled`.
pub const MCP_AT_ONCE: usize = 128;
