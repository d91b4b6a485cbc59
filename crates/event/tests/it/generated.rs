//! The pages and schemas that are made from the code, and the lock that is not made but kept.

use recount_event::registry::lock::{self, Change, Lock};
use recount_event::{code, registry, schema};

use crate::blessed;

const EMITTED: &str = "testdata/emitted.txt";

/// Types that this server does not emit yet. A type that a test has seen leaves the list.
const NOT_EMITTED_YET: &[&str] = &[];

fn seen() -> registry::emitted::Witnesses {
    let text = blessed::read(EMITTED);
    registry::emitted::parse(&text).unwrap_or_else(|why| panic!("{EMITTED}: {why}"))
}

#[test]
fn the_registry_page_is_what_the_code_makes() {
    blessed::check("docs/registry.md", &registry::reference(&seen()));
}

#[test]
fn every_type_has_a_test_that_saw_it_emitted() {
    assert_eq!(
        registry::emitted::unseen(&seen()),
        NOT_EMITTED_YET,
        "{EMITTED} is written by RECOUNT_BLESS=1 cargo test -p recount-agent --test it what_runs_emit_is_listed"
    );
}

#[test]
fn the_error_page_is_what_the_code_makes() {
    blessed::check("docs/errors.md", &code::reference());
}

#[test]
fn the_schemas_are_what_the_code_makes() {
    const FOLDER: &str = "docs/schemas/events/v1";
    let made = schema::files();
    for file in &made {
        blessed::check(&format!("{FOLDER}/{}", file.name), &file.text);
    }
    for name in blessed::files(FOLDER, "") {
        assert!(made.iter().any(|file| file.name == name), "nothing makes {FOLDER}/{name}: delete it");
    }
}

/// Blessing writes additions down. What the lock refuses, it refuses when blessing, too.
#[test]
fn released_types_and_fields_are_unchanged() {
    const LOCK: &str = "docs/registry.lock";
    let current = Lock::current();
    let there = std::fs::read_to_string(blessed::root().join(LOCK));
    let released = match &there {
        Ok(text) => Lock::parse(text).unwrap_or_else(|why| panic!("{LOCK}: {why}")),
        Err(_) if blessed::blessing() => Lock::default(),
        Err(why) => panic!("{LOCK}: {why}"),
    };
    let mut refused = Vec::new();
    let mut additions = Vec::new();
    for change in lock::changes(&released, &current) {
        match change {
            Change::Refused(text) => refused.push(text),
            Change::Addition(text) => additions.push(text),
        }
    }
    assert!(
        refused.is_empty(),
        "released names, fields and words are permanent; add another instead:\n  {}",
        refused.join("\n  ")
    );
    assert!(
        blessed::blessing() || additions.is_empty(),
        "the registry has grown:\n  {}\nif that is meant: RECOUNT_BLESS=1 cargo test -p recount-event",
        additions.join("\n  ")
    );
    blessed::check(LOCK, &current.print());
}
