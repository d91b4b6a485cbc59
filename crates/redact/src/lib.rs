//! Masking of secrets: known values, and strings that have the shape of one.
//!
//! Every byte of a secret becomes one `*`, so that offsets, sums and joined pieces still hold. The public
//! beginning of a shape (`sk-ant-`) stays, to show what was masked. [`Redactor`] masks whole texts and JSON;
//! [`StreamRedactor`] masks a text that comes in pieces and may hold some back; [`Redactor::online`] masks one
//! without holding anything back.
//!
//! This crate must never know about events, storage, configuration or the source of a secret. It has no state
//! but what it is given, reads no clock and draws no randomness.

mod detector;
mod escape;
mod json;
mod known;
pub mod limits;
mod redactor;
mod scan;
mod search;
mod stream;
mod stripped;

pub use detector::{TABLE as DETECTORS, describe};
pub use json::{JsonField, MaskedJson, with_paths};
pub use known::{Refused, Secret};
pub use redactor::Redactor;
pub use scan::MASK;
pub use stream::{Online, StreamRedactor};
