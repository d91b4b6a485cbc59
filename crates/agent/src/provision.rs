//! Prepares the workspace of a run before its first call, and provides the settings that its calls work with.
//!
//! Start at [`Worker::provision`]. `workspace` makes the copy.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recount_engine::WorkerExit;
use recount_event::family::run::RunKind;
use recount_event::family::workspace::{Failed, Provisioned};
use recount_event::{Draft, ForeignId, Payload};
use recount_world::Kind;

use crate::limits;
use crate::policy::{Setting, Verdict, WorkspaceMode};
use crate::tool::{FileJudge, HostJudge, HostVerdict, Terms};
use crate::worker::{WorkResult, Worker};
use crate::workspace::claims::ClaimMode;
use crate::workspace::{CLONE, IN_PLACE, WorkspaceError};

impl Worker {
    /// Makes the run's workspace ready, if it is not yet. `false`: that failed, and so did the run.
    pub(crate) async fn provision(&mut self, opening: &mut Vec<Draft>) -> WorkResult<bool> {
        if self.terms.is_some() {
            return Ok(true);
        }
        let mode = self.queued.workspace_mode.clone().unwrap_or_else(|| CLONE.to_owned());
        let Some(path) = self.queued.workspace_path.clone() else {
            let error = WorkspaceError::new("workspace_failed", "the run has no workspace");
            return self.fail_without_workspace(opening, mode, error).await;
        };
        let started = recount_world::moment();
        let workspaces = self.agent.settings.workspaces.clone();
        let source = self.config.workspace_source.clone().map(PathBuf::from);
        let root = PathBuf::from(&path);
        let (mode_of, root_of, run) = (mode.clone(), root.clone(), self.worker_session.run());
        let ignored_too = self.config.copy_ignored;
        let files_from = self.config.files_from.clone();
        // A run with turns starts from recorded files, so that others can start from the same ones.
        let records = self.worker_session.state().kind() == RunKind::AgentLoop && !self.provisioned;
        // Nothing is applied to a folder while it is copied, and no run starts in a folder while changes are applied to
        // it.
        let earlier = files_from.as_ref().map(|from| PathBuf::from(&from.workspace_path));
        let folders = [Some(root.clone()), source.clone(), earlier].into_iter().flatten().collect();
        let Ok(claim) = self.agent.claims.claim(folders, ClaimMode::Shared).await else {
            let why = format!("changes are being applied to {path} or to its source; try again later");
            return self
                .fail_without_workspace(opening, mode, WorkspaceError::new("workspace_failed", why))
                .await;
        };
        let ready = self
            .worker_session
            .world()
            .tasks
            .block(Kind::Effect, move || {
                let _claim = claim;
                let ready = match &files_from {
                    Some(from) => workspaces.prepare_restored(&root_of, from, run),
                    None => workspaces.prepare(&mode_of, &root_of, source.as_deref(), ignored_too, run),
                };
                if ready.is_ok() && records {
                    report_unrecorded(&root_of, workspaces.record_files(&root_of, &run.to_string()));
                }
                ready
            })
            .await
            .unwrap_or_else(|_| {
                Err(WorkspaceError::new("workspace_failed", "preparing the workspace was interrupted"))
            });
        let copied = match ready {
            Ok(ready) => ready.copied,
            Err(error) => return self.fail_without_workspace(opening, mode, error).await,
        };
        if copied.is_some() || !self.provisioned {
            let copied = copied.unwrap_or_default();
            let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let mut provisioned = Provisioned::new(mode, path, copied.files, copied.bytes, took);
            provisioned.source = self.config.workspace_source.clone();
            if let Some(from) = &self.config.files_from {
                provisioned.files_from_run_id = Some(from.run_id.to_string());
                provisioned.files_from_sequence = Some(from.sequence);
            }
            opening.push(Payload::WorkspaceProvisioned(Box::new(provisioned)).into());
        }
        self.terms = Some(self.terms_in(root));
        Ok(true)
    }

    /// Records the files of the copy for a checkpoint, so that another run can start from them.
    pub(crate) async fn record_files(&self, checkpoint: &ForeignId) {
        let path = self.queued.workspace_path.clone().filter(|_| self.provisioned);
        let Some(root) = path.map(PathBuf::from) else { return };
        let (workspaces, name) = (self.agent.settings.workspaces.clone(), checkpoint.to_string());
        let record = move || report_unrecorded(&root, workspaces.record_files(&root, &name));
        // If it is interrupted, there is no snapshot, and starting from this checkpoint is refused.
        self.worker_session.world().tasks.block(Kind::Effect, record).await.ok();
    }

    /// The settings of calls that work in a folder.
    fn terms_in(&self, root: PathBuf) -> Terms {
        let timeout =
            self.config.timeout_seconds.map_or(limits::COMMAND_TIMEOUT_DEFAULT, Duration::from_secs);
        let output = self.config.output_bytes_max.unwrap_or(limits::COMMAND_OUTPUT_DEFAULT);
        Terms {
            root,
            network: self.config.network,
            command_timeout: timeout.min(limits::COMMAND_TIMEOUT_MAX),
            output_bytes_max: output.min(limits::COMMAND_OUTPUT_MAX),
            hosts: self.host_judge(),
            files: self.file_judge(),
        }
    }

    /// The policy for files that searches find.
    fn file_judge(&self) -> FileJudge {
        let (agent, setting) = (self.agent.clone(), self.setting());
        FileJudge::new(move |tool, path| agent.policy().hides(tool, path, &setting))
    }

    /// The policy for hosts that appear during calls.
    fn host_judge(&self) -> HostJudge {
        let (agent, setting) = (self.agent.clone(), self.setting());
        let ask_first = self.config.ask_first.clone();
        HostJudge::new(move |tool, assessment| {
            let mut verdict = agent.policy().judge(tool, assessment, &setting, None);
            if ask_first.iter().any(|name| name == tool) {
                verdict = verdict.with_approval(assessment);
            }
            match verdict {
                Verdict::Allow => HostVerdict::Allowed,
                Verdict::Ask { policy_reason, .. } => HostVerdict::NeedsApproval(policy_reason),
                Verdict::Block { reason, .. } => HostVerdict::Blocked(reason),
            }
        })
    }

    /// The settings of calls: `None` while a needed workspace is missing. Tools that need no workspace get no folder.
    pub(crate) fn terms(&self) -> Option<Terms> {
        if self.needs_workspace() { self.terms.clone() } else { Some(self.terms_in(PathBuf::new())) }
    }

    /// Whether the run needs a workspace and has none yet.
    pub(crate) fn lacks_workspace(&self) -> bool {
        self.terms.is_none() && self.needs_workspace()
    }

    pub(crate) fn needs_workspace(&self) -> bool {
        self.worker_session.state().kind() != RunKind::AgentLoop || self.agent.needs_workspace(&self.config)
    }

    async fn fail_without_workspace(
        &mut self,
        opening: &mut Vec<Draft>,
        mode: String,
        error: WorkspaceError,
    ) -> Result<bool, WorkerExit> {
        let mut drafts = std::mem::take(opening);
        let mut failed = Failed::new(mode, error.code.to_owned(), error.message.clone());
        failed.path = self.queued.workspace_path.clone();
        failed.source = self.config.workspace_source.clone();
        drafts.push(Payload::WorkspaceFailed(Box::new(failed)).into());
        // Waiting calls can no longer be executed.
        let hooked = self.hooks_after_all();
        drafts.extend(self.refuse_all(error.code, &error.message));
        drafts.push(self.failed(error.code, error.message, false));
        let events = self.worker_session.report(drafts).await?;
        self.apply_events(&events);
        for hooked in hooked {
            // The run has ended, so failed hooks are no longer recorded.
            self.with_end(hooked, &events).await.report_end().await;
        }
        Ok(false)
    }

    /// The facts that the policy considers besides the call.
    pub(crate) fn setting(&self) -> Setting {
        let in_place = self.queued.workspace_mode.as_deref() == Some(IN_PLACE);
        Setting {
            workspace_mode: if in_place { WorkspaceMode::InPlace } else { WorkspaceMode::Clone },
            root: self.terms.as_ref().map(|terms| terms.root.clone()).unwrap_or_default(),
            sandboxed: self.agent.settings.sandboxed,
            network: self.config.network,
        }
    }
}

/// The run continues without the snapshot; starting another run from it is refused.
fn report_unrecorded(root: &Path, recorded: io::Result<()>) {
    if let Err(error) = recorded {
        tracing::warn!(path = %root.display(), %error, "the files of a copy could not be recorded");
    }
}
