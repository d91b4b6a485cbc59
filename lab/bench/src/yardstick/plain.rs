//! Typed deserialisation of events and nothing else: one struct of owned fields for all types, the fastest form in
//! `serde_json` (a tagged enum reads each text twice). Compared with skipping the same texts.

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;

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

/// Parses each line into its struct.
pub(crate) fn read(lines: &[&[u8]]) -> Result<()> {
    let mut with_time = 0;
    for line in lines {
        let plain: Plain = serde_json::from_slice(line)?;
        with_time += usize::from(!plain.timestamp.is_empty());
    }
    ensure!(with_time == lines.len(), "{with_time} of {} have a time", lines.len());
    Ok(())
}

/// Skips over each line and keeps nothing.
pub(crate) fn skip(lines: &[&[u8]]) -> Result<()> {
    for line in lines {
        let IgnoredAny = serde_json::from_slice(line)?;
    }
    Ok(())
}
