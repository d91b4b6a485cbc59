//! Rows that belong to an event that creates an artifact of a run: an upload that it uses is no longer unused. It
//! must not know the content. Start with [`use_rows`].

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

/// The rows for an event that creates an artifact of a run.
///
/// An own run turns an upload into an artifact; every later use refers to the artifact. An external run may name any
/// bytes. If they are in the store, a record is written, so that a later loss is noticed. If it names an upload by its
/// id and hash, the upload becomes an artifact of the run and is deleted with it.
pub(crate) async fn use_rows(
    store: &dyn Store,
    blobs: &Blobs,
    driver: Driver,
    event: &Event,
) -> Result<Vec<RowPut>, Error> {
    let Payload::ArtifactCreated(created) = event.payload() else { return Ok(Vec::new()) };
    match driver {
        // An artifact of a tool call is not an upload.
        Driver::Own if created.tool_call_id.is_some() => Ok(Vec::new()),
        Driver::Own => upload_used_rows(store, created).await,
        Driver::External => {
            let Some(hash) = created.hash.as_deref().and_then(blob_of) else { return Ok(Vec::new()) };
            if !blobs.hold_if_here(hash, event.run_id).await? {
                return Ok(Vec::new());
            }
            let mut rows = upload_used_rows(store, created).await?;
            rows.push(blob_kept_row(format!("{hash}/{}", event.event_id)));
            Ok(rows)
        }
    }
}

/// Records that the bytes of an artifact were in the store. The key is that of its row in [`rows::BLOB_USES`].
pub(super) fn blob_kept_row(key: impl Into<Arc<str>>) -> RowPut {
    rows::put(rows::BLOBS_KEPT, key, Guard::Any, &())
}

async fn upload_used_rows(store: &dyn Store, created: &Created) -> Result<Vec<RowPut>, Error> {
    let key = rows::tenant_key(&created.artifact_id);
    let Some(row) = store.row(rows::UPLOADS, &key).await? else { return Ok(Vec::new()) };
    let upload: UploadRow = read_row(rows::UPLOADS, &row.key, &row.value)?;
    if created.hash.as_deref() != Some(&*upload.hash) {
        return Ok(Vec::new());
    }
    let mut deletions = vec![
        rows::delete(rows::UPLOADS, key),
        rows::delete(rows::UPLOADS_DUE, rows::due_key(upload.until_ms, &upload.id)),
    ];
    let blob = blob_of(&upload.hash);
    deletions.extend(blob.map(|hash| rows::delete(rows::UPLOAD_BLOBS, format!("{hash}/{}", upload.id))));
    Ok(deletions)
}
