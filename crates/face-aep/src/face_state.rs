//! Limits of concurrent streams, imports and artifact transfers per tenant. Start with [`FaceState`].
//!
//! Must not depend on what a permit is used for.

use recount_engine::EngineInstance;
use recount_transport::{Share, ShareLimits, Shares};

use crate::limits;

/// State that the handlers of all callers share, with a limit for each tenant. Cheap to clone.
#[derive(Clone)]
pub struct FaceState {
    pub(crate) streams: Shares<EngineInstance>,
    pub(crate) streams_max: usize,
    pub(crate) imports: Shares<EngineInstance>,
    pub(crate) artifacts: Shares<EngineInstance>,
}

/// A permit of a tenant.
pub(crate) type Permit = Share<EngineInstance>;

impl FaceState {
    /// With a limit of open streams per tenant, usually [`limits::STREAMS_MAX`].
    pub fn new(streams_max: usize) -> Self {
        let pieces = |bytes: usize| bytes / limits::ARTIFACT_PIECE_BYTES;
        let artifacts =
            ShareLimits::for_each(pieces(limits::ARTIFACT_BYTES_AT_ONCE), pieces(limits::ARTIFACT_BYTES_OWN));
        let imports = ShareLimits::for_each(limits::IMPORTS_MAX, limits::IMPORTS_OWN_MAX);
        FaceState {
            streams: Shares::new(ShareLimits::for_each(streams_max, limits::STREAMS_OWN_MAX)),
            streams_max,
            imports: Shares::new(imports),
            artifacts: Shares::new(artifacts),
        }
    }

    /// How many streams were refused at the limit.
    pub fn streams_refused(&self) -> u64 {
        self.streams.refused()
    }

    /// How many transfers were refused at the limit.
    pub fn artifacts_refused(&self) -> u64 {
        self.artifacts.refused()
    }
}
