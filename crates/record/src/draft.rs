//! One event that a producer is about to append.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// The type and the data of an event, as the body of `POST /v1/runs/{run}/events` has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    pub kind: Cow<'static, str>,
    /// Always an object.
    pub data: Value,
}

impl Draft {
    pub(crate) fn new(kind: impl Into<Cow<'static, str>>, data: Map<String, Value>) -> Self {
        Draft { kind: kind.into(), data: Value::Object(data) }
    }
}

/// An object made of fields; those without a value are left out.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    pub(crate) fn new() -> Self {
        Fields(Map::new())
    }

    pub(crate) fn put(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn maybe(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    pub(crate) fn all(mut self, more: Map<String, Value>) -> Self {
        self.0.extend(more);
        self
    }

    pub(crate) fn done(self) -> Map<String, Value> {
        self.0
    }
}
