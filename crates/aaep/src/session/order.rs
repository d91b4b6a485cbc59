//! The tables of Appendix A.7: which step may directly precede or follow which. [`pair`] combines both sides of the
//! tables; [`Legality::If`] names an additional condition.

use crate::kind::Kind;

/// A step of a session: an event, a reply or a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    Event(Kind),
    ConfirmationAccepted,
    ConfirmationRejected,
    ClarificationAnswered,
    /// A prompt times out.
    TimedOut,
}

impl Step {
    /// All of them.
    pub const ALL: [Step; 16] = {
        let mut all = [Step::TimedOut; 16];
        let mut at = 0;
        while at < 12 {
            all[at] = Step::Event(Kind::ALL[at]);
            at += 1;
        }
        all[12] = Step::ConfirmationAccepted;
        all[13] = Step::ConfirmationRejected;
        all[14] = Step::ClarificationAnswered;
        all
    };

    /// Whether it settles a prompt: a reply or a timeout.
    pub fn settles(self) -> bool {
        !matches!(self, Step::Event(_))
    }

    fn is_terminal(self) -> bool {
        matches!(self, Step::Event(kind) if kind.is_terminal())
    }
}

/// An additional condition for the legality of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The call was invoked before (A.7.5).
    Invoked,
    /// If the call cannot be undone, its prompt was accepted before (A.7.4).
    Accepted,
    /// The output has no last chunk yet (A.7.7).
    OutputOpen,
    /// A prompt is open (A.7.6).
    PromptOpen,
    /// No call, prompt or output is open; accepted actions are done, rejected ones are reported (A.3, A.6, A.7.6,
    /// §4.5.3).
    NothingOpen,
    /// Every output has its last chunk, even if the session ends early (§4.5.4).
    OutputsComplete,
}

/// Whether one step may follow another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Legality {
    Always,
    If(Condition),
    Never,
}

/// One row of the tables: a step with its lists of A.7. `None` means "any intra-session event", an empty list means
/// "none".
#[derive(Debug)]
pub struct Row {
    pub step: Step,
    pub section: &'static str,
    pub predecessors: Option<&'static [Step]>,
    pub successors: Option<&'static [Step]>,
    /// A step that must follow at some time.
    pub required: Option<Step>,
}

const fn event(kind: Kind) -> Step {
    Step::Event(kind)
}

/// The tables as printed in the specification.
pub const TABLE: &[Row] = &[
    Row {
        step: event(Kind::SessionStarted),
        section: "A.7.1",
        predecessors: Some(&[]),
        successors: Some(&[
            event(Kind::StateChanged),
            event(Kind::ProgressUpdated),
            event(Kind::ToolInvoked),
            event(Kind::OutputStreaming),
            event(Kind::AwaitingConfirmation),
            event(Kind::AwaitingClarification),
            event(Kind::HandoffRequested),
            event(Kind::SessionCompleted),
            event(Kind::SessionErrored),
            event(Kind::SessionCancelled),
        ]),
        required: None,
    },
    Row {
        step: event(Kind::SessionCompleted),
        section: "A.7.2",
        predecessors: None,
        successors: Some(&[]),
        required: None,
    },
    Row {
        step: event(Kind::SessionErrored),
        section: "A.7.2",
        predecessors: None,
        successors: Some(&[]),
        required: None,
    },
    Row {
        step: event(Kind::SessionCancelled),
        section: "A.7.2",
        predecessors: None,
        successors: Some(&[]),
        required: None,
    },
    Row {
        step: event(Kind::StateChanged),
        section: "A.7.3",
        predecessors: None,
        successors: None,
        required: None,
    },
    Row {
        step: event(Kind::ToolInvoked),
        section: "A.7.4",
        predecessors: Some(&[event(Kind::StateChanged), Step::ConfirmationAccepted]),
        successors: None,
        required: Some(event(Kind::ToolCompleted)),
    },
    Row {
        step: event(Kind::ToolCompleted),
        section: "A.7.5",
        predecessors: Some(&[event(Kind::ToolInvoked)]),
        successors: None,
        required: None,
    },
    Row {
        step: event(Kind::AwaitingConfirmation),
        section: "A.7.6",
        predecessors: Some(&[event(Kind::StateChanged), event(Kind::SessionStarted)]),
        successors: Some(&[Step::ConfirmationAccepted, Step::ConfirmationRejected, Step::TimedOut]),
        required: Some(event(Kind::StateChanged)),
    },
    Row {
        step: event(Kind::OutputStreaming),
        section: "A.7.7",
        predecessors: Some(&[
            event(Kind::StateChanged),
            event(Kind::ToolCompleted),
            event(Kind::OutputStreaming),
        ]),
        successors: None,
        required: None,
    },
];

/// The row of a step, if A.7 has one.
pub fn row(step: Step) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.step == step)
}

/// Whether A.7 lists the pair on either side. An unlisted pair is unusual, not illegal: the appendix is informative,
/// and its two sides do not always agree.
pub fn is_listed(before: Step, after: Step) -> bool {
    let lists = |list: Option<&'static [Step]>, step: Step| list.is_none_or(|list| list.contains(&step));
    let of_before = row(before).map(|row| lists(row.successors, after));
    let of_after = row(after).map(|row| lists(row.predecessors, before));
    match (of_before, of_after) {
        (None, None) => true,
        (before, after) => before == Some(true) || after == Some(true),
    }
}

/// Whether `after` may directly follow `before` (A.1, A.3 to A.7, §4.5).
pub fn pair(before: Step, after: Step) -> Legality {
    match (before, after) {
        (_, Step::Event(Kind::SessionStarted)) => Legality::Never,
        (before, _) if before.is_terminal() => Legality::Never,
        (_, Step::Event(Kind::ToolCompleted)) => Legality::If(Condition::Invoked),
        (Step::ConfirmationRejected, Step::Event(Kind::ToolInvoked)) => Legality::Never,
        (_, Step::Event(Kind::ToolInvoked)) => Legality::If(Condition::Accepted),
        (_, Step::Event(Kind::OutputStreaming)) => Legality::If(Condition::OutputOpen),
        (_, Step::Event(Kind::SessionCompleted)) => Legality::If(Condition::NothingOpen),
        (_, after) if after.is_terminal() => Legality::If(Condition::OutputsComplete),
        (_, after) if after.settles() => Legality::If(Condition::PromptOpen),
        _ => Legality::Always,
    }
}
