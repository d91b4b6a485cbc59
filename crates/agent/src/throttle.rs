//! Makes a run wait where too much is at work, and says so in its log.
//!
//! Look at [`Worker::tool_place`] and [`Worker::server_place`]. It must not know what is done in a place.

use recount_engine::Left;
use recount_event::family::run::Throttled;
use recount_event::{Draft, Payload};
use tokio::sync::OwnedSemaphorePermit;

use crate::limits;
use crate::work_places::{Waiting, WorkPlaces};
use crate::worker::{Done, Worker};

/// What waiting for a tool's place is called in `run.throttled`.
const TOOLS: &str = "tools_at_once";
/// What waiting with MCP servers that are commands is called there.
const SERVERS: &str = "mcp_at_once";

impl Worker {
    /// Waits until a tool may run.
    pub(crate) async fn tool_place(&mut self) -> Done<OwnedSemaphorePermit> {
        let places = self.agent.tool_places().clone();
        if let Some(place) = places.try_take() {
            return Ok(place);
        }
        let waiting = self.held(&places, TOOLS, &mut Vec::new()).await?;
        let mut watch = self.desk.watch();
        tokio::select! {
            biased;
            () = watch.ended() => Err(Left::Ended),
            place = waiting.take() => Ok(place),
        }
    }

    /// Waits until the run may have processes of MCP servers. It has the place until it leaves them. The wait may be long, so
    /// others may work instead of it, as long as not too many wait so: each is in memory.
    pub(crate) async fn server_place(&mut self, opening: &mut Vec<Draft>) -> Done<()> {
        let servers = &self.agent.settings.mcp;
        if self.server_place.is_some() || !servers.starts_any(self.order.tools.as_deref()) {
            return Ok(());
        }
        let places = servers.places().clone();
        self.server_place = places.try_take();
        if self.server_place.is_some() {
            return Ok(());
        }
        let waiting = self.held(&places, SERVERS, opening).await?;
        let mut watch = self.desk.watch();
        let lent = (waiting.place <= limits::MCP_LENDERS_MAX).then(|| self.desk.lend_place());
        let place = tokio::select! {
            biased;
            () = watch.ended() => return Err(Left::Ended),
            place = async {
                let place = waiting.take().await;
                if let Some(lent) = lent {
                    lent.take_back().await;
                }
                place
            } => place,
        };
        self.server_place = Some(place);
        Ok(())
    }

    /// Takes a place in a queue, and says so in the log after what was to be said before.
    async fn held(&mut self, places: &WorkPlaces, reason: &str, opening: &mut Vec<Draft>) -> Done<Waiting> {
        let waiting = places.queue();
        let throttled = Throttled::new(reason.to_owned(), waiting.place);
        let mut drafts = std::mem::take(opening);
        drafts.push(Payload::RunThrottled(Box::new(throttled)).into());
        self.report(drafts).await?;
        Ok(waiting)
    }
}
