//! What is sent in before there is a run that it belongs to: a picture, a file. Kept for a while; the first run that uses
//! it makes it an artifact of its own, and later ones refer to that.

use std::sync::Arc;

use bytes::Bytes;
use recount_event::{Code, ForeignId, time};
use recount_log::{Append, Guard, RowPut, RowRange};

use crate::boxed;
use crate::catalogue::artifact_rows::{ARTIFACT_PREFIX, HASH_PREFIX, Indexed, blob_of, blob_uses};
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::write::artifact_uses::was_here;
use crate::write::artifacts::keep::kept_bytes;
use crate::write::handle::WriteHandle;
use crate::{Error, Made, Once, UploadRow, limits};

/// Something that is sent in.
#[derive(Debug, Clone)]
pub struct Upload {
    /// `image` or `file_snapshot`.
    pub kind: String,
    pub mime: String,
    pub name: Option<String>,
    pub bytes: Bytes,
    /// Whose it is, by what tells callers apart.
    pub by: String,
}

impl WriteHandle {
    /// Keeps what is sent in until a run uses it, or its time is over. Durable when answered.
    #[boxed]
    pub async fn upload(&self, upload: Upload) -> Result<UploadRow, Error> {
        self.upload_once(upload, None).await
    }

    /// The same for a request that is to be done once.
    #[boxed]
    pub async fn upload_once(&self, upload: Upload, once: Option<&Once>) -> Result<UploadRow, Error> {
        let came = upload.bytes.len();
        if came > limits::ARTIFACT_BYTES_MAX {
            let most = limits::ARTIFACT_BYTES_MAX;
            let message = format!("the upload has {came} bytes; the limit is {most} (ARTIFACT_BYTES_MAX)");
            return Err(Error::rejected(Code::LimitReached, message));
        }
        self.may_upload(came as u64).await?;
        let (bytes, _) = kept_bytes(self.redactor(), &upload.mime, &upload.bytes);
        let size_bytes = bytes.len() as u64;
        let hash = self.room.blobs.put(bytes, None).await?;
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
            rows::put(rows::UPLOADS_DUE, due, Guard::Absent, &Indexed(row.id.clone(), size_bytes)),
            rows::put(rows::UPLOAD_BLOBS, format!("{hash}/{}", row.id), Guard::Absent, &()),
        ];
        puts.extend(once.into_iter().flat_map(|once| self.made_once(once, Made::Artifact(row.id.clone()))));
        let appended = self.ground().store().append(Append { rows: puts, ..Append::default() }).await;
        self.room.blobs.named(None, [hash]);
        appended?;
        Ok(row)
    }

    async fn may_upload(&self, bytes: u64) -> Result<(), Error> {
        let page = self.uploads_due(limits::UPLOADS_MAX).await?;
        let mut sum = bytes;
        for row in &page {
            // What one that cannot be read holds is not known.
            let indexed = read_row(rows::UPLOADS_DUE, &row.key, &row.value);
            sum = sum.saturating_add(indexed.map_or(0, |Indexed(_, bytes)| bytes));
        }
        let most = self.room.quotas.quota().upload_bytes;
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

    /// The keys of the artifacts that have these bytes, of at most so many as may have one id.
    async fn uses(&self, hash: &str) -> Result<Vec<Arc<str>>, Error> {
        let uses =
            blob_uses(self.ground().store(), rows::BLOB_USES, hash, limits::ARTIFACT_NAMESAKES_MAX).await?;
        Ok(uses.into_iter().map(|row| row.key).collect())
    }

    /// Damaged ones are left out, so that they prevent neither uploads nor the forgetting of others.
    async fn uploads_due(&self, limit: usize) -> Result<Vec<recount_log::Row>, Error> {
        let range = RowRange {
            space: rows::UPLOADS_DUE.into(),
            prefix: "".into(),
            after: None,
            backwards: false,
            limit,
        };
        Ok(self.ground().store().whole_rows(range).await?.rows)
    }

    /// The rows that forget what was sent in.
    pub(crate) async fn upload_goes(&self, upload: &UploadRow) -> Result<Vec<RowPut>, Error> {
        let id = &upload.id;
        let mut gone = vec![
            rows::delete(rows::UPLOADS, rows::tenant_key(id)),
            rows::delete(rows::UPLOADS_DUE, rows::due_key(upload.until_ms, id)),
        ];
        if let Some(hash) = blob_of(&upload.hash) {
            gone.push(rows::delete(rows::UPLOAD_BLOBS, format!("{hash}/{id}")));
            // A run may have named the bytes before they came: then they stay, and it is known from here on that they
            // were kept.
            gone.extend(self.uses(hash).await?.into_iter().map(was_here));
        }
        Ok(gone)
    }

    /// Forgets some of what nobody used in time, and answers whether there may be more.
    pub(crate) async fn forget_uploads(&self) -> Result<bool, Error> {
        let now = rows::due_key(self.ground().world.clock.now_ms(), "");
        let page = self.uploads_due(limits::UPLOADS_FORGOTTEN_AT_A_TIME).await?;
        let may_be_more = page.len() == limits::UPLOADS_FORGOTTEN_AT_A_TIME;
        let (mut gone, mut hashes) = (Vec::new(), Vec::new());
        let due = page.iter().take_while(|row| *row.key < *now.as_str());
        for row in due {
            let upload = match read_row(rows::UPLOADS_DUE, &row.key, &row.value) {
                Ok(Indexed(id, _)) => {
                    self.catalogue().row::<UploadRow>(rows::UPLOADS, &rows::tenant_key(&id)).await
                }
                Err(unreadable) => Err(unreadable),
            };
            match upload {
                Ok(Some(upload)) => {
                    gone.extend(self.upload_goes(&upload).await?);
                    hashes.extend(blob_of(&upload.hash).map(str::to_owned));
                }
                Err(error) if !error.is_damage() => return Err(error),
                // A damaged one does not prevent others from being forgotten.
                Err(error) => {
                    tracing::error!(
                        %error,
                        due = &*row.key,
                        "a damaged upload cannot be deleted; its bytes stay"
                    );
                    gone.push(rows::delete(rows::UPLOADS_DUE, row.key.clone()));
                }
                Ok(None) => gone.push(rows::delete(rows::UPLOADS_DUE, row.key.clone())),
            }
        }
        if gone.is_empty() {
            return Ok(false);
        }
        self.ground().store().append(Append { rows: gone, ..Append::default() }).await?;
        self.room.blobs.release(hashes).await?;
        Ok(may_be_more)
    }
}
