//! A scripted producer: it needs no model, does everything right on every surface, and can be told to do exactly one
//! thing wrong. Conformance suites are tested on it, and subscribers are developed against it.
//!
//! See [`Scripted`], [`Behaviour`] and [`Fault`]. `scripts` holds the scenarios, `play` runs them, `room` holds
//! listeners and open prompts, `surfaces` is HTTP and WebSocket, `tamper` makes right events wrong. It must not know
//! who tests it.

mod ask;
mod crooked;
mod fault;
mod feed;
mod identity;
mod judge;
mod play;
mod room;
mod standing;
mod subscription;
mod surfaces;
mod tamper;
#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use recount_world::World;
use tokio::net::TcpSocket;

pub use fault::Fault;
use room::Room;

use crate::limits;

/// How the producer behaves.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The one thing it does wrong.
    pub fault: Option<Fault>,
    /// The bearer token that every route wants.
    pub token: Option<String>,
    /// The conformance level it claims; at level 1 it has no prompts.
    pub level: u8,
    /// Whether it asks and hands over; otherwise it just works through such requests, and nothing is ever to be allowed.
    pub asks: bool,
    /// How much later a subscription gets what is said when it was opened beside another.
    pub lag_ms: u64,
    /// How long its prompts wait for an answer.
    pub timeout_seconds: u32,
    /// How long a subscriber that was cut off counts as one that can still answer.
    pub grace_ms: u64,
    /// How long a stream stays silent before it says that it lives.
    pub heartbeat_ms: u64,
    /// How long it rests between the words of a long story and the steps of long work.
    pub pause_ms: u64,
    /// Says each session's id on the de-facto surface before the session, in an object that is no event. The public
    /// suite takes the first thing it hears for that, and would miss `session.started` otherwise.
    pub announce_sessions: bool,
    /// Where it listens on this machine; 0 takes a free port.
    pub port: u16,
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour {
            fault: None,
            token: None,
            level: 3,
            asks: true,
            lag_ms: 0,
            timeout_seconds: 2,
            grace_ms: 300,
            heartbeat_ms: 10_000,
            pause_ms: 2,
            announce_sessions: false,
            port: 0,
        }
    }
}

impl Behaviour {
    /// Right in everything but this.
    pub fn wrong(fault: Fault) -> Self {
        Behaviour { fault: Some(fault), ..Behaviour::default() }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// A producer that runs.
pub struct Scripted {
    base: String,
    room: Arc<Room>,
}

impl Scripted {
    /// Listens on this machine, and nowhere else.
    pub async fn start(world: &World, behaviour: Behaviour) -> std::io::Result<Scripted> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        // A reader that stops reading is to be noticed soon, not only when megabytes wait in the kernel.
        socket.set_send_buffer_size(limits::SCRIPTED_SEND_BUFFER_BYTES)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, behaviour.port)))?;
        let listener = socket.listen(limits::SCRIPTED_BACKLOG)?;
        let base = format!("http://{}", listener.local_addr()?);
        let room = Room::new(world.clone(), behaviour, base.clone());
        surfaces::serve(listener, room.clone());
        Ok(Scripted { base, room })
    }

    /// `http://127.0.0.1:PORT`. The de-facto surface is below it, the specification's below `/aaep/v1`, WebSocket at
    /// `/ws` and `/aaep/v1/ws`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Ends all streams and stops to listen.
    pub async fn stop(self) {
        self.room.stop();
        let ended = self.room.ended();
        if tokio::time::timeout(limits::SCRIPTED_STOP_PATIENCE, ended).await.is_err() {
            // A peer holds its connection open; it is left to the runtime.
        }
    }
}
