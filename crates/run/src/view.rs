//! What readers are shown: pure folds, never a source of truth.

mod message;
mod summary;

pub use message::{Message, Outcome, message};
pub use summary::{Ending, OpenPrompt, PromptDefault, Status, Summary};
