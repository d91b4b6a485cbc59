//! Builds the valid events of the synthetic producer: fictional sessions that break no rule. Callers modify events
//! that must be wrong or unusual. [`EventBuilder`] holds the current session.

use recount_aaep::build::{self, BuildError, Draft, Frame};
use recount_aaep::wire::{
    Body, Boundary, CancelledBy, Decision, ErrorCategory, HandoffTarget, Level, Progress, ReplyToken,
    ToolStatus, Urgency,
};
use recount_world::World;
use serde_json::{Value, json};

use super::piece::Piece;

/// The synthetic producer's agent id.
pub(crate) const AGENT: &str = "recount-conformance";
/// The action of its confirmations, which is harmless and reversible.
pub(super) const ACTION: &str = "Move 20 euros to the savings account.";
pub(super) const CONSEQUENCE: &str = "The money is moved at once; it can be moved back.";
const LANGUAGE: &str = "en-US";
const TOOL: &str = "move_money";

/// The producer, as events and handshakes name it.
pub(crate) fn producer() -> Value {
    json!({"agent_id": AGENT, "agent_version": super::super::SUITE_VERSION})
}

/// An event to send.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub id: String,
    pub value: Value,
}

impl Event {
    pub(super) fn piece(&self) -> Piece {
        Piece::new(Some(self.id.clone()), self.value.to_string())
    }

    /// Sets fields.
    pub(super) fn with(mut self, fields: Value) -> Event {
        if let (Value::Object(event), Value::Object(fields)) = (&mut self.value, fields) {
            event.extend(fields);
        }
        self
    }

    /// The event with its keys in reverse order at every depth.
    pub(super) fn reversed(&self) -> String {
        reversed(&self.value)
    }
}

fn reversed(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> = map
                .iter()
                .rev()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), reversed(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(reversed).collect::<Vec<_>>().join(","))
        }
        plain => plain.to_string(),
    }
}

/// The kind of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptKind {
    Confirmation,
    FreeText,
    YesNo,
    Choice,
    Numeric,
}

/// A prompt that was sent.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    pub event: Event,
    pub token: String,
    pub kind: PromptKind,
}

/// Builds the events of one session at a time.
pub(super) struct EventBuilder {
    world: World,
    frame: Frame,
    state: &'static str,
    stamped_ms: i64,
    calls: u64,
}

impl EventBuilder {
    pub(super) fn new(world: &World) -> EventBuilder {
        let session = format!("sess_{:032x}", world.entropy.draw());
        let producer = serde_json::from_value(producer())
            .unwrap_or_else(|why| unreachable!("the producer above is one: {why}"));
        let frame = sure(Frame::new(&session, AGENT, LANGUAGE)).with_producer(producer);
        EventBuilder { world: world.clone(), frame, state: "idle", stamped_ms: 0, calls: 0 }
    }

    fn event<B: Into<Body>>(&mut self, draft: Draft<B>) -> Event {
        let now = i64::try_from(self.world.clock.now_ms()).unwrap_or(i64::MAX);
        self.stamped_ms = self.stamped_ms.max(now);
        let id = format!("evt_{:032x}", self.world.entropy.draw());
        let event = sure(self.frame.event(&id, self.stamped_ms, draft));
        let value = serde_json::from_str(&event.to_json())
            .unwrap_or_else(|why| unreachable!("an event that was built is JSON: {why}"));
        Event { id, value }
    }

    /// Starts the next session.
    pub(super) fn begin(&mut self) -> Event {
        let stamped_ms = self.stamped_ms;
        *self = EventBuilder { stamped_ms, ..EventBuilder::new(&self.world) };
        self.event(build::session_started("A subscriber is being tried out."))
    }

    /// Changes the state.
    pub(super) fn go(&mut self, to: &'static str) -> Event {
        let from = std::mem::replace(&mut self.state, to);
        let summary = match to {
            "awaiting_input" => "Waiting for your answer.",
            "calling_tool" => "Calling a tool.",
            "writing_output" => "Writing an answer.",
            "handing_off" => "Handing over.",
            _ => "Thinking.",
        };
        self.event(build::state_changed(from, to, summary).urgency(Urgency::Background))
    }

    pub(super) fn progress(&mut self, step: u64, of: u64) -> Event {
        let progress = Progress { step: Some(step), total_steps: Some(of), ..Progress::default() };
        let summary = format!("Step {step} of {of}.");
        self.event(build::progress(progress).summary(summary).urgency(Urgency::Background))
    }

    pub(super) fn output(&mut self, chunk: &str, position: u64, hint: Boundary) -> Event {
        self.event(build::output(chunk, position, hint))
    }

    pub(super) fn last_output(&mut self, chunk: &str, position: u64) -> Event {
        self.event(build::last_output(chunk, position))
    }

    /// A call and its completion.
    pub(super) fn call(&mut self) -> [Event; 2] {
        self.calls += 1;
        let call = format!("call_{}", self.calls);
        let invoked =
            build::tool_invoked(TOOL, "Moving the money.").tool_call_id(call.as_str()).risk_level(Level::Low);
        let completed =
            build::tool_completed(TOOL, ToolStatus::Success, "The money was moved.").tool_call_id(call);
        [self.event(invoked), self.event(completed)]
    }

    pub(super) fn completed(&mut self) -> Event {
        self.event(build::session_completed("The trial went well."))
    }

    pub(super) fn errored(&mut self) -> Event {
        let draft = build::session_errored(ErrorCategory::Transient, "The bank did not answer.");
        self.event(draft.remediation_hint("Try again in a minute."))
    }

    pub(super) fn cancelled(&mut self) -> Event {
        self.event(build::session_cancelled(CancelledBy::User, "You cancelled."))
    }

    pub(super) fn handoff(&mut self) -> Event {
        let reason = "A person has to look at this.";
        self.event(build::handoff(reason, HandoffTarget::Human, "Handing over to a person."))
    }

    /// Draws a token.
    pub(super) fn token(&self) -> String {
        format!("rpl_{:032x}", self.world.entropy.draw())
    }

    /// A confirmation whose default is reject.
    pub(super) fn confirmation(&mut self, token: String, timeout_seconds: u32) -> Prompt {
        let draft = build::confirmation(ACTION, CONSEQUENCE, reply_token(&token), timeout_seconds);
        let event = self.event(draft.risk_level(Level::Low));
        Prompt { event, token, kind: PromptKind::Confirmation }
    }

    /// A confirmation that allows only one decision.
    pub(super) fn confirmation_for(&mut self, allowed: Decision, timeout_seconds: u32) -> Prompt {
        let token = self.token();
        let draft = build::confirmation(ACTION, CONSEQUENCE, reply_token(&token), timeout_seconds);
        let draft = if allowed == Decision::Accept { draft.default_accept() } else { draft };
        let event = self.event(draft.risk_level(Level::Low).allowed_replies(vec![allowed]));
        Prompt { event, token, kind: PromptKind::Confirmation }
    }

    /// A clarification of a kind.
    pub(super) fn clarification(&mut self, kind: PromptKind, timeout_seconds: u32) -> Prompt {
        let token = self.token();
        let question = match kind {
            PromptKind::YesNo => "Is it urgent?",
            PromptKind::Choice => "Which account?",
            PromptKind::Numeric => "How many euros?",
            PromptKind::FreeText | PromptKind::Confirmation => "Which city?",
        };
        let draft = build::clarification(question, reply_token(&token), timeout_seconds);
        let draft = match kind {
            PromptKind::Choice => {
                draft.choice("acc_savings", "Savings").choice("acc_giro", "Current account")
            }
            PromptKind::YesNo => draft.accepted_response_kinds(vec!["yes_no".into()]),
            PromptKind::Numeric => draft.accepted_response_kinds(vec!["numeric".into()]),
            PromptKind::FreeText | PromptKind::Confirmation => {
                draft.accepted_response_kinds(vec!["freetext".into()])
            }
        };
        let event = self.event(draft);
        Prompt { event, token, kind }
    }
}

fn reply_token(token: &str) -> ReplyToken {
    ReplyToken::new(token).unwrap_or_else(|why| unreachable!("tokens are drawn in their form: {why}"))
}

fn sure<T>(built: Result<T, BuildError>) -> T {
    built.unwrap_or_else(|why| unreachable!("the built events break no rule: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use recount_aaep::session::{Checker, Options};

    /// A failure in a trial must be the subscriber's fault.
    #[test]
    fn a_session_of_everything_breaks_no_rule() {
        let world = World::seeded(1, 1_779_632_531_342);
        let mut builder = EventBuilder::new(&world);
        let mut sent = vec![builder.begin(), builder.go("thinking"), builder.progress(1, 2)];
        sent.push(builder.go("calling_tool"));
        sent.extend(builder.call());
        sent.push(builder.go("awaiting_input"));
        let token = builder.token();
        let prompt = builder.confirmation(token, 300);
        assert!(prompt.event.reversed().starts_with("{\"verbosity\""), "{}", prompt.event.reversed());
        sent.push(prompt.event);
        sent.push(builder.go("thinking"));
        for kind in [PromptKind::FreeText, PromptKind::YesNo, PromptKind::Choice, PromptKind::Numeric] {
            sent.push(builder.go("awaiting_input"));
            sent.push(builder.clarification(kind, 300).event);
            sent.push(builder.go("thinking"));
        }
        sent.extend([
            builder.go("handing_off"),
            builder.handoff(),
            builder.errored(),
            builder.begin(),
            builder.cancelled(),
            builder.begin(),
        ]);
        sent.push(builder.go("writing_output"));
        sent.push(builder.output("All is well. ", 0, Boundary::Sentence));
        sent.push(builder.last_output("", 13));
        sent.push(builder.completed());
        let mut checker = Checker::new(Options::default());
        for (at, event) in sent.iter().enumerate() {
            checker.text(at, &event.value.to_string());
        }
        checker.finish();
        let found: Vec<String> =
            checker.take().iter().map(|finding| format!("{} {finding}", finding.line)).collect();
        assert_eq!(found, Vec::<String>::new());
    }
}
