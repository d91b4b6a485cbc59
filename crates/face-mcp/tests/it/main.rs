//! The face against the real engine and the native face, without a socket.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod eras;
mod events;
mod test_context;
mod tools;
