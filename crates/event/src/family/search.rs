//! `tool.glob.*` and `tool.grep.*`: looking for files and in files.

use crate::ForeignId;
use crate::family::payload;

/// One line that matched.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct LineMatch {
    pub path: String,
    pub line: u64,
    pub text: String,
}

payload! {
    /// Files were looked for by name.
    GlobCompleted {
        tool_call_id: ForeignId,
        pattern: String,
        matches: Vec<String>,
        match_count: u64,
        truncated: bool,
    } {}

    /// Files were searched for a pattern.
    GrepCompleted {
        tool_call_id: ForeignId,
        pattern: String,
        matches: Vec<LineMatch>,
        match_count: u64,
        truncated: bool,
    } {
        files_searched: u64,
    }
}
