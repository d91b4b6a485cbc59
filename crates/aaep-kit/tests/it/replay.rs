//! Replays as subscribers see them: over real sockets, on every surface.

#![allow(clippy::unwrap_used)]

mod fixture;
mod fresh;
mod listening;
mod replies;
mod surfaces;
