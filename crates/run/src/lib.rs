//! The rules of a run: which events may come next, and what follows from them.
//!
//! Four functions. [`decide`] checks a command and returns events, [`apply`] folds an event into a
//! [`State`], [`outstanding`] lists the work that a run in that state needs, and [`audit`] checks a whole
//! run against the same grammar, written a second time. The grammar is [`RULES`]; `docs/grammar.md` is
//! generated from it.
//!
//! This crate must never know about async, I/O, clocks, randomness or JSON: texts inside
//! [`recount_event::Json`] are compared and passed on, never read.

mod apply;
mod audit;
mod command;
mod decide;
mod effect;
mod judge;
pub mod limits;
mod rejection;
mod rule;
mod state;
#[cfg(test)]
mod tests;
pub mod view;

pub use apply::apply;
pub use audit::{Auditor, Illegal, audit};
pub use command::{CallAnswer, CallResolution, CancelledBy, Command};
pub use decide::decide;
pub use effect::{Effects, Timer, Work, outstanding};
pub use rejection::Rejection;
pub use rule::{RULES, Reach, Rule, grammar_page};
pub use state::{Call, CallStage, Prompt, PromptKind, PromptName, RemainingLimits, State, Totals};
pub use view::{Status, Summary};

/// Built-in tools that ask people something instead of being executed.
pub const ASKING_TOOLS: &[&str] = &["ask_user", "hand_off"];
