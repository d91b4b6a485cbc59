//! A scripted producer: it needs no model, is correct on every surface, and can be configured with exactly one fault.
//! Conformance suites are tested with it, and subscribers are developed against it.
//!
//! See [`Scripted`], [`Behaviour`] and [`Fault`]. `scripts` holds the scenarios, `play` runs them, `hub` holds
//! subscriptions and open prompts, `surfaces` is HTTP and WebSocket, `tamper` applies faults to correct output. It
//! does not depend on its testers.

mod delayer;
mod fault;
mod feed;
mod hub;
mod identity;
mod messages;
mod open_prompt;
mod play;
mod snapshot;
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
use hub::Hub;

use crate::limits;

/// How the producer behaves.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// Its fault.
    pub fault: Option<Fault>,
    /// The bearer token that every route requires.
    pub token: Option<String>,
    /// The conformance level it claims; at level 1 it has no prompts.
    pub level: u8,
    /// Whether it sends prompts and handoffs; otherwise it performs such requests without asking.
    pub sends_prompts: bool,
    /// How much later a subscription gets events if it was opened beside another.
    pub lag_ms: u64,
    /// The timeout of its prompts.
    pub timeout_seconds: u32,
    /// How long a disconnected subscriber still counts as able to reply.
    pub grace_ms: u64,
    /// The longest silence of a stream before a heartbeat.
    pub heartbeat_ms: u64,
    /// The pause between the words of a long story and between steps of long work.
    pub pause_ms: u64,
    /// Whether to send each session's id on the de-facto surface before the session, in an object that is not an
    /// event. The public suite takes the first message for the session id, and would miss `session.started` otherwise.
    pub announce_sessions: bool,
    /// The port on this machine; 0 picks a free one.
    pub port: u16,
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour {
            fault: None,
            token: None,
            level: 3,
            sends_prompts: true,
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
    /// Correct behaviour with this fault.
    pub fn wrong(fault: Fault) -> Self {
        Behaviour { fault: Some(fault), ..Behaviour::default() }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

/// A running scripted producer.
pub struct Scripted {
    base: String,
    hub: Arc<Hub>,
}

impl Scripted {
    /// Listens on this machine only.
    pub async fn start(world: &World, behaviour: Behaviour) -> std::io::Result<Scripted> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        // Detect a reader that stops reading early, before megabytes wait in the kernel.
        socket.set_send_buffer_size(limits::SCRIPTED_SEND_BUFFER_BYTES)?;
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, behaviour.port)))?;
        let listener = socket.listen(limits::SCRIPTED_BACKLOG)?;
        let base = format!("http://{}", listener.local_addr()?);
        let hub = Hub::new(world.clone(), behaviour, base.clone());
        surfaces::serve(listener, hub.clone());
        Ok(Scripted { base, hub })
    }

    /// `http://127.0.0.1:PORT`. The de-facto surface is below it, the specification's below `/aaep/v1`, WebSocket at
    /// `/ws` and `/aaep/v1/ws`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Ends all streams and stops listening.
    pub async fn stop(self) {
        self.hub.stop();
        let ended = self.hub.ended();
        if tokio::time::timeout(limits::SCRIPTED_STOP_PATIENCE, ended).await.is_err() {
            // A peer holds its connection open; the runtime closes it later.
        }
    }
}
