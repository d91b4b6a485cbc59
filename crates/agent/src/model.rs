//! The interface to models: requests, streamed responses and failures, the same for every provider.
//!
//! A [`Model`] makes one attempt at one response, and returns it piece by piece. It must never depend on runs, events
//! of the log or retries: the caller decides about retries by the [`Failure`]. Start with [`Model`].

pub mod anthropic;
mod failure;
mod http;
pub mod limits;
pub mod openai;
mod patience;
mod pattern;
mod prices;
mod registry;
mod rewrite;
pub mod scripted;
mod stream;
mod wire;

pub use http::{Endpoint, EndpointError, Secret};
pub(crate) use http::{client as http_client, innermost};
pub use patience::Patience;
pub use prices::{Price, Prices};
pub use registry::{
    Capabilities, ModelName, ModelsSettings, ProviderKind, ProviderSettings, Registry, SettingsError,
};
pub use rewrite::{Rewrite, Rewrites, RewrittenModel};
pub(crate) use wire::plain_name;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use recount_event::family::turn::StopReason;
use serde_json::Value;

/// A request for the next response of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The name at the provider.
    pub model: String,
    pub system: Option<String>,
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    pub max_output_tokens: u32,
    /// Whether to stream the inputs of calls, too.
    pub streams_call_inputs: bool,
    /// Replaces the API key of the provider.
    pub key: Option<Secret>,
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// A JSON Schema of its input, an object.
    pub schema: Value,
}

/// One message of a conversation. The results of calls are in the message after the calls.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    User(Vec<Part>),
    Assistant { text: Option<String>, calls: Vec<Call> },
    Results(Vec<CallResult>),
}

/// A part of a user message or a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    Image {
        mime: String,
        bytes: Bytes,
    },
    /// A picture by its URL, which the provider fetches, never the server.
    ImageUrl(String),
}

/// An earlier call. `id` comes from the provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub input: Value,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    pub call_id: String,
    pub parts: Vec<Part>,
    pub is_error: bool,
}

/// The next piece of a response.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Text(String),
    /// Thinking, if the provider returns it.
    Thinking(String),
    /// A complete call. `input` is the text of the model, which may not be JSON.
    Call {
        provider_call_id: String,
        name: String,
        input: String,
    },
    /// The next part of the input of an incomplete call, if the request streams these. `call` is the index of the call
    /// in the response.
    CallInput {
        call: usize,
        text: String,
    },
    /// A generated image.
    Image {
        mime: String,
        bytes: Bytes,
    },
    /// The usage of the response so far. A later total replaces an earlier one.
    Usage(Usage),
    /// Part of the response was changed. The value is its name in `turn.completed`.
    Adjusted(&'static str),
    /// The end of the response.
    Finish {
        stop: StopReason,
        usage: Usage,
    },
}

/// The usage of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens, including cached ones.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_input_tokens: u64,
}

impl Usage {
    /// Whether the provider reported any usage.
    pub(crate) fn is_reported(self) -> bool {
        self.input_tokens > 0 || self.output_tokens > 0
    }

    /// The maximum of each figure, because reported usage never decreases.
    pub(crate) fn at_least(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.max(other.input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
            cached_input_tokens: self.cached_input_tokens.max(other.cached_input_tokens),
        }
    }

    /// The usage with each figure limited to what a model can have.
    pub(crate) fn bounded(self) -> Usage {
        let most = limits::MODEL_TOKENS_MAX;
        Usage {
            input_tokens: self.input_tokens.min(most),
            output_tokens: self.output_tokens.min(most),
            cached_input_tokens: self.cached_input_tokens.min(most),
        }
    }
}

/// The names of changes to a response in `turn.completed`.
pub(crate) mod adjusted {
    pub(crate) const CALL_ID_REPLACED: &str = "call_id_replaced";
    pub(crate) const IMAGE_DROPPED: &str = "image_dropped";
    pub(crate) const TEXT_REPLACED: &str = "text_replaced";
    pub(crate) const TOOL_NAME_SHORTENED: &str = "tool_name_shortened";
    pub(crate) const USAGE_BOUNDED: &str = "usage_bounded";
    pub(crate) const USAGE_ESTIMATED: &str = "usage_estimated";
    pub(crate) const USAGE_UNREADABLE: &str = "usage_unreadable";
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Stable and lower case: `model_unreachable`, `model_timeout`, `model_overloaded`, `model_rate_limited`,
    /// `model_failed` (an error of the provider), `model_malformed`, `model_cut` (an incomplete response),
    /// `model_unauthorized`, `model_not_found`, `model_refused` (an error of the request), `model_context_full`.
    pub code: &'static str,
    pub message: String,
    /// The HTTP status of the provider, if there is one.
    pub status: Option<u16>,
    /// Whether a retry may succeed.
    pub retriable: bool,
    /// The wait that the provider requests before a retry.
    pub retry_after: Option<Duration>,
}

/// A capability of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    Tools,
    Images,
}

/// A provider of models.
pub trait Model: Send + Sync + 'static {
    /// Starts one attempt. Dropping the reply cancels it.
    fn begin(&self, request: Arc<Request>) -> Box<dyn Reply>;

    /// Whether a model has a capability; an unknown one is assumed.
    fn can(&self, model: &str, capability: Capability) -> bool;

    /// The configured maximum of conversation tokens for a model.
    fn context_tokens(&self, _model: &str) -> Option<u64> {
        None
    }
}

/// A response that is being received.
pub trait Reply: Send {
    /// The next piece. The caller stops after [`Piece::Finish`] or a failure. Dropping the future loses nothing.
    fn next(&mut self) -> BoxFuture<'_, Result<Piece, Failure>>;
}

/// Providers by name.
#[derive(Clone, Default)]
pub struct Models {
    pub by_name: BTreeMap<String, Arc<dyn Model>>,
}
