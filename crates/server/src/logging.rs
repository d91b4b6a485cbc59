//! The server's own log on standard error: for operators, without payloads and without secrets.

use std::io::{self, Write};
use std::sync::Arc;

use recount_engine::Redactor;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, fmt, registry};

use crate::config::LogFormat;

/// The target of lines about the process itself, which are written whatever the level is.
pub(crate) const PROCESS: &str = "process";

pub(crate) fn start(level: LevelFilter, format: LogFormat, redactor: &Arc<Redactor>) {
    let json = format == LogFormat::Json;
    let redactor = redactor.clone();
    let writer = move || Masking { redactor: redactor.clone(), json, out: io::stderr() };
    let layer = match format {
        LogFormat::Text => fmt::layer().with_writer(writer).with_ansi(false).with_target(false).boxed(),
        LogFormat::Json => fmt::layer().json().with_writer(writer).boxed(),
    };
    let filter = Targets::new().with_default(level).with_target(PROCESS, LevelFilter::INFO.max(level));
    // A second start in one process (tests) keeps the first subscriber.
    if registry().with(layer.with_filter(filter)).try_init().is_err() {
        tracing::debug!("a logger is already installed");
    }
}

/// Writes panics to the log, masked and in its format, and nowhere else.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let words = panic.payload_as_str().unwrap_or("a panic without a message");
        tracing::error!(target: PROCESS, place, thread = thread.name().unwrap_or("unnamed"), "bug: {words}");
    }));
}

/// Masks what is written. The log writes a line at a time, so no secret is cut.
struct Masking<W> {
    redactor: Arc<Redactor>,
    json: bool,
    out: W,
}

impl<W: Write> Write for Masking<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let masked = match std::str::from_utf8(line) {
            // Secrets in JSON are escaped, so the line is parsed to find them.
            Ok(text) if self.json => {
                self.redactor.json(text, None, &|_| false).map(|masked| masked.text.into())
            }
            _ => None,
        };
        let masked: Vec<u8> = masked.unwrap_or_else(|| self.redactor.bytes(line).into_owned());
        self.out.write_all(&masked)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recount_redact::Secret;

    #[test]
    fn lines_are_masked_whatever_their_form() {
        let secret = Secret::new("get \"please\" twice").unwrap();
        let redactor = Arc::new(Redactor::new(vec![secret], true));
        for (json, line, wanted) in [
            (false, "WARN it was get \"please\" twice\n", "WARN it was ******************\n"),
            (true, "{\"m\":\"get \\\"please\\\" twice\"}\n", "{\"m\":\"******************\"}\n"),
            (true, "{\"m\":\"nothing\"}\n", "{\"m\":\"nothing\"}\n"),
        ] {
            let mut masking = Masking { redactor: redactor.clone(), json, out: Vec::new() };
            assert_eq!(masking.write(line.as_bytes()).unwrap(), line.len());
            assert_eq!(String::from_utf8(masking.out).unwrap(), wanted);
        }
    }
}
