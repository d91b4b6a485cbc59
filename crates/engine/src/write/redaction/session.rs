//! The redaction of one session: what is masked everywhere, and the values of the session's secret options.
//!
//! An application gives these values for the agent to use, and a person may repeat one in a message. A value that is
//! too short or too plain to be found in text ([`Secret::new`] refuses it) is kept sealed and not searched for. How
//! they are read is in `session_redaction`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::SessionId;
use recount_redact::Secret;

use crate::limits;
use crate::write::redaction::Redaction;

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

impl SessionRedactions {
    /// Keeps what was made for this version of a setup.
    pub(crate) fn keep(&self, session: SessionId, version: u64, redaction: Redaction) {
        let mut redactions = self.lock();
        if redactions.len() >= limits::SESSION_REDACTIONS_MAX {
            redactions.clear();
        }
        redactions.insert(session, (version, redaction));
    }

    /// What was made for this version of a setup.
    pub(crate) fn get(&self, session: SessionId, version: u64) -> Option<Redaction> {
        self.lock().get(&session).filter(|(made_for, _)| *made_for == version).map(|(_, made)| made.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, (u64, Redaction)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
