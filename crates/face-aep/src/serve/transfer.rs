//! Permits to transfer bytes of artifacts, which limit the bytes in memory. Must not depend on the direction.

use recount_event::Code;

use super::Face;
use crate::error::Refusal;
use crate::face_state::Permit;
use crate::limits;

/// A permit to transfer a number of bytes.
pub(super) fn place(face: &Face, bytes: Option<u64>) -> Result<Permit, Refusal> {
    let most = limits::UPLOAD_BODY_BYTES_MAX as u64;
    let bytes = bytes.unwrap_or(most).min(most);
    let pieces = usize::try_from(bytes).unwrap_or(usize::MAX) / limits::ARTIFACT_PIECE_BYTES + 1;
    face.face_state.artifacts.try_take(&face.engine.instance(), pieces).ok_or_else(|| {
        let at_once = limits::ARTIFACT_BYTES_AT_ONCE;
        let detail = format!("{at_once} bytes of artifacts are already being transferred; try again shortly");
        Refusal { retry_after: Some(limits::TRY_AGAIN), ..Refusal::new(Code::StoreBusy, detail) }
    })
}
