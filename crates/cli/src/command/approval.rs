//! Shows approvals in full and sends their decisions, for every verb that prompts for one. Start at [`complete`].

use recount_client::request::{AllowanceScope, ResolveApproval, Verdict};
use recount_client::{Client, ClientError, reply};

use crate::limits;
use crate::render::live::{Kind, Prompt};

/// Fetches the content that the event of a prompt has only the beginning of. Without it the prompt names what is missing,
/// and cannot be approved.
pub(super) async fn complete(client: &Client, prompt: &mut Prompt) {
    // The event of a request has no digest of what is shown.
    if matches!(prompt.kind, Kind::Approval { .. })
        && prompt.shown_digest.is_none()
        && let Ok(approval) = client.get_approval(&prompt.id).await
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

/// Sends a decision on an approval. With the digest of what was shown it is refused for anything else.
pub(super) async fn decide(
    client: &Client,
    id: &str,
    decision: Verdict,
    comment: Option<String>,
    remember: Option<AllowanceScope>,
    shown_digest: Option<String>,
) -> Result<reply::Approval, ClientError> {
    client.resolve_approval(id, &ResolveApproval { decision, comment, remember, shown_digest }).await
}
