//! Property test with any sequence of calls, misuse, replies and clock values: the emitted events pass the strict
//! checker at every possible end, with and without recorded replies, and a rejected call has no effect.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use recount_aaep::Event;
use recount_aaep::build::{self, Draft};
use recount_aaep::produce::{
    CallHandle, Misuse, OutputHandle, ProducerSession, PromptHandle, ReplyOutcome, Stamp,
};
use recount_aaep::wire::{
    Boundary, CancelledBy, Decision, ErrorCategory, HandoffTarget, Level, Progress, Timestamp, ToolInvoked,
    ToolStatus,
};

use super::replies::reply;
use super::{accusations, session, texts};

#[derive(Debug, Clone)]
enum Step {
    Start(bool),
    State(u8),
    Progress(u8),
    Begin(u8),
    Confirm { call: u8, seconds: u32, default_accepts: bool, narrow: bool },
    Clarify { kind: u8, seconds: u32 },
    BeginConfirmed { prompt: usize, call: Option<u8> },
    End { call: usize, renamed: bool },
    Open,
    Write { output: usize, text: u8 },
    Finish { output: usize },
    HandOff,
    Withdraw,
    Advance,
    Reply { token: u8, kind: u8, offset_ms: i64 },
    Complete(bool),
    Fail,
    Cancel,
}

fn step() -> impl Strategy<Value = Step> {
    let seconds = prop_oneof![5 => 1..200_u32, 1 => Just(0), 1 => Just(86_401)];
    prop_oneof![
        1 => any::<bool>().prop_map(Step::Start),
        3 => (0..6_u8).prop_map(Step::State),
        2 => (0..3_u8).prop_map(Step::Progress),
        4 => (0..6_u8).prop_map(Step::Begin),
        8 => (0..6_u8, seconds.clone(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(
            |(call, seconds, default_accepts, narrow)| Step::Confirm { call, seconds, default_accepts, narrow }
        ),
        3 => (0..5_u8, seconds).prop_map(|(kind, seconds)| Step::Clarify { kind, seconds }),
        10 => (any::<usize>(), prop::option::weighted(0.2, 0..6_u8))
            .prop_map(|(prompt, call)| Step::BeginConfirmed { prompt, call }),
        6 => (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(call, renamed)| Step::End { call, renamed }),
        2 => Just(Step::Open),
        4 => (any::<usize>(), 0..5_u8).prop_map(|(output, text)| Step::Write { output, text }),
        2 => any::<usize>().prop_map(|output| Step::Finish { output }),
        1 => Just(Step::HandOff),
        1 => Just(Step::Withdraw),
        3 => Just(Step::Advance),
        12 => (0..6_u8, 0..10_u8, prop_oneof![3 => Just(0), 1 => -100_000..200_000_i64])
            .prop_map(|(token, kind, offset_ms)| Step::Reply { token, kind, offset_ms }),
        1 => any::<bool>().prop_map(Step::Complete),
        1 => Just(Step::Fail),
        1 => Just(Step::Cancel),
    ]
}

/// One step, or the steps of a confirmed call.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let confirmed = (0..3_u8).prop_map(|call| {
        vec![
            Step::Confirm { call, seconds: 100, default_accepts: false, narrow: false },
            Step::Reply { token: 0, kind: 0, offset_ms: 0 },
            Step::BeginConfirmed { prompt: 0, call: None },
        ]
    });
    prop_oneof![6 => step().prop_map(|step| vec![step]), 1 => confirmed]
}

fn call(which: u8) -> Draft<ToolInvoked> {
    let pay = || build::tool_invoked("pay", "Paying.").irreversible(true);
    match which {
        0 => pay().args_summary("5 euros").risk_level(Level::High),
        1 => pay().args_summary("6 euros"),
        2 => build::tool_invoked("risk", "Risking.").risk_level(Level::High),
        3 => build::tool_invoked("fetch", "Fetching."),
        4 => build::tool_invoked("no tool", "Calling.").args_summary("x"),
        _ => pay(),
    }
}

/// A session with the handles of its caller, and its recording.
struct Play {
    session: ProducerSession,
    calls: Vec<(CallHandle, String)>,
    outputs: Vec<OutputHandle>,
    prompts: Vec<(PromptHandle, u8)>,
    tokens: Vec<String>,
    /// Recorded events.
    events: Vec<Event>,
    /// Recorded events, and the replies with true timestamps.
    recording: Vec<String>,
    /// Numbers of calls that cannot be undone, and of their acceptances.
    grave: usize,
    accepted: usize,
}

fn pick<T: Clone>(of: &[T], which: usize) -> Option<T> {
    // Counted from the newest.
    if of.is_empty() { None } else { of.get(of.len() - 1 - which % of.len()).cloned() }
}

impl Play {
    fn new() -> Self {
        Play {
            session: session(),
            calls: Vec::new(),
            outputs: Vec::new(),
            prompts: Vec::new(),
            tokens: Vec::new(),
            events: Vec::new(),
            recording: Vec::new(),
            grave: 0,
            accepted: 0,
        }
    }

    fn step(&mut self, stamp: Stamp, step: &Step) -> Result<Vec<Event>, Misuse> {
        let session = &mut self.session;
        match *step {
            Step::Start(right) => {
                session.start(stamp, build::session_started(if right { "So." } else { "" }))
            }
            Step::State(which) => {
                let states = ["thinking", "deciding", "pondering", "awaiting_input", "", "idle"];
                session.set_state(stamp, states[which as usize], "So.")
            }
            Step::Progress(which) => {
                let percent = [Some(50.into()), None, Some(101.into())][which as usize].clone();
                session.report_progress(stamp, build::progress(Progress { percent, ..Progress::default() }))
            }
            Step::Begin(which) => session.begin_call(stamp, call(which)).map(|(handle, events)| {
                self.calls.push((handle, call(which).tool()));
                events
            }),
            Step::Confirm { call: which, seconds, default_accepts, narrow } => {
                let ask = |token| {
                    let mut draft = build::confirmation("Do it.", "It is done.", token, seconds);
                    if default_accepts {
                        draft = draft.default_accept();
                    }
                    if narrow { draft.allowed_replies(vec![Decision::Reject]) } else { draft }
                };
                let (prompt, events) = session.confirm(stamp, &call(which), ask)?;
                self.prompts.push((prompt, which));
                self.tokens.push(session.open_token().unwrap().as_str().to_owned());
                Ok(events)
            }
            Step::Clarify { kind, seconds } => {
                let ask = |token| {
                    let draft = build::clarification("Which?", token, seconds);
                    let kinds = |kind: &str| vec![kind.to_owned()];
                    match kind {
                        0 => draft,
                        1 => draft.accepted_response_kinds(kinds("yes_no")),
                        2 => draft.choice("a", "A").choice("b", "B"),
                        3 => draft.accepted_response_kinds(kinds("numeric")).default_response("7"),
                        _ => draft.accepted_response_kinds(kinds("nonsense")),
                    }
                };
                let (_, events) = session.clarify(stamp, ask)?;
                self.tokens.push(session.open_token().unwrap().as_str().to_owned());
                Ok(events)
            }
            Step::BeginConfirmed { prompt, call: other } => {
                let Some((handle, own)) = pick(&self.prompts, prompt) else { return Ok(Vec::new()) };
                let which = other.unwrap_or(own);
                let started = session.begin_confirmed_call(stamp, call(which), handle);
                assert!(which == own || started.is_err(), "another call was started: {started:?}");
                let (handle, events) = started?;
                self.calls.push((handle, call(which).tool()));
                self.grave += usize::from(which < 2);
                Ok(events)
            }
            Step::End { call, renamed } => {
                let Some((handle, tool)) = pick(&self.calls, call) else { return Ok(Vec::new()) };
                let tool = if renamed { "other".to_owned() } else { tool };
                session.end_call(stamp, handle, build::tool_completed(tool, ToolStatus::Success, "Back."))
            }
            Step::Open => {
                self.outputs.push(session.open_output(None)?);
                Ok(Vec::new())
            }
            Step::Write { output, text } => {
                let Some(output) = pick(&self.outputs, output) else { return Ok(Vec::new()) };
                let long = "x".repeat(17_000);
                let text = ["One. ", "é👍", "", "\u{301}", long.as_str()][text as usize];
                session.write(stamp, output, text, Boundary::Sentence)
            }
            Step::Finish { output } => {
                let Some(output) = pick(&self.outputs, output) else { return Ok(Vec::new()) };
                session.finish_output(stamp, output, "End.")
            }
            Step::HandOff => session.hand_off(stamp, build::handoff("Look.", HandoffTarget::Human, "So.")),
            Step::Withdraw => session.withdraw(stamp),
            Step::Advance => session.advance(stamp).map(|advanced| advanced.events),
            Step::Reply { token, kind, offset_ms } => self.reply(stamp, token, kind, offset_ms),
            Step::Complete(right) => {
                session.complete(stamp, build::session_completed(if right { "Done." } else { "" }))
            }
            Step::Fail => session.fail(stamp, build::session_errored(ErrorCategory::Unknown, "It broke.")),
            Step::Cancel => session.cancel(stamp, build::session_cancelled(CancelledBy::User, "Stopped.")),
        }
    }

    fn reply(&mut self, stamp: Stamp, token: u8, kind: u8, offset_ms: i64) -> Result<Vec<Event>, Misuse> {
        let open = self.session.open_token().map(|token| token.as_str().to_owned());
        let token = match token {
            0..=3 => open.unwrap_or_else(|| "rpl_none".to_owned()),
            4 => {
                pick(&self.tokens, offset_ms.unsigned_abs() as usize).unwrap_or_else(|| "rpl_none".to_owned())
            }
            _ => "rpl_none".to_owned(),
        };
        let more = match kind {
            0..=3 => r#""decision":"accept""#,
            4 => r#""decision":"reject""#,
            5 => r#""decision":"accept","modified_action":{"amount":1}"#,
            6 => r#""response":"a""#,
            7 => r#""response":true"#,
            8 => r#""response":7"#,
            _ => r#""decision":"perhaps""#,
        };
        let sent = Stamp { now_ms: stamp.now_ms.saturating_add(offset_ms), ..stamp };
        let text = reply(&token, sent, more);
        let received = self.session.receive(stamp, &text)?;
        let last_ms = received.events.last().or(self.events.last());
        let now_ms = last_ms.map_or(0, |event| event.envelope.timestamp.millis()).max(stamp.now_ms);
        let counts = matches!(
            received.outcome,
            ReplyOutcome::Accepted { .. } | ReplyOutcome::Rejected { .. } | ReplyOutcome::Answered { .. }
        );
        self.accepted += usize::from(matches!(received.outcome, ReplyOutcome::Accepted { prompt }
            if self.prompts.iter().any(|(open, call)| *open == prompt && *call < 2)));
        let malformed = matches!(received.outcome, ReplyOutcome::Malformed { .. });
        // An overdue default applied first. A reply without effect and with an earlier timestamp is not recorded,
        // because the recording cannot show when it arrived.
        let is_later = Timestamp::of_millis(sent.now_ms).millis() > now_ms;
        if counts {
            self.recording.push(text);
        } else if !malformed && is_later {
            self.recording.extend(texts(&received.events));
            self.events.extend(received.events);
            self.recording.push(text);
            return Ok(Vec::new());
        }
        Ok(received.events)
    }

    /// Ends a copy of the session here: its events break no rule.
    fn stops(&self, stamp: Stamp) -> Result<(), TestCaseError> {
        let mut copy = self.session.clone();
        let cancelled = copy.cancel(stamp, build::session_cancelled(CancelledBy::User, "Stopped."));
        let ending = cancelled.map(|events| texts(&events)).unwrap_or_default();
        let ended = copy.has_ended();
        for mut lines in [texts(&self.events), self.recording.clone()] {
            lines.extend(ending.iter().cloned());
            let found = accusations(&lines, ended);
            prop_assert!(found.is_empty(), "{found:#?}\n{}", lines.join("\n"));
        }
        Ok(())
    }
}

trait Named {
    fn tool(self) -> String;
}

impl Named for Draft<ToolInvoked> {
    /// The name on the wire.
    fn tool(self) -> String {
        let frame = build::Frame::new("sess_1", "planner", "en").unwrap();
        match frame.event("evt_1", 0, self).unwrap().body {
            recount_aaep::Body::ToolInvoked(call) => call.tool,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn any_sequence_of_calls_produces_a_valid_session() {
    let steps = {
        let passed_ms = prop_oneof![3 => 0..3_000_i64, 1 => -5_000..60_000_i64];
        prop::collection::vec((steps(), passed_ms, 0..4_u8), 1..40)
    };
    // Counts of high-risk calls, rejections, defaults and endings: each case must occur.
    let reached = Cell::new([0; 4]);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&steps, |steps| {
        let steps: Vec<(Step, i64, u8)> = steps
            .into_iter()
            .flat_map(|(steps, passed_ms, entropy)| {
                steps.into_iter().map(move |step| (step, passed_ms, entropy))
            })
            .collect();
        let mut play = Play::new();
        let mut now_ms = super::START_MS;
        // Most sessions are started first.
        let first = [(Step::Start(true), 0, 0)];
        let misused = matches!(steps[0].0, Step::Start(false) | Step::Advance);
        let [mut refused, mut defaults] = [0; 2];
        for (step, passed_ms, entropy) in first.iter().skip(usize::from(misused)).chain(&steps) {
            now_ms += passed_ms;
            let stamp = Stamp { now_ms, entropy: [*entropy; 32] };
            let before = format!("{:?}", play.session);
            let due = play.session.next_deadline().is_some_and(|deadline| deadline <= now_ms);
            match play.step(stamp, step) {
                Ok(events) => {
                    defaults += usize::from(due && play.session.next_deadline().is_none());
                    play.recording.extend(texts(&events));
                    play.events.extend(events);
                }
                Err(misuse) => {
                    prop_assert_eq!(format!("{:?}", play.session), before, "{}", misuse);
                    refused += 1;
                    continue;
                }
            }
            prop_assert!(play.grave <= play.accepted, "a high-risk call without an acceptance");
            play.stops(stamp)?;
        }
        let ended = usize::from(play.session.has_ended());
        let [grave, others @ ..] = reached.get();
        let all = [refused, defaults, ended];
        let mut counts = [grave + play.grave, 0, 0, 0];
        for at in 0..3 {
            counts[at + 1] = others[at] + all[at];
        }
        reached.set(counts);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(reached.get().iter().all(|count| *count > 20), "{:?}", reached.get());
}
