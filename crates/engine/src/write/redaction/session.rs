//! The redaction of one session: what is masked everywhere, and the values of the session's secret options.
//!
//! An application gives these values for the agent to use, and a person may repeat one in a message. A value that is
//! too short or too plain to be found in text ([`Secret::new`] refuses it) is kept sealed and not searched for. Begin
//! with [`Tools::redaction_in`].

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::{Code, RunId, SessionId};
use recount_redact::Secret;

use crate::catalogue::setups::option_key;
use crate::catalogue::table::read_row;
use crate::ground::error::damaged_row;
use crate::ground::rows;
use crate::write::redaction::Redaction;
use crate::write::tools::Tools;
use crate::{Engine, Error, RunRow, SetupRow, limits};

/// Redactions of sessions with secret options, by the version of the setup that they were made for.
#[derive(Default)]
pub(crate) struct SessionRedactions(Mutex<HashMap<SessionId, (u64, Redaction)>>);

impl Redaction {
    /// The same with more values that are secret.
    pub(crate) fn knowing<'a>(&self, values: impl IntoIterator<Item = &'a String>) -> Redaction {
        let secrets: Vec<Secret> = values.into_iter().filter_map(|value| Secret::new(value).ok()).collect();
        match secrets.is_empty() || self.redactor.is_off() {
            true => self.clone(),
            false => Redaction::new(Arc::new(self.redactor.knowing(secrets))),
        }
    }
}

impl Tools {
    /// What masks in a session.
    pub(crate) async fn redaction_in(&self, session: SessionId) -> Result<Redaction, Error> {
        let Some(row) = self.store.row(rows::SETUPS, &rows::tenant_key(session)).await? else {
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
        if let Some((version, redaction)) = self.session_redactions.lock().get(&session)
            && *version == setup.version
        {
            return Ok(redaction.clone());
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
        let Some(row) = self.store.row(rows::RUNS, &rows::tenant_key(run)).await? else {
            return Ok(self.redaction.clone());
        };
        let row: RunRow = read_row(rows::RUNS, &row.key, &row.value)?;
        let Some(session) = row.session_id.as_deref() else { return Ok(self.redaction.clone()) };
        // Without the session its secrets are unknown, and what they would mask must not be stored.
        let session = session.parse().map_err(|why| damaged_row(rows::RUNS, &rows::tenant_key(run), why))?;
        self.redaction_in(session).await
    }
}

impl SessionRedactions {
    /// Keeps what was made for this version of a setup.
    pub(crate) fn keep(&self, session: SessionId, version: u64, redaction: Redaction) {
        let mut redactions = self.lock();
        if redactions.len() >= limits::SESSION_REDACTIONS_MAX {
            redactions.clear();
        }
        redactions.insert(session, (version, redaction));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, (u64, Redaction)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// What masks in a session that is being given these secrets.
    pub(crate) async fn redaction_given(
        &self,
        session: SessionId,
        before: Option<&SetupRow>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Redaction, Error> {
        let redaction = match before {
            Some(before) => self.tools.redaction_with(session, before).await?,
            None => self.tools.redaction_in(session).await?,
        };
        Ok(redaction.knowing(secrets.values()))
    }
}
