//! Masking of secrets: known values, and strings that have the shape of one.
//!
//! Every byte of a secret becomes one `*`, so that offsets, sums and joined pieces still hold. The public
//! beginning of a shape (`sk-ant-`) stays: it says what was there. [`Redactor`] masks whole texts and JSON;
//! [`StreamRedactor`] a text that comes in pieces, where something may be held back; [`Redactor::online`] one
//! where nothing may.
//!
//! This crate must never know about events, storage, configuration or where a secret came from. It has no state
//! but what it is given, reads no clock and draws no randomness.

mod detector;
mod json;
mod known;
pub mod limits;
mod redactor;
mod scan;
mod search;
mod stream;

pub use detector::{TABLE as DETECTORS, describe};
pub use json::{JsonField, MaskedJson, with_paths};
pub use known::{Refused, Secret};
pub use redactor::Redactor;
pub use scan::MASK;
pub use stream::{Online, StreamRedactor};
