//! The recorder's identity at the server, and the events that a run already has. Must not know what is recorded.

use recount_client::{Client, ClientError};
use serde_json::Value;

/// The producer identity of the recorder at the server.
#[derive(Debug, Clone)]
pub(super) struct AcpProducer {
    pub(super) producer: String,
    pub(super) epoch: u64,
    pub(super) agent: String,
    pub(super) agent_version: Option<String>,
}

/// The types and the data of a run's events.
pub(super) async fn all_events(client: &Client, run: &str) -> Result<Vec<(String, Value)>, ClientError> {
    let mut events = Vec::new();
    let mut after = None;
    loop {
        let page = client.read_run_events(run, after, None).await?;
        let is_last = page.data.is_empty() || !page.has_more;
        for envelope in &page.data {
            let envelope: Value = serde_json::from_str(envelope.get()).unwrap_or_default();
            after = envelope["sequence"].as_u64().or(after);
            events.push((envelope["type"].as_str().unwrap_or("").to_owned(), envelope["data"].clone()));
        }
        if is_last {
            return Ok(events);
        }
    }
}
