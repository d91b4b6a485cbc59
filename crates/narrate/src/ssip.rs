//! A client of speech-dispatcher over SSIP, its text protocol, on a Unix socket or TCP: [`SsipClient`].
//!
//! Sends utterances and reports their beginnings and ends. Must not depend on AAEP.

mod address;
mod client;
mod codec;
mod error;
mod start;

pub use address::SsipAddress;
pub use client::{SpeechEvent, SsipClient, VoiceSettings};
pub use error::SsipError;
