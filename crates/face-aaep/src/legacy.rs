//! The surface in use: rooms at `/aaep/legacy/{room}`, for subscribers and tools that were written before `/aaep/v1`.
//!
//! A room is a set of runs ([`scope`]). Its readers need no handshake: [`feed`] gives them a stream of the face with
//! what old clients expect, and [`receive`] takes what they send. It must not know sockets, nor how runs are projected.

mod compat;
mod feed;
mod prompts;
mod receive;
mod room;
mod scope;

use std::future::Future;
use std::pin::Pin;

use recount_engine::{Engine, Error};
use recount_event::{RunId, SessionId};

pub(crate) use feed::RoomFeed;
pub(crate) use receive::{RoomCaller, receive, start};
pub(crate) use room::{RoomKey, RoomReader, Rooms};
pub(crate) use scope::RoomScope;

/// An agent that a room has: it begins a run for each input.
pub trait RoomAgent: Send + Sync + 'static {
    /// The name of the room.
    fn room(&self) -> &str;

    /// Where its runs are.
    fn engine(&self) -> &Engine;

    /// The session that all its runs are of.
    fn session(&self) -> SessionId;

    /// Begins a run for an input; its first event is durable when this returns.
    fn begin(&self, input: &str) -> Pin<Box<dyn Future<Output = Result<RunId, Error>> + Send + '_>>;
}
