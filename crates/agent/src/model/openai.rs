//! Provider for the chat completions of OpenAI and compatible servers: Ollama, llama.cpp, vLLM, LM Studio, OpenRouter
//! and others.
//!
//! `request` encodes requests, and `chunks` decodes responses in all dialects. It must not depend on other protocols.
//! Start with [`OpenAi`].

mod chunks;
mod request;

use std::sync::Arc;

use super::stream::{FailedReply, ModelStream};
use super::wire::calls_before;
use super::{Capability, Endpoint, EndpointError, Model, Reply, Request, Secret};

/// The URL of OpenAI.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// A provider that speaks chat completions.
pub struct OpenAi {
    endpoint: Endpoint,
    options: OpenAiOptions,
}

/// Options of all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenAiOptions {
    /// Whether requests ask for usage figures. Nearly all servers ignore unknown fields. For a server that rejects the
    /// field, turn it off; its responses then have no usage.
    pub ask_usage: bool,
    /// Whether to send the newer field for the output limit, which OpenAI requires and others do not know.
    pub uses_max_completion_tokens: bool,
}

impl OpenAi {
    pub fn new(endpoint: Endpoint, key: Option<&Secret>, ask_usage: bool) -> Result<Self, EndpointError> {
        let mut endpoint = endpoint;
        if let Some(key) = key
            && !endpoint.has_header("authorization")
        {
            endpoint = endpoint.with_header("authorization", &bearer(key), true)?;
        }
        let host = endpoint.host();
        let uses_max_completion_tokens = host == "api.openai.com" || host.ends_with(".azure.com");
        Ok(OpenAi { endpoint, options: OpenAiOptions { ask_usage, uses_max_completion_tokens } })
    }
}

fn bearer(key: &Secret) -> Secret {
    Secret::new(format!("Bearer {}", key.reveal()))
}

impl Model for OpenAi {
    fn begin(&self, request: Arc<Request>) -> Box<dyn Reply> {
        let body = request::body(&request, self.options);
        let chunks = chunks::ChunkDecoder::new(
            self.endpoint.label(),
            calls_before(&request),
            request.streams_call_inputs,
        );
        let endpoint = match &request.key {
            // Azure uses its own header.
            Some(key) if self.endpoint.has_header("api-key") => self.endpoint.with_key("api-key", key, key),
            Some(key) => self.endpoint.with_key("authorization", &bearer(key), key),
            None => Ok(self.endpoint.clone()),
        };
        match endpoint {
            Ok(endpoint) => Box::new(ModelStream::begin(&endpoint, "chat/completions", body, chunks)),
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

    /// The decoder of chunks, without a connection.
    pub(in crate::model) fn chunks() -> Box<dyn Protocol> {
        Box::new(super::chunks::ChunkDecoder::new("p".into(), 0, false))
    }
}
