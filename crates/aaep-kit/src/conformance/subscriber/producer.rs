//! The synthetic producer that subscribers are tested on: serves every surface, records what it receives, sends the
//! given bytes unchanged, and can cut, close and reopen connections. Entry: [`SyntheticProducer`]. It does not depend
//! on what is being tested.

mod cuttable_listener;
mod state;
mod surfaces;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use recount_world::{Kind, World};
use tokio::sync::{mpsc, oneshot};

pub(crate) use state::{HandshakeMode, Input, Observation, StreamSurface};

use super::piece::Piece;
use crate::limits;
use cuttable_listener::CuttableListener;
use state::{Output, SharedProducer};

/// A stream that a subscriber has open.
#[derive(Debug, Clone)]
pub(crate) struct OpenStream {
    pub line: u64,
    pub surface: StreamSurface,
    pub subscription: Option<String>,
}

/// A producer that is controlled by the test.
pub(crate) struct SyntheticProducer {
    world: World,
    shared: Arc<SharedProducer>,
    address: SocketAddr,
    /// Stops the listener; the receiver resolves when it has stopped.
    serving: Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>,
}

impl SyntheticProducer {
    /// Listens at an address; port 0 picks a free one. With a token, requests without it get 401.
    pub(crate) async fn open(
        world: &World,
        address: SocketAddr,
        token: Option<String>,
    ) -> io::Result<SyntheticProducer> {
        let shared = Arc::new(SharedProducer::new(world.clone(), token));
        let mut producer = SyntheticProducer { world: world.clone(), shared, address, serving: None };
        producer.start_listening().await?;
        Ok(producer)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Listens at the same address (again).
    pub(crate) async fn start_listening(&mut self) -> io::Result<()> {
        let listener = CuttableListener::open(self.address, self.shared.cuts()).await?;
        self.address = listener.address()?;
        let router = surfaces::router(self.shared.clone());
        let (end, mut ending) = oneshot::channel();
        let (ended, has_ended) = oneshot::channel();
        self.world.tasks.spawn(Kind::Service, |mut shutdown| async move {
            tokio::select! {
                _ = axum::serve(listener, router) => {}
                _ = &mut ending => {}
                () = shutdown.requested() => {}
            }
            // The receiver is dropped together with the producer.
            ended.send(()).ok();
        });
        self.serving = Some((end, has_ended));
        Ok(())
    }

    /// Stops listening and cuts every connection, like a process that dies.
    pub(crate) async fn stop_listening(&mut self) {
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

    /// Forgets all subscriptions, like a new process.
    pub(crate) fn forget(&self) {
        self.shared.with(|state| state.known.clear());
    }

    /// Refuses every request with this status; `None` ends the refusal.
    pub(crate) fn refuse(&self, status: Option<u16>) {
        self.shared.with(|state| state.refusing = status);
    }

    /// Sets the response to later handshakes.
    pub(crate) fn set_handshake_mode(&self, handshake_mode: HandshakeMode) {
        self.shared.with(|state| state.handshake_mode = handshake_mode);
    }

    /// The agreed rate of the newest subscription in events per second, if it has one.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.shared.with(|state| state.known.back()?.1.get("max_events_per_second")?.as_u64())
    }

    /// The current position in the record; pass it to [`SyntheticProducer::since`] and [`SyntheticProducer::wait`].
    pub(crate) fn mark(&self) -> usize {
        self.shared.with(|state| state.observations.len())
    }

    pub(crate) fn since(&self, mark: usize) -> Vec<Observation> {
        self.shared.with(|state| state.observations[mark.min(state.observations.len())..].to_vec())
    }

    /// The streams that accept events now.
    pub(crate) fn lines(&self) -> Vec<OpenStream> {
        self.shared.with(|state| {
            state.lines.iter().filter(|line| line.ready).map(state::StreamState::open).collect()
        })
    }

    /// Waits until `find` succeeds on the record after the mark, for at most `patience`.
    pub(crate) async fn wait<T>(
        &self,
        mark: usize,
        patience: Duration,
        mut find: impl FnMut(&[Observation]) -> Option<T>,
    ) -> Option<T> {
        self.look(patience, |state| find(&state.observations[mark.min(state.observations.len())..])).await
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

    /// Waits until a stream is open, for at most `patience`.
    pub(crate) async fn wait_open(&self, patience: Duration) -> Option<OpenStream> {
        self.look(patience, |state| state.lines.iter().rfind(|line| line.ready).map(state::StreamState::open))
            .await
    }

    /// Waits until an open stream has a subscription, for at most `patience`.
    pub(crate) async fn wait_subscription(&self, patience: Duration) -> Option<()> {
        self.look(patience, |state| {
            state.lines.iter().any(|line| line.ready && line.subscription.is_some()).then_some(())
        })
        .await
    }

    /// Sends a piece on every open stream. Returns the number of streams that took it within
    /// [`limits::SYNTHETIC_STALL`].
    pub(crate) async fn send(&self, piece: &Piece) -> usize {
        let mut sent = 0;
        for sender in self.senders() {
            let put = sender.send(Output::Send(piece.clone()));
            sent +=
                usize::from(matches!(tokio::time::timeout(limits::SYNTHETIC_STALL, put).await, Ok(Ok(()))));
        }
        sent
    }

    /// Ends every stream cleanly.
    pub(crate) async fn end_streams(&self) {
        for sender in self.senders() {
            tokio::time::timeout(limits::SYNTHETIC_STALL, sender.send(Output::End)).await.ok();
        }
    }

    fn senders(&self) -> Vec<mpsc::Sender<Output>> {
        self.shared.with(|state| {
            state.lines.iter().filter(|line| line.ready).map(|line| line.sender.clone()).collect()
        })
    }
}
