//! What readers are shown: pure folds, never a source of truth.

mod summary;

pub use summary::{Ending, OpenPrompt, PromptDefault, Status, Summary};
