//! The native face: the agent event protocol (AEP) over HTTP and server-sent events.
//!
//! Its wire types and routes are in `recount-api`, which clients share, so there is no `wire.rs` here.
//! [`accept`](mod@accept) converts requests to commands and [`project`](mod@project) converts rows and stored bytes to
//! replies; both are pure. [`serve`](mod@serve) is the only async part. Events are sent as the stored bytes, in pages
//! and streams alike.
//!
//! Must not depend on other faces, stores or the agent.

mod accept;
mod error;
mod face_state;
pub mod limits;
mod project;
mod serve;
mod stream;

pub use accept::{export as read_export, type_pattern};
pub use error::Refusal;
pub use face_state::FaceState;
pub use project::{Prompt as ShownPrompt, single_prompt as shown_prompt};
pub use serve::{
    DryRun, REPLAYED, check_query, encoded, identified, method_not_allowed, mount, router, status_of,
};
pub use stream::SseFraming;
