//! How calls of the built-in tools end, and how they do work that blocks.
//!
//! Look at [`Stop`], the reason why a call is not completed.

use std::time::Duration;

use recount_event::Draft;
use recount_world::{Kind, World};

use crate::limits;
use crate::paths::PathError;
use crate::tool::{Cancel, Gone, How, Outcome};

/// Why a call is not completed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stop {
    how: How,
    /// What happened before.
    events: Vec<Draft>,
}

impl Stop {
    pub(crate) fn failed(code: &'static str, error: impl Into<String>) -> Self {
        Stop { how: How::Failed { code, error: error.into() }, events: Vec::new() }
    }

    pub(crate) fn timed_out(code: &'static str, error: impl Into<String>) -> Self {
        Stop { how: How::TimedOut { code, error: error.into() }, events: Vec::new() }
    }

    pub(crate) fn cancelled() -> Self {
        Stop { how: How::Cancelled, events: Vec::new() }
    }

    pub(crate) fn with(mut self, events: Vec<Draft>) -> Self {
        self.events.extend(events);
        self
    }

    /// Why, in words.
    pub(crate) fn words(&self) -> &str {
        match &self.how {
            How::Failed { error, .. } | How::TimedOut { error, .. } => error,
            How::Cancelled => "the call was cancelled",
            How::Completed => "",
        }
    }

    /// Says more about a failure.
    pub(crate) fn saying(mut self, more: &str) -> Self {
        if let How::Failed { error, .. } | How::TimedOut { error, .. } = &mut self.how {
            error.push_str("; ");
            error.push_str(more);
        }
        self
    }
}

impl From<PathError> for Stop {
    fn from(error: PathError) -> Self {
        Stop::failed(error.code, error.message)
    }
}

/// A worker that is no longer in charge reports nothing, so it does not matter how it ends.
impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Stop::cancelled()
    }
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        let (output, summary) = match &stop.how {
            How::Completed => (String::new(), String::new()),
            How::Failed { error, .. } | How::TimedOut { error, .. } => (error.clone(), first_line(error)),
            How::Cancelled => ("The call was cancelled.".to_owned(), "cancelled".to_owned()),
        };
        Outcome { how: stop.how, output, summary, events: stop.events, artifact: None, image: None }
    }
}

/// A call that did what it was asked.
pub(crate) fn completed(
    output: impl Into<String>,
    summary: impl Into<String>,
    events: Vec<Draft>,
) -> Outcome {
    Outcome {
        how: How::Completed,
        output: output.into(),
        summary: summary.into(),
        events,
        artifact: None,
        image: None,
    }
}

/// One line of at most as many characters as a summary has.
pub(crate) fn first_line(text: &str) -> String {
    cut(text.lines().next().unwrap_or_default(), limits::SUMMARY_CHARS_MAX)
}

/// The beginning of a text, marked when something was left out.
pub(crate) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// Does work that blocks beside the runtime's own threads.
pub(crate) async fn aside<T: Send + 'static>(
    world: &World,
    work: impl FnOnce() -> Result<T, Stop> + Send + 'static,
) -> Result<T, Stop> {
    match world.tasks.block(Kind::Effect, work).await {
        Ok(done) => done,
        Err(recount_world::Panicked) => Err(Stop::failed(
            "internal",
            "the tool itself broke; this is a bug of this program, not of the call",
        )),
    }
}

/// Looked at in long work: whether to go on.
pub(crate) struct Watch {
    cancel: Cancel,
    until: tokio::time::Instant,
}

/// Why long work stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    Cancelled,
    TimeUp,
}

impl Watch {
    pub(crate) fn new(cancel: &Cancel, time: Duration) -> Self {
        Watch { cancel: cancel.clone(), until: recount_world::moment() + time }
    }

    pub(crate) fn look(&self) -> Result<(), Halt> {
        if self.cancel.is_cancelled() {
            Err(Halt::Cancelled)
        } else if recount_world::moment() >= self.until {
            Err(Halt::TimeUp)
        } else {
            Ok(())
        }
    }
}
