//! Changing files: worked out first, kept as patches, proposed, and only then made, together or not at all.
//!
//! Look at [`make`]. The patches are kept and told durably before a file is touched, so a reader who finds a file changed
//! finds in the log by what. Each file is written only while it still is what the change was worked out from; when
//! one cannot be written, those before it are put back.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use recount_event::family::{artifact, file};
use recount_event::{Draft, ForeignId, Json, Payload, time};
use serde_json::Value;

use crate::approved::DIFF;
use crate::paths::{Expected, Found, Links, PathError, Place, Root, Written, io_failed, revision};
use crate::tool::{FileChange, Job, Keep, Preview, Target};
use crate::tools::diff::{self, Patch};
use crate::tools::ending::{Stop, aside};
use crate::tools::limits;
use crate::tools::read_file::is_binary;

/// What a change is told as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeReport {
    New,
    Edit,
    Together,
}

/// A change of one file, worked out and not made.
#[derive(Debug)]
pub(crate) struct ChangePlan {
    pub(crate) place: Place,
    before: Option<Vec<u8>>,
    after: Vec<u8>,
    expected: Expected,
    patch: Patch,
}

impl ChangePlan {
    /// `before` is nothing for a file that does not exist.
    pub(crate) fn new(place: Place, before: Option<Vec<u8>>, after: Vec<u8>) -> Result<Self, Stop> {
        if before.as_ref() == Some(&after) {
            let message = format!("{place} has exactly this content already; nothing would change");
            return Err(Stop::failed("no_change", message));
        }
        let expected = match &before {
            None => Expected::Absent,
            Some(before) => Expected::Revision(revision(before)),
        };
        let patch = diff::unified(&place.told(), before.as_deref(), &after);
        Ok(ChangePlan { place, before, after, expected, patch })
    }

    pub(crate) fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// `1 hunk, +1/-1 line`, or `new file, 42 lines`.
    fn summary(&self) -> String {
        if self.is_new() {
            let lines = if self.patch.additions == 1 { "line" } else { "lines" };
            format!("new file, {} {lines}", self.patch.additions)
        } else {
            self.patch.summary()
        }
    }

    /// The same, with the path before it.
    pub(crate) fn row(&self) -> String {
        format!("{}: {}", self.place.told(), self.summary())
    }

    fn base_revision(&self) -> String {
        match &self.expected {
            Expected::Absent => "absent".to_owned(),
            Expected::Revision(revision) => revision.clone(),
        }
    }

    /// What a yes to this is bound to.
    fn bound(&self) -> FileChange {
        let text = String::from_utf8_lossy(&self.patch.text);
        let lines =
            text.lines().filter(|line| !line.starts_with("@@")).flat_map(|line| [line, "\n"]).collect();
        FileChange { path: self.place.told(), base: self.base_revision(), lines }
    }

    fn keep(&self, call: &ForeignId) -> Keep {
        Keep {
            kind: "patch",
            mime: "text/x-diff".to_owned(),
            summary: Some(self.row()),
            bytes: Bytes::copy_from_slice(&self.patch.text),
            call: Some(call.clone()),
            target: Some(Target {
                path: self.place.told(),
                base_revision: self.base_revision(),
                additions: self.patch.additions,
                deletions: self.patch.deletions,
                hunks: self.patch.hunks,
            }),
        }
    }
}

/// The difference that plans would make, whole; or the input, where no plan can be made of it.
pub(crate) fn preview(input: &Value, plans: Result<Vec<ChangePlan>, Stop>) -> Preview {
    match plans {
        Ok(plans) => {
            let text = plans.iter().map(|plan| String::from_utf8_lossy(&plan.patch.text)).collect();
            Preview { kind: DIFF, text, changes: plans.iter().map(ChangePlan::bound).collect() }
        }
        Err(_) => Preview::of_input(input),
    }
}

/// What stands at a place that is to be written: the bytes of a file, or nothing.
pub(crate) fn before(root: &Root, place: &Place) -> Result<Option<Vec<u8>>, Stop> {
    root.may_write(place)?;
    let file = match root.find(place, Links::Refuse) {
        Ok(Found::File(file)) => file,
        Ok(Found::Folder(_)) => {
            return Err(Stop::failed("is_a_folder", format!("{place} is a folder, not a file")));
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
        let message = format!(
            "{place} has more than the {most} bytes that a file may have to be changed by a tool; use a command"
        );
        return Err(Stop::failed("file_too_large", message));
    }
    if is_binary(&bytes) {
        let message = format!("{place} is binary, which cannot be changed as text; use a command");
        return Err(Stop::failed("binary_file", message));
    }
    Ok(Some(bytes))
}

/// The bytes of a file that must be there.
pub(crate) fn existing(root: &Root, place: &Place) -> Result<Vec<u8>, Stop> {
    before(root, place)?.ok_or_else(|| {
        Stop::failed("not_found", format!("{place} does not exist; to make it use write_file"))
    })
}

/// Keeps, tells and makes changes. Answers what is to be told of it.
pub(crate) async fn make(
    job: &mut Job<'_>,
    plans: Vec<ChangePlan>,
    telling: ChangeReport,
) -> Result<Vec<Draft>, Stop> {
    let changes: Vec<FileChange> = match &job.approved {
        Some(_) => plans.iter().map(ChangePlan::bound).collect(),
        None => Vec::new(),
    };
    // The plans are what is written, and each is written only over the bytes that it was worked out from.
    if job.approved.as_ref().is_some_and(|approved| !approved.allows(&changes)) {
        let paths: Vec<String> = plans.iter().map(|plan| plan.place.to_string()).collect();
        let message = format!(
            "{} changed since the call was approved; nothing was written; read again and ask again",
            paths.join(", ")
        );
        return Err(Stop::failed("changed_since_approval", message));
    }
    let mut ids = Vec::new();
    let mut drafts = Vec::new();
    for plan in &plans {
        let kept = job.keeper.keep(plan.keep(job.call)).await.map_err(|error| {
            Stop::failed("not_kept", format!("the patch could not be kept, so nothing was changed: {error}"))
        })?;
        drafts.push(kept.created);
        ids.push(kept.id);
    }
    drafts.push(proposed(job.call, &plans, &ids, telling));
    if job.cancel.is_cancelled() {
        return Err(Stop::cancelled());
    }
    job.teller.tell(drafts).await?;

    let plans = Arc::new(plans);
    let (root, cancel, entropy) = (job.terms.root.clone(), job.cancel.clone(), job.world.entropy.clone());
    let work = plans.clone();
    let written = aside(job.world, move || {
        if cancel.is_cancelled() {
            return Err(Stop::cancelled());
        }
        let root = Root::open(&root)?;
        write_all(&root, &work, &*entropy)
    });
    match written.await {
        Ok(()) => {
            // Also of a call that nobody was asked about: one that a person was asked about may build on it.
            for plan in &*plans {
                job.rewritten.made(&plan.place.told(), &plan.base_revision(), &revision(&plan.after));
            }
            Ok(applied(job, &plans, &ids, telling))
        }
        Err(stop) => Err(stop.with(ids.iter().map(|id| status_changed(id, "rejected")).collect())),
    }
}

/// All or none.
fn write_all(root: &Root, plans: &[ChangePlan], entropy: &dyn recount_world::Entropy) -> Result<(), Stop> {
    let mut done: Vec<(Written, &ChangePlan)> = Vec::new();
    for plan in plans {
        match root.write(&plan.place, &plan.after, &plan.expected, entropy) {
            Ok(written) => done.push((written, plan)),
            Err(error) => {
                let mut stop = Stop::from(error);
                for (written, plan) in done.iter().rev() {
                    stop = match root.take_back(written, plan.before.as_deref(), entropy) {
                        Ok(()) => stop.saying(&format!("{} was put back", written.place)),
                        Err(error) => stop.saying(&format!("{} stays changed: {error}", written.place)),
                    };
                }
                return Err(stop);
            }
        }
    }
    Ok(())
}

fn proposed(call: &ForeignId, plans: &[ChangePlan], ids: &[ForeignId], telling: ChangeReport) -> Draft {
    if let (ChangeReport::New | ChangeReport::Edit, [plan], [id]) = (telling, plans, ids) {
        let mut proposed = file::Proposed::new(call.clone(), plan.place.told(), id.clone());
        proposed.summary = Some(plan.summary());
        proposed.auto_apply = Some(true);
        let proposed = Box::new(proposed);
        return match telling {
            ChangeReport::New => Payload::ToolFileWriteProposed(proposed),
            _ => Payload::ToolEditProposed(proposed),
        }
        .into();
    }
    let mut proposed = file::MultiProposed::new(call.clone(), ids.to_vec());
    proposed.paths = Some(plans.iter().map(|plan| plan.place.told()).collect());
    proposed.summary = Some(summary(plans));
    proposed.auto_apply = Some(true);
    Payload::ToolMultiEditProposed(Box::new(proposed)).into()
}

fn applied(job: &Job<'_>, plans: &[ChangePlan], ids: &[ForeignId], telling: ChangeReport) -> Vec<Draft> {
    let at = time::format_ms(job.world.clock.now_ms());
    let mut drafts = Vec::new();
    if let (ChangeReport::New | ChangeReport::Edit, [plan], [id]) = (telling, plans, ids) {
        let mut applied = file::Applied::new(id.clone());
        applied.tool_call_id = Some(job.call.clone());
        applied.applied_at = Some(at);
        applied.path = Some(plan.place.told());
        let applied = Box::new(applied);
        drafts.push(match telling {
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

/// A proposed patch has become this.
pub(crate) fn status_changed(id: &ForeignId, status: &str) -> Draft {
    let word = |word: &str| Json::of(&word).expect("a word can be said in JSON");
    let updated = artifact::Updated::new(id.clone(), "status".into(), word("proposed"), word(status));
    Payload::ArtifactUpdated(Box::new(updated)).into()
}

/// Of several files.
pub(crate) fn summary(plans: &[ChangePlan]) -> String {
    let (mut additions, mut deletions) = (0, 0);
    for plan in plans {
        additions += plan.patch.additions;
        deletions += plan.patch.deletions;
    }
    let files = if plans.len() == 1 { "file" } else { "files" };
    format!("{} {files}, +{additions}/-{deletions} lines", plans.len())
}

#[cfg(test)]
mod tests;
