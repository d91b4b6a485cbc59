//! Models that are asked by OpenAI's chat completions, which most servers imitate: Ollama, llama.cpp, vLLM,
//! LM Studio, OpenRouter and others.
//!
//! Look at [`OpenAi`]. What is sent is in `request`, what comes back, in all its dialects, in `chunks`. It must
//! never know other protocols.

mod chunks;
mod request;

use std::sync::Arc;

use super::stream::{ModelStream, NoAnswer};
use super::wire::calls_before;
use super::{Capability, Endpoint, EndpointError, Model, Reply, Request, Secret};

/// Where OpenAI itself is.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// A provider that speaks chat completions.
pub struct OpenAi {
    endpoint: Endpoint,
    options: OpenAiOptions,
}

/// How it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenAiOptions {
    /// Whether figures of usage are asked for. Nearly all servers pass over what they do not know; one that refuses
    /// it is asked without, and its answers count as nothing used.
    pub ask_usage: bool,
    /// Whether the bound of an answer goes by the newer name, which OpenAI itself insists on and others do not know.
    pub newer_bound: bool,
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
        let newer_bound = host == "api.openai.com" || host.ends_with(".azure.com");
        Ok(OpenAi { endpoint, options: OpenAiOptions { ask_usage, newer_bound } })
    }
}

fn bearer(key: &Secret) -> Secret {
    Secret::new(format!("Bearer {}", key.reveal()))
}

impl Model for OpenAi {
    fn begin(&self, request: Arc<Request>) -> Box<dyn Reply> {
        let body = request::body(&request, self.options);
        let chunks = chunks::Chunks::new(self.endpoint.who(), calls_before(&request), request.wants_inputs);
        let endpoint = match &request.key {
            // Azure has a header of its own.
            Some(key) if self.endpoint.has_header("api-key") => self.endpoint.under("api-key", key, key),
            Some(key) => self.endpoint.under("authorization", &bearer(key), key),
            None => Ok(self.endpoint.clone()),
        };
        match endpoint {
            Ok(endpoint) => Box::new(ModelStream::begin(&endpoint, "chat/completions", body, chunks)),
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

    /// What the chunks say, apart from any connection.
    pub(in crate::model) fn chunks() -> Box<dyn Protocol> {
        Box::new(super::chunks::Chunks::new("p".into(), 0, false))
    }
}
