//! Reads from the store where a run belongs: its trace, and the span above it. See [`Lineage`].

use recount_engine::{Engine, Error, RunConfig};
use recount_event::{ForeignId, RunId};

use crate::ids::{Ancestry, Origin};
use crate::limits;

/// The trace of the request for a run, and the run and call that started it.
type QueuedOrigin = (Option<String>, Option<(RunId, ForeignId)>);

pub(crate) struct Lineage<'e>(pub(crate) &'e Engine);

impl Lineage<'_> {
    /// The trace of a run and the span above it.
    pub(crate) async fn origin(&self, run: RunId) -> Result<Origin, Error> {
        let Some(queued) = self.queued(run).await? else { return Ok(Origin::of(run, None, None)) };
        let (traceparent, above) = queued;
        let Some((parent_run, call)) = above else {
            return Ok(Origin::of(run, traceparent.as_deref(), None));
        };
        let mut first_run = parent_run;
        // With a trace of its own the family needs no first run.
        if traceparent.is_none() {
            for _ in 0..limits::ANCESTORS_MAX {
                let Some((_, Some((next, _)))) = self.queued(first_run).await? else { break };
                first_run = next;
            }
        }
        let ancestry = Ancestry { first_run, parent_run, call };
        Ok(Origin::of(run, traceparent.as_deref(), Some(&ancestry)))
    }

    /// `None` if the beginning of the run is missing.
    async fn queued(&self, run: RunId) -> Result<Option<QueuedOrigin>, Error> {
        let queued = match self.0.read().queued(run).await {
            Ok(queued) => queued,
            // The pages of the run name the damage.
            Err(error) if error.is_damage() => None,
            Err(error) => return Err(error),
        };
        Ok(queued.map(|queued| {
            let config = RunConfig::from_json(queued.config.as_ref()).ok();
            let above = config.and_then(|config| config.spawned_by);
            (queued.traceparent, above.map(|above| (above.run_id, above.tool_call_id)))
        }))
    }
}

/// Whether reading a run again may succeed.
pub(crate) fn is_temporary(error: &Error) -> bool {
    matches!(error, Error::Failed(failure) if failure.retry_after.is_some())
}
