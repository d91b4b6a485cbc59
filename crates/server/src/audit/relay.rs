//! Events of the audit trail that wait at a server without the trail, until the main server takes them. See [`Relay`].

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::limits;

/// The queue between [`super::Audit::record`] and the requests of the main server.
pub(crate) struct Relay {
    /// No other one has it, so that numbers of an earlier one mean nothing.
    id: u64,
    queue: Mutex<RelayQueue>,
    added: Notify,
}

#[derive(Default)]
struct RelayQueue {
    /// The number of the first waiting event.
    first: u64,
    waiting: VecDeque<WaitingEvent>,
}

struct WaitingEvent {
    event: RelayedEvent,
    recorded: oneshot::Sender<()>,
}

/// An event of the trail on its way to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RelayedEvent {
    pub(crate) event_type: String,
    pub(crate) facts: Value,
}

/// Some of them, in order.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RelayedEvents {
    pub(crate) relay: u64,
    /// The number after the last one.
    pub(crate) next: u64,
    pub(crate) events: Vec<RelayedEvent>,
}

/// Requests more events. Those of the relay before `recorded` are in the trail.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct RelayRequest {
    pub(crate) relay: Option<u64>,
    pub(crate) recorded: u64,
}

impl Relay {
    pub(crate) fn new(id: u64) -> Self {
        Relay { id, queue: Mutex::default(), added: Notify::new() }
    }

    /// Returns when the event is in the trail. `Err`: it may be missing there.
    pub(super) async fn add(&self, event_type: &str, facts: &Value) -> Result<(), &'static str> {
        let event = RelayedEvent { event_type: event_type.to_owned(), facts: facts.clone() };
        let (recorded, done) = oneshot::channel();
        {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.waiting.len() >= limits::RELAY_QUEUE_MAX {
                return Err("too many events wait for the main server");
            }
            queue.waiting.push_back(WaitingEvent { event, recorded });
        }
        self.added.notify_one();
        match tokio::time::timeout(limits::RELAY_WAIT, done).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err("the main server has not recorded it in time"),
        }
    }

    /// The events after those that are recorded; waits a while for one.
    pub(crate) async fn next(&self, request: &RelayRequest) -> RelayedEvents {
        let recorded = if request.relay == Some(self.id) { request.recorded } else { 0 };
        let waiting = async {
            loop {
                let added = self.added.notified();
                let found = self.look(recorded);
                if !found.events.is_empty() {
                    return found;
                }
                added.await;
            }
        };
        let found = tokio::time::timeout(limits::RELAY_POLL, waiting).await;
        found.unwrap_or_else(|_| self.look(recorded))
    }

    fn look(&self, recorded: u64) -> RelayedEvents {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while queue.first < recorded {
            let Some(first) = queue.waiting.pop_front() else { break };
            queue.first += 1;
            // The action may no longer wait.
            first.recorded.send(()).ok();
        }
        let mut bytes = 0;
        let events = queue.waiting.iter().map(|waiting| waiting.event.clone()).take_while(|event| {
            let is_first = bytes == 0;
            bytes += event.facts.to_string().len();
            is_first || bytes <= limits::RELAY_BYTES
        });
        let events: Vec<_> = events.collect();
        RelayedEvents { relay: self.id, next: queue.first + events.len() as u64, events }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_event_is_recorded_when_the_main_server_requests_the_next_ones() {
        let relay = Relay::new(7);
        let main = async {
            let first = relay.next(&RelayRequest::default()).await;
            let again = relay.next(&RelayRequest::default()).await;
            assert_eq!(first, again, "a lost response loses nothing");
            let of_another = RelayRequest { relay: Some(6), recorded: first.next };
            assert_eq!(relay.next(&of_another).await, first, "numbers of an earlier relay mean nothing");
            let rest = relay.next(&RelayRequest { relay: Some(7), recorded: first.next }).await;
            (first, rest)
        };
        let facts = json!({"by": "ada"});
        let (added, (first, rest)) = tokio::join!(relay.add("ext.recount.removed", &facts), main);
        assert_eq!(added, Ok(()));
        let event = RelayedEvent { event_type: "ext.recount.removed".to_owned(), facts };
        assert_eq!(first, RelayedEvents { relay: 7, next: 1, events: vec![event] });
        assert_eq!(rest, RelayedEvents { relay: 7, next: 1, events: vec![] });
    }

    #[tokio::test(start_paused = true)]
    async fn an_action_does_not_wait_for_ever_and_memory_is_bounded() {
        let relay = Relay::new(7);
        assert!(relay.add("a", &Value::Null).await.is_err());
        let many = (1..=limits::RELAY_QUEUE_MAX).map(|_| relay.add("a", &Value::Null));
        let many = futures_util::future::join_all(many).await;
        assert!(many.iter().all(Result::is_err));
        assert_eq!(relay.look(0).events.len(), limits::RELAY_QUEUE_MAX);
    }
}
