//! Our own runs from beginning to end: a real engine on a store in memory, real tools in real folders, and models that
//! play scripts.

#![allow(clippy::unwrap_used)]

mod calls;
mod endings;
mod people;
mod plain;
mod recovery;
mod scene;
mod store;
