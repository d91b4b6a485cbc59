//! `recount reject` and `recount revert`, and what they share with `recount apply`: a patch, its diff, and the run that
//! changes its status.

use clap::Args;
use recount_client::Client;
use recount_client::request::ChangePatch;

use super::ids::{self, IdKind};
use super::invocation::{self, Invocation};
use super::reach::Reached;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::clean;

/// What is to become of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchVerb {
    Apply,
    Reject,
    Revert,
}

/// Reject a proposed patch
#[derive(Args)]
pub(super) struct Reject {
    #[command(flatten)]
    patch: ChosenPatch,
}

/// Revert an applied patch with a new patch that undoes it
#[derive(Args)]
pub(super) struct Revert {
    #[command(flatten)]
    patch: ChosenPatch,
}

#[derive(Args)]
struct ChosenPatch {
    /// Id of the patch, as recount artifact list --kind patch prints it
    patch: String,
    /// Reason to record
    #[arg(long)]
    reason: Option<String>,
    /// Print the patch without changing anything
    #[arg(long)]
    diff: bool,
}

impl Reject {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on_threads(self.patch.change(invocation, PatchVerb::Reject))
    }
}

impl Revert {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on_threads(self.patch.change(invocation, PatchVerb::Revert))
    }
}

impl ChosenPatch {
    async fn change(self, invocation: Invocation, verb: PatchVerb) -> Result<(), Failure> {
        // Unfinished runs of the data folder stay as they are.
        let (reached, _) = Reached::new(&invocation, invocation.names_server(), None).await?;
        reached.work().await?;
        let (client, json) = (&reached.client, invocation.json);
        let done = match ids::full(client, IdKind::Artifact, &self.patch).await {
            Ok(patch) if self.diff => show(client, &patch, json).await,
            Ok(patch) => change(client, verb, &patch, self.reason.clone(), json).await,
            Err(why) => Err(why),
        };
        reached.leave().await;
        done
    }
}

/// Whether an id is one of an artifact, where one of a run may stand as well.
pub(super) fn is_artifact(id: &str) -> bool {
    !id.starts_with("run_")
}

/// Prints a patch, and changes nothing.
pub(super) async fn show(client: &Client, id: &str, json: bool) -> Result<(), Failure> {
    let artifact = client.get_artifact(id).await?;
    let mut out = Output::new();
    if json {
        return out.value(&artifact);
    }
    let status = clean::line(&artifact.status);
    match &artifact.diff {
        Some(diff) => out.lines(&clean::lines(diff).collect::<Vec<_>>())?,
        None => note(&format!(
            "the reply does not contain its text; to print it: recount artifact get {}",
            clean::line(id)
        )),
    }
    note(&format!("the patch is {status}; nothing was changed"));
    Ok(())
}

/// Has a patch applied, rejected or reverted, and prints its diff and what became of it.
pub(super) async fn change(
    client: &Client,
    verb: PatchVerb,
    id: &str,
    reason: Option<String>,
    json: bool,
) -> Result<(), Failure> {
    let request = ChangePatch { reason };
    let done = match verb {
        PatchVerb::Apply => client.apply_patch(id, &request).await?,
        PatchVerb::Reject => client.reject_patch(id, &request).await?,
        PatchVerb::Revert => client.revert_patch(id, &request).await?,
    };
    let mut out = Output::new();
    if json {
        return out.value(&done);
    }
    // The reply of a list has no text, and the inverse comes from one.
    let shown = done.inverse.as_ref().map_or(id, |inverse| inverse.id.as_str());
    if let Some(diff) = client.get_artifact(shown).await?.diff {
        out.lines(&clean::lines(&diff).collect::<Vec<_>>())?;
    }
    let (run, path) = (clean::line(&done.run_id), done.artifact.target_path.as_deref().unwrap_or(id));
    let path = clean::line(path);
    if done.run_status != "finished" {
        note(&format!("{run} is {}; follow it with recount tail -f {run}", clean::line(&done.run_status)));
        return Ok(());
    }
    note(&match (verb, &done.inverse) {
        (PatchVerb::Apply, _) => format!("applied to {path} by {run}"),
        (PatchVerb::Reject, _) => format!("rejected by {run}; {path} is unchanged"),
        (PatchVerb::Revert, Some(inverse)) => {
            format!("reverted in {path} by {run}, with the new patch {}", clean::line(&inverse.id))
        }
        (PatchVerb::Revert, None) => format!("reverted in {path} by {run}"),
    });
    Ok(())
}
