//! The wire types of the native face: requests, replies, problems, and the table of routes.
//!
//! Server and client share these types, so neither can drift. Envelopes of events are not here: they
//! are sent as the bytes that were stored. This crate must never know the engine.

pub mod admin;
pub mod body_faults;
pub mod export;
pub mod handbook;
pub mod openapi;
pub mod problem;
pub mod prompt;
pub mod query;
pub mod reply;
pub mod request;
pub mod routes;
pub mod scope;
pub mod sign_in;
pub mod spelling;
pub mod terms;
