//! Remembers the copy in which the next message of a session continues, so that most messages need no read.
//!
//! It must not know how copies are made. Start at [`SessionCopies`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use recount_event::{SessionId, TaskId};

use crate::limits;

/// The copy of the newest run of an agent, with its task; `None` for a session without such a run.
pub(crate) type NewestCopy = Option<(Option<TaskId>, Option<String>)>;

/// The sessions whose newest copy is known. A start of a run that continues another one makes a session unknown.
#[derive(Default)]
pub(crate) struct SessionCopies(Mutex<HashMap<SessionId, NewestCopy>>);

impl SessionCopies {
    pub(crate) fn get(&self, session: SessionId) -> Option<NewestCopy> {
        self.lock().get(&session).cloned()
    }

    pub(crate) fn insert(&self, session: SessionId, copy: NewestCopy) {
        let mut known = self.lock();
        if known.len() >= limits::SESSION_COPIES_MAX {
            known.clear();
        }
        known.insert(session, copy);
    }

    pub(crate) fn remove(&self, session: SessionId) {
        self.lock().remove(&session);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, NewestCopy>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
