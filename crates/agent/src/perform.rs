//! Implements the engine's `Performer`: accepts runs, starts workers, and compares and applies workspaces for clients.
//!
//! Start at `impl Performer`. `worker` executes a run.

use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use recount_engine::{
    ApplyTo, FilesCheck, FilesFrom, ForeignMcpCall, ForeignVerdict, HeldFolders, NewRun, PatchSet, Performer,
    RunConfig, RunOwner, Unacceptable, WorkerSession, WorkspaceChanges, WorkspaceOf,
};
use recount_event::Code;
use recount_event::family::run::{Queued, RunKind};
use recount_world::Kind;

use crate::agent::Agent;
use crate::budget::Budget;
use crate::client;
use crate::mcp;
use crate::worker::Worker;
use crate::workspace::claims::{ClaimMode, StillClaimed};

fn interrupted() -> Unacceptable {
    Unacceptable { code: Code::Internal, message: "comparing the folders was interrupted".to_owned() }
}

impl Agent {
    fn assign_workspace(&self, new: &mut NewRun, config: &mut RunConfig) -> Result<(), Unacceptable> {
        let name = || format!("{:032x}", self.world.entropy.draw());
        let restores = config.files_from.is_some();
        self.settings.workspaces.assign_folder(new, config.workspace_source.as_mut(), restores, name)
    }
}

fn read_order(new: &NewRun) -> Result<RunConfig, Unacceptable> {
    RunConfig::from_json(new.queued.config.as_ref()).map_err(|why| Unacceptable {
        code: Code::OrderRefused,
        message: format!("the run's request cannot be read: {why}"),
    })
}

impl Performer for Agent {
    fn judge_mcp_call(&self, call: &ForeignMcpCall) -> Option<ForeignVerdict> {
        Some(self.judge_foreign_call(call))
    }

    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable> {
        let refused = |message: String| Unacceptable { code: Code::OrderRefused, message };
        let mut config = read_order(new)?;
        if new.queued.kind == RunKind::AgentLoop {
            let chosen = self
                .choose_model(&new.queued)
                .map_err(|message| Unacceptable { code: Code::ModelUnknown, message })?;
            let requested = chosen.rewrote.map_or(chosen.model, |(from, _)| from);
            (new.queued.provider, new.queued.model) = (Some(chosen.provider), Some(requested));
        }
        let command = match new.queued.kind {
            RunKind::Shell => Some("shell_exec"),
            RunKind::Git => Some("git_exec"),
            RunKind::AgentLoop | RunKind::File | RunKind::External => None,
        };
        if command.is_some_and(|name| self.settings.tools.get(name).is_err()) {
            let kind = new.queued.kind.as_str();
            let why = "no sandbox works on this machine, so commands cannot run; `recount doctor` shows the \
                       reason";
            return Err(refused(format!("a run of kind {kind} is not possible: {why}")));
        }
        if let Some(why) = self.settings.no_network.as_ref().filter(|_| config.network) {
            return Err(refused(format!("network access cannot be granted: {why}")));
        }
        for tool in config.tools.iter().flatten() {
            if tool.starts_with(mcp::PREFIX) {
                self.settings.mcp.check(tool).map_err(&refused)?;
            } else {
                self.settings.tools.get(tool).map_err(|unknown| refused(unknown.to_string()))?;
            }
        }
        let offered: Vec<&str> =
            self.settings.tools.names().filter(|name| self.offers(&config, name)).collect();
        client::check(&config, &offered).map_err(&refused)?;
        if let Some(file) = &config.file {
            let tool = self.settings.tools.get(&file.tool).map_err(|unknown| refused(unknown.to_string()))?;
            if !matches!(tool.kind(), "file" | "search") {
                return Err(refused(format!("{} is not a file tool; name a file tool", file.tool)));
            }
            let input = serde_json::from_str(file.input.text())
                .map_err(|why| refused(format!("file.input cannot be read: {why}")))?;
            crate::schema::check(&tool.schema(), &input)
                .map_err(|why| refused(format!("file.input is not valid for {}: {why}", file.tool)))?;
        }
        self.assign_workspace(new, &mut config)?;
        config.sandbox = Some(self.settings.sandbox_layer.clone());
        config.policy = self.settings.policy.digest().map(str::to_owned);
        new.queued.config = Some(config.written());
        Ok(())
    }

    fn accept_workspace(&self, new: &mut NewRun) -> Result<(), Unacceptable> {
        let mut config = read_order(new)?;
        self.assign_workspace(new, &mut config)?;
        new.queued.config = Some(config.written());
        Ok(())
    }

    fn afford(&self, queued: &Queued) -> Result<(), Unacceptable> {
        if queued.kind != RunKind::AgentLoop {
            return Ok(());
        }
        let refused = |code| move |message: String| Unacceptable { code, message };
        let chosen = self.choose_model(queued).map_err(refused(Code::ModelUnknown))?;
        let config = RunConfig::from_json(queued.config.as_ref()).map_err(|why| {
            refused(Code::OrderRefused)(format!("the configuration of the run cannot be read: {why}"))
        })?;
        let budget = Budget {
            micros_usd: queued.task_budget_micros_usd,
            tokens: queued.task_budget_tokens,
            turns: config.budget_turns,
        };
        self.check_budget(&chosen, budget).map_err(refused(Code::BudgetUnpriced))
    }

    fn perform(&self, worker_session: WorkerSession) -> BoxFuture<'static, Option<WorkerSession>> {
        Box::pin(Worker::work(self.clone(), worker_session))
    }

    fn changes(&self, copy: WorkspaceOf) -> BoxFuture<'static, Result<WorkspaceChanges, Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        Box::pin(async move {
            let work = move || workspaces.changes(copy.mode.as_deref(), &copy.path);
            world.tasks.block(Kind::Effect, work).await.unwrap_or_else(|_| Err(interrupted()))
        })
    }

    fn folders(&self, copy: WorkspaceOf) -> BoxFuture<'static, Result<Vec<PathBuf>, Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        Box::pin(async move {
            let find = move || workspaces.both_folders(copy.mode.as_deref(), &copy.path);
            let found = world.tasks.block(Kind::Effect, find).await.unwrap_or_else(|_| Err(interrupted()))?;
            Ok(found.to_vec())
        })
    }

    fn hold(&self, copy: WorkspaceOf) -> BoxFuture<'static, Result<HeldFolders, Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        let claims = self.claims.clone();
        Box::pin(async move {
            let find = move || workspaces.both_folders(copy.mode.as_deref(), &copy.path);
            let found = world.tasks.block(Kind::Effect, find).await.unwrap_or_else(|_| Err(interrupted()))?;
            let claim = claims.claim(found.to_vec(), ClaimMode::Exclusive).await.map_err(|StillClaimed| {
                let [copy, source] = found.each_ref().map(|folder| folder.display());
                let message = format!(
                    "a tool is still running in {copy}, in {source}, or in a parent or subfolder of it; try \
                     again when it has ended"
                );
                Unacceptable { code: Code::RunActive, message }
            })?;
            Ok(HeldFolders::new(found.to_vec(), claim))
        })
    }

    fn apply(
        &self,
        copy: WorkspaceOf,
        to: ApplyTo,
        held: HeldFolders,
    ) -> BoxFuture<'static, Result<WorkspaceChanges, Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        let id = world.entropy.draw();
        Box::pin(async move {
            // Held until the work is done, even if the caller no longer waits.
            let work = move || {
                let _held = held;
                workspaces.apply_changes(copy.mode.as_deref(), &copy.path, &to, id)
            };
            world.tasks.block(Kind::Effect, work).await.unwrap_or_else(|_| Err(interrupted()))
        })
    }

    fn check_patches(
        &self,
        workspace: WorkspaceOf,
        config: PatchSet,
    ) -> BoxFuture<'static, Result<(), Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        Box::pin(async move {
            let work = move || workspaces.check_patches(workspace.mode.as_deref(), &workspace.path, &config);
            world.tasks.block(Kind::Effect, work).await.unwrap_or_else(|_| Err(interrupted()))
        })
    }

    fn check_files(
        &self,
        mode: Option<String>,
        from: FilesFrom,
    ) -> BoxFuture<'static, Result<FilesCheck, Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        Box::pin(async move {
            let work = move || workspaces.check_files(mode.as_deref(), &from);
            world.tasks.block(Kind::Effect, work).await.unwrap_or_else(|_| Err(interrupted()))
        })
    }

    fn forget_copy(&self, path: String) -> BoxFuture<'static, ()> {
        let agent = self.clone();
        agent.conversation_cache.forget_all();
        Box::pin(async move {
            let workspaces = agent.settings.workspaces.clone();
            let copy = path.clone();
            let removed =
                agent.world.tasks.block(Kind::Effect, move || workspaces.remove_copy(Path::new(&copy)));
            if let Ok(Err(error)) = removed.await {
                tracing::warn!(%path, %error, "a workspace could not be deleted");
            }
        })
    }

    fn forget(&self, whose: RunOwner) -> BoxFuture<'static, ()> {
        let agent = self.clone();
        match whose {
            // Its runs may be part of any session.
            RunOwner::Task(_) => self.conversation_cache.forget_all(),
            RunOwner::Session(session) => self.conversation_cache.forget(session),
        }
        Box::pin(async move {
            let name = match whose {
                RunOwner::Task(task) => task.to_string(),
                RunOwner::Session(session) => session.to_string(),
            };
            let workspaces = agent.settings.workspaces.clone();
            let removed =
                agent.world.tasks.block(Kind::Effect, move || workspaces.remove_all_of(&name)).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(?whose, %error, "a workspace could not be deleted");
            }
        })
    }
}
