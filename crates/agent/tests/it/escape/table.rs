//! Tests that every attempt is prevented, and that the sandbox page contains the table of attempts.

use std::fmt::Write as _;
use std::path::Path;

use recount_agent::sandbox::Mode;

use crate::escape::fixture::{self, Attempts};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sandbox.md");
const BEGIN: &str = "<!-- attempts: made by crates/agent/tests/it/escape -->\n";
const END: &str = "<!-- attempts end -->\n";

/// The attempts that succeeded.
fn succeeded(attempts: &Attempts) -> Vec<String> {
    let open = attempts.iter().filter(|(_, (held, _))| !held);
    open.map(|((kind, name), (_, why))| format!("{kind}: {name}: {why}")).collect()
}

#[tokio::test]
async fn every_attempt_is_prevented_by_bubblewrap() {
    let attempts = fixture::attempts(Mode::Bubblewrap).await;
    assert_eq!(succeeded(&attempts), [] as [&str; 0]);
}

#[tokio::test]
async fn every_attempt_is_prevented_by_landlock() {
    let attempts = fixture::attempts(Mode::Landlock).await;
    assert_eq!(succeeded(&attempts), [] as [&str; 0]);
}

/// The same for a server without root.
#[test]
fn every_attempt_of_an_ordinary_user_is_prevented() {
    for test in
        ["table::every_attempt_is_prevented_by_bubblewrap", "table::every_attempt_is_prevented_by_landlock"]
    {
        // For an ordinary user the tests above already covered this.
        let Some(output) = fixture::as_ordinary_user(test) else { return };
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}{stderr}");
    }
}

/// An attempt that fails without a sandbox too proves nothing.
#[tokio::test]
async fn attempts_succeed_without_a_sandbox() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("this is no root, who could do all of it");
        return;
    }
    let attempts = fixture::attempts(Mode::Off).await;
    let held: Vec<String> = attempts
        .iter()
        .filter(|(_, (held, _))| *held)
        .map(|((kind, name), (_, why))| format!("{kind}: {name}: {why}"))
        .collect();
    // Resources that the test creates exist on every machine whose kernel supports them.
    let queue = "messages: named queue of another";
    let is_open = !held.iter().any(|line| line.starts_with(queue));
    assert_eq!(is_open, fixture::OutsideResources::make().has_queue(), "{held:#?}");
    // Not every machine has all targets, and containers restrict root.
    assert!(held.len() * 2 < attempts.len(), "these show nothing: {held:#?}");
}

#[tokio::test]
async fn the_page_has_the_table() {
    let (bubblewrap, landlock) =
        (fixture::attempts(Mode::Bubblewrap).await, fixture::attempts(Mode::Landlock).await);
    let mut table = String::from("| kind | attempt | bubblewrap | Landlock |\n| --- | --- | --- | --- |\n");
    let word = |held: bool| if held { "held" } else { "**open**" };
    for ((kind, name), (held, _)) in &bubblewrap {
        let (also, _) = landlock[&(kind.clone(), name.clone())];
        writeln!(table, "| {kind} | {name} | {} | {} |", word(*held), word(also)).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a mark before the table");
    let (current, after) = rest.split_once(END).expect("the page has a mark after the table");
    if current != table && std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(Path::new(PAGE), format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(current, table, "the table of attempts is another; bless it with RECOUNT_BLESS=1");
}
