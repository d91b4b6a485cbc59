//! A replay as subscribers meet it: over real sockets, on every surface.

#![allow(clippy::unwrap_used)]

mod fixture;
mod fresh;
mod listening;
mod replies;
mod surfaces;
