//! A client of the native face: typed calls, and tails that resume by themselves.
//!
//! [`Client`] has a method for each route. [`Tail`] follows a run or the feed over any number of
//! connections and returns each event once. Envelopes are passed on as the bytes the server sent;
//! this crate must never know their content, nor anything of the engine. [`aap`] is a client of another protocol, for
//! any server that speaks it.

pub mod aap;
mod client;
mod error;
pub mod limits;
mod socket_url;
mod source;
mod tail;

/// Futures are boxed so that their bodies are compiled here, once (`docs/decisions/0085`).
pub(crate) use async_recursion::async_recursion as boxed;

pub use client::{
    ArtifactStream, Client, EventsPage, HookPost, Listing, bearer, connections, is_on_this_machine,
};
pub use error::ClientError;
pub use recount_api::{admin, export, problem, prompt, query, reply, request, routes, scope, sign_in};
// What programs that follow runs measure time with, and the clock that they write times from.
pub use recount_world::{Clock, Kind, SystemClock, World, moment, thread};
pub use socket_url::{is_socket, request_url, url_below};
pub use source::{Filter, Source};
pub use tail::{Tail, TailItem, Until};
