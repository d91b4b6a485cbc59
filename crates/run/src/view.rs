//! Views for readers: pure folds, never a source of truth.

mod history;
mod message;
mod places;
mod summary;
mod trimmed;

pub use crate::state::Status;
pub use history::{
    AnswerBlock, Block, BlockStatus, CUT_OFF_NOTE, History, Line, Output, Placed, handoff_text, question,
};
pub use message::{Message, Outcome, message};
pub use places::{FilesAt, ResumePlaces};
pub use summary::{Ending, OpenPrompt, PromptDefault, Summary};
pub use trimmed::trimmed;
