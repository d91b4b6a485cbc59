//! Checks what one subscription received of one run, on the JSON alone: it shares no code with the validator of the
//! product. Start with [`findings`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// One event and when it arrived, in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) at_ms: u64,
    pub(crate) event: Value,
}

impl Arrival {
    fn text(&self, field: &str) -> &str {
        self.event[field].as_str().unwrap_or_default()
    }

    fn kind(&self) -> &str {
        self.text("type").trim_start_matches("aaep:agent.")
    }

    fn is_critical(&self) -> bool {
        let kinds =
            ["session.errored", "awaiting.confirmation", "awaiting.clarification", "handoff.requested"];
        kinds.contains(&self.kind())
    }

    fn is_prompt(&self) -> bool {
        self.kind().starts_with("awaiting.")
    }

    fn ends_prompt(&self) -> bool {
        self.kind() == "state.changed"
            && self.text("from_state") == AWAITING
            && self.text("to_state") != AWAITING
    }

    fn is_terminal(&self) -> bool {
        ["session.completed", "session.errored", "session.cancelled"].contains(&self.kind())
    }

    fn millis(&self) -> i64 {
        let text = self.text("timestamp");
        recount_event::time::parse_ms(text).and_then(|at| i64::try_from(at).ok()).unwrap_or(-1)
    }
}

/// What happened in the run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// All output.
    pub(crate) text: String,
    /// The calls, by their ids in the protocol.
    pub(crate) calls: usize,
    /// The decisions in order: when each was made, and a word that its sentence has.
    pub(crate) decisions: Vec<(u64, String)>,
    pub(crate) handoffs: usize,
    pub(crate) ending: &'static str,
}

/// What the subscription agreed on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed {
    pub(crate) rate: Option<u32>,
    pub(crate) replies: bool,
    /// Whether it reconnected. Then events that were received before a connection was lost may come again.
    pub(crate) reconnects: bool,
}

const AWAITING: &str = "awaiting_input";

/// Everything that is wrong.
pub(crate) fn findings(received: &[Arrival], facts: &Facts, agreed: Agreed) -> Vec<String> {
    let mut found = Vec::new();
    envelopes(received, &mut found);
    course(received, &mut found);
    prompts(received, facts, agreed, &mut found);
    calls(received, facts, &mut found);
    output(received, facts, &mut found);
    if let Some(rate) = agreed.rate {
        rate_holds(received, rate as usize, &mut found);
    }
    found
}

fn envelopes(received: &[Arrival], found: &mut Vec<String>) {
    let (mut ids, mut sessions, mut last_ms) = (BTreeSet::new(), BTreeSet::new(), 0);
    for arrival in received {
        let context = &arrival.event["@context"];
        let core = context.as_str().or(context[0].as_str());
        if core != Some("https://aaep-protocol.org/context/v1") {
            found.push(format!("the context is {context}"));
        }
        if !arrival.event["extensions"].is_null() && context.as_array().is_none_or(|list| list.len() < 2) {
            found.push(format!("an extension has no context: {}", arrival.event));
        }
        for field in ["producer", "timestamp", "event_id", "session_id"] {
            if arrival.event[field].is_null() {
                found.push(format!("{field} is missing: {}", arrival.event));
            }
        }
        let fits = |text: &str, prefix: &str| {
            text.strip_prefix(prefix).is_some_and(|rest| {
                (1..=64).contains(&rest.len()) && rest.chars().all(|c| c.is_ascii_alphanumeric())
            })
        };
        if !fits(arrival.text("event_id"), "evt_") || !fits(arrival.text("session_id"), "sess_") {
            found.push(format!("an id does not fit: {}", arrival.event));
        }
        if !ids.insert(arrival.text("event_id")) {
            found.push(format!("the id {} comes twice", arrival.text("event_id")));
        }
        sessions.insert(arrival.text("session_id"));
        if arrival.millis() < last_ms {
            found.push(format!("time goes back: {}", arrival.event));
        }
        last_ms = last_ms.max(arrival.millis());
        if arrival.is_critical() != (arrival.text("urgency") == "critical") {
            found.push(format!("the urgency is wrong: {}", arrival.event));
        }
        if arrival.kind() != "output.streaming" && arrival.text("summary_normal").trim().is_empty() {
            found.push(format!("no summary: {}", arrival.event));
        }
    }
    if sessions.len() != 1 {
        found.push(format!("sessions: {sessions:?}"));
    }
}

fn course(received: &[Arrival], found: &mut Vec<String>) {
    let kinds: Vec<&str> = received.iter().map(Arrival::kind).collect();
    if kinds.iter().filter(|kind| **kind == "session.started").count() != 1
        || kinds.first() != Some(&"session.started")
    {
        found.push(format!("the start: {kinds:?}"));
    }
    if received.iter().filter(|arrival| arrival.is_terminal()).count() != 1
        || !received.last().is_some_and(Arrival::is_terminal)
    {
        found.push(format!("the end: {kinds:?}"));
    }
    let mut state = "idle";
    for arrival in received {
        if arrival.kind() == "state.changed" {
            if arrival.text("from_state") != state {
                found.push(format!("after the state {state}: {}", arrival.event));
            }
            state = arrival.text("to_state");
        }
    }
    if state == AWAITING {
        found.push("the state is still awaiting_input at the end".to_owned());
    }
}

fn prompts(received: &[Arrival], facts: &Facts, agreed: Agreed, found: &mut Vec<String>) {
    let (mut state, mut tokens) = ("idle", BTreeSet::new());
    for arrival in received {
        if arrival.kind() == "state.changed" {
            state = arrival.text("to_state");
        }
        if arrival.is_prompt() {
            if state != AWAITING {
                found.push(format!("a prompt in the state {state}: {}", arrival.event));
            }
            if !agreed.replies {
                found.push(format!("a prompt for a listener that cannot reply: {}", arrival.event));
            }
            if !tokens.insert(arrival.text("reply_token")) {
                found.push(format!("a token twice: {}", arrival.event));
            }
        }
    }
    let count = |is_it: &dyn Fn(&Arrival) -> bool| received.iter().filter(|one| is_it(one)).count();
    let expected = if agreed.replies { facts.decisions.len() } else { 0 };
    let shown = count(&Arrival::is_prompt);
    if shown < expected || (shown > expected && !agreed.reconnects) {
        found.push(format!("{shown} prompts, expected {expected}"));
    }
    let handoffs = count(&|one| one.kind() == "handoff.requested");
    if handoffs != facts.handoffs {
        found.push(format!("{handoffs} handoffs, expected {}", facts.handoffs));
    }
    // Every decision is an event of its own, names who decided, and comes while it matters.
    let ends: Vec<&Arrival> = received.iter().filter(|arrival| arrival.ends_prompt()).collect();
    if ends.len() != facts.decisions.len() {
        let sentences: Vec<&str> = ends.iter().map(|end| end.text("summary_normal")).collect();
        found.push(format!("{} decisions, received {sentences:?}", facts.decisions.len()));
    }
    for (end, (decided_ms, word)) in ends.iter().zip(&facts.decisions) {
        if !end.text("summary_normal").contains(word) {
            found.push(format!("{word} decided: {}", end.event));
        }
        let late_ms = end.at_ms.saturating_sub(*decided_ms);
        if agreed.replies && late_ms > 1_000 {
            found.push(format!("a decision is received {late_ms} ms after it: {}", end.event));
        }
    }
}

fn calls(received: &[Arrival], facts: &Facts, found: &mut Vec<String>) {
    let (mut open, mut invoked) = (BTreeMap::new(), 0);
    let mut prompted: BTreeMap<String, bool> = BTreeMap::new();
    let mut open_calls = Vec::new();
    for arrival in received {
        match arrival.kind() {
            "awaiting.confirmation" => {
                let call = arrival.event["extra_context"]["tool_call_id"].as_str().unwrap_or_default();
                open_calls.push(call.to_owned());
            }
            // Of several open prompts, either may be the one that was accepted.
            "state.changed" if arrival.ends_prompt() => {
                for call in &open_calls {
                    *prompted.entry(call.clone()).or_default() |= arrival.text("to_state") == "calling_tool";
                }
            }
            "tool.invoked" => {
                invoked += 1;
                let call = arrival.text("tool_call_id").to_owned();
                let grave = arrival.event["irreversible"] == true || arrival.text("risk_level") == "high";
                if grave && prompted.get(&call) == Some(&false) {
                    found.push(format!("a grave call that was not accepted: {}", arrival.event));
                }
                if open.insert(call, arrival.text("tool").to_owned()).is_some() {
                    found.push(format!("invoked twice: {}", arrival.event));
                }
            }
            "tool.completed" => {
                let tool = open.remove(arrival.text("tool_call_id"));
                if tool.as_deref() != Some(arrival.text("tool")) {
                    found.push(format!("completed and not invoked: {}", arrival.event));
                }
            }
            _ => {}
        }
    }
    if !open.is_empty() || invoked != facts.calls {
        found.push(format!("{invoked} calls, expected {}; without an end: {open:?}", facts.calls));
    }
    let ending = received.last().map(Arrival::kind);
    if ending != Some(facts.ending) {
        found.push(format!("the ending is {ending:?}, expected {}", facts.ending));
    }
}

fn output(received: &[Arrival], facts: &Facts, found: &mut Vec<String>) {
    let (mut text, mut is_complete) = (String::new(), false);
    for arrival in received.iter().filter(|arrival| arrival.kind() == "output.streaming") {
        if is_complete {
            found.push(format!("output after its end: {}", arrival.event));
        }
        if arrival.event["position"].as_u64() != Some(text.chars().count() as u64) {
            found.push(format!("the position is not {}: {}", text.chars().count(), arrival.event));
        }
        text.push_str(arrival.text("chunk"));
        is_complete = arrival.event["complete"] == true;
    }
    if text != facts.text || (!text.is_empty() && !is_complete) {
        found.push(format!("the output is {text:?}, complete: {is_complete}, expected {:?}", facts.text));
    }
}

/// No second has more events than agreed. Critical events do not count, nor what is sent together with one of them or
/// with the end of a prompt.
fn rate_holds(received: &[Arrival], rate: usize, found: &mut Vec<String>) {
    let passes: BTreeSet<u64> = received
        .iter()
        .filter(|arrival| arrival.is_critical() || arrival.ends_prompt())
        .map(|arrival| arrival.at_ms)
        .collect();
    let times: Vec<u64> = received
        .iter()
        .map(|arrival| arrival.at_ms)
        .filter(|at| !(at.saturating_sub(2)..=at + 2).any(|near| passes.contains(&near)))
        .collect();
    for (at, from) in times.iter().enumerate() {
        let count = times[at..].iter().take_while(|time| **time < from + 990).count();
        if count > rate {
            found.push(format!("{count} events in the second from {from}, {rate} are agreed"));
        }
    }
}

#[test]
fn it_finds_what_is_wrong() {
    let arrival = |at_ms: u64, kind: &str, more: &str| {
        let text = format!(
            r#"{{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.{kind}","event_id":"evt_{at_ms}",
            "session_id":"sess_1","timestamp":"2026-05-24T14:22:{:02}.000Z","producer":{{"agent_id":"a"}},
            "summary_normal":"ana decided"{more}}}"#,
            at_ms / 1_000
        );
        Arrival { at_ms, event: serde_json::from_str(&text).unwrap() }
    };
    let state = |at_ms, from: &str, to: &str| {
        arrival(at_ms, "state.changed", &format!(r#","from_state":"{from}","to_state":"{to}""#))
    };
    let prompt = r#","urgency":"critical","reply_token":"rpl_1","extra_context":{"tool_call_id":"call_1"}"#;
    let good = vec![
        arrival(0, "session.started", ""),
        state(1_000, "idle", AWAITING),
        arrival(1_001, "awaiting.confirmation", prompt),
        state(1_300, AWAITING, "calling_tool"),
        arrival(3_000, "tool.invoked", r#","tool":"t","tool_call_id":"call_1","irreversible":true"#),
        arrival(4_000, "tool.completed", r#","tool":"t","tool_call_id":"call_1""#),
        arrival(5_000, "output.streaming", r#","chunk":"Hi.","position":0,"complete":true"#),
        arrival(6_000, "session.completed", ""),
    ];
    let facts = Facts {
        text: "Hi.".into(),
        calls: 1,
        decisions: vec![(1_300, "ana".into())],
        handoffs: 0,
        ending: "session.completed",
    };
    let agreed = Agreed { rate: Some(1), replies: true, reconnects: false };
    assert_eq!(findings(&good, &facts, agreed), [] as [&str; 0]);
    for left_out in 0..good.len() {
        let mut some = good.clone();
        some.remove(left_out);
        assert!(!findings(&some, &facts, agreed).is_empty(), "without {}", good[left_out].event);
    }
    // The prompt precedes the state, or the decision is merged into a later state.
    let mut swapped = good.clone();
    swapped.swap(1, 2);
    let mut merged = good.clone();
    merged.splice(1..4, [good[2].clone(), state(1_300, "idle", "calling_tool")]);
    let mut late = good.clone();
    late[3].at_ms = 2_900;
    let mut fast = good.clone();
    fast[5].at_ms = 3_200;
    for wrong in [swapped, merged, late, fast] {
        assert!(!findings(&wrong, &facts, agreed).is_empty(), "{wrong:?}");
    }
}
