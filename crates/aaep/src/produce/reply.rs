//! Processes replies of subscribers. It must not know the sender; the transport checks that.

use super::open::{PromptHandle, PromptRequest};
use super::prompt::{AppliedDefault, Settlement, response_mismatch};
use super::stamp::Stamp;
use super::{Misuse, ProducerSession};
use crate::json::Reader;
use crate::lex::time::Moment;
use crate::reading::Reading;
use crate::rule::{Findings, Profile, Severity, check_message, message_kind};
use crate::table::MessageKind;
use crate::wire::{Decision, Event, Message, ReplyToken, Response, Timestamp};

/// The outcome of a reply. Subscribers do not get it; they see the events (§6.3.4).
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyOutcome {
    /// The call may start.
    Accepted {
        prompt: PromptHandle,
    },
    /// The call may not start. An acceptance of a changed action counts as a rejection (§6.3.2).
    Rejected {
        prompt: PromptHandle,
        modified: bool,
    },
    Answered {
        prompt: PromptHandle,
        response: Response,
    },
    /// The prompt had timed out, by the producer's clock or by the reply's timestamp.
    Late {
        prompt: PromptHandle,
    },
    /// The open prompt does not allow this reply; the prompt stays open.
    NotAllowed {
        prompt: PromptHandle,
        reason: String,
    },
    /// The prompt is already settled.
    Settled,
    /// No prompt of this session has the token.
    Unknown,
    /// It is not a valid reply of the protocol.
    Malformed {
        reason: String,
    },
}

/// The outcome of a reply, and the events to send.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyResult {
    pub outcome: ReplyOutcome,
    /// The prompt that timed out before the reply arrived.
    pub default: Option<(PromptHandle, AppliedDefault)>,
    pub events: Vec<Event>,
}

enum Reply {
    Decision { decision: Decision, modified: bool },
    Response(Response),
}

impl ProducerSession {
    /// Processes a reply: the JSON text of a `confirmation.reply` or a `clarification.reply`. The first valid one
    /// before the deadline counts. An overdue default is applied first.
    pub fn receive(&mut self, stamp: Stamp, json: &str) -> Result<ReplyResult, Misuse> {
        let open_token = self.open_token().cloned();
        let advanced = self.advance(stamp)?;
        let mut received = ReplyResult {
            outcome: ReplyOutcome::Unknown,
            default: advanced.default,
            events: advanced.events,
        };
        let (token, timestamp, reply) = match read(json) {
            Ok(read) => read,
            Err(reason) => {
                received.outcome = ReplyOutcome::Malformed { reason };
                return Ok(received);
            }
        };
        let Some(prompt) = self.prompt.as_ref().filter(|prompt| prompt.token == token) else {
            received.outcome = match &received.default {
                Some((prompt, _)) if open_token == Some(token.clone()) => {
                    ReplyOutcome::Late { prompt: *prompt }
                }
                _ if self.settled.contains(&token) => ReplyOutcome::Settled,
                _ => ReplyOutcome::Unknown,
            };
            return Ok(received);
        };
        let handle = prompt.handle;
        let micros = Moment::parse(timestamp.as_str()).map_or(i64::MAX, |moment| moment.micros);
        if micros > prompt.deadline_ms.saturating_mul(1_000) {
            received.outcome = ReplyOutcome::Late { prompt: handle };
            return Ok(received);
        }
        let not_allowed =
            |reason: &str| ReplyOutcome::NotAllowed { prompt: handle, reason: reason.to_owned() };
        let (settlement, outcome) = match (&prompt.request, reply) {
            (PromptRequest::Confirmation { prompt, .. }, Reply::Decision { decision, modified }) => {
                if !prompt.allows(&decision) {
                    received.outcome =
                        not_allowed(&format!("`{decision}` is not an allowed reply of the prompt"));
                    return Ok(received);
                }
                if decision == Decision::Accept && !modified {
                    (Settlement::Accepted, ReplyOutcome::Accepted { prompt: handle })
                } else {
                    (Settlement::Rejected, ReplyOutcome::Rejected { prompt: handle, modified })
                }
            }
            (PromptRequest::Clarification(question), Reply::Response(response)) => {
                match response_mismatch(question, &response) {
                    Some(reason) => {
                        received.outcome = not_allowed(&reason);
                        return Ok(received);
                    }
                    None => (Settlement::Answered, ReplyOutcome::Answered { prompt: handle, response }),
                }
            }
            (PromptRequest::Confirmation { .. }, Reply::Response(_)) => {
                received.outcome = not_allowed("a clarification reply was sent to a confirmation prompt");
                return Ok(received);
            }
            (PromptRequest::Clarification(_), Reply::Decision { .. }) => {
                received.outcome = not_allowed("a confirmation reply was sent to a clarification prompt");
                return Ok(received);
            }
        };
        received.events.extend(self.settle(stamp, &settlement)?);
        received.outcome = outcome;
        Ok(received)
    }
}

fn read(json: &str) -> Result<(ReplyToken, Timestamp, Reply), String> {
    let mut reader = Reader::new();
    let doc = reader.read(json).map_err(|error| error.to_string())?;
    let reading = Reading::of(doc).ok_or("a reply must be a JSON object")?;
    let kind = message_kind(&reading)
        .filter(|kind| matches!(kind, MessageKind::ConfirmationReply | MessageKind::ClarificationReply))
        .ok_or("`type` must be `confirmation.reply` or `clarification.reply`")?;
    let mut findings = Findings::new(Profile::Strict);
    check_message(kind, &reading, &mut findings);
    if let Some(finding) = findings.take().into_iter().find(|finding| finding.severity == Severity::Error) {
        return Err(finding.to_string());
    }
    match Message::parse(json).map_err(|error| error.to_string())? {
        Message::ConfirmationReply(reply) => {
            let modified = reply.modified_action.is_some() && reply.decision == Decision::Accept;
            let decision = Reply::Decision { decision: reply.decision, modified };
            Ok((reply.reply_token, reply.timestamp, decision))
        }
        Message::ClarificationReply(reply) => {
            Ok((reply.reply_token, reply.timestamp, Reply::Response(reply.response)))
        }
        _ => Err("it is not a reply".to_owned()),
    }
}
