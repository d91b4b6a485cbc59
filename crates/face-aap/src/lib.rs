//! The face for applications: the agent application protocol (AAP v3) over HTTP and server-sent events.
//!
//! [`wire`] has the protocol's types, `accept` converts requests to commands and `project` converts events to frames;
//! both are pure. `serve` is the only async part. One turn of the protocol is one segment of a run: from its start or
//! continuation to where it waits or ends.
//!
//! Must not depend on other faces, stores or the agent.

mod accept;
mod error;
pub mod limits;
pub mod project;
mod serve;
mod turn_header;
pub mod wire;

pub use error::refusal_response;
pub use serve::{FaceState, router};
