//! Finds the newest turn of a session without its id, for a client that lost it. Entry points: [`turn`]
//! and [`session_state`].
//!
//! The start of a turn is only in the log, which is read backwards from the end of the newest run.

use recount_engine::{ListQuery, RunRow};
use recount_event::{RunId, SessionId};
use recount_run::Status;

use super::caller::Face;
use super::events::events;
use crate::error::Refusal;
use crate::limits;
use crate::project::{TurnId, opens_segment};
use crate::wire::SessionStatus;

/// The state of a session.
pub(super) struct SessionState {
    pub(super) status: SessionStatus,
    /// `None` unless it is running.
    pub(super) running: Option<TurnId>,
}

pub(super) async fn session_state(face: &Face, session: SessionId) -> Result<SessionState, Refusal> {
    let state = |status, running| Ok(SessionState { status, running });
    let Some(run) = face.engine.catalogue().active_run(session).await? else {
        return state(SessionStatus::Idle, None);
    };
    match face.engine.catalogue().run(run).await? {
        Some(row) if row.status == Status::Waiting.as_str() => state(SessionStatus::Waiting, None),
        Some(row) => state(SessionStatus::Running, last_opening(face, run, &row).await?),
        None => state(SessionStatus::Running, None),
    }
}

/// The newest turn, running or stopped. `None`: the session has none.
pub(super) async fn turn(face: &Face, session: SessionId) -> Result<Option<TurnId>, Refusal> {
    let query = ListQuery { limit: 1, ..ListQuery::default() };
    let Some(row) = face.engine.catalogue().list_session_runs(session, &query).await?.items.pop() else {
        return Ok(None);
    };
    last_opening(face, row.id, &row).await
}

/// The last turn of a run. `None` when the event that opened it was pruned.
async fn last_opening(face: &Face, run: RunId, row: &RunRow) -> Result<Option<TurnId>, Refusal> {
    let mut end = face.engine.read().tail(run).await?.unwrap_or(0);
    while end > row.first_sequence {
        let begin = end.saturating_sub(limits::PAGE_EVENTS as u64).max(row.first_sequence);
        let (mut from, mut found) = (begin, None);
        // Large events fill a page before it is full.
        while from < end {
            let page = events(face, run, from, limits::PAGE_EVENTS).await?;
            let Some(last) = page.last() else { break };
            from = last.sequence + 1;
            found =
                page.iter().rev().find(|event| opens_segment(event)).map(|event| event.sequence).or(found);
        }
        if let Some(opening) = found {
            return Ok(Some(TurnId { run, opening }));
        }
        end = begin;
    }
    Ok(None)
}
