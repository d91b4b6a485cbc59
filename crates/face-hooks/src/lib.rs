//! The face for hooks of other agents: `POST /hooks/{agent}/{event}` records what an agent reports.
//!
//! A session of the agent is a session here; each prompt is an external run in it. `recount-record` translates hooks to
//! events; one task per session ([`session`](mod@session)) keeps the order and appends. With `?ask=1` a permission
//! request is held open until a face of Recount answers it.
//!
//! Must not depend on other faces, stores or the agent crate. Start with [`router`].

mod counted;
mod error;
mod face_state;
pub mod limits;
mod open_run;
mod serve;
mod session;

pub use face_state::FaceState;
pub use serve::router;
