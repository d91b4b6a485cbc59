//! Keeping the bytes of a run: masked, cut to their bound, counted, put where they are found by their hash.

use bytes::Bytes;
use recount_event::family::artifact::{Created, Referenced};
use recount_event::{Draft, ForeignId, Payload, RunId};
use recount_redact::Redactor;

use crate::boxed;
use crate::catalogue::artifact_rows::{ARTIFACT_PREFIX, HASH_PREFIX, blob_of};
use crate::write::handle::WriteHandle;
use crate::write::quotas::ArtifactQuota;
use crate::{Error, limits};

/// The kind of what a command writes.
const COMMAND_OUTPUT: &str = "command_output";

/// Something to keep.
#[derive(Debug, Clone)]
pub struct Keep {
    /// `patch`, `command_output`, `file_snapshot`, `image` or another word of the protocol.
    pub kind: String,
    pub mime: String,
    pub summary: Option<String>,
    pub name: Option<String>,
    pub bytes: Bytes,
    /// How many bytes there were, where `bytes` is only their head.
    pub original_size_bytes: Option<u64>,
    pub call: Option<ForeignId>,
    /// For a patch.
    pub target: Option<Target>,
}

/// The output of a command, which the log has already.
#[derive(Debug, Clone)]
pub struct OutputInLog {
    pub call: ForeignId,
    pub mime: String,
    pub summary: Option<String>,
    /// All of it, both streams together.
    pub size_bytes: u64,
    /// An event of the run before which there is none of it.
    pub from_sequence: u64,
}

/// The file that a patch changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Relative to the workspace.
    pub path: String,
    /// `sha256:…`, or `absent`.
    pub base_revision: String,
    pub additions: u64,
    pub deletions: u64,
    pub hunks: u64,
}

/// What was kept.
#[derive(Debug, Clone)]
pub struct KeptArtifact {
    pub id: ForeignId,
    /// To be reported before anything names the id.
    pub created: Draft,
    /// Whether something was masked, so that what is kept is not what came.
    pub masked: bool,
    /// Whether only the head was kept.
    pub truncated: bool,
}

impl WriteHandle {
    /// Says how much may be kept, before anything is. The first call counts.
    pub fn limit_artifacts(&self, quota: ArtifactQuota) {
        self.room.quotas.set(quota);
    }

    /// Keeps bytes for a run. They are durable when this returns; the caller reports them with
    /// the event in the answer. What nobody reports is taken away again, at the latest by the next start.
    #[boxed]
    pub async fn keep(&self, run: RunId, thing: Keep) -> Result<KeptArtifact, Error> {
        let Some(row) = self.catalogue().run(run).await? else {
            return Err(self.catalogue().missing_run(run).await);
        };
        let came = thing.bytes.len() as u64;
        let redaction = self.room.redaction_of(run).await?;
        let (bytes, masked) = kept_bytes(&redaction.redactor, &thing.mime, &thing.bytes);
        let original = thing.original_size_bytes.unwrap_or(came).max(came);
        let truncated = original > bytes.len() as u64;
        self.room.quotas.take(self.ground().store(), &row, bytes.len() as u64).await?;
        let size_bytes = bytes.len() as u64;
        let hash = self.room.blobs.put(bytes, Some(run)).await?;
        let id = ForeignId::minted(ARTIFACT_PREFIX, self.ground().mint(self.ground().stamp()));
        let mut created = Created::new(id.clone(), thing.kind);
        created.size_bytes = Some(size_bytes);
        created.summary = thing.summary;
        created.mime = Some(thing.mime);
        created.hash = Some(format!("{HASH_PREFIX}{hash}"));
        created.tool_call_id = thing.call;
        created.name = thing.name;
        created.masked = masked.then_some(true);
        if truncated {
            created.truncated = Some(true);
            created.original_size_bytes = Some(original);
        }
        if let Some(target) = thing.target {
            created.path = Some(target.path);
            created.base_revision = Some(target.base_revision);
            created.additions = Some(target.additions);
            created.deletions = Some(target.deletions);
            created.hunks = Some(target.hunks);
        }
        let created = Payload::ArtifactCreated(Box::new(created)).into();
        Ok(KeptArtifact { id, created, masked, truncated })
    }

    /// Names the output of a command as an artifact, without storing it again: its bytes are events of the run. The
    /// caller reports it after the last of them, with the event in the answer.
    #[boxed]
    pub async fn keep_output(&self, run: RunId, output: OutputInLog) -> Result<KeptArtifact, Error> {
        let Some(row) = self.catalogue().run(run).await? else {
            return Err(self.catalogue().missing_run(run).await);
        };
        self.room.quotas.take(self.ground().store(), &row, 0).await?;
        let id = ForeignId::minted(ARTIFACT_PREFIX, self.ground().mint(self.ground().stamp()));
        let mut created = Created::new(id.clone(), COMMAND_OUTPUT.to_owned());
        created.size_bytes = Some(output.size_bytes);
        created.summary = output.summary;
        created.mime = Some(output.mime);
        created.tool_call_id = Some(output.call);
        created.log_from_sequence = Some(output.from_sequence);
        let created = Payload::ArtifactCreated(Box::new(created)).into();
        Ok(KeptArtifact { id, created, masked: false, truncated: false })
    }

    /// Makes what is called so a thing of a run: what was sent in becomes an artifact of it, what another run made
    /// is referred to. The event in the answer says so, and is to be reported.
    #[boxed]
    pub async fn attach(&self, run: RunId, id: &ForeignId) -> Result<KeptArtifact, Error> {
        let Some(row) = self.catalogue().run(run).await? else {
            return Err(self.catalogue().missing_run(run).await);
        };
        let kept = |created: Payload| KeptArtifact {
            id: id.clone(),
            created: created.into(),
            masked: false,
            truncated: false,
        };
        if let Some(upload) = self.catalogue().uploaded(id).await? {
            self.room.quotas.take(self.ground().store(), &row, upload.size_bytes).await?;
            if let Some(hash) = blob_of(&upload.hash) {
                self.room.blobs.hold(hash, run);
            }
            // It may have been forgotten before it was held.
            if self.catalogue().uploaded(id).await?.is_some() {
                return Ok(kept(Payload::ArtifactCreated(Box::new(upload.created(id.clone())))));
            }
        }
        if self.read().artifacts_called(id).await?.is_empty() {
            return Err(self.read().missing_artifact(id).await);
        }
        let referenced = Referenced::new(id.clone(), "attached".into());
        Ok(kept(Payload::ArtifactReferenced(Box::new(referenced))))
    }
}

/// What is kept of bytes: masked where they are text, and no more than may be. Masked before they are cut, so that
/// no half of a secret is left at the end.
pub(crate) fn kept_bytes(redactor: &Redactor, mime: &str, bytes: &Bytes) -> (Bytes, bool) {
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
            // Between two characters, where it is made of such.
            let begins = |at: usize| head.get(at).is_none_or(|byte| !(0x80..0xC0).contains(byte));
            end = (end.saturating_sub(3)..=end).rev().find(|at| begins(*at)).unwrap_or(end);
        }
        head.truncate(end);
    }
    (head, masked)
}

/// Whether secrets can be told from chance in it.
fn is_text(mime: &str, bytes: &[u8]) -> bool {
    let mime = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let says_so = mime.starts_with("text/")
        || ["json", "xml", "yaml", "javascript"].iter().any(|end| mime.ends_with(end));
    let is_media = ["image/", "audio/", "video/", "font/"].iter().any(|of| mime.starts_with(of));
    says_so || !is_media && !bytes.iter().take(limits::ARTIFACT_SNIFFED_BYTES).any(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_masked_before_it_is_cut_and_pictures_are_left_alone() {
        let redactor = Redactor::shapes();
        let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let text = Bytes::from(format!("token {secret} end"));
        let (kept, masked) = kept_bytes(&redactor, "application/octet-stream", &text);
        assert!(masked && kept.len() == text.len());
        assert!(!String::from_utf8_lossy(&kept).contains(&secret));
        let picture = Bytes::from([b"\x89PNG\0".as_slice(), text.as_ref()].concat());
        assert_eq!(kept_bytes(&redactor, "image/png", &picture), (picture.clone(), false));
        assert_eq!(kept_bytes(&redactor, "application/zip", &picture), (picture.clone(), false));
        // The secret lies over the place where it is cut.
        let long = format!("{} {secret}", "x".repeat(limits::ARTIFACT_BYTES_MAX - 11));
        let (kept, masked) = kept_bytes(&redactor, "text/plain", &Bytes::from(long));
        assert!(masked && kept.len() == limits::ARTIFACT_BYTES_MAX);
        assert!(kept.ends_with(b"****"), "{:?}", &kept[kept.len() - 20..]);
        // Not in the middle of a character.
        let long = format!("{}é", "x".repeat(limits::ARTIFACT_BYTES_MAX - 1));
        let (kept, _) = kept_bytes(&redactor, "text/plain", &Bytes::from(long));
        assert_eq!(kept.len(), limits::ARTIFACT_BYTES_MAX - 1);
    }
}
