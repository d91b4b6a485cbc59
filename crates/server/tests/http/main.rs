//! The native face over real sockets: what goes in and what comes out, byte for byte.
//!
//! [`wire`] writes and reads raw HTTP, [`house`] starts servers and tells runs; the rest are tests.

#![allow(clippy::unwrap_used)]

mod access;
mod admin;
mod artifacts;
mod audit;
mod bad_input;
mod closing;
mod contract;
mod cursors;
mod damage;
mod damaged_rows;
mod filters;
mod guide;
mod house;
mod import;
mod ingest;
mod kept_bytes;
mod lineage;
mod lists;
mod manners;
mod matrix;
mod metrics;
mod orders;
mod prompts;
mod quiet_listeners;
mod readers;
mod recorders;
mod retention;
mod routes;
mod salvage;
mod sessions;
mod shares;
mod slow_listeners;
mod sockets;
mod stored_bytes;
mod streams;
mod web_socket;
mod wire;
