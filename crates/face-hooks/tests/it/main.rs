//! The face against the real engine, without a socket: the tests that the server has over sockets, and the native
//! face to read what was recorded.

#![allow(clippy::unwrap_used)]

#[path = "../../../server/tests/it/hooks/agent.rs"]
mod agent;
mod held;
#[path = "../../../server/tests/it/hooks/irregular.rs"]
mod irregular;
mod otlp_logs;
mod otlp_traces;
mod otlp_wire;
#[path = "../../../server/tests/it/hooks/permissions.rs"]
mod permissions;
#[path = "../../../server/tests/it/hooks/recording.rs"]
mod recording;
mod slow_store;
mod test_context;
mod wire;
