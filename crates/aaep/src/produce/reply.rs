//! Replies of subscribers: what became of each. It must not know who sent them; that is for the transport to check.

use super::open::{PromptAsk, PromptHandle};
use super::prompt::{AppliedDefault, Verdict, misfit};
use super::stamp::Stamp;
use super::{Misuse, ProducerSession};
use crate::json::Reader;
use crate::lex::time::Moment;
use crate::reading::Reading;
use crate::rule::{Findings, Profile, Severity, check_message, message_kind};
use crate::table::MessageKind;
use crate::wire::{Decision, Event, Message, ReplyToken, Response, Timestamp};

/// What became of a reply. Subscribers are told none of it: they see the events (§6.3.4).
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyOutcome {
    /// The call may begin.
    Accepted {
        prompt: PromptHandle,
    },
    /// The call may not begin. An acceptance of a changed action counts as a rejection (§6.3.2).
    Rejected {
        prompt: PromptHandle,
        modified: bool,
    },
    Answered {
        prompt: PromptHandle,
        response: Response,
    },
    /// The time of the prompt was up, by the producer's clock or by the reply's own timestamp.
    Late {
        prompt: PromptHandle,
    },
    /// It is for the open prompt and nothing that the prompt takes; the prompt stays open.
    NotTaken {
        prompt: PromptHandle,
        reason: String,
    },
    /// The prompt had its reply, its default or its end.
    Settled,
    /// No prompt of this session has the token.
    Unknown,
    /// It is no reply as the protocol defines it.
    Malformed {
        reason: String,
    },
}

/// A reply's outcome, and what has to be sent now.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    pub outcome: ReplyOutcome,
    /// The prompt whose time was up when the reply came.
    pub default: Option<(PromptHandle, AppliedDefault)>,
    pub events: Vec<Event>,
}

enum Reply {
    Decision { decision: Decision, modified: bool },
    Response(Response),
}

impl ProducerSession {
    /// Takes a reply: the JSON text of a `confirmation.reply` or a `clarification.reply`. The first valid one before the
    /// deadline counts. A default that is due is applied first.
    pub fn receive(&mut self, stamp: Stamp, json: &str) -> Result<Received, Misuse> {
        let open_token = self.open_token().cloned();
        let advanced = self.advance(stamp)?;
        let mut received =
            Received { outcome: ReplyOutcome::Unknown, default: advanced.default, events: advanced.events };
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
        let not_taken = |reason: &str| ReplyOutcome::NotTaken { prompt: handle, reason: reason.to_owned() };
        let (verdict, outcome) = match (&prompt.asks, reply) {
            (PromptAsk::Confirmation { prompt, .. }, Reply::Decision { decision, modified }) => {
                if !prompt.allows(&decision) {
                    received.outcome =
                        not_taken(&format!("`{decision}` is not an allowed reply of the prompt"));
                    return Ok(received);
                }
                if decision == Decision::Accept && !modified {
                    (Verdict::Accepted, ReplyOutcome::Accepted { prompt: handle })
                } else {
                    (Verdict::Rejected, ReplyOutcome::Rejected { prompt: handle, modified })
                }
            }
            (PromptAsk::Clarification(question), Reply::Response(response)) => {
                match misfit(question, &response) {
                    Some(reason) => {
                        received.outcome = not_taken(&reason);
                        return Ok(received);
                    }
                    None => (Verdict::Answered, ReplyOutcome::Answered { prompt: handle, response }),
                }
            }
            (PromptAsk::Confirmation { .. }, Reply::Response(_)) => {
                received.outcome = not_taken("a clarification reply was sent to a confirmation prompt");
                return Ok(received);
            }
            (PromptAsk::Clarification(_), Reply::Decision { .. }) => {
                received.outcome = not_taken("a confirmation reply was sent to a clarification prompt");
                return Ok(received);
            }
        };
        received.events.extend(self.settle(stamp, &verdict)?);
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
