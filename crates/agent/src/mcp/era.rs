//! The two eras of the protocol, and their versions.
//!
//! Pure. It must not know how servers are reached.

use std::sync::{Mutex, PoisonError};

/// Versions with a handshake, the newest first.
pub(crate) const WITH_INITIALIZE: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The version in which every request stands for itself.
pub(crate) const STATELESS: &str = "2026-07-28";

/// How a connection starts, and what goes with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolEra {
    Initialize,
    Stateless,
}

/// Which one a server spoke when it was last reached.
#[derive(Debug, Default)]
pub(crate) struct KnownEra(Mutex<Option<ProtocolEra>>);

impl KnownEra {
    pub(crate) fn get(&self) -> Option<ProtocolEra> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, era: Option<ProtocolEra>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = era;
    }
}
