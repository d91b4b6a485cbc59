//! Tests with seeded circles, and with uses that form none.

use super::super::source::Source;
use super::super::tests::clean_tree;
use super::super::{Report, tree::Tree};
use super::{KNOWN, Known, RULE, check_against};

fn tree(files: &[(&str, &str)]) -> Tree {
    let mut tree = clean_tree();
    for (path, text) in files {
        let path = format!("crates/event/src/{path}");
        tree.sources.insert(path.clone(), Source::read(&path, text));
        tree.texts.insert(path, (*text).to_owned());
    }
    tree
}

fn findings(files: &[(&str, &str)], known: &[Known]) -> Vec<String> {
    let mut report = Report::default();
    check_against(&tree(files), known, &mut report);
    assert!(report.findings.iter().all(|finding| finding.rule == RULE));
    report.findings.iter().map(ToString::to_string).collect()
}

fn one(files: &[(&str, &str)]) -> String {
    let found = findings(files, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn two_modules_that_use_each_other_are_refused_at_one_use() {
    let message = one(&[("a.rs", "//! A.\nuse crate::b::B;"), ("b.rs", "fn b() { super::a::call(); }")]);
    assert_eq!(
        message,
        "crates/event/src/a.rs:2: circles: `a` and `b` of crates/event/src use each other; here `a` uses `B` of `b`"
    );
}

#[test]
fn names_are_followed_to_the_file_that_defines_them() {
    let back = ("b.rs", "pub struct B;\nuse crate::a::A;");
    for (lib, a) in [
        ("mod a; mod b; pub use b::B;", "use crate::B;"),
        ("mod a; mod b; use b::B as Renamed;", "fn a(b: crate::Renamed) {}"),
        ("mod a; mod b; pub use b::*;", "use crate::B;"),
        ("mod a; mod b;", "use super::b::{self as other}; fn a() { other::call() }"),
        ("mod a; mod b;", "use super::b::*;"),
    ] {
        one(&[("lib.rs", lib), ("a.rs", a), back]);
    }
}

#[test]
fn a_ring_of_three_through_a_folder_is_one_circle() {
    let message = one(&[
        ("a.rs", "use crate::b::deep::X;"),
        ("b.rs", "mod deep;"),
        ("b/deep.rs", "pub struct X; use crate::c::C;"),
        ("c.rs", "use crate::a::A;"),
    ]);
    assert!(message.contains("`a`, `b` and `c` of crates/event/src use"), "{message}");
}

#[test]
fn modules_deeper_down_are_siblings_in_their_own_folder() {
    let message =
        one(&[("x.rs", "mod a; mod b;"), ("x/a.rs", "use super::b::B;"), ("x/b.rs", "use crate::x::a::A;")]);
    assert!(message.contains("`a` and `b` of crates/event/src/x use"), "{message}");
}

#[test]
fn other_uses_are_not_circles() {
    for files in [
        &[("a.rs", "use crate::b::B;"), ("b.rs", "")][..],
        // A parent and its child.
        &[("a.rs", "mod b; use b::B;"), ("a/b.rs", "use super::A;")],
        // Only tests use the other direction.
        &[("a.rs", "use crate::b::B;"), ("b.rs", "#[cfg(test)]\nmod tests { use crate::a::A; }")],
        &[("a.rs", "use crate::b::B;"), ("b/tests.rs", "use crate::a::A;"), ("b.rs", "")],
        // Excused with a reason.
        &[("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A; // tidy: the compiler's own circle")],
        // Another crate with the same name for a module.
        &[("a.rs", "use crate::b::B;"), ("b.rs", "use other::a::A;")],
        // Through the root.
        &[("lib.rs", "mod a; pub struct B;"), ("a.rs", "use crate::B;")],
    ] {
        assert_eq!(findings(files, &[]), [""; 0], "{files:?}");
    }
}

const ALL: &[Known] = &[("crates/event/src", &["a", "b", "c"])];

#[test]
fn a_known_circle_passes_until_it_is_smaller_or_broken() {
    let (a, b, c) =
        (("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;"));
    assert_eq!(findings(&[a, b, c], ALL), [""; 0]);
    let smaller = findings(&[a, ("b.rs", "use crate::a::A;"), ("c.rs", "")], ALL);
    assert!(smaller[0].contains("remain of a known circle"), "{smaller:?}");
    let ended = findings(&[a, ("b.rs", ""), ("c.rs", "")], ALL);
    assert!(ended[0].contains("are no circle: remove the line"), "{ended:?}");
    let grown = findings(&[a, b, ("c.rs", "use crate::d::D;"), ("d.rs", "use crate::a::A;")], ALL);
    assert!(grown[0].contains("`a`, `b`, `c` and `d`"), "{grown:?}");
}

#[test]
fn the_list_names_modules_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (folder, members) in KNOWN {
        for member in *members {
            let file = root.join(folder).join(member);
            assert!(file.with_extension("rs").exists() || file.join("mod.rs").exists(), "{folder}/{member}");
        }
        assert!(members.is_sorted() && members.len() > 1, "{folder}");
    }
}
