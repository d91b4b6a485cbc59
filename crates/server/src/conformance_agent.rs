//! A deterministic agent for conformance suites (`serve --conformance-agent`): it has a room of the legacy surface, and
//! plays one of a few scripts for each input. Its runs are external runs like those of any program, so a suite tests
//! the server's own projection, shaping and replies.
//!
//! [`ConformanceAgent`] is the entry point, `play` reports the events of a script. It must not know AAEP's events.

mod play;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use recount_aaep_scenarios::{Scenario, scripts};
use recount_engine::{Engine, Error, NewRun};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{RunId, SessionId};
use recount_face_aaep::RoomAgent;
use recount_run::{CancelledBy, Command};
use recount_world::Kind;

use self::play::ScriptPlayer;
use crate::{StartError, limits};

/// The room that the agent has.
const ROOM: &str = "conformance";

/// See the head of this file.
pub(crate) struct ConformanceAgent {
    engine: Engine,
    session: SessionId,
}

impl ConformanceAgent {
    /// Creates an agent with a session of its own for its runs; several may be active.
    pub(crate) async fn new(engine: &Engine) -> Result<ConformanceAgent, StartError> {
        let row = engine.write().create_session(Some("Conformance".to_owned())).await;
        let row =
            row.map_err(|why| StartError::failed(format!("cannot start the conformance agent: {why}")))?;
        Ok(ConformanceAgent { engine: engine.clone(), session: row.id })
    }
}

impl RoomAgent for ConformanceAgent {
    fn room(&self) -> &str {
        ROOM
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn session(&self) -> SessionId {
        self.session
    }

    fn begin(&self, input: &str) -> Pin<Box<dyn Future<Output = Result<RunId, Error>> + Send + '_>> {
        let script = scripts::script(scripts::scenario(input, true));
        let prompt_wait = prompt_wait(input);
        Box::pin(async move {
            // The input is not recorded in the run: suites put secrets into it.
            let queued = Queued { title: Some(script.begins.to_owned()), ..Queued::new(RunKind::External) };
            let new = NewRun { queued, task: None, session: Some(self.session), resumed_from: None };
            let (run, _) = self.engine.write().create_run(new).await?;
            let player = ScriptPlayer::new(&self.engine, run, prompt_wait).await?;
            let engine = self.engine.clone();
            self.engine.world().tasks.spawn(Kind::Effect, |mut shutdown| async move {
                tokio::select! {
                    () = shutdown.requested() => {}
                    played = player.play(&script) => if let Err(error) = played {
                        tracing::warn!(%error, %run, "a script stopped before its end");
                        cancel(&engine, run).await;
                    }
                }
            });
            Ok(run)
        })
    }
}

/// Cancels a run whose script was interrupted; nothing else ends it.
async fn cancel(engine: &Engine, run: RunId) {
    let reason = "the script of the run stopped before its end".to_owned();
    let command = Command::Cancel { by: CancelledBy::System, reason };
    if let Err(error) = engine.write().submit(run, command).await {
        tracing::debug!(%error, %run, "the run has already ended");
    }
}

/// How long a prompt waits. The public suite ends a session after two seconds of silence, so its prompts wait for less;
/// `aaep conformance` replies wrongly first, and takes longer.
fn prompt_wait(input: &str) -> Duration {
    match Scenario::of(input) {
        Some(_) => limits::CONFORMANCE_PROMPT_WAIT,
        None => limits::CONFORMANCE_PROMPT_WAIT_SHORT,
    }
}
