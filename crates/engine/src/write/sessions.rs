//! Sessions: conversations whose runs belong together and are deleted together.
//!
//! A session is a record; its list of runs is a fold. `erase` deletes a session.

use recount_event::{SessionId, time};
use recount_log::{Append, AppendError, Guard};

use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::write::handle::WriteHandle;
use crate::{Error, IdempotencyKey, RequestResult, SessionRow, limits};

impl WriteHandle {
    #[boxed]
    pub async fn create_session(&self, title: Option<String>) -> Result<SessionRow, Error> {
        self.create_session_keyed(title, None).await
    }

    /// The same for a request with an idempotency key.
    #[boxed]
    pub async fn create_session_keyed(
        &self,
        title: Option<String>,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<SessionRow, Error> {
        let stamp = self.ground().stamp();
        let session = SessionId::new(self.ground().mint(stamp));
        let title = title.map(|title| self.redactor().text(&title).into_owned());
        let row = SessionRow { id: session, title, created_at: time::format_ms(stamp.now_ms) };
        let mut rows = vec![rows::put(rows::SESSIONS, rows::tenant_key(session), Guard::Absent, &row)];
        rows.extend(self.result_rows(idempotency, RequestResult::Session(session)));
        self.ground().store().append(Append { rows, ..Append::default() }).await?;
        self.context.session_copies.insert(session, None);
        Ok(row)
    }

    /// The session that records another program's session; created if it does not exist or was deleted. `name` is a
    /// digest of the program's name for it.
    #[boxed]
    pub async fn recorded_session(&self, name: &str, title: Option<String>) -> Result<SessionRow, Error> {
        let key = rows::tenant_key(name);
        let title = title.map(|title| self.redactor().text(&title).into_owned());
        for _ in 0..limits::QUEUE_TRIES {
            let found = self.ground().store().row(rows::RECORDED_SESSIONS, &key).await?;
            let guard = match &found {
                None => Guard::Absent,
                Some(found) => {
                    let session: SessionId = read_row(rows::RECORDED_SESSIONS, &found.key, &found.value)?;
                    if let Some(row) = self.catalogue().session(session).await? {
                        return Ok(row);
                    }
                    Guard::Version(found.version)
                }
            };
            let stamp = self.ground().stamp();
            let session = SessionId::new(self.ground().mint(stamp));
            let row =
                SessionRow { id: session, title: title.clone(), created_at: time::format_ms(stamp.now_ms) };
            let rows = vec![
                rows::put(rows::SESSIONS, rows::tenant_key(session), Guard::Absent, &row),
                rows::put(rows::RECORDED_SESSIONS, key.as_str(), guard, &session),
            ];
            match self.ground().store().append(Append { rows, ..Append::default() }).await {
                Ok(_) => return Ok(row),
                // Another request was first.
                Err(AppendError::GuardFailed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::too_many_at_once("the recorded session"))
    }

    /// Changes the title of a session.
    #[boxed]
    pub async fn set_title(&self, session: SessionId, title: Option<String>) -> Result<SessionRow, Error> {
        let key = rows::tenant_key(session);
        let redactor = self.context.redaction_in(session).await?.redactor;
        let title = title.map(|title| redactor.text(&title).into_owned());
        for _ in 0..limits::QUEUE_TRIES {
            let Some(found) = self.ground().store().row(rows::SESSIONS, &key).await? else {
                return Err(self.catalogue().missing_session(session).await);
            };
            let before: SessionRow = read_row(rows::SESSIONS, &found.key, &found.value)?;
            let row = SessionRow { title: title.clone(), ..before };
            let rows = vec![rows::put(rows::SESSIONS, key.as_str(), Guard::Version(found.version), &row)];
            match self.ground().store().append(Append { rows, ..Append::default() }).await {
                Ok(_) => return Ok(row),
                // Another client changed the title, or the session was deleted.
                Err(AppendError::GuardFailed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::too_many_at_once(&format!("session {session}")))
    }
}
