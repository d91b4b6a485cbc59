//! The state that all writers share.

use std::sync::{Arc, OnceLock};

use recount_event::TaskId;
use recount_log::Answer;
use recount_redact::Redactor;

use crate::catalogue::repair::Repairs;
use crate::ground::context::Ground;
use crate::read::publish::Publisher;
use crate::write::blobs::Blobs;
use crate::write::commit::{Commit, NotCommitted, Receipts};
use crate::write::deadlines::Deadlines;
use crate::write::idempotency::InFlightRequests;
use crate::write::new_run::Admission;
use crate::write::new_runs::NewRunCache;
use crate::write::pending_runs::PendingRuns;
use crate::write::quotas::Quotas;
use crate::write::redaction::Redaction;
use crate::write::seal::Seal;
use crate::write::session_cache::SessionCache;
use crate::{SEAL_KEY_BYTES, limits};

/// The shared state of writers.
pub(crate) struct WriteContext {
    pub(crate) ground: Arc<Ground>,
    pub(crate) repairs: Arc<Repairs>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) timers: Arc<Deadlines>,
    pub(crate) redaction: Redaction,
    /// With the version of the setup.
    pub(crate) session_redactions: SessionCache<(u64, Redaction)>,
    pub(crate) blobs: Blobs,
    pub(crate) quotas: Quotas,
    pub(crate) seal: Seal,
    pub(crate) dispatch: PendingRuns,
    pub(crate) admission: OnceLock<Box<dyn Admission>>,
    pub(crate) fresh: NewRunCache,
    pub(crate) in_flight: Arc<InFlightRequests>,
    /// The copy of the newest run of an agent, with its task; `None` for a session without such a run. A start of a run
    /// that continues another one makes a session unknown.
    pub(crate) session_copies: SessionCache<Option<(Option<TaskId>, Option<String>)>>,
}

impl WriteContext {
    /// `key` seals originals so that they stay readable after a restart.
    pub(crate) fn new(
        ground: Arc<Ground>,
        repairs: Arc<Repairs>,
        publisher: Arc<Publisher>,
        redactor: Arc<Redactor>,
        key: Option<[u8; SEAL_KEY_BYTES]>,
    ) -> Self {
        WriteContext {
            repairs,
            publisher,
            timers: Arc::default(),
            redaction: Redaction::new(redactor),
            session_redactions: SessionCache::new(limits::SESSION_REDACTIONS_MAX),
            blobs: Blobs::new(ground.store.clone()),
            quotas: Quotas::default(),
            seal: Seal::new(key),
            dispatch: PendingRuns::default(),
            admission: OnceLock::new(),
            fresh: NewRunCache::default(),
            in_flight: Arc::default(),
            session_copies: SessionCache::new(limits::SESSION_COPIES_MAX),
            ground,
        }
    }

    /// See [`Commit::append`].
    pub(crate) fn commit(&self, commit: Commit) -> Answer<Receipts, NotCommitted> {
        let (deadlines, world) = (self.timers.clone(), self.ground.world.clone());
        commit.append(self.ground.store(), move |run| deadlines.look_again(run, &world))
    }
}
