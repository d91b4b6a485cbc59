//! The event model: event types, envelope, identifiers, and the codec for stored bytes.
//!
//! [`Event`] is a fact with its sequence in a run. Its [`Payload`] is one of the types of the
//! [`registry`], the single table from which the reference page, the JSON Schemas and the lock
//! file are made. [`codec`] turns events into the stored bytes (which are also the wire bytes) and
//! back; [`door`] checks JSON that comes from outside and removes its white space.
//!
//! This crate must never know about storage, about clocks (time and entropy come in a [`Stamp`]) or
//! about any protocol but its own.

pub mod code;
pub mod codec;
pub mod digest;
pub mod door;
mod event;
pub mod family;
mod id;
mod json;
pub mod limits;
mod prompt;
pub mod registry;
mod stamp;
pub mod time;

pub use code::Code;
pub use event::{Draft, Event, Payload, Receipt};
pub use id::{EventId, ForeignId, IdError, RunId, SessionId, TaskId, TokenId};
pub use json::Json;
pub use prompt::{PromptEvent, PromptKind, PromptName, PromptStep};
pub use registry::schema;
pub use stamp::{Minter, Stamp};
