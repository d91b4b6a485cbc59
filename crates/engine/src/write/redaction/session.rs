//! The redaction of a session: the general redactor and the values of the session's secret options.
//!
//! A user may repeat such a value in a message. A value that is too short or too common to be found in text
//! ([`Secret::new`] refuses it) is stored sealed and not searched for. `session_redaction` reads the values.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recount_event::SessionId;
use recount_redact::Secret;

use crate::limits;
use crate::write::redaction::Redaction;

/// Cached redactions by session and setup version.
#[derive(Default)]
pub(crate) struct SessionRedactions(Mutex<HashMap<SessionId, (u64, Redaction)>>);

impl Redaction {
    /// Adds secret values.
    pub(crate) fn with_secrets<'a>(&self, values: impl IntoIterator<Item = &'a String>) -> Redaction {
        let secrets: Vec<Secret> = values.into_iter().filter_map(|value| Secret::new(value).ok()).collect();
        match secrets.is_empty() || self.redactor.is_off() {
            true => self.clone(),
            false => Redaction::new(Arc::new(self.redactor.knowing(secrets))),
        }
    }
}

impl SessionRedactions {
    /// Caches the redaction for a version of a setup.
    pub(crate) fn keep(&self, session: SessionId, version: u64, redaction: Redaction) {
        let mut redactions = self.lock();
        if redactions.len() >= limits::SESSION_REDACTIONS_MAX {
            redactions.clear();
        }
        redactions.insert(session, (version, redaction));
    }

    /// The cached redaction for a version of a setup.
    pub(crate) fn get(&self, session: SessionId, version: u64) -> Option<Redaction> {
        self.lock()
            .get(&session)
            .filter(|(cached_version, _)| *cached_version == version)
            .map(|(_, redaction)| redaction.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, (u64, Redaction)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
