//! Tests of the tables of Appendix A.7: for every pair of steps, a session in which one directly precedes the other,
//! with and without the additional condition.

use recount_aaep::Kind;
use recount_aaep::rule::{Finding, Profile, Severity};
use recount_aaep::session::order::{Condition, Legality, Step, TABLE, is_listed, pair, row};
use recount_aaep::session::{Checker, Options};
use serde_json::{Value, json};

/// Builds the lines of one session.
#[derive(Default)]
struct Scene {
    lines: Vec<String>,
    seconds: u32,
    tokens: u32,
    calls: u32,
    outputs: u32,
    state: String,
    /// Whether prompts time out after an hour instead of a minute.
    long: bool,
}

impl Scene {
    fn event(&mut self, kind: Kind, payload: Value) {
        self.seconds += 1;
        let mut event = json!({
            "@context": "https://aaep-protocol.org/context/v1",
            "type": kind.compact(),
            "event_id": format!("evt_{}", self.lines.len()),
            "session_id": "sess_1",
            "timestamp": format!("2026-05-24T{:02}:{:02}:{:02}.000Z", self.seconds / 3600, self.seconds / 60 % 60, self.seconds % 60),
            "producer": {"agent_id": "planner"},
            "urgency": if kind.is_critical() { "critical" } else { "normal" },
            "localization_hints": {"primary_language": "en"},
        });
        event.as_object_mut().unwrap().extend(payload.as_object().unwrap().clone());
        self.lines.push(event.to_string());
    }

    fn state(&mut self, to: &str) {
        let from = if self.state.is_empty() { "idle".to_owned() } else { self.state.clone() };
        self.event(Kind::StateChanged, json!({"from_state": from, "to_state": to}));
        to.clone_into(&mut self.state);
    }

    fn invoke(&mut self, irreversible: bool) {
        self.calls += 1;
        let call = format!("call_{}", self.calls);
        let payload = json!({"tool": "t", "tool_call_id": call, "irreversible": irreversible, "summary_normal": "Calling."});
        self.event(Kind::ToolInvoked, payload);
    }

    fn prompt(&mut self, kind: Kind) {
        self.tokens += 1;
        let token = format!("rpl_{}", self.tokens);
        let seconds = if self.long { 3_600 } else { 60 };
        let payload = if kind == Kind::AwaitingConfirmation {
            let action = format!("Do {}.", self.tokens);
            json!({"action": action, "consequence": "Done.", "reply_token": token, "timeout_seconds": seconds,
                "default_decision": "reject"})
        } else {
            json!({"question": "Which?", "reply_token": token, "timeout_seconds": seconds})
        };
        self.event(kind, payload);
    }

    /// Replies to the newest prompt.
    fn reply(&mut self, step: Step) {
        self.reply_to(step, self.tokens);
    }

    fn reply_to(&mut self, step: Step, token: u32) {
        let mut reply = json!({
            "reply_token": format!("rpl_{token}"), "subscription_id": "sub_1",
            "timestamp": format!("2026-05-24T{:02}:{:02}:{:02}.500Z", self.seconds / 3600, self.seconds / 60 % 60, self.seconds % 60),
        });
        let (kind, key, value) = match step {
            Step::ConfirmationAccepted => ("confirmation.reply", "decision", "accept"),
            Step::ConfirmationRejected => ("confirmation.reply", "decision", "reject"),
            _ => ("clarification.reply", "response", "This one."),
        };
        reply["type"] = kind.into();
        reply[key] = value.into();
        self.lines.push(reply.to_string());
    }

    fn output(&mut self, number: u32, complete: bool) {
        let id = format!("out_{number}");
        let payload = json!({"chunk": "", "position": 0, "complete": complete, "output_id": id});
        self.event(Kind::OutputStreaming, payload);
    }

    /// Adds one step; its prerequisites must exist.
    fn step(&mut self, step: Step, complete_output: bool) {
        match step {
            Step::Event(kind) => match kind {
                Kind::SessionStarted | Kind::SessionCompleted => {
                    self.event(kind, json!({"summary_normal": "So."}))
                }
                Kind::SessionErrored => {
                    self.event(kind, json!({"summary_normal": "So.", "error_category": "unknown"}));
                }
                Kind::SessionCancelled => {
                    self.event(kind, json!({"summary_normal": "So.", "cancelled_by": "user"}));
                }
                Kind::StateChanged => self.state("pondering"),
                Kind::ProgressUpdated => self.event(kind, json!({"progress": {"percent": 1}})),
                Kind::ToolInvoked => self.invoke(false),
                Kind::ToolCompleted => {
                    let call = format!("call_{}", self.calls);
                    self.event(kind, json!({"tool": "t", "tool_call_id": call, "status": "success"}));
                }
                Kind::OutputStreaming => {
                    self.outputs += 1;
                    self.output(self.outputs, complete_output);
                }
                Kind::AwaitingConfirmation | Kind::AwaitingClarification => self.prompt(kind),
                Kind::HandoffRequested => {
                    self.event(kind, json!({"reason": "Too hard.", "target_kind": "human"}))
                }
            },
            Step::TimedOut => self.seconds += 120,
            reply => self.reply(reply),
        }
    }

    /// Adds the prerequisites of a step.
    fn prepare(&mut self, step: Step) {
        match step {
            Step::Event(Kind::ToolCompleted) => self.invoke(false),
            Step::ConfirmationAccepted | Step::ConfirmationRejected | Step::TimedOut => {
                self.prompt(Kind::AwaitingConfirmation);
            }
            Step::ClarificationAnswered => self.prompt(Kind::AwaitingClarification),
            _ => {}
        }
    }

    /// The findings for the last line.
    fn found_last(&self) -> Vec<Finding> {
        let mut checker = Checker::new(Options { profile: Profile::Strict, ..Options::default() });
        for (at, line) in self.lines.iter().enumerate() {
            checker.text(at + 1, line);
        }
        let last = self.lines.len();
        checker.take().into_iter().filter(|finding| finding.line == last).collect()
    }
}

fn errors(findings: &[Finding]) -> Vec<&'static str> {
    findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.rule.id)
        .collect()
}

/// A session with `before` directly before `after`, where the condition holds or not.
fn scene(before: Step, after: Step, condition: Option<Condition>, holds: bool) -> Scene {
    let mut scene = Scene::default();
    if before != Step::Event(Kind::SessionStarted) {
        scene.step(Step::Event(Kind::SessionStarted), true);
    }
    let ahead = before != Step::Event(Kind::SessionStarted);
    let mut token = 0;
    if ahead && !matches!(before, Step::Event(kind) if kind.is_terminal()) {
        match (condition, holds) {
            (Some(Condition::Invoked), true) if before != Step::Event(Kind::ToolInvoked) => {
                scene.invoke(false)
            }
            (Some(Condition::Accepted), true) if before != Step::ConfirmationAccepted => {
                scene.prompt(Kind::AwaitingConfirmation);
                scene.reply(Step::ConfirmationAccepted);
            }
            (Some(Condition::NothingOpen), false) => scene.invoke(false),
            (Some(Condition::OutputsComplete), false) => {
                scene.outputs += 1;
                scene.output(1, false);
            }
            (Some(Condition::OutputOpen), false) => {
                scene.outputs += 1;
                scene.output(1, true);
            }
            _ => {}
        }
        if after.settles() && holds && condition == Some(Condition::PromptOpen) {
            scene.long = true;
            scene.prepare(after);
            scene.long = false;
            token = scene.tokens;
        }
    }
    let open_call = scene.calls;
    scene.prepare(before);
    scene.step(before, matches!(condition, Some(Condition::NothingOpen | Condition::OutputsComplete)));
    match after {
        Step::Event(Kind::ToolInvoked) if condition.is_some() => scene.invoke(true),
        Step::Event(Kind::ToolCompleted) => {
            let number = match (holds, before) {
                (true, Step::Event(Kind::ToolInvoked)) => scene.calls,
                (true, _) => open_call,
                (false, _) => 99,
            };
            let payload = json!({"tool": "t", "tool_call_id": format!("call_{number}"), "status": "success"});
            scene.event(Kind::ToolCompleted, payload);
        }
        Step::Event(Kind::OutputStreaming) if !holds => scene.output(1, false),
        after if after.settles() => scene.reply_to(after, if holds && token > 0 { token } else { 77 }),
        after => scene.step(after, true),
    }
    scene
}

/// Whether a condition cannot hold, because the previous step opens a part or is the first one.
fn cannot_hold(before: Step, condition: Condition) -> bool {
    let opens = matches!(
        before,
        Step::Event(Kind::ToolInvoked | Kind::AwaitingConfirmation | Kind::AwaitingClarification)
            | Step::ConfirmationAccepted
            | Step::ConfirmationRejected
            | Step::TimedOut
    );
    match condition {
        Condition::NothingOpen => opens,
        Condition::Invoked | Condition::Accepted | Condition::PromptOpen => {
            before == Step::Event(Kind::SessionStarted)
        }
        Condition::OutputOpen | Condition::OutputsComplete => false,
    }
}

#[test]
fn each_pair_of_steps_is_judged_by_the_table() {
    let (mut never, mut always, mut conditional) = (0, 0, 0);
    for before in Step::ALL {
        for after in Step::ALL.into_iter().filter(|step| *step != Step::TimedOut) {
            let legality = pair(before, after);
            let judged = |condition, holds| scene(before, after, condition, holds).found_last();
            match legality {
                Legality::Never => {
                    never += 1;
                    let found = judged(None, true);
                    let reported = found.iter().any(|finding| finding.rule.id.starts_with("reply."));
                    assert!(
                        !errors(&found).is_empty() || (after.settles() && reported),
                        "{before:?} {after:?}: {found:?}"
                    );
                }
                Legality::Always => {
                    always += 1;
                    assert_eq!(errors(&judged(None, true)), Vec::<&str>::new(), "{before:?} {after:?}");
                }
                Legality::If(condition) => {
                    conditional += 1;
                    if !cannot_hold(before, condition) {
                        let found = judged(Some(condition), true);
                        assert_eq!(
                            errors(&found),
                            Vec::<&str>::new(),
                            "{before:?} {after:?} with {condition:?}"
                        );
                        let refused = found.iter().any(|finding| finding.rule.id.starts_with("reply."));
                        assert!(!refused, "{before:?} {after:?} with {condition:?}: {found:?}");
                    }
                    let met = match condition {
                        Condition::Accepted => before == Step::ConfirmationAccepted,
                        // No part can be opened before the first event.
                        Condition::NothingOpen | Condition::OutputOpen | Condition::OutputsComplete => {
                            before == Step::Event(Kind::SessionStarted)
                        }
                        _ => false,
                    };
                    if !met {
                        let found = judged(Some(condition), false);
                        let reported = found.iter().any(|finding| finding.rule.id.starts_with("reply."));
                        assert!(
                            !errors(&found).is_empty() || reported,
                            "{before:?} {after:?} without {condition:?}"
                        );
                    }
                }
            }
        }
    }
    assert_eq!(never + always + conditional, 16 * 15);
    assert!(never > 40 && always > 60 && conditional > 60, "{never} {always} {conditional}");
}

#[test]
fn pairs_listed_in_the_appendix_are_never_illegal() {
    for row in TABLE {
        for after in row.successors.unwrap_or_default() {
            assert_ne!(pair(row.step, *after), Legality::Never, "{}: {after:?}", row.section);
            assert!(is_listed(row.step, *after));
        }
        for before in row.predecessors.unwrap_or_default() {
            assert_ne!(pair(*before, row.step), Legality::Never, "{}: {before:?}", row.section);
            assert!(is_listed(*before, row.step));
        }
        if row.successors == Some(&[]) {
            assert!(
                Step::ALL.into_iter().all(|after| pair(row.step, after) == Legality::Never),
                "{}",
                row.section
            );
        }
        if row.predecessors == Some(&[]) {
            assert!(
                Step::ALL.into_iter().all(|before| pair(before, row.step) == Legality::Never),
                "{}",
                row.section
            );
        }
    }
    assert_eq!(TABLE.len(), 9, "all tables of A.7: one for the beginning, three endings, five more");
    assert!(row(Step::Event(Kind::ProgressUpdated)).is_none(), "A.7 has no row for progress");
    assert_eq!(row(Step::Event(Kind::ToolInvoked)).unwrap().required, Some(Step::Event(Kind::ToolCompleted)));
}
