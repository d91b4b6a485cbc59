//! `recount apply`: shows what a run changed in its copy, and brings it back; or applies one patch.

use std::path::Path;

use clap::Args;
use recount_client::Client;
use recount_client::reply::{Change, Changes};
use recount_client::request::ApplyRun;

use super::invocation::{self, Invocation};
use super::patch::{self, PatchVerb};
use super::reach::Reached;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::{self, clean};

/// Apply a run's changes to the original folder, or one proposed patch
#[derive(Args)]
pub(super) struct Apply {
    /// Id of the run, as recount run, recount chat and recount ls print it; or of a patch, as recount artifact list
    /// prints it
    #[arg(value_name = "RUN|PATCH")]
    run: String,
    /// List the changes without applying them; a patch is shown
    #[arg(long)]
    dry_run: bool,
    /// Print the changes as a diff without applying them
    #[arg(long)]
    diff: bool,
    /// Commit the changes to a new branch of the folder's git repository; leaves the working files unchanged
    #[arg(long, value_name = "NAME", conflicts_with_all = ["dry_run", "diff"])]
    branch: Option<String>,
}

impl Apply {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on_threads(self.apply(invocation))
    }

    async fn apply(self, invocation: Invocation) -> Result<(), Failure> {
        let here =
            Path::new(".").canonicalize().ok().and_then(|here| here.into_os_string().into_string().ok());
        // Unfinished runs of the data folder stay as they are.
        let (reached, _) = Reached::new(&invocation, invocation.names_server(), here).await?;
        // A patch is applied by a run, which this program does if no other server does; for the changes of a run it is enough to answer.
        match patch::is_artifact(&self.run) {
            true => reached.work().await?,
            false => reached.attach()?,
        }
        let done = match patch::is_artifact(&self.run) {
            true => self.patch(&reached.client, invocation.json).await,
            false => self.with(&reached.client, invocation.json).await,
        };
        reached.leave().await;
        done
    }

    async fn patch(&self, client: &Client, json: bool) -> Result<(), Failure> {
        if self.branch.is_some() {
            let usage = "--branch commits the changes of a run; give a run id, or omit --branch";
            return Err(Failure::Usage(usage.to_owned()));
        }
        if self.dry_run || self.diff {
            return patch::show(client, &self.run, json).await;
        }
        patch::change(client, PatchVerb::Apply, &self.run, None, json).await
    }

    async fn with(&self, client: &Client, json: bool) -> Result<(), Failure> {
        let writes = !self.dry_run && !self.diff;
        let changes = if writes {
            client.apply_run(&self.run, &ApplyRun { branch: self.branch.clone() }).await?
        } else {
            client.run_changes(&self.run).await?
        };
        let mut out = Output::new();
        if json {
            out.value(&changes)?;
        } else if self.diff {
            out.lines(&clean::lines(&changes.diff).collect::<Vec<_>>())?;
            if changes.diff_cut {
                note("the diff is truncated; the copy has all changes");
            }
        } else {
            out.lines(&changes.changes.iter().map(line).collect::<Vec<_>>())?;
            report_result(&changes, writes);
        }
        if !json {
            remarks(&changes);
        }
        let conflicts = count(&changes, "conflict");
        if conflicts > 0 {
            note(&format!(
                "{conflicts} of these conflict: {} changed in the same parts",
                clean::line(&changes.source)
            ));
            return Err(Failure::No);
        }
        Ok(())
    }
}

fn line(change: &Change) -> String {
    let state = match change.state.as_str() {
        "conflict" => " (conflict)",
        "applied" => " (applied)",
        _ => "",
    };
    let kind = if change.kind == "file" { String::new() } else { format!(" {}", change.kind) };
    clean::line(&format!("{}{kind} {}{state}", change.change, change.path))
}

/// What became of them.
fn report_result(changes: &Changes, writes: bool) {
    let source = clean::line(&changes.source);
    match (&changes.branch, &changes.commit) {
        (Some(branch), Some(commit)) => {
            note(&format!("committed to branch {} as {}", clean::line(branch), clean::line(commit)));
        }
        _ if changes.count == 0 => note("the run changed no files in its copy"),
        _ if writes => note(&format!("applied to {source}")),
        _ => note(&format!(
            "nothing was changed; to apply to {source}: recount apply {}",
            clean::line(&changes.run_id)
        )),
    }
    if changes.ignored > 0 {
        note(&format!(
            "{} ignored by git stay in the copy {}",
            path_count(changes.ignored),
            clean::line(&changes.path)
        ));
    }
}

/// What else there is to know about the folder.
fn remarks(changes: &Changes) {
    if changes.put_back > 0 {
        note(&format!(
            "an earlier apply was interrupted; it was undone first ({} restored)",
            render::count(changes.put_back, "file")
        ));
    }
    if let Some(active) = &changes.active_run_id {
        note(&format!(
            "{} uses the copy or {} and has not ended; apply when it has ended, because it may still change \
             files",
            clean::line(active),
            clean::line(&changes.source)
        ));
    }
}

/// After a run: where its changes are, and how to bring them back. Nothing where there are none or it cannot be known.
pub(super) async fn report_changes(client: &Client, run: &str, address: &str) {
    let Ok(changes) = client.run_changes(run).await else { return };
    let open = changes.count.saturating_sub(count(&changes, "applied"));
    if open == 0 {
        return;
    }
    note(&format!(
        "{} changed in the copy {}; to apply to {} (--diff shows the changes first):",
        path_count(open),
        clean::line(&changes.path),
        clean::line(&changes.source)
    ));
    note(&format!("    recount apply {}{address}", clean::line(run)));
}

fn count(changes: &Changes, state: &str) -> u64 {
    changes.changes.iter().filter(|change| change.state == state).count() as u64
}

fn path_count(count: u64) -> String {
    render::count(count, "path")
}
