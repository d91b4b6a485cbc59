//! A response, read whole.

use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        &self.body
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.body))
    }

    pub(crate) fn data(&self) -> Value {
        self.json()["data"].clone()
    }
}
