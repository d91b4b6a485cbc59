//! The face for agents that read the log, MCP: tools, resources and events over `POST /mcp`.
//!
//! Each tool is a few requests to the native face, sent in process as the client of the request: this face has no rules,
//! no lists and no diffs of its own. [`accept`](mod@accept) reads messages of both eras of the protocol and
//! [`project`](mod@project) renders replies; both are pure. No state is kept between requests.
//!
//! Must not depend on other faces, stores or the agent crate: the server passes the native face in. Start with [`router`].

mod accept;
mod args;
mod event_types;
mod events;
pub mod limits;
mod native;
mod poll;
mod project;
mod push;
mod resources;
mod serve;
mod tools;
mod wire;

pub use serve::{PATH, router};
