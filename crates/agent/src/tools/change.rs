//! Changes files: computes all changes, stores them as patches, proposes them, and then writes all files or none.
//!
//! Start at [`apply_plans`]. The patches are durable before a file is changed, so the log explains every change. A file
//! is written only if it still has the content that the change was computed from. If one file cannot be written, the
//! earlier ones are restored.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use recount_event::family::{artifact, file};
use recount_event::{Draft, ForeignId, Json, Payload, time};
use serde_json::Value;

use crate::approved::DIFF;
use crate::paths::{Expected, Found, Links, PathError, Root, WorkspacePath, Written, io_failed, revision};
use crate::tool::{FileChange, Job, NewArtifact, PatchTarget, Preview};
use crate::tools::diff::{self, Patch};
use crate::tools::ending::{CallFailure, counted, run_blocking};
use crate::tools::limits;
use crate::tools::read_file::is_binary;

/// The events that report a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeReport {
    New,
    Edit,
    Together,
}

/// A computed change of one file that is not written yet.
#[derive(Debug)]
pub(crate) struct ChangePlan {
    pub(crate) place: WorkspacePath,
    before: Option<Vec<u8>>,
    after: Vec<u8>,
    expected: Expected,
    patch: Patch,
}

impl ChangePlan {
    /// `before` is `None` for a new file.
    pub(crate) fn new(
        place: WorkspacePath,
        before: Option<Vec<u8>>,
        after: Vec<u8>,
    ) -> Result<Self, CallFailure> {
        if before.as_ref() == Some(&after) {
            let message = format!("{place} already has this content; nothing was changed");
            return Err(CallFailure::failed("no_change", message));
        }
        let expected = match &before {
            None => Expected::Absent,
            Some(before) => Expected::Revision(revision(before)),
        };
        let patch = diff::unified(&place.text(), before.as_deref(), &after);
        Ok(ChangePlan { place, before, after, expected, patch })
    }

    pub(crate) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// `1 hunk, +1/-1 line`, or `new file, 42 lines`.
    fn summary(&self) -> String {
        if self.is_new() {
            format!("new file, {}", counted(self.patch.additions, "line", "lines"))
        } else {
            self.patch.summary()
        }
    }

    /// The path and the summary.
    pub(crate) fn summary_line(&self) -> String {
        format!("{}: {}", self.place.text(), self.summary())
    }

    fn base_revision(&self) -> String {
        match &self.expected {
            Expected::Absent => "absent".to_owned(),
            Expected::Revision(revision) => revision.clone(),
        }
    }

    /// The form of the change that an approval is bound to.
    fn file_change(&self) -> FileChange {
        let text = String::from_utf8_lossy(&self.patch.text);
        let lines =
            text.lines().filter(|line| !line.starts_with("@@")).flat_map(|line| [line, "\n"]).collect();
        FileChange { path: self.place.text(), base: self.base_revision(), lines }
    }

    fn patch_artifact(&self, call: &ForeignId) -> NewArtifact {
        NewArtifact {
            kind: "patch",
            mime: "text/x-diff".to_owned(),
            summary: Some(self.summary_line()),
            bytes: Bytes::copy_from_slice(&self.patch.text),
            call: Some(call.clone()),
            target: Some(PatchTarget {
                path: self.place.text(),
                base_revision: self.base_revision(),
                additions: self.patch.additions,
                deletions: self.patch.deletions,
                hunks: self.patch.hunks,
            }),
        }
    }
}

/// The complete diff of the plans; or the input, if it cannot be planned.
pub(crate) fn preview(input: &Value, plans: Result<Vec<ChangePlan>, CallFailure>) -> Preview {
    match plans {
        Ok(plans) => {
            let text = plans.iter().map(|plan| String::from_utf8_lossy(&plan.patch.text)).collect();
            Preview { kind: DIFF, text, changes: plans.iter().map(ChangePlan::file_change).collect() }
        }
        Err(_) => Preview::of_input(input),
    }
}

/// The current content of a file that may be written; `None` if it does not exist.
pub(crate) fn read_before(root: &Root, place: &WorkspacePath) -> Result<Option<Vec<u8>>, CallFailure> {
    root.may_write(place)?;
    let file = match root.find(place, Links::Refuse) {
        Ok(Found::File(file)) => file,
        Ok(Found::Folder(_)) => {
            return Err(CallFailure::failed("is_a_folder", format!("{place} is a folder, not a file")));
        }
        Err(PathError { code: "not_found", .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    file.take(limits::EDIT_FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| io_failed(place, &error))?;
    if bytes.len() > limits::EDIT_FILE_BYTES_MAX {
        let most = limits::EDIT_FILE_BYTES_MAX;
        let message =
            format!("{place} is larger than {most} bytes, the limit for edits by a tool; use a command");
        return Err(CallFailure::failed("file_too_large", message));
    }
    if is_binary(&bytes) {
        let message = format!("{place} is a binary file and cannot be edited as text; use a command");
        return Err(CallFailure::failed("binary_file", message));
    }
    Ok(Some(bytes))
}

/// The content of a file that must exist.
pub(crate) fn read_existing(root: &Root, place: &WorkspacePath) -> Result<Vec<u8>, CallFailure> {
    read_before(root, place)?.ok_or_else(|| {
        CallFailure::failed("not_found", format!("{place} does not exist; create it with write_file"))
    })
}

/// Stores and reports patches, and writes the changes. Returns the events that report the writes.
pub(crate) async fn apply_plans(
    job: &mut Job<'_>,
    plans: Vec<ChangePlan>,
    report: ChangeReport,
) -> Result<Vec<Draft>, CallFailure> {
    let changes: Vec<FileChange> = match &job.approved {
        Some(_) => plans.iter().map(ChangePlan::file_change).collect(),
        None => Vec::new(),
    };
    // The plans are what is written, and a file is written only over the content that its plan was computed from.
    if job.approved.as_ref().is_some_and(|approved| !approved.allows(&changes)) {
        let paths: Vec<String> = plans.iter().map(|plan| plan.place.to_string()).collect();
        let message = format!(
            "{} changed after the call was approved; nothing was written; read it again and repeat the call",
            paths.join(", ")
        );
        return Err(CallFailure::failed("changed_since_approval", message));
    }
    let mut ids = Vec::new();
    let mut drafts = Vec::new();
    for plan in &plans {
        let stored = job.artifacts.store(plan.patch_artifact(job.call)).await.map_err(|error| {
            CallFailure::failed(
                "not_kept",
                format!("the patch could not be stored, so nothing was changed: {error}"),
            )
        })?;
        drafts.push(stored.created);
        ids.push(stored.id);
    }
    drafts.push(proposed(job.call, &plans, &ids, report));
    if job.cancel.is_cancelled() {
        return Err(CallFailure::cancelled());
    }
    job.reporter.report(drafts).await?;

    let plans = Arc::new(plans);
    let (root, cancel, entropy) = (job.terms.root.clone(), job.cancel.clone(), job.world.entropy.clone());
    let work = plans.clone();
    let written = run_blocking(job.world, move || {
        if cancel.is_cancelled() {
            return Err(CallFailure::cancelled());
        }
        let root = Root::open(&root)?;
        write_all(&root, &work, &*entropy)
    });
    match written.await {
        Ok(()) => {
            // Also without an approval: an approved call may build on it.
            for plan in &*plans {
                job.revisions.record(&plan.place.text(), &plan.base_revision(), &revision(&plan.after));
            }
            Ok(applied(job, &plans, &ids, report))
        }
        Err(failure) => {
            Err(failure.with_events(ids.iter().map(|id| status_changed(id, "rejected")).collect()))
        }
    }
}

/// Writes all files or none.
fn write_all(
    root: &Root,
    plans: &[ChangePlan],
    entropy: &dyn recount_world::Entropy,
) -> Result<(), CallFailure> {
    let mut done: Vec<(Written, &ChangePlan)> = Vec::new();
    for plan in plans {
        match root.write(&plan.place, &plan.after, &plan.expected, entropy) {
            Ok(written) => done.push((written, plan)),
            Err(error) => {
                let mut failure = CallFailure::from(error);
                for (written, plan) in done.iter().rev() {
                    failure = match root.revert(written, plan.before.as_deref(), entropy) {
                        Ok(()) => failure.with_note(&format!("{} was restored", written.place)),
                        Err(error) => failure.with_note(&format!(
                            "{} could not be restored and stays changed: {error}",
                            written.place
                        )),
                    };
                }
                return Err(failure);
            }
        }
    }
    Ok(())
}

fn proposed(call: &ForeignId, plans: &[ChangePlan], ids: &[ForeignId], report: ChangeReport) -> Draft {
    if let (ChangeReport::New | ChangeReport::Edit, [plan], [id]) = (report, plans, ids) {
        let mut proposed = file::Proposed::new(call.clone(), plan.place.text(), id.clone());
        proposed.summary = Some(plan.summary());
        proposed.auto_apply = Some(true);
        let proposed = Box::new(proposed);
        return match report {
            ChangeReport::New => Payload::ToolFileWriteProposed(proposed),
            _ => Payload::ToolEditProposed(proposed),
        }
        .into();
    }
    let mut proposed = file::MultiProposed::new(call.clone(), ids.to_vec());
    proposed.paths = Some(plans.iter().map(|plan| plan.place.text()).collect());
    proposed.summary = Some(summary(plans));
    proposed.auto_apply = Some(true);
    Payload::ToolMultiEditProposed(Box::new(proposed)).into()
}

fn applied(job: &Job<'_>, plans: &[ChangePlan], ids: &[ForeignId], report: ChangeReport) -> Vec<Draft> {
    let at = time::format_ms(job.world.clock.now_ms());
    let mut drafts = Vec::new();
    if let (ChangeReport::New | ChangeReport::Edit, [plan], [id]) = (report, plans, ids) {
        let mut applied = file::Applied::new(id.clone());
        applied.tool_call_id = Some(job.call.clone());
        applied.applied_at = Some(at);
        applied.path = Some(plan.place.text());
        let applied = Box::new(applied);
        drafts.push(match report {
            ChangeReport::New => Payload::ToolFileWriteApplied(applied).into(),
            _ => Payload::ToolEditApplied(applied).into(),
        });
    } else {
        let mut applied = file::MultiApplied::new(ids.to_vec());
        applied.tool_call_id = Some(job.call.clone());
        applied.applied_at = Some(at);
        drafts.push(Payload::ToolMultiEditApplied(Box::new(applied)).into());
    }
    drafts.extend(ids.iter().map(|id| status_changed(id, "applied")));
    drafts
}

/// The event that changes the status of a proposed patch.
pub(crate) fn status_changed(id: &ForeignId, status: &str) -> Draft {
    let json_text = |json_text: &str| Json::of(&json_text).expect("a word is valid JSON");
    let updated =
        artifact::Updated::new(id.clone(), "status".into(), json_text("proposed"), json_text(status));
    Payload::ArtifactUpdated(Box::new(updated)).into()
}

/// The summary of a change of several files.
pub(crate) fn summary(plans: &[ChangePlan]) -> String {
    let (mut additions, mut deletions) = (0, 0);
    for plan in plans {
        additions += plan.patch.additions;
        deletions += plan.patch.deletions;
    }
    format!("{}, +{additions}/-{deletions} lines", counted(plans.len() as u64, "file", "files"))
}

#[cfg(test)]
mod tests;
