//! The reference page, `docs/registry.md`.

use crate::limits;
use crate::registry::emitted::Witnesses;
use crate::registry::form::{self, Field, Presence};
use crate::registry::{Appender, Row, Status, TABLE};

/// The subject of each group. A group without a row here, or a row without a type, fails a test.
const GROUPS: &[(&str, &str)] = &[
    ("run", "how a run is queued, starts, waits and ends"),
    ("child_run", "runs that a run starts"),
    ("turn", "one call of a model, from start to end"),
    ("assistant", "the output of the model"),
    ("user", "what a person put into the conversation"),
    ("tool", "the life of a call, and the events of each kind of tool"),
    ("approval", "a request for permission, and its outcome"),
    ("clarification", "a question to a person, and its answer"),
    ("handoff", "the work handed over to a person or another agent"),
    ("workspace", "the folder that a run of this server works in"),
    ("artifact", "values stored apart from the log"),
    ("cost", "usage so far, and the state of the budget"),
    ("policy", "decisions of the policy of this server"),
    ("error", "what went wrong outside any single call"),
    ("gap", "history that is missing or damaged"),
    ("context", "what the model no longer sees in full"),
];

fn about(status: Status) -> &'static str {
    match status {
        Status::Core => "every front end may rely on it",
        Status::Artifact => "depends on artifact storage; a front end works without it",
        Status::Experimental => "disabled by default; see event-protocol-experimental.md",
        Status::Deprecated => "accepted from producers and shown, never written by the server itself",
    }
}

fn about_appender(appender: Appender) -> &'static str {
    match appender {
        Appender::Runtime => "only the server",
        Appender::Producer => "the server, and a program that drives an external run",
        Appender::Anyone => "any client with the scope ingest",
    }
}

/// The whole page. `seen` names the test that saw a real run of this server emit a type; see [`super::emitted`].
pub fn reference(seen: &Witnesses) -> String {
    let mut page = String::from(
        "# The event registry\n\n\
         Look up an event type, its fields, and who may append it. This page is generated from `crates/event`; \
         `registry.lock` freezes what was released, and `schemas/events/v1/` holds a JSON Schema \
         for each type's `data`.\n\n",
    );
    page.push_str("Names and fields are permanent. A release may add types and optional fields: ignore fields that you do not know, and show an unknown type unchanged. Names of the form `ext.<owner>.<name>` are free for producers and are never defined here.\n\n");
    page.push_str("If secrets were masked, `data` of any type has one more member: `redacted_paths`, a list of JSON Pointers into it (see [redaction.md](redaction.md)).\n\n");
    page.push_str(&format!(
        "In the tables, *yes* means that an event without the field is rejected, *null* that the server \
         always writes it with `null` for no value, *no* that it may be absent; `null` in such a field means \
         absent. An *id* is 1 to {} of the characters `A-Z a-z 0-9 . _ : -`. Integers stay below 2^53 and \
         are written as digits only.\n\n",
        limits::FOREIGN_ID_BYTES_MAX
    ));
    page.push_str("| status | meaning | types |\n| --- | --- | --- |\n");
    for status in Status::ALL {
        let count = TABLE.iter().filter(|row| row.status == status).count();
        page.push_str(&format!("| {} | {} | {count} |\n", status.as_str(), about(status)));
    }
    page.push_str("\n| appended by | meaning | types |\n| --- | --- | --- |\n");
    for appender in Appender::ALL {
        let count = TABLE.iter().filter(|row| row.appender == appender).count();
        page.push_str(&format!("| {} | {} | {count} |\n", appender.as_str(), about_appender(appender)));
    }
    page.push_str(&format!("\n## All {} types\n\n", TABLE.len()));
    page.push_str(
        "*Seen by* names a test of `crates/agent/tests/it/runs` that observes a real run of this server \
         write the type, as `testdata/emitted.txt` lists it. The server never writes deprecated types; an \
         external producer may report them.\n\n",
    );
    page.push_str(
        "| type | status | appended by | seen by | in AAP | in AAEP |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in TABLE {
        let (status, appender) = (row.status.as_str(), row.appender.as_str());
        page.push_str(&format!(
            "| [`{0}`](#{1}) | {status} | {appender} | {2} | {3} | {4} |\n",
            row.type_name,
            anchor(row.type_name),
            seen_by(row, seen),
            row.aap,
            row.aaep
        ));
    }
    for (group, about) in GROUPS {
        page.push_str(&format!("\n## {group}: {about}\n"));
        for row in TABLE.iter().filter(|row| row.group() == *group) {
            section(row, &mut page);
        }
    }
    page
}

/// The test that saw the type, or why there is none.
fn seen_by(row: &Row, seen: &Witnesses) -> String {
    match seen.get(row.type_name) {
        Some(test) => format!("`{test}`"),
        None if row.status == Status::Deprecated => "never written".to_owned(),
        None => "no test yet".to_owned(),
    }
}

/// How a heading is linked to: dots go, as the usual renderers do it.
fn anchor(type_name: &str) -> String {
    type_name.replace('.', "")
}

fn section(row: &Row, page: &mut String) {
    let schema = crate::registry::schema::data(row);
    let description = schema.get("description").and_then(|text| text.as_str()).unwrap_or_default();
    page.push_str(&format!("\n### {}\n\n{description}\n\n", row.type_name));
    page.push_str(&format!(
        "Status {}; appended by {}.\n",
        row.status.as_str(),
        about_appender(row.appender)
    ));
    let fields = form::fields(row);
    if fields.is_empty() {
        page.push_str("\nNo fields.\n");
        return;
    }
    page.push_str("\n| field | type | required | what it is |\n| --- | --- | --- | --- |\n");
    for field in fields.iter().filter(|field| field.presence != Presence::Item) {
        let required = match field.presence {
            Presence::Required => "yes",
            Presence::Written => "null",
            Presence::Optional | Presence::Item => "no",
        };
        page.push_str(&format!(
            "| `{}` | {} | {required} | {} |\n",
            field.path,
            kind_in_words(field, &fields),
            field.description.replace("\n\n", " ").replace('\n', " ")
        ));
    }
}

fn kind_in_words(field: &Field, fields: &[Field]) -> String {
    let plain = field.kind.trim_end_matches("|null");
    match plain {
        "list" => {
            let item = fields.iter().find(|other| other.path == format!("{}[]", field.path));
            match item {
                Some(item) => format!("list of {}", kind_in_words(item, fields)),
                None => "list".into(),
            }
        }
        "word" => {
            let words: Vec<String> = field.words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        "any" => "any JSON".into(),
        "integer>=0" => "integer from 0".into(),
        other => match other.strip_prefix("string[").and_then(|rest| rest.strip_suffix(']')) {
            Some(bounds) => format!("string of {} characters", bounds.replace("..", " to ")),
            None => other.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_explained_and_none_is_empty() {
        for row in TABLE {
            assert!(GROUPS.iter().any(|(group, _)| *group == row.group()), "{} has no group", row.type_name);
        }
        for (group, _) in GROUPS {
            assert!(TABLE.iter().any(|row| row.group() == *group), "{group} is empty");
        }
    }

    #[test]
    fn every_type_and_field_is_described_and_every_face_has_an_answer() {
        for row in TABLE {
            let name = row.type_name;
            let schema = crate::registry::schema::data(row);
            assert!(schema["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
            assert!(!row.aap.is_empty() && !row.aaep.is_empty(), "{name} has a blank");
            for field in form::fields(row).iter().filter(|field| field.presence != Presence::Item) {
                assert!(!field.description.is_empty(), "{name}: {} is not described", field.path);
                assert!(!field.description.contains('|'), "{name}: {} would break the table", field.path);
            }
        }
    }

    #[test]
    fn no_description_is_dead() {
        let fields: Vec<Field> = TABLE.iter().flat_map(form::fields).collect();
        let shared = crate::registry::schema::fields::SHARED;
        assert!(shared.is_sorted_by(|a, b| a.0 < b.0), "they are looked up by halving");
        let used = |name: &str, description: &str| {
            fields
                .iter()
                .any(|field| field.path.rsplit('.').next() == Some(name) && field.description == description)
        };
        let dead: Vec<&str> =
            shared.iter().filter(|(name, description)| !used(name, description)).map(|one| one.0).collect();
        assert!(dead.is_empty(), "no field uses the description of {dead:?}");
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = TABLE.iter().map(|row| row.type_name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len());
        assert!(TABLE.iter().all(|row| crate::registry::is_type_name(row.type_name)));
    }
}
