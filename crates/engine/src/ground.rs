//! The ground of all rooms: errors, limits, the names of rows, the journal, counters, callers. Nothing here knows what is
//! above it, and nothing is async but reading the journal.

pub(crate) mod append;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod error;
pub(crate) mod identity;
pub(crate) mod journal;
pub(crate) mod owner;
pub(crate) mod row_pages;
pub(crate) mod rows;

pub use append::Receipt;
pub use error::{Error, Failure, Unacceptable};
pub use identity::{Caller, Narrowing, Scope};
pub use owner::Whose;
