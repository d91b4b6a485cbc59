//! Tests one kind of fault per row: a stream with the fault, the expected rule with its severity in both profiles, and a
//! clean twin that must stay without a finding. Start at [`rows`].

use recount_aaep::kind::EXTENSION_CONTEXT;
use recount_aaep::rule::{Profile, Severity};
use recount_aaep::session::{Checker, Options};
use serde_json::{Value, json};

/// One kind of fault.
struct Row {
    kind: &'static str,
    rule: &'static str,
    /// Severities with the profiles `strict` and `compat`; `None` if the rule is off.
    severities: (Severity, Option<Severity>),
    faulty: Vec<Value>,
    clean: Vec<Value>,
}

/// Events of one session between its start and its end.
struct Session(Vec<Value>);

impl Session {
    fn new() -> Self {
        Session(Vec::new()).event("session.started", &json!({"summary_normal": "Starting."}))
    }

    fn event(mut self, kind: &str, fields: &Value) -> Self {
        let number = self.0.len() + 1;
        let mut event = json!({
            "@context": "https://aaep-protocol.org/context/v1",
            "type": format!("aaep:agent.{kind}"),
            "event_id": format!("evt_{number}"),
            "session_id": "sess_1",
            "timestamp": format!("2026-05-24T14:22:{number:02}.000Z"),
            "producer": {"agent_id": "planner"},
            "localization_hints": {"primary_language": "en"},
        });
        if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
            event.extend(fields.clone());
        }
        self.0.push(event);
        self
    }

    fn state(self, from: &str, to: &str) -> Self {
        let summary = format!("Now {to}.");
        self.event("state.changed", &json!({"from_state": from, "to_state": to, "summary_normal": summary}))
    }

    fn call(self, completed: &Value) -> Self {
        let call = json!({"tool": "fetch", "tool_call_id": "call_1"});
        let merged = |more: &Value| {
            let mut fields = call.clone();
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            fields
        };
        self.event("tool.invoked", &merged(&json!({"summary_normal": "Fetching."})))
            .event("tool.completed", &merged(completed))
    }

    /// One output with these chunks, without a wrong position.
    fn output(mut self, id: Option<&str>, chunks: &[&str]) -> Self {
        let mut position = 0;
        for (at, chunk) in chunks.iter().enumerate() {
            let mut fields = json!({
                "chunk": chunk, "position": position, "complete": at + 1 == chunks.len(), "coalesce_hint": "none",
            });
            if let Some(id) = id {
                fields["output_id"] = id.into();
            }
            position += chunk.chars().count();
            self = self.event("output.streaming", &fields);
        }
        self
    }

    fn question(self, fields: &Value) -> Self {
        let mut question = json!({
            "question": "Which age?", "summary_normal": "Which age?", "reply_token": "rpl_1", "timeout_seconds": 300,
            "urgency": "critical",
        });
        question.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.state("idle", "awaiting_input")
            .event("awaiting.clarification", &question)
            .state("awaiting_input", "thinking")
    }

    fn end(self) -> Vec<Value> {
        self.event("session.completed", &json!({"summary_normal": "Done."})).0
    }
}

/// A message of a listener.
fn accept() -> Value {
    json!({
        "type": "confirmation.reply", "reply_token": "rpl_1", "decision": "accept", "subscription_id": "sub_1",
        "timestamp": "2026-05-24T14:22:03.500Z",
    })
}

/// A session whose first change of state has these fields.
fn with_state(fields: &Value) -> Vec<Value> {
    let mut change = json!({"from_state": "idle", "to_state": "thinking", "summary_normal": "Now thinking."});
    change.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    Session::new().event("state.changed", &change).end()
}

fn with_progress(progress: &Value) -> Vec<Value> {
    let fields = json!({"progress": progress, "summary_normal": "Working."});
    Session::new().event("progress.updated", &fields).end()
}

fn with_output(fields: &Value) -> Vec<Value> {
    let mut chunk = json!({"chunk": "Ready.", "position": 0, "complete": true, "output_id": "out_1"});
    chunk.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    Session::new().state("idle", "writing_output").event("output.streaming", &chunk).end()
}

fn with_chunks(chunks: &[&str]) -> Vec<Value> {
    Session::new().state("idle", "writing_output").output(Some("out_1"), chunks).end()
}

fn confirmed(timeout: &Value, calls: bool) -> Vec<Value> {
    let prompt = json!({
        "action": "Fetch the balance.", "consequence": "The bank is called.", "summary_normal": "Fetch the balance?",
        "reply_token": "rpl_1", "timeout_seconds": timeout, "default_decision": "reject", "risk_level": "low",
        "urgency": "critical", "extra_context": {"tool": "fetch"},
    });
    let prompted = Session::new().state("idle", "awaiting_input").event("awaiting.confirmation", &prompt);
    let to = if calls { "calling_tool" } else { "thinking" };
    let mut session = prompted.state("awaiting_input", to);
    if calls {
        session = session.call(&json!({"status": "success", "summary_normal": "Fetched."}));
    }
    let mut lines = session.end();
    lines.insert(3, accept());
    lines
}

fn handed_off(resumed: bool) -> Vec<Value> {
    let handoff = json!({
        "reason": "A person is needed.", "target_kind": "human", "summary_normal": "Handing over.", "urgency": "critical",
    });
    let session = Session::new().state("idle", "handing_off").event("handoff.requested", &handoff);
    let session = match resumed {
        true => session.state("handing_off", "thinking").state("thinking", "calling_tool"),
        false => session.state("handing_off", "calling_tool"),
    };
    session.call(&json!({"status": "success", "summary_normal": "Fetched."})).end()
}

const WARNING: Severity = Severity::Warning;

fn row(kind: &'static str, rule: &'static str, faulty: Vec<Value>, clean: Vec<Value>) -> Row {
    Row { kind, rule, severities: (WARNING, None), faulty, clean }
}

fn graded(
    kind: &'static str,
    rule: &'static str,
    severities: (Severity, Severity),
    faulty: Vec<Value>,
    clean: Vec<Value>,
) -> Row {
    Row { kind, rule, severities: (severities.0, Some(severities.1)), faulty, clean }
}

const ERROR_THEN_WARNING: (Severity, Severity) = (Severity::Error, Severity::Warning);

/// Every kind of fault.
fn rows() -> Vec<Row> {
    [envelope_rows(), session_rows(), graded_rows()].into_iter().flatten().collect()
}

fn envelope_rows() -> Vec<Row> {
    let timed = |at: &str| {
        let mut lines = with_state(&json!({"timestamp": at}));
        lines[2]["timestamp"] = "2026-05-24T14:23:00.000Z".into();
        lines
    };
    let core = "https://aaep-protocol.org/context/v1";
    let other = "https://example.org/medai";
    let more = "https://example.org/braille";
    let hints = |direction: Option<&str>| match direction {
        None => json!({"primary_language": "ar"}),
        Some(direction) => json!({"primary_language": "ar", "text_direction": direction}),
    };
    let arabic = |direction| {
        with_state(&json!({"summary_normal": "جارٍ التفكير.", "localization_hints": hints(direction)}))
    };
    vec![
        row(
            "a leap second",
            "envelope.timestamp_leap",
            timed("2026-05-24T14:22:60.000Z"),
            timed("2026-05-24T14:22:59.000Z"),
        ),
        row(
            "an unknown time zone",
            "envelope.timestamp_offset",
            timed("2026-05-24T14:22:02.000-00:00"),
            timed("2026-05-24T14:22:02.000+00:00"),
        ),
        row(
            "a context given twice",
            "envelope.context_repeated",
            with_state(&json!({"@context": [core, other, other]})),
            with_state(&json!({"@context": [core, other, more]})),
        ),
        row("Arabic with the default direction", "text.direction", arabic(None), arabic(Some("rtl"))),
        row("Arabic declared as ltr", "text.direction", arabic(Some("ltr")), arabic(Some("auto"))),
        row("float seconds", "number.seconds", confirmed(&json!(300.0), true), confirmed(&json!(300), true)),
    ]
}

fn session_rows() -> Vec<Row> {
    let failed = |fields: Value| {
        let mut all = json!({"status": "error", "summary_normal": "Fetching failed."});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Session::new().state("idle", "calling_tool").call(&all).end()
    };
    let outputs = |first, second| {
        Session::new()
            .state("idle", "writing_output")
            .output(first, &["One."])
            .output(second, &["Two."])
            .end()
    };
    vec![
        row(
            "a step beyond its total",
            "progress.step",
            with_progress(&json!({"step": 6, "total_steps": 5})),
            with_progress(&json!({"step": 5, "total_steps": 5})),
        ),
        row(
            "a total without a step",
            "progress.step",
            with_progress(&json!({"percent": 50, "total_steps": 5})),
            with_progress(&json!({"percent": 50, "step": 3})),
        ),
        row(
            "a change to the same state",
            "state.unchanged",
            Session::new().state("idle", "thinking").state("thinking", "thinking").end(),
            Session::new().state("idle", "thinking").state("thinking", "deciding").end(),
        ),
        row(
            "a change to the same state at the start",
            "state.unchanged",
            with_state(&json!({"to_state": "idle"})),
            with_state(&json!({})),
        ),
        row(
            "an error without a message",
            "tool.error_unexplained",
            failed(json!({})),
            failed(json!({"error_message": "The bank did not answer."})),
        ),
        row(
            "a summary of blanks",
            "text.blank",
            with_state(&json!({"summary_normal": " \t "})),
            with_state(&json!({"summary_normal": " a "})),
        ),
        row(
            "a summary of zero-width spaces",
            "text.blank",
            with_state(&json!({"summary_normal": "\u{200b}\u{200b}"})),
            with_state(&json!({"summary_normal": "so\u{200b}on"})),
        ),
        row(
            "a chunk that ends with a joiner",
            "output.character_cut",
            with_chunks(&["Hello 👩\u{200d}", "💻!"]),
            with_chunks(&["Hello 👩\u{200d}💻", "!"]),
        ),
        row(
            "a chunk border inside a flag",
            "output.character_cut",
            with_chunks(&["From 🇳🇬🇳", "🇬."]),
            with_chunks(&["From 🇳🇬", "🇳🇬."]),
        ),
        row(
            "a chunk border before a skin tone",
            "output.combining_start",
            with_chunks(&["Good 👍", "\u{1f3fd}."]),
            with_chunks(&["Good 👍\u{1f3fd}", "."]),
        ),
        row(
            "outputs with and without an id",
            "stream.id_mixed",
            outputs(Some("out_1"), None),
            outputs(Some("out_1"), Some("out_2")),
        ),
        row("a tool after a handoff", "handoff.work", handed_off(false), handed_off(true)),
    ]
}

fn graded_rows() -> Vec<Row> {
    let choices = json!([{"value": "60", "label": "Age 60"}, {"value": "65", "label": "Age 65"}]);
    let with_question = |fields: Value| Session::new().question(&fields).end();
    vec![
        graded(
            "missing choices",
            "question.choices",
            ERROR_THEN_WARNING,
            with_question(json!({"accepted_response_kinds": ["multiple_choice"]})),
            with_question(json!({"accepted_response_kinds": ["multiple_choice"], "choices": choices})),
        ),
        graded(
            "a choice that is repeated",
            "question.choice_repeated",
            ERROR_THEN_WARNING,
            with_question(json!({"choices": [choices[0], choices[0]]})),
            with_question(json!({"choices": choices})),
        ),
        graded(
            "a default that is no choice",
            "question.default_response",
            ERROR_THEN_WARNING,
            with_question(json!({
                "accepted_response_kinds": ["multiple_choice"], "choices": choices, "default_response": "70",
            })),
            with_question(json!({
                "accepted_response_kinds": ["multiple_choice"], "choices": choices, "default_response": "65",
            })),
        ),
        graded(
            "a default that is no choice, without kinds",
            "question.default_response",
            ERROR_THEN_WARNING,
            with_question(json!({"choices": choices, "default_response": "70"})),
            with_question(json!({"choices": choices, "default_response": "65"})),
        ),
        graded(
            "an empty default of a free text",
            "question.default_response",
            ERROR_THEN_WARNING,
            with_question(json!({"accepted_response_kinds": ["freetext"], "default_response": ""})),
            with_question(json!({"accepted_response_kinds": ["freetext"], "default_response": "none"})),
        ),
        graded(
            "an unpublished version",
            "envelope.version",
            (WARNING, WARNING),
            with_state(&json!({"aaep_version": "99.0.0"})),
            with_state(&json!({"aaep_version": "1.0.0"})),
        ),
        graded(
            "parameters of a media type",
            "payload.media_type",
            ERROR_THEN_WARNING,
            with_output(&json!({"content_type": "text/plain; charset=utf-8"})),
            with_output(&json!({"content_type": "text/plain"})),
        ),
        graded(
            "an acceptance without a call",
            "prompt.not_done",
            (WARNING, WARNING),
            confirmed(&json!(300), false),
            confirmed(&json!(300), true),
        ),
    ]
}

/// The rules of warnings and errors in a stream, each with its severity, once.
fn found(lines: &[Value], profile: Profile) -> Vec<(&'static str, Severity)> {
    let mut checker = Checker::new(Options { profile, ..Options::default() });
    for (at, line) in lines.iter().enumerate() {
        checker.text(at + 1, &line.to_string());
    }
    checker.finish();
    let mut found: Vec<_> = checker
        .take()
        .into_iter()
        .filter(|finding| finding.severity >= Severity::Warning)
        .map(|finding| (finding.rule.id, finding.severity))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn each_kind_of_fault_gets_its_verdict_and_its_clean_twin_none() {
    let mut wrong = Vec::new();
    for Row { kind, rule, severities: (strict, compat), faulty, clean } in rows() {
        for (profile, severity) in [(Profile::Strict, Some(strict)), (Profile::Compat, compat)] {
            let expected = Vec::from_iter(severity.map(|severity| (rule, severity)));
            let faults = found(&faulty, profile);
            if faults != expected {
                wrong.push(format!("{kind}, {profile:?}: {faults:?} instead of {expected:?}"));
            }
            let twin = found(&clean, profile);
            if !twin.is_empty() {
                wrong.push(format!("{kind}, {profile:?}, clean twin: {twin:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The extension of this project is known by its context; under another context, its prefix may mean anything.
#[test]
fn names_of_our_own_extension_are_known() {
    let named = |context: &str| {
        let fields = json!({
            "@context": ["https://aaep-protocol.org/context/v1", context],
            "from_state": "idle", "to_state": "thinking", "summary_normal": "Now thinking.",
            "extensions": {"recount": {"parent_session_id": "sess_2", "permission": "not_requested"}},
        });
        let mut checker = Checker::new(Options::default());
        for (at, line) in Session::new().event("state.changed", &fields).end().iter().enumerate() {
            checker.text(at + 1, &line.to_string());
        }
        checker.take().into_iter().map(|finding| finding.rule.id).collect::<Vec<_>>()
    };
    assert_eq!(named(EXTENSION_CONTEXT), [""; 0]);
    assert_eq!(named("https://example.org/other"), ["extension.unresolved"]);
}

/// A state that is repeated with a new summary informs the listener, and so does a merged change.
#[test]
fn a_repeated_state_with_news_is_no_fault() {
    let news =
        json!({"from_state": "thinking", "to_state": "thinking", "summary_normal": "The test run failed."});
    let informed = Session::new().state("idle", "thinking").event("state.changed", &news).end();
    assert_eq!(found(&informed, Profile::Strict), []);
    let merged = json!({
        "@context": ["https://aaep-protocol.org/context/v1", "urn:recount:aaep:v1:coalesced"],
        "from_state": "thinking", "to_state": "thinking", "summary_normal": "Now thinking.",
        "extensions": {"recount": {"coalesced_from": ["evt_8", "evt_9"], "coalesced_count": 2}},
    });
    let merged = Session::new().state("idle", "thinking").event("state.changed", &merged).end();
    assert_eq!(found(&merged, Profile::Strict), []);
}
