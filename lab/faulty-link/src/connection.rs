//! Forwards the bytes of one connection, with the faults of its link.
//!
//! The module must not decide which faults happen. Start at [`Connection::serve`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::course::{Draws, Fault};
use crate::limits::CHUNK_BYTES;
use crate::{Cut, Direction, Flow, Flows, State, Trap, lock};

pub(crate) struct Connection {
    state: Arc<State>,
    /// What the server sends is lost: a trap was sprung, or this fault was drawn.
    swallows: AtomicBool,
    /// Nothing is forwarded any more: this fault was drawn.
    stalls: AtomicBool,
    draws: Option<[Draws; 2]>,
}

/// Both directions have ended by themselves, or the connection was cut.
type Ended = Result<(), Cut>;

impl Connection {
    pub(crate) fn new(state: Arc<State>, draws: Option<[Draws; 2]>) -> Self {
        Connection { state, swallows: AtomicBool::new(false), stalls: AtomicBool::new(false), draws }
    }

    pub(crate) async fn serve(mut self, mut client: TcpStream) {
        let mut cut = self.state.cut.subscribe();
        let commanded = async move {
            match cut.changed().await {
                Ok(()) => cut.borrow().1,
                Err(_) => Cut::Reset,
            }
        };
        let [to_server, to_client] = self.draws.take().map_or([None, None], |draws| draws.map(Some));
        let mut server = None;
        let how = tokio::select! {
            how = commanded => how,
            ended = self.forward(&mut client, &mut server, to_server, to_client) => match ended {
                Ok(()) => Cut::Finish,
                Err(how) => how,
            },
        };
        for mut side in [Some(client), server].into_iter().flatten() {
            // A side that has ended already needs no further sign of it.
            match how {
                Cut::Reset => side.set_zero_linger().ok(),
                Cut::Finish => side.shutdown().await.ok(),
            };
        }
        self.state.count(|traffic| traffic.open -= 1);
    }

    async fn forward(
        &self,
        client: &mut TcpStream,
        server: &mut Option<TcpStream>,
        to_server: Option<Draws>,
        to_client: Option<Draws>,
    ) -> Ended {
        self.passes(Direction::ToServer).await;
        let target = *lock(&self.state.target);
        let connected = TcpStream::connect(target).await.map_err(|_| Cut::Reset)?;
        let server = server.insert(connected);
        let off = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
        off.map_err(|_| Cut::Reset)?;
        let (from_client, into_client) = client.split();
        let (from_server, into_server) = server.split();
        tokio::try_join!(
            self.pump(Direction::ToServer, from_client, into_server, to_server),
            self.pump(Direction::ToClient, from_server, into_client, to_client),
        )?;
        Ok(())
    }

    /// Waits while a direction stalls.
    async fn passes(&self, direction: Direction) -> Flow {
        let mut flows = self.state.flows.subscribe();
        let flow = flows.wait_for(|flows| flows.of(direction) != Flow::Stall).await;
        flow.map_or(Flow::Pass, |flows| flows.of(direction))
    }

    /// Forwards one direction until it ends.
    async fn pump(
        &self,
        direction: Direction,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
        mut draws: Option<Draws>,
    ) -> Ended {
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut trapped = TrapWindow::default();
        let mut lost_bytes = false;
        let mut flows = self.state.flows.subscribe();
        loop {
            let count = tokio::select! {
                count = from.read(&mut buffer) => count.map_err(|_| Cut::Reset)?,
                () = swallows_no_longer(&mut flows, direction), if lost_bytes => return Err(Cut::Reset),
            };
            let flow = self.passes(direction).await;
            if self.stalls.load(Ordering::SeqCst) {
                // Until the direction that drew this resets the connection.
                std::future::pending::<()>().await;
            }
            if let Flow::Delay(time) = flow {
                tokio::time::sleep(time).await;
            }
            let drawn_swallow = direction == Direction::ToClient && self.swallows.load(Ordering::SeqCst);
            if flow == Flow::Swallow || drawn_swallow {
                lost_bytes |= flow == Flow::Swallow;
                self.state.count(|traffic| traffic.swallowed += count as u64);
                if let Some(draws) = draws.as_mut().filter(|_| drawn_swallow) {
                    tokio::time::sleep(draws.pause()).await;
                    return Err(Cut::Reset);
                }
                if count == 0 {
                    // The end is lost too.
                    std::future::pending::<()>().await;
                }
                continue;
            }
            if count == 0 {
                return to.shutdown().await.map_err(|_| Cut::Reset);
            }
            let chunk = &buffer[..count];
            if direction == Direction::ToServer {
                let mut released = self.state.release.subscribe();
                match self.sprung(&mut trapped, chunk) {
                    Some(Trap::ResetBefore) => return Err(Cut::Reset),
                    Some(Trap::SwallowAnswer) => self.swallows.store(true, Ordering::SeqCst),
                    // It fails only if the link ends, and this connection with it.
                    Some(Trap::HoldBack) => released.changed().await.map_err(|_| Cut::Reset)?,
                    None => {}
                }
            }
            let sent = match draws.as_mut().filter(|_| lock(&self.state.course).is_some()) {
                Some(draws) => self.send_with_faults(chunk, &mut to, draws).await?,
                None => 0,
            };
            to.write_all(&chunk[sent..]).await.map_err(|_| Cut::Reset)?;
        }
    }

    /// Sends the part of a chunk up to its last fault, and carries the faults out. Returns the length of this part.
    async fn send_with_faults(
        &self,
        chunk: &[u8],
        to: &mut (impl AsyncWrite + Unpin),
        draws: &mut Draws,
    ) -> Result<usize, Cut> {
        let mut sent = 0;
        while let Some((before, fault)) = draws.draw(chunk.len() - sent) {
            to.write_all(&chunk[sent..sent + before]).await.map_err(|_| Cut::Reset)?;
            sent += before;
            self.state.count(|traffic| traffic.faults.add(fault));
            match fault {
                Fault::Delay => {}
                Fault::Reset => return Err(Cut::Reset),
                Fault::Finish => return Err(Cut::Finish),
                Fault::Swallow => {
                    self.swallows.store(true, Ordering::SeqCst);
                    continue;
                }
                Fault::HalfOpen => self.stalls.store(true, Ordering::SeqCst),
                Fault::OneWay => {}
            }
            tokio::time::sleep(draws.pause()).await;
            if fault != Fault::Delay {
                return Err(Cut::Reset);
            }
        }
        Ok(sent)
    }

    /// Springs the trap of the link if the bytes that it waits for end in this chunk.
    fn sprung(&self, window: &mut TrapWindow, chunk: &[u8]) -> Option<Trap> {
        let mut trap = lock(&self.state.trap);
        let (bytes, _) = trap.as_ref()?;
        if !window.contains(bytes, chunk) {
            return None;
        }
        self.state.count(|traffic| traffic.sprung += 1);
        trap.take().map(|(_, what)| what)
    }
}

async fn swallows_no_longer(flows: &mut watch::Receiver<Flows>, direction: Direction) {
    let healed = flows.wait_for(|flows| !matches!(flows.of(direction), Flow::Swallow | Flow::Stall)).await;
    drop(healed);
}

/// The last bytes of a direction, so that a text is found that two chunks share.
#[derive(Default)]
struct TrapWindow(Vec<u8>);

impl TrapWindow {
    fn contains(&mut self, bytes: &[u8], chunk: &[u8]) -> bool {
        self.0.extend_from_slice(chunk);
        let found = self.0.windows(bytes.len()).any(|window| window == bytes);
        let surplus = self.0.len().saturating_sub(bytes.len() - 1);
        self.0.drain(..surplus);
        found
    }
}
