//! Exports ended runs as traces of OpenTelemetry, and the figures of the server as metrics, over OTLP/HTTP.
//!
//! A follower per tenant reads the feed from a stored position. When a run ends, its events are read from the store,
//! projected to spans ([`project`], pure) and sent. Nothing is held for open runs. Start with [`Exporter`].
//!
//! It must not know faces, stores or the configuration.

mod batch;
mod exporter;
mod figures;
mod follow;
pub mod ids;
pub mod limits;
pub mod metrics;
pub mod project;
pub mod proto;
mod send;
mod settings;

pub use exporter::Exporter;
pub use figures::{ExportFigures, Failing};
pub use settings::{Endpoint, ExportSettings, Headers, pairs};
