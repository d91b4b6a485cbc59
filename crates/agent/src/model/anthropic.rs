//! Provider for the Messages API of Anthropic.
//!
//! `request` encodes requests, and `events` decodes responses. It must not depend on other providers. Start with
//! [`Anthropic`].

mod events;
mod request;

use std::sync::Arc;

use super::stream::{FailedReply, ModelStream};
use super::{Capability, Endpoint, EndpointError, Model, Reply, Request, Secret};

/// The URL of Anthropic.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";
const VERSION: &str = "2023-06-01";

/// A provider that speaks the Messages API.
pub struct Anthropic {
    endpoint: Endpoint,
    options: AnthropicOptions,
}

/// Options of all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnthropicOptions {
    /// The thinking budget in tokens; `None` turns thinking off.
    pub thinking_tokens: Option<u32>,
    /// Whether to mark the conversation for the prompt cache of the provider.
    pub cache: bool,
}

impl Default for AnthropicOptions {
    fn default() -> Self {
        AnthropicOptions { thinking_tokens: None, cache: true }
    }
}

impl Anthropic {
    pub fn new(
        endpoint: Endpoint,
        key: Option<&Secret>,
        options: AnthropicOptions,
    ) -> Result<Self, EndpointError> {
        let mut endpoint = endpoint;
        if let Some(key) = key
            && !endpoint.has_header("x-api-key")
        {
            endpoint = endpoint.with_header("x-api-key", key, true)?;
        }
        if !endpoint.has_header("anthropic-version") {
            endpoint = endpoint.with_header("anthropic-version", &Secret::new(VERSION), false)?;
        }
        Ok(Anthropic { endpoint, options })
    }
}

impl Model for Anthropic {
    fn begin(&self, request: Arc<Request>) -> Box<dyn Reply> {
        let body = request::body(&request, self.options);
        let events = events::EventDecoder::new(
            self.endpoint.label(),
            self.options.thinking_tokens.is_some(),
            request.streams_call_inputs,
        );
        let endpoint = match &request.key {
            Some(key) => self.endpoint.with_key("x-api-key", key, key),
            None => Ok(self.endpoint.clone()),
        };
        match endpoint {
            Ok(endpoint) => Box::new(ModelStream::begin(&endpoint, "messages", body, events)),
            Err(failure) => Box::new(FailedReply(failure)),
        }
    }

    fn can(&self, _model: &str, _capability: Capability) -> bool {
        true
    }
}

#[cfg(test)]
pub(super) mod tests_only {
    use crate::model::stream::Protocol;

    /// The decoder of events, without a connection.
    pub(in crate::model) fn events() -> Box<dyn Protocol> {
        Box::new(super::events::EventDecoder::new("p".into(), true, false))
    }
}
