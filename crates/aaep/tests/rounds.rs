//! Benchmark of parsing and checking: processes JSON lines repeatedly in one of three modes, so that their times can be
//! compared from outside (this crate reads no clock). A separate process, because its whole run is timed.
//!
//! ```text
//! cargo test --release -p recount-aaep --test rounds --no-run
//! time target/release/deps/rounds-… plain 20 FILE      # also: event, validate
//! ```
//!
//! `plain` only deserializes: one struct of owned fields for all types, the fastest mode of `serde_json`. `event`
//! parses [`recount_aaep::Message`]. `validate` runs all rules with the profile strict. Without arguments it runs each
//! mode once on the sessions of the corpus and compares the counts.

#![allow(clippy::print_stdout, reason = "it prints its counts")]

use recount_aaep::rule::Profile;
use recount_aaep::session::{Checker, Options};
use serde::Deserialize;

#[derive(Deserialize)]
#[allow(dead_code, reason = "it is only read")]
struct Producer {
    agent_id: String,
    agent_version: Option<String>,
    agent_name: Option<String>,
    model: Option<String>,
    manifest_uri: Option<String>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "it is only read")]
struct Hints {
    primary_language: Option<String>,
    text_direction: Option<String>,
    available_languages: Option<Vec<String>>,
    fallback_chain: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "it is only read")]
struct Progress {
    percent: Option<f64>,
    step: Option<u64>,
    total_steps: Option<u64>,
    description: Option<String>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "it is only read")]
struct Plain {
    #[serde(rename = "@context")]
    context: Option<String>,
    r#type: String,
    event_id: Option<String>,
    session_id: Option<String>,
    timestamp: String,
    producer: Option<Producer>,
    aaep_version: Option<String>,
    sequence_number: Option<u64>,
    verbosity: Option<String>,
    urgency: Option<String>,
    localization_hints: Option<Hints>,
    correlation_id: Option<String>,
    summary_terse: Option<String>,
    summary_normal: Option<String>,
    summary_detailed: Option<String>,
    expected_duration_ms: Option<u64>,
    request_text: Option<String>,
    tools_available: Option<Vec<String>>,
    duration_ms: Option<u64>,
    tool_invocations_count: Option<u64>,
    from_state: Option<String>,
    to_state: Option<String>,
    progress: Option<Progress>,
    eta_ms: Option<u64>,
    tool: Option<String>,
    description: Option<String>,
    args_summary: Option<String>,
    risk_level: Option<String>,
    irreversible: Option<bool>,
    tool_call_id: Option<String>,
    status: Option<String>,
    chunk: Option<String>,
    position: Option<u64>,
    complete: Option<bool>,
    coalesce_hint: Option<String>,
    output_id: Option<String>,
    content_type: Option<String>,
    action: Option<String>,
    consequence: Option<String>,
    reply_token: Option<String>,
    timeout_seconds: Option<u32>,
    default_decision: Option<String>,
    decision: Option<String>,
    subscription_id: Option<String>,
}

fn round(way: &str, lines: &[&str], findings: &mut usize) -> Result<u64, Box<dyn std::error::Error>> {
    let mut events = 0;
    match way {
        "plain" => {
            for line in lines {
                let plain: Plain = serde_json::from_slice(line.as_bytes())?;
                events += u64::from(!plain.timestamp.is_empty());
            }
        }
        "event" => {
            for line in lines {
                events += u64::from(recount_aaep::Message::parse(line).is_ok());
            }
        }
        "validate" => {
            let mut checker = Checker::new(Options { profile: Profile::Strict, ..Options::default() });
            for (at, line) in lines.iter().enumerate() {
                checker.bytes(at + 1, line.as_bytes());
                events += 1;
            }
            checker.finish();
            *findings += checker.take().len();
        }
        other => return Err(format!("`{other}` is not a way: plain, event or validate").into()),
    }
    Ok(events)
}

/// The test name, for programs that list tests before they run them.
const COMPARISON: &str = "every_way_reads_the_same_number_of_events";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let is_given = |option: &str| std::env::args().any(|argument| argument == option);
    if is_given("--list") {
        if !is_given("--ignored") {
            println!("{COMPARISON}: test");
        }
        return Ok(());
    }
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let mut findings = 0;
    if let [way, rounds, file] = arguments.as_slice() {
        let text = std::fs::read_to_string(file)?;
        let lines: Vec<&str> = text.lines().collect();
        let mut events = 0;
        for _ in 0..rounds.parse::<u32>()? {
            events += round(way, &lines, &mut findings)?;
        }
        println!("{way}: {events} events, {findings} findings");
        return Ok(());
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sessions");
    for name in ["good.confirmed", "good.clarified", "good.output", "good.chapter46"] {
        let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl")))?;
        let lines: Vec<&str> = text.lines().collect();
        let counts =
            ["plain", "event", "validate"].map(|way| round(way, &lines, &mut findings).unwrap_or_default());
        assert_eq!(counts, [lines.len() as u64; 3], "{name}");
    }
    Ok(())
}
