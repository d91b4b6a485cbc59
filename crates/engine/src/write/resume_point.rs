//! Finds the event of an ended run from which another run continues: a checkpoint, a turn, the last settled event, or
//! the ending. Refuses an unknown one, and a conversation that was partly pruned.
//!
//! Start with [`WriteHandle::resume_point`]. The rules are in `recount_run::view::ResumePlaces`.

use recount_event::{Code, ForeignId, RunId};
use recount_run::view::ResumePlaces;

use crate::boxed;
use crate::ground::journal;
use crate::write::ended_run::EndedRun;
use crate::write::handle::WriteHandle;
use crate::{Error, limits};

/// The requested resume point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResumeFrom {
    /// The last event after which every call was settled.
    Settled,
    Checkpoint(ForeignId),
    /// The last event to include.
    Sequence(u64),
    /// The first turn to leave out.
    BeforeTurn(u64),
    /// The whole run.
    End,
}

impl ResumeFrom {
    /// Why a run from here is a branch; `None` if it continues the result of its predecessor.
    pub fn branch(&self) -> Option<String> {
        match self {
            ResumeFrom::Settled | ResumeFrom::End => None,
            ResumeFrom::Checkpoint(id) => Some(format!("resumed from checkpoint {id}")),
            ResumeFrom::Sequence(sequence) => Some(format!("resumed from event {sequence}")),
            ResumeFrom::BeforeTurn(index) => Some(format!("retried from turn {index}")),
        }
    }
}

impl WriteHandle {
    /// The last event of an ended run that a new run includes; `None` for all of it.
    #[boxed]
    pub async fn resume_point(&self, ended: &EndedRun, from: &ResumeFrom) -> Result<Option<u64>, Error> {
        let place = match from {
            ResumeFrom::End => return Ok(None),
            ResumeFrom::Sequence(sequence) => *sequence,
            ResumeFrom::Settled => {
                let missing = || {
                    let message = format!("{} ended before its first turn; retry it", ended.run);
                    Error::rejected(Code::CheckpointMissing, message)
                };
                self.places(ended.run).await?.settled().ok_or_else(missing)?
            }
            ResumeFrom::Checkpoint(id) => {
                let places = self.places(ended.run).await?;
                places.checkpoint(id).ok_or_else(|| unknown_checkpoint(ended.run, id, &places))?
            }
            ResumeFrom::BeforeTurn(index) => {
                let places = self.places(ended.run).await?;
                places.before_turn(*index).ok_or_else(|| unknown_turn(ended.run, *index, &places))?
            }
        };
        self.refuse_if_pruned(ended.run).await?;
        Ok(Some(place))
    }

    pub(crate) async fn places(&self, run: RunId) -> Result<ResumePlaces, Error> {
        let mut places = ResumePlaces::default();
        let stream = journal::stream_of(run);
        journal::replay(self.ground().store(), &stream, |event| places.see(event)).await?;
        Ok(places)
    }

    /// Refuses a run that continues one whose events were pruned, because the model would not get the whole
    /// conversation.
    async fn refuse_if_pruned(&self, run: RunId) -> Result<(), Error> {
        let mut next = self.read().resumed_from(run).await?;
        for _ in 0..limits::LINEAGE_RUNS_MAX {
            let Some(resumed) = next else { return Ok(()) };
            let Ok(earlier) = resumed.from_run_id.parse::<RunId>() else { return Ok(()) };
            let row = self.catalogue().existing_run(earlier).await?;
            if row.first_sequence > 0 {
                let message = format!("{run} continues {earlier}, whose beginning was pruned; retry {run}");
                return Err(Error::rejected(Code::RunPruned, message));
            }
            next = self.read().resumed_from(earlier).await?;
        }
        Ok(())
    }
}

fn unknown_checkpoint(run: RunId, id: &ForeignId, places: &ResumePlaces) -> Error {
    let last = match places.last_checkpoint() {
        Some(last) => format!("its last checkpoint is {last}"),
        None => "it has no checkpoints".to_owned(),
    };
    Error::rejected(Code::CheckpointNotFound, format!("{run} has no checkpoint {id}; {last}"))
}

fn unknown_turn(run: RunId, index: u64, places: &ResumePlaces) -> Error {
    let turns = match places.turns() {
        Some((first, last)) => format!("its turns are {first} to {last}"),
        None => "it has no turns".to_owned(),
    };
    Error::rejected(Code::TurnNotFound, format!("{run} has no turn {index}; {turns}"))
}
