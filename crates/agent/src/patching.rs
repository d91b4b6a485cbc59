//! Runs that apply, reject or revert patches of an ended run. Such a run is one call that writes all files or none.
//!
//! Start at [`Worker::patch_call`]. The request of a client with the `approve` scope is the approval; a policy can
//! still block the call. `workspace::patched` checks whether a patch fits.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use recount_engine::{Error, PatchAction, PatchSet};
use recount_event::family::approval::Reversibility;
use recount_event::family::file;
use recount_event::family::policy::ToolBlocked;
use recount_event::family::tool::{Ended, Executor, Invoked, RiskLevel, Started};
use recount_event::{Draft, ForeignId, Json, Payload, time};
use recount_world::Kind;

use crate::policy::Verdict;
use crate::tool::{ArtifactStore as _, Assessment, NewArtifact, Outcome};
use crate::tools::change::status_changed;
use crate::tools::ending::{CallFailure, completed};
use crate::tools::input;
use crate::worker::{CallEnd, WorkResult, Worker};
use crate::workspace::IN_PLACE;
use crate::workspace::claims::{ClaimMode, StillClaimed};
use crate::workspace::patched::{self, NotPatched, PatchStep};

const KIND: &str = "file";

/// The tool name of the call.
fn tool_name(action: PatchAction) -> &'static str {
    match action {
        PatchAction::Apply => "apply_patch",
        PatchAction::Reject => "reject_patch",
        PatchAction::Revert => "revert_patch",
    }
}

/// The failure of the call; the code is the call's.
fn call_failure(why: NotPatched) -> CallFailure {
    match why {
        NotPatched::Drift(why) => CallFailure::failed("patch_drift", format!("nothing was written: {why}")),
        NotPatched::Unusable(why) => CallFailure::failed("patch_unusable", why),
        NotPatched::Failed(why) => CallFailure::failed("patch_failed", why),
    }
}

impl Worker {
    /// Whether the run applies, rejects or reverts patches.
    pub(crate) fn is_for_patches(&self) -> bool {
        self.queued.action.is_some()
    }

    /// Executes the one call of such a run.
    pub(crate) async fn patch_call(&mut self) -> WorkResult<()> {
        let order = match self.patch_order().await? {
            Ok(order) => order,
            Err((code, message)) => return self.fail(&code, message, false).await,
        };
        let action = order.action;
        let mut opening = Vec::new();
        if action != PatchAction::Reject {
            if let Some((blocked, reason)) = self.blocked(&order) {
                let failed = self.failed("blocked", format!("blocked by a rule: {reason}"), false);
                return self.report(vec![blocked, failed]).await;
            }
            if !self.provision(&mut opening).await? {
                return Ok(());
            }
        }
        let (id, name) = (self.worker_session.mint("call_"), tool_name(action).to_owned());
        let mut invoked = Invoked::new(id.clone(), name.clone());
        invoked.kind = Some(KIND.to_owned());
        invoked.executor = Some(Executor::Server);
        invoked.risk_level = Some(RiskLevel::Medium);
        invoked.args_summary = Some(summary(&order));
        let mut started = Started::new(id.clone(), name.clone());
        started.kind = Some(KIND.to_owned());
        opening.push(Payload::ToolInvoked(Box::new(invoked)).into());
        opening.push(Payload::ToolStarted(Box::new(started)).into());
        self.report(opening).await?;
        let start = recount_world::moment();
        let mut ended = Ended::new(id.clone(), name);
        ended.kind = Some(KIND.to_owned());
        let outcome = match action {
            PatchAction::Reject => rejected(&order),
            PatchAction::Apply | PatchAction::Revert => {
                self.patch_files(&id, order).await?.unwrap_or_else(Outcome::from)
            }
        };
        ended.duration_ms = u64::try_from(start.elapsed().as_millis()).ok();
        self.settle(ended, outcome).await
    }

    /// Reads the patches in their current state. `Err`: the code and the reason why the run fails.
    async fn patch_order(&self) -> WorkResult<Result<PatchSet, (String, String)>> {
        let refuse = |error: Error| match error {
            Error::Rejected(rejection) => {
                Ok(Err((rejection.code.as_str().to_owned(), rejection.to_string())))
            }
            failed => Err(failed.into()),
        };
        let Some(action) = self.queued.action.as_deref().and_then(PatchAction::parse) else {
            return Ok(Err((
                "order_refused".to_owned(),
                "the run does not name an operation for patches".to_owned(),
            )));
        };
        let prior = self.queued.prior_run_id.as_deref().and_then(|run| run.parse().ok());
        let mut patches = Vec::new();
        for id in self.queued.patch_artifact_ids.iter().flatten() {
            let found = async {
                let row = self.worker_session.read().patch(id, prior).await?;
                action.admits(&row)?;
                match action {
                    PatchAction::Reject => Ok(recount_engine::PatchBytes { row, diff: Bytes::new() }),
                    _ => self.worker_session.read().patch_bytes(row).await,
                }
            };
            match found.await {
                Ok(patch) => patches.push(patch),
                Err(error) => return refuse(error),
            }
        }
        Ok(Ok(PatchSet { action, patches }))
    }

    /// The policy rule that blocks the call, if there is one.
    fn blocked(&self, order: &PatchSet) -> Option<(Draft, String)> {
        let name = tool_name(order.action);
        let paths: Vec<String> = order.patches.iter().filter_map(|patch| patch.row.path.clone()).collect();
        let action = format!("{} {}", order.action.as_str(), paths.join(", "));
        let assessment = Assessment {
            risk: RiskLevel::Medium,
            reversibility: Reversibility::Reversible,
            writes: true,
            ..input::harmless(&paths.join(", "), action, paths.clone())
        };
        let verdict = self.agent.policy().judge(name, &assessment, &self.setting(), None);
        let Verdict::Block { policy_id, reason } = verdict else { return None };
        let mut blocked = ToolBlocked::new(name.to_owned(), reason.clone());
        blocked.policy_id = Some(policy_id);
        blocked.kind = Some(KIND.to_owned());
        Some((Payload::PolicyToolBlocked(Box::new(blocked)).into(), reason))
    }

    fn patched_root(&self) -> (PathBuf, bool) {
        let root = self.terms.as_ref().map(|terms| terms.root.clone()).unwrap_or_default();
        (root, self.queued.workspace_mode.as_deref() == Some(IN_PLACE))
    }

    /// Applies or reverts. No other run may start in the folder meanwhile.
    async fn patch_files(
        &mut self,
        call: &ForeignId,
        order: PatchSet,
    ) -> WorkResult<Result<Outcome, CallFailure>> {
        let (root, is_real) = self.patched_root();
        let mut watch = self.worker_session.watch();
        let claim = self.agent.claims.claim(vec![root.clone()], ClaimMode::Exclusive);
        let claim = tokio::select! {
            biased;
            () = watch.ended() => return Err(recount_engine::WorkerExit::Ended),
            claim = claim => claim,
        };
        let Ok(claim) = claim.map(Arc::new).map_err(|StillClaimed| ()) else {
            let why = format!("a tool is still running in {}; try again when it has ended", root.display());
            return Ok(Err(CallFailure::failed("workspace_busy", why)));
        };
        let action = order.action;
        let together = self.multi_edit_patches(&order).await?;
        let held = claim.clone();
        let work = move || {
            let _held = held;
            patched::recover(&root, is_real)?;
            patched::plan(&root, is_real, &order)
        };
        let plan = match self.run_blocking(work).await {
            Ok(plan) => plan,
            Err(why) => return Ok(Err(call_failure(why))),
        };
        let inverses = match action {
            PatchAction::Revert => match self.announce(call, &plan.steps).await? {
                Ok(inverses) => inverses,
                Err(why) => return Ok(Err(why)),
            },
            PatchAction::Apply | PatchAction::Reject => Vec::new(),
        };
        if watch.has_ended() {
            return Err(recount_engine::WorkerExit::Ended);
        }
        let events = self.patch_events(call, action, &plan.steps, &inverses, &together);
        let summary = plan.steps.iter().map(PatchStep::title).collect::<Vec<_>>().join(", ");
        self.worker_session.write().check_owner()?;
        let id = self.worker_session.world().entropy.draw();
        let write = move || {
            let _held = claim;
            plan.write(id)
        };
        Ok(match self.run_blocking(write).await {
            Ok(()) => Ok(completed("done", summary, events)),
            Err(why) => {
                let rejected_patches = inverses.iter().map(|id| status_changed(id, "rejected"));
                Err(call_failure(why).with_events(rejected_patches.collect()))
            }
        })
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, NotPatched> + Send + 'static,
    ) -> Result<T, NotPatched> {
        let done = self.worker_session.world().tasks.block(Kind::Effect, work).await;
        done.unwrap_or_else(|_| Err(NotPatched::Failed("reading the files was interrupted".to_owned())))
    }

    /// Stores and reports the inverse patches, so that the log has them before a file is changed.
    async fn announce(
        &mut self,
        call: &ForeignId,
        steps: &[PatchStep],
    ) -> WorkResult<Result<Vec<ForeignId>, CallFailure>> {
        let artifacts = self.artifacts();
        let (mut ids, mut drafts) = (Vec::new(), Vec::new());
        for step in steps {
            let keep = NewArtifact {
                kind: "patch",
                mime: "text/x-diff".to_owned(),
                summary: Some(step.title()),
                bytes: step.diff.clone().into(),
                call: Some(call.clone()),
                target: Some(step.target.clone()),
            };
            let stored = match artifacts.store(keep).await {
                Ok(stored) => stored,
                Err(error) => {
                    let why =
                        format!("the inverse patch could not be stored, so nothing was changed: {error}");
                    return Ok(Err(CallFailure::failed("not_kept", why)));
                }
            };
            let mut proposed = file::Proposed::new(call.clone(), step.target.path.clone(), stored.id.clone());
            proposed.summary = Some(step.summary.clone());
            proposed.auto_apply = Some(true);
            drafts.extend([stored.created, Payload::ToolEditProposed(Box::new(proposed)).into()]);
            ids.push(stored.id);
        }
        self.report(drafts).await?;
        Ok(Ok(ids))
    }

    /// The events to report once the files are written.
    fn patch_events(
        &self,
        call: &ForeignId,
        action: PatchAction,
        steps: &[PatchStep],
        inverses: &[ForeignId],
        together: &[ForeignId],
    ) -> Vec<Draft> {
        let at = time::format_ms(self.worker_session.world().clock.now_ms());
        let mut drafts: Vec<Draft> = Vec::new();
        for step in steps {
            if action == PatchAction::Apply {
                let mut applied = file::Applied::new(step.patch.clone());
                applied.tool_call_id = Some(call.clone());
                applied.applied_at = Some(at.clone());
                applied.path = step.path.clone();
                let applied = Box::new(applied);
                drafts.push(match step.adds {
                    true => Payload::ToolFileWriteApplied(applied).into(),
                    false => Payload::ToolEditApplied(applied).into(),
                });
                drafts.push(status_changed(&step.patch, "applied"));
                continue;
            }
            if together.contains(&step.patch) {
                drafts.push(self.reverted_together(call, &step.patch));
                drafts.push(reverted_at(&step.patch, &at));
                continue;
            }
            let mut reverted = file::Reverted::new(step.patch.clone());
            reverted.tool_call_id = Some(call.clone());
            reverted.reverted_by = self.queued.requested_by.clone();
            reverted.reason = self.queued.request_text.clone();
            reverted.path = step.path.clone();
            let reverted = Box::new(reverted);
            drafts.push(match step.adds {
                true => Payload::ToolFileWriteReverted(reverted).into(),
                false => Payload::ToolEditReverted(reverted).into(),
            });
            drafts.push(reverted_at(&step.patch, &at));
        }
        drafts.extend(inverses.iter().map(|id| status_changed(id, "applied")));
        drafts
    }

    /// The event for reverting one patch of a `multi_edit` call. Names only this patch, because the others stay
    /// applied.
    fn reverted_together(&self, call: &ForeignId, patch: &ForeignId) -> Draft {
        let mut reverted = file::MultiReverted::new(vec![patch.clone()]);
        reverted.tool_call_id = Some(call.clone());
        reverted.reverted_by = self.queued.requested_by.clone();
        reverted.reason = self.queued.request_text.clone();
        Payload::ToolMultiEditReverted(Box::new(reverted)).into()
    }

    /// Those of the patches to revert that a `multi_edit` call proposed, according to the events of their run.
    async fn multi_edit_patches(&self, order: &PatchSet) -> WorkResult<Vec<ForeignId>> {
        let mut together = Vec::new();
        if order.action != PatchAction::Revert {
            return Ok(together);
        }
        for patch in &order.patches {
            let mut events = self.worker_session.read().follow_events(patch.row.run_id, None).await?;
            // The run has ended, so the event stream ends.
            'run: while let Some(page) = events.next().await? {
                for event in page {
                    match event.payload() {
                        Payload::ToolMultiEditProposed(proposed)
                            if proposed.patch_artifact_ids.contains(&patch.row.id) =>
                        {
                            together.push(patch.row.id.clone());
                            break 'run;
                        }
                        Payload::ToolEditProposed(proposed) | Payload::ToolFileWriteProposed(proposed)
                            if proposed.patch_artifact_id == patch.row.id =>
                        {
                            break 'run;
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(together)
    }

    /// Undoes a partial write of a lost worker before the run fails. The next apply would also undo it, but runs that
    /// start before that would see half-changed files.
    pub(crate) async fn settle_files(&mut self, ended: &CallEnd) -> WorkResult<()> {
        let is_lost = matches!(ended, CallEnd::Failed { code, .. } if code == "interrupted");
        let Some(path) = self.queued.workspace_path.clone().filter(|_| is_lost && self.is_for_patches())
        else {
            return Ok(());
        };
        let root = PathBuf::from(path);
        let is_real = self.queued.workspace_mode.as_deref() == Some(IN_PLACE);
        let Ok(claim) = self.agent.claims.claim(vec![root.clone()], ClaimMode::Exclusive).await else {
            return Ok(());
        };
        let work = move || {
            let _held = claim;
            if patched::is_unsettled(&root) { patched::recover(&root, is_real) } else { Ok(0) }
        };
        if let Err(why) = self.run_blocking(work).await {
            tracing::warn!(run = %self.worker_session.run(), ?why, "an interrupted apply could not be undone");
        }
        Ok(())
    }
}

impl PatchStep {
    /// The path and the summary.
    fn title(&self) -> String {
        format!("{}: {}", self.target.path, self.summary)
    }
}

fn summary(order: &PatchSet) -> String {
    let named = |patch: &recount_engine::PatchBytes| {
        patch.row.path.clone().unwrap_or_else(|| patch.row.id.to_string())
    };
    order.patches.iter().map(named).collect::<Vec<_>>().join(", ")
}

fn rejected(order: &PatchSet) -> Outcome {
    let events = order.patches.iter().map(|patch| status_changed(&patch.row.id, "rejected")).collect();
    completed("done", format!("rejected: {}", summary(order)), events)
}

fn reverted_at(id: &ForeignId, at: &str) -> Draft {
    let json = |text: &str| Json::parse(text).expect("it is JSON");
    let quoted = Json::of(&at).expect("a text is valid JSON");
    let updated =
        recount_event::family::artifact::Updated::new(id.clone(), "reverted_at".into(), json("null"), quoted);
    Payload::ArtifactUpdated(Box::new(updated)).into()
}
