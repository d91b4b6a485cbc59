//! Items that wait to be sent, spans or log records, and the request that they become.
//!
//! It must not know how requests are sent. Start with [`Batch`].

use std::ops::Range;

use prost::Message;
use recount_world::World;

use crate::limits;
use crate::project::attributes::SCHEMA_URL;
use crate::proto::{
    AnyValue, ExportRequest, InstrumentationScope, KeyValue, LogRecord, LogsRequest, Resource, ResourceLogs,
    ResourceSpans, ScopeLogs, ScopeSpans, Severity, Span, SpanKind,
};
use crate::settings::{ExportSettings, Signal};

/// The name of probes.
const PROBE: &str = "recount.export.probe";

/// What a signal sends.
pub(crate) trait Item: Message + Clone + 'static {
    const SIGNAL: Signal;
    /// In the log of the server.
    const NOUN: &'static str;

    /// The name of this one, in the log of the server.
    fn name(&self) -> &str;

    /// One without contents, of now, that shows whether an endpoint takes any. It has the id.
    fn probe(now_ns: u64, id: u128) -> Self;

    /// The request with these items, encoded.
    fn request(resource: Resource, scope: InstrumentationScope, items: Vec<Self>) -> Vec<u8>;
}

impl Item for Span {
    const SIGNAL: Signal = Signal::Traces;
    const NOUN: &'static str = "span";

    fn name(&self) -> &str {
        &self.name
    }

    fn probe(now_ns: u64, id: u128) -> Self {
        Span {
            trace_id: id.to_be_bytes().to_vec(),
            span_id: id.to_le_bytes()[..8].to_vec(),
            name: PROBE.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: now_ns,
            end_time_unix_nano: now_ns,
            ..Span::default()
        }
    }

    fn request(resource: Resource, scope: InstrumentationScope, spans: Vec<Span>) -> Vec<u8> {
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, schema_url: SCHEMA_URL.to_owned() }];
        let resource = Some(resource);
        ExportRequest { resource_spans: vec![ResourceSpans { resource, scope_spans }] }.encode_to_vec()
    }
}

impl Item for LogRecord {
    const SIGNAL: Signal = Signal::Logs;
    const NOUN: &'static str = "log record";

    fn name(&self) -> &str {
        &self.event_name
    }

    fn probe(now_ns: u64, id: u128) -> Self {
        LogRecord {
            time_unix_nano: now_ns,
            observed_time_unix_nano: now_ns,
            severity_number: Severity::Info.into(),
            severity_text: Severity::Info.text().to_owned(),
            body: Some(AnyValue { value: Some(PROBE.into()) }),
            attributes: vec![KeyValue::new("log.record.uid", format!("{id:032x}"))],
            event_name: PROBE.to_owned(),
            ..LogRecord::default()
        }
    }

    fn request(resource: Resource, scope: InstrumentationScope, log_records: Vec<LogRecord>) -> Vec<u8> {
        let scope_logs =
            vec![ScopeLogs { scope: Some(scope), log_records, schema_url: SCHEMA_URL.to_owned() }];
        let resource = Some(resource);
        LogsRequest { resource_logs: vec![ResourceLogs { resource, scope_logs }] }.encode_to_vec()
    }
}

/// Items of one tenant, in their order.
pub(crate) struct Batch<I> {
    resource: Resource,
    items: Vec<I>,
    bytes: usize,
}

impl<I: Item> Batch<I> {
    pub(crate) fn new(settings: &ExportSettings, tenant: &str) -> Self {
        Batch { resource: resource(settings, Some(tenant)), items: Vec::new(), bytes: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= limits::BATCH_SPANS_MAX || self.bytes >= limits::BATCH_BYTES_MAX
    }

    pub(crate) fn add(&mut self, item: I) {
        self.bytes += item.encoded_len();
        self.items.push(item);
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.bytes = 0;
    }

    pub(crate) fn item(&self, at: usize) -> &I {
        &self.items[at]
    }

    /// The body of the request with these items.
    pub(crate) fn request(&self, range: Range<usize>) -> Vec<u8> {
        self.request_with(self.items[range].to_vec())
    }

    /// The body of a request with a probe.
    pub(crate) fn probe(&self, world: &World) -> Vec<u8> {
        let now_ns = world.clock.now_ms().saturating_mul(1_000_000);
        self.request_with(vec![I::probe(now_ns, world.entropy.draw())])
    }

    fn request_with(&self, items: Vec<I>) -> Vec<u8> {
        let scope = InstrumentationScope {
            name: "recount".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        I::request(self.resource.clone(), scope, items)
    }
}

/// The resource of what is exported; figures of a server belong to no tenant.
pub(crate) fn resource(settings: &ExportSettings, tenant: Option<&str>) -> Resource {
    let mut attributes = vec![
        KeyValue::new("service.name", settings.service_name.as_str()),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    attributes.extend(tenant.map(|tenant| KeyValue::new("recount.tenant", tenant)));
    for (key, value) in &settings.resource {
        attributes.retain(|there| there.key != *key);
        attributes.push(KeyValue::new(key, value.as_str()));
    }
    Resource { attributes }
}
