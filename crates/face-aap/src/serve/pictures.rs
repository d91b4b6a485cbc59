//! Resolves stored pictures to the URLs that clients know: uploaded ones are returned unchanged.

use recount_engine::{Engine, Error, FoundArtifact};
use recount_event::{Code, SessionId};

use crate::accept::data_url;
use crate::limits;
use crate::project::{ImageRef, Pictures};

/// The pictures of a session, within the limit of one reply. Missing ones are omitted.
pub(super) async fn of(
    engine: &Engine,
    session: SessionId,
    wanted: impl IntoIterator<Item = ImageRef>,
) -> Result<Pictures, Error> {
    let mut pictures = Pictures::default();
    let mut left = limits::HISTORY_IMAGE_BYTES_MAX;
    for ImageRef { artifact_id, mime } in wanted {
        if pictures.has(&artifact_id) {
            continue;
        }
        let rows = engine.read().find_artifacts(&artifact_id).await?;
        // An upload belongs to no run until the run that uses it has started.
        let is_ours = |found: &&FoundArtifact| match found {
            FoundArtifact::OfRun(row) => row.session_id == Some(session),
            FoundArtifact::Upload(_) => true,
        };
        let Some(row) = rows.iter().find(is_ours) else { continue };
        let size = row.size_bytes().and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
        if size > left {
            continue;
        }
        match engine.read().artifact_bytes(row).await {
            Ok(bytes) => {
                left -= size;
                let mime = mime.as_deref().or(row.mime()).unwrap_or("application/octet-stream");
                pictures.put(artifact_id, data_url(mime, &bytes));
            }
            Err(error) if matches!(error.code(), Code::ArtifactBytesLost | Code::ArtifactBytesMissing) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(pictures)
}
