//! The face for editors: an agent of a Recount server as an agent of ACP, the Agent Client Protocol, version 1.
//!
//! An editor starts the program and speaks JSON-RPC with it, one message a line. The program is a client of the server: a
//! session is a session of the server's face for applications, a prompt is a turn of it, and what the editor sees is
//! projected from the log. So the program keeps nothing: it can be killed and started again at any time.
//!
//! `accept`, `project`, `ask`, `offer`, `patch` and `rpc` are pure; `serve` is the only part that does I/O. The crate must
//! not know the engine, other faces or the command line. Look at [`serve`].

mod accept;
mod ask;
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
