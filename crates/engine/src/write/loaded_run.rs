//! A run in memory, as its writer has it: state, rows to be written, texts and producers. It must not know who writes.

use recount_event::Event;
use recount_log::RowPut;
use recount_run::State;

use crate::catalogue::fold::{Fold, next_deadline};
use crate::write::commit::StartOutcome;
use crate::write::ingest::Producers;
use crate::write::redaction::texts::Texts;
use crate::write::redaction::{Masking, Redaction};

/// The state in hand.
pub(crate) struct LoadedRun {
    pub(super) state: State,
    pub(super) fold: Fold,
    pub(super) producers: Producers,
    pub(super) texts: Texts,
    /// With the secrets of its session.
    pub(super) redaction: Redaction,
    pub(super) deadline: Option<u64>,
    /// Rows of allowances that the append in hand makes.
    pub(super) allowances: Vec<RowPut>,
    /// What becomes of the append that begins it, where that was not known when it came into memory.
    pub(super) fate: Option<StartOutcome>,
}

impl LoadedRun {
    /// A run that has just been made.
    pub(crate) fn started(
        state: State,
        fold: Fold,
        texts: Texts,
        redaction: Redaction,
        fate: Option<StartOutcome>,
    ) -> Self {
        let deadline = next_deadline(&state);
        let (producers, allowances) = (Producers::default(), Vec::new());
        LoadedRun { state, fold, producers, texts, redaction, deadline, allowances, fate }
    }

    /// Whether the append that was to begin it failed. Then the log says whether there is such a run, and which one: a later
    /// append may have made it.
    pub(super) fn is_void(&self) -> bool {
        self.fate.as_ref().and_then(|fate| fate.peek()).is_some_and(Result::is_err)
    }

    pub(super) fn apply(&mut self, events: &[Event], masking: Masking) {
        for event in events {
            recount_run::apply(&mut self.state, event);
            self.fold.event(event);
            // What they add to texts is in what masking came to.
            self.texts.event(event, false, &self.redaction.redactor);
        }
        self.texts.settle(masking.into_texts());
    }
}
