//! The lowest layer: errors, row names, the journal, counters, callers. It must not depend on any layer above. Only
//! reading the journal is async.

pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod error;
pub(crate) mod identity;
pub(crate) mod journal;
pub(crate) mod row_pages;
pub(crate) mod rows;

pub use error::{Error, Failure, Unacceptable};
pub use identity::{Caller, Narrowing, Scope};
