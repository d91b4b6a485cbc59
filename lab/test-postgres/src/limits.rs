//! Limits of a test's PostgreSQL, and what happens at each.

/// Ports that are tried until one is free at the moment when PostgreSQL binds it. Then the start fails.
pub(crate) const PORTS_TRIED_MAX: usize = 8;

/// Lines of PostgreSQL's log that are kept for messages. Beyond it the oldest is dropped.
pub(crate) const LOG_LINES_MAX: usize = 200;
