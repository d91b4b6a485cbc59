//! Limits of MCP servers: what they may send, and how long they may take. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

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

/// Runs of a tenant that may have MCP servers which are commands at one time, when nothing else is configured; further
/// runs wait in a queue, and their logs say so with `run.throttled`.
pub const MCP_AT_ONCE: usize = 128;
