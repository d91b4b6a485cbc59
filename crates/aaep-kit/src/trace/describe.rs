//! Describes an event or a message in one sentence. It judges nothing: missing fields are named as missing, and rules
//! report errors.

use super::aaep::field::Field;
use super::aaep::json::Node;
use super::aaep::kind::Kind;
use super::aaep::{MessageKind, Reading};
use super::sentence::{PieceKind, SentenceBuilder};
use super::time;
use crate::limits;

/// Describes an event of the protocol.
pub(super) fn event(kind: Kind, event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    match kind {
        Kind::SessionStarted => started(event, language, sentence),
        Kind::SessionCompleted => {
            sentence.literal("The session completes");
            summary(event, language, sentence);
            push_text(event, Field::OutputSummary, " Its result: ", language, sentence);
        }
        Kind::SessionErrored => errored(event, language, sentence),
        Kind::SessionCancelled => {
            sentence.literal("The session is cancelled by ");
            name(event, Field::CancelledBy, "an unnamed party", sentence);
            push_name(event, Field::CancellationReason, ", because of ", sentence);
            summary(event, language, sentence);
            push_text(event, Field::PartialResult, " Its result so far: ", language, sentence);
        }
        Kind::StateChanged => changed(event, language, sentence),
        Kind::ProgressUpdated => progress(event, language, sentence),
        Kind::ToolInvoked => invoked(event, language, sentence),
        Kind::ToolCompleted => {
            sentence.literal("The tool ");
            name(event, Field::Tool, "without a name", sentence);
            sentence.literal(" returns: ");
            name(event, Field::Status, "no status", sentence);
            duration(event, Field::DurationMs, " after ", sentence);
            summary(event, language, sentence);
            push_text(event, Field::ErrorMessage, " Its error: ", language, sentence);
        }
        Kind::OutputStreaming => output(event, language, sentence),
        Kind::AwaitingConfirmation => confirmation(event, language, sentence),
        Kind::AwaitingClarification => clarification(event, language, sentence),
        Kind::HandoffRequested => {
            agent(event, sentence);
            sentence.literal(" hands over to ");
            name(event, Field::TargetKind, "an unnamed party", sentence);
            push_text(event, Field::Reason, ", because: ", language, sentence);
            if !event.has(Field::Reason) {
                sentence.literal(".");
            }
            spoken(event, Field::Reason, language, sentence);
        }
    }
}

/// Describes an event of an extension or of an unknown type.
pub(super) fn other_event(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    match event.text(Field::Type) {
        Some(kind) => sentence.literal("An event of the type ").name(&kind),
        None => sentence.literal("An event without a type"),
    };
    summary(event, language, sentence);
}

/// Describes a message that is not an event. The caller adds the prompt that a reply belongs to.
pub(super) fn message(kind: MessageKind, message: &Reading<'_>, sentence: &mut SentenceBuilder) {
    let node = message.node();
    let id = |sentence: &mut SentenceBuilder| {
        member(node, "subscription_id", " ", sentence);
    };
    match kind {
        MessageKind::SubscriptionRequest => {
            sentence.literal("A subscriber requests a subscription");
            member(node, "subscriber_id", ": ", sentence);
            sentence.literal(".");
        }
        MessageKind::SubscriptionAccepted => {
            sentence.literal("The subscription");
            id(sentence);
            sentence.literal(" is accepted.");
        }
        MessageKind::SubscriptionRejected => {
            sentence.literal("The subscription is rejected");
            member(node, "reason_code", ": ", sentence);
            words_of(node, "reason_message", ", ", sentence);
            sentence.stop();
        }
        MessageKind::SubscriptionRenegotiate => {
            sentence.literal("The subscriber of");
            id(sentence);
            sentence.literal(" requests new terms.");
        }
        MessageKind::SubscriptionClose => {
            sentence.literal("The subscription");
            id(sentence);
            sentence.literal(" is closed");
            member(node, "reason_code", ": ", sentence);
            words_of(node, "reason_message", ", ", sentence);
            sentence.stop();
        }
        MessageKind::ConfirmationReply => {
            sentence.literal("The reply is ");
            member(node, "decision", "", sentence);
            words_of(node, "decision_rationale", ", because: ", sentence);
            sentence.stop();
            by(node, sentence);
        }
        MessageKind::ClarificationReply => {
            sentence.literal("The reply is ");
            match node.get("response") {
                Some(response) => match response.str() {
                    Some(text) => sentence.text(&text, 0),
                    None => sentence.name(response.source()),
                },
                None => sentence.literal("empty"),
            };
            sentence.stop();
            by(node, sentence);
        }
        MessageKind::ProducerManifest => {
            sentence.literal("The manifest of a producer");
            member(node, "agent_id", ": ", sentence);
            sentence.literal(".");
        }
    }
}

fn by(node: Node<'_>, sentence: &mut SentenceBuilder) {
    if node.get("decided_by").is_some() {
        member(node, "decided_by", " It was sent by ", sentence);
        sentence.literal(".");
    }
}

fn started(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    sentence.literal("The session starts");
    summary(event, language, sentence);
    if event.has(Field::RequestText) || event.has(Field::RequestedBy) {
        sentence.literal(" It was requested");
        push_name(event, Field::RequestedBy, " by ", sentence);
        match event.text(Field::RequestText) {
            Some(text) => sentence.literal(": ").text(&text, language).stop(),
            None => sentence.literal("."),
        };
    }
    expected(event, sentence);
}

fn errored(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    sentence.literal("The session ends with an error of the category ");
    name(event, Field::ErrorCategory, "that is missing", sentence);
    push_name(event, Field::ErrorCode, ", ", sentence);
    summary(event, language, sentence);
    match event.bool(Field::Recoverable) {
        Some(true) => _ = sentence.literal(" It is recoverable."),
        Some(false) => _ = sentence.literal(" It is not recoverable."),
        None => {}
    }
    push_text(event, Field::RemediationHint, " Remedy: ", language, sentence);
}

fn changed(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    agent(event, sentence);
    let (from, to) = (event.text(Field::FromState), event.text(Field::ToState));
    if from.is_some() && from == to {
        sentence.literal(" stays in the state ");
    } else {
        sentence.literal(" goes from ");
        name(event, Field::FromState, "no state", sentence);
        sentence.literal(" to ");
    }
    name(event, Field::ToState, "no state", sentence);
    summary(event, language, sentence);
    expected(event, sentence);
}

fn progress(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    sentence.literal("Progress");
    if let Some(progress) = event.get(Field::Progress) {
        let number = |name: &str, front: &str, after: &str, sentence: &mut SentenceBuilder| {
            if let Some(number) = progress.get(name).filter(|node| node.number().is_some()) {
                sentence.literal(front).name(number.raw()).literal(after);
            }
        };
        number("percent", ": ", " percent", sentence);
        number("step", ", step ", "", sentence);
        number("total_steps", " of ", "", sentence);
        if let Some(text) = progress.get("description").and_then(Node::str) {
            sentence.literal(", ").text(&text, language);
        }
    }
    duration(event, Field::EtaMs, ", remaining: ", sentence);
    summary(event, language, sentence);
}

fn invoked(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    agent(event, sentence);
    sentence.literal(" calls the tool ");
    name(event, Field::Tool, "without a name", sentence);
    summary(event, language, sentence);
    stakes(event, sentence);
    push_text(event, Field::Description, " It does: ", language, sentence);
    push_text(event, Field::ArgsSummary, " With: ", language, sentence);
    expected(event, sentence);
}

/// Adds the reversibility and the risk of an action.
fn stakes(event: &Reading<'_>, sentence: &mut SentenceBuilder) {
    let for_ever =
        event.bool(Field::Irreversible) == Some(true) || event.is(Field::Reversibility, "irreversible");
    if for_ever {
        sentence.literal(" It cannot be undone.");
    }
    if let Some(risk) = event.text(Field::RiskLevel) {
        sentence.literal(" Its risk is ").name(&risk).literal(".");
    }
}

fn output(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    let complete = event.bool(Field::Complete) == Some(true);
    agent(event, sentence);
    sentence.literal(if complete { " writes the last chunk" } else { " writes a chunk" });
    push_name(event, Field::OutputId, " of ", sentence);
    if let Some(position) = event.int(Field::Position) {
        sentence.format(format_args!(", from character {position}"));
    }
    match event.text(Field::Chunk) {
        Some(chunk) if chunk.is_empty() => _ = sentence.literal(", which is empty."),
        Some(chunk) => _ = sentence.literal(": ").text(&chunk, language).stop(),
        None => _ = sentence.literal("."),
    }
}

fn confirmation(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    agent(event, sentence);
    sentence.literal(" requests confirmation");
    push_text(event, Field::Action, ": ", language, sentence);
    if !event.has(Field::Action) {
        sentence.literal(".");
    }
    stakes(event, sentence);
    push_text(event, Field::Consequence, " Consequence: ", language, sentence);
    spoken(event, Field::Action, language, sentence);
    deadline(event, sentence);
    if event.has(Field::DefaultDecision) {
        push_name(event, Field::DefaultDecision, "", sentence);
        sentence.literal(".");
    } else {
        sentence.literal("nothing is said.");
    }
}

fn clarification(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    agent(event, sentence);
    sentence.literal(" asks");
    push_text(event, Field::Question, ": ", language, sentence);
    if !event.has(Field::Question) {
        sentence.literal(".");
    }
    push_text(event, Field::AnswerContext, " Context: ", language, sentence);
    if let Some(choices) = event.get(Field::Choices) {
        let mut count = 0;
        for choice in choices.items() {
            count += 1;
            if count > limits::TRACE_CHOICES_MAX {
                continue;
            }
            sentence.literal(if count == 1 { " Choices: " } else { ", " });
            match choice.get("label").or(choice.get("value")).and_then(Node::str) {
                Some(label) => sentence.text(&label, language),
                None => sentence.literal("one without a label"),
            };
        }
        if count > limits::TRACE_CHOICES_MAX {
            sentence.format(format_args!(" and {} more", count - limits::TRACE_CHOICES_MAX));
        }
        sentence.literal(".");
    }
    spoken(event, Field::Question, language, sentence);
    deadline(event, sentence);
    match event.text(Field::DefaultResponse) {
        Some(text) => sentence.text(&text, language).stop(),
        None => sentence.literal("no answer."),
    };
}

fn deadline(event: &Reading<'_>, sentence: &mut SentenceBuilder) {
    match event.int(Field::TimeoutSeconds) {
        Some(seconds) => sentence
            .literal(" Without a reply within ")
            .literal(&time::span(seconds.saturating_mul(1_000)))
            .literal(": "),
        None => sentence.literal(" Without a reply: "),
    };
}

/// The agent, as the subject of the sentence.
fn agent(event: &Reading<'_>, sentence: &mut SentenceBuilder) {
    match event.agent() {
        Some(agent) => sentence.name(&agent),
        None => sentence.literal("A producer without a name"),
    };
}

/// The spoken summary of the event.
fn summary(event: &Reading<'_>, language: u8, sentence: &mut SentenceBuilder) {
    match aloud(event) {
        Some(text) => sentence.literal(": ").text(&text, language).stop(),
        None => sentence.literal("."),
    };
}

/// The spoken summary of a prompt, unless it equals the text of the prompt.
fn spoken(event: &Reading<'_>, prompt: Field, language: u8, sentence: &mut SentenceBuilder) {
    let prompt = event.text(prompt);
    if let Some(text) = aloud(event).filter(|text| prompt.as_ref() != Some(text)) {
        sentence.literal(" It says: ").text(&text, language).stop();
    }
}

fn aloud<'d>(event: &Reading<'d>) -> Option<std::borrow::Cow<'d, str>> {
    let fields = [Field::SummaryNormal, Field::SummaryTerse, Field::SummaryDetailed];
    fields.into_iter().find_map(|field| event.text(field))
}

fn expected(event: &Reading<'_>, sentence: &mut SentenceBuilder) {
    if duration(event, Field::ExpectedDurationMs, " Expected duration: ", sentence) {
        sentence.literal(".");
    }
}

fn duration(event: &Reading<'_>, field: Field, front: &str, sentence: &mut SentenceBuilder) -> bool {
    let Some(ms) = event.int(field) else { return false };
    sentence.literal(front).literal(&time::span(ms));
    true
}

fn name(event: &Reading<'_>, field: Field, missing: &str, sentence: &mut SentenceBuilder) {
    match event.get(field) {
        Some(node) => match node.str() {
            Some(name) => sentence.name(&name),
            None => sentence.name(node.source()),
        },
        None => sentence.literal(missing),
    };
}

fn push_name(event: &Reading<'_>, field: Field, front: &str, sentence: &mut SentenceBuilder) {
    if let Some(name) = event.text(field) {
        sentence.literal(front).name(&name);
    }
}

fn push_text(event: &Reading<'_>, field: Field, front: &str, language: u8, sentence: &mut SentenceBuilder) {
    if let Some(text) = event.text(field) {
        sentence.literal(front).text(&text, language).stop();
    }
}

fn member(node: Node<'_>, name: &str, front: &str, sentence: &mut SentenceBuilder) {
    match node.get(name) {
        Some(value) => match value.str() {
            Some(text) => sentence.literal(front).name(&text),
            None => sentence.literal(front).name(value.source()),
        },
        None if front.is_empty() => sentence.literal("missing"),
        None => sentence,
    };
}

fn words_of(node: Node<'_>, name: &str, front: &str, sentence: &mut SentenceBuilder) {
    if let Some(text) = node.get(name).and_then(Node::str) {
        sentence.literal(front).text(&text, 0);
    }
}

/// The id and type before a sentence.
pub(super) fn front(event: &Reading<'_>, with_type: bool, sentence: &mut SentenceBuilder) {
    if let Some(id) = event.text(Field::EventId) {
        sentence.id(PieceKind::Id, &id);
    }
    if with_type && let Some(kind) = event.text(Field::Type) {
        sentence.id(PieceKind::Type, &kind);
    }
}
