//! `policy.*`: decisions of the policy of this server.

use crate::ForeignId;
use crate::family::payload;

payload! {
    /// A rule blocked a call. `tool.refused` follows.
    ToolBlocked { tool_name: String, reason: String } {
        tool_call_id: ForeignId,
        policy_id: String,
        kind: String,
        mcp_server: String,
        mcp_tool: String,
        /// For MCP: `blocked`.
        result: String,
    }

    /// A rule replaced the requested model.
    ModelRewrote { from_model: String, to_model: String, reason: String } {}
}
