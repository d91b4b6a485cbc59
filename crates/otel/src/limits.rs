//! Limits of the export, and what happens at each.

use std::time::Duration;

/// Bytes of a text or of the messages in one attribute, if contents are exported. Longer ones are cut, and the span has
/// `recount.contents_cut`.
pub const CONTENT_BYTES_MAX: usize = 32 << 10;

/// Bytes that a part of a message counts besides its text.
pub const PART_BYTES: usize = 64;

/// Characters of a status message.
pub const STATUS_CHARS_MAX: usize = 1_000;

/// Bytes of the name of a recorder's source; a longer one is not exported.
pub const SOURCE_BYTES_MAX: usize = 256;

/// Spans or log records of one request; with more, the next request starts.
pub const BATCH_SPANS_MAX: usize = 512;

/// Bytes of the spans or log records of one request after which the next request starts. One of them may exceed it.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// How long finished spans and log records wait for others; then they are sent.
pub const BATCH_WAIT: Duration = Duration::from_secs(1);

/// Events of a run that are read at a time.
pub const PAGE_EVENTS: usize = 500;

/// How long an endpoint may take to accept a connection; then the request has failed.
pub const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// How long an endpoint may take to answer a request; then the request has failed.
pub const SEND_WAIT: Duration = Duration::from_secs(30);

/// How long an idle connection to an endpoint is kept.
pub const CONNECTION_IDLE: Duration = Duration::from_secs(30);

/// Bytes that are read of the response of an endpoint; the rest is ignored.
pub const RESPONSE_BYTES_MAX: usize = 16 << 10;

/// Characters of a response that the log and the doctor show.
pub const RESPONSE_CHARS_SHOWN: usize = 200;

/// The pause after the first failed request; it doubles with each further one, up to [`RETRY_WAIT_MAX`].
pub const RETRY_WAIT: Duration = Duration::from_secs(1);

/// The longest pause between two attempts, unless the endpoint demands a longer one.
pub const RETRY_WAIT_MAX: Duration = Duration::from_secs(60);

/// Refused requests of a batch without one that is taken, after which a probe decides whether the endpoint refuses everything. If it
/// takes the probe, the next one of this batch comes after four times as many, and a pause of [`RETRY_WAIT`]. It exceeds the
/// halvings of a batch, so that an item was refused alone before.
pub const REFUSALS_BEFORE_PROBE: usize = 16;

/// The longest `Retry-After` that is honoured; a longer one counts as this.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// How often the position of an export is stored while it advances. After a crash, what is after it is exported again, with
/// the same ids.
pub const CURSOR_EVERY: Duration = Duration::from_secs(5);

/// How long a stopping server tries to send finished spans and log records; then they are sent after the next start.
pub const STOP_WAIT: Duration = Duration::from_secs(2);

/// Runs above a child run that are looked at to find the first one; beyond that the last one found counts as it.
pub const ANCESTORS_MAX: usize = 64;

/// Open runs of a tenant whose traces and turns are kept for their next log records, as many as can be active. With more, the
/// least recently used one is forgotten, and read from the store when it is needed.
pub const RUNS_KEPT_MAX: usize = 20_000;

/// Attribute sets of one metric of model turns and one tenant. Turns with further ones count in one set, with `otel.metric.overflow`.
pub const METRIC_SETS_MAX: usize = 100;

/// Bytes of one value in these sets. Turns with a longer one count in the set of the others.
pub const METRIC_VALUE_BYTES_MAX: usize = 256;

/// How often metrics are sent. A failed attempt is not repeated before.
pub const METRICS_EVERY: Duration = Duration::from_secs(60);
