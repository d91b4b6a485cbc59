//! The bench works: every measure runs from end to end, every line is there, and nothing was lost.
//!
//! Speeds are not looked at: this runs beside other tests, unoptimised.

#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
fn a_smoke_run_fills_every_line_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (json, plots) = (folder.path().join("figures.json"), folder.path().join("plots"));
    let output = Command::new(env!("CARGO_BIN_EXE_recount-bench"))
        .args(["run", "--quick", "--folder"])
        .arg(folder.path().join("stores"))
        .arg("--json")
        .arg(&json)
        .arg("--plots")
        .arg(&plots)
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");

    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(figures["broken"], serde_json::json!([]), "{said}");
    let lines = figures["lines"].as_array().unwrap();
    for measure in [
        "append",
        "ingest",
        "wake",
        "replay",
        "fanout",
        "stalled",
        "footprint",
        "words",
        "output",
        "crowd",
        "calls",
        "aaep",
        "listeners",
        "project",
    ] {
        let of = |line: &&serde_json::Value| line["key"].as_str().unwrap().starts_with(measure);
        assert!(lines.iter().any(|line| of(&line)), "{measure} has no line: {said}");
    }
    for line in lines {
        let ours = line["ours"]["median"].as_f64().unwrap();
        // One of them is the difference of two delays.
        assert!(ours.is_finite() && (ours >= 0.0 || line["key"] == "recorder.hook"), "{line}");
        assert_eq!(line["pairs"], 1, "{line}");
    }
    let delivered = lines.iter().filter(|line| line["key"].as_str().unwrap().ends_with(".delivered"));
    assert_eq!(delivered.map(|line| line["ours"]["median"].as_f64().unwrap()).collect::<Vec<_>>(), [1.0; 3]);
    assert!(!figures["shares"].as_array().unwrap().is_empty(), "no yardstick was held against a raw limit");
    for picture in ["bars.svg", "delays.svg"] {
        let text = std::fs::read_to_string(plots.join(picture)).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{picture}");
    }
}

fn soak(words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_recount-bench"))
        .arg("soak")
        .args(words)
        .arg("--folder")
        .arg(folder.path().join("soak"))
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!folder.path().join("soak").exists(), "it clears up");
    said
}

#[test]
fn a_short_soak_kills_backs_up_and_keeps_every_promise() {
    let said = soak(&["--minutes", "0.2"]);
    assert!(said.contains("every promise was kept") && said.contains("at rest:"), "{said}");
    assert!(!said.contains(" 0 kills") && !said.contains(" 0 backups"), "{said}");
}

#[test]
fn a_small_store_goes_through_everything_a_large_one_does() {
    let said = soak(&["--million", "--events", "20000"]);
    assert!(said.contains("every digest the same at each step"), "{said}");
}

/// The number before these words.
fn count(said: &str, words: &str) -> u64 {
    let at = said.find(words).unwrap_or_else(|| panic!("no {words:?} in {said}"));
    said[..at].split_whitespace().next_back().unwrap().parse().unwrap()
}

#[test]
fn agents_on_failing_disks_under_sqlite_lose_no_output_unreported() {
    let said = soak(&["--disks", "--minutes", "0.2"]);
    assert!(said.contains("; 0 broken"), "{said}");
    for words in ["stories", "delays,", "failed syncs"] {
        assert!(count(&said, words) > 0, "{words}: {said}");
    }
}

#[test]
fn salvage_of_damaged_folders_reports_every_loss() {
    let said = soak(&["--salvage", "--minutes", "0.2"]);
    assert!(said.contains("; 0 broken"), "{said}");
    assert!(!said.contains("whole: 0,") && !said.contains("damaged: 0,"), "{said}");
}
