//! Paths in calls, where no workspace can be opened: policy and hooks read them. Pure.
//!
//! `crate::paths` is this module on Windows.

#[path = "../paths/error.rs"]
mod error;
#[path = "../paths/limits.rs"]
pub mod limits;
#[path = "../paths/place.rs"]
mod place;
#[path = "../paths/revision.rs"]
mod revision;

pub use error::PathError;
pub use place::WorkspacePath;
pub use revision::revision;
