//! Hooks in Codex's `config.toml`: lines added at its end and cut out again, so that every other byte stays.
//!
//! Used only where a person already has hooks in that file; else they are in `hooks.json`. It must not know files. Look at
//! [`add`] and [`remove`].

use serde_json::Value;
use toml::{Table, Value as Item};

use super::format::{Group, Handler};

fn parse(text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|why| {
        let before = why.span().and_then(|place| text.get(..place.start)).unwrap_or_default();
        format!("not valid TOML at line {}: {}", before.matches('\n').count() + 1, why.message())
    })
}

/// Whether the file has hooks itself. What Codex notes there of trusted hooks is none.
pub(super) fn has_hooks(text: &str) -> Result<bool, String> {
    let hooks = parse(text)?.remove("hooks");
    Ok(hooks.is_some_and(|hooks| hooks.as_table().is_none_or(|hooks| hooks.keys().any(|key| key != "state"))))
}

/// Whether the file turns hooks off.
pub(super) fn are_hooks_off(text: &str) -> bool {
    let features = parse(text).ok().and_then(|mut table| table.remove("features"));
    let is_off = |name: &str| features.as_ref().and_then(|all| all.get(name)) == Some(&Item::Boolean(false));
    is_off("hooks") || is_off("codex_hooks")
}

/// The lines of a group.
fn block(event: &str, command: &str, timeout: u64) -> String {
    format!(
        "\n[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = \"command\"\ncommand = {}\ntimeout = {timeout}\n",
        Value::from(command)
    )
}

/// Adds a group of each event after those that are there.
pub(super) fn add(text: &str, groups: &[Group]) -> Result<String, String> {
    parse(text)?;
    let mut after = text.to_owned();
    if !after.is_empty() && !after.ends_with('\n') {
        after.push('\n');
    }
    for group in groups {
        let Handler::Command { command, timeout, .. } = group.handler() else { continue };
        after.push_str(&block(group.event, command, *timeout));
        // One that is written in another form than [[hooks.…]] cannot be added to.
        if let Err(why) = parse(&after) {
            return Err(format!("cannot add to hooks.{}; write it as [[hooks.{0}]] ({why})", group.event));
        }
    }
    Ok(after)
}

/// Removes the handlers that `is_ours` recognises. Returns `None` if there is none.
pub(super) fn remove(text: &str, is_ours: &dyn Fn(&str, &Value) -> bool) -> Result<Option<String>, String> {
    let ours = find(text, is_ours)?;
    if ours.is_empty() {
        return Ok(None);
    }
    let mut left = text.to_owned();
    for (event, handler) in &ours {
        let command = handler["command"].as_str().unwrap_or_default();
        let timeout = handler["timeout"].as_u64().unwrap_or_default();
        let block = block(event, command, timeout);
        let lines = block.trim_start_matches('\n');
        let (at, length) = match (left.find(&block), left.find(lines)) {
            (Some(at), _) => (at, block.len()),
            (None, Some(at)) => (at, lines.len()),
            (None, None) => {
                return Err(format!("a hook of hooks.{event} was changed by hand; remove it by hand"));
            }
        };
        left.replace_range(at..at + length, "");
    }
    // What is left must be what it was, without these.
    match find(&left, is_ours)?.is_empty() {
        true => Ok(Some(left)),
        false => Err("hooks were changed by hand; remove them by hand".to_owned()),
    }
}

/// Handlers that `is_ours` recognises, with their events.
pub(super) fn find(
    text: &str,
    is_ours: &dyn Fn(&str, &Value) -> bool,
) -> Result<Vec<(String, Value)>, String> {
    let table = parse(text)?;
    let mut found = Vec::new();
    for (event, groups) in table.get("hooks").and_then(Item::as_table).into_iter().flatten() {
        let groups = groups.as_array().into_iter().flatten();
        let handlers = groups.filter_map(|group| group.get("hooks").and_then(Item::as_array)).flatten();
        for handler in handlers.filter_map(|handler| serde_json::to_value(handler).ok()) {
            if is_ours(event, &handler) {
                found.push((event.clone(), handler));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::format::{self, Options};
    use super::*;
    use crate::command::recorded::Agent;

    fn groups() -> Vec<Group> {
        format::groups(Agent::Codex, &Options::at("http://127.0.0.1:8765", "/usr/bin/a \"b\" c/recount"))
    }

    fn ours(event: &str, handler: &Value) -> bool {
        format::is_ours(Agent::Codex, event, handler)
    }

    #[track_caller]
    fn round(before: &str) {
        let after = add(before, &groups()).unwrap();
        assert_eq!(find(&after, &ours).unwrap().len(), groups().len(), "{after}");
        assert!(after.starts_with(before), "{after}");
        let back = remove(&after, &ours).unwrap().unwrap();
        assert_eq!(back, before);
        assert_eq!(remove(&back, &ours).unwrap(), None);
    }

    #[test]
    fn what_was_added_is_removed_to_the_byte() {
        round("# mine\nmodel = \"x\" # the best\n");
        round(
            "[[hooks.Stop]]\n# says it\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"say done\"\n",
        );
        round(
            "[hooks]\n\n[[hooks.Stop]]\n  [[hooks.Stop.hooks]]\n  type = \"command\"\n  command = \"x\"\n\n[tui]\na = 1\n",
        );
        round("a = 1\r\n[b]\r\nc = 2\r\n");
        round("a.b = 1\nc = 2\na.d = 3\n");
        round("[hooks.state]\n# trust\n\"/a:stop:0:0\" = { trusted_hash = \"sha256:1\" }\n\n\n");
    }

    #[test]
    fn what_is_added_meanwhile_stays() {
        let before = "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"x\"\n";
        let after = add(before, &groups()).unwrap();
        let state = "\n[hooks.state.\"/c:stop:0:0\"]\ntrusted_hash = \"sha256:1\"\n";
        let back = remove(&format!("# first\n{after}{state}"), &ours).unwrap().unwrap();
        assert_eq!(back, format!("# first\n{before}{state}"));
        let changed = after.replace("timeout = 5", "timeout = 5 # mine");
        assert!(remove(&changed, &ours).unwrap_err().contains("by hand"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(add("a = ", &groups()).unwrap_err().contains("not valid TOML"));
        for text in
            ["hooks = 1", "hooks.Stop = 1", "hooks = { Stop = [] }", "[hooks]\nStop = [{ hooks = [] }]"]
        {
            let why = add(text, &groups()).unwrap_err();
            assert!(why.contains("; write it as [[hooks."), "{text}: {why}");
        }
    }
}
