//! What the synthetic producer says when it says what is right: sessions of made-up events that break no rule. What is to
//! be wrong or odd with one is changed by who asked for it. [`Voice`] keeps the session in hand.

use recount_aaep::build::{self, Draft, Frame, Refused};
use recount_aaep::wire::{
    Body, Boundary, CancelledBy, Decision, ErrorCategory, HandoffTarget, Level, Progress, ReplyToken,
    ToolStatus, Urgency,
};
use recount_world::World;
use serde_json::{Value, json};

use super::piece::Piece;

/// What the synthetic producer calls itself.
pub(crate) const AGENT: &str = "recount-conformance";
/// What it asks leave for, and what would follow: harmless, and can be taken back.
pub(super) const ACTION: &str = "Move 20 euros to the savings account.";
pub(super) const CONSEQUENCE: &str = "The money is moved at once; it can be moved back.";
const LANGUAGE: &str = "en-US";
const TOOL: &str = "move_money";

/// The producer, as events and handshakes name it.
pub(crate) fn producer() -> Value {
    json!({"agent_id": AGENT, "agent_version": super::super::SUITE_VERSION})
}

/// An event on its way to the wire.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub id: String,
    pub value: Value,
}

impl Event {
    pub(super) fn piece(&self) -> Piece {
        Piece::new(Some(self.id.clone()), self.value.to_string())
    }

    /// The same with fields put in or changed.
    pub(super) fn with(mut self, fields: Value) -> Event {
        if let (Value::Object(event), Value::Object(fields)) = (&mut self.value, fields) {
            event.extend(fields);
        }
        self
    }

    /// Its keys in the other order, deep down too.
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

/// What kind of answer a question takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Confirmation,
    FreeText,
    YesNo,
    Choice,
    Numeric,
}

/// A prompt as it was sent.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    pub event: Event,
    pub token: String,
    pub asked: Asked,
}

/// Speaks in one session at a time.
pub(super) struct Voice {
    world: World,
    frame: Frame,
    state: &'static str,
    said_ms: i64,
    calls: u64,
}

impl Voice {
    pub(super) fn new(world: &World) -> Voice {
        let session = format!("sess_{:032x}", world.entropy.draw());
        let producer = serde_json::from_value(producer())
            .unwrap_or_else(|why| unreachable!("the producer above is one: {why}"));
        let frame = sure(Frame::new(&session, AGENT, LANGUAGE)).with_producer(producer);
        Voice { world: world.clone(), frame, state: "idle", said_ms: 0, calls: 0 }
    }

    fn say<B: Into<Body>>(&mut self, draft: Draft<B>) -> Event {
        let now = i64::try_from(self.world.clock.now_ms()).unwrap_or(i64::MAX);
        self.said_ms = self.said_ms.max(now);
        let id = format!("evt_{:032x}", self.world.entropy.draw());
        let event = sure(self.frame.event(&id, self.said_ms, draft));
        let value = serde_json::from_str(&event.to_json())
            .unwrap_or_else(|why| unreachable!("an event that was built is JSON: {why}"));
        Event { id, value }
    }

    /// The next session begins.
    pub(super) fn begin(&mut self) -> Event {
        let said_ms = self.said_ms;
        *self = Voice { said_ms, ..Voice::new(&self.world) };
        self.say(build::session_started("A subscriber is being tried out."))
    }

    /// Does something else now.
    pub(super) fn go(&mut self, to: &'static str) -> Event {
        let from = std::mem::replace(&mut self.state, to);
        let says = match to {
            "awaiting_input" => "Waiting for your answer.",
            "calling_tool" => "Calling a tool.",
            "writing_output" => "Writing an answer.",
            "handing_off" => "Handing over.",
            _ => "Thinking.",
        };
        self.say(build::state_changed(from, to, says).urgency(Urgency::Background))
    }

    pub(super) fn progress(&mut self, step: u64, of: u64) -> Event {
        let progress = Progress { step: Some(step), total_steps: Some(of), ..Progress::default() };
        let says = format!("Step {step} of {of}.");
        self.say(build::progress(progress).summary(says).urgency(Urgency::Background))
    }

    pub(super) fn output(&mut self, chunk: &str, position: u64, hint: Boundary) -> Event {
        self.say(build::output(chunk, position, hint))
    }

    pub(super) fn last_output(&mut self, chunk: &str, position: u64) -> Event {
        self.say(build::last_output(chunk, position))
    }

    /// A call from its beginning to its end.
    pub(super) fn call(&mut self) -> [Event; 2] {
        self.calls += 1;
        let call = format!("call_{}", self.calls);
        let invoked =
            build::tool_invoked(TOOL, "Moving the money.").tool_call_id(call.as_str()).risk_level(Level::Low);
        let completed =
            build::tool_completed(TOOL, ToolStatus::Success, "The money was moved.").tool_call_id(call);
        [self.say(invoked), self.say(completed)]
    }

    pub(super) fn completed(&mut self) -> Event {
        self.say(build::session_completed("The trial went well."))
    }

    pub(super) fn errored(&mut self) -> Event {
        let draft = build::session_errored(ErrorCategory::Transient, "The bank did not answer.");
        self.say(draft.remediation_hint("Try again in a minute."))
    }

    pub(super) fn cancelled(&mut self) -> Event {
        self.say(build::session_cancelled(CancelledBy::User, "You cancelled."))
    }

    pub(super) fn handoff(&mut self) -> Event {
        let reason = "A person has to look at this.";
        self.say(build::handoff(reason, HandoffTarget::Human, "Handing over to a person."))
    }

    /// A token nobody has seen yet.
    pub(super) fn token(&self) -> String {
        format!("rpl_{:032x}", self.world.entropy.draw())
    }

    /// May this be done? Nothing is done when nobody answers.
    pub(super) fn confirmation(&mut self, token: String, timeout_seconds: u32) -> Prompt {
        let draft = build::confirmation(ACTION, CONSEQUENCE, reply_token(&token), timeout_seconds);
        let event = self.say(draft.risk_level(Level::Low));
        Prompt { event, token, asked: Asked::Confirmation }
    }

    /// Leave for only one of the two answers.
    pub(super) fn confirmation_for(&mut self, allowed: Decision, timeout_seconds: u32) -> Prompt {
        let token = self.token();
        let draft = build::confirmation(ACTION, CONSEQUENCE, reply_token(&token), timeout_seconds);
        let draft = if allowed == Decision::Accept { draft.default_accept() } else { draft };
        let event = self.say(draft.risk_level(Level::Low).allowed_replies(vec![allowed]));
        Prompt { event, token, asked: Asked::Confirmation }
    }

    /// What is meant?
    pub(super) fn clarification(&mut self, asked: Asked, timeout_seconds: u32) -> Prompt {
        let token = self.token();
        let question = match asked {
            Asked::YesNo => "Is it urgent?",
            Asked::Choice => "Which account?",
            Asked::Numeric => "How many euros?",
            Asked::FreeText | Asked::Confirmation => "Which city?",
        };
        let draft = build::clarification(question, reply_token(&token), timeout_seconds);
        let draft = match asked {
            Asked::Choice => draft.choice("acc_savings", "Savings").choice("acc_giro", "Current account"),
            Asked::YesNo => draft.accepted_response_kinds(vec!["yes_no".into()]),
            Asked::Numeric => draft.accepted_response_kinds(vec!["numeric".into()]),
            Asked::FreeText | Asked::Confirmation => draft.accepted_response_kinds(vec!["freetext".into()]),
        };
        let event = self.say(draft);
        Prompt { event, token, asked }
    }
}

fn reply_token(token: &str) -> ReplyToken {
    ReplyToken::new(token).unwrap_or_else(|why| unreachable!("tokens are drawn in their form: {why}"))
}

fn sure<T>(built: Result<T, Refused>) -> T {
    built.unwrap_or_else(|why| unreachable!("what is said here breaks no rule: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use recount_aaep::session::{Checker, Options};

    /// What goes wrong in a trial must be the subscriber's doing.
    #[test]
    fn a_session_of_everything_breaks_no_rule() {
        let world = World::seeded(1, 1_779_632_531_342);
        let mut voice = Voice::new(&world);
        let mut said = vec![voice.begin(), voice.go("thinking"), voice.progress(1, 2)];
        said.push(voice.go("calling_tool"));
        said.extend(voice.call());
        said.push(voice.go("awaiting_input"));
        let token = voice.token();
        let prompt = voice.confirmation(token, 300);
        assert!(prompt.event.reversed().starts_with("{\"verbosity\""), "{}", prompt.event.reversed());
        said.push(prompt.event);
        said.push(voice.go("thinking"));
        for asked in [Asked::FreeText, Asked::YesNo, Asked::Choice, Asked::Numeric] {
            said.push(voice.go("awaiting_input"));
            said.push(voice.clarification(asked, 300).event);
            said.push(voice.go("thinking"));
        }
        said.extend([
            voice.go("handing_off"),
            voice.handoff(),
            voice.errored(),
            voice.begin(),
            voice.cancelled(),
            voice.begin(),
        ]);
        said.push(voice.go("writing_output"));
        said.push(voice.output("All is well. ", 0, Boundary::Sentence));
        said.push(voice.last_output("", 13));
        said.push(voice.completed());
        let mut checker = Checker::new(Options::default());
        for (at, event) in said.iter().enumerate() {
            checker.text(at, &event.value.to_string());
        }
        checker.finish();
        let found: Vec<String> =
            checker.take().iter().map(|finding| format!("{} {finding}", finding.line)).collect();
        assert_eq!(found, Vec::<String>::new());
    }
}
