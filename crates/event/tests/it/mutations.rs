//! The typed reader and the schema accept and refuse the same data.

use proptest::prelude::*;
use recount_event::registry::form::{self, Presence};
use recount_event::{door, registry};
use serde_json::{Value, json};

use crate::{fixtures, schemas};

/// Values of other types than expected.
fn wrong_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(9_007_199_254_740_991_u64),
        json!(9_007_199_254_740_992_u64),
        json!(""),
        json!("text"),
        json!("not an id"),
        json!("approved"),
        json!([]),
        json!([1]),
        json!(["text"]),
        json!([null]),
        json!([[]]),
        json!([["approval", "appr_1"]]),
        json!([{}]),
        json!({}),
        json!({ "approved": null }),
        json!({ "text": 1 }),
    ]
}

#[derive(Debug, Clone)]
enum Edit {
    Drop,
    Put(Value),
}

/// Edits every place that a field's path names.
fn edit(value: &mut Value, path: &str, how: &Edit) {
    let (head, rest) = match path.split_once('.') {
        Some((head, rest)) => (head, Some(rest)),
        None => (path, None),
    };
    let (name, is_item) = match head.strip_suffix("[]") {
        Some(name) => (name, true),
        None => (head, false),
    };
    let Some(object) = value.as_object_mut() else { return };
    match (is_item, rest, how) {
        (false, None, Edit::Drop) => {
            object.remove(name);
        }
        (false, None, Edit::Put(new)) => {
            object.insert(name.into(), new.clone());
        }
        (false, Some(rest), how) => {
            if let Some(inner) = object.get_mut(name) {
                edit(inner, rest, how);
            }
        }
        (true, rest, how) => {
            let Some(items) = object.get_mut(name).and_then(Value::as_array_mut) else { return };
            match (rest, how) {
                (Some(rest), how) => items.iter_mut().for_each(|item| edit(item, rest, how)),
                (None, Edit::Put(new)) => items.iter_mut().for_each(|item| *item = new.clone()),
                (None, Edit::Drop) => items.clear(),
            }
        }
    }
}

/// Asserts that both accept or both refuse the data, and returns which. A schema cannot exclude integers from 2^53 on
/// everywhere; the door checks them.
#[track_caller]
fn both(type_name: &str, data: &Value) -> bool {
    let text = data.to_string();
    let read = door::draft(type_name, &text);
    let fits = schemas::of(type_name).is_valid(data) && door::compact(&text).is_ok();
    assert_eq!(fits, read.is_ok(), "{type_name} {data}: the reader says {:?}", read.map(|_| "yes"));
    fits
}

fn data_of(type_name: &str) -> Value {
    let stored = fixtures::all().into_iter().find(|(name, _)| name == type_name).unwrap().1;
    serde_json::from_str::<Value>(&stored).unwrap()["data"].take()
}

#[test]
fn every_single_edit_of_every_fixture() {
    for row in registry::TABLE {
        let good = data_of(row.type_name);
        assert!(both(row.type_name, &good));
        for field in form::fields(row) {
            let mut without = good.clone();
            edit(&mut without, &field.path, &Edit::Drop);
            let is_removed = without != good;
            let is_accepted = both(row.type_name, &without);
            assert!(
                !is_removed || is_accepted == (field.presence != Presence::Required),
                "{}: {}",
                row.type_name,
                field.path
            );
            for value in wrong_values() {
                let mut edited = good.clone();
                let too_large = value == json!(9_007_199_254_740_992_u64);
                edit(&mut edited, &field.path, &Edit::Put(value));
                both(row.type_name, &edited);
                let refused = !schemas::of(row.type_name).is_valid(&edited);
                let must_be_refused = too_large && field.kind.starts_with("integer") && edited != good;
                assert!(!must_be_refused || refused, "{}: {}", row.type_name, field.path);
            }
            // An unknown field next to it.
            let mut more = good.clone();
            edit(
                &mut more,
                &format!("{}_of_a_later_release", field.path.replace("[]", "")),
                &Edit::Put(json!([{}])),
            );
            assert!(both(row.type_name, &more));
        }
    }
}

#[test]
fn the_reader_is_stricter_in_one_thing_only() {
    // For a schema 1.0 is a whole number. We ask for digits, so that all readers see the same.
    for text in ["1.0", "1e0", "10e-1"] {
        let data = format!(r#"{{"turn_index":{text}}}"#);
        assert!(schemas::of("turn.started").is_valid(&serde_json::from_str(&data).unwrap()), "{text}");
        assert!(door::draft("turn.started", &data).is_err(), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn several_edits_at_once(
        row in 0..registry::TABLE.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..5),
    ) {
        let row = &registry::TABLE[row];
        let fields = form::fields(row);
        let values = wrong_values();
        let mut data = data_of(row.type_name);
        for (field, value) in edits {
            let place = value.index(values.len() + 1);
            let how = values.get(place).map_or(Edit::Drop, |value| Edit::Put(value.clone()));
            edit(&mut data, &field.get(&fields).path, &how);
        }
        both(row.type_name, &data);
    }
}
