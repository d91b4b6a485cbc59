//! `tool.glob.*` and `tool.grep.*`: looking for files and in files.

use crate::ForeignId;
use crate::family::{part, payload};

part! {
    /// One line that matched.
    LineMatch { path: String, line: u64, text: String } {}
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
