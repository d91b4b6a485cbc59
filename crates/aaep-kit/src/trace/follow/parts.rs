//! Calls, prompts and outputs of a session: when each opened and closed, and its outcome. The checker decides that;
//! this module keeps only names and numbers.

use super::super::aaep::Reading;
use super::super::aaep::field::Field;
use super::super::aaep::kind::Kind;
use super::super::aaep::session::{PromptStatus, SessionView};
use super::super::model::{PartKind, PartOutcome, Session, TracePart};
use super::super::sentence::{SentenceBuilder, cut_to};
use crate::limits;

impl TracePart {
    pub(super) fn is_prompt(&self) -> bool {
        self.part_kind == PartKind::Prompt
    }
}

/// Records the part that an event opened; returns its index.
pub(super) fn opened(
    session: &mut Session,
    view: Option<SessionView<'_>>,
    kind: Kind,
    line: usize,
    event: &Reading<'_>,
) -> Option<usize> {
    let event_number = session.event_number;
    let view = view?;
    let (part_kind, label, key) = match kind {
        Kind::ToolInvoked => (PartKind::Call, Field::Tool, Field::ToolCallId),
        Kind::AwaitingConfirmation => (PartKind::Prompt, Field::Action, Field::ReplyToken),
        Kind::AwaitingClarification => (PartKind::Prompt, Field::Question, Field::ReplyToken),
        Kind::OutputStreaming => (PartKind::Output, Field::OutputId, Field::OutputId),
        _ => return None,
    };
    let is_new = match part_kind {
        PartKind::Call => view.call(event_number).is_some(),
        PartKind::Prompt => view.prompt(event_number).is_some(),
        PartKind::Output => view.output(event_number).is_some(),
    };
    if !is_new {
        return None;
    }
    let text = |field: Field| {
        let text = event.text(field).unwrap_or_default();
        Box::from(cut_to(&text, limits::TRACE_NAME_CHARS_MAX).0)
    };
    session.counts[part_kind as usize] += 1;
    session.parts.push(TracePart {
        part_kind,
        number: session.counts[part_kind as usize],
        label: text(label),
        key: text(key),
        event_number,
        line,
        from: session.entry_count,
        to: None,
        outcome: PartOutcome::Open,
        pieces: 0,
    });
    session.open.push(session.parts.len() - 1);
    Some(session.parts.len() - 1)
}

pub(super) fn describe_opened(part: &TracePart, sentence: &mut SentenceBuilder) {
    sentence.format(format_args!(" {} {} opens.", part.part_kind.at_the_beginning(), part.number));
}

/// Records the parts that an event closed.
pub(super) fn settle(
    session: &mut Session,
    view: Option<SessionView<'_>>,
    kind: Kind,
    event: &Reading<'_>,
    sentence: &mut SentenceBuilder,
) {
    // After an ending nothing is followed; open parts stay open.
    let Some(view) = view else { return };
    let now = session.entry_count;
    let Session { open, parts, .. } = session;
    if kind == Kind::OutputStreaming {
        let id = event.text(Field::OutputId).unwrap_or_default();
        let id = cut_to(&id, limits::TRACE_NAME_CHARS_MAX).0;
        let own =
            open.iter().rev().find(|at| parts[**at].part_kind == PartKind::Output && *parts[**at].key == *id);
        if let Some(at) = own {
            parts[*at].pieces += 1;
        }
    }
    open.retain(|at| {
        let part = &mut parts[*at];
        let outcome = match part.part_kind {
            PartKind::Call if kind == Kind::ToolCompleted && view.call(part.event_number) != Some(true) => {
                call_outcome(event)
            }
            PartKind::Output
                if kind == Kind::OutputStreaming && view.output(part.event_number) != Some(true) =>
            {
                PartOutcome::Complete
            }
            PartKind::Prompt => outcome_of(view.prompt(part.event_number)),
            _ => PartOutcome::Open,
        };
        if outcome != PartOutcome::Open {
            close(part, outcome, now, sentence);
        }
        outcome == PartOutcome::Open
    });
}

fn close(part: &mut TracePart, outcome: PartOutcome, now: u32, sentence: &mut SentenceBuilder) {
    part.outcome = outcome;
    part.to = Some(now);
    let name = part.part_kind.at_the_beginning();
    sentence.format(format_args!(" {name} {} {}.", part.number, outcome.label()));
}

fn call_outcome(event: &Reading<'_>) -> PartOutcome {
    match event.text(Field::Status).as_deref() {
        Some("success") => PartOutcome::Success,
        Some("error") => PartOutcome::Error,
        Some("timeout") => PartOutcome::Timeout,
        _ => PartOutcome::UnknownStatus,
    }
}

fn outcome_of(status: Option<PromptStatus>) -> PartOutcome {
    match status {
        Some(PromptStatus::Open) => PartOutcome::Open,
        Some(PromptStatus::Accepted) => PartOutcome::Accepted,
        Some(PromptStatus::Modified) => PartOutcome::Modified,
        Some(PromptStatus::Rejected) => PartOutcome::Rejected,
        Some(PromptStatus::Answered) => PartOutcome::Answered,
        Some(PromptStatus::TimedOut) => PartOutcome::TimedOut,
        // It was open until now, so the call used its default.
        Some(PromptStatus::Used) => PartOutcome::DefaultAccepted,
        Some(PromptStatus::Presumed | PromptStatus::Unaccepted) | None => PartOutcome::Unrecorded,
    }
}

/// Records the effect of a reply on its prompt.
pub(super) fn answered(
    session: &mut Session,
    event_number: u64,
    status: Option<PromptStatus>,
    sentence: &mut SentenceBuilder,
) {
    let now = session.entry_count;
    let Ok(at) = session.parts.binary_search_by_key(&event_number, |part| part.event_number) else {
        sentence.literal(" It answers a prompt that was settled long ago.");
        return;
    };
    let part = &mut session.parts[at];
    let number = part.number;
    let outcome = status.map_or(part.outcome, |status| outcome_of(Some(status)));
    let was_open = part.outcome == PartOutcome::Open;
    let is_late = part.outcome == PartOutcome::Unrecorded || part.outcome == PartOutcome::TimedOut;
    match outcome {
        PartOutcome::Open => {
            sentence.format(format_args!(" It does not settle prompt {number}, which stays open."));
        }
        outcome if was_open => {
            close(part, outcome, now, sentence);
            session.open.retain(|open| *open != at);
        }
        PartOutcome::Accepted | PartOutcome::Modified | PartOutcome::Rejected | PartOutcome::Answered
            if is_late =>
        {
            part.outcome = outcome;
            let word = outcome.word();
            sentence.format(format_args!(" So prompt {number}, which is already closed, was {word}."));
        }
        _ => {
            sentence.format(format_args!(" It changes nothing: prompt {number} is already closed."));
        }
    }
}

/// Removes closed parts.
pub(super) fn forget_closed(session: &mut Session, mut on_forget: impl FnMut(&TracePart)) {
    session.parts.retain(|part| {
        let open = part.outcome == PartOutcome::Open;
        if !open && part.is_prompt() {
            on_forget(part);
        }
        open
    });
    session.open = (0..session.parts.len()).collect();
}
