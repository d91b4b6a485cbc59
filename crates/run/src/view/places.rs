//! Where a new run may continue from an ended one: its checkpoints, its turns and its settled end.
//!
//! A place is the last event that the new run includes. It knows nothing of conversations: that is `History`. Look at
//! [`ResumePlaces::settled`].

use recount_event::{Event, ForeignId, Payload};

/// The places of one run, folded from its events in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResumePlaces {
    checkpoints: Vec<(ForeignId, u64)>,
    /// The index of each turn, with the last event before it started for the first time.
    turns: Vec<(u64, u64)>,
    /// Whether a turn completed after the last checkpoint.
    completed_after: bool,
    /// Where the workspace became ready.
    provisioned: Option<u64>,
    /// Where calls were made, which may have changed files.
    calls: Vec<u64>,
    last: Option<u64>,
}

/// The record of the files at one event of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesAt<'a> {
    /// The run used no workspace.
    NoWorkspace,
    /// Those at the start of the run.
    Start,
    Checkpoint(&'a ForeignId),
    /// Calls were made since the last record.
    NotRecorded {
        last_checkpoint: Option<&'a ForeignId>,
    },
}

impl ResumePlaces {
    pub fn see(&mut self, event: &Event) {
        self.last = Some(event.sequence);
        match event.payload() {
            Payload::RunCheckpointSaved(saved) => {
                self.checkpoints.push((saved.checkpoint_id.clone(), event.sequence));
                self.completed_after = false;
            }
            Payload::TurnStarted(started)
                if self.turns.last().is_none_or(|(index, _)| *index != started.turn_index) =>
            {
                self.turns.push((started.turn_index, event.sequence.saturating_sub(1)));
            }
            Payload::TurnCompleted(_) => self.completed_after = true,
            Payload::WorkspaceProvisioned(_) => {
                self.provisioned.get_or_insert(event.sequence);
            }
            Payload::ToolInvoked(_) => self.calls.push(event.sequence),
            _ => {}
        }
    }

    /// The last place at which every call was settled: the last checkpoint, or the ending if a turn completed after it.
    /// Calls of such a turn took effect or were cut by the ending, and a model that did not see them would repeat them.
    /// `None` if no turn was started, so that there is nothing to resume.
    pub fn settled(&self) -> Option<u64> {
        match self.checkpoints.last() {
            Some((_, sequence)) if !self.completed_after => Some(*sequence),
            _ => self.last.filter(|_| !self.turns.is_empty()),
        }
    }

    /// Where this checkpoint was saved.
    pub fn checkpoint(&self, id: &ForeignId) -> Option<u64> {
        self.checkpoints.iter().find(|(saved, _)| saved == id).map(|(_, sequence)| *sequence)
    }

    /// The last event before this turn.
    pub fn before_turn(&self, index: u64) -> Option<u64> {
        self.turns.iter().find(|(turn, _)| *turn == index).map(|(_, sequence)| *sequence)
    }

    /// Where the files at an event were recorded: they are the same there.
    pub fn files_at(&self, sequence: u64) -> FilesAt<'_> {
        let Some(provisioned) = self.provisioned else { return FilesAt::NoWorkspace };
        let checkpoint = self.checkpoints.iter().rev().find(|(_, at)| *at <= sequence);
        let recorded = checkpoint.map_or(provisioned, |(_, at)| *at);
        if self.calls.iter().any(|call| (recorded + 1..=sequence).contains(call)) {
            return FilesAt::NotRecorded { last_checkpoint: checkpoint.map(|(id, _)| id) };
        }
        checkpoint.map_or(FilesAt::Start, |(id, _)| FilesAt::Checkpoint(id))
    }

    /// The indexes of the first and the last turn.
    pub fn turns(&self) -> Option<(u64, u64)> {
        Some((self.turns.first()?.0, self.turns.last()?.0))
    }

    pub fn last_checkpoint(&self) -> Option<&ForeignId> {
        self.checkpoints.last().map(|(id, _)| id)
    }
}
