//! Checks hard rule 2: only `world` touches the operating system's clock, entropy or a bare spawn.

use super::Report;
use super::pure::is_pure;
use super::tree::{Tree, crate_of};

const RULE: &str = "rule 2";

/// Forbidden paths by their last segments.
const PATHS: &[(&str, &str)] = &[
    ("SystemTime::now", "take the time from `World::clock`"),
    ("Instant::now", "take the time from `World::clock`"),
    ("Timestamp::now", "take the time from `World::clock`"),
    ("Zoned::now", "take the time from `World::clock`"),
    ("tokio::spawn", "spawn through `World::tasks`"),
    ("tokio::task::spawn", "spawn through `World::tasks`"),
    ("task::spawn", "spawn through `World::tasks`"),
    ("task::spawn_local", "spawn through `World::tasks`"),
    ("task::spawn_blocking", "use a named thread of `world`"),
    ("tokio::task::JoinSet", "spawn through `World::tasks`"),
    ("thread::spawn", "use a named thread of `world`"),
    ("thread::Builder", "use a named thread of `world`"),
    ("OsRng", "draw from `World::entropy`"),
    ("thread_rng", "draw from `World::entropy`"),
];

const CRATES: &[&str] = &["rand", "getrandom", "fastrand"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for (path, source) in &tree.sources {
        // Rule 1 has stricter checks for pure parts.
        let held =
            crate_of(path).is_some_and(|name| name != "world") && !is_pure(path) && !is_bench_tool(path);
        if !held {
            continue;
        }
        for used in source.paths() {
            if source.is_test(used.tokens.start) {
                continue;
            }
            if let Some((what, instead)) = PATHS.iter().find(|(what, _)| used.has(what)) {
                report.refuse(path, used.line, RULE, format!("`{what}` outside `world`; {instead}"));
            } else if let Some(what) =
                CRATES.iter().find(|what| used.begins(what) && (used.in_use || used.segments.len() > 1))
            {
                report.refuse(
                    path,
                    used.line,
                    RULE,
                    format!("`{what}` outside `world`; draw from `World::entropy`"),
                );
            }
        }
    }
}

/// Programs that measure must read the real clock.
fn is_bench_tool(path: &str) -> bool {
    crate_of(path) == Some("bench")
}

#[cfg(test)]
mod tests {
    use crate::tidy::tests::{clean, refused_at};

    const LINES: &[&str] = &[
        "fn f() { std::time::SystemTime::now(); }",
        "fn f() { tokio::time::Instant::now(); }",
        "fn f() { tokio::spawn(async {}); }",
        "fn f() { tokio::task::spawn_blocking(|| 1); }",
        "fn f() { std::thread::spawn(|| 1); }",
        "fn f() { std::thread::Builder::new(); }",
        "fn f() { rand::random::<u8>(); }",
        "fn f() { getrandom::fill(&mut x); }",
        "use rand_core::OsRng;",
    ];

    #[test]
    fn clock_entropy_and_spawning_are_refused_outside_world() {
        for line in LINES {
            for path in
                ["crates/engine/src/writer.rs", "crates/cli/src/command/run.rs", "lab/sim/src/main.rs"]
            {
                refused_at(path, &format!("//! Head.\n{line}\n"), "rule 2", 2);
            }
            clean("crates/world/src/clock.rs", &format!("//! Head.\n{line}\n"));
            clean("crates/engine/tests/load.rs", &format!("//! Head.\n{line}\n"));
            clean("lab/bench/src/client/read.rs", &format!("//! Head.\n{line}\n"));
        }
    }

    #[test]
    fn an_alias_does_not_hide_it() {
        refused_at(
            "crates/engine/src/writer.rs",
            "//! Head.\nuse std::time::Instant as Moment;\nfn f() { Moment::now(); }\n",
            "rule 2",
            3,
        );
        refused_at(
            "crates/server/src/lib.rs",
            "//! Head.\nuse tokio::task;\nfn f() { task::spawn(async {}); }\n",
            "rule 2",
            3,
        );
    }
}
