//! Maps identifiers and event names of other agents to ours.

use recount_event::{ForeignId, limits};

/// The prefix of a mapped id. An id of the other agent with this prefix is mapped, too, so that two never collide.
const MAPPED: &str = "x-";

/// Bytes of the original that stay readable in a mapped id.
const READABLE: usize = 40;

/// The id that the log has for an id of another agent: the same, where the log takes it; else a readable beginning
/// and a digest of the whole. Different ids stay different.
pub fn map_id(foreign: &str) -> String {
    if !foreign.starts_with(MAPPED) && ForeignId::parse(foreign).is_ok() {
        return foreign.to_owned();
    }
    let readable: String = foreign
        .chars()
        .take(READABLE)
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-') { c } else { '_' })
        .collect();
    let digest = blake3::hash(foreign.as_bytes()).to_hex();
    format!("{MAPPED}{readable}-{}", &digest.as_str()[..32])
}

/// The title of a session of ours for one of an agent. Recorders of the same session find it by its end.
pub fn session_title(agent: &str, folder: Option<&str>, session: &str) -> String {
    let folder = folder.map_or(String::new(), |folder| format!(" in {folder}"));
    let end = session_title_end(session);
    let begin = format!("{agent}{folder}");
    let (begin, _) = crate::cut(&begin, crate::limits::NAME_BYTES_MAX.saturating_sub(end.len()));
    format!("{begin}{end}")
}

/// What the title of a session of ours ends with, for one of an agent.
pub fn session_title_end(session: &str) -> String {
    format!(" · {}", map_id(session))
}

/// The type of an extension event: `ext.<agent>.<name>` of lower case words, whatever the agent calls its event
/// (`PreToolUse` is `pre_tool_use`).
pub fn extension_kind(agent: &str, name: &str) -> String {
    let room = (limits::TYPE_NAME_BYTES_MAX - "ext..".len()) / 2;
    format!("ext.{}.{}", word(agent, "agent", room), word(name, "event", room))
}

/// One word of a type's name.
fn word(text: &str, otherwise: &str, max: usize) -> String {
    let mut out = String::new();
    let mut after_lower = false;
    for c in text.chars() {
        if out.len() >= max {
            break;
        }
        if c.is_ascii_alphanumeric() {
            if c.is_ascii_uppercase() && after_lower {
                out.push('_');
            }
            after_lower = !c.is_ascii_uppercase();
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('_') {
            out.push('_');
            after_lower = false;
        }
    }
    out.truncate(max);
    let out = out.trim_end_matches('_');
    match out.chars().next() {
        None => otherwise.to_owned(),
        Some(first) if first.is_ascii_lowercase() => out.to_owned(),
        // A word begins with a letter.
        Some(_) => format!("n{}", &out[..out.len().min(max - 1)]),
    }
}

/// A short key of a text, to recognise it again.
pub(crate) fn key(text: &str) -> u64 {
    let digest = blake3::hash(text.as_bytes());
    u64::from_le_bytes(digest.as_bytes()[..8].try_into().expect("a digest has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use recount_event::registry;

    #[test]
    fn valid_ids_are_unchanged_and_other_ids_stay_distinct() {
        assert_eq!(map_id("toolu_01A-b.c:d"), "toolu_01A-b.c:d");
        let strange = ["", ".", "..", "a b", "a/b", "é", "x-a", "a\nb", &"y".repeat(400), &map_id("a b")];
        let mapped: std::collections::BTreeSet<String> = strange.iter().map(|id| map_id(id)).collect();
        assert_eq!(mapped.len(), strange.len());
        for id in &mapped {
            assert!(ForeignId::parse(id).is_ok(), "{id}");
            assert!(id.starts_with("x-"), "{id}");
        }
        assert!(map_id("a b").starts_with("x-a_b-"));
    }

    #[test]
    fn event_names_are_valid_words() {
        for (agent, name, kind) in [
            ("claude", "PreToolUse", "ext.claude.pre_tool_use"),
            ("gemini", "BeforeTool", "ext.gemini.before_tool"),
            ("acp", "session/update", "ext.acp.session_update"),
            ("", "", "ext.agent.event"),
            ("9", "--", "ext.n9.event"),
            ("claude", "HTTPThing2", "ext.claude.httpthing2"),
        ] {
            assert_eq!(extension_kind(agent, name), kind);
        }
        let long = extension_kind(&"A9_".repeat(99), &"9Zé".repeat(99));
        assert!(registry::is_type_name(&long) && registry::is_extension(&long), "{long}");
    }
}
