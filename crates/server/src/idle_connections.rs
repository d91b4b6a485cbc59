//! Connections to another server that are used again. See [`IdleConnections`]. It must not know what is sent.

use std::sync::{Mutex, PoisonError};

use axum::body::Body;
use hyper::client::conn::http1::SendRequest;

use crate::limits;

/// Connections to one server, each with at most one request.
#[derive(Default)]
pub(crate) struct IdleConnections(Mutex<Vec<SendRequest<Body>>>);

impl IdleConnections {
    /// One without a request.
    pub(crate) fn take(&self) -> Option<SendRequest<Body>> {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.is_closed());
        let at = connections.iter().position(SendRequest::is_ready)?;
        Some(connections.swap_remove(at))
    }

    /// Keeps one, whose response may still be read.
    pub(crate) fn put(&self, connection: SendRequest<Body>) {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if connections.len() < limits::IDLE_CONNECTIONS_MAX {
            connections.push(connection);
        } else if let Some(busy) = connections.iter_mut().find(|busy| !busy.is_ready()) {
            // Its stream goes on without being kept.
            *busy = connection;
        }
    }
}
