//! A faulty network connection for tests: a TCP proxy that delays, cuts, stalls and swallows what it forwards.
//!
//! Faults come on command, or are drawn from a seed. It must not know the protocol. What a real network cannot do, it does
//! not do either: it never changes or reorders bytes, and a connection that lost bytes forwards nothing afterwards and is
//! reset. Start at [`Link`].

mod connection;
mod course;
mod limits;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use recount_world::{Kind, Tasks};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use course::{FaultCounts, FaultCourse};

use connection::Connection;

/// A proxy in front of a server. Its connections are closed when it is dropped.
pub struct Link {
    address: SocketAddr,
    state: Arc<State>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// The way of bytes through a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

/// What happens to bytes of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flow {
    #[default]
    Pass,
    /// Each chunk waits before it is forwarded.
    Delay(Duration),
    /// Nothing is forwarded, nor that a side has closed its end. Bytes wait until the direction passes again.
    Stall,
    /// Bytes are accepted and lost. When the direction passes again, connections that lost some are reset.
    Swallow,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Both sides get a reset (RST).
    Reset,
    /// Both sides read the end of the stream (FIN).
    Finish,
}

/// What happens once to the first connection on which a client sends certain bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// The connection is reset before the server gets the end of these bytes.
    ResetBefore,
    /// The server gets them, and everything that it sends on this connection from then on is lost.
    SwallowAnswer,
    /// The server gets the end of these bytes, and all that follow, only after [`Link::release`].
    HoldBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Flows {
    to_server: Flow,
    to_client: Flow,
}

/// What the connections of a link share.
struct State {
    target: Mutex<SocketAddr>,
    flows: watch::Sender<Flows>,
    /// The last command to cut, with the number of such commands.
    cut: watch::Sender<(u64, Cut)>,
    trap: Mutex<Option<(Vec<u8>, Trap)>>,
    /// Changes when what traps hold back is released.
    release: watch::Sender<()>,
    course: Mutex<Option<FaultCourse>>,
    traffic: Mutex<Traffic>,
    changed: Condvar,
}

/// Counts since the start of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Accepted connections.
    pub connections: u64,
    /// Connections that have not ended.
    pub open: u64,
    /// Bytes that were read and lost.
    pub swallowed: u64,
    /// Traps that were sprung.
    pub sprung: u64,
    /// Faults of a course.
    pub faults: FaultCounts,
}

impl Link {
    /// Forwards connections from a free port of 127.0.0.1 to the target.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            target: Mutex::new(target),
            flows: watch::Sender::default(),
            cut: watch::Sender::new((0, Cut::Reset)),
            trap: Mutex::default(),
            release: watch::Sender::default(),
            course: Mutex::default(),
            traffic: Mutex::default(),
            changed: Condvar::new(),
        });
        let (stop, mut stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = state.clone();
        let thread = recount_world::thread("faulty-link", move || {
            runtime.block_on(async move {
                tokio::select! {
                    result = accept(listener, shared) => result.expect("the listener of a link works"),
                    _ = stopped.wait_for(|stop| *stop) => {}
                }
            });
        });
        Ok(Link { address, state, stop, thread: Some(thread) })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Forwards new connections to another server. Present ones stay as they are until they are cut.
    pub fn set_target(&self, target: SocketAddr) {
        *lock(&self.state.target) = target;
    }

    /// Forwards everything again: no direction is delayed, stalled or swallowed, no trap is set and no fault is drawn. A
    /// connection whose trap was sprung stays as it is until it is cut.
    pub fn heal(&self) {
        *lock(&self.state.trap) = None;
        *lock(&self.state.course) = None;
        self.state.flows.send_replace(Flows::default());
    }

    /// Sets what happens to bytes of one direction, on all connections.
    pub fn set(&self, direction: Direction, flow: Flow) {
        self.state.flows.send_modify(|flows| *flows.of_mut(direction) = flow);
    }

    /// Sets what happens to bytes of both directions. With [`Flow::Stall`] every connection is half open: new ones are
    /// accepted, and nothing is forwarded.
    pub fn set_both(&self, flow: Flow) {
        self.state.flows.send_replace(Flows { to_server: flow, to_client: flow });
    }

    /// Ends all connections. New ones are accepted.
    pub fn cut(&self, how: Cut) {
        self.state.cut.send_modify(|cut| *cut = (cut.0 + 1, how));
    }

    /// Sets a trap for the first connection on which a client sends these bytes. It replaces one that was not sprung.
    pub fn set_trap(&self, bytes: &[u8], trap: Trap) {
        assert!(!bytes.is_empty(), "a trap waits for some bytes");
        *lock(&self.state.trap) = Some((bytes.to_vec(), trap));
    }

    /// Forwards what traps have held back, also if its client has closed the connection meanwhile.
    pub fn release(&self) {
        self.state.release.send_replace(());
    }

    /// From now on each new connection gets faults, drawn from a seed. See [`FaultCourse`].
    pub fn draw_faults(&self, course: FaultCourse) {
        *lock(&self.state.course) = Some(course);
    }

    pub fn traffic(&self) -> Traffic {
        *lock(&self.state.traffic)
    }

    /// Waits until the traffic is as a test expects.
    ///
    /// # Panics
    ///
    /// When it is not so after a minute.
    pub fn wait_for(&self, what: &str, mut expected: impl FnMut(&Traffic) -> bool) -> Traffic {
        let traffic = lock(&self.state.traffic);
        let waited = self
            .state
            .changed
            .wait_timeout_while(traffic, limits::TRAFFIC_PATIENCE, |traffic| !expected(traffic));
        let (traffic, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!timeout.timed_out(), "{what} did not happen on the link: {traffic:?}");
        *traffic
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the thread of a link panicked");
        }
    }
}

impl State {
    fn count(&self, change: impl FnOnce(&mut Traffic)) {
        change(&mut lock(&self.traffic));
        self.changed.notify_all();
    }
}

impl Flows {
    fn of(self, direction: Direction) -> Flow {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }

    fn of_mut(&mut self, direction: Direction) -> &mut Flow {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}

/// Accepts connections until the runtime ends.
async fn accept(listener: std::net::TcpListener, state: Arc<State>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let tasks = Tasks::new();
    for number in 0.. {
        let (client, _) = listener.accept().await?;
        let draws = lock(&state.course).as_ref().map(|course| course.draws(number));
        state.count(|traffic| {
            traffic.connections += 1;
            traffic.open += 1;
        });
        let connection = Connection::new(state.clone(), draws);
        tasks.spawn(Kind::Connection, |_shutdown| connection.serve(client));
    }
    Ok(())
}

/// A panic of another thread leaves the values valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
