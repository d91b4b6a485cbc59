//! The accessibility face: runs as sessions of AAEP, for screen readers and other assistive technology.
//!
//! [`project`] maps the events of a run to events of the protocol; [`speech`] renders their texts in the language of
//! the subscriber. Neither reads a clock, draws randomness or does I/O. `serve` is the face in a server: subscriptions,
//! streams and replies. Must not depend on stores, agents or other faces.

mod delivery;
mod error;
mod legacy;
pub mod limits;
mod manifest;
pub mod project;
mod projections;
mod replies;
mod reply_state;
mod reply_tokens;
mod request;
mod resume;
mod sending;
mod serve;
pub mod speech;
mod subscription;
mod traffic;
mod view;

pub use error::refusal_response;
pub use legacy::RoomAgent;
pub use recount_aaep_host::MANIFEST;
pub use reply_state::{AttemptLog, Outcome, ReplyAttempt};
pub use reply_tokens::TokenKey;
pub use serve::{FaceFigures, FaceState, router};
