//! docs/limits.md names every bound of the program: its table is made from the `limits.rs` files, and this
//! test fails when one of them says something else. `RECOUNT_BLESS=1` writes it again.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const CRATES: [&str; 21] = [
    "server",
    "face-aep",
    "face-aap",
    "face-aaep",
    "face-acp",
    "face-hooks",
    "transport",
    "engine",
    "agent",
    "run",
    "event",
    "log",
    "log-sqlite",
    "api",
    "client",
    "world",
    "redact",
    "aaep",
    "aaep-kit",
    "record",
    "cli",
];
const BEGIN: &str = "<!-- made from the limits.rs files; RECOUNT_BLESS=1 cargo test -p recount-server --test operations -->\n";
const END: &str = "<!-- end of what is made -->\n";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A value as people read it; what is more than a plain number stays as it is written.
fn value(expression: &str, name: &str) -> String {
    let plain = expression.replace('_', "");
    let number = |text: &str| -> Option<u64> {
        if let Some((base, shift)) = text.split_once("<<") {
            return Some(base.trim().parse::<u64>().ok()? << shift.trim().parse::<u32>().ok()?);
        }
        text.split('*').map(|factor| factor.trim().parse::<u64>().ok()).product()
    };
    for (call, unit) in [("Duration::fromsecs(", "s"), ("Duration::frommillis(", "ms")] {
        if let Some(inner) = plain.strip_prefix(call).and_then(|rest| rest.strip_suffix(')'))
            && let Some(count) = number(inner)
        {
            return format!("{count} {unit}");
        }
    }
    match number(&plain) {
        Some(count) if name.contains("BYTES") && count >= 1 << 20 && count.is_multiple_of(1 << 20) => {
            format!("{} MiB", count >> 20)
        }
        Some(count) if name.contains("BYTES") && count >= 1 << 10 && count.is_multiple_of(1 << 10) => {
            format!("{} KiB", count >> 10)
        }
        Some(count) if name.contains("BYTES") => format!("{count} bytes"),
        Some(count) => count.to_string(),
        None => format!("`{expression}`"),
    }
}

/// Every public bound of one file: name, value, and what its comment says.
fn bounds(text: &str, krate: &str) -> Vec<[String; 3]> {
    let mut found = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix("///") {
            comment.push(words.trim());
            continue;
        }
        // A program, and a module that only its crate uses, have limits that are not public.
        let of_a_crate = line.strip_prefix("pub(crate) const ").filter(|_| matches!(krate, "cli" | "agent"));
        let public = line.strip_prefix("pub const ").or(of_a_crate);
        if let Some(rest) = public {
            let mut whole = rest.to_owned();
            while !whole.ends_with(';') {
                whole.push(' ');
                whole.push_str(lines.next().expect("a constant ends").trim());
            }
            let (name, rest) = whole.split_once(':').unwrap();
            let (_, expression) = rest.trim_end_matches(';').split_once('=').unwrap();
            assert!(!comment.is_empty(), "{krate}::{name} does not say what happens at it");
            let words = comment.join(" ").replace('|', "\\|").replace(['[', ']'], "");
            found.push([format!("{krate}::{name}"), value(expression.trim(), name), words]);
        }
        comment.clear();
    }
    found
}

/// The crate's `limits.rs`, then those of its modules by name.
fn limits_files(source: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let places = std::iter::once(source.to_owned()).chain(folders);
    places.map(|folder| folder.join("limits.rs")).filter(|file| file.is_file()).collect()
}

#[test]
fn every_bound_is_on_the_page() {
    let mut table = String::new();
    for krate in CRATES {
        let files = limits_files(&root().join("crates").join(krate).join("src"));
        if files.is_empty() {
            continue;
        }
        writeln!(
            table,
            "\n### {krate}\n\n| bound | value | what it is, and what happens at it |\n| --- | --- | --- |"
        )
        .unwrap();
        for file in files {
            for [name, value, words] in bounds(&std::fs::read_to_string(file).unwrap(), krate) {
                writeln!(table, "| `{name}` | {value} | {words} |").unwrap();
            }
        }
    }
    table.push('\n');
    for folder in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        let has_bounds = folder.path().join("src/limits.rs").is_file();
        // These are not part of what is run.
        let is_ours =
            CRATES.contains(&name.as_str()) || ["sim", "bench", "playback"].contains(&name.as_str());
        assert!(!has_bounds || is_ours, "the bounds of {name} are on no page");
    }
    let path = root().join("docs/limits.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the table");
    let (there, after) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert!(there == table, "docs/limits.md is not as the limits.rs files are; run with RECOUNT_BLESS=1");
}

#[test]
fn values_are_told_as_people_read_them() {
    for (expression, name, told) in [
        ("25_000", "A", "25000"),
        ("256 << 20", "A_BYTES_MAX", "256 MiB"),
        ("64 * 1024", "A_BYTES_MAX", "64 KiB"),
        ("1_000", "A_BYTES", "1000 bytes"),
        ("Duration::from_secs(5)", "A", "5 s"),
        ("Duration::from_millis(50)", "A", "50 ms"),
        ("recount_log::limits::B", "A", "`recount_log::limits::B`"),
    ] {
        assert_eq!(value(expression, name), told);
    }
}

/// What the page says of metrics is on the page of metrics.
#[test]
fn every_metric_that_is_named_exists() {
    let page = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let source = root().join("crates/server/src");
    let mut code = std::fs::read_to_string(source.join("metrics.rs")).unwrap();
    for file in ["process.rs", "requests.rs"] {
        code.push_str(&std::fs::read_to_string(source.join("metrics").join(file)).unwrap());
    }
    let words = page.split('`').filter(|word| word.starts_with("recount_") || word.starts_with("process_"));
    let mut count = 0;
    for word in words {
        let name = word.split('{').next().unwrap().trim_end_matches("_total").trim_end_matches("_info");
        assert!(code.contains(&format!("\"{name}\"")), "there is no metric {name}");
        count += 1;
    }
    assert!(count > 10, "{count} metrics are named");
}
