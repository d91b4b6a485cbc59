//! Decides how the scripted subscriber reacts: which prompts are open, what to answer and when, and what to drop. No
//! I/O; [`super::client`] sends and receives.

use std::collections::VecDeque;
use std::time::Duration;

use recount_aaep::Kind;
use recount_aaep::kind::{CONTEXT, Named, PREFIX, named};
use recount_aaep::lex::time::Moment;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Fault, Replies, SubscriberBehaviour};
use crate::limits;

/// A reply that is being thought about.
struct Pending {
    at: Instant,
    session: String,
    reply: Value,
}

/// What comes of something that was heard.
#[derive(Debug, PartialEq)]
pub(super) enum Reaction {
    /// Nothing that the client has to do.
    Nothing,
    /// The handshake was answered with yes.
    Accepted(Value),
    /// It was answered with no; come again after so long.
    Rejected(Duration),
    /// The producer closes.
    Closed,
    /// A fault of the subscriber's: it ends.
    Ends(String),
}

pub(super) struct Mind {
    behaviour: SubscriberBehaviour,
    /// The subscription that replies name.
    pub(super) subscription: Option<String>,
    pending: Vec<Pending>,
    /// Ids of events that were used.
    used: VecDeque<String>,
    /// For a fault: whether a session has started since the connection opened.
    in_session: bool,
    /// For a fault: when the second in hand began, in milliseconds since 1970, and the events of it.
    second: Option<(i64, u32)>,
    drawn: u64,
}

impl Mind {
    pub(super) fn new(behaviour: SubscriberBehaviour) -> Mind {
        Mind {
            behaviour,
            subscription: None,
            pending: Vec::new(),
            used: VecDeque::new(),
            in_session: true,
            second: None,
            drawn: 0,
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.behaviour.fault == Some(fault)
    }

    /// The connection was cut; open prompts stay open.
    pub(super) fn cut(&mut self) {
        self.in_session = !self.is(Fault::ForgetsMissed);
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.pending.iter().map(|pending| pending.at).min()
    }

    /// The replies that are due, oldest prompt first.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Value> {
        let (due, later) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.at <= now);
        self.pending = later;
        let due: Vec<Pending> = due;
        due.into_iter().map(|pending| pending.reply).collect()
    }

    pub(super) fn hear(&mut self, text: &str, now: Instant, now_ms: u64) -> Reaction {
        let text = match self.fault_of_text(text) {
            Ok(Some(text)) => text,
            Ok(None) => return Reaction::Nothing,
            Err(why) => return Reaction::Ends(why),
        };
        let event = match serde_json::from_str::<Value>(&text) {
            Ok(event) => event,
            Err(why) if self.is(Fault::EndsAtBrokenJson) => return Reaction::Ends(format!("no JSON: {why}")),
            Err(_) => return Reaction::Nothing,
        };
        if let Some(answer) = handshake(&event) {
            return answer;
        }
        let context = event.get("@context");
        let first = context.and_then(|context| context.as_str().or_else(|| context.get(0)?.as_str()));
        if first != Some(CONTEXT) && !self.is(Fault::ForeignContext) {
            return Reaction::Nothing;
        }
        let word = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        if let Some(why) = self.fault_of_event(&event) {
            return Reaction::Ends(why);
        }
        let id = word("event_id").to_owned();
        if self.used.contains(&id) && !self.is(Fault::AnswersTwice) {
            return Reaction::Nothing;
        }
        if self.used.len() >= limits::SCRIPT_IDS {
            self.used.pop_front();
        }
        self.used.push_back(id);
        let kind = match named(word("type")) {
            Named::Core(kind) => kind,
            _ => return Reaction::Nothing,
        };
        if self.is(Fault::CompactNamesOnly) && !word("type").starts_with(PREFIX) {
            return Reaction::Nothing;
        }
        self.in_session = self.in_session || kind == Kind::SessionStarted;
        let session = word("session_id").to_owned();
        match kind {
            Kind::AwaitingConfirmation | Kind::AwaitingClarification if self.in_session => {
                self.prompt(kind, &event, session, now, now_ms);
            }
            Kind::StateChanged if word("from_state") == "awaiting_input" => self.withdraw(&session),
            kind if kind.is_terminal() => self.withdraw(&session),
            _ => {}
        }
        Reaction::Nothing
    }

    fn withdraw(&mut self, session: &str) {
        if !self.is(Fault::AnswersWithdrawn) && !self.is(Fault::AnswersLate) {
            self.pending.retain(|pending| pending.session != session);
        }
    }

    /// Faults in reading texts; the text as it is taken, or nothing.
    fn fault_of_text(&mut self, text: &str) -> Result<Option<String>, String> {
        let Some(fault) = self.behaviour.fault else { return Ok(Some(text.to_owned())) };
        let held = match fault {
            Fault::ReadsHalfEvents if serde_json::from_str::<Value>(text).is_err() => {
                // What is there up to the last whole field.
                let end = text.rfind(',').unwrap_or(0);
                Some(format!("{}}}", &text[..end]))
            }
            Fault::ForgivesCommas => Some(text.replace(",}", "}")),
            Fault::ReadsOneLine => Some(text.lines().next().unwrap_or_default().to_owned()),
            Fault::WantsKeyOrder if !text.starts_with("{\"@context\"") && text.contains("@context") => None,
            Fault::WantsComposedText if text.contains(|c| matches!(c, '\u{300}'..='\u{36f}')) => None,
            Fault::SmallEventsOnly if text.len() > limits::SCRIPT_SMALL_BYTES => None,
            Fault::EndsAtLargeEvent if text.len() > recount_aaep::limits::EVENT_BYTES_SOFT => {
                return Err(format!("an event of {} bytes", text.len()));
            }
            Fault::DropsInBursts => {
                // By the times that the events carry: on a busy machine a burst takes longer to read than to make.
                let event: Value = serde_json::from_str(text).unwrap_or_default();
                let made = event.get("timestamp").and_then(Value::as_str).and_then(Moment::parse);
                let made_ms = made.map_or(0, |made| made.millis());
                let (began_ms, count) = match self.second {
                    Some((began_ms, count)) => {
                        let is_deaf = count > limits::SCRIPT_RATE;
                        let lasts = if is_deaf { limits::SCRIPT_DEAF_MS } else { 1_000 };
                        if made_ms - began_ms < lasts { (began_ms, count + 1) } else { (made_ms, 1) }
                    }
                    None => (made_ms, 1),
                };
                self.second = Some((began_ms, count));
                (count <= limits::SCRIPT_RATE).then(|| text.to_owned())
            }
            _ => Some(text.to_owned()),
        };
        Ok(held)
    }

    /// Faults in bearing events: why it ends.
    fn fault_of_event(&self, event: &Value) -> Option<String> {
        let word = |name: &str| event.get(name).and_then(Value::as_str);
        match self.behaviour.fault? {
            Fault::EndsAtUnknownType => {
                let kind = word("type")?;
                (named(kind) == Named::Extension).then(|| format!("unknown type {kind}"))
            }
            Fault::EndsAtExtension => event.get("extensions").map(|_| "unknown extension".to_owned()),
            Fault::EndsAtUnknownState => {
                let known =
                    ["idle", "thinking", "calling_tool", "writing_output", "awaiting_input", "deciding"];
                word("to_state")
                    .filter(|state| !known.contains(state))
                    .map(|state| format!("unknown state {state}"))
            }
            Fault::EndsAtNewWord => {
                let known = ["background", "normal", "critical"];
                word("urgency")
                    .filter(|word| !known.contains(word))
                    .map(|word| format!("unknown urgency {word}"))
            }
            _ => None,
        }
    }

    fn prompt(&mut self, kind: Kind, event: &Value, session: String, now: Instant, now_ms: u64) {
        let replies = match (self.behaviour.replies, self.behaviour.fault) {
            (_, Some(Fault::NeverReplies)) => return,
            (Replies::Never, Some(Fault::AnswersUnasked)) => Replies::Accept,
            (Replies::Never, _) => return,
            (replies, _) => replies,
        };
        let Some(token) = event.get("reply_token").and_then(Value::as_str) else { return };
        let seconds = event.get("timeout_seconds").and_then(Value::as_u64).unwrap_or_default();
        let sent_at = event.get("timestamp").and_then(Value::as_str).and_then(Moment::parse);
        let age = sent_at
            .map_or(0, |sent_at| now_ms.saturating_sub(u64::try_from(sent_at.millis()).unwrap_or_default()));
        if age > seconds * 1_000 && !self.is(Fault::AnswersLate) {
            return;
        }
        let body = if kind == Kind::AwaitingConfirmation {
            self.decision(replies, event)
        } else {
            self.response(event).map(|response| ("response", response))
        };
        let Some((field, value)) = body else { return };
        let name =
            if kind == Kind::AwaitingConfirmation { "confirmation.reply" } else { "clarification.reply" };
        let mut reply = json!({
            "type": name, "reply_token": self.token(token), "timestamp": Moment::write(i64::try_from(now_ms).unwrap_or_default()),
            "decided_by": "script",
        });
        reply[field] = value;
        if let Some(subscription) = &self.subscription {
            reply["subscription_id"] = subscription.as_str().into();
        }
        if let (true, Some(fields)) = (self.is(Fault::RepliesWithoutTime), reply.as_object_mut()) {
            fields.remove("timestamp");
        }
        if self.is(Fault::OnePromptOnly) {
            self.pending.clear();
        }
        let short = seconds <= 1 && self.is(Fault::AnswersLate);
        let thinks =
            if short { limits::TRIAL_SECOND + limits::TRIAL_LATE * 2 } else { self.behaviour.thinks };
        if self.pending.len() >= limits::SCRIPT_PENDING {
            self.pending.remove(0);
        }
        if self.is(Fault::MakesTokensUp) {
            self.drawn += 1;
            let mut other = reply.clone();
            other["reply_token"] = format!("rpl_made{}", self.drawn).into();
            self.pending.push(Pending { at: now + thinks, session: session.clone(), reply: other });
        }
        self.pending.push(Pending { at: now + thinks, session, reply });
    }

    fn token(&self, token: &str) -> String {
        match self.behaviour.fault {
            Some(Fault::CutsTokens) => token.chars().take(limits::SCRIPT_TOKEN_CHARS).collect(),
            Some(Fault::FoldsTokens) => token.to_ascii_lowercase(),
            _ => token.to_owned(),
        }
    }

    fn decision(&self, replies: Replies, event: &Value) -> Option<(&'static str, Value)> {
        let set_up = if replies == Replies::Reject { "reject" } else { "accept" };
        let decision = match (self.is(Fault::DecidesOtherwise), set_up) {
            (true, "accept") => "reject",
            (true, _) => "accept",
            (false, set_up) => set_up,
        };
        let allowed = event.get("allowed_replies").and_then(Value::as_array);
        let may = allowed.is_none_or(|allowed| allowed.iter().any(|word| word == decision));
        (may || self.is(Fault::DecidesAnything)).then(|| ("decision", decision.into()))
    }

    fn response(&self, event: &Value) -> Option<Value> {
        if self.is(Fault::AnswersInWords) {
            return Some("Lagos".into());
        }
        let kinds = event.get("accepted_response_kinds").and_then(Value::as_array);
        match kinds.and_then(|kinds| kinds.first()?.as_str()).unwrap_or("freetext") {
            "yes_no" => Some(true.into()),
            "numeric" => Some(20.into()),
            "multiple_choice" => event.get("choices")?.get(0)?.get("value").cloned(),
            "freetext" => Some("Lagos".into()),
            _ => None,
        }
    }
}

/// What a message that is no event says of the subscription.
pub(super) fn handshake(message: &Value) -> Option<Reaction> {
    let kind = message.get("type")?.as_str()?;
    match kind.strip_prefix(PREFIX).unwrap_or(kind) {
        "subscription.accepted" => Some(Reaction::Accepted(message.clone())),
        "subscription.rejected" => {
            let seconds = message.get("retry_after_seconds").and_then(Value::as_u64).unwrap_or(1);
            Some(Reaction::Rejected(Duration::from_secs(seconds).min(limits::SCRIPT_PAUSE_MAX)))
        }
        "subscription.close" => Some(Reaction::Closed),
        _ => None,
    }
}
