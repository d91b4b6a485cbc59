//! Hooks in Codex's `config.toml`: added and removed so that comments, order and all other tables stay.
//!
//! Used only where a person already has hooks in that file; else they are in `hooks.json`. It must not know files. Look at
//! [`add`] and [`remove`].

use serde_json::Value;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike};

use super::format::{Group, Handler};

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse::<DocumentMut>().map_err(|why| format!("not valid TOML: {}", why.to_string().trim_end()))
}

/// Whether the file has hooks itself. What Codex notes there of trusted hooks is none.
pub(super) fn has_hooks(text: &str) -> Result<bool, String> {
    let document = parse(text)?;
    let hooks = document.get("hooks").and_then(Item::as_table_like);
    Ok(hooks.is_some_and(|hooks| hooks.iter().any(|(key, _)| key != "state")))
}

/// Whether the file turns hooks off.
pub(super) fn are_hooks_off(text: &str) -> bool {
    let Ok(document) = parse(text) else { return false };
    let features = document.get("features").and_then(Item::as_table_like);
    let is_off = |name: &str| features.and_then(|all| all.get(name)).and_then(Item::as_bool) == Some(false);
    is_off("hooks") || is_off("codex_hooks")
}

/// Adds a group of each event after those that are there.
pub(super) fn add(text: &str, groups: &[Group]) -> Result<String, String> {
    let mut document = parse(text)?;
    let hooks = document.entry("hooks").or_insert_with(|| {
        let mut hooks = Table::new();
        hooks.set_implicit(true);
        Item::Table(hooks)
    });
    let hooks = hooks.as_table_like_mut().ok_or("\"hooks\" is not a table")?;
    for group in groups {
        let Handler::Command { command, timeout, .. } = group.handler() else { continue };
        match hooks.get_mut(group.event) {
            Some(Item::ArrayOfTables(all)) => all.push(table(command, *timeout)),
            Some(Item::Value(toml_edit::Value::Array(all))) => all.push(inline(command, *timeout)),
            Some(_) => return Err(format!("\"hooks.{}\" is not an array", group.event)),
            None => {
                let mut all = ArrayOfTables::new();
                all.push(table(command, *timeout));
                let is_inline = !insertable(hooks);
                let item = if is_inline {
                    Item::Value(toml_edit::Value::Array(Array::from_iter([inline(command, *timeout)])))
                } else {
                    Item::ArrayOfTables(all)
                };
                hooks.insert(group.event, item);
            }
        }
    }
    let text = document.to_string();
    // What is written must be what Codex can read.
    parse(&text).map(|_| text)
}

/// Whether tables can be put into it: not into one that is written in one line.
fn insertable(hooks: &dyn TableLike) -> bool {
    !hooks.is_dotted() && hooks.iter().all(|(_, item)| !item.is_value()) || hooks.is_empty()
}

fn handler(command: &str, timeout: u64) -> InlineTable {
    let mut handler = InlineTable::new();
    handler.insert("type", "command".into());
    handler.insert("command", command.into());
    handler.insert("timeout", i64::try_from(timeout).unwrap_or(i64::MAX).into());
    handler
}

fn inline(command: &str, timeout: u64) -> InlineTable {
    let mut group = InlineTable::new();
    group.insert("hooks", toml_edit::Value::Array(Array::from_iter([handler(command, timeout)])));
    group
}

fn table(command: &str, timeout: u64) -> Table {
    let mut handlers = ArrayOfTables::new();
    handlers.push(handler(command, timeout).into_table());
    let mut group = Table::new();
    group.insert("hooks", Item::ArrayOfTables(handlers));
    group
}

/// Removes the handlers that `is_ours` recognises, and what was made for them. Returns `None` if there is none.
pub(super) fn remove(text: &str, is_ours: &dyn Fn(&str, &Value) -> bool) -> Result<Option<String>, String> {
    let mut document = parse(text)?;
    let mut removed = false;
    if let Some(hooks) = document.get_mut("hooks").and_then(Item::as_table_like_mut) {
        let events: Vec<String> = hooks.iter().map(|(event, _)| event.to_owned()).collect();
        for event in events {
            let Some(item) = hooks.get_mut(&event) else { continue };
            let before = groups_in(item);
            let is_left = without_ours(item, &|handler| is_ours(&event, handler), &mut removed);
            if before > 0 && !is_left {
                hooks.remove(&event);
            }
        }
    }
    if !removed {
        return Ok(None);
    }
    let is_empty = document.get("hooks").and_then(Item::as_table_like).is_some_and(TableLike::is_empty);
    let is_made = document.get("hooks").and_then(Item::as_table).is_some_and(Table::is_implicit);
    if is_empty && is_made {
        document.remove("hooks");
    }
    Ok(Some(document.to_string()))
}

/// Handlers that `is_ours` recognises, with their events.
pub(super) fn find(
    text: &str,
    is_ours: &dyn Fn(&str, &Value) -> bool,
) -> Result<Vec<(String, Value)>, String> {
    let document = parse(text)?;
    let mut found = Vec::new();
    let Some(hooks) = document.get("hooks").and_then(Item::as_table_like) else { return Ok(found) };
    for (event, item) in hooks.iter() {
        let groups: Vec<&dyn TableLike> = match item {
            Item::ArrayOfTables(all) => all.iter().map(|group| group as &dyn TableLike).collect(),
            Item::Value(toml_edit::Value::Array(all)) => {
                all.iter().filter_map(|group| group.as_inline_table().map(|group| group as _)).collect()
            }
            _ => continue,
        };
        for group in groups {
            for handler in handlers_of(group.get("hooks")) {
                if is_ours(event, &handler) {
                    found.push((event.to_owned(), handler));
                }
            }
        }
    }
    Ok(found)
}

fn groups_in(item: &Item) -> usize {
    match item {
        Item::ArrayOfTables(all) => all.len(),
        Item::Value(toml_edit::Value::Array(all)) => all.len(),
        _ => 0,
    }
}

/// Removes what is ours in the groups of an event. Returns whether a group is left.
fn without_ours(item: &mut Item, is_ours: &dyn Fn(&Value) -> bool, removed: &mut bool) -> bool {
    match item {
        Item::ArrayOfTables(all) => {
            all.retain(|group| !is_all_ours(group.get("hooks"), is_ours, removed));
            all.iter_mut().for_each(|group| thin(group.get_mut("hooks"), is_ours, removed));
            !all.is_empty()
        }
        Item::Value(toml_edit::Value::Array(all)) => {
            all.retain(|group| {
                let hooks = group.as_inline_table().and_then(|group| group.get("hooks"));
                let hooks = hooks.map(|hooks| Item::Value(hooks.clone()));
                !is_all_ours(hooks.as_ref(), is_ours, removed)
            });
            !all.is_empty()
        }
        _ => true,
    }
}

fn is_all_ours(hooks: Option<&Item>, is_ours: &dyn Fn(&Value) -> bool, removed: &mut bool) -> bool {
    let handlers = handlers_of(hooks);
    let is_all = !handlers.is_empty() && handlers.iter().all(is_ours);
    *removed |= is_all;
    is_all
}

/// Removes our handlers from a group that has others.
fn thin(hooks: Option<&mut Item>, is_ours: &dyn Fn(&Value) -> bool, removed: &mut bool) {
    if let Some(Item::ArrayOfTables(all)) = hooks {
        let before = all.len();
        all.retain(|handler| !is_ours(&json_of(handler)));
        *removed |= all.len() < before;
    }
}

fn handlers_of(hooks: Option<&Item>) -> Vec<Value> {
    match hooks {
        Some(Item::ArrayOfTables(all)) => all.iter().map(|handler| json_of(handler)).collect(),
        Some(Item::Value(toml_edit::Value::Array(all))) => {
            all.iter().filter_map(toml_edit::Value::as_inline_table).map(|handler| json_of(handler)).collect()
        }
        _ => Vec::new(),
    }
}

/// The texts of a handler, which is all that is looked at.
fn json_of(handler: &dyn TableLike) -> Value {
    let texts = handler.iter().filter_map(|(key, item)| Some((key.to_owned(), Value::from(item.as_str()?))));
    Value::Object(texts.collect())
}

#[cfg(test)]
mod tests {
    use super::super::format::{self, Agent, Options};
    use super::*;

    fn groups() -> Vec<Group> {
        format::groups(Agent::Codex, &Options::at("http://127.0.0.1:8765", "/usr/bin/recount"))
    }

    fn ours(event: &str, handler: &Value) -> bool {
        format::is_ours(Agent::Codex, event, handler)
    }

    #[track_caller]
    fn round(before: &str) {
        let after = add(before, &groups()).unwrap();
        assert_eq!(find(&after, &ours).unwrap().len(), groups().len(), "{after}");
        let kept = before.lines().all(|line| after.contains(line.trim_end_matches(" }")));
        assert!(kept, "{after}");
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
        round("[hooks.state]\n# trust\n\"/a:stop:0:0\" = { trusted_hash = \"sha256:1\" }\n");
    }

    #[test]
    fn tables_that_codex_adds_meanwhile_stay() {
        let before = "[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"x\"\n";
        let after = add(before, &groups()).unwrap();
        let state = "\n[hooks.state.\"/c:stop:0:0\"]\ntrusted_hash = \"sha256:1\"\n";
        let back = remove(&format!("{after}{state}"), &ours).unwrap().unwrap();
        assert_eq!(back, format!("{before}{state}"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(add("a = ", &groups()).unwrap_err().contains("not valid TOML"));
        assert!(add("hooks = 1", &groups()).unwrap_err().contains("not a table"));
        assert!(add("hooks.Stop = 1", &groups()).unwrap_err().contains("hooks.Stop"));
    }
}
