//! The requirements page and the requirements table of the conformance suite agree.

#![allow(clippy::unwrap_used, reason = "in a test a surprise is a panic")]

use std::path::Path;

use recount_aaep_kit::conformance::requirements::ALL;

#[test]
fn the_page_matches_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/requirements/aaep.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| R-"))
        .map(|row| row.split_once(" | ").unwrap())
        .map(|(id, rest)| (id, rest.split_once(" | ").unwrap().0))
        .collect();
    assert_eq!(rows.len(), ALL.len());
    for ((id, text), requirement) in rows.iter().zip(ALL) {
        assert_eq!(format!("R-{id}"), requirement.id, "in the order of the table");
        let mut words = requirement.text.to_owned();
        words[..1].make_ascii_uppercase();
        assert_eq!(*text, format!("{words}."), "{}", requirement.id);
    }
}
