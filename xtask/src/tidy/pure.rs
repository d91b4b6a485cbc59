//! Checks hard rule 1: the pure parts do no I/O, read no clock, draw no randomness and are not async.

use super::Report;
use super::source::{PathUse, Source};
use super::tree::{Tree, crate_of};

const RULE: &str = "rule 1";

/// Crates that are completely pure.
const PURE_CRATES: &[&str] = &["json", "event", "run", "aaep", "record"];
/// Pure files of faces.
const PURE_FILES: &[&str] = &["accept.rs", "project.rs"];

/// Pure modules of other crates, with what is below them.
const PURE_MODULES: &[&str] = &["crates/log-postgres/src/rules"];

/// Forbidden, also in tests.
const NEVER: &[&str] = &["std::net", "std::process", "std::thread", "SystemTime", "Instant"];
/// Forbidden crates, also in tests.
const NEVER_CRATES: &[&str] = &["tokio", "rand", "getrandom", "fastrand"];
/// Allowed in tests of pure code: read fixtures, print.
const IN_TESTS: &[&str] = &["std::fs", "std::io", "std::env"];
const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];
const ENTROPY: &[&str] = &["thread_rng", "OsRng", "RandomState"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for (path, source) in &tree.sources {
        if !is_pure(path) {
            continue;
        }
        for (at, token) in source.tokens.iter().enumerate() {
            if let Some(word @ ("async" | "await")) = source.name(at) {
                report.refuse(path, token.line, RULE, format!("`{word}` in a pure part; only callers wait"));
            }
        }
        for used in source.paths() {
            if let Some(what) = forbidden(source, used) {
                report.refuse(
                    path,
                    used.line,
                    RULE,
                    format!("`{what}` in a pure part; let the caller hand it in"),
                );
            }
        }
    }
}

pub(super) fn is_pure(path: &str) -> bool {
    let Some(name) = crate_of(path) else { return false };
    let file = path.rsplit('/').next().unwrap_or(path);
    // Examples are programs of the crate's users; they get the clock from `world` like all others.
    if path.contains("/examples/") {
        return false;
    }
    let module =
        |module: &&str| path.strip_prefix(*module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'));
    PURE_CRATES.contains(&name) || PURE_FILES.contains(&file) || PURE_MODULES.iter().any(module)
}

fn forbidden(source: &Source, used: &PathUse) -> Option<&'static str> {
    let test = source.is_test(used.tokens.start);
    if let Some(what) = NEVER.iter().chain(ENTROPY).find(|what| used.has(what)) {
        return Some(what);
    }
    if let Some(what) = NEVER_CRATES.iter().find(|what| used.begins(what) && names_a_crate(source, used)) {
        return Some(what);
    }
    if test {
        return None;
    }
    let is_macro = source.is_sign(used.tokens.end, '!') && !source.is_sign(used.tokens.end + 1, '=');
    PRINTING
        .iter()
        .find(|what| is_macro && used.last() == **what)
        .or_else(|| IN_TESTS.iter().find(|what| used.has(what)))
        .copied()
}

/// A bare local name that happens to be that of a crate is not the crate.
fn names_a_crate(source: &Source, used: &PathUse) -> bool {
    let method = used.tokens.start > 0 && source.is_sign(used.tokens.start - 1, '.');
    used.in_use || (used.segments.len() > 1 && !method)
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{clean, refused, refused_at};

    #[test]
    fn each_forbidden_thing_is_refused_in_a_pure_crate() {
        for line in [
            "pub async fn f() {}",
            "pub fn f() { let _ = std::fs::read(\"x\"); }",
            "use std::net::TcpStream;",
            "use std::io::Write;",
            "use std::{collections::BTreeMap, process};",
            "pub fn f() { std::env::var(\"X\"); }",
            "pub fn f() { std::time::SystemTime::now(); }",
            "use std::time::Instant;",
            "use tokio::sync::mpsc;",
            "pub fn f() { rand::random::<u8>(); }",
            "use getrandom::fill;",
            "pub fn f() { println!(\"x\"); }",
            "pub fn f() { eprintln!(\"x\"); }",
        ] {
            refused_at("crates/run/src/decide.rs", &format!("//! Head.\n{line}\n"), "rule 1", 2);
            refused_at("crates/event/src/id.rs", &format!("//! Head.\n{line}\n"), "rule 1", 2);
            refused_at("crates/face-aep/src/project.rs", &format!("//! Head.\n{line}\n"), "rule 1", 2);
            refused_at("crates/face-aep/src/accept.rs", &format!("//! Head.\n{line}\n"), "rule 1", 2);
            refused_at("crates/log-postgres/src/rules.rs", &format!("//! Head.\n{line}\n"), "rule 1", 2);
            refused_at(
                "crates/log-postgres/src/rules/lease.rs",
                &format!("//! Head.\n{line}\n"),
                "rule 1",
                2,
            );
        }
    }

    #[test]
    fn tests_of_pure_code_may_read_fixtures_but_no_clock() {
        let test = |line: &str| format!("//! Head.\n#[cfg(test)]\nmod tests {{\n    {line}\n}}\n");
        clean("crates/run/src/decide.rs", &test("fn f() { std::fs::read(\"x\"); std::env::var(\"Y\"); }"));
        clean("crates/event/tests/fixtures.rs", "//! Head.\nfn f() { std::fs::read(\"x\"); }\n");
        refused_at("crates/run/src/decide.rs", &test("fn f() { std::time::Instant::now(); }"), "rule 1", 4);
    }

    #[test]
    fn examples_are_programs_but_have_no_clock_of_their_own() {
        let path = "crates/aaep/examples/some.rs";
        assert_eq!(refused(path, "//! Head.\nuse std::io::Write;\nuse std::process::ExitCode;\n"), []);
        refused_at(path, "//! Head.\nfn f() { std::time::SystemTime::now(); }\n", "rule 2", 2);
    }

    #[test]
    fn words_in_comments_and_own_names_are_ignored() {
        clean(
            "crates/run/src/decide.rs",
            "//! No async, no tokio.\nfn rand() -> u8 { let getrandom = 1; getrandom }\n",
        );
        assert!(refused("crates/engine/src/lib.rs", "//! Head.\nasync fn f() {}\n").is_empty());
    }
}
