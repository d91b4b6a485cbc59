//! The redaction of a session or a run: the server's redactor and the values of the session's secret options. It must
//! not know how text is masked. Start with [`WriteContext::redaction_in`].
//!
//! A user may repeat such a value in a message. A value that is too short or too common to be found in text is stored
//! sealed and not searched for ([`Redaction::with_secrets`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use recount_event::{Code, RunId, SessionId};
use recount_redact::Redactor;

use crate::catalogue::setups::option_key;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::write::context::WriteContext;
use crate::write::handle::WriteHandle;
use crate::write::redaction::Redaction;
use crate::{Error, RunRow, SetupRow};

impl WriteContext {
    /// The redaction of a session.
    pub(crate) async fn redaction_in(&self, session: SessionId) -> Result<Redaction, Error> {
        let Some(row) = self.ground.store.row(rows::SETUPS, &rows::tenant_key(session)).await? else {
            return Ok(self.redaction.clone());
        };
        let setup: SetupRow = read_row(rows::SETUPS, &row.key, &row.value)?;
        self.redaction_with(session, &SetupRow { version: row.version, ..setup }).await
    }

    /// The same with a setup that was already read.
    pub(crate) async fn redaction_with(
        &self,
        session: SessionId,
        setup: &SetupRow,
    ) -> Result<Redaction, Error> {
        if setup.setup.secrets.is_empty() {
            return Ok(self.redaction.clone());
        }
        match self.session_redactions.get(session) {
            Some((version, redaction)) if version == setup.version => return Ok(redaction),
            _ => {}
        }
        let mut values = Vec::new();
        for option in &setup.setup.secrets {
            match self.unseal_at(&option_key(session, option)).await {
                Ok(value) => values.extend(value.and_then(|value| String::from_utf8(value).ok())),
                // The session cannot use an unreadable value either; its runs report the error.
                Err(Error::Failed(failure)) if failure.code == Code::StoreCorrupt => {
                    tracing::warn!(%session, option, why = failure.message, "a secret option is not masked");
                }
                Err(error) => return Err(error),
            }
        }
        let redaction = self.redaction.with_secrets(&values);
        self.session_redactions.insert(session, (setup.version, redaction.clone()));
        Ok(redaction)
    }

    /// The redaction of a run.
    pub(crate) async fn redaction_of(&self, run: RunId) -> Result<Redaction, Error> {
        let Some(row) = self.ground.store.row(rows::RUNS, &rows::tenant_key(run)).await? else {
            return Ok(self.redaction.clone());
        };
        let row: RunRow = read_row(rows::RUNS, &row.key, &row.value)?;
        match row.session_id {
            Some(session) => self.redaction_in(session).await,
            None => Ok(self.redaction.clone()),
        }
    }
}

impl WriteHandle {
    /// The redactor, for code that stores texts elsewhere.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.context.redaction.redactor
    }

    /// The redaction of a session that is getting these secrets.
    pub(crate) async fn redaction_with_secrets(
        &self,
        session: SessionId,
        before: Option<&SetupRow>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Redaction, Error> {
        let redaction = match before {
            Some(before) => self.context.redaction_with(session, before).await?,
            None => self.context.redaction_in(session).await?,
        };
        Ok(redaction.with_secrets(secrets.values()))
    }
}
