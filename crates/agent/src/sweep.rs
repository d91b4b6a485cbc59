//! Deletes workspace copies that were unused for long, and records it in the run that used them last.
//!
//! Start at [`Agent::sweep`].

use std::time::Duration;

use recount_engine::{Engine, Error, ReadResult as _};
use recount_event::family::gap::WorkspaceRemoved;
use recount_event::{Payload, time};
use recount_run::Command;
use recount_world::Kind;

use crate::agent::Agent;
use crate::workspace::{Unused, shared_by};

/// The reason for the deletion.
const UNUSED: &str = "retention";

impl Agent {
    /// Deletes copies that were unused for at least `age` and are not in use. Returns how many were deleted.
    pub async fn sweep(&self, engine: &Engine, age: Duration) -> Result<usize, Error> {
        let workspaces = self.workspaces().clone();
        let found = engine.world().tasks.block(Kind::Effect, move || workspaces.unused(age)).await;
        let found = match found {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the workspaces cannot be listed");
                return Ok(0);
            }
            Err(_) => return Ok(0),
        };
        let mut removed_count = 0;
        for unused in found {
            // The state of an unreadable run is unknown, so its copy stays. Others are still deleted.
            if self.is_in_use(engine, &unused).await.readable()?.whole().unwrap_or(true) {
                continue;
            }
            let (workspaces, owner) = (self.workspaces().clone(), unused.owner.clone());
            let removed =
                engine.world().tasks.block(Kind::Effect, move || workspaces.remove_unused(&owner, age)).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(whose = unused.owner, %error, "a workspace could not be deleted");
                continue;
            }
            removed_count += 1;
            self.record_removal(engine, &unused).await;
        }
        Ok(removed_count)
    }

    /// Whether a run works in it, or may work in it again: a run of its task or session, or its last run.
    async fn is_in_use(&self, engine: &Engine, unused: &Unused) -> Result<bool, Error> {
        if let Ok(task) = shared_by(&unused.owner).parse::<recount_event::TaskId>()
            && engine.catalogue().active_run(task).await?.is_some()
        {
            return Ok(true);
        }
        let Some(run) = unused.run else { return Ok(false) };
        Ok(engine.catalogue().run(run).await?.is_some_and(|row| !row.has_ended()))
    }

    async fn record_removal(&self, engine: &Engine, unused: &Unused) {
        let Some(run) = unused.run else { return };
        let path = self.workspaces().tree(&unused.owner).display().to_string();
        let removed_at = time::format_ms(engine.world().clock.now_ms());
        let removed = WorkspaceRemoved::new(path, UNUSED.to_owned(), removed_at);
        let draft = Payload::GapWorkspaceRemoved(Box::new(removed)).into();
        if let Err(error) = engine.write().submit(run, Command::Progress { drafts: vec![draft] }).await {
            // The run may have been erased together with its workspace.
            tracing::debug!(%run, %error, "the deletion of a workspace could not be recorded");
        }
    }
}
