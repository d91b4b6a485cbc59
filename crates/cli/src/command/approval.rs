//! Shows approvals in full, for every verb that prompts for one. Start at [`complete`].

use recount_client::{Client, reply};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Stdin};

use crate::limits;
use crate::render::live::{Kind, Prompt};

/// Fetches the content that the event of a prompt has only the beginning of. Without it the prompt names what is missing,
/// and cannot be approved.
pub(super) async fn complete(client: &Client, prompt: &mut Prompt) {
    // The event of a request has no digest of what is shown.
    if matches!(prompt.kind, Kind::Approval { .. })
        && prompt.shown_digest.is_none()
        && let Ok(approval) = client.get_prompt::<reply::Approval>(&prompt.id).await
    {
        prompt.bind(&approval);
    }
    let Some(missing) = prompt.missing() else { return };
    let Some(id) = missing.artifact_id.clone() else { return };
    if missing.size_bytes > limits::PREVIEW_FETCH_BYTES_MAX {
        return;
    }
    if let Ok(bytes) = client.read_artifact(&id).await {
        prompt.complete(&String::from_utf8_lossy(&bytes));
    }
}

/// Drops the lines that were typed so far. They are read for a moment, because another thread may just have got them.
pub(in crate::command) async fn discard_lines(reader: &mut BufReader<Stdin>, gathered: &mut Vec<u8>) {
    loop {
        gathered.clear();
        let mut limited = (&mut *reader).take(limits::TYPED_BYTES_MAX as u64);
        let read = limited.read_until(b'\n', gathered);
        match tokio::time::timeout(limits::DISCARD_WAIT, read).await {
            Ok(Ok(count)) if count > 0 => {}
            _ => break,
        }
    }
    gathered.clear();
}
