//! Tests that every measure runs to its end, every line has a figure, and nothing was lost.
//!
//! Speeds are not checked: this runs beside other tests, unoptimised.

#![allow(clippy::unwrap_used)]

use std::process::Command;

#[test]
#[ignore = "full: measures with an unoptimised server"]
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
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");

    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(figures["broken"], serde_json::json!([]), "{text}");
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
        assert!(lines.iter().any(|line| of(&line)), "{measure} has no line: {text}");
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
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(!folder.path().join("soak").exists(), "it clears up");
    text
}

#[test]
#[ignore = "full: a random walk"]
fn a_short_soak_kills_backs_up_and_keeps_every_promise() {
    let text = soak(&["--minutes", "0.2"]);
    assert!(text.contains("every promise was kept") && text.contains("at rest:"), "{text}");
    assert!(!text.contains(" 0 kills") && !text.contains(" 0 backups"), "{text}");
}

#[test]
#[ignore = "full: a large store"]
fn a_small_store_passes_all_steps_of_a_large_one() {
    let text = soak(&["--million", "--events", "20000"]);
    assert!(text.contains("every digest the same at each step"), "{text}");
}

/// The number before these words.
fn count(text: &str, words: &str) -> u64 {
    let at = text.find(words).unwrap_or_else(|| panic!("no {words:?} in {text}"));
    text[..at].split_whitespace().next_back().unwrap().parse().unwrap()
}

#[test]
#[ignore = "full: disks that fail by chance"]
fn agents_on_failing_disks_under_sqlite_lose_no_output_unreported() {
    let text = soak(&["--disks", "--minutes", "0.2"]);
    assert!(text.contains("; 0 broken"), "{text}");
    for words in ["stories", "delays,", "failed syncs"] {
        assert!(count(&text, words) > 0, "{words}: {text}");
    }
}

#[test]
#[ignore = "full: damage by chance"]
fn salvage_of_damaged_folders_reports_every_loss() {
    let text = soak(&["--salvage", "--minutes", "0.2"]);
    assert!(text.contains("; 0 broken"), "{text}");
    assert!(!text.contains("whole: 0,") && !text.contains("damaged: 0,"), "{text}");
}

/// Bounded to about twenty seconds: the lease of a killed owner has to expire once.
#[test]
fn two_servers_keep_every_promise_when_the_owner_is_killed_and_stopped() {
    let faults = "kill-owner,stop-owner";
    let text = soak(&["--nodes", "--sequences", "1", "--faults", faults]);
    assert!(text.contains("every promise was kept"), "{text}");
    for words in ["events acknowledged", "stored", "approvals", "own runs ended", "streams resumed"] {
        assert!(count(&text, words) > 0, "{words}: {text}");
    }
}

#[test]
#[ignore = "full: random sequences of faults"]
fn two_servers_keep_every_promise_on_random_bad_days() {
    let text = soak(&["--nodes", "--sequences", "4", "--seed", "7"]);
    assert!(text.contains("every promise was kept"), "{text}");
}

#[test]
#[ignore = "full: waits for leases and for replication"]
fn two_servers_keep_every_promise_when_postgresql_fails_over_and_a_loss_is_named() {
    let text = soak(&["--nodes", "--sequences", "1", "--faults", "fail-over,fail-over-with-loss"]);
    assert!(text.contains("stopped with store_corrupt") && text.contains("every promise was kept"), "{text}");
    let text = soak(&["--nodes", "--sequences", "1", "--faults", "freeze-owner,fill-disk,wrong-clock"]);
    assert!(text.contains("every promise was kept"), "{text}");
}
