//! The native face: the agent event protocol (AEP) over HTTP and server-sent events.
//!
//! Its wire types and routes are in `recount-api`, shared with clients, so there is no `wire.rs` here.
//! [`accept`](mod@accept) turns requests into commands and [`project`](mod@project) turns rows and stored
//! bytes into replies; both are pure. [`serve`](mod@serve) is the only async file. Events leave as
//! the bytes that were stored, in pages and in streams alike.
//!
//! It must never know other faces, stores or the agent.

mod accept;
mod error;
mod face_state;
pub mod limits;
mod project;
mod serve;
mod stream;

pub use accept::export as read_export;
pub use error::Refusal;
pub use face_state::FaceState;
pub use serve::{REPLAYED, check_query, encoded, identified, method_not_allowed, mount, router, status_of};
pub use stream::SseFraming;
