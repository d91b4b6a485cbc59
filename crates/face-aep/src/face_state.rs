//! Limits of concurrent streams, imports and artifacts per tenant. See [`FaceState`].
//!
//! It must not know what a permit is used for.

use recount_engine::EngineInstance;
use recount_transport::{Share, ShareLimits, Shares};

use crate::limits;

/// What the handlers of all callers share, so that no tenant can take all of it. Cheap to clone.
#[derive(Clone)]
pub struct FaceState {
    pub(crate) streams: Shares<EngineInstance>,
    pub(crate) streams_max: usize,
    pub(crate) imports: Shares<EngineInstance>,
    pub(crate) artifacts: Shares<EngineInstance>,
}

/// A place of a tenant among them.
pub(crate) type Permit = Share<EngineInstance>;

impl FaceState {
    /// With a bound on the streams that one tenant may have open; [`limits::STREAMS_MAX`] is the usual one.
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

    /// How often there was no place for a stream.
    pub fn streams_refused(&self) -> u64 {
        self.streams.refused()
    }

    /// How often there was no place for the bytes of an artifact.
    pub fn artifacts_refused(&self) -> u64 {
        self.artifacts.refused()
    }
}
