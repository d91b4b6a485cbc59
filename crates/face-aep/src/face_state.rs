//! Limits of concurrent streams, imports and artifact transfers per tenant. Start with [`FaceState`].
//!
//! Must not depend on what is transferred.

use recount_engine::EngineInstance;
use recount_event::Code;
use recount_transport::{Share, ShareLimits, Shares};

use crate::error::Refusal;
use crate::limits;

/// State that the handlers of all callers share, with a limit for each tenant. Cheap to clone.
#[derive(Clone)]
pub struct FaceState {
    pub(crate) streams: Shares<EngineInstance>,
    pub(crate) streams_max: usize,
    pub(crate) imports: Shares<EngineInstance>,
    artifacts: Shares<EngineInstance>,
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

    /// A permit to transfer a number of bytes of artifacts, which limits the bytes in memory.
    pub(crate) fn transfer(&self, tenant: &EngineInstance, bytes: Option<u64>) -> Result<Permit, Refusal> {
        let most = limits::UPLOAD_BODY_BYTES_MAX as u64;
        let bytes = bytes.unwrap_or(most).min(most);
        let pieces = usize::try_from(bytes).unwrap_or(usize::MAX) / limits::ARTIFACT_PIECE_BYTES + 1;
        self.artifacts.try_take(tenant, pieces).ok_or_else(|| {
            let at_once = limits::ARTIFACT_BYTES_AT_ONCE;
            let detail =
                format!("{at_once} bytes of artifacts are already being transferred; try again shortly");
            Refusal { retry_after: Some(limits::TRY_AGAIN), ..Refusal::new(Code::StoreBusy, detail) }
        })
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
