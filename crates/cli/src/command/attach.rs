//! Files that are sent along with a request, or alone. It must not know what they are for.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use recount_client::request::Attachment;
use recount_client::{Client, ClientError};

use crate::failure::Failure;
use crate::limits;

/// A file that is to be sent along.
pub(super) struct AttachedFile {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Reads all files before anything is sent.
pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<AttachedFile>, Failure> {
    paths.iter().map(|path| read(path)).collect()
}

/// Uploads files and names them for a request; `None` where there are none.
pub(super) async fn upload_all(
    client: &Client,
    files: Vec<AttachedFile>,
) -> Result<Option<Vec<Attachment>>, ClientError> {
    let mut attachments = Vec::new();
    for AttachedFile { name, bytes } in files {
        let kept = client.upload_artifact(bytes, mime(&name), None, Some(&name)).await?;
        attachments.push(Attachment { artifact_id: kept.id, name: Some(name) });
    }
    Ok((!attachments.is_empty()).then_some(attachments))
}

pub(super) fn read(path: &Path) -> Result<AttachedFile, Failure> {
    let name = path.display();
    let wrong = |why: &dyn std::fmt::Display| Failure::Usage(format!("cannot attach {name}: {why}"));
    // A device may have no end, and opening a named pipe waits for its writer.
    if !std::fs::metadata(path).map_err(|why| wrong(&why))?.is_file() {
        return Err(wrong(&"it is not a regular file"));
    }
    let file = std::fs::File::open(path).map_err(|why| wrong(&why))?;
    let (mut bytes, most) = (Vec::new(), limits::ATTACHED_BYTES_MAX);
    file.take(most + 1).read_to_end(&mut bytes).map_err(|why| wrong(&why))?;
    if bytes.len() as u64 > most {
        return Err(wrong(&format!("it is larger than {most} bytes, the limit for one file")));
    }
    let called =
        path.file_name().map_or_else(|| name.to_string(), |name| name.to_string_lossy().into_owned());
    Ok(AttachedFile { name: called, bytes })
}

/// What sort of file it is, by its name.
pub(super) fn mime(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref() {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("pdf") => "application/pdf",
        Some("json") => "application/json",
        Some("diff" | "patch") => "text/x-diff",
        _ => "text/plain",
    }
}
