//! Caches what is known of sessions: the redaction of each, and the copy in which its next message continues.
//!
//! A full cache is cleared, because every value can be read again. It must not know the values.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use recount_event::SessionId;

/// One value for each of at most `max` sessions.
pub(crate) struct SessionCache<V> {
    values: Mutex<HashMap<SessionId, V>>,
    max: usize,
}

impl<V: Clone> SessionCache<V> {
    pub(crate) fn new(max: usize) -> Self {
        SessionCache { values: Mutex::default(), max }
    }

    pub(crate) fn get(&self, session: SessionId) -> Option<V> {
        self.lock().get(&session).cloned()
    }

    pub(crate) fn insert(&self, session: SessionId, value: V) {
        let mut values = self.lock();
        if values.len() >= self.max {
            values.clear();
        }
        values.insert(session, value);
    }

    pub(crate) fn remove(&self, session: SessionId) {
        self.lock().remove(&session);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, V>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
