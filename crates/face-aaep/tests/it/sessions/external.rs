//! Property tests of external runs, which may continue while a prompt is open, open several prompts, receive answers in
//! any order, and end with open prompts. Random numbers propose events, the rules of runs refuse illegal ones, and the
//! result is checked in the strict profile of the protocol.
//!
//! One legal log is excluded, because no session can show it validly: an answer after the deadline of its prompt.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use recount_aaep::Body;
use recount_event::family::approval::Decision;
use recount_event::{Event, ForeignId, Json, Payload, RunId, Stamp};
use recount_face_aaep::project::{JoinReason, Projector};
use recount_face_aaep::speech::Speech;
use recount_run::{CancelledBy, Command, PromptKind, PromptName, State, apply, audit, decide};
use recount_tier::times;
use serde_json::Value;

use super::holds::{holds, token};

const RUN: &str = "run_01HZX3Q0M0000000000000000A";
const T0_MS: u64 = 1_777_803_825_000;
const PIECES: [&str; 6] = ["a ", "Ünï", "line\nbreak ", "🏳️‍🌈", "\u{301}", "say \"so\" "];

struct Producer<'a> {
    numbers: std::slice::Iter<'a, u16>,
    state: State,
    events: Vec<Event>,
    now_ms: u64,
    named: u64,
    /// Text of the open blocks of the turn.
    texts: BTreeMap<u64, String>,
    next_block: u64,
    /// Calls that may be made, with their approvals.
    calls: BTreeMap<String, &'static str>,
}

fn payload(type_name: &str, data: &str) -> Payload {
    Payload::read(type_name, data).unwrap_or_else(|why| panic!("{type_name} {data}: {why}"))
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

impl Producer<'_> {
    fn below(&mut self, sides: usize) -> usize {
        self.numbers.next().map_or(0, |number| usize::from(*number) % sides)
    }

    fn name(&mut self, prefix: &str) -> String {
        self.named += 1;
        format!("{prefix}:{}", self.named)
    }

    /// Whether the rules allow it.
    fn does(&mut self, command: Command) -> bool {
        let stamp = Stamp { now_ms: self.now_ms, entropy: u128::from(self.named) };
        let Ok(events) = decide(&self.state, command, stamp) else { return false };
        events.iter().for_each(|event| apply(&mut self.state, event));
        self.events.extend(events);
        true
    }

    fn reports(&mut self, type_name: &str, data: &str) -> bool {
        let drafts = vec![payload(type_name, data).into()];
        self.does(Command::Append { drafts })
    }

    fn an_open_call(&mut self, with: impl Fn(&recount_run::Call) -> bool) -> Option<(ForeignId, String)> {
        let open: Vec<_> = self
            .state
            .open_calls()
            .filter(|(_, call)| with(call))
            .map(|(id, call)| (id.clone(), call.tool_name.as_deref().unwrap_or("tool").to_owned()))
            .collect();
        let at = self.below(open.len().max(1));
        open.into_iter().nth(at)
    }

    fn an_open_prompt(&mut self, of: PromptKind) -> Option<ForeignId> {
        let open: Vec<PromptName> =
            self.state.open_prompts().map(|(name, _)| name.clone()).filter(|name| name.kind == of).collect();
        let at = self.below(open.len().max(1));
        open.into_iter().nth(at).map(|name| name.id)
    }

    fn step(&mut self) {
        self.now_ms += [0, 1, 300, 4_000, 20_000][self.below(5)];
        // The server settles what is due before anything else.
        self.does(Command::Tick);
        match self.below(21) {
            0 => self.turns(),
            1..4 => self.writes(),
            4 => self.completes_text(),
            5 => self.proposes(),
            6..8 => self.asks_leave(),
            8 => self.asks(),
            9 => self.hands_over(),
            10..12 => self.calls(),
            12..14 => self.settles(),
            14..17 => self.is_answered(),
            17 => self.reports_progress(),
            18 => self.is_refused(),
            19 => self.gets_more_time(),
            _ => self.handoff_is_answered(),
        }
    }

    fn turns(&mut self) {
        match self.state.open_turn() {
            None => {
                let index = self.state.retry_turn().unwrap_or_else(|| self.state.next_turn_index());
                self.reports("turn.started", &format!(r#"{{"turn_index":{index}}}"#));
                self.texts.clear();
            }
            Some(index) if self.below(4) == 0 => {
                let data = format!(
                    r#"{{"turn_index":{index},"code":"overloaded","message":"m","will_retry":true}}"#
                );
                self.reports("turn.failed", &data);
            }
            Some(index) => {
                self.reports(
                    "turn.completed",
                    &format!(r#"{{"turn_index":{index},"stop_reason":"tool_use"}}"#),
                );
            }
        }
    }

    /// Several blocks may be open at once.
    fn writes(&mut self) {
        let Some(index) = self.state.open_turn() else { return };
        let open: Vec<u64> = self.texts.keys().copied().collect();
        let at = self.below(open.len() + 1);
        let block = open.get(at).copied().unwrap_or(self.next_block);
        let piece = PIECES[self.below(PIECES.len())];
        let data = format!(r#"{{"turn_index":{index},"block_index":{block},"delta":{}}}"#, quoted(piece));
        if self.reports("assistant.text_delta", &data) {
            self.next_block = self.next_block.max(block + 1);
            self.texts.entry(block).or_default().push_str(piece);
        }
    }

    fn completes_text(&mut self) {
        let (Some(index), Some((block, text))) = (self.state.open_turn(), self.texts.pop_first()) else {
            return;
        };
        let data = format!(r#"{{"turn_index":{index},"block_index":{block},"text":{}}}"#, quoted(&text));
        self.reports("assistant.text_complete", &data);
    }

    fn proposes(&mut self) {
        let Some(index) = self.state.open_turn() else { return };
        let (id, tool) = (self.name("c"), ["read", "ask_user", "hand_off"][self.below(3)]);
        let data =
            format!(r#"{{"turn_index":{index},"tool_call_id":"{id}","tool_name":"{tool}","input":{{}}}}"#);
        self.reports("assistant.tool_call_proposed", &data);
    }

    /// The approved call and the executed call are the same.
    fn asks_leave(&mut self) {
        let stakes = [
            "",
            r#","risk_level":"low""#,
            r#","risk_level":"high""#,
            r#","irreversible":true"#,
            r#","risk_level":"medium","irreversible":false"#,
        ][self.below(5)];
        let known =
            if self.below(2) == 0 { self.an_open_call(|call| call.granted().is_none()) } else { None };
        let id = known.map_or_else(|| self.name("c"), |(id, _)| id.to_string());
        let timeout = ["", r#","timeout_seconds":5"#, r#","timeout_seconds":300"#][self.below(3)];
        let default = ["", r#","default_decision":"approve""#][self.below(2)];
        let approval = self.name("gate");
        let data = format!(
            r#"{{"approval_id":"{approval}","tool_call_id":"{id}","kind":"read","summary":"may I do {approval}"{stakes}{timeout}{default}}}"#
        );
        if self.reports("approval.requested", &data) {
            self.calls.insert(id, stakes);
        }
    }

    fn asks(&mut self) {
        let call = if self.below(2) == 0 { self.an_open_call(|_| true) } else { None };
        let call = call.map_or_else(String::new, |(id, _)| format!(r#","tool_call_id":"{id}""#));
        let more = [
            "",
            r#","choices":["x","y"],"default_response":"x","timeout_seconds":5"#,
            r#","choices":[{"id":"1","label":"One"},7],"timeout_seconds":30"#,
        ][self.below(3)];
        let question = self.name("q");
        let data = format!(r#"{{"clarification_id":"{question}","question":"Which?"{call}{more}}}"#);
        self.reports("clarification.requested", &data);
    }

    fn hands_over(&mut self) {
        let handoff = self.name("h");
        let data = format!(r#"{{"handoff_id":"{handoff}","reason":"I am stuck","target_kind":"human"}}"#);
        self.reports("handoff.requested", &data);
    }

    fn calls(&mut self) {
        let known = if self.below(4) > 0 { self.an_open_call(|_| true) } else { None };
        let (id, tool) = match known {
            Some((id, tool)) => (id.to_string(), tool),
            None => (self.name("c"), "read".to_owned()),
        };
        // A call without an approval may be grave: nothing makes a foreign agent ask.
        let unasked = ["", r#","irreversible":true"#, r#","risk_level":"high","args_summary":"all""#];
        let unasked = unasked[self.below(unasked.len())];
        let stakes = self.calls.get(&id).copied().unwrap_or(unasked);
        self.reports("tool.invoked", &format!(r#"{{"tool_call_id":"{id}","tool_name":"{tool}"{stakes}}}"#));
    }

    fn settles(&mut self) {
        let how = ["completed", "completed", "failed", "cancelled", "timed_out"][self.below(5)];
        let Some((id, tool)) = self.an_open_call(|call| call.is_with_server()) else { return };
        self.reports(&format!("tool.{how}"), &format!(r#"{{"tool_call_id":"{id}","tool_name":"{tool}"}}"#));
    }

    fn is_refused(&mut self) {
        let Some((id, tool)) = self.an_open_call(|_| true) else { return };
        let data =
            format!(r#"{{"tool_call_id":"{id}","tool_name":"{tool}","code":"denied","message":"no"}}"#);
        self.reports("tool.refused", &data);
    }

    fn reports_progress(&mut self) {
        let data = r#"{"tool_call_id":"c","todos":[{"content":"One","status":"pending"}]}"#;
        self.reports("tool.todo_write.updated", data);
        let Some((id, _)) = self.an_open_call(|call| call.is_with_server()) else { return };
        let command = format!(r#"{{"tool_call_id":"{id}","argv":["make"],"cwd":"/w","env_keys":[]}}"#);
        if self.reports("tool.shell.command", &command) {
            self.now_ms += 15_000;
            let chunk =
                format!(r#"{{"tool_call_id":"{id}","stream":"stdout","data":"so far","byte_offset":0}}"#);
            self.reports("tool.shell.output_chunk", &chunk);
        }
    }

    fn is_answered(&mut self) {
        if self.below(2) == 0 {
            let Some(approval_id) = self.an_open_prompt(PromptKind::Approval) else { return };
            if self.below(4) == 0 {
                let word = ["approved", "rejected"][self.below(2)];
                self.is_decided_elsewhere(&approval_id, word);
                return;
            }
            let approve = self.below(3) > 0;
            let by = "ann".to_owned();
            self.does(Command::ResolveApproval { approval_id, approve, by, comment: None, remember: None });
        } else {
            let Some(clarification_id) = self.an_open_prompt(PromptKind::Clarification) else { return };
            self.does(Command::AnswerClarification {
                clarification_id,
                response: Json::parse(r#""this""#).unwrap(),
                blocks: None,
                by: "ann".into(),
                config: None,
            });
        }
    }

    fn is_decided_elsewhere(&mut self, approval: &ForeignId, word: &str) -> bool {
        let data = format!(
            r#"{{"approval_id":"{approval}","decision":"cancelled","by":"ann","decided_elsewhere":"{word}"}}"#
        );
        self.reports("approval.resolved", &data)
    }

    fn gets_more_time(&mut self) {
        let kind = [PromptKind::Approval, PromptKind::Clarification, PromptKind::Handoff][self.below(3)];
        let Some(id) = self.an_open_prompt(kind) else { return };
        let seconds = [1, 60, 3_600][self.below(3)];
        self.does(Command::ExtendPrompt { kind, id, seconds, by: "ann".into() });
    }

    fn handoff_is_answered(&mut self) {
        let Some(handoff_id) = self.an_open_prompt(PromptKind::Handoff) else { return };
        let by = "dana".to_owned();
        if self.below(2) == 0 {
            self.does(Command::AcknowledgeHandoff { handoff_id, by, comment: None });
        } else {
            self.does(Command::RejectHandoff { handoff_id, by, reason: None });
        }
    }

    /// Closes what a producer must close, but no prompts, and ends the run; or the run is cancelled as it is.
    fn ends(&mut self) {
        let how = self.below(4);
        if how > 0 {
            while !self.texts.is_empty() {
                self.completes_text();
            }
            while let Some((id, tool)) = self.an_open_call(|_| true) {
                let id = format!(r#""tool_call_id":"{id}","tool_name":"{tool}""#);
                let settled = self.reports("tool.completed", &format!("{{{id}}}"));
                let no = format!(r#"{{{id},"code":"cancelled","message":"over"}}"#);
                if !settled && !self.reports("tool.refused", &no) {
                    break;
                }
            }
            if let Some(index) = self.state.open_turn() {
                let data = format!(r#"{{"turn_index":{index},"stop_reason":"end_turn"}}"#);
                self.reports("turn.completed", &data);
            }
            let (ending, data) = [
                ("run.finished", r#"{"final_status":"completed"}"#),
                ("run.failed", r#"{"code":"model_error","message":"m","retriable":true}"#),
                ("run.cancelled", r#"{"by":"operator","reason":"enough"}"#),
            ][how - 1];
            self.reports(ending, data);
        }
        if !self.state.is_ended() {
            let reason = "enough".to_owned();
            assert!(self.does(Command::Cancel { by: CancelledBy::Operator, reason }));
        }
    }
}

/// A run that has started.
fn started(numbers: &[u16]) -> Producer<'_> {
    created(numbers, r#"{"kind":"external","driver":"external","title":"Deploy.","agent":{"name":"acme"}}"#)
}

fn created<'a>(numbers: &'a [u16], queued: &str) -> Producer<'a> {
    let run_id: RunId = RUN.parse().unwrap();
    let mut producer = Producer {
        numbers: numbers.iter(),
        state: State::blank(run_id, None, None),
        events: Vec::new(),
        now_ms: T0_MS,
        named: 0,
        texts: BTreeMap::new(),
        next_block: 0,
        calls: BTreeMap::new(),
    };
    let Payload::RunQueued(queued) = payload("run.queued", queued) else { unreachable!() };
    assert!(producer.does(Command::Queue { queued, resumed_from: None }));
    assert!(producer.reports("run.started", r#"{"worker_id":"ci"}"#));
    producer
}

/// The events of a whole run.
fn live(numbers: &[u16]) -> Vec<Event> {
    let mut producer = started(numbers);
    while producer.numbers.len() > 0 && !producer.state.is_ended() {
        producer.step();
    }
    producer.ends();
    if let Some(illegal) = audit(&producer.events) {
        panic!("{illegal}");
    }
    producer.events
}

/// What external runs do that our own never do, and how often it came about.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Seen {
    text_beside_prompts: u32,
    calls_beside_prompts: u32,
    several_prompts: u32,
    settled_out_of_order: u32,
    ended_with_prompts: u32,
}

/// Looks at the log, not at what was projected.
fn look(events: &[Event], seen: &mut Seen) {
    let mut open: Vec<ForeignId> = Vec::new();
    for event in events {
        let settled = match event.payload() {
            Payload::ApprovalRequested(request) => {
                open.push(request.approval_id.clone());
                seen.several_prompts += u32::from(open.len() > 1);
                None
            }
            Payload::ClarificationRequested(request) => {
                open.push(request.clarification_id.clone());
                seen.several_prompts += u32::from(open.len() > 1);
                None
            }
            Payload::AssistantTextDelta(_) => {
                seen.text_beside_prompts += u32::from(!open.is_empty());
                None
            }
            Payload::ToolInvoked(_) => {
                seen.calls_beside_prompts += u32::from(!open.is_empty());
                None
            }
            Payload::ApprovalResolved(resolved) => {
                let ended = resolved.decision == Decision::Cancelled && resolved.decided_elsewhere.is_none();
                seen.ended_with_prompts += u32::from(ended);
                Some(&resolved.approval_id)
            }
            Payload::ApprovalTimedOut(late) => Some(&late.approval_id),
            Payload::ClarificationAnswered(answered) => Some(&answered.clarification_id),
            Payload::ClarificationTimedOut(late) => Some(&late.clarification_id),
            _ => None,
        };
        if let Some(at) = settled.and_then(|id| open.iter().position(|known| known == id)) {
            seen.settled_out_of_order += u32::from(at > 0);
            open.remove(at);
        }
    }
}

/// The number of cases; `PROPTEST_CASES` overrides it for long runs.
fn cases() -> u32 {
    u32::try_from(times(96)).unwrap()
}

#[test]
fn every_external_run_is_a_session_that_breaks_no_rule() {
    let config = ProptestConfig {
        cases: cases(),
        max_shrink_iters: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = TestRunner::new(config);
    let seen = Cell::new(Seen::default());
    let numbers = proptest::collection::vec(any::<u16>(), 0..500);
    let outcome = runner.run(&numbers, |numbers| {
        let events = live(&numbers);
        for language in Speech::languages() {
            holds(&events, language);
        }
        let mut so_far = seen.get();
        look(&events, &mut so_far);
        seen.set(so_far);
        Ok(())
    });
    outcome.unwrap_or_else(|why| panic!("{why}"));
    // A generator that never came to it would show nothing.
    let Seen {
        text_beside_prompts,
        calls_beside_prompts,
        several_prompts,
        settled_out_of_order,
        ended_with_prompts,
    } = seen.get();
    for count in
        [text_beside_prompts, calls_beside_prompts, several_prompts, settled_out_of_order, ended_with_prompts]
    {
        assert!(count > 10, "{:?}", seen.get());
    }
}

/// A foreign agent need not request permission. Its call is announced as what it is, in a form that strict listeners accept.
#[test]
fn a_grave_call_without_a_requested_permission_is_announced_as_such() {
    for (stakes, irreversible, risk_level) in [
        (r#","irreversible":true,"args_summary":"rm -r old""#, true, None),
        (r#","irreversible":true"#, true, None),
        (r#","risk_level":"high","args_summary":"rm -r old""#, false, Some("high")),
        (r#","risk_level":"high","irreversible":true"#, true, Some("high")),
    ] {
        let mut producer = started(&[]);
        assert!(producer.reports("turn.started", r#"{"turn_index":0}"#));
        let call = format!(r#"{{"tool_call_id":"c1","tool_name":"shell"{stakes}}}"#);
        assert!(producer.reports("tool.invoked", &call));
        producer.ends();
        for language in Speech::languages() {
            holds(&producer.events, language);
        }
        let projected = holds(&producer.events, "en-US");
        let (_, event) =
            projected.iter().find(|(_, event)| matches!(event.body, Body::ToolInvoked(_))).unwrap();
        let summaries = [&event.summaries.terse, &event.summaries.normal];
        for text in summaries.into_iter().flatten() {
            assert!(text.contains("without permission"), "{stakes}: {text}");
            assert_eq!(text.contains("undone"), irreversible, "{stakes}: {text}");
        }
        let json: Value = serde_json::from_str(&event.to_json()).unwrap();
        assert_eq!(json.get("irreversible").or(json.get("risk_level")), None, "{stakes}");
        let own = &json["extensions"]["recount"];
        assert_eq!(own["permission"], "not_requested", "{stakes}");
        assert_eq!((own["irreversible"] == true, own["risk_level"].as_str()), (irreversible, risk_level));
    }
}

/// The log of the child names its parent.
#[test]
fn a_child_session_names_its_parent() {
    let parent = "run_01HZX3Q0M0000000000000000B";
    let queued = format!(
        r#"{{"kind":"external","driver":"external","config":{{"spawned_by":{{"run_id":"{parent}","tool_call_id":"c","depth":1}}}}}}"#
    );
    let mut producer = created(&[], &queued);
    producer.ends();
    let projected = holds(&producer.events, "en-US");
    let json: Value = serde_json::from_str(&projected[0].1.to_json()).unwrap();
    assert_eq!(json["type"], "aaep:agent.session.started");
    assert_eq!(json["extensions"]["recount"]["parent_session_id"], "sess_01HZX3Q0M0000000000000000B");
    assert_eq!(json["@context"][1], recount_aaep::shaping::EXTENSION_CONTEXT);
    let mut projector = Projector::new(producer.events[0].run_id, Speech::of("en-US"));
    for event in producer.events.iter().filter(|event| !matches!(event.payload(), Payload::RunCancelled(_))) {
        projector.event(event, &token);
    }
    let joined = projector.join_summary(T0_MS, JoinReason::Joined).unwrap().summary;
    assert!(
        joined.to_json().contains("\"parent_session_id\":\"sess_01HZX3Q0M0000000000000000B\""),
        "{joined}"
    );
}

#[test]
fn decisions_made_elsewhere_are_reported() {
    for (word, expected) in
        [("approved", "approved it"), ("rejected", "rejected it"), ("undecided", "withdrawn")]
    {
        let mut producer = started(&[]);
        assert!(producer.reports("turn.started", r#"{"turn_index":0}"#));
        producer.asks_leave();
        let approval = producer.an_open_prompt(PromptKind::Approval).expect("it is open");
        assert!(producer.is_decided_elsewhere(&approval, word), "{word}");
        producer.ends();
        let projected = holds(&producer.events, "en-US");
        let sentences: Vec<String> =
            projected.iter().filter_map(|(_, event)| event.summaries.normal.clone()).collect();
        assert!(sentences.iter().any(|text| text.contains(expected)), "{word}: {sentences:?}");
        let refuses = sentences.iter().any(|text| text.contains("is not carried out"));
        assert_eq!(refuses, word == "rejected", "{word}: {sentences:?}");
    }
}
