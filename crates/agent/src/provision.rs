//! The workspace of a run: makes it ready before the first call, and says on which terms calls work in it.
//!
//! Look at [`Worker::provision`]. `workspace` makes a copy.

use std::path::PathBuf;
use std::time::Duration;

use recount_engine::Left;
use recount_event::family::run::RunKind;
use recount_event::family::workspace::{Failed, Provisioned};
use recount_event::{Draft, Payload};
use recount_world::Kind;

use crate::limits;
use crate::policy::{Setting, Verdict, WorkspaceMode};
use crate::tool::{HostJudge, HostVerdict, Terms};
use crate::worker::{Done, Worker};
use crate::workspace::claims::Sort;
use crate::workspace::{CLONE, IN_PLACE, NoWorkspace};

impl Worker {
    /// Makes the run's workspace ready, unless it is. `false`: it could not be, and the run has failed for it.
    pub(crate) async fn provision(&mut self, opening: &mut Vec<Draft>) -> Done<bool> {
        if self.terms.is_some() {
            return Ok(true);
        }
        let mode = self.queued.workspace_mode.clone().unwrap_or_else(|| CLONE.to_owned());
        let Some(path) = self.queued.workspace_path.clone() else {
            let none = NoWorkspace::new("workspace_failed", "the run names no workspace");
            return self.no_workspace(opening, mode, none).await;
        };
        let began = recount_world::moment();
        let workspaces = self.agent.settings.workspaces.clone();
        let source = self.order.workspace_source.clone().map(PathBuf::from);
        let root = PathBuf::from(&path);
        let (mode_of, root_of, run) = (mode.clone(), root.clone(), self.desk.run());
        let ignored_too = self.order.copy_ignored;
        // Nothing is applied to a folder while it is copied, and no run begins in one that something is applied to.
        let folders = [Some(root.clone()), source.clone()].into_iter().flatten().collect();
        let Ok(claim) = self.agent.claims.claim(folders, Sort::Shared).await else {
            let why = format!(
                "changes are applied to {path} or what it is made of, and that goes on; try again later"
            );
            return self.no_workspace(opening, mode, NoWorkspace::new("workspace_failed", why)).await;
        };
        let ready = self
            .desk
            .world()
            .tasks
            .block(Kind::Effect, move || {
                let _claim = claim;
                workspaces.ready(&mode_of, &root_of, source.as_deref(), ignored_too, run)
            })
            .await
            .unwrap_or_else(|_| Err(NoWorkspace::new("workspace_failed", "making it ready broke off")));
        let made = match ready {
            Ok(ready) => ready.made,
            Err(none) => return self.no_workspace(opening, mode, none).await,
        };
        if made.is_some() || !self.provisioned {
            let made = made.unwrap_or_default();
            let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let mut provisioned = Provisioned::new(mode, path, made.files, made.bytes, took);
            provisioned.source = self.order.workspace_source.clone();
            opening.push(Payload::WorkspaceProvisioned(Box::new(provisioned)).into());
        }
        self.terms = Some(self.terms_in(root));
        Ok(true)
    }

    /// What holds for calls that work in a folder.
    fn terms_in(&self, root: PathBuf) -> Terms {
        let timeout = self.order.timeout_seconds.map_or(limits::COMMAND_TIMEOUT_DEFAULT, Duration::from_secs);
        let output = self.order.output_bytes_max.unwrap_or(limits::COMMAND_OUTPUT_DEFAULT);
        Terms {
            root,
            network: self.order.network,
            command_timeout: timeout.min(limits::COMMAND_TIMEOUT_MAX),
            output_bytes_max: output.min(limits::COMMAND_OUTPUT_MAX),
            hosts: self.host_judge(),
        }
    }

    /// What the policy says of hosts that calls come to.
    fn host_judge(&self) -> HostJudge {
        let (agent, setting) = (self.agent.clone(), self.setting());
        let ask_first = self.order.ask_first.clone();
        HostJudge::new(move |tool, assessment| {
            let mut verdict = agent.policy().judge(tool, assessment, &setting, None);
            if ask_first.iter().any(|name| name == tool) {
                verdict = verdict.only_with_leave(assessment);
            }
            match verdict {
                Verdict::Allow => HostVerdict::Allowed,
                Verdict::Ask { policy_reason, .. } => HostVerdict::Asks(policy_reason),
                Verdict::Block { reason, .. } => HostVerdict::Blocked(reason),
            }
        })
    }

    /// What holds for calls: nothing while a workspace is needed and not there. Tools that need none are given no folder.
    pub(crate) fn terms(&self) -> Option<Terms> {
        if self.needs_workspace() { self.terms.clone() } else { Some(self.terms_in(PathBuf::new())) }
    }

    /// Whether there has to be a workspace and is none yet.
    pub(crate) fn lacks_workspace(&self) -> bool {
        self.terms.is_none() && self.needs_workspace()
    }

    pub(crate) fn needs_workspace(&self) -> bool {
        self.desk.state().kind() != RunKind::AgentLoop || self.agent.needs_workspace(&self.order)
    }

    async fn no_workspace(
        &mut self,
        opening: &mut Vec<Draft>,
        mode: String,
        none: NoWorkspace,
    ) -> Result<bool, Left> {
        let mut drafts = std::mem::take(opening);
        let mut failed = Failed::new(mode, none.code.to_owned(), none.message.clone());
        failed.path = self.queued.workspace_path.clone();
        failed.source = self.order.workspace_source.clone();
        drafts.push(Payload::WorkspaceFailed(Box::new(failed)).into());
        // Calls that wait to be carried out cannot be any more.
        let hooked = self.hooks_after_all();
        drafts.extend(self.refuse_all(none.code, &none.message));
        drafts.push(self.failed(none.code, none.message, false));
        let events = self.desk.report(drafts).await?;
        self.see(&events);
        for hooked in hooked {
            // The run has ended, so the log says no more of a hook that failed.
            self.with_end(hooked, &events).await.report_end().await;
        }
        Ok(false)
    }

    /// What policy looks at beside the call.
    pub(crate) fn setting(&self) -> Setting {
        let in_place = self.queued.workspace_mode.as_deref() == Some(IN_PLACE);
        Setting {
            workspace_mode: if in_place { WorkspaceMode::InPlace } else { WorkspaceMode::Clone },
            root: self.terms.as_ref().map(|terms| terms.root.clone()).unwrap_or_default(),
            sandboxed: self.agent.settings.sandboxed,
            network: self.order.network,
        }
    }
}
