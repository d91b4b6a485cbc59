//! Takes copies away that were not used for long, and says so in the run that used them last.

use std::time::Duration;

use recount_engine::{Engine, Error};
use recount_event::family::gap::WorkspaceRemoved;
use recount_event::{Payload, time};
use recount_run::Command;
use recount_world::Kind;

use crate::agent::Agent;
use crate::workspace::Unused;

/// Why a copy was taken away.
const UNUSED: &str = "retention";

impl Agent {
    /// Takes away what no run has used for so long and none is using. Answers how many went.
    pub async fn sweep(&self, engine: &Engine, age: Duration) -> Result<usize, Error> {
        let workspaces = self.workspaces().clone();
        let found = engine.world().tasks.block(Kind::Effect, move || workspaces.unused(age)).await;
        let found = match found {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the workspaces cannot be looked through");
                return Ok(0);
            }
            Err(_) => return Ok(0),
        };
        let mut gone = 0;
        for unused in found {
            match self.is_in_use(engine, &unused).await {
                Ok(false) => {}
                Ok(true) => continue,
                // Of a damaged run it is not known, and the others go.
                Err(error) if error.is_damage() => continue,
                Err(error) => return Err(error),
            }
            let (workspaces, whose) = (self.workspaces().clone(), unused.whose.clone());
            let removed =
                engine.world().tasks.block(Kind::Effect, move || workspaces.remove_unused(&whose, age)).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(whose = unused.whose, %error, "a workspace could not be taken away");
                continue;
            }
            gone += 1;
            self.tell_gone(engine, &unused).await;
        }
        Ok(gone)
    }

    /// Whether a run works in it, or may again: of its task or session, or the run itself.
    async fn is_in_use(&self, engine: &Engine, unused: &Unused) -> Result<bool, Error> {
        if let Ok(task) = unused.whose.parse::<recount_event::TaskId>()
            && engine.catalogue().active_run(task).await?.is_some()
        {
            return Ok(true);
        }
        let Some(run) = unused.run else { return Ok(false) };
        Ok(engine.catalogue().run(run).await?.is_some_and(|row| !row.has_ended()))
    }

    async fn tell_gone(&self, engine: &Engine, unused: &Unused) {
        let Some(run) = unused.run else { return };
        let path = self.workspaces().tree(&unused.whose).display().to_string();
        let removed_at = time::format_ms(engine.world().clock.now_ms());
        let removed = WorkspaceRemoved::new(path, UNUSED.to_owned(), removed_at);
        let told = Payload::GapWorkspaceRemoved(Box::new(removed)).into();
        if let Err(error) = engine.write().submit(run, Command::Progress { drafts: vec![told] }).await {
            // It may have been erased, and its workspace with it.
            tracing::debug!(%run, %error, "nobody could be told that a workspace went");
        }
    }
}
