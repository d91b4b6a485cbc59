//! Checks which crate may use which. [`CRATES`] and [`LAB`] are the tables of ARCHITECTURE.md; they change together,
//! and with a page in `docs/decisions/`.

use super::Report;
use super::tree::{CRATE_FOLDERS, Package, Tree};

const RULE: &str = "edges";
const MAP: &str = "ARCHITECTURE.md";

/// One row of the table.
struct CrateEdges {
    folder: &'static str,
    /// Own crates that it may depend on; tests may depend on more, but never on a plug.
    uses: &'static [&'static str],
    /// External crates that it must not depend on, because they are not its concern.
    never: &'static [&'static str],
}

const CRATES: &[CrateEdges] = &[
    // 0 ground
    CrateEdges { folder: "json", uses: &[], never: &["serde", "serde_json"] },
    CrateEdges { folder: "event", uses: &["json"], never: &["tokio"] },
    CrateEdges { folder: "run", uses: &["event"], never: &["tokio", "serde_json"] },
    CrateEdges { folder: "log", uses: &[], never: &["serde", "serde_json", "tokio"] },
    CrateEdges { folder: "world", uses: &[], never: &["serde", "serde_json"] },
    CrateEdges { folder: "redact", uses: &["json"], never: &["tokio"] },
    // 1 engine
    CrateEdges { folder: "signature", uses: &[], never: &["tokio", "axum", "reqwest"] },
    CrateEdges {
        folder: "engine",
        uses: &["event", "run", "log", "world", "redact", "signature"],
        never: &["axum", "hyper", "http", "rusqlite"],
    },
    // 2 edges
    CrateEdges { folder: "log-sqlite", uses: &["log", "world"], never: &["serde", "serde_json"] },
    CrateEdges { folder: "salvage", uses: &["log", "log-sqlite"], never: &["tokio", "serde_json"] },
    CrateEdges { folder: "log-postgres", uses: &["log", "world"], never: &["serde", "serde_json"] },
    CrateEdges { folder: "bus-nats", uses: &["engine", "world"], never: &[] },
    CrateEdges { folder: "transport", uses: &["world"], never: &["axum"] },
    CrateEdges {
        folder: "agent",
        uses: &["engine", "run", "event", "world", "redact", "transport"],
        never: &["axum"],
    },
    CrateEdges { folder: "api", uses: &["event"], never: &["tokio", "axum"] },
    CrateEdges { folder: "record", uses: &["event"], never: &["tokio", "axum", "reqwest"] },
    CrateEdges { folder: "aaep", uses: &["json"], never: &["tokio", "axum"] },
    CrateEdges { folder: "aaep-host", uses: &["aaep", "transport", "world"], never: &["reqwest"] },
    CrateEdges { folder: "aaep-client", uses: &["aaep", "transport", "world"], never: &["axum"] },
    CrateEdges { folder: "aaep-scenarios", uses: &["aaep"], never: &["tokio", "axum"] },
    // 3 faces
    CrateEdges {
        folder: "face-aep",
        uses: &["engine", "run", "event", "transport", "api", "world"],
        never: &[],
    },
    CrateEdges { folder: "face-aap", uses: &["engine", "run", "event", "transport", "world"], never: &[] },
    CrateEdges {
        folder: "face-aaep",
        uses: &["engine", "run", "event", "transport", "aaep", "aaep-host", "world"],
        never: &[],
    },
    CrateEdges {
        folder: "face-hooks",
        uses: &["engine", "run", "event", "record", "transport", "world"],
        never: &[],
    },
    CrateEdges { folder: "face-mcp", uses: &["engine", "run", "event", "api", "transport"], never: &[] },
    CrateEdges { folder: "otel", uses: &["engine", "event", "world"], never: &["axum", "rusqlite"] },
    CrateEdges { folder: "narrate", uses: &["aaep", "aaep-client", "world"], never: &["axum", "reqwest"] },
    CrateEdges {
        folder: "aaep-kit",
        uses: &["aaep", "aaep-client", "aaep-host", "aaep-scenarios", "transport", "world"],
        never: &[],
    },
    // 4 assembly
    CrateEdges { folder: "command-line", uses: &[], never: &["tokio", "axum", "reqwest"] },
    CrateEdges {
        folder: "server",
        uses: &[
            "event",
            "run",
            "log",
            "world",
            "redact",
            "engine",
            "agent",
            "log-sqlite",
            "salvage",
            "signature",
            "log-postgres",
            "bus-nats",
            "transport",
            "api",
            "aaep",
            "record",
            "face-aep",
            "face-aap",
            "face-aaep",
            "face-hooks",
            "face-mcp",
            "otel",
            "aaep-scenarios",
            "command-line",
        ],
        never: &[],
    },
    CrateEdges { folder: "client", uses: &["api", "transport", "world"], never: &["axum"] },
    CrateEdges { folder: "face-acp", uses: &["client", "event", "world"], never: &["axum", "reqwest"] },
    // 5 shipped
    CrateEdges {
        folder: "cli",
        uses: &[
            "json",
            "world",
            "transport",
            "aaep",
            "aaep-client",
            "narrate",
            "command-line",
            "record",
            "server",
            "client",
            "face-acp",
        ],
        never: &["axum"],
    },
    CrateEdges { folder: "aaep-cli", uses: &["aaep-kit", "command-line"], never: &["axum"] },
    CrateEdges { folder: "xtask", uses: &[], never: &[] },
];

/// Crates under `lab/` that only test or measure the product. No crate of the product uses one of these, except in its
/// tests.
const LAB: &[CrateEdges] = &[
    CrateEdges { folder: "log-conformance", uses: &["log"], never: &["tokio"] },
    CrateEdges { folder: "faulty-store", uses: &["log", "world"], never: &["rusqlite", "serde_json"] },
    CrateEdges { folder: "faulty-disk", uses: &["world"], never: &["tokio", "serde_json"] },
    CrateEdges { folder: "faulty-link", uses: &["world"], never: &["serde_json"] },
    CrateEdges { folder: "test-postgres", uses: &["world"], never: &["tokio", "serde_json"] },
    CrateEdges { folder: "run-generator", uses: &["event", "run"], never: &["tokio"] },
    CrateEdges {
        folder: "sim",
        uses: &[
            "event",
            "run",
            "log",
            "world",
            "engine",
            "agent",
            "log-sqlite",
            "log-postgres",
            "bus-nats",
            "transport",
            "api",
            "aaep",
            "face-aep",
            "face-aap",
            "face-aaep",
            "aaep-kit",
            "server",
            "client",
            "faulty-store",
        ],
        never: &[],
    },
    CrateEdges {
        folder: "bench",
        uses: &[
            "event",
            "run",
            "log",
            "world",
            "engine",
            "agent",
            "log-sqlite",
            "transport",
            "api",
            "aaep",
            "face-aep",
            "face-aaep",
            "aaep-kit",
            "server",
            "client",
            "log-postgres",
            "test-postgres",
            "faulty-disk",
            "faulty-link",
        ],
        never: &[],
    },
    CrateEdges { folder: "playback", uses: &["world"], never: &["reqwest"] },
    CrateEdges { folder: "tier", uses: &[], never: &[] },
];

/// Interchangeable crates; only these crates may choose one, also in their tests. `salvage` reads the files of one.
const PLUGS: &[&str] = &["log-sqlite", "log-postgres", "bus-nats"];
const CHOOSERS: &[&str] = &["server", "salvage", "sim", "bench"];

/// External crates that only one of ours may use, and lab crates that replace it: `bench` builds its yardsticks from
/// them, `faulty-disk` a file system below them.
const ONLY_IN: &[(&str, &str)] = &[("rusqlite", "log-sqlite"), ("libsqlite3-sys", "log-sqlite")];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for package in &tree.packages {
        check_package(tree, package, report);
    }
    let Some(map) = tree.texts.get(MAP) else {
        report.refuse(MAP, 1, RULE, "the map of the crates is missing");
        return;
    };
    let is_crate = |package: &&Package| CRATE_FOLDERS.contains(&top(&package.folder));
    for package in tree.packages.iter().filter(is_crate) {
        let folder = short(&package.folder);
        if !map.contains(&format!("`{folder}`")) {
            report.refuse(MAP, 1, RULE, format!("does not mention the crate `{folder}`"));
        }
    }
}

fn check_package(tree: &Tree, package: &Package, report: &mut Report) {
    let manifest = format!("{}/Cargo.toml", package.folder);
    let folder = short(&package.folder);
    if package.name != format!("recount-{folder}") {
        report.refuse(
            &manifest,
            1,
            RULE,
            format!("package `{}` must be called `recount-{folder}`", package.name),
        );
    }
    let table = if is_lab(package) { LAB } else { CRATES };
    let Some(row) = table.iter().find(|row| row.folder == folder) else {
        let message = format!("the crate `{folder}` is not in the table; a new one is a decision");
        report.refuse(&manifest, 1, RULE, message);
        return;
    };
    for dependency in &package.dependencies {
        let line = tree.line_of(&manifest, &dependency.name);
        let Some(ours) = dependency.name.strip_prefix("recount-") else {
            let elsewhere = ONLY_IN.iter().find(|(name, only)| {
                *name == dependency.name && ![only, "bench", "faulty-disk"].contains(&folder)
            });
            if dependency.dev {
                continue;
            }
            if let Some((name, only)) = elsewhere {
                report.refuse(&manifest, line, RULE, format!("only `{only}` may use `{name}`"));
            } else if row.never.contains(&dependency.name.as_str()) {
                report.refuse(
                    &manifest,
                    line,
                    RULE,
                    format!("`{folder}` must never depend on `{}`", dependency.name),
                );
            }
            continue;
        };
        let of_lab = tree.packages.iter().any(|other| other.name == dependency.name && is_lab(other));
        if of_lab && !dependency.dev && !is_lab(package) {
            let message = format!("`{folder}` must not use `{ours}` of lab/, except as a dev-dependency");
            report.refuse(&manifest, line, RULE, message);
        } else if PLUGS.contains(&ours) && !CHOOSERS.contains(&folder) {
            report.refuse(
                &manifest,
                line,
                RULE,
                format!("`{folder}` names the plug `{ours}`; only {} do", CHOOSERS.join(", ")),
            );
        } else if !dependency.dev && !row.uses.contains(&ours) {
            report.refuse(&manifest, line, RULE, format!("`{folder}` must not use `{ours}`"));
        }
    }
}

fn is_lab(package: &Package) -> bool {
    top(&package.folder) == "lab"
}

fn top(folder: &str) -> &str {
    folder.split('/').next().unwrap_or(folder)
}

fn short(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::judge;
    use crate::tidy::tests::{clean_tree, depend, rules_at};

    fn refused(folder: &str, on: &str, dev: bool) -> Vec<(usize, &'static str)> {
        let mut tree = clean_tree();
        depend(&mut tree, folder, on, dev);
        judge(&tree).findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn edges_outside_the_table_are_refused_at_their_line() {
        for (folder, on) in [
            ("event", "recount-run"),
            ("event", "tokio"),
            ("run", "tokio"),
            ("log", "recount-event"),
            ("log", "serde"),
            ("engine", "axum"),
            ("engine", "http"),
            ("engine", "rusqlite"),
            ("engine", "recount-log-sqlite"),
            ("server", "rusqlite"),
            ("face-aep", "recount-server"),
            ("face-aep", "recount-log-sqlite"),
        ] {
            assert_eq!(refused(folder, on, false), [(6, RULE)], "{folder} on {on}");
        }
    }

    #[test]
    fn tests_may_use_more_but_no_plug() {
        assert_eq!(refused("event", "tokio", true), []);
        assert_eq!(refused("face-aep", "recount-server", true), []);
        assert_eq!(refused("face-aep", "recount-log-sqlite", true), [(6, RULE)]);
        assert_eq!(refused("server", "recount-log-sqlite", true), []);
    }

    #[test]
    fn only_tests_of_the_product_may_use_a_crate_of_the_lab() {
        for folder in ["event", "server"] {
            assert_eq!(refused(folder, "recount-sim", false), [(6, RULE)], "{folder}");
            assert_eq!(refused(folder, "recount-sim", true), [], "{folder}");
        }
        let mut tree = clean_tree();
        depend(&mut tree, "server", "recount-sim", false);
        let finding = &judge(&tree).findings[0];
        assert_eq!(finding.message, "`server` must not use `sim` of lab/, except as a dev-dependency");
        assert_eq!(refused("sim", "recount-engine", false), []);
        assert_eq!(refused("sim", "recount-cli", false), [(6, RULE)]);
    }

    #[test]
    fn a_crate_is_in_the_table_of_its_folder() {
        for (name, folder) in [("recount-bench", "crates/bench"), ("recount-json", "lab/json")] {
            let mut tree = clean_tree();
            tree.packages.push(Package { name: name.into(), folder: folder.into(), dependencies: vec![] });
            let report = judge(&tree);
            assert!(rules_at(&report, &format!("{folder}/Cargo.toml")).contains(&RULE), "{folder}");
        }
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_or_on_the_map_is_refused() {
        let mut tree = clean_tree();
        tree.packages.push(Package {
            name: "recount-new".into(),
            folder: "crates/new".into(),
            dependencies: vec![],
        });
        let report = judge(&tree);
        assert_eq!(rules_at(&report, "crates/new/Cargo.toml"), [RULE]);
        assert_eq!(rules_at(&report, MAP), [RULE]);
    }

    #[test]
    fn the_table_has_no_unknown_names_and_no_circle() {
        let rows: Vec<&CrateEdges> = CRATES.iter().chain(LAB).collect();
        for (at, row) in rows.iter().enumerate() {
            for used in row.uses {
                let place =
                    rows.iter().position(|row| row.folder == *used).expect("the table knows what it names");
                assert!(place < at, "{} uses {used}, which is below it", row.folder);
            }
        }
    }
}
