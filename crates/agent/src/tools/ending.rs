//! The end of calls of built-in tools, and the execution of blocking work.
//!
//! Start at [`CallFailure`].

use std::time::Duration;

use recount_event::Draft;
use recount_world::{Kind, World};

use crate::limits;
use crate::paths::PathError;
use crate::tool::{Cancel, Outcome, OutcomeStatus, RunLost};

/// Why a call was not completed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallFailure {
    status: OutcomeStatus,
    /// Events of what happened before the failure.
    events: Vec<Draft>,
}

impl CallFailure {
    pub(crate) fn failed(code: &'static str, error: impl Into<String>) -> Self {
        CallFailure { status: OutcomeStatus::Failed { code, error: error.into() }, events: Vec::new() }
    }

    pub(crate) fn timed_out(code: &'static str, error: impl Into<String>) -> Self {
        CallFailure { status: OutcomeStatus::TimedOut { code, error: error.into() }, events: Vec::new() }
    }

    pub(crate) fn cancelled() -> Self {
        CallFailure { status: OutcomeStatus::Cancelled, events: Vec::new() }
    }

    pub(crate) fn with_events(mut self, events: Vec<Draft>) -> Self {
        self.events.extend(events);
        self
    }

    /// The error message.
    pub(crate) fn message(&self) -> &str {
        match &self.status {
            OutcomeStatus::Failed { error, .. } | OutcomeStatus::TimedOut { error, .. } => error,
            OutcomeStatus::Cancelled => "the call was cancelled",
            OutcomeStatus::Completed => "",
        }
    }

    /// Adds a note to the error.
    pub(crate) fn with_note(mut self, more: &str) -> Self {
        if let OutcomeStatus::Failed { error, .. } | OutcomeStatus::TimedOut { error, .. } = &mut self.status
        {
            error.push_str("; ");
            error.push_str(more);
        }
        self
    }
}

impl From<PathError> for CallFailure {
    fn from(error: PathError) -> Self {
        CallFailure::failed(error.code, error.message)
    }
}

/// A worker that has lost its run reports nothing, so the status does not matter.
impl From<RunLost> for CallFailure {
    fn from(_: RunLost) -> Self {
        CallFailure::cancelled()
    }
}

impl From<CallFailure> for Outcome {
    fn from(failure: CallFailure) -> Self {
        let (output, summary) = match &failure.status {
            OutcomeStatus::Completed => (String::new(), String::new()),
            OutcomeStatus::Failed { error, .. } | OutcomeStatus::TimedOut { error, .. } => {
                (error.clone(), first_line(error))
            }
            OutcomeStatus::Cancelled => ("The call was cancelled.".to_owned(), "cancelled".to_owned()),
        };
        Outcome {
            status: failure.status,
            output,
            summary,
            events: failure.events,
            artifact: None,
            image: None,
        }
    }
}

/// The outcome of a successful call.
pub(crate) fn completed(
    output: impl Into<String>,
    summary: impl Into<String>,
    events: Vec<Draft>,
) -> Outcome {
    Outcome {
        status: OutcomeStatus::Completed,
        output: output.into(),
        summary: summary.into(),
        events,
        artifact: None,
        image: None,
    }
}

/// The first line, with at most as many characters as a summary may have.
pub(crate) fn first_line(text: &str) -> String {
    cut(text.lines().next().unwrap_or_default(), limits::SUMMARY_CHARS_MAX)
}

/// A number with its unit: `1 match`, `2 matches`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Truncates a text to `chars` characters and marks the cut with `…`.
pub(crate) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// Runs blocking work on a separate thread.
pub(crate) async fn run_blocking<T: Send + 'static>(
    world: &World,
    work: impl FnOnce() -> Result<T, CallFailure> + Send + 'static,
) -> Result<T, CallFailure> {
    match world.tasks.block(Kind::Effect, work).await {
        Ok(done) => done,
        Err(recount_world::Panicked) => Err(CallFailure::failed(
            "internal",
            "the tool failed because of a bug in Recount; the call itself may be correct",
        )),
    }
}

/// Checked regularly during long work: cancellation and deadline.
pub(crate) struct WorkMonitor {
    cancel: Cancel,
    until: tokio::time::Instant,
}

/// Why long work stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    Cancelled,
    TimeUp,
}

impl WorkMonitor {
    pub(crate) fn new(cancel: &Cancel, time: Duration) -> Self {
        WorkMonitor { cancel: cancel.clone(), until: recount_world::moment() + time }
    }

    pub(crate) fn check(&self) -> Result<(), Halt> {
        if self.cancel.is_cancelled() {
            Err(Halt::Cancelled)
        } else if recount_world::moment() >= self.until {
            Err(Halt::TimeUp)
        } else {
            Ok(())
        }
    }
}
