//! The face for applications: the agent application protocol (AAP v3) over HTTP and server-sent events.
//!
//! [`wire`] words the protocol's types, `accept` turns requests into commands and `project` turns events into frames;
//! both are pure. `serve` is the only file that waits. One turn of the protocol is one segment of a run: from its
//! beginning, or from where it was continued, to where it waits for others, or ends.
//!
//! It must never know other faces, stores or the agent.

mod accept;
mod error;
pub mod limits;
pub mod project;
mod serve;
mod turn_header;
pub mod wire;

pub use error::refusal_response;
pub use serve::{FaceState, router};
