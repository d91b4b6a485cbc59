//! Checks single events and messages against the rules. [`ALL`] is the table of rules; [`check`] checks a single event.
//! [`crate::session`] checks whole sessions.

mod check;
mod finding;
mod lint;
mod measure;
mod message;
mod secret;
mod spoken;

pub use check::{check, check_event, check_text};
pub(crate) use check::{not_an_object, syntax};
pub use finding::{Finding, Findings};
pub(crate) use lint::is_combining;
pub(crate) use measure::{Risk, stakes};
pub use message::check_message;

pub(crate) use crate::quote::{bounded, quote};
pub use crate::rules::*;
pub use crate::table::message_kind;
