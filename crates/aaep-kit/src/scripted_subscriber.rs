//! A scripted subscriber: it does everything right, at every level and on every surface, or exactly one thing wrong.
//! Conformance tests of subscribers are tested on it, and it is a small example of a subscriber. It shows nothing to
//! people; on request it answers prompts by a rule.
//!
//! Entry: [`run`], with a [`SubscriberBehaviour`]; [`Fault`] lists what it can do wrong. The program is
//! `recount-aaep-subscriber`.

mod client;
mod fault;
mod mind;

use std::future::Future;
use std::time::Duration;

use recount_world::World;

pub use fault::Fault;

/// How prompts are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// Not at all.
    Never,
    Accept,
    Reject,
}

/// Which of a producer's surfaces is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriberSurface {
    /// `/aaep/v1/subscriptions`, `events` and `replies`.
    Versioned,
    /// `/events` and `/messages`, with a handshake.
    Legacy,
    /// The same without one.
    LegacyBare,
    /// `/aaep/v1/ws`.
    Socket,
}

impl SubscriberSurface {
    pub const ALL: [SubscriberSurface; 4] = [
        SubscriberSurface::Versioned,
        SubscriberSurface::Legacy,
        SubscriberSurface::LegacyBare,
        SubscriberSurface::Socket,
    ];

    pub fn name(self) -> &'static str {
        match self {
            SubscriberSurface::Versioned => "versioned",
            SubscriberSurface::Legacy => "legacy",
            SubscriberSurface::LegacyBare => "legacy-bare",
            SubscriberSurface::Socket => "socket",
        }
    }
}

/// What it does.
#[derive(Debug, Clone)]
pub struct SubscriberBehaviour {
    pub fault: Option<Fault>,
    pub replies: Replies,
    pub surface: SubscriberSurface,
    /// The level that it claims.
    pub level: u8,
    /// How long it thinks about a prompt.
    pub thinks: Duration,
    /// A bearer token that it brings.
    pub token: Option<String>,
}

impl SubscriberBehaviour {
    /// Right, at the highest level, accepting at once.
    pub fn right() -> SubscriberBehaviour {
        SubscriberBehaviour {
            fault: None,
            replies: Replies::Accept,
            surface: SubscriberSurface::Versioned,
            level: 3,
            thinks: Duration::ZERO,
            token: None,
        }
    }
}

/// Why it ended by itself.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SubscriberError(String);

/// Subscribes at a base address (`http://127.0.0.1:PORT`) and stays, over cuts and refusals, until `stop` is ready; then
/// it closes its subscription.
pub async fn run(
    world: &World,
    url: &str,
    behaviour: SubscriberBehaviour,
    stop: impl Future<Output = ()>,
) -> Result<(), SubscriberError> {
    client::Client::new(world, url, behaviour)?.run(stop).await
}
