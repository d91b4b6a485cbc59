//! The parameters of a new turn. Start with [`TurnSetup`].

use recount_engine::{Profile, Receipt, RequestResult, RunReply, SetupRow};
use recount_event::{RunId, SessionId};
use recount_run::Command;

use super::caller::Face;
use super::idempotency::IdempotentRequest;
use crate::accept::Change;
use crate::error::Refusal;
use crate::project::TurnId;

/// A turn that is about to start: its session, agent and changes.
pub(super) struct TurnSetup<'a> {
    pub(super) face: &'a Face,
    pub(super) session: SessionId,
    pub(super) row: SetupRow,
    pub(super) profile: &'a Profile,
    pub(super) change: Change,
    pub(super) traceparent: Option<String>,
    pub(super) idempotent: &'a IdempotentRequest,
}

impl TurnSetup<'_> {
    /// Submits an answer to a waiting run, with the changes of this turn. `None`: there was nothing to write.
    pub(super) async fn submit(&self, run: RunId, command: Command) -> Result<Option<Receipt>, Refusal> {
        let answering = RunReply {
            session: self.session,
            run,
            command,
            before: Some(self.row.clone()),
            overrides: self.change.overrides.clone(),
        };
        Ok(self.face.engine.write().reply(answering, self.idempotent.idempotency.as_ref()).await?)
    }

    /// Records the turn of a late answer, which appends nothing that could record it. If this fails, the turn is
    /// looked up again.
    pub(super) async fn remember(&self, turn: TurnId) {
        let result = RequestResult::ChangedAt(turn.run, turn.opening);
        let stored =
            self.face.engine.write().store_result(self.idempotent.idempotency.as_ref(), result).await;
        if let Err(why) = stored {
            tracing::warn!(
                %turn,
                %why,
                "the idempotency key of an answer was not stored; a retry of the request is processed again"
            );
        }
    }
}
