//! Makes a run wait where too much is at work, and says so in its log.
//!
//! Look at [`Worker::tool_place`] and [`Worker::server_place`]. It must not know what is done in a place.

use recount_event::family::run::Throttled;
use recount_event::{Draft, Payload};
use tokio::sync::OwnedSemaphorePermit;

use crate::work_places::WorkPlaces;
use crate::worker::{Done, Worker};

/// What waiting for a tool's place is called in `run.throttled`.
const TOOLS: &str = "tools_at_once";
/// What waiting with MCP servers that are commands is called there.
const SERVERS: &str = "mcp_at_once";

impl Worker {
    /// Waits until a tool may run.
    pub(crate) async fn tool_place(&mut self) -> Done<OwnedSemaphorePermit> {
        let places = self.agent.tool_places().clone();
        self.place(&places, TOOLS, &mut Vec::new()).await
    }

    /// Waits until the run may have processes of MCP servers. It has the place until it leaves them.
    pub(crate) async fn server_place(&mut self, opening: &mut Vec<Draft>) -> Done<()> {
        let servers = &self.agent.settings.mcp;
        if self.server_place.is_none() && servers.starts_any(self.order.tools.as_deref()) {
            let places = servers.places().clone();
            self.server_place = Some(self.place(&places, SERVERS, opening).await?);
        }
        Ok(())
    }

    /// Waits for a place. If there is none at once, the log says so, after what was to be said before.
    async fn place(
        &mut self,
        places: &WorkPlaces,
        reason: &str,
        opening: &mut Vec<Draft>,
    ) -> Done<OwnedSemaphorePermit> {
        if let Some(place) = places.try_take() {
            return Ok(place);
        }
        let waiting = places.queue();
        let throttled = Throttled::new(reason.to_owned(), waiting.place);
        let mut drafts = std::mem::take(opening);
        drafts.push(Payload::RunThrottled(Box::new(throttled)).into());
        self.report(drafts).await?;
        let mut watch = self.desk.watch();
        tokio::select! {
            biased;
            () = watch.ended() => Err(recount_engine::Left::Ended),
            place = waiting.take() => Ok(place),
        }
    }
}
