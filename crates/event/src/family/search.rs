//! `tool.glob.*` and `tool.grep.*`: searches for files and in files.

use crate::ForeignId;
use crate::family::{part, payload};

part! {
    /// A matching line.
    LineMatch { path: String, line: u64, text: String } {}
}

payload! {
    /// Files were searched by name.
    GlobCompleted {
        tool_call_id: ForeignId,
        pattern: String,
        matches: Vec<String>,
        match_count: u64,
        truncated: bool,
    } {}

    /// The contents of files were searched.
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
