//! Finds the exit status of a command in the outcome that an agent reports: a field, or a line at the edge of a text.
//!
//! It must not know agents or calls. Entry point: [`exit_status`].

use serde_json::Value;

/// Names of the field, as agents have them.
const FIELDS: [&str; 5] = ["exit_code", "exitCode", "exit_status", "returncode", "exit"];

/// The exit status in an outcome: in its fields, in those of its `metadata`, or in its text, which may be JSON.
pub(crate) fn exit_status(outcome: &Value) -> Option<i64> {
    match outcome {
        Value::Object(_) => of_fields(outcome).or_else(|| of_fields(outcome.get("metadata")?)),
        Value::String(text) if text.trim_start().starts_with('{') => {
            exit_status(&serde_json::from_str(text).ok().filter(Value::is_object)?)
        }
        Value::String(text) => at_the_beginning(text).or_else(|| at_the_end(text)),
        _ => None,
    }
}

fn of_fields(fields: &Value) -> Option<i64> {
    FIELDS.iter().find_map(|name| fields.get(name)?.as_i64())
}

/// As Codex writes it: before the output, after lines about the process. What follows is the output itself.
fn at_the_beginning(text: &str) -> Option<i64> {
    for line in text.lines() {
        let status =
            ["Exit code: ", "Process exited with code "].iter().find_map(|name| line.strip_prefix(name));
        if let Some(status) = status {
            return status.trim().parse().ok();
        }
        if !["Chunk ID: ", "Wall time: ", "Original token count: "].iter().any(|name| line.starts_with(name))
        {
            return None;
        }
    }
    None
}

/// As Gemini CLI and qwen-code write it: after the output, before lines about the process.
fn at_the_end(text: &str) -> Option<i64> {
    if !text.starts_with("Command: ") {
        return None;
    }
    let about = ["Signal: ", "Background PIDs: ", "Process Group PGID: "];
    let line = text.lines().rev().find(|line| !about.iter().any(|name| line.starts_with(name)))?;
    line.strip_prefix("Exit Code: ")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_is_read_where_the_agent_writes_it_and_not_from_what_the_command_printed() {
        for (outcome, status) in [
            (json!({"exit_code": 1}), Some(1)),
            (json!({"output": "", "metadata": {"exit_code": -9}}), Some(-9)),
            (json!(r#"{"returncode":0}"#), Some(0)),
            (json!("{not json"), None),
            (json!("Wall time: 1 seconds\nProcess exited with code 4\nOutput:\nx"), Some(4)),
            (json!("Output:\nProcess exited with code 4"), None),
            (json!("Exit code: seven"), None),
            (json!("Command: x\nOutput: y\nExit Code: 2\nSignal: (none)"), Some(2)),
            (json!("Command: x\nOutput: Exit Code: 2\nExit Code: (none)\nSignal: SIGTERM"), None),
            (json!("x\nExit Code: 2"), None),
            (json!(["Exit code: 1"]), None),
            (json!({"exit_code": "1"}), None),
            (Value::Null, None),
        ] {
            assert_eq!(exit_status(&outcome), status, "{outcome}");
        }
    }
}
