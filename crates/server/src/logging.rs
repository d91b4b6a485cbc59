//! The server's own log: for operators, on standard error, without payloads.

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, fmt, registry};

use crate::config::{Config, LogFormat};

pub(crate) fn start(config: &Config) {
    let stderr = std::io::stderr;
    let layer = match config.log_format {
        LogFormat::Text => fmt::layer().with_writer(stderr).with_ansi(false).with_target(false).boxed(),
        LogFormat::Json => fmt::layer().json().with_writer(stderr).boxed(),
    };
    // A second start in one process (tests) keeps the first subscriber.
    if registry().with(layer.with_filter(config.log)).try_init().is_err() {
        tracing::debug!("a log is being written already");
    }
}
