//! Sessions as rows. It changes nothing; see `write::sessions`.

use recount_event::{SessionId, time};
use recount_log::{Guard, RowPut, Store};
use recount_run::State;
use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::ground::rows;
use crate::{Error, ListPage, ListQuery};

/// A session record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionRow {
    pub id: SessionId,
    pub title: Option<String>,
    pub created_at: String,
}

impl CatalogueHandle {
    #[boxed]
    pub async fn session(&self, session: SessionId) -> Result<Option<SessionRow>, Error> {
        self.row(rows::SESSIONS, &rows::tenant_key(session)).await
    }

    /// A session that must exist. The error names why it is missing.
    #[boxed]
    pub async fn existing_session(&self, session: SessionId) -> Result<SessionRow, Error> {
        match self.session(session).await? {
            Some(row) => Ok(row),
            None => Err(self.missing_session(session).await),
        }
    }

    /// Sessions, newest first.
    #[boxed]
    pub async fn list_sessions(&self, query: &ListQuery) -> Result<ListPage<SessionRow>, Error> {
        let listed =
            self.list(rows::SESSIONS, &rows::tenant_key(""), query, |_: &SessionRow| String::new()).await?;
        Ok(listed.without_keys())
    }
}

/// A record for the session of a run, if the session has none and was not deleted.
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
    let row =
        SessionRow { id: session, title: summary.title, created_at: time::format_ms(summary.created_ms) };
    Ok(Some(rows::put(rows::SESSIONS, key, Guard::Absent, &row)))
}
