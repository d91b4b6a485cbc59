//! Bodies of hooks of other agents, posted as they came. See [`Client::post_hook`].

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_TYPE};

use super::Client;
use super::address::Address;
use crate::error::ClientError;

/// One hook of an agent.
#[derive(Debug, Clone)]
pub struct HookPost<'a> {
    /// Such as `claude`.
    pub agent: &'a str,
    /// The agent's own name of what happened, such as `PreToolUse`.
    pub event: &'a str,
    /// JSON as the agent wrote it.
    pub body: Bytes,
    /// The same for each attempt to send this hook.
    pub idempotency_key: &'a str,
    /// Seconds that a permission request waits for an answer of a person; `None` records it only.
    pub ask_seconds: Option<u64>,
    /// How long the whole call may take.
    pub patience: Duration,
}

impl Client {
    /// Posts a hook and returns the server's answer to the agent as it came.
    pub async fn post_hook(&self, post: HookPost<'_>) -> Result<Bytes, ClientError> {
        let mut address = Address::outside(&self.base, &["hooks", post.agent, post.event]);
        if let Some(seconds) = post.ask_seconds {
            address = address.with("ask", Some(1)).with("wait_seconds", Some(seconds));
        }
        let response = self
            .request(Method::POST, &address.into_url()?)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .header("idempotency-key", post.idempotency_key)
            .body(post.body)
            .timeout(post.patience)
            .send()
            .await
            .map_err(|why| ClientError::unreachable(&self.base, &why))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        self.body(response).await
    }
}
