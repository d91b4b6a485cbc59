//! Decides how the scripted subscriber reacts: open prompts, replies and their times, and events to drop. No I/O;
//! [`super::client`] sends and receives.

use std::collections::VecDeque;
use std::time::Duration;

use recount_aaep::Kind;
use recount_aaep::kind::{CONTEXT, PREFIX, TypeClass, classify};
use recount_aaep::lex::time::Moment;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Fault, Replies, SubscriberBehaviour};
use crate::limits;

/// A reply that is sent later.
struct Pending {
    at: Instant,
    session: String,
    reply: Value,
}

/// The reaction to a message.
#[derive(Debug, PartialEq)]
pub(super) enum Reaction {
    /// The client has nothing to do.
    Nothing,
    /// The handshake was accepted.
    Accepted(Value),
    /// The handshake was rejected; retry after this long.
    Rejected(Duration),
    /// The producer closes.
    Closed,
    /// A fault ends the subscriber.
    Ends(String),
}

pub(super) struct Reactions {
    behaviour: SubscriberBehaviour,
    /// The subscription id for replies.
    pub(super) subscription: Option<String>,
    pending: Vec<Pending>,
    /// Ids of processed events.
    used: VecDeque<String>,
    /// For a fault: whether a session has started since the connection opened.
    in_session: bool,
    /// For a fault: the start of the current second in milliseconds since 1970, and its number of events.
    second: Option<(i64, u32)>,
    drawn: u64,
}

impl Reactions {
    pub(super) fn new(behaviour: SubscriberBehaviour) -> Reactions {
        Reactions {
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

    pub(super) fn handle(&mut self, text: &str, now: Instant, now_ms: u64) -> Reaction {
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
        let text_field = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        if let Some(why) = self.fault_of_event(&event) {
            return Reaction::Ends(why);
        }
        let id = text_field("event_id").to_owned();
        if self.used.contains(&id) && !self.is(Fault::AnswersTwice) {
            return Reaction::Nothing;
        }
        if self.used.len() >= limits::SCRIPT_IDS {
            self.used.pop_front();
        }
        self.used.push_back(id);
        let kind = match classify(text_field("type")) {
            TypeClass::Core(kind) => kind,
            _ => return Reaction::Nothing,
        };
        if self.is(Fault::CompactNamesOnly) && !text_field("type").starts_with(PREFIX) {
            return Reaction::Nothing;
        }
        self.in_session = self.in_session || kind == Kind::SessionStarted;
        let session = text_field("session_id").to_owned();
        match kind {
            Kind::AwaitingConfirmation | Kind::AwaitingClarification if self.in_session => {
                self.prompt(kind, &event, session, now, now_ms);
            }
            Kind::StateChanged if text_field("from_state") == "awaiting_input" => self.withdraw(&session),
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

    /// Applies faults in reading texts; returns the text to process, if any.
    fn fault_of_text(&mut self, text: &str) -> Result<Option<String>, String> {
        let Some(fault) = self.behaviour.fault else { return Ok(Some(text.to_owned())) };
        let held = match fault {
            Fault::ReadsHalfEvents if serde_json::from_str::<Value>(text).is_err() => {
                // The part up to the last complete field.
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
                // Uses the timestamps of events: on a busy machine a burst takes longer to read than to build.
                let event: Value = serde_json::from_str(text).unwrap_or_default();
                let created = event.get("timestamp").and_then(Value::as_str).and_then(Moment::parse);
                let created_ms = created.map_or(0, |created| created.millis());
                let (began_ms, count) = match self.second {
                    Some((began_ms, count)) => {
                        let is_deaf = count > limits::SCRIPT_RATE;
                        let lasts = if is_deaf { limits::SCRIPT_DEAF_MS } else { 1_000 };
                        if created_ms - began_ms < lasts { (began_ms, count + 1) } else { (created_ms, 1) }
                    }
                    None => (created_ms, 1),
                };
                self.second = Some((began_ms, count));
                (count <= limits::SCRIPT_RATE).then(|| text.to_owned())
            }
            _ => Some(text.to_owned()),
        };
        Ok(held)
    }

    /// Applies faults in handling events; returns why the subscriber ends.
    fn fault_of_event(&self, event: &Value) -> Option<String> {
        let text_field = |name: &str| event.get(name).and_then(Value::as_str);
        match self.behaviour.fault? {
            Fault::EndsAtUnknownType => {
                let kind = text_field("type")?;
                (classify(kind) == TypeClass::Extension).then(|| format!("unknown type {kind}"))
            }
            Fault::EndsAtExtension => event.get("extensions").map(|_| "unknown extension".to_owned()),
            Fault::EndsAtUnknownState => {
                let known =
                    ["idle", "thinking", "calling_tool", "writing_output", "awaiting_input", "deciding"];
                text_field("to_state")
                    .filter(|state| !known.contains(state))
                    .map(|state| format!("unknown state {state}"))
            }
            Fault::EndsAtNewWord => {
                let known = ["background", "normal", "critical"];
                text_field("urgency")
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
        let delay =
            if short { limits::TRIAL_SECOND + limits::TRIAL_LATE * 2 } else { self.behaviour.reply_delay };
        if self.pending.len() >= limits::SCRIPT_PENDING {
            self.pending.remove(0);
        }
        if self.is(Fault::MakesTokensUp) {
            self.drawn += 1;
            let mut other = reply.clone();
            other["reply_token"] = format!("rpl_made{}", self.drawn).into();
            self.pending.push(Pending { at: now + delay, session: session.clone(), reply: other });
        }
        self.pending.push(Pending { at: now + delay, session, reply });
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

/// The meaning of a message about the subscription.
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
