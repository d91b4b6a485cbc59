//! The face for editors: exposes an agent of a Recount server over ACP, the Agent Client Protocol, version 1.
//!
//! An editor starts the program and exchanges JSON-RPC with it, one message per line. The program is a client of the
//! server: a session is a session of the server's face for applications, a prompt is a turn of it, and updates are
//! projected from the log. The program stores nothing, so it can be killed and restarted at any time.
//!
//! `accept`, `project`, `editor_prompt`, `offer`, `patch` and `rpc` are pure; `serve` is the only part that does I/O.
//! The crate must not depend on the engine, other faces or the command line. Start with [`serve`].

mod accept;
mod editor_prompt;
mod error;
pub mod limits;
mod offer;
mod patch;
mod project;
mod rpc;
mod serve;
#[cfg(test)]
mod stories;

pub use serve::{Options, serve};
