//! The Agent Accessibility Event Protocol (AAEP) as a library.
pub mod build;
pub mod field;
mod hash;
pub mod json;
pub mod kind;
pub mod language;
pub mod lex;
pub mod limits;
mod reading;
pub mod rule;
pub mod schema;
pub mod session;
pub mod shape;
pub mod table;
pub mod wire;

pub use kind::Kind;
pub use reading::Reading;
pub use table::MessageKind;
pub use wire::{Body, Event, Message, ParseError};
/// The version of the protocol that is spoken here.
pub const VERSION: &str = "1.0.0";
