//! The published contract: the committed file is what the tables make, and the document holds together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use recount_api::routes::{ROUTES, SERVER_ROUTES};
use recount_api::{handbook, openapi};
use serde_json::Value;

const FILE: &str = "docs/openapi.json";

/// `RECOUNT_BLESS=1` writes the file; anything else compares.
#[test]
fn the_committed_document_is_what_the_tables_make() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(FILE);
    let made = openapi::text();
    if std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1") {
        assert!(std::env::var_os("CI").is_none(), "CI compares; it does not bless");
        std::fs::write(&path, made).unwrap();
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let same = there.lines().zip(made.lines()).take_while(|(a, b)| a == b).count();
    assert!(
        there == made,
        "{FILE} is not what the code makes, from line {} on; if that is meant: RECOUNT_BLESS=1 cargo test -p recount-api",
        same + 1
    );
}

/// Every value under a key of this name, at any depth.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(object) => {
            found.extend(object.get(key));
            object.values().for_each(|inner| all(inner, key, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| all(inner, key, found)),
        _ => {}
    }
}

#[test]
fn the_document_holds_together() {
    let document = openapi::document();
    let (mut references, mut names) = (Vec::new(), Vec::new());
    all(&document, "$ref", &mut references);
    all(&document, "operationId", &mut names);
    assert!(references.len() > 100, "{}", references.len());
    for reference in references {
        let pointer = reference.as_str().unwrap().strip_prefix('#').expect("within the document");
        assert!(document.pointer(pointer).is_some(), "{pointer} is missing");
    }
    assert_eq!(names.len(), ROUTES.len() + SERVER_ROUTES.len());
    let different: BTreeSet<&str> = names.iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(different.len(), names.len(), "each operation has a name of its own");
}

/// All values of an attribute, in order.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    page.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn the_page_tells_everything_and_needs_no_script() {
    let page = handbook::page();
    let ids = attributes(&page, "id");
    let different: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len(), "an id stands once");
    for link in attributes(&page, "href") {
        if let Some(id) = link.strip_prefix('#') {
            assert!(different.contains(id), "nothing is at #{id}");
        }
    }
    let (document, mut names) = (openapi::document(), Vec::new());
    all(&document, "operationId", &mut names);
    assert!(names.iter().all(|name| different.contains(name.as_str().unwrap())));
    assert!(
        !page.contains("<script") && !page.contains(" style=") && !page.contains("//cdn"),
        "it stands alone"
    );
    // Headings go down by one step at a time, so that they can be walked.
    let levels: Vec<u8> =
        page.split("<h").skip(1).filter_map(|rest| rest.bytes().next()).filter(u8::is_ascii_digit).collect();
    assert_eq!(levels[0], b'1');
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "a heading is left out");
}

/// A name that is a type twice over, or a status that a code does not have, would be a lie.
#[test]
fn every_error_code_of_a_route_is_under_its_status() {
    let document = openapi::document();
    let mut by_path: BTreeMap<String, Vec<(&str, Vec<recount_event::Code>)>> = BTreeMap::new();
    for route in ROUTES {
        by_path.entry(format!("/v1{}", route.path)).or_default().push((route.method, route.codes()));
    }
    for route in SERVER_ROUTES {
        by_path.entry(route.path.to_owned()).or_default().push((route.method, route.codes()));
    }
    for (path, operations) in by_path {
        for (method, codes) in operations {
            let responses = &document["paths"][&path][method.to_ascii_lowercase()]["responses"];
            for code in codes {
                let response = &responses[code.row().status.to_string()];
                let response = match response["$ref"].as_str() {
                    Some(reference) => document.pointer(&reference[1..]).unwrap(),
                    None => response,
                };
                let narrowed = &response["content"]["application/problem+json"]["schema"]["allOf"][1];
                let listed = narrowed["properties"]["code"]["enum"].as_array().unwrap();
                assert!(listed.contains(&code.as_str().into()), "{method} {path}: {code}");
            }
        }
    }
}

/// A gate that the page lists as met names its evidence, and the evidence exists.
#[test]
fn the_evidence_that_the_stability_page_names_exists() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/stability.md")).unwrap();
    let is_path = |word: &&str| {
        ["crates/", "docs/", "testdata/", "web-tests/"].iter().any(|folder| word.starts_with(folder))
    };
    let named: Vec<&str> = page.split('`').filter(is_path).collect();
    assert!(named.len() > 15, "{named:?}");
    for path in named {
        assert!(root.join(path).exists(), "{path} is missing");
    }
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    for row in rows.iter().filter(|row| row.contains("| holds |")) {
        assert!(row.contains(".rs`") || row.contains(".mjs`"), "it names no test: {row}");
    }
}
