//! Finished spans that wait to be sent, and the request that they become.
//!
//! It must not know how requests are sent. Start with [`Batch`].

use std::ops::Range;

use prost::Message as _;

use crate::limits;
use crate::project::attributes::SCHEMA_URL;
use crate::proto::{
    ExportRequest, InstrumentationScope, KeyValue, Resource, ResourceSpans, ScopeSpans, Span,
};
use crate::settings::ExportSettings;

/// Spans of one tenant, in the order of their runs.
pub(crate) struct Batch {
    resource: Resource,
    spans: Vec<Span>,
    bytes: usize,
}

impl Batch {
    pub(crate) fn new(settings: &ExportSettings, tenant: &str) -> Batch {
        Batch { resource: resource(settings, Some(tenant)), spans: Vec::new(), bytes: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.spans.len() >= limits::BATCH_SPANS_MAX || self.bytes >= limits::BATCH_BYTES_MAX
    }

    pub(crate) fn add(&mut self, span: Span) {
        self.bytes += span.encoded_len();
        self.spans.push(span);
    }

    pub(crate) fn clear(&mut self) {
        self.spans.clear();
        self.bytes = 0;
    }

    pub(crate) fn span(&self, at: usize) -> &Span {
        &self.spans[at]
    }

    pub(crate) fn request(&self, range: Range<usize>) -> ExportRequest {
        let scope = InstrumentationScope {
            name: "recount".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let scope_spans = ScopeSpans {
            scope: Some(scope),
            spans: self.spans[range].to_vec(),
            schema_url: SCHEMA_URL.to_owned(),
        };
        let resource = Some(self.resource.clone());
        ExportRequest { resource_spans: vec![ResourceSpans { resource, scope_spans: vec![scope_spans] }] }
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
