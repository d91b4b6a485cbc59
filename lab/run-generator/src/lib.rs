//! Generates legal runs from random numbers, for property tests of every crate that reads runs.
//!
//! A run looks like one that the agent executes: the model writes, calls tools of every kind, and is interrupted, taken
//! over and cancelled. Applications reply to some calls, all, late or never. The crate must not depend on stores and
//! protocols. Start at [`own_run`]; the numbers are [`Dice`].

use recount_event::{Event, ForeignId, Json, Payload, RunId, Stamp};

use recount_run::{
    CallAnswer, CallResolution, CancelledBy, Command, PromptKind, State, apply, audit, decide,
};

/// The id of every generated run.
const RUN: &str = "run_01HZX3Q0M0000000000000000A";
const T0: u64 = 1_777_803_825_000;
const TURNS: u64 = 7;

/// Texts in a run may contain any characters.
const PIECES: [&str; 8] =
    ["a", "Gov\"ernor \\ ", "", "line\nbreak\r\n", "é🦀", "\u{2028}\u{2029}\u{85}", "nul\0", "<b>&amp;</b>"];

/// Numbers that a test drew. When they are used up, every further one is 0.
pub struct Dice<'a> {
    numbers: &'a [u16],
    at: usize,
}

impl<'a> Dice<'a> {
    pub fn new(numbers: &'a [u16]) -> Self {
        Dice { numbers, at: 0 }
    }

    pub fn is_used_up(&self) -> bool {
        self.at >= self.numbers.len()
    }

    pub fn below(&mut self, sides: usize) -> usize {
        let number = self.numbers.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        usize::from(number) % sides.max(1)
    }

    pub fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == sides - 1
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len())].clone()) }
    }

    fn piece(&mut self) -> &'static str {
        PIECES[self.below(PIECES.len())]
    }
}

/// The events of a whole run.
pub fn own_run(numbers: &[u16]) -> Vec<Event> {
    let run_id: RunId = RUN.parse().expect("it is the id of a run");
    let mut run = OwnRun {
        dice: Dice::new(numbers),
        state: State::blank(run_id, None, None),
        events: Vec::new(),
        now_ms: T0,
        named: 0,
    };
    run.begins();
    while !run.state.is_ended() && run.state.turns_completed() < TURNS && run.events.len() < 400 {
        run.step();
    }
    if !run.state.is_ended() {
        run.cancelled();
    }
    if let Some(illegal) = audit(&run.events) {
        panic!("{illegal}");
    }
    run.events
}

struct OwnRun<'a> {
    dice: Dice<'a>,
    state: State,
    events: Vec<Event>,
    now_ms: u64,
    named: u64,
}

/// Creates a payload from its type and data.
fn payload(type_name: &str, data: &str) -> Payload {
    Payload::read(type_name, data).unwrap_or_else(|why| panic!("{type_name} {data}: {why}"))
}

fn quoted(text: &str) -> String {
    quoted_json(text).text().to_owned()
}

fn quoted_json(text: &str) -> Json {
    Json::of(&text).expect("a string is JSON")
}

fn fid(text: &str) -> ForeignId {
    ForeignId::parse(text).expect("the generator names things so")
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Runs,
    Refused,
    AsksLeave,
    Client,
    AskUser,
    HandOff,
}

impl OwnRun<'_> {
    fn try_to(&mut self, command: Command) -> bool {
        self.now_ms += self.dice.below(50) as u64;
        let stamp = Stamp { now_ms: self.now_ms, entropy: u128::from(self.named) };
        let Ok(events) = decide(&self.state, command, stamp) else { return false };
        events.iter().for_each(|event| apply(&mut self.state, event));
        self.events.extend(events);
        true
    }

    fn does(&mut self, command: Command) {
        let shown = format!("{command:?}");
        assert!(self.try_to(command), "{shown} is refused");
    }

    fn report(&mut self, payloads: Vec<Payload>) {
        self.does(Command::Progress { drafts: payloads.into_iter().map(Into::into).collect() });
    }

    fn name(&mut self, prefix: &str) -> String {
        self.named += 1;
        format!("{prefix}{}", self.named)
    }

    fn cancelled(&mut self) {
        self.does(Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() });
    }

    fn taken_over(&mut self) {
        self.does(Command::TakeOver {
            worker_id: "w2".into(),
            lease_until_ms: Some(self.now_ms + 1_000),
            reason: "worker_lease_expired".into(),
        });
    }

    fn begins(&mut self) {
        let request = self.dice.piece();
        let data =
            format!(r#"{{"kind":"agent_loop","prior_run_id":null,"request_text":{}}}"#, quoted(request));
        let Payload::RunQueued(queued) = payload("run.queued", &data) else { unreachable!() };
        let resumed_from = self.dice.one_in(4).then(|| {
            let data = r#"{"from_run_id":"run_x","from_sequence":3,"prior_cost_micros_usd":5}"#;
            let Payload::RunResumedFromEvent(resumed) = payload("run.resumed_from_event", data) else {
                unreachable!()
            };
            resumed
        });
        self.does(Command::Queue { queued, resumed_from });
        let blocks =
            if self.dice.one_in(2) { format!(r#","blocks":{}"#, self.blocks()) } else { String::new() };
        self.report(vec![payload("user.message", &format!(r#"{{"text":{}{blocks}}}"#, quoted(request)))]);
        if self.dice.one_in(12) {
            return self.cancelled();
        }
        self.report(vec![payload("run.started", r#"{"worker_id":"w1"}"#)]);
    }

    /// Content blocks, as requests and outputs hold them.
    fn blocks(&mut self) -> String {
        let mut blocks = Vec::new();
        for _ in 0..=self.dice.below(3) {
            blocks.push(match self.dice.below(3) {
                0 => format!(r#"{{"type":"text","text":{}}}"#, quoted(self.dice.piece())),
                1 => r#"{"type":"image","artifact_id":"art_1","mime":"image/png"}"#.to_owned(),
                _ => r#"{"type":"image","url":"https://x.example/y.png"}"#.to_owned(),
            });
        }
        format!("[{}]", blocks.join(","))
    }

    /// One turn of the model, with its calls.
    fn step(&mut self) {
        let index = self.state.retry_turn().unwrap_or_else(|| self.state.next_turn_index());
        self.report(vec![payload("turn.started", &format!(r#"{{"turn_index":{index}}}"#))]);
        for _ in 0..self.dice.below(4) {
            if !self.write_block(index) {
                return;
            }
        }
        let calls = self.proposes(index);
        if self.dice.one_in(14) {
            return self.fail_turn(index);
        }
        if self.dice.one_in(20) {
            return self.cancelled();
        }
        self.completes(index, &calls);
        if calls.is_empty() {
            return;
        }
        self.execute_calls(&calls);
        if self.state.is_ended() {
            return;
        }
        self.wait_for_applications(&calls);
        self.wait_for_people(&calls);
    }

    /// Writes one complete block. Returns `false` if the turn ended before.
    fn write_block(&mut self, index: u64) -> bool {
        let kind = if self.dice.one_in(3) { "thinking" } else { "text" };
        self.named += 1;
        let block = self.named;
        let mut whole = String::new();
        for _ in 0..self.dice.below(4) {
            let piece = self.dice.piece();
            whole += piece;
            let data = format!(r#"{{"turn_index":{index},"block_index":{block},"delta":{}}}"#, quoted(piece));
            self.report(vec![payload(&format!("assistant.{kind}_delta"), &data)]);
        }
        match self.dice.below(24) {
            23 => {
                self.cancelled();
                return false;
            }
            22 => {
                self.taken_over();
                return false;
            }
            _ => {}
        }
        let has_deltas = !whole.is_empty();
        if !has_deltas {
            whole = self.dice.piece().to_owned();
            // Empty pieces followed by a non-empty text would not be consistent.
            if self.state.open_text(index, block).is_some() {
                whole.clear();
            }
        }
        let fail_turn = self.dice.one_in(20);
        let aborted = if fail_turn { r#","aborted":true"# } else { "" };
        let data =
            format!(r#"{{"turn_index":{index},"block_index":{block},"text":{}{aborted}}}"#, quoted(&whole));
        self.report(vec![payload(&format!("assistant.{kind}_complete"), &data)]);
        if fail_turn {
            self.fail_turn(index);
        }
        !fail_turn
    }

    /// The turn fails, and is retried or not.
    fn fail_turn(&mut self, index: u64) {
        let open: Vec<(String, String)> = self
            .state
            .open_calls()
            .map(|(id, call)| (id.to_string(), call.tool_name.as_deref().unwrap_or_default().to_owned()))
            .collect();
        for (id, name) in open {
            self.refused(&id, &name);
        }
        let again = !self.dice.one_in(3);
        let data =
            format!(r#"{{"turn_index":{index},"code":"overloaded","message":"m","will_retry":{again}}}"#);
        self.report(vec![payload("turn.failed", &data)]);
        if !again {
            self.report(vec![payload(
                "run.failed",
                r#"{"code":"model_unreachable","message":"m","retriable":true}"#,
            )]);
        }
    }

    fn refused(&mut self, id: &str, name: &str) {
        let message = quoted(self.dice.piece());
        self.report(vec![payload(
            "tool.refused",
            &format!(
                r#"{{"tool_call_id":"{id}","tool_name":"{name}","code":"blocked","message":{message}}}"#
            ),
        )]);
    }

    fn proposes(&mut self, index: u64) -> Vec<(String, Way)> {
        let many = if self.dice.one_in(4) { 0 } else { 1 + self.dice.below(4) };
        let mut calls = Vec::new();
        for _ in 0..many {
            let way = match self.dice.below(12) {
                0..4 => Way::Runs,
                4 => Way::Refused,
                5..8 => Way::AsksLeave,
                8..10 => Way::Client,
                10 => Way::AskUser,
                // A handoff happens once.
                _ if calls.iter().all(|(_, way)| *way != Way::HandOff) && self.dice.one_in(2) => Way::HandOff,
                _ => Way::Runs,
            };
            let input = ["{}", r#"{"n":1}"#, r#"{"text":"\u2028 é"}"#, "null", "7"][self.dice.below(5)];
            let (id, name) = (self.name("c"), tool_of(way));
            self.report(vec![payload(
                "assistant.tool_call_proposed",
                &format!(
                    r#"{{"turn_index":{index},"tool_call_id":"{id}","tool_name":"{name}","input":{input}}}"#
                ),
            )]);
            calls.push((id, way));
        }
        calls
    }

    fn completes(&mut self, index: u64, calls: &[(String, Way)]) {
        let stop = match calls.is_empty() {
            true => ["end_turn", "end_turn", "max_tokens", "refusal", "error"][self.dice.below(5)],
            false => ["tool_use", "tool_use", "max_tokens"][self.dice.below(3)],
        };
        let (input, output, count) = (self.dice.below(50), self.dice.below(50), calls.len());
        let cost =
            if self.dice.one_in(4) { String::new() } else { format!(r#","cost_micros_usd":{output}"#) };
        let mut payloads = vec![payload(
            "turn.completed",
            &format!(
                r#"{{"turn_index":{index},"stop_reason":"{stop}","input_tokens":{input},"output_tokens":{output},"tool_calls":{count}{cost}}}"#
            ),
        )];
        if calls.is_empty() {
            payloads.push(match stop {
                "error" if self.dice.one_in(2) => {
                    payload("run.failed", r#"{"code":"model_error","message":"m","retriable":true}"#)
                }
                _ => payload("run.finished", r#"{"final_status":"completed"}"#),
            });
        }
        self.report(payloads);
    }

    /// Calls that need no reply are refused, or start and end, in any order.
    fn execute_calls(&mut self, calls: &[(String, Way)]) {
        for (id, way) in calls {
            match way {
                Way::Refused => self.refused(id, tool_of(*way)),
                Way::Runs => self.invoked(id, *way),
                _ => {}
            }
        }
        self.end_calls();
    }

    fn invoked(&mut self, id: &str, way: Way) {
        let turn = self.state.call(id).and_then(|call| call.turn_index).expect("its turn proposed it");
        let (name, executor) = (tool_of(way), if way == Way::Client { "client" } else { "server" });
        self.report(vec![payload(
            "tool.invoked",
            &format!(r#"{{"tool_call_id":"{id}","tool_name":"{name}","turn_index":{turn},"executor":"{executor}"}}"#),
        )]);
    }

    /// Ends all calls that the server executes.
    fn end_calls(&mut self) {
        loop {
            let running: Vec<(String, String)> = self
                .state
                .open_calls()
                .filter(|(_, call)| call.is_with_server())
                .map(|(id, call)| (id.to_string(), call.tool_name.as_deref().unwrap_or_default().to_owned()))
                .collect();
            if running.is_empty() {
                return;
            }
            match self.dice.below(30) {
                28 => return self.cancelled(),
                29 => self.taken_over(),
                _ => {
                    let (id, name) = &running[self.dice.below(running.len())];
                    self.settled(id, name);
                }
            }
        }
    }

    fn settled(&mut self, id: &str, name: &str) {
        let how =
            ["completed", "completed", "completed", "failed", "cancelled", "timed_out"][self.dice.below(6)];
        let output = match self.dice.below(7) {
            0 | 1 => format!(r#","output":{}"#, quoted(self.dice.piece())),
            2 => format!(r#","output":{},"error":"not this""#, self.blocks()),
            3 => r#","output":{"rows":[1, 2],"of":null}"#.replace(", ", ","),
            4 => r#","output":[1,2]"#.to_owned(),
            5 => format!(r#","error":{},"summary":"not this""#, quoted(self.dice.piece())),
            _ => String::new(),
        };
        self.report(vec![payload(
            &format!("tool.{how}"),
            &format!(r#"{{"tool_call_id":"{id}","tool_name":"{name}"{output}}}"#),
        )]);
    }

    fn is_open(&self, id: &str) -> bool {
        self.state.call(id).is_some()
    }

    fn is_waiting(&self) -> bool {
        let last = self.events.iter().rev().map(Event::type_name);
        let mut marks = last.filter(|name| matches!(*name, "run.waiting" | "run.continued"));
        !self.state.is_ended() && marks.next() == Some("run.waiting")
    }

    fn waiting(&self, state: &State) -> Payload {
        let items: Vec<String> = state
            .waits_for_what()
            .iter()
            .map(|item| format!(r#"{{"kind":"{}","id":"{}"}}"#, item.kind, item.id))
            .collect();
        payload("run.waiting", &format!(r#"{{"for":[{}]}}"#, items.join(",")))
    }

    /// Opens the requests, and waits for them, in one append.
    fn open_and_wait(&mut self, payloads: Vec<Payload>) {
        let before = (self.state.clone(), self.events.len(), self.now_ms, self.dice.at);
        self.report(payloads.clone());
        let waiting = self.waiting(&self.state);
        (self.state, self.now_ms, self.dice.at) = (before.0, before.2, before.3);
        self.events.truncate(before.1);
        self.report(payloads.into_iter().chain([waiting]).collect());
    }

    /// Approvals and results: requested together, resolved in any number of parts.
    fn wait_for_applications(&mut self, calls: &[(String, Way)]) {
        let mut opened = Vec::new();
        for (id, way) in calls.iter().filter(|(id, _)| self.state.call(id).is_some()) {
            match way {
                Way::AsksLeave => {
                    self.named += 1;
                    let timeout = if self.dice.one_in(2) { r#","timeout_seconds":5"# } else { "" };
                    opened.push(payload(
                        "approval.requested",
                        &format!(
                            r#"{{"approval_id":"p{}","tool_call_id":"{id}","kind":"write_file","summary":"may I"{timeout}}}"#,
                            self.named
                        ),
                    ));
                }
                Way::Client => {
                    let turn =
                        self.state.call(id).and_then(|call| call.turn_index).expect("its turn proposed it");
                    opened.push(payload(
                        "tool.invoked",
                        &format!(
                            r#"{{"tool_call_id":"{id}","tool_name":"pick_color","turn_index":{turn},"executor":"client"}}"#
                        ),
                    ));
                }
                _ => {}
            }
        }
        if opened.is_empty() {
            return;
        }
        self.open_and_wait(opened);
        while self.is_waiting() {
            self.answered(calls);
        }
        if !self.state.is_ended() {
            self.end_calls();
        }
    }

    fn answered(&mut self, calls: &[(String, Way)]) {
        let open: Vec<(String, Way)> = calls
            .iter()
            .filter(|(id, way)| matches!(way, Way::AsksLeave | Way::Client) && self.waits_for(id))
            .cloned()
            .collect();
        match self.dice.below(12) {
            0..7 => {
                let mut answers = Vec::new();
                for (id, way) in open {
                    if self.dice.one_in(2) || answers.is_empty() {
                        answers.push(CallAnswer { tool_call_id: fid(&id), resolution: self.answer(way) });
                    }
                }
                self.does(Command::AnswerCalls {
                    answers,
                    by: "ann".into(),
                    via: "aap".into(),
                    config: None,
                    lenient: false,
                });
            }
            7 | 8 => {
                let approvals =
                    self.state.open_prompts().filter(|(name, _)| name.kind == PromptKind::Approval);
                let Some(approval_id) = approvals.map(|(name, _)| name.id.clone()).next() else { return };
                let approve = self.dice.one_in(2);
                self.does(Command::ResolveApproval {
                    approval_id,
                    approve,
                    by: "bob".into(),
                    comment: None,
                    remember: None,
                });
            }
            9 => self.advance_time(),
            10 => {
                let Some((id, _)) = open.iter().find(|(_, way)| *way == Way::Client) else { return };
                self.settled(id, "pick_color");
            }
            _ => self.cancelled(),
        }
    }

    fn waits_for(&self, id: &str) -> bool {
        self.state.call(id).is_some_and(|call| call.is_with_client()) || self.state.has_prompt_about(id)
    }

    fn answer(&mut self, way: Way) -> CallResolution {
        let words = self.dice.piece();
        match (way, self.dice.below(3)) {
            (Way::Client, _) | (_, 2) => {
                CallResolution::Output { output: quoted_json(words), text: words.into() }
            }
            (_, 1) => CallResolution::Denied { reason: (!words.is_empty()).then(|| words.into()) },
            _ => CallResolution::Granted,
        }
    }

    /// Advances to the next timer; without one the run is cancelled.
    fn advance_time(&mut self) {
        self.now_ms += 6_000;
        let before = self.events.len();
        self.try_to(Command::Tick);
        if self.events.len() == before {
            self.cancelled();
        }
    }

    /// Questions, one at a time, then a handoff.
    fn wait_for_people(&mut self, calls: &[(String, Way)]) {
        for kind in [Way::AskUser, Way::HandOff] {
            for (id, _) in calls.iter().filter(|(_, way)| *way == kind) {
                if self.state.is_ended() || !self.is_open(id) {
                    continue;
                }
                self.named += 1;
                let (prompt, words) = (format!("p{}", self.named), self.dice.piece());
                let request = match kind {
                    Way::AskUser => payload(
                        "clarification.requested",
                        &format!(
                            r#"{{"clarification_id":"{prompt}","question":{},"tool_call_id":"{id}","choices":["x",{{"id":"y"}}],"default_response":"x","timeout_seconds":5}}"#,
                            quoted(words)
                        ),
                    ),
                    _ => payload(
                        "handoff.requested",
                        &format!(
                            r#"{{"handoff_id":"{prompt}","reason":{},"target_kind":"human","tool_call_id":"{id}","timeout_seconds":5}}"#,
                            quoted(&format!("why {words}"))
                        ),
                    ),
                };
                self.open_and_wait(vec![request]);
                self.resolve_prompt(kind, &prompt);
            }
        }
    }

    fn resolve_prompt(&mut self, kind: Way, prompt: &str) {
        let by = "ann".to_owned();
        match (kind, self.dice.below(6)) {
            (_, 4) => self.advance_time(),
            (_, 5) => self.cancelled(),
            (Way::AskUser, _) => {
                let response = quoted_json(self.dice.piece());
                self.does(Command::AnswerClarification {
                    clarification_id: fid(prompt),
                    response,
                    by,
                    blocks: None,
                    config: None,
                });
            }
            (_, 3) => self.does(Command::RejectHandoff { handoff_id: fid(prompt), by, reason: None }),
            _ => self.does(Command::AcknowledgeHandoff { handoff_id: fid(prompt), by, comment: None }),
        }
    }
}

fn tool_of(way: Way) -> &'static str {
    match way {
        Way::Runs => "read_file",
        Way::Refused => "unheard_of",
        Way::AsksLeave => "write_file",
        Way::Client => "pick_color",
        Way::AskUser => "ask_user",
        Way::HandOff => "hand_off",
    }
}
