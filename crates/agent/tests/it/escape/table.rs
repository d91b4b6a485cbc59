//! Every attempt is held, and the page about the sandbox has the table of them.

use std::fmt::Write as _;
use std::path::Path;

use recount_agent::sandbox::Mode;

use crate::escape::ground::{self, Attempts};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sandbox.md");
const BEGIN: &str = "<!-- attempts: made by crates/agent/tests/it/escape -->\n";
const END: &str = "<!-- attempts end -->\n";

/// Those that got out.
fn out(attempts: &Attempts) -> Vec<String> {
    let open = attempts.iter().filter(|(_, (held, _))| !held);
    open.map(|((kind, name), (_, why))| format!("{kind}: {name}: {why}")).collect()
}

#[tokio::test]
async fn every_attempt_is_held_in_bubblewrap() {
    let attempts = ground::attempts(Mode::Bubblewrap).await;
    assert_eq!(out(&attempts), [] as [&str; 0]);
}

#[tokio::test]
async fn every_attempt_is_held_by_landlock() {
    let attempts = ground::attempts(Mode::Landlock).await;
    assert_eq!(out(&attempts), [] as [&str; 0]);
}

/// The same for a server that is no root.
#[test]
fn every_attempt_of_an_ordinary_user_is_held() {
    for test in ["table::every_attempt_is_held_in_bubblewrap", "table::every_attempt_is_held_by_landlock"] {
        // Where this is an ordinary user, the tests above were that.
        let Some(output) = ground::as_ordinary_user(test) else { return };
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}{complaint}");
    }
}

/// An attempt that nothing could let through would show nothing.
#[tokio::test]
async fn attempts_get_out_where_nothing_holds_them() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("this is no root, who could do all of it");
        return;
    }
    let attempts = ground::attempts(Mode::Off).await;
    let held: Vec<String> = attempts
        .iter()
        .filter(|(_, (held, _))| *held)
        .map(|((kind, name), (_, why))| format!("{kind}: {name}: {why}"))
        .collect();
    // What the test makes itself is there on every machine whose kernel has it.
    let queue = "messages: named queue of another";
    let is_open = !held.iter().any(|line| line.starts_with(queue));
    assert_eq!(is_open, ground::Outside::make().has_queue(), "{held:#?}");
    // Not every machine has what is tried, and containers keep root from much of it.
    assert!(held.len() * 2 < attempts.len(), "these show nothing: {held:#?}");
}

#[tokio::test]
async fn the_page_has_the_table() {
    let (bubblewrap, landlock) =
        (ground::attempts(Mode::Bubblewrap).await, ground::attempts(Mode::Landlock).await);
    let mut table = String::from("| kind | attempt | bubblewrap | Landlock |\n| --- | --- | --- | --- |\n");
    let word = |held: bool| if held { "held" } else { "**open**" };
    for ((kind, name), (held, _)) in &bubblewrap {
        let (also, _) = landlock[&(kind.clone(), name.clone())];
        writeln!(table, "| {kind} | {name} | {} | {} |", word(*held), word(also)).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page says where the table begins");
    let (there, after) = rest.split_once(END).expect("the page says where the table ends");
    if there != table && std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(Path::new(PAGE), format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(there, table, "the table of attempts is another; bless it with RECOUNT_BLESS=1");
}
