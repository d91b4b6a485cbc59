//! What an event or a message says, as one sentence to be heard. Judges nothing: what is missing is
//! told as missing, and what is wrong is a rule's to say.

use super::aaep::field::Field;
use super::aaep::json::Node;
use super::aaep::kind::Kind;
use super::aaep::{MessageKind, Reading};
use super::said::{Piece, Saying};
use super::time;
use crate::limits;

/// Tells an event of the protocol.
pub(super) fn event(kind: Kind, event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    match kind {
        Kind::SessionStarted => started(event, tongue, said),
        Kind::SessionCompleted => {
            said.words("The session completes");
            summary(event, tongue, said);
            text_behind(event, Field::OutputSummary, " Its result: ", tongue, said);
        }
        Kind::SessionErrored => errored(event, tongue, said),
        Kind::SessionCancelled => {
            said.words("The session is cancelled by ");
            name(event, Field::CancelledBy, "nobody in particular", said);
            name_behind(event, Field::CancellationReason, ", because of ", said);
            summary(event, tongue, said);
            text_behind(event, Field::PartialResult, " Its result so far: ", tongue, said);
        }
        Kind::StateChanged => changed(event, tongue, said),
        Kind::ProgressUpdated => progress(event, tongue, said),
        Kind::ToolInvoked => invoked(event, tongue, said),
        Kind::ToolCompleted => {
            said.words("The tool ");
            name(event, Field::Tool, "without a name", said);
            said.words(" is back: ");
            name(event, Field::Status, "no status", said);
            duration(event, Field::DurationMs, " after ", said);
            summary(event, tongue, said);
            text_behind(event, Field::ErrorMessage, " Its error: ", tongue, said);
        }
        Kind::OutputStreaming => output(event, tongue, said),
        Kind::AwaitingConfirmation => confirmation(event, tongue, said),
        Kind::AwaitingClarification => clarification(event, tongue, said),
        Kind::HandoffRequested => {
            agent(event, said);
            said.words(" hands over to ");
            name(event, Field::TargetKind, "nobody in particular", said);
            text_behind(event, Field::Reason, ", because: ", tongue, said);
            if !event.has(Field::Reason) {
                said.words(".");
            }
            spoken(event, Field::Reason, tongue, said);
        }
    }
}

/// Tells an event of an extension, or of a type that there is not.
pub(super) fn other_event(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    match event.text(Field::Type) {
        Some(kind) => said.words("An event of the type ").name(&kind),
        None => said.words("An event without a type"),
    };
    summary(event, tongue, said);
}

/// Tells a message that is no event. Replies name their prompt, which who follows knows.
pub(super) fn message(kind: MessageKind, message: &Reading<'_>, said: &mut Saying) {
    let node = message.node();
    let id = |said: &mut Saying| {
        member(node, "subscription_id", " ", said);
    };
    match kind {
        MessageKind::SubscriptionRequest => {
            said.words("A subscriber asks for a subscription");
            member(node, "subscriber_id", ": ", said);
            said.words(".");
        }
        MessageKind::SubscriptionAccepted => {
            said.words("The subscription");
            id(said);
            said.words(" is accepted.");
        }
        MessageKind::SubscriptionRejected => {
            said.words("The subscription is rejected");
            member(node, "reason_code", ": ", said);
            words_of(node, "reason_message", ", ", said);
            said.stop();
        }
        MessageKind::SubscriptionRenegotiate => {
            said.words("The subscriber of");
            id(said);
            said.words(" asks for other terms.");
        }
        MessageKind::SubscriptionClose => {
            said.words("The subscription");
            id(said);
            said.words(" is closed");
            member(node, "reason_code", ": ", said);
            words_of(node, "reason_message", ", ", said);
            said.stop();
        }
        MessageKind::ConfirmationReply => {
            said.words("The reply is ");
            member(node, "decision", "", said);
            words_of(node, "decision_rationale", ", because: ", said);
            said.stop();
            by(node, said);
        }
        MessageKind::ClarificationReply => {
            said.words("The reply is ");
            match node.get("response") {
                Some(response) => match response.str() {
                    Some(text) => said.text(&text, 0),
                    None => said.name(response.source()),
                },
                None => said.words("empty"),
            };
            said.stop();
            by(node, said);
        }
        MessageKind::ProducerManifest => {
            said.words("The manifest of a producer");
            member(node, "agent_id", ": ", said);
            said.words(".");
        }
    }
}

fn by(node: Node<'_>, said: &mut Saying) {
    if node.get("decided_by").is_some() {
        member(node, "decided_by", " It is given by ", said);
        said.words(".");
    }
}

fn started(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    said.words("The session starts");
    summary(event, tongue, said);
    if event.has(Field::RequestText) || event.has(Field::RequestedBy) {
        said.words(" It is asked for");
        name_behind(event, Field::RequestedBy, " by ", said);
        match event.text(Field::RequestText) {
            Some(text) => said.words(": ").text(&text, tongue).stop(),
            None => said.words("."),
        };
    }
    expected(event, said);
}

fn errored(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    said.words("The session ends with an error of the category ");
    name(event, Field::ErrorCategory, "that is missing", said);
    name_behind(event, Field::ErrorCode, ", ", said);
    summary(event, tongue, said);
    match event.bool(Field::Recoverable) {
        Some(true) => _ = said.words(" It can be repaired."),
        Some(false) => _ = said.words(" It cannot be repaired."),
        None => {}
    }
    text_behind(event, Field::RemediationHint, " What helps: ", tongue, said);
}

fn changed(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    agent(event, said);
    let (from, to) = (event.text(Field::FromState), event.text(Field::ToState));
    if from.is_some() && from == to {
        said.words(" stays in the state ");
    } else {
        said.words(" goes from ");
        name(event, Field::FromState, "no state", said);
        said.words(" to ");
    }
    name(event, Field::ToState, "no state", said);
    summary(event, tongue, said);
    expected(event, said);
}

fn progress(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    said.words("Progress");
    if let Some(progress) = event.get(Field::Progress) {
        let number = |name: &str, front: &str, behind: &str, said: &mut Saying| {
            if let Some(number) = progress.get(name).filter(|node| node.number().is_some()) {
                said.words(front).name(number.raw()).words(behind);
            }
        };
        number("percent", ": ", " percent", said);
        number("step", ", step ", "", said);
        number("total_steps", " of ", "", said);
        if let Some(text) = progress.get("description").and_then(Node::str) {
            said.words(", ").text(&text, tongue);
        }
    }
    duration(event, Field::EtaMs, ", to go: ", said);
    summary(event, tongue, said);
}

fn invoked(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    agent(event, said);
    said.words(" calls the tool ");
    name(event, Field::Tool, "without a name", said);
    summary(event, tongue, said);
    stakes(event, said);
    text_behind(event, Field::Description, " It does: ", tongue, said);
    text_behind(event, Field::ArgsSummary, " With: ", tongue, said);
    expected(event, said);
}

/// Behind what is to be done: how grave it is.
fn stakes(event: &Reading<'_>, said: &mut Saying) {
    let for_ever =
        event.bool(Field::Irreversible) == Some(true) || event.is(Field::Reversibility, "irreversible");
    if for_ever {
        said.words(" It cannot be undone.");
    }
    if let Some(risk) = event.text(Field::RiskLevel) {
        said.words(" Its risk is ").name(&risk).words(".");
    }
}

fn output(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    let complete = event.bool(Field::Complete) == Some(true);
    agent(event, said);
    said.words(if complete { " writes the last piece" } else { " writes a piece" });
    name_behind(event, Field::OutputId, " of ", said);
    if let Some(position) = event.int(Field::Position) {
        said.format(format_args!(", from character {position}"));
    }
    match event.text(Field::Chunk) {
        Some(chunk) if chunk.is_empty() => _ = said.words(", which is empty."),
        Some(chunk) => _ = said.words(": ").text(&chunk, tongue).stop(),
        None => _ = said.words("."),
    }
}

fn confirmation(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    agent(event, said);
    said.words(" asks for leave");
    text_behind(event, Field::Action, ": ", tongue, said);
    if !event.has(Field::Action) {
        said.words(".");
    }
    stakes(event, said);
    text_behind(event, Field::Consequence, " What follows from it: ", tongue, said);
    spoken(event, Field::Action, tongue, said);
    deadline(event, said);
    if event.has(Field::DefaultDecision) {
        name_behind(event, Field::DefaultDecision, "", said);
        said.words(".");
    } else {
        said.words("nothing is said.");
    }
}

fn clarification(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    agent(event, said);
    said.words(" asks");
    text_behind(event, Field::Question, ": ", tongue, said);
    if !event.has(Field::Question) {
        said.words(".");
    }
    text_behind(event, Field::AnswerContext, " About it: ", tongue, said);
    if let Some(choices) = event.get(Field::Choices) {
        let mut count = 0;
        for choice in choices.items() {
            count += 1;
            if count > limits::TRACE_CHOICES_MAX {
                continue;
            }
            said.words(if count == 1 { " Choices: " } else { ", " });
            match choice.get("label").or(choice.get("value")).and_then(Node::str) {
                Some(label) => said.text(&label, tongue),
                None => said.words("one without a label"),
            };
        }
        if count > limits::TRACE_CHOICES_MAX {
            said.format(format_args!(" and {} more", count - limits::TRACE_CHOICES_MAX));
        }
        said.words(".");
    }
    spoken(event, Field::Question, tongue, said);
    deadline(event, said);
    match event.text(Field::DefaultResponse) {
        Some(text) => said.text(&text, tongue).stop(),
        None => said.words("no answer."),
    };
}

fn deadline(event: &Reading<'_>, said: &mut Saying) {
    match event.int(Field::TimeoutSeconds) {
        Some(seconds) => said
            .words(" Without a reply within ")
            .words(&time::span(seconds.saturating_mul(1_000)))
            .words(": "),
        None => said.words(" Without a reply: "),
    };
}

/// Who says it, at the beginning of a sentence.
fn agent(event: &Reading<'_>, said: &mut Saying) {
    match event.agent() {
        Some(agent) => said.name(&agent),
        None => said.words("A producer without a name"),
    };
}

/// What is said aloud of the event.
fn summary(event: &Reading<'_>, tongue: u8, said: &mut Saying) {
    match aloud(event) {
        Some(text) => said.words(": ").text(&text, tongue).stop(),
        None => said.words("."),
    };
}

/// The same where the text of a prompt has been told, unless it says no more than that.
fn spoken(event: &Reading<'_>, asked: Field, tongue: u8, said: &mut Saying) {
    let asked = event.text(asked);
    if let Some(text) = aloud(event).filter(|text| asked.as_ref() != Some(text)) {
        said.words(" It says: ").text(&text, tongue).stop();
    }
}

fn aloud<'d>(event: &Reading<'d>) -> Option<std::borrow::Cow<'d, str>> {
    let fields = [Field::SummaryNormal, Field::SummaryTerse, Field::SummaryDetailed];
    fields.into_iter().find_map(|field| event.text(field))
}

fn expected(event: &Reading<'_>, said: &mut Saying) {
    if duration(event, Field::ExpectedDurationMs, " It is to take ", said) {
        said.words(".");
    }
}

fn duration(event: &Reading<'_>, field: Field, front: &str, said: &mut Saying) -> bool {
    let Some(ms) = event.int(field) else { return false };
    said.words(front).words(&time::span(ms));
    true
}

fn name(event: &Reading<'_>, field: Field, missing: &str, said: &mut Saying) {
    match event.get(field) {
        Some(node) => match node.str() {
            Some(name) => said.name(&name),
            None => said.name(node.source()),
        },
        None => said.words(missing),
    };
}

fn name_behind(event: &Reading<'_>, field: Field, front: &str, said: &mut Saying) {
    if let Some(name) = event.text(field) {
        said.words(front).name(&name);
    }
}

fn text_behind(event: &Reading<'_>, field: Field, front: &str, tongue: u8, said: &mut Saying) {
    if let Some(text) = event.text(field) {
        said.words(front).text(&text, tongue).stop();
    }
}

fn member(node: Node<'_>, name: &str, front: &str, said: &mut Saying) {
    match node.get(name) {
        Some(value) => match value.str() {
            Some(text) => said.words(front).name(&text),
            None => said.words(front).name(value.source()),
        },
        None if front.is_empty() => said.words("missing"),
        None => said,
    };
}

fn words_of(node: Node<'_>, name: &str, front: &str, said: &mut Saying) {
    if let Some(text) = node.get(name).and_then(Node::str) {
        said.words(front).text(&text, 0);
    }
}

/// The prefix of a sentence, which is no part of it.
pub(super) fn front(event: &Reading<'_>, with_type: bool, said: &mut Saying) {
    if let Some(id) = event.text(Field::EventId) {
        said.id(Piece::Id, &id);
    }
    if with_type && let Some(kind) = event.text(Field::Type) {
        said.id(Piece::Type, &kind);
    }
}
