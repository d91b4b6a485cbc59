//! Released types, frozen: `docs/registry.lock` and the rules for changing it.
//!
//! [`changes`] compares a lock with the current code. **Additions** can be blessed: a type; an optional
//! field; a value of a closed set; more producers that may append; a type that becomes more
//! stable or deprecated. **Everything else is refused, blessed or not**, because a producer, a reader or a
//! stored log relies on it: a removal, a rename (which is a removal and an addition), another kind, and a change of
//! presence in either direction: `optional` to `required` breaks writers, `required` to `optional` breaks readers.
//! Removing a value from a closed set breaks writers and is refused; a new value is an addition,
//! because readers must accept unknown values as they accept unknown types.

use std::collections::{BTreeMap, BTreeSet};

use crate::registry::form::{self, Presence};
use crate::registry::{self, Appender, Row, Status};

/// The released form of every type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    pub types: BTreeMap<String, TypeForm>,
}

/// The released form of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeForm {
    pub status: Status,
    pub appender: Appender,
    pub fields: BTreeMap<String, FieldForm>,
}

/// The released form of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldForm {
    pub presence: Presence,
    pub kind: String,
    pub words: BTreeSet<String>,
}

/// One difference between two locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// May be blessed.
    Addition(String),
    /// May not.
    Refused(String),
}

/// Why a text is not a lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the lock: {reason}")]
pub struct LockError {
    pub line: usize,
    pub reason: &'static str,
}

const HEAD: &str = "\
# The released form of every event type. Made by the code, compared by a test; see crates/event/src/registry/lock.rs
# for what may still change. A type: its name, status, who may append it. A field: its path, presence, kind, and
# the words of a closed set.
";

impl Lock {
    /// The lock of the current code.
    pub fn current() -> Lock {
        Lock::of(registry::TABLE)
    }

    fn of(table: &[Row]) -> Lock {
        let form = |row: &Row| TypeForm {
            status: row.status,
            appender: row.appender,
            fields: form::fields(row)
                .into_iter()
                .map(|field| {
                    let form = FieldForm { presence: field.presence, kind: field.kind, words: field.words };
                    (field.path, form)
                })
                .collect(),
        };
        Lock { types: table.iter().map(|row| (row.type_name.to_owned(), form(row))).collect() }
    }

    /// The same lock always gives the same text.
    pub fn print(&self) -> String {
        let mut text = HEAD.to_owned();
        for (name, form) in &self.types {
            text.push_str(&format!("\n{name} {} {}\n", form.status.as_str(), form.appender.as_str()));
            for (path, field) in &form.fields {
                text.push_str(&format!("  {path} {} {}", field.presence.as_str(), field.kind));
                for word in &field.words {
                    text.push(' ');
                    text.push_str(word);
                }
                text.push('\n');
            }
        }
        text
    }

    pub fn parse(text: &str) -> Result<Lock, LockError> {
        let mut lock = Lock::default();
        let mut open: Option<String> = None;
        for (index, line) in text.lines().enumerate() {
            let wrong = |reason: &'static str| LockError { line: index + 1, reason };
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut words = line.split_whitespace();
            let mut next = |reason: &'static str| words.next().ok_or_else(|| wrong(reason));
            let name = next("a name is missing")?.to_owned();
            if line.starts_with("  ") {
                let presence = Presence::parse(next("the presence is missing")?)
                    .ok_or_else(|| wrong("the presence is not one"))?;
                let kind = next("the kind is missing")?.to_owned();
                let field = FieldForm { presence, kind, words: words.map(str::to_owned).collect() };
                let type_name = open.as_ref().ok_or_else(|| wrong("a field stands before any type"))?;
                let form = lock.types.get_mut(type_name).expect("the open type was put in");
                if form.fields.insert(name, field).is_some() {
                    return Err(wrong("the field comes twice"));
                }
            } else {
                let status = Status::parse(next("the status is missing")?)
                    .ok_or_else(|| wrong("the status is not one"))?;
                let appender = Appender::parse(next("who may append is missing")?)
                    .ok_or_else(|| wrong("who may append is not known"))?;
                let form = TypeForm { status, appender, fields: BTreeMap::new() };
                if lock.types.insert(name.clone(), form).is_some() {
                    return Err(wrong("the type comes twice"));
                }
                open = Some(name);
            }
        }
        Ok(lock)
    }
}

/// All differences, in the order of the released lock, additions of types last.
pub fn changes(released: &Lock, current: &Lock) -> Vec<Change> {
    let mut found = Vec::new();
    for (name, before) in &released.types {
        match current.types.get(name) {
            Some(now) => type_changes(name, before, now, &mut found),
            None => found.push(Change::Refused(format!("{name} was removed or renamed"))),
        }
    }
    for name in current.types.keys().filter(|name| !released.types.contains_key(*name)) {
        found.push(Change::Addition(format!("{name} is new")));
    }
    found
}

fn type_changes(name: &str, before: &TypeForm, now: &TypeForm, found: &mut Vec<Change>) {
    if before.status != now.status {
        let change = format!("{name}: status {} became {}", before.status.as_str(), now.status.as_str());
        let settles = now.status == Status::Deprecated || settled(now.status) > settled(before.status);
        found.push(if settles { Change::Addition(change) } else { Change::Refused(change) });
    }
    if before.appender != now.appender {
        let (was, is) = (before.appender.as_str(), now.appender.as_str());
        let change = format!("{name}: {was} could append it, now {is}");
        found.push(if now.appender > before.appender {
            Change::Addition(change)
        } else {
            Change::Refused(change)
        });
    }
    for (path, field) in &before.fields {
        match now.fields.get(path) {
            Some(now) => field_changes(&format!("{name}: {path}"), field, now, found),
            None => found.push(Change::Refused(format!("{name}: {path} was removed or renamed"))),
        }
    }
    for (path, field) in now.fields.iter().filter(|(path, _)| !before.fields.contains_key(*path)) {
        // The parts of a new field may be as they like; a new part of an old one must be optional.
        let parent_is_new = parent(path).is_some_and(|parent| !before.fields.contains_key(parent));
        let change = format!("{name}: {path} is new and {}", field.presence.as_str());
        let free = parent_is_new || matches!(field.presence, Presence::Optional | Presence::Written);
        found.push(if free { Change::Addition(change) } else { Change::Refused(change) });
    }
}

fn field_changes(place: &str, before: &FieldForm, now: &FieldForm, found: &mut Vec<Change>) {
    if before.presence != now.presence {
        let (was, is) = (before.presence.as_str(), now.presence.as_str());
        found.push(Change::Refused(format!("{place} was {was}, now {is}")));
    }
    if before.kind != now.kind {
        found.push(Change::Refused(format!("{place} was {}, now {}", before.kind, now.kind)));
        return;
    }
    for word in before.words.difference(&now.words) {
        found.push(Change::Refused(format!("{place} may no longer say {word}")));
    }
    for word in now.words.difference(&before.words) {
        found.push(Change::Addition(format!("{place} may say {word}")));
    }
}

/// The field that a path is a part of.
fn parent(path: &str) -> Option<&str> {
    match path.strip_suffix("[]") {
        Some(list) => Some(list),
        None => path.rfind('.').map(|dot| &path[..dot]),
    }
}

/// The order of the statuses: a type may rise, never fall. A deprecated type stays deprecated.
fn settled(status: Status) -> u8 {
    match status {
        Status::Experimental => 0,
        Status::Artifact => 1,
        Status::Core => 2,
        Status::Deprecated => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELEASED: &str = "\
run.waiting core runtime
  config optional any
  for required list
  for[] item object
  for[].id required id
  for[].kind required word approval handoff
  note written string|null

trial.held experimental producer
";

    /// The changes that the checker reports for one edit of the released text.
    fn changes_after(edit: impl Fn(&str) -> String) -> Vec<Change> {
        let edited = edit(RELEASED);
        assert_ne!(edited, RELEASED, "the edit edits");
        let released = Lock::parse(RELEASED).unwrap();
        let current = Lock::parse(&edited).unwrap_or_else(|why| panic!("{why}\n{edited}"));
        changes(&released, &current)
    }

    #[track_caller]
    fn refused(from: &str, to: &str) {
        let changes = changes_after(|text| text.replace(from, to));
        assert!(
            changes.iter().any(|one| matches!(one, Change::Refused(_))),
            "{from:?} to {to:?}: {changes:?}"
        );
    }

    #[track_caller]
    fn blessable(from: &str, to: &str) {
        let changes = changes_after(|text| text.replace(from, to));
        let good = !changes.is_empty() && changes.iter().all(|one| matches!(one, Change::Addition(_)));
        assert!(good, "{from:?} to {to:?}: {changes:?}");
    }

    #[test]
    fn changes_of_released_types_are_refused() {
        refused("trial.held experimental producer\n", "");
        refused("run.waiting", "run.suspended");
        refused("  config optional any\n", "");
        refused("  note ", "  remark ");
        refused("  config optional", "  config required");
        refused("  config optional", "  config written");
        refused("  note written", "  note optional");
        refused("  note written", "  note required");
        refused("for required", "for optional");
        refused("string|null", "string");
        refused("string|null", "string[1..9]|null");
        refused("config optional any", "config optional object");
        refused("for[].id required id", "for[].id required string");
        refused(" handoff", "");
        refused("approval handoff", "approval hand_off");
        refused("for[].kind required word approval handoff", "for[].kind required string");
        refused("run.waiting core", "run.waiting experimental");
        refused("run.waiting core", "run.waiting artifact");
        refused("experimental producer", "experimental runtime");
        refused("  note ", "  must required string\n  note ");
        refused("  note ", "  for[].must required string\n  note ");
    }

    #[test]
    fn additions_may_be_blessed() {
        blessable("trial.held", "trial.opened core runtime\n  a required string\ntrial.held");
        blessable("  note ", "  more optional string|null\n  note ");
        blessable("  note ", "  more written string|null\n  note ");
        blessable(
            "  note ",
            "  more optional list|null\n  more[] item object\n  more[].a required string\n  note ",
        );
        blessable("approval handoff", "approval handoff tool");
        blessable("runtime", "anyone");
        blessable("experimental producer", "core producer");
        blessable("run.waiting core", "run.waiting deprecated");
    }

    #[test]
    fn deprecated_stays_so() {
        let deprecated = Lock::parse("a.b deprecated runtime\n").unwrap();
        for status in ["core", "artifact", "experimental"] {
            let current = Lock::parse(&format!("a.b {status} runtime\n")).unwrap();
            assert!(matches!(&changes(&deprecated, &current)[..], [Change::Refused(_)]), "{status}");
        }
    }

    #[test]
    fn an_unedited_lock_has_no_changes() {
        let current = Lock::current();
        assert_eq!(Lock::parse(&current.print()), Ok(current.clone()));
        assert_eq!(changes(&current, &current), []);
    }

    /// Every field of every real type, removed or changed, is noticed.
    #[test]
    fn every_change_of_a_released_field_is_found() {
        let released = Lock::current();
        let noticed =
            |current: &Lock| changes(&released, current).iter().any(|one| matches!(one, Change::Refused(_)));
        for (name, form) in &released.types {
            for (path, field) in &form.fields {
                let with = |edited: Option<FieldForm>| {
                    let mut current = released.clone();
                    let fields = &mut current.types.get_mut(name).unwrap().fields;
                    match edited {
                        Some(edited) => fields.insert(path.clone(), edited),
                        None => fields.remove(path),
                    };
                    current
                };
                assert!(noticed(&with(None)), "{name}: {path} removed");
                for presence in Presence::ALL.into_iter().filter(|one| *one != field.presence) {
                    let edited = FieldForm { presence, ..field.clone() };
                    assert!(noticed(&with(Some(edited))), "{name}: {path} {}", presence.as_str());
                }
                let other_kind = FieldForm { kind: "other".into(), ..field.clone() };
                assert!(noticed(&with(Some(other_kind))), "{name}: {path} of another kind");
                for word in &field.words {
                    let mut fewer = field.clone();
                    fewer.words.remove(word);
                    assert!(noticed(&with(Some(fewer))), "{name}: {path} without {word}");
                }
            }
        }
    }

    #[test]
    fn a_broken_lock_is_not_read() {
        for (line, text) in [
            (1, "  a required string\n"),
            (1, "a.b\n"),
            (1, "a.b core\n"),
            (1, "a.b shiny runtime\n"),
            (2, "a.b core runtime\n  a maybe string\n"),
            (2, "a.b core runtime\n  a required\n"),
            (3, "a.b core runtime\n  a required string\n  a required string\n"),
            (2, "a.b core runtime\na.b core runtime\n"),
        ] {
            assert_eq!(Lock::parse(text).map_err(|why| why.line), Err(line), "{text}");
        }
    }
}
