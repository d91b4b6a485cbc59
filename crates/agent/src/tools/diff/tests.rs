//! Diff tests: the exact format, and that a diff turns one version into the other.

use super::*;
use proptest::prelude::*;

fn text(before: Option<&str>, after: &str) -> String {
    String::from_utf8(unified("f", before.map(str::as_bytes), after.as_bytes()).text).unwrap()
}

#[test]
fn diffs_have_the_format_of_git_and_patch() {
    for (before, after, expected) in [
        (Some("a\nb\nc\n"), "a\nB\nc\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"),
        (None, "a\nb\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+a\n+b\n"),
        (None, "", "--- /dev/null\n+++ b/f\n"),
        (Some("a\n"), "", "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-a\n"),
        (Some("a\n"), "a", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"),
        (
            Some("a"),
            "b",
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
        ),
        (Some("a\r\nb\r\n"), "a\r\nc\r\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"),
        (Some("\u{FEFF}a\n"), "\u{FEFF}b\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-\u{FEFF}a\n+\u{FEFF}b\n"),
    ] {
        assert_eq!(text(before, after), expected);
    }
    let many: String = (0..20).map(|n| format!("{n}\n")).collect();
    let patch = unified("f", Some(many.as_bytes()), many.replace("3\n", "x\n").as_bytes());
    assert_eq!((patch.hunks, patch.additions, patch.deletions), (2, 2, 2));
    assert_eq!(patch.summary(), "2 hunks, +2/-2 lines");
    assert_eq!(unified("f", Some(b"a\n"), b"b\n").summary(), "1 hunk, +1/-1 line");
    assert_eq!(
        unified("f", Some(b"\xFF\n"), b"\xFE\n").text,
        b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-\xFF\n+\xFE\n"
    );
}

#[test]
fn names_that_would_end_the_line_are_quoted() {
    for (path, expected) in [
        ("a/b", "b/a/b"),
        ("a b", "b/a b\t"),
        ("ä", "b/ä"),
        ("a\nb", "\"b/a\\nb\""),
        ("a\"\\\t\r\u{1b}", "\"b/a\\\"\\\\\\t\\r\\033\""),
    ] {
        assert_eq!(named("b/", path), expected);
    }
}

#[test]
fn the_worst_case_ends_at_the_deadline() {
    // Two files whose complete comparison would take hours: only the deadline ends it. The time depends on the machine,
    // so the limit of the test is generous.
    let before: String = (0..400_000).map(|n| format!("{}\n", n * 7 % 30_011)).collect();
    let after: String = (0..400_000).map(|n| format!("{}\n", n * 11 % 30_013)).collect();
    let started = recount_world::moment();
    let patch = unified("f", Some(before.as_bytes()), after.as_bytes());
    assert!(started.elapsed() < std::time::Duration::from_secs(600), "{:?}", started.elapsed());
    assert_eq!(applied(before.as_bytes(), &patch.text), after.as_bytes());
}

/// A minimal patch program.
fn applied(before: &[u8], patch: &[u8]) -> Vec<u8> {
    let old = lines(before);
    let mut out: Vec<u8> = Vec::new();
    let mut at = 0;
    let rows: Vec<_> = lines(patch).into_iter().skip(2).collect();
    for (index, row) in rows.iter().enumerate() {
        let bare = rows.get(index + 1).is_some_and(|next| next.starts_with(b"\\"));
        let line = if bare { &row[1..row.len() - 1] } else { &row[1..] };
        match row[0] {
            b'@' => {
                let words = std::str::from_utf8(row).unwrap().split(' ').nth(1).unwrap()[1..].to_owned();
                let (start, count) = words.split_once(',').unwrap_or((&words, "1"));
                let start: usize = start.parse().unwrap();
                let start = if count == "0" { start } else { start - 1 };
                out.extend(old[at..start].concat());
                at = start;
            }
            b' ' | b'-' => {
                assert_eq!(old[at], line);
                at += 1;
                if row[0] == b' ' {
                    out.extend(line);
                }
            }
            b'+' => out.extend(line),
            _ => {}
        }
    }
    out.extend(old[at..].concat());
    out
}

proptest! {
    #[test]
    fn a_diff_turns_one_version_into_the_other(before in "([ab]{0,2}(\n|\r\n|\r)){0,30}[ab]?", after in "([ab]{0,2}(\n|\r\n|\r)){0,30}[ab]?") {
        let patch = unified("f", Some(before.as_bytes()), after.as_bytes());
        prop_assert_eq!(applied(before.as_bytes(), &patch.text), after.as_bytes());
    }
}
