//! Head comes with the rest.
pub mod json;
pub mod limits;
