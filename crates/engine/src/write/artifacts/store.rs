//! Stores artifacts of a run: masks, truncates and counts the bytes, and stores them by hash.

use bytes::Bytes;
use recount_event::family::artifact::{Created, Referenced};
use recount_event::{Draft, ForeignId, Payload, RunId};
use recount_redact::Redactor;

use crate::boxed;
use crate::catalogue::artifact_rows::{ARTIFACT_PREFIX, HASH_PREFIX, blob_of};
use crate::write::handle::WriteHandle;
use crate::write::quotas::ArtifactQuota;
use crate::{Error, limits};

/// The kind of command output.
const COMMAND_OUTPUT: &str = "command_output";

/// An artifact to store.
#[derive(Debug, Clone)]
pub struct ArtifactInput {
    /// `patch`, `command_output`, `file_snapshot`, `image` or another kind of the protocol.
    pub kind: String,
    pub mime: String,
    pub summary: Option<String>,
    pub name: Option<String>,
    pub bytes: Bytes,
    /// The full size, if `bytes` is only the beginning.
    pub original_size_bytes: Option<u64>,
    pub call: Option<ForeignId>,
    /// Patches only.
    pub target: Option<PatchTarget>,
}

/// The output of a command that is in the log.
#[derive(Debug, Clone)]
pub struct OutputInLog {
    pub call: ForeignId,
    pub mime: String,
    pub summary: Option<String>,
    /// Bytes of both streams together.
    pub size_bytes: u64,
    /// An event before which the log has no part of the output.
    pub from_sequence: u64,
}

/// The file that a patch changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchTarget {
    /// Relative to the workspace.
    pub path: String,
    /// `sha256:…`, or `absent`.
    pub base_revision: String,
    pub additions: u64,
    pub deletions: u64,
    pub hunks: u64,
}

/// A stored artifact.
#[derive(Debug, Clone)]
pub struct ArtifactReceipt {
    pub id: ForeignId,
    /// The event to report before anything refers to the id.
    pub created: Draft,
    /// Whether secrets were masked, so that the stored bytes differ.
    pub masked: bool,
    /// Whether only the beginning was stored.
    pub truncated: bool,
}

impl WriteHandle {
    /// Sets the quota. Only the first call has an effect.
    pub fn limit_artifacts(&self, quota: ArtifactQuota) {
        self.context.quotas.set(quota);
    }

    /// Stores bytes for a run. They are durable when this returns. The caller reports the returned event; bytes that
    /// no event names are deleted, at the latest at the next start.
    #[boxed]
    pub async fn store_artifact(&self, run: RunId, input: ArtifactInput) -> Result<ArtifactReceipt, Error> {
        let row = self.catalogue().existing_run(run).await?;
        let received = input.bytes.len() as u64;
        let redaction = self.context.redaction_of(run).await?;
        let (bytes, masked) = stored_bytes(&redaction.redactor, &input.mime, &input.bytes);
        let original = input.original_size_bytes.unwrap_or(received).max(received);
        let truncated = original > bytes.len() as u64;
        self.context.quotas.take(self.ground().store(), &row, bytes.len() as u64).await?;
        let size_bytes = bytes.len() as u64;
        let hash = self.context.blobs.put(bytes, Some(run)).await?;
        let id = ForeignId::minted(ARTIFACT_PREFIX, self.ground().mint(self.ground().stamp()));
        let mut created = Created::new(id.clone(), input.kind);
        created.size_bytes = Some(size_bytes);
        created.summary = input.summary;
        created.mime = Some(input.mime);
        created.hash = Some(format!("{HASH_PREFIX}{hash}"));
        created.tool_call_id = input.call;
        created.name = input.name;
        created.masked = masked.then_some(true);
        if truncated {
            created.truncated = Some(true);
            created.original_size_bytes = Some(original);
        }
        if let Some(target) = input.target {
            created.path = Some(target.path);
            created.base_revision = Some(target.base_revision);
            created.additions = Some(target.additions);
            created.deletions = Some(target.deletions);
            created.hunks = Some(target.hunks);
        }
        let created = Payload::ArtifactCreated(Box::new(created)).into();
        Ok(ArtifactReceipt { id, created, masked, truncated })
    }

    /// Creates an artifact for command output without storing the bytes again: they are events of the run. The caller
    /// reports the returned event after the last of them.
    #[boxed]
    pub async fn store_output_artifact(
        &self,
        run: RunId,
        output: OutputInLog,
    ) -> Result<ArtifactReceipt, Error> {
        let row = self.catalogue().existing_run(run).await?;
        self.context.quotas.take(self.ground().store(), &row, 0).await?;
        let id = ForeignId::minted(ARTIFACT_PREFIX, self.ground().mint(self.ground().stamp()));
        let mut created = Created::new(id.clone(), COMMAND_OUTPUT.to_owned());
        created.size_bytes = Some(output.size_bytes);
        created.summary = output.summary;
        created.mime = Some(output.mime);
        created.tool_call_id = Some(output.call);
        created.log_from_sequence = Some(output.from_sequence);
        let created = Payload::ArtifactCreated(Box::new(created)).into();
        Ok(ArtifactReceipt { id, created, masked: false, truncated: false })
    }

    /// Adds an artifact to a run: an upload becomes an artifact of the run; an artifact of another run is referenced.
    /// The caller reports the returned event.
    #[boxed]
    pub async fn attach_artifact(&self, run: RunId, id: &ForeignId) -> Result<ArtifactReceipt, Error> {
        let row = self.catalogue().existing_run(run).await?;
        let receipt = |created: Payload| ArtifactReceipt {
            id: id.clone(),
            created: created.into(),
            masked: false,
            truncated: false,
        };
        if let Some(upload) = self.catalogue().uploaded(id).await? {
            self.context.quotas.take(self.ground().store(), &row, upload.size_bytes).await?;
            if let Some(hash) = blob_of(&upload.hash) {
                self.context.blobs.hold(hash, run);
            }
            // It may have expired before it was held.
            if self.catalogue().uploaded(id).await?.is_some() {
                return Ok(receipt(Payload::ArtifactCreated(Box::new(upload.created(id.clone())))));
            }
        }
        if self.read().find_artifacts(id).await?.is_empty() {
            return Err(self.read().missing_artifact(id).await);
        }
        let referenced = Referenced::new(id.clone(), "attached".into());
        Ok(receipt(Payload::ArtifactReferenced(Box::new(referenced))))
    }
}

/// The bytes to store: text is masked, and all is truncated to the limit. Masked first, so that no part of a secret
/// remains at the end.
pub(crate) fn stored_bytes(redactor: &Redactor, mime: &str, bytes: &Bytes) -> (Bytes, bool) {
    let looked_at = bytes.len().min(limits::ARTIFACT_BYTES_MAX + limits::ARTIFACT_MASK_BEYOND);
    let head = bytes.slice(..looked_at);
    let (mut head, masked) = match is_text(mime, &head) {
        true => match redactor.bytes(&head) {
            std::borrow::Cow::Borrowed(_) => (head, false),
            std::borrow::Cow::Owned(masked) => (Bytes::from(masked), true),
        },
        false => (head, false),
    };
    if head.len() > limits::ARTIFACT_BYTES_MAX {
        let mut end = limits::ARTIFACT_BYTES_MAX;
        if is_text(mime, &head) {
            // Cut between characters, if it is UTF-8.
            let begins = |at: usize| head.get(at).is_none_or(|byte| !(0x80..0xC0).contains(byte));
            end = (end.saturating_sub(3)..=end).rev().find(|at| begins(*at)).unwrap_or(end);
        }
        head.truncate(end);
    }
    (head, masked)
}

/// Whether the bytes are text, in which secrets can be recognized.
fn is_text(mime: &str, bytes: &[u8]) -> bool {
    let mime = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_declared_text = mime.starts_with("text/")
        || ["json", "xml", "yaml", "javascript"].iter().any(|end| mime.ends_with(end));
    let is_media = ["image/", "audio/", "video/", "font/"].iter().any(|of| mime.starts_with(of));
    is_declared_text || !is_media && !bytes.iter().take(limits::ARTIFACT_SNIFFED_BYTES).any(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_masked_before_it_is_truncated_and_images_do_not_change() {
        let redactor = Redactor::shapes();
        let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let text = Bytes::from(format!("token {secret} end"));
        let (stored, masked) = stored_bytes(&redactor, "application/octet-stream", &text);
        assert!(masked && stored.len() == text.len());
        assert!(!String::from_utf8_lossy(&stored).contains(&secret));
        let picture = Bytes::from([b"\x89PNG\0".as_slice(), text.as_ref()].concat());
        assert_eq!(stored_bytes(&redactor, "image/png", &picture), (picture.clone(), false));
        assert_eq!(stored_bytes(&redactor, "application/zip", &picture), (picture.clone(), false));
        // The secret spans the size limit.
        let long = format!("{} {secret}", "x".repeat(limits::ARTIFACT_BYTES_MAX - 11));
        let (stored, masked) = stored_bytes(&redactor, "text/plain", &Bytes::from(long));
        assert!(masked && stored.len() == limits::ARTIFACT_BYTES_MAX);
        assert!(stored.ends_with(b"****"), "{:?}", &stored[stored.len() - 20..]);
        // Not inside a character.
        let long = format!("{}é", "x".repeat(limits::ARTIFACT_BYTES_MAX - 1));
        let (stored, _) = stored_bytes(&redactor, "text/plain", &Bytes::from(long));
        assert_eq!(stored.len(), limits::ARTIFACT_BYTES_MAX - 1);
    }
}
