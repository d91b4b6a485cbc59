//! A turn that is to begin. See [`Beginning`].

use recount_engine::{Answering, KeptAnswer, Profile, Receipt, SetupRow};
use recount_event::{RunId, SessionId};
use recount_run::Command;

use super::caller::Face;
use super::once::Again;
use crate::accept::Change;
use crate::error::Refusal;
use crate::project::TurnId;

/// A turn that is to begin: where, of which agent, with what.
pub(super) struct Beginning<'a> {
    pub(super) face: &'a Face,
    pub(super) session: SessionId,
    pub(super) row: SetupRow,
    pub(super) profile: &'a Profile,
    pub(super) change: Change,
    pub(super) traceparent: Option<String>,
    pub(super) again: &'a Again,
}

impl Beginning<'_> {
    /// Submits an answer to what a run waits for, with what changes from here on. `None`: there was nothing to write.
    pub(super) async fn submit(&self, run: RunId, command: Command) -> Result<Option<Receipt>, Refusal> {
        let answering = Answering {
            session: self.session,
            run,
            command,
            before: Some(self.row.clone()),
            overrides: self.change.overrides.clone(),
        };
        Ok(self.face.engine.write().answer(answering, self.again.once.as_ref()).await?)
    }

    /// Remembers which turn an answer came too late for; it makes nothing that would remember it. Where this fails it is
    /// looked up again.
    pub(super) async fn remember(&self, turn: TurnId) {
        let Some(once) = &self.again.once else { return };
        let answer = KeptAnswer { status: 200, location: Some(turn.to_string()), body: String::new() };
        if let Err(why) = self.face.engine.write().keep_answer(once, answer).await {
            tracing::warn!(%turn, %why, "an answer's key is not remembered; sent again, it is looked at again");
        }
    }
}
