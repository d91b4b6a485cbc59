//! Hooks and text members in a settings file in JSON: added and removed in its text, so that every other byte stays.
//!
//! It must not know files or agents. Look at [`add`] and [`remove`], and at [`add_texts`] and [`remove_texts`].

use std::collections::BTreeMap;
use std::ops::Range;

use recount_json::{Node, Place, ReadFault, Reader, Sort};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::format::Group;
use crate::limits;

/// The white space of containers that were empty before something was added, by their path.
pub(super) type Interiors = BTreeMap<String, String>;

/// A member whose value is a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TextMember {
    /// The object of the top level that has it; `None` if the top level itself has it.
    pub(super) object: Option<String>,
    pub(super) name: String,
    pub(super) value: String,
}

/// Adds a group of each event after those that are there. Returns the new text, and the white space of containers that
/// were empty.
pub(super) fn add(text: &str, groups: &[Group]) -> Result<(String, Interiors), String> {
    let mut text = if text.trim().is_empty() { "{}\n".to_owned() } else { text.to_owned() };
    let mut interiors = Interiors::new();
    let mut reader = Reader::new();
    for group in groups {
        let plain = without_comments(&text);
        let root = parse(&plain, &mut reader)?;
        let unit = unit_of(&text, root);
        let item = serde_json::to_value(group).map_err(|why| why.to_string())?;
        let (container, path, key, value) = match root.get("hooks") {
            None => {
                let hooks = serde_json::json!({ group.event: [item] });
                (root, String::new(), Some("hooks"), hooks)
            }
            Some(hooks) if hooks.sort() != Sort::Object => {
                return Err(format!("\"hooks\" is {}", instead_of("an object", hooks)));
            }
            Some(hooks) => match hooks.get(group.event) {
                None => (hooks, "hooks".to_owned(), Some(group.event), Value::Array(vec![item])),
                Some(groups) if groups.sort() != Sort::Array => {
                    return Err(format!("\"hooks.{}\" is {}", group.event, instead_of("an array", groups)));
                }
                Some(groups) => (groups, format!("hooks.{}", group.event), None, item),
            },
        };
        if children(container).is_empty() {
            interiors.insert(path, text[inside(container)].to_owned());
        }
        text = insert(&text, container, &unit, key, &value)?;
    }
    Ok((text, interiors))
}

/// Removes the handlers that `is_ours` recognises, and what was made for them. Returns `None` if there is none.
pub(super) fn remove(
    text: &str,
    is_ours: &dyn Fn(&str, &Value) -> bool,
    interiors: Option<&Interiors>,
) -> Result<Option<String>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let mut text = text.to_owned();
    let mut removed = false;
    while let Some(next) = remove_one(&text, is_ours, interiors)? {
        text = next;
        removed = true;
    }
    Ok(removed.then_some(text))
}

/// Adds members that the text does not have yet. White space of objects that were empty is added to `interiors`.
pub(super) fn add_texts(
    text: String,
    members: &[TextMember],
    interiors: &mut Interiors,
) -> Result<String, String> {
    let mut text = text;
    let mut reader = Reader::new();
    for member in members {
        let plain = without_comments(&text);
        let root = parse(&plain, &mut reader)?;
        let unit = unit_of(&text, root);
        let (name, value) = (&*member.name, Value::from(&*member.value));
        let (container, path, key, value) = match &member.object {
            None => (root, "", name, value),
            Some(object) => match root.get(object) {
                None => (root, "", &**object, serde_json::json!({ name: value })),
                Some(found) if found.sort() != Sort::Object => {
                    return Err(format!("\"{object}\" is {}", instead_of("an object", found)));
                }
                Some(found) => (found, &**object, name, value),
            },
        };
        if children(container).is_empty() {
            interiors.insert(path.to_owned(), text[inside(container)].to_owned());
        }
        text = insert(&text, container, &unit, Some(key), &value)?;
    }
    Ok(text)
}

/// Removes the members that have these values, and what was created for them. Returns `None` if there is none.
pub(super) fn remove_texts(
    text: &str,
    members: &[TextMember],
    interiors: &Interiors,
) -> Result<Option<String>, String> {
    let mut removed = None;
    let mut reader = Reader::new();
    for member in members.iter().rev() {
        let text = removed.as_deref().unwrap_or(text);
        let plain = without_comments(text);
        let root = parse(&plain, &mut reader)?;
        let object = member.object.as_deref();
        let Some(container) = object.map_or(Some(root), |name| root.get(name)) else { continue };
        let is_it =
            |(key, value): (Node<'_>, Node<'_>)| key.is(&member.name) && value_of(value) == member.value;
        let Some(at) = container.members().position(is_it) else { continue };
        let is_last = container.members().count() == 1;
        let created = object.filter(|name| is_last && !interiors.contains_key(*name));
        let of_root = created.and_then(|name| root.members().position(|(key, _)| key.is(name)));
        removed = Some(match of_root {
            Some(at) => cut(text, root, at, interiors.get("")),
            None => cut(text, container, at, interiors.get(object.unwrap_or_default())),
        });
    }
    Ok(removed)
}

fn remove_one(
    text: &str,
    is_ours: &dyn Fn(&str, &Value) -> bool,
    interiors: Option<&Interiors>,
) -> Result<Option<String>, String> {
    let plain = without_comments(text);
    let mut reader = Reader::new();
    let root = parse(&plain, &mut reader)?;
    let Some((hooks_at, (_, hooks))) = root.members().enumerate().find(|(_, (key, _))| key.is("hooks"))
    else {
        return Ok(None);
    };
    // What was empty before stays, and so does what a person wrote around it.
    let keeps = |path: &str| interiors.is_some_and(|interiors| interiors.contains_key(path));
    for (event_at, (event, groups)) in hooks.members().enumerate() {
        let event = event.str().unwrap_or_default();
        let path = format!("hooks.{event}");
        for (group_at, group) in groups.items().enumerate() {
            let Some(handlers) = group.get("hooks") else { continue };
            let Some(at) = handlers.items().position(|handler| is_ours(&event, &value_of(handler))) else {
                continue;
            };
            let (container, at, interior) = if handlers.items().count() > 1 {
                (handlers, at, None)
            } else if groups.items().count() > 1 || keeps(&path) {
                (groups, group_at, Some(&*path))
            } else if hooks.members().count() > 1 || keeps("hooks") {
                (hooks, event_at, Some("hooks"))
            } else {
                (root, hooks_at, Some(""))
            };
            let interior = interior.and_then(|path| interiors?.get(path));
            return Ok(Some(cut(text, container, at, interior)));
        }
    }
    Ok(None)
}

/// Handlers that `is_ours` recognises, with their events.
pub(super) fn find(
    text: &str,
    is_ours: &dyn Fn(&str, &Value) -> bool,
) -> Result<Vec<(String, Value)>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let plain = without_comments(text);
    let mut reader = Reader::new();
    let mut found = Vec::new();
    let Some(hooks) = parse(&plain, &mut reader)?.get("hooks") else { return Ok(found) };
    for (event, groups) in hooks.members() {
        let event = event.str().unwrap_or_default();
        for handler in groups.items().filter_map(|group| group.get("hooks")).flat_map(Node::items) {
            let value = value_of(handler);
            if is_ours(&event, &value) {
                found.push((event.clone().into_owned(), value));
            }
        }
    }
    Ok(found)
}

/// Whether an object has no members.
pub(super) fn is_empty(text: &str) -> bool {
    parse(&without_comments(text), &mut Reader::new()).is_ok_and(|root| root.members().next().is_none())
}

/// The text without the child at this index, and without the comma that came with it.
fn cut(text: &str, container: Node<'_>, at: usize, interior: Option<&String>) -> String {
    let children = children(container);
    let Range { start, end } = children[at];
    let (from, to, instead) = match (at.checked_sub(1), children.get(at + 1)) {
        (Some(before), _) => (children[before].end, end, ""),
        (None, Some(next)) => (start, next.start, ""),
        (None, None) => {
            let Range { start, end } = inside(container);
            (start, end, interior.map_or("", String::as_str))
        }
    };
    format!("{}{instead}{}", &text[..from], &text[to..])
}

/// The range between the brackets of a container.
fn inside(container: Node<'_>) -> Range<usize> {
    let Range { start, end } = container.range();
    start + 1..end - 1
}

/// The text with one more child at the end of a container.
fn insert(
    text: &str,
    container: Node<'_>,
    unit: &str,
    key: Option<&str>,
    value: &Value,
) -> Result<String, String> {
    let key = key.map_or(String::new(), |key| format!("{}: ", Value::from(key)));
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let children = children(container);
    let inside = inside(container);
    let is_in_line = children.first().is_some_and(|first| !text[inside.start..first.start].contains('\n'));
    if is_in_line {
        let last = children[children.len() - 1].end;
        return Ok(format!("{}, {key}{value}{}", &text[..last], &text[last..]));
    }
    let (at, comma, indent, tail) = match children.last() {
        Some(last) => (last.end, ",", indent_at(text, last.start).to_owned(), String::new()),
        None => {
            let outer = indent_at(text, inside.start);
            (inside.start, "", format!("{outer}{unit}"), format!("{newline}{outer}"))
        }
    };
    let rest = match children.is_empty() {
        // White space of an empty container is kept aside by the caller; a comment in it stays.
        true if text[inside.clone()].trim().is_empty() => inside.end,
        _ => at,
    };
    let pretty = pretty(value, unit)?.replace('\n', &format!("{newline}{indent}"));
    Ok(format!("{}{comma}{newline}{indent}{key}{pretty}{tail}{}", &text[..at], &text[rest..]))
}

fn pretty(value: &Value, unit: &str) -> Result<String, String> {
    use serde::Serialize as _;
    let mut out = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut writer = serde_json::Serializer::with_formatter(&mut out, format);
    value.serialize(&mut writer).map_err(|why| why.to_string())?;
    String::from_utf8(out).map_err(|why| why.to_string())
}

/// The white space at the beginning of the line that this offset is in.
fn indent_at(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let rest = &text[line..at];
    &rest[..rest.len() - rest.trim_start().len()]
}

/// How the file indents one level.
fn unit_of(text: &str, root: Node<'_>) -> String {
    let first = root.members().next().map(|(key, _)| indent_at(text, key.range().start));
    first.filter(|indent| !indent.is_empty()).unwrap_or("  ").to_owned()
}

/// Some editors write it at the beginning of a file. It is kept.
pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';

/// Comments, and a byte-order mark, as spaces, as the agents that allow them read the text.
fn without_comments(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    if text.starts_with(BYTE_ORDER_MARK) {
        out[..BYTE_ORDER_MARK.len_utf8()].fill(b' ');
    }
    let (mut at, mut in_text) = (0, false);
    while at < out.len() {
        let end = match (in_text, out[at], out.get(at + 1)) {
            (true, b'\\', _) => {
                at += 2;
                continue;
            }
            (_, b'"', _) => {
                in_text = !in_text;
                None
            }
            (false, b'/', Some(b'/')) => Some(text[at..].find('\n').map_or(text.len(), |end| at + end)),
            (false, b'/', Some(b'*')) => {
                Some(text[at + 2..].find("*/").map_or(text.len(), |end| at + 2 + end + 2))
            }
            _ => None,
        };
        if let Some(end) = end {
            out[at..end].iter_mut().filter(|byte| !byte.is_ascii_whitespace()).for_each(|byte| *byte = b' ');
        }
        at = end.unwrap_or(at + 1);
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

/// Whether the text has comments, which not every agent reads.
pub(super) fn has_comments(text: &str) -> bool {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    without_comments(text) != text
}

/// The whole text as a value, to look something up in it.
pub(super) fn value(text: &str) -> Option<Value> {
    parse(&without_comments(text), &mut Reader::new()).ok().map(value_of)
}

fn parse<'d>(plain: &'d str, reader: &'d mut Reader) -> Result<Node<'d>, String> {
    let refused = |ReadFault { fault, .. }: ReadFault| {
        let Place { line, column } = Place::of(plain, fault.at);
        format!("not valid JSON at line {line}, column {column}: {}", fault.reason)
    };
    let root = reader.read(plain, limits::SETTINGS_DEPTH_MAX).map_err(refused)?.root();
    match root.sort() {
        Sort::Object => Ok(root),
        _ => Err(format!("the top-level value is {}", instead_of("an object", root))),
    }
}

/// Where each member or item is written.
fn children(container: Node<'_>) -> Vec<Range<usize>> {
    let members = container.members().map(|(key, value)| key.range().start..value.range().end);
    members.chain(container.items().map(Node::range)).collect()
}

fn instead_of(expected: &str, node: Node<'_>) -> String {
    match node.sort() {
        Sort::Object | Sort::Array => format!("{}, not {expected}", node.sort().with_article()),
        _ => "neither an object nor an array".to_owned(),
    }
}

/// A leaf that a value cannot have, such as the number 1e999, is null; what is around it is as written.
fn value_of(node: Node<'_>) -> Value {
    match node.sort() {
        Sort::Object => node
            .members()
            .map(|(key, value)| (key.str().unwrap_or_default().into_owned(), value_of(value)))
            .collect(),
        Sort::Array => node.items().map(value_of).collect(),
        _ => serde_json::from_str(node.source()).unwrap_or(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use crate::command::recorded::Agent;

    use super::super::format::Options;
    use super::*;

    fn groups() -> Vec<Group> {
        super::super::format::groups(Agent::Claude, &Options::at("http://127.0.0.1:8765", "/usr/bin/recount"))
    }

    fn ours(event: &str, handler: &Value) -> bool {
        super::super::format::is_ours(Agent::Claude, event, handler)
    }

    #[track_caller]
    fn round(before: &str) {
        let (after, interiors) = add(before, &groups()).unwrap();
        let value: Value = serde_json::from_str(&without_comments(&after)).unwrap();
        let events = value["hooks"].as_object().unwrap();
        assert!(groups().iter().all(|group| events.contains_key(group.event)));
        assert_eq!(find(&after, &ours).unwrap().len(), groups().len());
        let back = remove(&after, &ours, Some(&interiors)).unwrap().unwrap();
        assert_eq!(back, before);
        assert_eq!(remove(&back, &ours, Some(&interiors)).unwrap(), None);
    }

    #[test]
    fn what_was_added_is_removed_to_the_byte() {
        round("{}");
        round("{}\n");
        round("{ }");
        round("{\n}\n");
        round("{\"a\":1}");
        round("{ \"a\": [1, 2], \"b\" : \"}\" }\r\n");
        round("{\n\t\"a\": 1,\n\t\"hooks\": {}\n}");
        round("{\r\n    \"a\": 1\r\n}\r\n");
        round("{\n  \"hooks\": {\n    \"Stop\": []\n  },\n  \"z\": null\n}\n");
        round(
            "{\n  \"hooks\": { \"Stop\": [ {\"hooks\": [{\"type\": \"command\", \"command\": \"x\"}]} ] }\n}\n",
        );
        round("{\n  // a person's note\n  \"a\": \"// not a note\", /* and\n another */ \"b\": 2\n}\n");
        round("{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"Bash\",\"hooks\":[]}]}}");
        round("{\n\n  \"a\": 1\n\n}\n");
        round("{\"hooks\": {\"Stop\": []}, \"a\": [1, 2]}\r\n");
    }

    fn member(object: Option<&str>, name: &str, value: &str) -> TextMember {
        TextMember { object: object.map(str::to_owned), name: name.to_owned(), value: value.to_owned() }
    }

    fn members() -> [TextMember; 3] {
        [
            member(Some("env"), "ONE", "1"),
            member(Some("env"), "TWO", "a \"b\""),
            member(None, "helper", "x y"),
        ]
    }

    #[test]
    fn text_members_are_removed_to_the_byte() {
        for before in [
            "{}",
            "{ }\n",
            "{\n}\n",
            "{\"env\":{}}",
            "{ \"env\": { } }",
            "{\n  \"env\": {\n  }\n}\n",
            "{\r\n\t\"env\": {\"A\": \"b\"},\r\n\t\"z\": 1\r\n}\r\n",
            "{\n    \"env\": {\n        \"A\": \"b\"\n    }\n}\n",
            "{ \"a\": [1, 2], \"hooks\": {\"Stop\": []} }\r\n",
            "{\n  // a person's note\n  \"a\": 1 /* last */\n}\n",
        ] {
            let (hooked, mut interiors) = add(before, &groups()).unwrap();
            let after = add_texts(hooked, &members(), &mut interiors).unwrap();
            let value = value(&after).unwrap();
            assert_eq!(
                (&value["env"]["TWO"], &value["helper"]),
                (&"a \"b\"".into(), &"x y".into()),
                "{after}"
            );
            // In either order, with the hooks.
            let back = remove_texts(&after, &members(), &interiors).unwrap().unwrap();
            assert_eq!(remove_texts(&back, &members(), &interiors).unwrap(), None);
            assert_eq!(remove(&back, &ours, Some(&interiors)).unwrap().unwrap(), before);
            let back = remove(&after, &ours, Some(&interiors)).unwrap().unwrap();
            assert_eq!(remove_texts(&back, &members(), &interiors).unwrap().unwrap(), before);
        }
    }

    #[test]
    fn only_members_with_these_values_are_removed() {
        for (text, rest) in [
            (r#"{"env": {"ONE": "2", "TWO": "a \"b\""}, "helper": "x y"}"#, r#"{"env": {"ONE": "2"}}"#),
            (r#"{"env": {"ONE": "1", "MINE": "1"}}"#, r#"{"env": {"MINE": "1"}}"#),
            (r#"{"env": {"ONE": "1"}, "helper": 1}"#, r#"{"helper": 1}"#),
        ] {
            let left = remove_texts(text, &members(), &Interiors::new()).unwrap();
            assert_eq!(left.as_deref(), Some(rest));
        }
        for text in [r#"{"env": {"ONE": 1}}"#, r#"{"env": [], "helper": {}}"#, r#"{"ONE": "1"}"#] {
            assert_eq!(remove_texts(text, &members(), &Interiors::new()).unwrap(), None, "{text}");
        }
        let refused = add_texts("{\"env\": []}".to_owned(), &members(), &mut Interiors::new()).unwrap_err();
        assert_eq!(refused, "\"env\" is an array, not an object");
    }

    #[test]
    fn other_parts_that_change_meanwhile_stay() {
        let (after, interiors) = add("{\n  \"a\": 1\n}\n", &groups()).unwrap();
        let changed = after.replacen("\"a\": 1", "\"a\": 2,\n  \"new\": [true]", 1);
        let changed = changed.replacen(
            "\"Stop\": [",
            "\"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]},",
            1,
        );
        let back = remove(&changed, &ours, Some(&interiors)).unwrap().unwrap();
        let value: Value = serde_json::from_str(&back).unwrap();
        assert_eq!(value["new"], serde_json::json!([true]));
        assert_eq!(
            value["hooks"],
            serde_json::json!({"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]})
        );
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_place() {
        for (text, why) in [
            ("{\"a\": }", "line 1, column 7"),
            ("{\n \"a\": 1,\n}", "line 3, column 1"),
            ("{\"a\":1,\"a\":2}", "duplicate key"),
            ("[1]", "the top-level value is an array"),
            ("{\"hooks\": []}", "\"hooks\" is an array"),
            ("{\"hooks\": {\"Stop\": 1}}", "\"hooks.Stop\" is neither"),
        ] {
            let refused = add(text, &groups()).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
