//! Describes an event or a message in one sentence. It judges nothing: missing fields are named as missing, and rules
//! report errors.

use super::aaep::field::Field;
use super::aaep::json::Node;
use super::aaep::kind::Kind;
use super::aaep::{MessageKind, Reading};
use super::sentence::{Piece, SentenceBuilder};
use super::time;
use crate::limits;

/// Describes an event of the protocol.
pub(super) fn event(kind: Kind, event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    match kind {
        Kind::SessionStarted => started(event, tongue, sentence),
        Kind::SessionCompleted => {
            sentence.words("The session completes");
            summary(event, tongue, sentence);
            push_text(event, Field::OutputSummary, " Its result: ", tongue, sentence);
        }
        Kind::SessionErrored => errored(event, tongue, sentence),
        Kind::SessionCancelled => {
            sentence.words("The session is cancelled by ");
            name(event, Field::CancelledBy, "an unnamed party", sentence);
            push_name(event, Field::CancellationReason, ", because of ", sentence);
            summary(event, tongue, sentence);
            push_text(event, Field::PartialResult, " Its result so far: ", tongue, sentence);
        }
        Kind::StateChanged => changed(event, tongue, sentence),
        Kind::ProgressUpdated => progress(event, tongue, sentence),
        Kind::ToolInvoked => invoked(event, tongue, sentence),
        Kind::ToolCompleted => {
            sentence.words("The tool ");
            name(event, Field::Tool, "without a name", sentence);
            sentence.words(" returns: ");
            name(event, Field::Status, "no status", sentence);
            duration(event, Field::DurationMs, " after ", sentence);
            summary(event, tongue, sentence);
            push_text(event, Field::ErrorMessage, " Its error: ", tongue, sentence);
        }
        Kind::OutputStreaming => output(event, tongue, sentence),
        Kind::AwaitingConfirmation => confirmation(event, tongue, sentence),
        Kind::AwaitingClarification => clarification(event, tongue, sentence),
        Kind::HandoffRequested => {
            agent(event, sentence);
            sentence.words(" hands over to ");
            name(event, Field::TargetKind, "an unnamed party", sentence);
            push_text(event, Field::Reason, ", because: ", tongue, sentence);
            if !event.has(Field::Reason) {
                sentence.words(".");
            }
            spoken(event, Field::Reason, tongue, sentence);
        }
    }
}

/// Describes an event of an extension or of an unknown type.
pub(super) fn other_event(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    match event.text(Field::Type) {
        Some(kind) => sentence.words("An event of the type ").name(&kind),
        None => sentence.words("An event without a type"),
    };
    summary(event, tongue, sentence);
}

/// Describes a message that is not an event. The caller adds the prompt that a reply belongs to.
pub(super) fn message(kind: MessageKind, message: &Reading<'_>, sentence: &mut SentenceBuilder) {
    let node = message.node();
    let id = |sentence: &mut SentenceBuilder| {
        member(node, "subscription_id", " ", sentence);
    };
    match kind {
        MessageKind::SubscriptionRequest => {
            sentence.words("A subscriber requests a subscription");
            member(node, "subscriber_id", ": ", sentence);
            sentence.words(".");
        }
        MessageKind::SubscriptionAccepted => {
            sentence.words("The subscription");
            id(sentence);
            sentence.words(" is accepted.");
        }
        MessageKind::SubscriptionRejected => {
            sentence.words("The subscription is rejected");
            member(node, "reason_code", ": ", sentence);
            words_of(node, "reason_message", ", ", sentence);
            sentence.stop();
        }
        MessageKind::SubscriptionRenegotiate => {
            sentence.words("The subscriber of");
            id(sentence);
            sentence.words(" requests new terms.");
        }
        MessageKind::SubscriptionClose => {
            sentence.words("The subscription");
            id(sentence);
            sentence.words(" is closed");
            member(node, "reason_code", ": ", sentence);
            words_of(node, "reason_message", ", ", sentence);
            sentence.stop();
        }
        MessageKind::ConfirmationReply => {
            sentence.words("The reply is ");
            member(node, "decision", "", sentence);
            words_of(node, "decision_rationale", ", because: ", sentence);
            sentence.stop();
            by(node, sentence);
        }
        MessageKind::ClarificationReply => {
            sentence.words("The reply is ");
            match node.get("response") {
                Some(response) => match response.str() {
                    Some(text) => sentence.text(&text, 0),
                    None => sentence.name(response.source()),
                },
                None => sentence.words("empty"),
            };
            sentence.stop();
            by(node, sentence);
        }
        MessageKind::ProducerManifest => {
            sentence.words("The manifest of a producer");
            member(node, "agent_id", ": ", sentence);
            sentence.words(".");
        }
    }
}

fn by(node: Node<'_>, sentence: &mut SentenceBuilder) {
    if node.get("decided_by").is_some() {
        member(node, "decided_by", " It was sent by ", sentence);
        sentence.words(".");
    }
}

fn started(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    sentence.words("The session starts");
    summary(event, tongue, sentence);
    if event.has(Field::RequestText) || event.has(Field::RequestedBy) {
        sentence.words(" It was requested");
        push_name(event, Field::RequestedBy, " by ", sentence);
        match event.text(Field::RequestText) {
            Some(text) => sentence.words(": ").text(&text, tongue).stop(),
            None => sentence.words("."),
        };
    }
    expected(event, sentence);
}

fn errored(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    sentence.words("The session ends with an error of the category ");
    name(event, Field::ErrorCategory, "that is missing", sentence);
    push_name(event, Field::ErrorCode, ", ", sentence);
    summary(event, tongue, sentence);
    match event.bool(Field::Recoverable) {
        Some(true) => _ = sentence.words(" It is recoverable."),
        Some(false) => _ = sentence.words(" It is not recoverable."),
        None => {}
    }
    push_text(event, Field::RemediationHint, " Remedy: ", tongue, sentence);
}

fn changed(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    agent(event, sentence);
    let (from, to) = (event.text(Field::FromState), event.text(Field::ToState));
    if from.is_some() && from == to {
        sentence.words(" stays in the state ");
    } else {
        sentence.words(" goes from ");
        name(event, Field::FromState, "no state", sentence);
        sentence.words(" to ");
    }
    name(event, Field::ToState, "no state", sentence);
    summary(event, tongue, sentence);
    expected(event, sentence);
}

fn progress(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    sentence.words("Progress");
    if let Some(progress) = event.get(Field::Progress) {
        let number = |name: &str, front: &str, after: &str, sentence: &mut SentenceBuilder| {
            if let Some(number) = progress.get(name).filter(|node| node.number().is_some()) {
                sentence.words(front).name(number.raw()).words(after);
            }
        };
        number("percent", ": ", " percent", sentence);
        number("step", ", step ", "", sentence);
        number("total_steps", " of ", "", sentence);
        if let Some(text) = progress.get("description").and_then(Node::str) {
            sentence.words(", ").text(&text, tongue);
        }
    }
    duration(event, Field::EtaMs, ", remaining: ", sentence);
    summary(event, tongue, sentence);
}

fn invoked(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    agent(event, sentence);
    sentence.words(" calls the tool ");
    name(event, Field::Tool, "without a name", sentence);
    summary(event, tongue, sentence);
    stakes(event, sentence);
    push_text(event, Field::Description, " It does: ", tongue, sentence);
    push_text(event, Field::ArgsSummary, " With: ", tongue, sentence);
    expected(event, sentence);
}

/// Adds the reversibility and the risk of an action.
fn stakes(event: &Reading<'_>, sentence: &mut SentenceBuilder) {
    let for_ever =
        event.bool(Field::Irreversible) == Some(true) || event.is(Field::Reversibility, "irreversible");
    if for_ever {
        sentence.words(" It cannot be undone.");
    }
    if let Some(risk) = event.text(Field::RiskLevel) {
        sentence.words(" Its risk is ").name(&risk).words(".");
    }
}

fn output(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    let complete = event.bool(Field::Complete) == Some(true);
    agent(event, sentence);
    sentence.words(if complete { " writes the last chunk" } else { " writes a chunk" });
    push_name(event, Field::OutputId, " of ", sentence);
    if let Some(position) = event.int(Field::Position) {
        sentence.format(format_args!(", from character {position}"));
    }
    match event.text(Field::Chunk) {
        Some(chunk) if chunk.is_empty() => _ = sentence.words(", which is empty."),
        Some(chunk) => _ = sentence.words(": ").text(&chunk, tongue).stop(),
        None => _ = sentence.words("."),
    }
}

fn confirmation(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    agent(event, sentence);
    sentence.words(" requests confirmation");
    push_text(event, Field::Action, ": ", tongue, sentence);
    if !event.has(Field::Action) {
        sentence.words(".");
    }
    stakes(event, sentence);
    push_text(event, Field::Consequence, " Consequence: ", tongue, sentence);
    spoken(event, Field::Action, tongue, sentence);
    deadline(event, sentence);
    if event.has(Field::DefaultDecision) {
        push_name(event, Field::DefaultDecision, "", sentence);
        sentence.words(".");
    } else {
        sentence.words("nothing is said.");
    }
}

fn clarification(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    agent(event, sentence);
    sentence.words(" asks");
    push_text(event, Field::Question, ": ", tongue, sentence);
    if !event.has(Field::Question) {
        sentence.words(".");
    }
    push_text(event, Field::AnswerContext, " Context: ", tongue, sentence);
    if let Some(choices) = event.get(Field::Choices) {
        let mut count = 0;
        for choice in choices.items() {
            count += 1;
            if count > limits::TRACE_CHOICES_MAX {
                continue;
            }
            sentence.words(if count == 1 { " Choices: " } else { ", " });
            match choice.get("label").or(choice.get("value")).and_then(Node::str) {
                Some(label) => sentence.text(&label, tongue),
                None => sentence.words("one without a label"),
            };
        }
        if count > limits::TRACE_CHOICES_MAX {
            sentence.format(format_args!(" and {} more", count - limits::TRACE_CHOICES_MAX));
        }
        sentence.words(".");
    }
    spoken(event, Field::Question, tongue, sentence);
    deadline(event, sentence);
    match event.text(Field::DefaultResponse) {
        Some(text) => sentence.text(&text, tongue).stop(),
        None => sentence.words("no answer."),
    };
}

fn deadline(event: &Reading<'_>, sentence: &mut SentenceBuilder) {
    match event.int(Field::TimeoutSeconds) {
        Some(seconds) => sentence
            .words(" Without a reply within ")
            .words(&time::span(seconds.saturating_mul(1_000)))
            .words(": "),
        None => sentence.words(" Without a reply: "),
    };
}

/// The agent, as the subject of the sentence.
fn agent(event: &Reading<'_>, sentence: &mut SentenceBuilder) {
    match event.agent() {
        Some(agent) => sentence.name(&agent),
        None => sentence.words("A producer without a name"),
    };
}

/// The spoken summary of the event.
fn summary(event: &Reading<'_>, tongue: u8, sentence: &mut SentenceBuilder) {
    match aloud(event) {
        Some(text) => sentence.words(": ").text(&text, tongue).stop(),
        None => sentence.words("."),
    };
}

/// The spoken summary of a prompt, unless it equals the text of the prompt.
fn spoken(event: &Reading<'_>, prompt: Field, tongue: u8, sentence: &mut SentenceBuilder) {
    let prompt = event.text(prompt);
    if let Some(text) = aloud(event).filter(|text| prompt.as_ref() != Some(text)) {
        sentence.words(" It says: ").text(&text, tongue).stop();
    }
}

fn aloud<'d>(event: &Reading<'d>) -> Option<std::borrow::Cow<'d, str>> {
    let fields = [Field::SummaryNormal, Field::SummaryTerse, Field::SummaryDetailed];
    fields.into_iter().find_map(|field| event.text(field))
}

fn expected(event: &Reading<'_>, sentence: &mut SentenceBuilder) {
    if duration(event, Field::ExpectedDurationMs, " Expected duration: ", sentence) {
        sentence.words(".");
    }
}

fn duration(event: &Reading<'_>, field: Field, front: &str, sentence: &mut SentenceBuilder) -> bool {
    let Some(ms) = event.int(field) else { return false };
    sentence.words(front).words(&time::span(ms));
    true
}

fn name(event: &Reading<'_>, field: Field, missing: &str, sentence: &mut SentenceBuilder) {
    match event.get(field) {
        Some(node) => match node.str() {
            Some(name) => sentence.name(&name),
            None => sentence.name(node.source()),
        },
        None => sentence.words(missing),
    };
}

fn push_name(event: &Reading<'_>, field: Field, front: &str, sentence: &mut SentenceBuilder) {
    if let Some(name) = event.text(field) {
        sentence.words(front).name(&name);
    }
}

fn push_text(event: &Reading<'_>, field: Field, front: &str, tongue: u8, sentence: &mut SentenceBuilder) {
    if let Some(text) = event.text(field) {
        sentence.words(front).text(&text, tongue).stop();
    }
}

fn member(node: Node<'_>, name: &str, front: &str, sentence: &mut SentenceBuilder) {
    match node.get(name) {
        Some(value) => match value.str() {
            Some(text) => sentence.words(front).name(&text),
            None => sentence.words(front).name(value.source()),
        },
        None if front.is_empty() => sentence.words("missing"),
        None => sentence,
    };
}

fn words_of(node: Node<'_>, name: &str, front: &str, sentence: &mut SentenceBuilder) {
    if let Some(text) = node.get(name).and_then(Node::str) {
        sentence.words(front).text(&text, 0);
    }
}

/// The id and type before a sentence.
pub(super) fn front(event: &Reading<'_>, with_type: bool, sentence: &mut SentenceBuilder) {
    if let Some(id) = event.text(Field::EventId) {
        sentence.id(Piece::Id, &id);
    }
    if with_type && let Some(kind) = event.text(Field::Type) {
        sentence.id(Piece::Type, &kind);
    }
}
