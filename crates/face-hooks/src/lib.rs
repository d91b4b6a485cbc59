//! The face for reports of other agents: `POST /hooks/{agent}/{event}` records their hooks, and `POST /otlp/v1/…` their logs
//! and spans of OpenTelemetry.
//!
//! A session of the agent is a session here; each prompt is an external run in it. `recount-record` translates hooks to
//! events; one task per session ([`session`](mod@session)) keeps the order and appends. With `?ask=1` a permission
//! request is held open until a face of Recount answers it. Telemetry of Claude Code joins the runs of its session; a trace with
//! spans of the GenAI conventions is an external run ([`trace`](mod@trace)).
//!
//! Must not depend on other faces, stores or the agent crate. Start with [`router`].

mod counted;
mod error;
mod face_state;
pub mod limits;
mod open_run;
mod otlp;
mod otlp_state;
mod request;
mod serve;
mod session;
mod trace;

pub use face_state::FaceState;
pub use otlp_state::OtlpFigures;
pub use serve::router;
