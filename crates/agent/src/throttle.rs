//! Throttles runs: waits for a free slot to run a tool or MCP servers, and logs the wait as `run.throttled`.
//!
//! It must not know what runs in a slot. Start with [`Worker::tool_place`] and [`Worker::server_place`].

use recount_engine::WorkerExit;
use recount_event::family::run::Throttled;
use recount_event::{Draft, Payload};
use tokio::sync::OwnedSemaphorePermit;

use crate::limits;
use crate::work_places::{Waiting, WorkPlaces};
use crate::worker::{WorkResult, Worker};

/// The reason in `run.throttled` for a wait for a tool slot.
const TOOLS: &str = "tools_at_once";
/// The reason in `run.throttled` for a wait to start MCP servers that are commands.
const SERVERS: &str = "mcp_at_once";

impl Worker {
    /// Waits until a tool may run.
    pub(crate) async fn tool_place(&mut self) -> WorkResult<OwnedSemaphorePermit> {
        let places = self.agent.tool_places().clone();
        if let Some(place) = places.try_take() {
            return Ok(place);
        }
        let waiting = self.join_queue(&places, TOOLS, &mut Vec::new()).await?;
        let mut watch = self.worker_session.watch();
        tokio::select! {
            biased;
            () = watch.ended() => Err(WorkerExit::Ended),
            place = waiting.take() => Ok(place),
        }
    }

    /// Waits until the run may start MCP server processes. It holds the slot until it stops them. The wait may be long,
    /// so the run lends its work slot to other runs. Waiting runs use memory, so their number is limited.
    pub(crate) async fn server_place(&mut self, opening: &mut Vec<Draft>) -> WorkResult<()> {
        let servers = &self.agent.settings.mcp;
        if self.server_place.is_some() || !servers.starts_any(self.config.tools.as_deref()) {
            return Ok(());
        }
        let places = servers.places().clone();
        self.server_place = places.try_take();
        if self.server_place.is_some() {
            return Ok(());
        }
        let waiting = self.join_queue(&places, SERVERS, opening).await?;
        let mut watch = self.worker_session.watch();
        let lent = (waiting.place <= limits::MCP_LENDERS_MAX).then(|| self.worker_session.lend_slot());
        let place = tokio::select! {
            biased;
            () = watch.ended() => return Err(WorkerExit::Ended),
            place = async {
                let place = waiting.take().await;
                if let Some(lent) = lent {
                    lent.reclaim().await;
                }
                place
            } => place,
        };
        self.server_place = Some(place);
        Ok(())
    }

    /// Joins the queue, and reports `opening` and `run.throttled`.
    async fn join_queue(
        &mut self,
        places: &WorkPlaces,
        reason: &str,
        opening: &mut Vec<Draft>,
    ) -> WorkResult<Waiting> {
        let waiting = places.queue();
        let throttled = Throttled::new(reason.to_owned(), waiting.place);
        let mut drafts = std::mem::take(opening);
        drafts.push(Payload::RunThrottled(Box::new(throttled)).into());
        self.report(drafts).await?;
        Ok(waiting)
    }
}
