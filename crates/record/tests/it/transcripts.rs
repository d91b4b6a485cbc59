//! Transcripts of Claude Code and Codex, line by line: what each means, and that the drafts of a run are ones that the log
//! takes.

use recount_event::{Draft as Taken, Event, RunId, Stamp, codec, door};
use recount_record::claude_transcripts::ClaudeTranscript;
use recount_record::codex_rollouts::CodexRollout;
use recount_record::transcript::{LinePlace, Transcript, TranscriptLine, apply, apply_raw, apply_steps};
use recount_record::{Draft, Ending, Recording};
use recount_run::{Command, State, audit, decide};
use serde_json::{Value, json};

const CLAUDE: &str =
    include_str!("../../../../testdata/transcripts/claude-code/7a1d2c3e-1111-4a22-8b33-0123456789ab.jsonl");
const CODEX: &str = include_str!(
    "../../../../testdata/transcripts/codex/rollout-2026-11-20T09-00-00-0199aaaa-1111-7222-8333-444455556666.jsonl"
);

type Reader = fn() -> Box<dyn Transcript>;

const BOTH: [(Reader, &str); 2] =
    [(|| Box::new(ClaudeTranscript::new()), CLAUDE), (|| Box::new(CodexRollout::new()), CODEX)];

/// Runs as an importer makes them, each with its events as the rules took them.
fn runs(transcript: &mut dyn Transcript, text: &str) -> Vec<Vec<(String, Value)>> {
    let mut runs = Vec::new();
    let mut open: Option<(Recording, Vec<Draft>)> = None;
    let mut held: Vec<(TranscriptLine, &str)> = Vec::new();
    for (at, raw) in text.lines().enumerate() {
        let line = transcript.line(at as u64 + 1, raw);
        if matches!(line.place, LinePlace::Begins { .. })
            && let Some((mut recording, mut drafts)) = open.take()
        {
            drafts.extend(apply_steps(&mut recording, &line.before));
            runs.push(taken(&drafts));
        }
        if open.is_none() && line.place == LinePlace::Around {
            held.push((line, raw));
            continue;
        }
        let (recording, drafts) = open.get_or_insert_with(|| {
            let mut recording = Recording::begin(&transcript.source());
            let mut drafts = recording.drain();
            for (line, raw) in held.drain(..) {
                drafts.extend(apply_raw(&mut recording, &line, raw));
            }
            (recording, drafts)
        });
        drafts.extend(apply(recording, &line, raw));
        if recording.is_ended() {
            runs.push(taken(drafts));
            open = None;
        }
    }
    if let Some((mut recording, mut drafts)) = open {
        drafts.extend(apply_steps(&mut recording, &transcript.rest()));
        runs.push(taken(&drafts));
    }
    runs
}

/// The drafts as the rules take them, and the audit finds them legal.
fn taken(drafts: &[Draft]) -> Vec<(String, Value)> {
    let id: RunId = "run_01HZX3Q0M0000000000000000A".parse().unwrap();
    let mut state = State::blank(id, None, None);
    let mut events: Vec<Event> = Vec::new();
    let queued = r#"{"kind":"external","driver":"external","prior_run_id":null}"#;
    let Taken { payload, .. } = door::draft("run.queued", queued).unwrap();
    let recount_event::Payload::RunQueued(queued) = payload else { panic!("not run.queued") };
    let mut commands = vec![Command::Queue { queued, resumed_from: None }];
    let draft = |draft: &Draft| {
        door::draft(&draft.kind, &draft.data.to_string()).unwrap_or_else(|no| panic!("{no}: {draft:?}"))
    };
    commands.push(Command::Append { drafts: drafts.iter().map(draft).collect() });
    for command in commands {
        let stamp = Stamp { now_ms: 1_777_803_825_000, entropy: events.len() as u128 };
        for event in decide(&state, command, stamp).unwrap_or_else(|no| panic!("{no:?}")) {
            let event = codec::decode(&codec::encode(&event)).unwrap();
            recount_run::apply(&mut state, &event);
            events.push(event);
        }
    }
    assert_eq!(audit(events.iter()), None);
    drafts.iter().map(|draft| (draft.kind.to_string(), draft.data.clone())).collect()
}

/// The events of a run without the raw ones and those that every run has, each by what is to be compared.
fn story(run: &[(String, Value)], fields: &[&str]) -> Vec<(String, Vec<Value>)> {
    let events = run.iter().filter(|(kind, _)| {
        let is_raw = kind.starts_with("ext.claude.") || kind.starts_with("ext.codex.");
        !is_raw && !matches!(kind.as_str(), "assistant.text_delta" | "cost.tick")
    });
    events
        .map(|(kind, data)| {
            (kind.clone(), fields.iter().filter_map(|field| data.get(field).cloned()).collect())
        })
        .collect()
}

/// The totals of a run, as in the last tick.
fn totals(run: &[(String, Value)]) -> [Value; 4] {
    let tick = &run.iter().rfind(|(kind, _)| kind == "cost.tick").unwrap().1;
    ["cumulative_input_tokens", "cumulative_output_tokens", "cumulative_cost_micros_usd", "unpriced_turns"]
        .map(|name| tick[name].clone())
}

fn event(kind: &str, values: Value) -> (String, Vec<Value>) {
    (kind.to_owned(), values.as_array().unwrap().clone())
}

const FIELDS: [&str; 9] = [
    "text",
    "tool_call_id",
    "stop_reason",
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "mcp_server",
    "code",
    "final_status",
];

#[test]
fn a_session_of_claude_code_is_a_run_for_each_request() {
    let runs = runs(&mut ClaudeTranscript::new(), CLAUDE);
    assert_eq!(runs.len(), 2);
    let expected = [
        event("run.started", json!([])),
        event("ext.recount.source", json!([])),
        event("user.message", json!(["Fix the failing test of the basket.\nIt is in test_basket.py."])),
        event("turn.started", json!([])),
        event("assistant.text_complete", json!(["I run the test first."])),
        event("assistant.tool_call_proposed", json!(["toolu_01A"])),
        event("tool.invoked", json!(["toolu_01A"])),
        event("tool.failed", json!(["toolu_01A"])),
        // One message of three lines is one turn, with the usage of its last line.
        event("turn.completed", json!(["tool_use", 1204, 57, 1000])),
        event("turn.started", json!([])),
        event("assistant.tool_call_proposed", json!(["toolu_01B"])),
        event("assistant.tool_call_proposed", json!(["toolu_01C"])),
        event("tool.invoked", json!(["toolu_01B", "github"])),
        event("tool.completed", json!(["toolu_01B", "github"])),
        event("tool.refused", json!(["toolu_01C", "denied"])),
        event("turn.completed", json!(["tool_use", 1206, 60, 1200])),
        event("turn.started", json!([])),
        event("assistant.text_complete", json!(["I leave the file as it is."])),
        event("turn.completed", json!(["end_turn", 1309, 12, 1300])),
        event("run.finished", json!(["completed"])),
    ];
    assert_eq!(story(&runs[0], &FIELDS), expected);
    assert_eq!(totals(&runs[0]), [3719, 129, 0, 3].map(Value::from));
    let kinds: Vec<&str> = runs[1].iter().map(|(kind, _)| kind.as_str()).collect();
    assert!(kinds.contains(&"ext.recount.gap"), "the picture is missing: {kinds:?}");
    assert!(kinds.contains(&"ext.claude.a_type_of_tomorrow"), "{kinds:?}");
    let texts = runs[1].iter().filter(|(kind, _)| kind == "assistant.text_complete").count();
    assert_eq!(texts, 0, "a sub-agent's words are only in the raw line");
    assert_eq!(runs[1].last().unwrap().0, "run.cancelled");
    assert_eq!(runs[1].last().unwrap().1["by"], "operator");
}

#[test]
fn a_rollout_of_codex_counts_what_each_request_used() {
    let runs = runs(&mut CodexRollout::new(), CODEX);
    assert_eq!(runs.len(), 2);
    let expected = [
        event("run.started", json!([])),
        event("ext.recount.source", json!([])),
        event("user.message", json!(["list the files"])),
        event("turn.started", json!([])),
        event("assistant.tool_call_proposed", json!(["call_1"])),
        event("turn.completed", json!(["tool_use", 100, 10, 20])),
        event("tool.invoked", json!(["call_1"])),
        event("tool.completed", json!(["call_1"])),
        event("turn.started", json!([])),
        event("assistant.tool_call_proposed", json!(["call_2"])),
        event("tool.invoked", json!(["call_2"])),
        event("tool.failed", json!(["call_2", "exit_status"])),
        event("turn.completed", json!(["tool_use", 150, 15, 100])),
        event("turn.started", json!([])),
        event("assistant.text_complete", json!(["There is a.txt."])),
        event("turn.completed", json!(["end_turn", 150, 15, 140])),
        // Now it is known that the source shows tokens and exit statuses.
        event("ext.recount.source", json!([])),
        event("run.finished", json!(["completed"])),
    ];
    assert_eq!(story(&runs[0], &FIELDS), expected);
    // The last count of the source, and not the sum of its counts.
    assert_eq!(totals(&runs[0]), [400, 40, 0, 3].map(Value::from));
    let started = runs[0].iter().find(|(kind, _)| kind == "turn.started").unwrap();
    assert_eq!([&started.1["model"], &started.1["provider"]], ["gpt-5.2-codex", "openai"]);
    assert_eq!(runs[1].last().unwrap().0, "run.cancelled");
}

#[test]
fn every_line_is_kept_as_it_is_with_the_time_of_the_source() {
    for (reader, text) in BOTH {
        let runs = runs(reader().as_mut(), text);
        let raw: Vec<&Value> = runs.iter().flatten().filter_map(|(_, data)| data.get("raw_text")).collect();
        let mut lines: Vec<&str> = text.lines().collect();
        // Lines that waited for a run are before its first event.
        lines.retain(|line| raw.iter().any(|kept| kept == line));
        assert_eq!(lines.len(), text.lines().count());
        assert_eq!(raw.len(), lines.len(), "each once");
        let timed = runs.iter().flatten().find(|(kind, _)| kind == "user.message").unwrap();
        assert!(timed.1["source_time"].as_str().unwrap().starts_with("2026-11-20T09:"));
    }
}

#[test]
fn unreadable_lines_are_reported() {
    for (reader, _) in BOTH {
        for bad in ["{\"type\":\"user\"", "[1]", "null", "{\"a\":1,}"] {
            let line = reader().line(7, bad);
            assert_eq!(line.name, "invalid_line", "{bad}");
            let mut recording = Recording::begin(&reader().source());
            recording.drain();
            let drafts = apply(&mut recording, &line, bad);
            assert_eq!(drafts[0].kind, "ext.recount.gap");
            assert!(drafts[0].data["what"].as_str().unwrap().contains("line 7"), "{drafts:?}");
            assert_eq!(drafts[1].data["raw_text"], bad);
        }
        for (odd, unknown) in [
            ("{}", "(without a type)"),
            (r#"{"type":"of-tomorrow"}"#, "of-tomorrow"),
            (r#"{"type":"user","message":{}}"#, "user without content"),
            (r#"{"type":"assistant"}"#, "assistant without message"),
            (r#"{"type":"response_item","payload":{"type":"x"}}"#, "response_item x"),
        ] {
            let line = reader().line(1, odd);
            if let Some(text) = line.unknown {
                assert!(text == unknown || text == odd_type(odd), "{text}");
            } else {
                assert!(line.steps.is_empty(), "{odd}");
            }
        }
    }
}

fn odd_type(line: &str) -> String {
    serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn lines_of_any_shape_give_drafts_that_the_log_takes() {
    // Each line of both, with each of its texts, numbers and lists replaced.
    for (reader, text) in BOTH {
        for other in
            [json!(null), json!(-1), json!(u64::MAX), json!("\u{1}\""), json!([[]]), json!({"type": 1})]
        {
            let spoilt: Vec<String> = text
                .lines()
                .map(|line| {
                    let mut value: Value = serde_json::from_str(line).unwrap();
                    spoil(&mut value, &other, 0);
                    value.to_string()
                })
                .collect();
            runs(reader().as_mut(), &spoilt.join("\n"));
        }
    }
}

/// Replaces what is deep in a value.
fn spoil(value: &mut Value, other: &Value, depth: usize) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|field| spoil(field, other, depth + 1)),
        Value::Array(items) => items.iter_mut().for_each(|item| spoil(item, other, depth + 1)),
        _ if depth > 2 => *value = other.clone(),
        _ => {}
    }
}

#[test]
fn a_recording_goes_on_after_a_restart_without_repeating_a_line() {
    let lines: Vec<&str> = CLAUDE.lines().collect();
    let mut transcript = ClaudeTranscript::new();
    let mut recording = Recording::begin(&transcript.source());
    let mut drafts = recording.drain();
    for (at, raw) in lines.iter().enumerate().take(7) {
        let line = transcript.line(at as u64 + 1, raw);
        drafts.extend(apply(&mut recording, &line, raw));
    }
    // Another process: the lines so far are read for what follows from them, and not recorded.
    let data: Vec<(String, Value)> =
        drafts.iter().map(|draft| (draft.kind.to_string(), draft.data.clone())).collect();
    let mut transcript = ClaudeTranscript::new();
    let seen = data.iter().map(|(kind, data)| (kind.as_str(), data));
    let mut recording = Recording::resume(&transcript.source(), seen);
    for (at, raw) in lines.iter().enumerate().take(12) {
        let line = transcript.line(at as u64 + 1, raw);
        if at >= 7 {
            drafts.extend(apply(&mut recording, &line, raw));
        }
    }
    drafts.extend(apply_steps(&mut recording, &transcript.rest()));
    recording.end(Ending::Finished { status: "completed".into() });
    let events = taken(&drafts);
    let turns = events.iter().filter(|(kind, _)| kind == "turn.completed").count();
    assert_eq!(turns, 3);
    assert_eq!(events.last().unwrap().0, "run.finished");
}

const CODEX_ITEMS: &str = include_str!(
    "../../../../testdata/transcripts/codex/rollout-2026-11-27T10-00-00-0199bbbb-1111-7222-8333-444455556666.jsonl"
);
const CLAUDE_COSTS: &str =
    include_str!("../../../../testdata/transcripts/claude-code/2efd1f5f-2222-4a22-8b33-0123456789ab.jsonl");

fn last_source(run: &[(String, Value)]) -> &Value {
    &run.iter().rfind(|(kind, _)| kind == "ext.recount.source").unwrap().1
}

#[test]
fn a_rollout_with_items_has_its_prompt_and_the_status_of_each_command() {
    let runs = runs(&mut CodexRollout::new(), CODEX_ITEMS);
    assert_eq!(runs.len(), 2);
    let of_calls: Vec<_> = story(&runs[0], &["text", "tool_call_id", "code", "error", "duration_ms"])
        .into_iter()
        .filter(|(kind, _)| !kind.starts_with("turn.") && !kind.ends_with("source"))
        .collect();
    let expected = [
        event("run.started", json!([])),
        event("user.message", json!(["run the tests of the basket"])),
        event("ext.recount.gap", json!([])),
        event("assistant.tool_call_proposed", json!(["call_1"])),
        event("tool.invoked", json!(["call_1"])),
        event("tool.failed", json!(["call_1", "exit_status", "exit status 2", 1500])),
        event("assistant.tool_call_proposed", json!(["call_2"])),
        event("assistant.tool_call_proposed", json!(["exec-7"])),
        event("tool.invoked", json!(["exec-7"])),
        event("tool.completed", json!(["exec-7", 1500])),
        event("assistant.tool_call_proposed", json!(["exec-8"])),
        event("tool.invoked", json!(["exec-8"])),
        event("tool.failed", json!(["exec-8", "there is no issue 7", 5])),
        event("tool.invoked", json!(["call_2"])),
        event("tool.completed", json!(["call_2"])),
        event("assistant.tool_call_proposed", json!(["call_3"])),
        event("tool.refused", json!(["call_3", "denied"])),
        event("assistant.text_complete", json!(["One test fails."])),
        event("run.finished", json!([])),
    ];
    assert_eq!(of_calls, expected);
    assert_eq!(totals(&runs[0]), [400, 40, 0, 3].map(Value::from));
    let source = last_source(&runs[0]);
    assert_eq!(source["version"], "0.171.0");
    assert!(source["shows"].as_array().unwrap().contains(&json!("exit statuses of commands")), "{source}");
}

#[test]
fn types_that_this_release_does_not_know_have_names() {
    let mut transcript = CodexRollout::new();
    let lines = CODEX_ITEMS.lines().enumerate();
    let unknown: Vec<String> =
        lines.filter_map(|(at, raw)| transcript.line(at as u64 + 1, raw).unknown).collect();
    assert_eq!(unknown, ["item_completed HologramView", "event_msg of_tomorrow"]);
}

#[test]
fn the_cost_that_claude_reports_for_the_session_is_the_cost_of_its_runs() {
    let runs = runs(&mut ClaudeTranscript::new(), CLAUDE_COSTS);
    assert_eq!(runs.len(), 2);
    assert_eq!(totals(&runs[0]), [json!(912), json!(40), json!(31_925), Value::Null]);
    assert_eq!(totals(&runs[1]), [json!(609), json!(3), json!(10_000), Value::Null]);
    for run in &runs {
        let source = last_source(run);
        assert!(source["shows"].as_array().unwrap().contains(&json!("cost")), "{source}");
        assert!(!source["does_not_show"].to_string().contains("cost"), "{source}");
    }
    // A transcript without a cost reports that it has none.
    let runs = self::runs(&mut ClaudeTranscript::new(), CLAUDE);
    assert!(last_source(&runs[0])["does_not_show"].as_array().unwrap().contains(&json!("cost")));
}
