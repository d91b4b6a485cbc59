//! What goes into the append with an event that makes an artifact of a run: an upload that it uses waits no more. It must
//! not know what the bytes mean. Look at [`used`].

use std::sync::Arc;

use recount_event::family::artifact::Created;
use recount_event::family::run::Driver;
use recount_event::{Event, Payload};
use recount_log::{Guard, RowPut, Store};

use crate::catalogue::artifact_rows::blob_of;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::write::blobs::Blobs;
use crate::{Error, UploadRow};

/// What goes with an event that makes an artifact of a run.
///
/// A run of our own makes one of what was sent in: that does not wait for a run any more, and every later use
/// refers to the artifact. A run that is driven from outside names whatever bytes it likes: where they are here, it is
/// noted that they were, so that they are known to be lost when they are gone.
pub(crate) async fn used(
    store: &dyn Store,
    blobs: &Blobs,
    driver: Driver,
    event: &Event,
) -> Result<Vec<RowPut>, Error> {
    let Payload::ArtifactCreated(created) = event.payload() else { return Ok(Vec::new()) };
    match driver {
        Driver::Own => waits_no_more(store, created).await,
        Driver::External => {
            let Some(hash) = created.hash.as_deref().and_then(blob_of) else { return Ok(Vec::new()) };
            let is_here = blobs.hold_if_here(hash, event.run_id).await?;
            Ok(is_here.then(|| was_here(format!("{hash}/{}", event.event_id))).into_iter().collect())
        }
    }
}

/// Notes that the bytes of an artifact were here. The key is the one of its row in [`rows::BLOB_USES`].
pub(super) fn was_here(key: impl Into<Arc<str>>) -> RowPut {
    rows::put(rows::BLOBS_KEPT, key, Guard::Any, &())
}

async fn waits_no_more(store: &dyn Store, created: &Created) -> Result<Vec<RowPut>, Error> {
    // What a call brought was never sent in.
    if created.tool_call_id.is_some() {
        return Ok(Vec::new());
    }
    let key = rows::tenant_key(&created.artifact_id);
    let Some(row) = store.row(rows::UPLOADS, &key).await? else { return Ok(Vec::new()) };
    let upload: UploadRow = read_row(rows::UPLOADS, &row.key, &row.value)?;
    let mut gone = vec![
        rows::delete(rows::UPLOADS, key),
        rows::delete(rows::UPLOADS_DUE, rows::due_key(upload.until_ms, &upload.id)),
    ];
    let blob = blob_of(&upload.hash);
    gone.extend(blob.map(|hash| rows::delete(rows::UPLOAD_BLOBS, format!("{hash}/{}", upload.id))));
    Ok(gone)
}
