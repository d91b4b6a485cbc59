//! Uploads: files that are sent before a run uses them. They expire after a while. The first run that uses an upload
//! turns it into its artifact; later runs refer to that.

use std::sync::Arc;

use bytes::Bytes;
use recount_event::{Code, ForeignId, time};
use recount_log::{Append, Guard, ReadResult as _, RowPut, RowRange};

use crate::boxed;
use crate::catalogue::artifact_rows::{ARTIFACT_PREFIX, ArtifactEntry, HASH_PREFIX, blob_of, blob_uses};
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::write::artifact_uses::blob_kept_row;
use crate::write::artifacts::store::stored_bytes;
use crate::write::handle::WriteHandle;
use crate::{Error, IdempotencyKey, RequestResult, UploadRow, limits};

/// A file to upload.
#[derive(Debug, Clone)]
pub struct Upload {
    /// `image` or `file_snapshot`.
    pub kind: String,
    pub mime: String,
    pub name: Option<String>,
    pub bytes: Bytes,
    /// The id of the uploading caller.
    pub by: String,
}

impl WriteHandle {
    /// Stores an upload until a run uses it or it expires. It is durable when this returns.
    #[boxed]
    pub async fn upload(&self, upload: Upload) -> Result<UploadRow, Error> {
        self.upload_keyed(upload, None).await
    }

    /// The same for a request with an idempotency key.
    #[boxed]
    pub async fn upload_keyed(
        &self,
        upload: Upload,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<UploadRow, Error> {
        let received = upload.bytes.len();
        if received > limits::ARTIFACT_BYTES_MAX {
            let most = limits::ARTIFACT_BYTES_MAX;
            let message =
                format!("the upload has {received} bytes; the limit is {most} (ARTIFACT_BYTES_MAX)");
            return Err(Error::rejected(Code::LimitReached, message));
        }
        self.check_upload_quota(received as u64).await?;
        let (bytes, _) = stored_bytes(self.redactor(), &upload.mime, &upload.bytes);
        let size_bytes = bytes.len() as u64;
        let hash = self.context.blobs.put(bytes, None).await?;
        let stamp = self.ground().stamp();
        let life = u64::try_from(limits::UPLOAD_LIFE.as_millis()).unwrap_or(u64::MAX);
        let row = UploadRow {
            id: ForeignId::minted(ARTIFACT_PREFIX, self.ground().mint(stamp)),
            kind: upload.kind,
            mime: upload.mime,
            name: upload.name.map(|name| self.redactor().text(&name).into_owned()),
            size_bytes,
            hash: format!("{HASH_PREFIX}{hash}"),
            created_at: time::format_ms(stamp.now_ms),
            until_ms: stamp.now_ms.saturating_add(life),
            by: upload.by,
        };
        let due = rows::due_key(row.until_ms, &row.id);
        let mut puts = vec![
            rows::put(rows::UPLOADS, rows::tenant_key(&row.id), Guard::Absent, &row),
            rows::put(rows::UPLOADS_DUE, due, Guard::Absent, &ArtifactEntry(row.id.clone(), size_bytes)),
            rows::put(rows::UPLOAD_BLOBS, format!("{hash}/{}", row.id), Guard::Absent, &()),
        ];
        puts.extend(self.result_rows(idempotency, RequestResult::Artifact(row.id.clone())));
        let appended = self.ground().store().append(Append { rows: puts, ..Append::default() }).await;
        self.context.blobs.named(None, [hash]);
        appended?;
        Ok(row)
    }

    async fn check_upload_quota(&self, bytes: u64) -> Result<(), Error> {
        let page = self.uploads_due(limits::UPLOADS_MAX).await?;
        let mut sum = bytes;
        for row in &page {
            // The size of an unreadable one is unknown.
            let indexed = read_row(rows::UPLOADS_DUE, &row.key, &row.value);
            sum = sum.saturating_add(indexed.map_or(0, |ArtifactEntry(_, bytes)| bytes));
        }
        let most = self.context.quotas.quota().upload_bytes;
        if page.len() >= limits::UPLOADS_MAX || sum > most {
            let message = format!(
                "{} unused uploads exist and would have {sum} bytes together; the limits are {most} bytes \
                 (artifacts.upload_bytes) and {} uploads (UPLOADS_MAX): use or delete uploads, or wait a day \
                 until they expire",
                page.len(),
                limits::UPLOADS_MAX,
            );
            return Err(Error::rejected(Code::ArtifactQuota, message));
        }
        Ok(())
    }

    /// The keys of the artifacts with these bytes, up to the limit for one id.
    async fn uses(&self, hash: &str) -> Result<Vec<Arc<str>>, Error> {
        let uses =
            blob_uses(self.ground().store(), rows::BLOB_USES, hash, limits::ARTIFACT_NAMESAKES_MAX).await?;
        Ok(uses.into_iter().map(|row| row.key).collect())
    }

    /// The expiry rows, oldest first. Damaged ones are skipped, so that they block neither uploads nor the expiry of
    /// others.
    async fn uploads_due(&self, limit: usize) -> Result<Vec<recount_log::Row>, Error> {
        let range = RowRange::first(rows::UPLOADS_DUE, "", limit);
        Ok(self.ground().store().whole_rows(range).await?.rows)
    }

    /// The deletions for an upload.
    pub(crate) async fn upload_deletions(&self, upload: &UploadRow) -> Result<Vec<RowPut>, Error> {
        let id = &upload.id;
        let mut deletions = vec![
            rows::delete(rows::UPLOADS, rows::tenant_key(id)),
            rows::delete(rows::UPLOADS_DUE, rows::due_key(upload.until_ms, id)),
        ];
        if let Some(hash) = blob_of(&upload.hash) {
            deletions.push(rows::delete(rows::UPLOAD_BLOBS, format!("{hash}/{id}")));
            // A run may have named the bytes before the upload. Then they stay, and a record says that they were
            // stored.
            deletions.extend(self.uses(hash).await?.into_iter().map(blob_kept_row));
        }
        Ok(deletions)
    }

    /// Deletes some expired uploads. Returns whether there may be more.
    pub(crate) async fn forget_uploads(&self) -> Result<bool, Error> {
        let now = rows::due_key(self.ground().world.clock.now_ms(), "");
        let page = self.uploads_due(limits::UPLOADS_FORGOTTEN_AT_A_TIME).await?;
        let may_be_more = page.len() == limits::UPLOADS_FORGOTTEN_AT_A_TIME;
        let (mut deletions, mut hashes) = (Vec::new(), Vec::new());
        let due = page.iter().take_while(|row| *row.key < *now.as_str());
        for row in due {
            let upload = match read_row(rows::UPLOADS_DUE, &row.key, &row.value) {
                Ok(ArtifactEntry(id, _)) => {
                    self.catalogue().row::<UploadRow>(rows::UPLOADS, &rows::tenant_key(&id)).await
                }
                Err(unreadable) => Err(unreadable),
            };
            // An unreadable one does not block the expiry of others.
            let upload = upload.readable()?.whole_or(|error| {
                tracing::error!(%error, due = &*row.key, "a damaged upload cannot be deleted; its bytes stay");
            });
            match upload.flatten() {
                Some(upload) => {
                    deletions.extend(self.upload_deletions(&upload).await?);
                    hashes.extend(blob_of(&upload.hash).map(str::to_owned));
                }
                None => deletions.push(rows::delete(rows::UPLOADS_DUE, row.key.clone())),
            }
        }
        if deletions.is_empty() {
            return Ok(false);
        }
        self.ground().store().append(Append { rows: deletions, ..Append::default() }).await?;
        self.context.blobs.release(hashes).await?;
        Ok(may_be_more)
    }
}
