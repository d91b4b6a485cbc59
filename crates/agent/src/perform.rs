//! What the agent promises the engine: which runs it accepts, how it begins to work at one, and what it does to
//! workspaces on behalf of others.
//!
//! Look at `impl Performer`. What is done for a run is in `worker`.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use recount_engine::{
    ApplyTo, Desk, ForeignMcpCall, ForeignVerdict, HeldFolders, NewRun, Order, PatchOrder, Performer,
    Unacceptable, Whose, WorkspaceChanges, WorkspaceOf,
};
use recount_event::Code;
use recount_event::family::run::{Queued, RunKind};
use recount_world::Kind;

use crate::agent::Agent;
use crate::budget::Budget;
use crate::client;
use crate::mcp;
use crate::worker::Worker;
use crate::workspace::claims::{Sort, StillHeld};

fn broke_off() -> Unacceptable {
    Unacceptable { code: Code::Internal, message: "comparing the folders broke off".to_owned() }
}

impl Agent {
    fn settle_workspace(&self, new: &mut NewRun, order: &mut Order) -> Result<(), Unacceptable> {
        let lone = || format!("lone_{:032x}", self.world.entropy.draw());
        self.settings.workspaces.settle(new, order.workspace_source.as_mut(), lone)
    }
}

fn read_order(new: &NewRun) -> Result<Order, Unacceptable> {
    Order::read(new.queued.config.as_ref()).map_err(|why| Unacceptable {
        code: Code::OrderRefused,
        message: format!("what is asked of the run cannot be read: {why}"),
    })
}

impl Performer for Agent {
    fn judge_mcp_call(&self, call: &ForeignMcpCall) -> Option<ForeignVerdict> {
        Some(self.judged(call))
    }

    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable> {
        let refused = |message: String| Unacceptable { code: Code::OrderRefused, message };
        let mut order = read_order(new)?;
        if new.queued.kind == RunKind::AgentLoop {
            let chosen = self
                .choose(&new.queued)
                .map_err(|message| Unacceptable { code: Code::ModelUnknown, message })?;
            let asked = chosen.rewrote.map_or(chosen.model, |(from, _)| from);
            (new.queued.provider, new.queued.model) = (Some(chosen.provider), Some(asked));
        }
        let command = match new.queued.kind {
            RunKind::Shell => Some("shell_exec"),
            RunKind::Git => Some("git_exec"),
            RunKind::AgentLoop | RunKind::File | RunKind::External => None,
        };
        if command.is_some_and(|name| self.settings.tools.get(name).is_err()) {
            let kind = new.queued.kind.as_str();
            let why = "no sandbox works here, so no command can run; recount doctor says why";
            return Err(refused(format!("a run of kind {kind} cannot be: {why}")));
        }
        if let Some(why) = self.settings.no_network.as_ref().filter(|_| order.network) {
            return Err(refused(format!("network cannot be granted: {why}")));
        }
        for tool in order.tools.iter().flatten() {
            if tool.starts_with(mcp::PREFIX) {
                self.settings.mcp.check(tool).map_err(&refused)?;
            } else {
                self.settings.tools.get(tool).map_err(|unknown| refused(unknown.to_string()))?;
            }
        }
        let offered: Vec<&str> =
            self.settings.tools.names().filter(|name| self.offers(&order, name)).collect();
        client::check(&order, &offered).map_err(&refused)?;
        if let Some(file) = &order.file {
            let tool = self.settings.tools.get(&file.tool).map_err(|unknown| refused(unknown.to_string()))?;
            if !matches!(tool.kind(), "file" | "search") {
                return Err(refused(format!("{} is not a tool for files; send a file tool", file.tool)));
            }
            let input = serde_json::from_str(file.input.text())
                .map_err(|why| refused(format!("file.input cannot be read: {why}")))?;
            crate::schema::check(&tool.schema(), &input)
                .map_err(|why| refused(format!("file.input does not fit {}: {why}", file.tool)))?;
        }
        self.settle_workspace(new, &mut order)?;
        order.sandbox = Some(self.settings.sandbox_layer.clone());
        order.policy = self.settings.policy.digest().map(str::to_owned);
        new.queued.config = Some(order.written());
        Ok(())
    }

    fn accept_workspace(&self, new: &mut NewRun) -> Result<(), Unacceptable> {
        let mut order = read_order(new)?;
        self.settle_workspace(new, &mut order)?;
        new.queued.config = Some(order.written());
        Ok(())
    }

    fn afford(&self, queued: &Queued) -> Result<(), Unacceptable> {
        if queued.kind != RunKind::AgentLoop {
            return Ok(());
        }
        let refused = |code| move |message: String| Unacceptable { code, message };
        let chosen = self.choose(queued).map_err(refused(Code::ModelUnknown))?;
        let order = Order::read(queued.config.as_ref()).map_err(|why| {
            refused(Code::OrderRefused)(format!("the order of the run cannot be read: {why}"))
        })?;
        let budget = Budget {
            micros_usd: queued.task_budget_micros_usd,
            tokens: queued.task_budget_tokens,
            turns: order.budget_turns,
        };
        self.affords(&chosen, budget).map_err(refused(Code::BudgetUnpriced))
    }

    fn perform(&self, desk: Desk) -> BoxFuture<'static, Option<Desk>> {
        Box::pin(Worker::work(self.clone(), desk))
    }

    fn changes(&self, copy: WorkspaceOf) -> BoxFuture<'static, Result<WorkspaceChanges, Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        Box::pin(async move {
            let work = move || workspaces.changes(copy.mode.as_deref(), &copy.path);
            world.tasks.block(Kind::Effect, work).await.unwrap_or_else(|_| Err(broke_off()))
        })
    }

    fn folders(&self, copy: WorkspaceOf) -> BoxFuture<'static, Result<Vec<PathBuf>, Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        Box::pin(async move {
            let find = move || workspaces.both_folders(copy.mode.as_deref(), &copy.path);
            let found = world.tasks.block(Kind::Effect, find).await.unwrap_or_else(|_| Err(broke_off()))?;
            Ok(found.to_vec())
        })
    }

    fn hold(&self, copy: WorkspaceOf) -> BoxFuture<'static, Result<HeldFolders, Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        let claims = self.claims.clone();
        Box::pin(async move {
            let find = move || workspaces.both_folders(copy.mode.as_deref(), &copy.path);
            let found = world.tasks.block(Kind::Effect, find).await.unwrap_or_else(|_| Err(broke_off()))?;
            let claim = claims.claim(found.to_vec(), Sort::Sole).await.map_err(|StillHeld| {
                let [copy, source] = found.each_ref().map(|folder| folder.display());
                let message = format!(
                    "a tool of a run still works in {copy}, or in {source} or in a folder above or below it; try again when \
                     it has ended"
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
            // Held until the work is done, also when nobody waits for it any more.
            let work = move || {
                let _held = held;
                workspaces.bring_back(copy.mode.as_deref(), &copy.path, &to, id)
            };
            world.tasks.block(Kind::Effect, work).await.unwrap_or_else(|_| Err(broke_off()))
        })
    }

    fn check_patches(
        &self,
        workspace: WorkspaceOf,
        order: PatchOrder,
    ) -> BoxFuture<'static, Result<(), Unacceptable>> {
        let (workspaces, world) = (self.settings.workspaces.clone(), self.world.clone());
        Box::pin(async move {
            let work = move || workspaces.check_patches(workspace.mode.as_deref(), &workspace.path, &order);
            world.tasks.block(Kind::Effect, work).await.unwrap_or_else(|_| Err(broke_off()))
        })
    }

    fn forget(&self, whose: Whose) -> BoxFuture<'static, ()> {
        let agent = self.clone();
        match whose {
            // Its runs may be part of any session.
            Whose::Task(_) => self.recall.forget_all(),
            Whose::Session(session) => self.recall.forget(session),
        }
        Box::pin(async move {
            let name = match whose {
                Whose::Task(task) => task.to_string(),
                Whose::Session(session) => session.to_string(),
            };
            let workspaces = agent.settings.workspaces.clone();
            let removed = agent.world.tasks.block(Kind::Effect, move || workspaces.remove(&name)).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(?whose, %error, "a workspace could not be taken away");
            }
        })
    }
}
