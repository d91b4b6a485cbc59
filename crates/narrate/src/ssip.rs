//! A client of speech-dispatcher over SSIP, its text protocol, on a Unix socket or TCP: [`SsipClient`].
//!
//! It speaks utterances and reports where they begin and end. It must not know AAEP.

mod address;
mod client;
mod codec;
mod error;
mod start;

pub use address::SsipAddress;
pub use client::{SpeechEvent, SsipClient, VoiceSettings};
pub use error::SsipError;
