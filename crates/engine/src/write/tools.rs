//! The state that all rooms share.

use std::sync::{Arc, OnceLock};

use recount_log::Store;
use recount_world::World;

use crate::Profiles;
use crate::catalogue::repair::Repairs;
use crate::ground::counters::Counters;
use crate::read::publish::Publisher;
use crate::write::admission::Admission;
use crate::write::artifacts::blobs::Blobs;
use crate::write::artifacts::keep::Quotas;
use crate::write::deadlines::Deadlines;
use crate::write::new_runs::NewRunCache;
use crate::write::owed_runs::OwedRuns;
use crate::write::redaction::Redaction;
use crate::write::redaction::session::SessionRedactions;
use crate::write::sealed::Seal;

/// What a writer works with.
pub(crate) struct Tools {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) repairs: Arc<Repairs>,
    pub(crate) world: World,
    pub(crate) counters: Arc<Counters>,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) timers: Arc<Deadlines>,
    pub(crate) redaction: Redaction,
    pub(crate) session_redactions: SessionRedactions,
    pub(crate) blobs: Blobs,
    pub(crate) quotas: Quotas,
    pub(crate) seal: Seal,
    pub(crate) dispatch: OwedRuns,
    pub(crate) admission: OnceLock<Box<dyn Admission>>,
    pub(crate) profiles: OnceLock<Arc<Profiles>>,
    pub(crate) fresh: NewRunCache,
}
