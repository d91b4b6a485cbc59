//! Whole sessions against the rules: what may follow what. [`Checker`] is fed with texts in the order in which they
//! were sent, events of many sessions mixed, replies and handshakes among them as context.
//!
//! Memory is bounded: by the sessions that are open ([`crate::limits::SESSIONS_OPEN_MAX`]) and by windows of ids
//! ([`crate::limits::EVENT_ID_WINDOW`] and its neighbours).

mod call;
mod checker;
mod handshake;
pub mod order;
mod presumed;
mod prompts;
mod reply;
mod stand;
mod states;
mod stream;
mod tools;
mod track;
mod view;

pub use checker::{Checker, Options, Took};
pub use prompts::Standing;
pub use view::View;
