//! The synthetic producer that subscribers are tested on: it serves every surface, records what it receives, sends what
//! it is told to, byte for byte, and can cut connections, close and open again. Entry: [`SyntheticProducer`]. It must not know what
//! is being tested.

mod door;
mod state;
mod surfaces;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use recount_world::{Kind, World};
use tokio::sync::{mpsc, oneshot};

pub(crate) use state::{Face, Input, Seen, Terms};

use super::piece::Piece;
use crate::limits;
use door::Door;
use state::{Output, Shared};

/// A stream that a subscriber has open.
#[derive(Debug, Clone)]
pub(crate) struct OpenStream {
    pub line: u64,
    pub face: Face,
    pub subscription: Option<String>,
}

/// A producer that is controlled by the test.
pub(crate) struct SyntheticProducer {
    world: World,
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Stops the listener; the receiver resolves when it has stopped.
    serving: Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>,
}

impl SyntheticProducer {
    /// Listens at an address; port 0 takes a free one. With a token, requests without it get 401.
    pub(crate) async fn open(
        world: &World,
        address: SocketAddr,
        token: Option<String>,
    ) -> io::Result<SyntheticProducer> {
        let shared = Arc::new(Shared::new(world.clone(), token));
        let mut producer = SyntheticProducer { world: world.clone(), shared, address, serving: None };
        producer.open_door().await?;
        Ok(producer)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Listens (again) at the same address.
    pub(crate) async fn open_door(&mut self) -> io::Result<()> {
        let door = Door::open(self.address, self.shared.cuts()).await?;
        self.address = door.address()?;
        let router = surfaces::router(self.shared.clone());
        let (end, mut ending) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        self.world.tasks.spawn(Kind::Service, |mut shutdown| async move {
            tokio::select! {
                _ = axum::serve(door, router) => {}
                _ = &mut ending => {}
                () = shutdown.requested() => {}
            }
            // The receiver is dropped together with the producer.
            ended.send(()).ok();
        });
        self.serving = Some((end, has_ended));
        Ok(())
    }

    /// Stops listening and cuts every connection, as when a process dies.
    pub(crate) async fn close_door(&mut self) {
        if let Some((end, ended)) = self.serving.take() {
            end.send(()).ok();
            ended.await.ok();
        }
        self.cut();
    }

    /// Cuts every connection and keeps listening.
    pub(crate) fn cut(&self) {
        self.shared.cut();
    }

    /// Forgets all subscriptions, as a new process does.
    pub(crate) fn forget(&self) {
        self.shared.with(|state| state.known.clear());
    }

    /// Refuses every request with this status; `None` serves them again.
    pub(crate) fn refuse(&self, status: Option<u16>) {
        self.shared.with(|state| state.refusing = status);
    }

    /// Sets the response to later handshakes.
    pub(crate) fn terms(&self, terms: Terms) {
        self.shared.with(|state| state.terms = terms);
    }

    /// The agreed rate of the newest subscription in events per second, if it has one.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.shared.with(|state| state.known.back()?.1.get("max_events_per_second")?.as_u64())
    }

    /// The current position in the record; pass it to [`SyntheticProducer::since`] and [`SyntheticProducer::wait`].
    pub(crate) fn mark(&self) -> usize {
        self.shared.with(|state| state.seen.len())
    }

    pub(crate) fn since(&self, mark: usize) -> Vec<Seen> {
        self.shared.with(|state| state.seen[mark.min(state.seen.len())..].to_vec())
    }

    /// The streams that accept events now.
    pub(crate) fn lines(&self) -> Vec<OpenStream> {
        self.shared.with(|state| {
            state.lines.iter().filter(|line| line.ready).map(state::StreamState::open).collect()
        })
    }

    /// Waits until `find` succeeds on the record after the mark, at most for `patience`.
    pub(crate) async fn wait<T>(
        &self,
        mark: usize,
        patience: Duration,
        mut find: impl FnMut(&[Seen]) -> Option<T>,
    ) -> Option<T> {
        self.look(patience, |state| find(&state.seen[mark.min(state.seen.len())..])).await
    }

    async fn look<T>(
        &self,
        patience: Duration,
        mut find: impl FnMut(&mut state::State) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.shared.changes();
        let look = async {
            loop {
                changes.borrow_and_update();
                if let Some(found) = self.shared.with(&mut find) {
                    return Some(found);
                }
                if changes.changed().await.is_err() {
                    return None;
                }
            }
        };
        tokio::time::timeout(patience, look).await.ok().flatten()
    }

    /// Waits until a line is open, at most for so long.
    pub(crate) async fn wait_open(&self, patience: Duration) -> Option<OpenStream> {
        self.look(patience, |state| state.lines.iter().rfind(|line| line.ready).map(state::StreamState::open))
            .await
    }

    /// Waits until an open line has a subscription, at most for so long.
    pub(crate) async fn wait_subscription(&self, patience: Duration) -> Option<()> {
        self.look(patience, |state| {
            state.lines.iter().any(|line| line.ready && line.subscription.is_some()).then_some(())
        })
        .await
    }

    /// Puts a piece on every line that is open. Answers on how many it was put; a line that takes nothing for
    /// [`limits::STAGE_STALL`] is not counted.
    pub(crate) async fn send(&self, piece: &Piece) -> usize {
        let mut sent = 0;
        for sender in self.senders() {
            let put = sender.send(Output::Send(piece.clone()));
            sent += usize::from(matches!(tokio::time::timeout(limits::STAGE_STALL, put).await, Ok(Ok(()))));
        }
        sent
    }

    /// Ends every line tidily.
    pub(crate) async fn end_lines(&self) {
        for sender in self.senders() {
            tokio::time::timeout(limits::STAGE_STALL, sender.send(Output::End)).await.ok();
        }
    }

    fn senders(&self) -> Vec<mpsc::Sender<Output>> {
        self.shared.with(|state| {
            state.lines.iter().filter(|line| line.ready).map(|line| line.sender.clone()).collect()
        })
    }
}
