//! Hooks in a settings file in JSON: added and removed in its text, so that every other byte stays.
//!
//! It must not know files or agents. Look at [`add`] and [`remove`].

use std::collections::BTreeMap;

use recount_json::{Fault, Kind, Scanner, Token, unescape};
use serde_json::Value;

use super::format::Group;
use crate::limits;

/// The white space of containers that were empty before something was added, by their path.
pub(super) type Interiors = BTreeMap<String, String>;

/// A value and where it is.
struct Node {
    start: usize,
    end: usize,
    parts: Parts,
}

enum Parts {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Leaf,
}

struct Member {
    key: String,
    start: usize,
    value: Node,
}

impl Node {
    fn member(&self, key: &str) -> Option<&Member> {
        self.members().iter().find(|member| member.key == key)
    }

    fn members(&self) -> &[Member] {
        if let Parts::Object(members) = &self.parts { members } else { &[] }
    }

    fn items(&self) -> &[Node] {
        if let Parts::Array(items) = &self.parts { items } else { &[] }
    }

    /// Where each member or item begins and ends.
    fn children(&self) -> Vec<(usize, usize)> {
        match &self.parts {
            Parts::Object(members) => members.iter().map(|member| (member.start, member.value.end)).collect(),
            Parts::Array(items) => items.iter().map(|item| (item.start, item.end)).collect(),
            Parts::Leaf => Vec::new(),
        }
    }

    fn named(&self) -> &'static str {
        match self.parts {
            Parts::Object(_) => "an object",
            Parts::Array(_) => "an array",
            Parts::Leaf => "neither an object nor an array",
        }
    }
}

/// Adds a group of each event after those that are there. Returns the new text, and the white space of containers that
/// were empty.
pub(super) fn add(text: &str, groups: &[Group]) -> Result<(String, Interiors), String> {
    let mut text = if text.trim().is_empty() { "{}\n".to_owned() } else { text.to_owned() };
    let mut interiors = Interiors::new();
    for group in groups {
        let root = parse(&text)?;
        let unit = unit_of(&text, &root);
        let item = serde_json::to_value(group).map_err(|why| why.to_string())?;
        let (container, path, key, value) = match root.member("hooks") {
            None => {
                let hooks = serde_json::json!({ group.event: [item] });
                (&root, String::new(), Some("hooks"), hooks)
            }
            Some(hooks) if !matches!(hooks.value.parts, Parts::Object(_)) => {
                return Err(format!("\"hooks\" is {}, not an object", hooks.value.named()));
            }
            Some(hooks) => match hooks.value.member(group.event) {
                None => (&hooks.value, "hooks".to_owned(), Some(group.event), Value::Array(vec![item])),
                Some(event) if !matches!(event.value.parts, Parts::Array(_)) => {
                    return Err(format!(
                        "\"hooks.{}\" is {}, not an array",
                        group.event,
                        event.value.named()
                    ));
                }
                Some(event) => (&event.value, format!("hooks.{}", group.event), None, item),
            },
        };
        if container.children().is_empty() {
            interiors.insert(path, text[container.start + 1..container.end - 1].to_owned());
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

fn remove_one(
    text: &str,
    is_ours: &dyn Fn(&str, &Value) -> bool,
    interiors: Option<&Interiors>,
) -> Result<Option<String>, String> {
    let root = parse(text)?;
    let Some((hooks_at, hooks)) = root.members().iter().enumerate().find(|(_, member)| member.key == "hooks")
    else {
        return Ok(None);
    };
    // What was empty before stays, and so does what a person wrote around it.
    let keeps = |path: &str| interiors.is_some_and(|interiors| interiors.contains_key(path));
    for (event_at, event) in hooks.value.members().iter().enumerate() {
        for (group_at, group) in event.value.items().iter().enumerate() {
            let Some(handlers) = group.member("hooks") else { continue };
            for (at, handler) in handlers.value.items().iter().enumerate() {
                let plain = without_comments(text);
                let value = serde_json::from_str(&plain[handler.start..handler.end]).unwrap_or(Value::Null);
                if !is_ours(&event.key, &value) {
                    continue;
                }
                let path = format!("hooks.{}", event.key);
                let cut = if handlers.value.items().len() > 1 {
                    cut(text, &handlers.value, at, None)
                } else if event.value.items().len() > 1 || keeps(&path) {
                    cut(text, &event.value, group_at, interiors.and_then(|all| all.get(&path)))
                } else if hooks.value.members().len() > 1 || keeps("hooks") {
                    cut(text, &hooks.value, event_at, interiors.and_then(|all| all.get("hooks")))
                } else {
                    cut(text, &root, hooks_at, interiors.and_then(|all| all.get("")))
                };
                return Ok(Some(cut));
            }
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
    let (root, plain) = (parse(text)?, without_comments(text));
    let mut found = Vec::new();
    let Some(hooks) = root.member("hooks") else { return Ok(found) };
    for event in hooks.value.members() {
        let handlers = event.value.items().iter().filter_map(|group| group.member("hooks"));
        for handler in handlers.flat_map(|handlers| handlers.value.items()) {
            let value = serde_json::from_str(&plain[handler.start..handler.end]).unwrap_or(Value::Null);
            if is_ours(&event.key, &value) {
                found.push((event.key.clone(), value));
            }
        }
    }
    Ok(found)
}

/// Whether an object has no members.
pub(super) fn is_empty(text: &str) -> bool {
    parse(text).is_ok_and(|root| matches!(&root.parts, Parts::Object(members) if members.is_empty()))
}

/// The text without the child at this place, and without the comma that came with it.
fn cut(text: &str, container: &Node, at: usize, interior: Option<&String>) -> String {
    let children = container.children();
    let (start, end) = children[at];
    let (from, to, instead) = match (at.checked_sub(1), children.get(at + 1)) {
        (Some(before), _) => (children[before].1, end, ""),
        (None, Some((next, _))) => (start, *next, ""),
        (None, None) => (container.start + 1, container.end - 1, interior.map_or("", String::as_str)),
    };
    format!("{}{instead}{}", &text[..from], &text[to..])
}

/// The text with one more child at the end of a container.
fn insert(
    text: &str,
    container: &Node,
    unit: &str,
    key: Option<&str>,
    value: &Value,
) -> Result<String, String> {
    let key = key.map_or(String::new(), |key| format!("{}: ", Value::from(key)));
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let children = container.children();
    let is_in_line = children.first().is_some_and(|(start, _)| !text[container.start..*start].contains('\n'));
    if is_in_line {
        let (_, last) = children[children.len() - 1];
        return Ok(format!("{}, {key}{value}{}", &text[..last], &text[last..]));
    }
    let (at, comma, indent, tail) = match children.last() {
        Some((start, end)) => (*end, ",", indent_at(text, *start).to_owned(), String::new()),
        None => {
            let outer = indent_at(text, container.start);
            let at = container.start + 1;
            (at, "", format!("{outer}{unit}"), format!("{newline}{outer}"))
        }
    };
    let rest = match children.is_empty() {
        // White space of an empty container is kept aside by the caller; a comment in it stays.
        true if text[at..container.end - 1].trim().is_empty() => container.end - 1,
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

/// The white space at the beginning of the line that this place is in.
fn indent_at(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let rest = &text[line..at];
    &rest[..rest.len() - rest.trim_start().len()]
}

/// How the file indents one level.
fn unit_of(text: &str, root: &Node) -> String {
    let first = root.children().first().map(|(start, _)| indent_at(text, *start));
    first.filter(|indent| !indent.is_empty()).unwrap_or("  ").to_owned()
}

/// Comments as spaces, as the agents that allow them read the text.
fn without_comments(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
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
    without_comments(text) != text
}

/// The whole text as a value, to look something up in it.
pub(super) fn value(text: &str) -> Option<Value> {
    serde_json::from_str(&without_comments(text)).ok()
}

fn parse(text: &str) -> Result<Node, String> {
    let plain = without_comments(text);
    let place = |at: usize| {
        let before = &plain[..at.min(plain.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("line {line}, column {column}")
    };
    let fault = |why: Fault| format!("not valid JSON at {}: {:?}", place(why.at), why.reason);
    let mut scanner = Scanner::strict(&plain, limits::SETTINGS_DEPTH_MAX);
    let first = scanner.token().map_err(fault)?.ok_or("not valid JSON: it is empty")?;
    let root = node(&plain, &mut scanner, first).map_err(fault)?;
    if scanner.token().map_err(fault)?.is_some() {
        return Err("not valid JSON: something follows the outermost value".to_owned());
    }
    match root.parts {
        Parts::Object(_) => Ok(root),
        _ => Err(format!("the outermost value is {}, not an object", root.named())),
    }
}

/// As deep as the scanner allows.
fn node(text: &str, scanner: &mut Scanner<'_>, token: Token) -> Result<Node, Fault> {
    let start = token.start;
    match token.kind {
        Kind::ObjectStart => {
            let mut members = Vec::new();
            while let Some(key) = scanner.token()? {
                if key.kind == Kind::ObjectEnd {
                    return Ok(Node { start, end: key.end, parts: Parts::Object(members) });
                }
                let Some(first) = scanner.token()? else { break };
                let value = node(text, scanner, first)?;
                let name = unescape(&text[key.inside()]).into_owned();
                members.push(Member { key: name, start: key.start, value });
            }
            Ok(Node { start, end: text.len(), parts: Parts::Object(members) })
        }
        Kind::ArrayStart => {
            let mut items = Vec::new();
            while let Some(first) = scanner.token()? {
                if first.kind == Kind::ArrayEnd {
                    return Ok(Node { start, end: first.end, parts: Parts::Array(items) });
                }
                items.push(node(text, scanner, first)?);
            }
            Ok(Node { start, end: text.len(), parts: Parts::Array(items) })
        }
        _ => Ok(Node { start, end: token.end, parts: Parts::Leaf }),
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
            ("{\"a\":1,\"a\":2}", "DuplicateKey"),
            ("[1]", "the outermost value is an array"),
            ("{\"hooks\": []}", "\"hooks\" is an array"),
            ("{\"hooks\": {\"Stop\": 1}}", "\"hooks.Stop\" is neither"),
        ] {
            let refused = add(text, &groups()).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
