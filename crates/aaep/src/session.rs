//! Checks whole sessions against the rules of order. [`Checker`] takes texts in sending order: events of several
//! sessions, with replies and handshakes as context.
//!
//! Memory is bounded: by the sessions that are open ([`crate::limits::SESSIONS_OPEN_MAX`]) and by windows of ids
//! ([`crate::limits::EVENT_ID_WINDOW`] and its neighbours).

mod call;
mod checker;
mod event_context;
mod handshake;
pub mod order;
mod presumed;
mod prompts;
mod reply;
mod states;
mod stream;
mod tools;
mod track;
mod view;

pub use checker::{Checker, InputKind, Options};
pub use prompts::PromptStatus;
pub use view::SessionView;
