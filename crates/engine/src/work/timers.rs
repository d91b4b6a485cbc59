//! Service that wakes a run's writer at its next deadline. Writers maintain the deadlines, [`Deadlines`].

use std::sync::Arc;

use recount_event::RunId;
use recount_world::{Kind, World};
use tokio::time::Instant;

use crate::write::deadlines::{Deadlines, FirstDeadline, millis};
use crate::write::request::Tick;
use crate::write::writers::Writers;
use crate::{Error, WriteHandle, limits};

/// Starts the service.
pub(crate) fn start(write: &WriteHandle) {
    let (timers, writers) = (write.context.timers.clone(), write.writers.clone());
    let clock = write.ground().world.clone();
    let tasks = &write.ground().world.tasks;
    tasks.spawn_until_shutdown(Kind::Service, async move { serve(&timers, &clock, &writers).await });
}

async fn serve(timers: &Deadlines, world: &World, writers: &Arc<Writers>) {
    loop {
        let Some(FirstDeadline { by_clock: (clock_ms, by_clock), by_moment }) = timers.next() else {
            timers.changed().await;
            continue;
        };
        // A fixed order, so that a simulation with one seed is repeatable.
        let run = tokio::select! {
            biased;
            () = world.sleep_until_ms(clock_ms) => by_clock,
            run = passed(by_moment) => run,
            () = timers.changed() => continue,
        };
        let Some(at_ms) = timers.at_ms(run) else { continue };
        let settled = writers.ask(run, Tick { at_ms }).await;
        match settled {
            // The writer has set the next deadline.
            Ok(()) => {}
            Err(Error::Rejected(rejection)) => {
                tracing::debug!(%run, %rejection, "a run with an expired deadline is missing");
                timers.set(run, None, world);
            }
            // A damaged run accepts no events, so a retry is useless.
            Err(error) if error.is_damage() => {
                tracing::error!(
                    %run,
                    %error,
                    "a run with an expired deadline is damaged; its deadlines are no longer checked"
                );
                timers.set(run, None, world);
            }
            Err(Error::Failed(failure)) => {
                tracing::warn!(%run, %failure, "cannot check the deadlines of a run; retrying");
                let is_internal = failure.code == recount_event::Code::Internal;
                let wait = if is_internal { limits::TIMER_RETRY_BROKEN } else { limits::TIMER_RETRY };
                timers.set(run, Some(world.clock.now_ms().saturating_add(millis(wait))), world);
            }
        }
    }
}

/// Waits for the first deadline measured by elapsed time, and returns its run.
async fn passed(first: Option<(Instant, RunId)>) -> RunId {
    match first {
        Some((moment, run)) => {
            tokio::time::sleep_until(moment).await;
            run
        }
        None => std::future::pending().await,
    }
}
