//! `recount apply`: shows what a run changed in its copy, and brings it back; or applies one patch.

use std::path::Path;

use clap::Args;
use recount_client::Client;
use recount_client::reply::{Change, Changes};
use recount_client::request::ApplyRun;

use super::confirm;
use super::ids::{self, IdKind};
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
    /// Apply only these changed paths, each with everything below it; by default all
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
    /// List the changes without applying them; a patch is shown
    #[arg(long)]
    dry_run: bool,
    /// Print the changes as a diff without applying them
    #[arg(long)]
    diff: bool,
    /// Commit the changes to a new branch of the folder's git repository; leaves the working files unchanged
    #[arg(long, value_name = "NAME", conflicts_with_all = ["dry_run", "diff"])]
    branch: Option<String>,
    /// What to do with changes that conflict with the folder: skip them, write nothing (refuse), or write both versions
    /// between conflict markers (mark)
    #[arg(long, value_name = "CHOICE", default_value = "skip", value_parser = ["skip", "refuse", "mark"])]
    conflicts: String,
    /// Delete the run's copy with all changes in it, and apply nothing
    #[arg(long, conflicts_with_all = ["dry_run", "diff", "branch", "paths"])]
    discard: bool,
    /// Do not ask: neither before --discard nor before writing files that other programs execute
    #[arg(long)]
    yes: bool,
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
        let mut this = self;
        if let Err(why) = this.find(&reached).await {
            reached.leave().await;
            return Err(why);
        }
        // A patch is applied by a run, which this program does if no other server does; for the changes of a run it is enough to answer.
        match patch::is_artifact(&this.run) {
            true => reached.work().await?,
            false => reached.attach()?,
        }
        let done = match patch::is_artifact(&this.run) {
            true => this.patch(&reached.client, invocation.json).await,
            false => this.with(&reached.client, invocation.json).await,
        };
        reached.leave().await;
        done
    }

    /// Finds the whole id, of a run or of a patch.
    async fn find(&mut self, reached: &Reached) -> Result<(), Failure> {
        let run = ids::full(&reached.client, IdKind::Run, &self.run).await?;
        self.run = match run == self.run && patch::is_artifact(&run) {
            true => ids::full(&reached.client, IdKind::Artifact, &run).await?,
            false => run,
        };
        Ok(())
    }

    async fn patch(&self, client: &Client, json: bool) -> Result<(), Failure> {
        if self.branch.is_some() {
            let usage = "--branch commits the changes of a run; give a run id, or omit --branch";
            return Err(Failure::Usage(usage.to_owned()));
        }
        if self.discard {
            let usage =
                "--discard deletes the copy of a run; give a run id, or reject the patch with recount patch";
            return Err(Failure::Usage(usage.to_owned()));
        }
        if !self.paths.is_empty() {
            let usage = "PATH selects changes of a run; give a run id, or omit the paths";
            return Err(Failure::Usage(usage.to_owned()));
        }
        if self.dry_run || self.diff {
            return patch::show(client, &self.run, json).await;
        }
        patch::change(client, PatchVerb::Apply, &self.run, None, json).await
    }

    async fn with(&self, client: &Client, json: bool) -> Result<(), Failure> {
        let writes = !self.dry_run && !self.diff;
        let mut changes = client.run_changes(&self.run).await?;
        if self.discard {
            return self.discard(client, &changes, json).await;
        }
        let is_selected = |change: &Change| {
            let path = Path::new(&change.path);
            self.paths.is_empty()
                || self.paths.iter().any(|selected| path.starts_with(selected.trim_end_matches('/')))
        };
        if writes {
            let executed: Vec<&Change> =
                changes.changes.iter().filter(|change| is_selected(change) && is_executed(change)).collect();
            if !self.is_agreed(&executed)? {
                return Err(Failure::No);
            }
            let request = ApplyRun {
                branch: self.branch.clone(),
                paths: self.paths.clone(),
                conflicts: Some(self.conflicts.clone()),
                shown_digest: Some(changes.digest.clone()),
            };
            changes = client.apply_run(&self.run, &request).await?;
        } else {
            changes.diff = selected_diff(&changes, is_selected);
            changes.changes.retain(is_selected);
        }
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
        report_conflicts(&changes, writes, json)
    }

    async fn discard(&self, client: &Client, changes: &Changes, json: bool) -> Result<(), Failure> {
        let unapplied = unapplied(changes);
        if !self.yes && (json || !confirm::can_ask()) {
            return Err(Failure::Usage(format!(
                "the copy {} with {unapplied} would be deleted permanently; confirm with --yes",
                clean::line(&changes.path)
            )));
        }
        if !self.yes {
            for change in &changes.changes {
                note(&line(change));
            }
            let copy = clean::line(&changes.path);
            if !confirm::confirm(&format!("Delete the copy {copy} with {unapplied}?"))? {
                return Err(Failure::No);
            }
        }
        let discarded = client.discard_run_changes(&self.run).await?;
        if json {
            return Output::new().value(&discarded);
        }
        note(&format!(
            "deleted the copy {} with {}",
            clean::line(&discarded.path),
            self::unapplied(&discarded)
        ));
        Ok(())
    }

    /// Names the files that other programs execute, and asks on a terminal.
    fn is_agreed(&self, executed: &[&Change]) -> Result<bool, Failure> {
        for change in executed {
            let program = change.executed_by.as_deref().unwrap_or_default();
            note(&clean::line(&format!(
                "{} is executed by {program}: read it before you apply it",
                change.path
            )));
        }
        if executed.is_empty() || self.yes || !confirm::can_ask() {
            return Ok(true);
        }
        confirm::confirm("Apply these files too?")
    }
}

/// The parts of the diff that belong to selected changes.
fn selected_diff(changes: &Changes, is_selected: impl Fn(&Change) -> bool) -> String {
    let omitted = changes.changes.iter().filter(|change| !is_selected(change));
    let headers: Vec<String> =
        omitted.map(|change| format!("diff --git a/{path} b/{path}\n", path = change.path)).collect();
    let mut is_shown = true;
    let lines = changes.diff.split_inclusive('\n').filter(|line| {
        if line.starts_with("diff --git ") {
            is_shown = !headers.iter().any(|header| header == line);
        }
        is_shown
    });
    lines.collect()
}

fn is_executed(change: &Change) -> bool {
    change.executed_by.is_some() && change.state != "applied"
}

/// The conflicting parts, and what can be done about them.
fn report_conflicts(changes: &Changes, writes: bool, json: bool) -> Result<(), Failure> {
    let conflicts: Vec<&Change> =
        changes.changes.iter().filter(|change| change.state == "conflict").collect();
    if conflicts.is_empty() {
        return Ok(());
    }
    for change in conflicts.iter().filter(|_| !json) {
        let Some(parts) = &change.conflict else { continue };
        note(&clean::line(&format!("conflict in {} (ours: the folder, theirs: the run):", change.path)));
        for line in clean::lines(parts) {
            note(&format!("    {line}"));
        }
    }
    let (source, run) = (clean::line(&changes.source), clean::line(&changes.run_id));
    let written = if writes { "not applied, because" } else { "found:" };
    note(&format!(
        "{} {written} {source} has changed in the same parts; to write both versions between conflict markers: \
         recount apply {run} PATH --conflicts mark",
        render::count(conflicts.len() as u64, "conflict")
    ));
    Err(Failure::No)
}

fn line(change: &Change) -> String {
    let state = match change.state.as_str() {
        "conflict" => " (conflict)",
        "mergeable" => " (to be merged)",
        "applied" if change.conflict.is_some() => " (applied, with conflict markers)",
        "applied" => " (applied)",
        _ => "",
    };
    let kind = if change.kind == "file" { String::new() } else { format!(" {}", change.kind) };
    clean::line(&format!("{}{kind} {}{state}", change.change, change.path))
}

/// What is lost with the copy.
fn unapplied(changes: &Changes) -> String {
    match changes.count {
        0 => "no changes left to apply".to_owned(),
        count => format!("{} not applied", path_count(count)),
    }
}

/// What became of them.
fn report_result(changes: &Changes, writes: bool) {
    let source = clean::line(&changes.source);
    match (&changes.branch, &changes.commit) {
        (Some(branch), Some(commit)) => {
            note(&format!("committed to branch {} as {}", clean::line(branch), clean::line(commit)));
        }
        _ if changes.count == 0 => {
            note(&format!("nothing to apply: the copy has the same files as {source}"))
        }
        _ if writes && !changes.changes.iter().any(|change| change.state == "applied") => {
            note("nothing was applied");
        }
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
