//! A scripted subscriber: correct at every level and on every surface, or with exactly one fault. Conformance tests of
//! subscribers are tested with it, and it is a small example of a subscriber. It displays nothing; it can answer
//! prompts by a rule.
//!
//! Entry: [`run`], with a [`SubscriberBehaviour`]; [`Fault`] lists its faults. The program is
//! `recount-aaep-subscriber`.

mod client;
mod fault;
mod reactions;

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

/// The producer's surface to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriberSurface {
    /// `/aaep/v1/subscriptions`, `events` and `replies`.
    Versioned,
    /// `/events` and `/messages`, with a handshake.
    Legacy,
    /// The same without a handshake.
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

/// How the subscriber behaves.
#[derive(Debug, Clone)]
pub struct SubscriberBehaviour {
    pub fault: Option<Fault>,
    pub replies: Replies,
    pub surface: SubscriberSurface,
    /// The level that it declares.
    pub level: u8,
    /// The delay before it answers a prompt.
    pub reply_delay: Duration,
    /// Its bearer token.
    pub token: Option<String>,
}

impl SubscriberBehaviour {
    /// Correct, at the highest level, accepting at once.
    pub fn right() -> SubscriberBehaviour {
        SubscriberBehaviour {
            fault: None,
            replies: Replies::Accept,
            surface: SubscriberSurface::Versioned,
            level: 3,
            reply_delay: Duration::ZERO,
            token: None,
        }
    }
}

/// Why it ended by itself.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SubscriberError(String);

/// Subscribes at a base address (`http://127.0.0.1:PORT`) and reconnects after cuts and refusals until `stop`
/// resolves; then it closes its subscription.
pub async fn run(
    world: &World,
    url: &str,
    behaviour: SubscriberBehaviour,
    stop: impl Future<Output = ()>,
) -> Result<(), SubscriberError> {
    client::Client::new(world, url, behaviour)?.run(stop).await
}
