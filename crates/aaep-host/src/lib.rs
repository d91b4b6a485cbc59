//! Serves a producer of the Agent Accessibility Event Protocol over HTTP and WebSocket: routes, statuses, event
//! streams, close codes and bounds, on the specification's surface (`/aaep/v1`) and on the legacy surface (`/events`).
//!
//! Implement [`Producer`] and pass it to [`service`], or to [`routes`] to merge them with other routes. This crate must
//! not know what a producer's events mean, where they are stored, or which program opened the socket.

mod close;
mod gate;
mod policy;
mod problem;
mod producer;
mod requests;
pub mod response;
mod socket;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{any, get, post};

pub use close::Close;
pub use policy::{LegacySurface, Pages, Policy, Preflight, Sockets};
pub use problem::{Problem, Route};
pub use producer::{Feed, Handshake, Item, Producer, Rejected, Reply, Source, StreamRoute};

/// The path of the manifest.
pub const MANIFEST: &str = "/.well-known/aaep-manifest.json";

/// The subprotocol of the specification's WebSocket.
pub const SUBPROTOCOL: &str = "aaep.v1";

/// The routes of a producer, with a 404 response at every other path.
pub fn service<P: Producer>(producer: Arc<P>) -> Router {
    gated(bare_routes(producer.policy()).fallback(requests::not_found::<P>), producer)
}

/// The routes of a producer alone, to be merged with others.
pub fn routes<P: Producer>(producer: Arc<P>) -> Router {
    gated(bare_routes(producer.policy()), producer)
}

fn gated<P: Producer>(router: Router<Arc<P>>, producer: Arc<P>) -> Router {
    router.layer(middleware::from_fn_with_state(producer.clone(), gate::gate::<P>)).with_state(producer)
}

fn bare_routes<P: Producer>(policy: &Policy) -> Router<Arc<P>> {
    let mut router = Router::new()
        .route("/aaep/v1/subscriptions", post(requests::subscriptions::<P>))
        .route("/aaep/v1/events", get(stream::versioned::<P>))
        .route("/aaep/v1/replies", post(requests::replies::<P>))
        .route("/aaep/v1/ws", any(socket::versioned::<P>));
    if policy.manifest {
        router = router.route(MANIFEST, get(requests::manifest::<P>));
    }
    let Some(LegacySurface { base, sessions }) = policy.legacy else { return router };
    if sessions {
        router = router.route(&format!("{base}/sessions"), post(requests::sessions::<P>));
    }
    router
        .route(&format!("{base}/events"), get(stream::legacy::<P>))
        .route(&format!("{base}/messages"), post(requests::messages::<P>))
        .route(&format!("{base}/healthz"), get(requests::health::<P>))
        .route(&format!("{base}/ws"), any(socket::legacy::<P>))
}
