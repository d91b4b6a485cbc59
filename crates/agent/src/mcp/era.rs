//! The two eras of the MCP protocol, and their versions.
//!
//! Pure. The module must not depend on how servers are connected.

use std::sync::{Mutex, PoisonError};

/// Versions with a handshake, newest first.
pub(crate) const WITH_INITIALIZE: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The version without a handshake, in which every request is self-contained.
pub(crate) const STATELESS: &str = "2026-07-28";

/// Which handshake and which request fields a connection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtocolEra {
    Initialize,
    Stateless,
}

/// The era that a server used at the last connection.
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
