//! Sessions without prompts: runs each scenario once, one after the other.

use std::collections::BTreeSet;

use recount_aaep::Kind;
use serde_json::Value;

use crate::conformance::conversation::Conversation;
use crate::conformance::judge;
use crate::conformance::producer::harness::{Harness, PartError};
use crate::conformance::producer::specs;
use crate::conformance::report::Outcome;
use crate::conformance::transcript::Line;
use crate::limits;
use crate::scenario::Scenario;

/// The secrets in the scenario that contains one.
const SECRETS: [&str; 1] = ["sk-test-12345"];

pub(super) async fn sessions(harness: &Harness<'_>, conversations: &[Conversation]) -> Result<(), PartError> {
    let conversation = &conversations[0];
    let mut ids = Vec::new();
    let mut errors = Vec::new();
    let mut endless = 0;
    for scenario in Scenario::ALL.into_iter().filter(|scenario| !scenario.has_prompts()) {
        let from = conversation.len();
        match harness.begin(conversation, scenario).await {
            Ok(id) => {
                endless += usize::from(harness.end_of(conversation, &id).await.is_none());
                if scenario == Scenario::ToolTimeout {
                    given_up(harness, &conversation.read(|lines| lines[from..].to_vec()));
                }
                ids.push(id);
            }
            Err(error) => errors.push(error),
        }
        // Waiting as long for the others would show nothing new.
        if errors.len() >= limits::SILENT_SCENARIOS_MAX || endless >= limits::SILENT_SCENARIOS_MAX {
            break;
        }
    }
    match (ids.as_slice(), errors.first()) {
        ([], Some(error)) => {
            harness.failed(&specs::SHOWN, error.clone(), []);
            return Err(error.clone());
        }
        (_, Some(error)) => harness.failed(&specs::SHOWN, error.clone(), []),
        _ => harness.passed(&specs::SHOWN, format!("{} sessions came", ids.len())),
    }
    let distinct: BTreeSet<&String> = ids.iter().collect();
    match ids.len() {
        0 | 1 => harness.not_shown(&specs::NEW_SESSION, "fewer than two sessions came"),
        count if distinct.len() == count => {
            harness.passed(&specs::NEW_SESSION, format!("{count} requests, {count} sessions"))
        }
        count => {
            harness.failed(&specs::NEW_SESSION, format!("{count} requests, {} sessions", distinct.len()), [])
        }
    }
    let lines = conversation.lines();
    agents(harness, &lines);
    secrets(harness, &lines);
    times(harness, &lines);
    texts(harness, &lines);
    Ok(())
}

fn given_up(harness: &Harness<'_>, lines: &[Line]) {
    let call = lines.iter().find(|line| line.is(Kind::ToolInvoked));
    let end = lines.iter().find(|line| line.is(Kind::ToolCompleted));
    match (call, end) {
        (None, _) => harness.not_shown(&specs::TOOL_SHOWN, "no tool was called"),
        (Some(_), Some(end)) if end.str("status") == "timeout" => {
            harness.passed(&specs::TOOL_SHOWN, "it was reported")
        }
        (Some(_), Some(end)) => {
            harness.not_shown(&specs::TOOL_SHOWN, format!("the tool ended with `{}`", end.str("status")));
        }
        (Some(call), None) => {
            harness.failed(&specs::TOOL_SHOWN, "no event reports how the call ended", [call.shown()])
        }
    }
}

fn agents(harness: &Harness<'_>, lines: &[Line]) {
    let agent = |line: &Line| {
        let agent = line.json.get("producer").and_then(|producer| producer.get("agent_id"));
        agent.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let starts: Vec<&Line> = lines.iter().filter(|line| line.is(Kind::SessionStarted)).collect();
    let names: BTreeSet<String> = starts.iter().map(|line| agent(line)).collect();
    match (starts.len(), names.len()) {
        (0, _) => harness.not_shown(&specs::SAME_AGENT, "no session started"),
        (_, 1) => harness.passed(&specs::SAME_AGENT, format!("it is `{}`", agent(starts[0]))),
        _ => {
            let evidence = starts.iter().map(|line| line.shown());
            harness.failed(&specs::SAME_AGENT, "sessions of one producer had several agent ids", evidence);
        }
    }
    let version = |line: &Line| {
        let version = line.json.get("producer").and_then(|producer| producer.get("agent_version"));
        let own = version.and_then(Value::as_str).unwrap_or_default();
        [own.to_owned(), line.str("aaep_version").to_owned()]
    };
    let before =
        lines.iter().filter(|line| line.is_event()).flat_map(version).find(|version| version.contains('-'));
    match before {
        Some(version) => harness.failed(
            &specs::RELEASED,
            format!("`{version}` is not a release, so no general claim is made"),
            [],
        ),
        None => harness.passed(&specs::RELEASED, ""),
    }
}

fn secrets(harness: &Harness<'_>, lines: &[Line]) {
    let has_session = lines.iter().any(|line| line.is(Kind::SessionStarted));
    if !has_session {
        harness.not_shown(&specs::SECRETS, "no session started");
        return harness.not_shown(&specs::MASKED, "no session started");
    }
    let leak = judge::leaks(lines, &SECRETS);
    // The request is the user's own text, not the producer's.
    let mut rest = lines.to_vec();
    for fields in rest.iter_mut().filter_map(|line| line.json.as_object_mut()) {
        fields.remove("request_text");
    }
    let own = leak.clone().filter(|(_, field)| field != "request_text");
    let own = own.or_else(|| judge::leaks(&rest, &SECRETS));
    for (spec, leak) in [(&specs::SECRETS, own), (&specs::MASKED, leak)] {
        let wrong = leak.as_ref().map_or(String::new(), |(_, field)| format!("it is in `{field}`"));
        harness.check(spec, leak.map(|(line, _)| [line.shown()]), wrong, "");
    }
}

fn times(harness: &Harness<'_>, lines: &[Line]) {
    let far = |line: &&Line| {
        let stamp = line.stamp_ms().unwrap_or_default();
        let wall = i64::try_from(line.wall_ms).unwrap_or(i64::MAX);
        stamp.abs_diff(wall) > limits::TIMESTAMP_SKEW_MS
    };
    match lines.iter().filter(|line| line.is_event() && line.stamp_ms().is_some()).find(far) {
        Some(line) => {
            let stamp = line.stamp_ms().unwrap_or_default();
            let off = i64::try_from(line.wall_ms).unwrap_or(i64::MAX) - stamp;
            harness.failed(
                &specs::RECENT,
                format!("a timestamp lies {off} ms before the moment at which it came"),
                [line.shown()],
            );
        }
        None => harness.passed(&specs::RECENT, ""),
    }
}

fn texts(harness: &Harness<'_>, lines: &[Line]) {
    let silent = |line: &&Line| {
        line.is(Kind::OutputStreaming)
            && line.json.get("complete").and_then(Value::as_bool) == Some(false)
            && line.str("coalesce_hint").is_empty()
            && line.str("chunk").chars().count() < limits::SMALL_PIECE_CHARS
    };
    match lines.iter().find(silent) {
        Some(line) => harness.failed(&specs::HINTED, "a piece has no `coalesce_hint`", [line.shown()]),
        None if lines.iter().any(|line| line.is(Kind::OutputStreaming)) => harness.passed(&specs::HINTED, ""),
        None => harness.not_shown(&specs::HINTED, "no output came"),
    }
    let bare = |line: &&Line| line.is_event() && line.str("aaep_version").is_empty();
    let versioned = lines.iter().any(|line| !line.str("aaep_version").is_empty());
    match lines.iter().find(bare) {
        Some(line) if versioned => {
            let detail = "some events have it and others do not, so readers must remember it";
            harness.note(&specs::VERSIONED, Outcome::Warned, detail, [line.shown()]);
        }
        _ => harness.passed(&specs::VERSIONED, ""),
    }
    let decomposed = judge::decomposed(lines).map(|line| [line.shown()]);
    harness.check(&specs::NFC, decomposed, "a letter is followed by a combining mark", "");
    let received =
        lines.iter().filter(|line| line.origin == crate::conformance::transcript::LineOrigin::Received);
    let other = received.clone().find(|line| !line.json.is_object()).map(|line| [line.shown()]);
    harness.check(
        &specs::ONE_EACH,
        other,
        "a frame holds something else",
        format!("{} frames", received.count()),
    );
}
