//! The legacy surface: rooms at `/aaep/legacy/{room}`, for subscribers and tools that were written before `/aaep/v1`.
//!
//! A room is a set of runs ([`scope`]). Its readers need no handshake: [`feed`] gives them a stream with the fields
//! that old clients expect, and [`receive`] handles their messages. Must not depend on sockets or on how runs are
//! projected.

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

/// The agent of a room. It starts a run for each input.
pub trait RoomAgent: Send + Sync + 'static {
    /// The name of the room.
    fn room(&self) -> &str;

    /// The engine of its runs.
    fn engine(&self) -> &Engine;

    /// The session of all its runs.
    fn session(&self) -> SessionId;

    /// Starts a run for an input; its first event is durable when this returns.
    fn begin(&self, input: &str) -> Pin<Box<dyn Future<Output = Result<RunId, Error>> + Send + '_>>;
}
