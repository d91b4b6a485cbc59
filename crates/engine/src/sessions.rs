//! Sessions: conversations, whose runs belong together and go together.
//!
//! A session is a record; which runs are in it is a fold. Deleting one stands in `erase`.

use recount_event::{Code, SessionId, time};
use recount_log::{Append, AppendError, Guard, RowPut, Store};
use recount_run::State;
use serde::{Deserialize, Serialize};

use crate::engine::read_row;
use crate::error::session_erased;
use crate::{Engine, Error, ListQuery, Listed, Once, RunRow, limits, rows};

/// A session as it was begun.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    pub id: String,
    pub title: Option<String>,
    pub created_at: String,
}

impl Engine {
    pub async fn create_session(&self, title: Option<String>) -> Result<SessionRow, Error> {
        self.create_session_once(title, None).await
    }

    /// The same for a request that is to be done once.
    pub async fn create_session_once(
        &self,
        title: Option<String>,
        once: Option<&Once>,
    ) -> Result<SessionRow, Error> {
        let stamp = self.stamp();
        let session = SessionId::new(self.mint(stamp));
        let title = title.map(|title| self.redactor().text(&title).into_owned());
        let row = SessionRow { id: session.to_string(), title, created_at: time::format_ms(stamp.now_ms) };
        let mut rows = vec![rows::put(rows::SESSIONS, rows::tenant_key(session), Guard::Absent, &row)];
        rows.extend(once.into_iter().flat_map(|once| self.made_once(once, &row.id)));
        self.store().append(Append { rows, ..Append::default() }).await?;
        Ok(row)
    }

    /// Gives a session another title.
    pub async fn set_title(&self, session: SessionId, title: Option<String>) -> Result<SessionRow, Error> {
        let key = rows::tenant_key(session);
        let redactor = self.tools.redaction_in(session).await?.redactor;
        let title = title.map(|title| redactor.text(&title).into_owned());
        for _ in 0..limits::QUEUE_TRIES {
            let Some(found) = self.store().row(rows::SESSIONS, &key).await? else {
                return Err(self.missing_session(session).await);
            };
            let before: SessionRow = read_row(rows::SESSIONS, &found.key, &found.value)?;
            let row = SessionRow { title: title.clone(), ..before };
            let rows = vec![rows::put(rows::SESSIONS, key.as_str(), Guard::Version(found.version), &row)];
            match self.store().append(Append { rows, ..Append::default() }).await {
                Ok(_) => return Ok(row),
                // Somebody else named it, or it was deleted.
                Err(AppendError::GuardFailed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::too_many_at_once(&format!("session {session}")))
    }

    pub async fn session(&self, session: SessionId) -> Result<Option<SessionRow>, Error> {
        self.row(rows::SESSIONS, &rows::tenant_key(session)).await
    }

    /// Sessions, newest first.
    pub async fn list_sessions(&self, query: &ListQuery) -> Result<Listed<SessionRow>, Error> {
        let listed =
            self.list(rows::SESSIONS, &rows::tenant_key(""), query, |_: &SessionRow| String::new()).await?;
        Ok(listed.into())
    }

    /// The runs of a session, newest first.
    pub async fn list_session_runs(
        &self,
        session: SessionId,
        query: &ListQuery,
    ) -> Result<Listed<RunRow>, Error> {
        self.list_runs_of(rows::SESSION_RUNS, &rows::session_runs_prefix(session), query).await
    }

    /// How many runs a session has, counted up to a bound.
    pub async fn count_session_runs(&self, session: SessionId) -> Result<u64, Error> {
        self.count_runs_of(rows::SESSION_RUNS, &rows::session_runs_prefix(session)).await
    }

    /// Why a session is not there: it never was, or it was deleted.
    pub async fn missing_session(&self, session: SessionId) -> Error {
        match self.store().row(rows::SESSIONS_ERASED, &session.to_string()).await {
            Ok(Some(_)) => session_erased(session),
            Ok(None) => Error::rejected(Code::SessionNotFound, format!("there is no session {session}")),
            Err(fault) => fault.into(),
        }
    }
}

/// A record of the session of a run that is here while nobody has begun the session here: made of what the run
/// says. `None` where there is one, or where it was deleted.
pub(crate) async fn record_of(
    store: &dyn Store,
    state: &State,
    session: SessionId,
) -> Result<Option<RowPut>, Error> {
    let key = rows::tenant_key(session);
    let is_known = store.row(rows::SESSIONS, &key).await?.is_some()
        || store.row(rows::SESSIONS_ERASED, &session.to_string()).await?.is_some();
    if is_known {
        return Ok(None);
    }
    let summary = state.summary();
    let row = SessionRow {
        id: session.to_string(),
        title: summary.title,
        created_at: time::format_ms(summary.created_ms),
    };
    Ok(Some(rows::put(rows::SESSIONS, key, Guard::Absent, &row)))
}
