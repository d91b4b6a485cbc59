//! Exports ended runs as traces of OpenTelemetry, events as logs, and the figures of the server as metrics, over OTLP/HTTP.
//!
//! A follower per tenant and signal reads the feed from a stored position. When a run ends, its events are read from the store,
//! projected to spans ([`project`], pure) and sent. Nothing is held for open runs. Events become log records at once
//! ([`project::records`], pure). Start with [`Exporter`].
//!
//! It must not know faces, stores or the configuration.

mod backoff;
mod batch;
mod exporter;
mod figures;
mod follow;
pub mod ids;
pub mod limits;
mod lineage;
mod logs;
pub mod metrics;
mod outbox;
pub mod project;
pub mod proto;
mod send;
mod settings;
mod traces;

pub use exporter::Exporter;
pub use figures::{ExportFigures, Failing, SignalFigures};
pub use settings::{Endpoint, ExportSettings, Headers, Signal, pairs};
