//! A turn that is to begin. See [`Beginning`].

use recount_engine::{KeptAnswer, Profile, SetupRow};
use recount_event::SessionId;

use super::caller::Face;
use super::once::Again;
use crate::accept::Change;
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
    /// Remembers which turn an answer came too late for; it makes nothing that would remember it. Where this fails it is
    /// looked up again.
    pub(super) async fn remember(&self, turn: TurnId) {
        let Some(once) = &self.again.once else { return };
        let answer = KeptAnswer { status: 200, location: Some(turn.to_string()), body: String::new() };
        if let Err(why) = self.face.engine.keep_answer(once, answer).await {
            tracing::warn!(%turn, %why, "an answer's key is not remembered; sent again, it is looked at again");
        }
    }
}
