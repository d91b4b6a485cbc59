//! A run in memory: state, pending rows, texts and producers. It must not know the writer.

use recount_event::Event;
use recount_log::RowPut;
use recount_run::State;

use crate::catalogue::fold::{Fold, next_deadline};
use crate::write::commit::StartOutcome;
use crate::write::ingest::Producers;
use crate::write::redaction::texts::Texts;
use crate::write::redaction::{Masking, Redaction};

/// A run in memory.
pub(crate) struct LoadedRun {
    pub(super) state: State,
    pub(super) fold: Fold,
    pub(super) producers: Producers,
    pub(super) texts: Texts,
    /// Includes the secrets of its session.
    pub(super) redaction: Redaction,
    pub(super) deadline: Option<u64>,
    /// Allowance rows of the current append.
    pub(super) allowances: Vec<RowPut>,
    /// The outcome of the append that starts the run, if it was unknown when the run was loaded.
    pub(super) start_outcome: Option<StartOutcome>,
}

impl LoadedRun {
    pub(crate) fn new(state: State, fold: Fold, texts: Texts, redaction: Redaction) -> Self {
        let deadline = next_deadline(&state);
        let (producers, allowances, start_outcome) = (Producers::default(), Vec::new(), None);
        LoadedRun { state, fold, producers, texts, redaction, deadline, allowances, start_outcome }
    }

    /// Whether the append that starts the run failed. Then the log decides whether the run exists, because a later
    /// append may have created it.
    pub(super) fn is_void(&self) -> bool {
        self.start_outcome.as_ref().and_then(|start_outcome| start_outcome.peek()).is_some_and(Result::is_err)
    }

    pub(super) fn apply(&mut self, events: &[Event], masking: Masking) {
        for event in events {
            recount_run::apply(&mut self.state, event);
            self.fold.event(event);
            // Masking has already computed the texts.
            self.texts.event(event, false, &self.redaction.redactor);
        }
        self.texts.settle(masking.into_texts());
    }
}
