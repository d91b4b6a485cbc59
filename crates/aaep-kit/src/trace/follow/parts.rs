//! Calls, prompts and outputs of a session: when each opened and closed, and how it ended. The checker decides that;
//! only names and numbers are kept here.

use super::super::aaep::Reading;
use super::super::aaep::field::Field;
use super::super::aaep::kind::Kind;
use super::super::aaep::session::{Standing, View};
use super::super::model::{Part, PartOutcome, Session, Sort};
use super::super::sentence::{SentenceBuilder, cut_to};
use crate::limits;

impl Part {
    pub(super) fn is_prompt(&self) -> bool {
        self.sort == Sort::Prompt
    }
}

/// Notes the part that an event opened; answers with its index.
pub(super) fn opened(
    session: &mut Session,
    view: Option<View<'_>>,
    kind: Kind,
    line: usize,
    event: &Reading<'_>,
) -> Option<usize> {
    let heard = session.heard;
    let view = view?;
    let (sort, label, key) = match kind {
        Kind::ToolInvoked => (Sort::Call, Field::Tool, Field::ToolCallId),
        Kind::AwaitingConfirmation => (Sort::Prompt, Field::Action, Field::ReplyToken),
        Kind::AwaitingClarification => (Sort::Prompt, Field::Question, Field::ReplyToken),
        Kind::OutputStreaming => (Sort::Output, Field::OutputId, Field::OutputId),
        _ => return None,
    };
    let is_new = match sort {
        Sort::Call => view.call(heard).is_some(),
        Sort::Prompt => view.prompt(heard).is_some(),
        Sort::Output => view.output(heard).is_some(),
    };
    if !is_new {
        return None;
    }
    let text = |field: Field| {
        let text = event.text(field).unwrap_or_default();
        Box::from(cut_to(&text, limits::TRACE_NAME_CHARS_MAX).0)
    };
    session.counts[sort as usize] += 1;
    session.parts.push(Part {
        sort,
        number: session.counts[sort as usize],
        label: text(label),
        key: text(key),
        heard,
        line,
        from: session.entry_count,
        to: None,
        outcome: PartOutcome::Open,
        pieces: 0,
    });
    session.open.push(session.parts.len() - 1);
    Some(session.parts.len() - 1)
}

pub(super) fn describe_opened(part: &Part, sentence: &mut SentenceBuilder) {
    sentence.format(format_args!(" {} {} opens.", part.sort.at_the_beginning(), part.number));
}

/// Notes what an event closed.
pub(super) fn settle(
    session: &mut Session,
    view: Option<View<'_>>,
    kind: Kind,
    event: &Reading<'_>,
    sentence: &mut SentenceBuilder,
) {
    // At an ending nothing is followed any more; what is open stays so.
    let Some(view) = view else { return };
    let now = session.entry_count;
    let Session { open, parts, .. } = session;
    if kind == Kind::OutputStreaming {
        let id = event.text(Field::OutputId).unwrap_or_default();
        let id = cut_to(&id, limits::TRACE_NAME_CHARS_MAX).0;
        let own = open.iter().rev().find(|at| parts[**at].sort == Sort::Output && *parts[**at].key == *id);
        if let Some(at) = own {
            parts[*at].pieces += 1;
        }
    }
    open.retain(|at| {
        let part = &mut parts[*at];
        let outcome = match part.sort {
            Sort::Call if kind == Kind::ToolCompleted && view.call(part.heard) != Some(true) => back(event),
            Sort::Output if kind == Kind::OutputStreaming && view.output(part.heard) != Some(true) => {
                PartOutcome::Complete
            }
            Sort::Prompt => became(view.prompt(part.heard)),
            _ => PartOutcome::Open,
        };
        if outcome != PartOutcome::Open {
            close(part, outcome, now, sentence);
        }
        outcome == PartOutcome::Open
    });
}

fn close(part: &mut Part, outcome: PartOutcome, now: u32, sentence: &mut SentenceBuilder) {
    part.outcome = outcome;
    part.to = Some(now);
    let name = part.sort.at_the_beginning();
    sentence.format(format_args!(" {name} {} {}.", part.number, outcome.label()));
}

fn back(event: &Reading<'_>) -> PartOutcome {
    match event.text(Field::Status).as_deref() {
        Some("success") => PartOutcome::Success,
        Some("error") => PartOutcome::Error,
        Some("timeout") => PartOutcome::Timeout,
        _ => PartOutcome::Back,
    }
}

fn became(standing: Option<Standing>) -> PartOutcome {
    match standing {
        Some(Standing::Open) => PartOutcome::Open,
        Some(Standing::Accepted) => PartOutcome::Accepted,
        Some(Standing::Modified) => PartOutcome::Modified,
        Some(Standing::Rejected) => PartOutcome::Rejected,
        Some(Standing::Answered) => PartOutcome::Answered,
        Some(Standing::TimedOut) => PartOutcome::TimedOut,
        // It was open until now, so it was its default that the call used.
        Some(Standing::Used) => PartOutcome::DefaultAccepted,
        Some(Standing::Presumed | Standing::Unaccepted) | None => PartOutcome::Unrecorded,
    }
}

/// Notes what a reply made of its prompt.
pub(super) fn answered(
    session: &mut Session,
    heard: u64,
    standing: Option<Standing>,
    sentence: &mut SentenceBuilder,
) {
    let now = session.entry_count;
    let Ok(at) = session.parts.binary_search_by_key(&heard, |part| part.heard) else {
        sentence.words(" It answers a prompt that was settled long ago.");
        return;
    };
    let part = &mut session.parts[at];
    let number = part.number;
    let outcome = standing.map_or(part.outcome, |standing| became(Some(standing)));
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

/// Forgets what is closed.
pub(super) fn forget_closed(session: &mut Session, mut on_forget: impl FnMut(&Part)) {
    session.parts.retain(|part| {
        let open = part.outcome == PartOutcome::Open;
        if !open && part.is_prompt() {
            on_forget(part);
        }
        open
    });
    session.open = (0..session.parts.len()).collect();
}
