//! Builds and parses the tool names that models see: `mcp__SERVER__TOOL`, with characters that every provider accepts.
//!
//! Pure. Start at [`tool_name`] and [`server_of`].

use crate::mcp::limits;
use crate::model::plain_name;

/// The prefix of every such name.
pub const PREFIX: &str = "mcp__";

/// The separator between the server and its tool.
const BETWEEN: &str = "__";

/// Whether a server name is valid: then the first `__` after it ends the name.
pub(crate) fn is_server_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    !name.is_empty()
        && name.len() <= limits::MCP_SERVER_NAME_CHARS_MAX
        && name.chars().all(plain)
        && !name.contains(BETWEEN)
        && !name.starts_with('_')
        && !name.ends_with('_')
}

/// Returns the name of a tool for models; a long one is cut.
pub(crate) fn tool_name(server: &str, tool: &str) -> String {
    plain_name(&format!("{PREFIX}{server}{BETWEEN}{tool}"))
}

/// Returns the server of a tool name or a pattern.
pub fn server_of(name: &str) -> Option<&str> {
    let (server, _) = name.strip_prefix(PREFIX)?.split_once(BETWEEN)?;
    Some(server)
}

/// Whether an entry of a tool list matches a name: the name itself, or a prefix that ends in `*`.
pub(crate) fn is_meant(entry: &str, name: &str) -> bool {
    let by_pattern = |beginning: &str| server_of(beginning).is_some() && name.starts_with(beginning);
    entry == name || entry.strip_suffix('*').is_some_and(by_pattern)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MODEL_TOOL_NAME_CHARS_MAX;

    #[test]
    fn names_have_their_server_and_what_providers_take() {
        assert_eq!(tool_name("git_hub", "create_issue"), "mcp__git_hub__create_issue");
        assert_eq!(tool_name("s", "a__b.c d"), "mcp__s__a__b_c_d");
        assert_eq!(server_of("mcp__s__a__b"), Some("s"));
        assert_eq!(server_of("mcp__git_hub__x"), Some("git_hub"));
        assert_eq!((server_of("mcp__s"), server_of("read_file")), (None, None));
        assert_eq!(tool_name("s", &"x".repeat(99)).len(), MODEL_TOOL_NAME_CHARS_MAX);
        for good in ["a", "git-hub", "git_hub", "A1"] {
            assert!(is_server_name(good), "{good}");
        }
        for bad in ["", "a__b", "_a", "a_", "a.b", "ä", &"a".repeat(limits::MCP_SERVER_NAME_CHARS_MAX + 1)] {
            assert!(!is_server_name(bad), "{bad}");
        }
    }

    #[test]
    fn entries_mean_one_tool_or_those_of_a_server() {
        assert!(is_meant("mcp__s__*", "mcp__s__read") && is_meant("mcp__s__read", "mcp__s__read"));
        assert!(is_meant("mcp__s__re*", "mcp__s__read") && is_meant("read_file", "read_file"));
        for other in ["mcp__s", "mcp__*", "*", "mcp__s__read", "mcp__t__*"] {
            assert!(!is_meant(other, "mcp__s__other"), "{other}");
        }
    }
}
