//! What masks in a session or a run: the redactor of the server, and the values of the session's secret options. It must
//! not know how text is masked. Begin with [`WriteRoom::redaction_in`].

use std::collections::BTreeMap;
use std::sync::Arc;

use recount_event::{Code, RunId, SessionId};
use recount_redact::Redactor;

use crate::catalogue::setups::option_key;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::write::handle::WriteHandle;
use crate::write::redaction::Redaction;
use crate::write::room::WriteRoom;
use crate::{Error, RunRow, SetupRow};

impl WriteRoom {
    /// What masks in a session.
    pub(crate) async fn redaction_in(&self, session: SessionId) -> Result<Redaction, Error> {
        let Some(row) = self.ground.store.row(rows::SETUPS, &rows::tenant_key(session)).await? else {
            return Ok(self.redaction.clone());
        };
        let setup: SetupRow = read_row(rows::SETUPS, &row.key, &row.value)?;
        self.redaction_with(session, &SetupRow { version: row.version, ..setup }).await
    }

    /// The same where the setup was read already.
    pub(crate) async fn redaction_with(
        &self,
        session: SessionId,
        setup: &SetupRow,
    ) -> Result<Redaction, Error> {
        if setup.setup.secrets.is_empty() {
            return Ok(self.redaction.clone());
        }
        if let Some(redaction) = self.session_redactions.get(session, setup.version) {
            return Ok(redaction);
        }
        let mut values = Vec::new();
        for option in &setup.setup.secrets {
            match self.unseal_at(&option_key(session, option)).await {
                Ok(value) => values.extend(value.and_then(|value| String::from_utf8(value).ok())),
                // A value that cannot be read cannot be used by the session either; its runs say so.
                Err(Error::Failed(failure)) if failure.code == Code::StoreCorrupt => {
                    tracing::warn!(%session, option, why = failure.message, "a secret option is not masked");
                }
                Err(error) => return Err(error),
            }
        }
        let redaction = self.redaction.knowing(&values);
        self.session_redactions.keep(session, setup.version, redaction.clone());
        Ok(redaction)
    }

    /// What masks in a run.
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
    /// What is masked before it is appended, for all who put what they were told into words elsewhere.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.room.redaction.redactor
    }

    /// What masks in a session that is being given these secrets.
    pub(crate) async fn redaction_given(
        &self,
        session: SessionId,
        before: Option<&SetupRow>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Redaction, Error> {
        let redaction = match before {
            Some(before) => self.room.redaction_with(session, before).await?,
            None => self.room.redaction_in(session).await?,
        };
        Ok(redaction.knowing(secrets.values()))
    }
}
