//! Models that are asked by the Messages API of Anthropic.
//!
//! Look at [`Anthropic`]. What is sent is in `request`, what comes back in `events`. It must never know other
//! providers.

mod events;
mod request;

use std::sync::Arc;

use super::stream::{ModelStream, NoAnswer};
use super::{Capability, Endpoint, EndpointError, Model, Reply, Request, Secret};

/// Where Anthropic itself is.
pub const BASE_URL: &str = "https://api.anthropic.com/v1";
const VERSION: &str = "2023-06-01";

/// A provider that speaks the Messages API.
pub struct Anthropic {
    endpoint: Endpoint,
    options: AnthropicOptions,
}

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnthropicOptions {
    /// Tokens that the model may think with before it answers; not at all when `None`.
    pub thinking_tokens: Option<u32>,
    /// Whether the conversation so far is marked to be kept by the provider for the next request.
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
        let events = events::Events::new(
            self.endpoint.who(),
            self.options.thinking_tokens.is_some(),
            request.wants_inputs,
        );
        let endpoint = match &request.key {
            Some(key) => self.endpoint.under("x-api-key", key, key),
            None => Ok(self.endpoint.clone()),
        };
        match endpoint {
            Ok(endpoint) => Box::new(ModelStream::begin(&endpoint, "messages", body, events)),
            Err(failure) => Box::new(NoAnswer(failure)),
        }
    }

    fn can(&self, _model: &str, _capability: Capability) -> bool {
        true
    }
}

#[cfg(test)]
pub(super) mod tests_only {
    use crate::model::stream::Protocol;

    /// What the events say, apart from any connection.
    pub(in crate::model) fn events() -> Box<dyn Protocol> {
        Box::new(super::events::Events::new("p".into(), true, false))
    }
}
