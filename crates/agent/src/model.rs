//! What a model is asked and what it says, the same for every provider.
//!
//! Look at [`Model`]: one attempt at one answer, told piece by piece. It must never know runs, events of the log
//! or how often an attempt is made again: the caller decides that, by [`Failure`].

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

/// A conversation to go on with.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// As the provider calls it.
    pub model: String,
    pub system: Option<String>,
    pub messages: Vec<Message>,
    pub tools: Vec<ToolSpec>,
    pub max_output_tokens: u32,
    /// Whether inputs of calls are wanted piece by piece, too.
    pub wants_inputs: bool,
    /// Instead of the provider's own.
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

/// One message of a conversation. Messages alternate as providers want it: what was called is answered by the
/// next message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    User(Vec<Part>),
    Assistant { text: Option<String>, calls: Vec<Call> },
    Results(Vec<CallResult>),
}

/// A part of what a person or a tool says.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(String),
    Image {
        mime: String,
        bytes: Bytes,
    },
    /// A picture at an address, which the provider looks at, never this server.
    ImageUrl(String),
}

/// A call that the model made before. `id` is the provider's own.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub id: String,
    pub name: String,
    pub input: Value,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    pub call_id: String,
    pub parts: Vec<Part>,
    pub is_error: bool,
}

/// What a model says next.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Text(String),
    /// What it thinks, where the provider tells.
    Thinking(String),
    /// A call, whole. `input` is what it wrote, which need not be JSON.
    Call {
        provider_call_id: String,
        name: String,
        input: String,
    },
    /// What comes next of the input of a call that is not whole yet, where that was asked for. `call` counts the calls of
    /// the answer from 0.
    CallInput {
        call: usize,
        text: String,
    },
    /// An image that it made.
    Image {
        mime: String,
        bytes: Bytes,
    },
    /// What the provider says that the answer has used so far. Totals; a later one replaces an earlier one.
    Usage(Usage),
    /// Something of the answer is not passed on as it was sent; the word for it in `turn.completed`.
    Adjusted(&'static str),
    /// The answer is over; nothing follows.
    Finish {
        stop: StopReason,
        usage: Usage,
    },
}

/// What an answer used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// All of the input, what came out of a cache included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cached_input_tokens: u64,
}

impl Usage {
    /// Whether anything was reported at all.
    pub(crate) fn is_reported(self) -> bool {
        self.input_tokens > 0 || self.output_tokens > 0
    }

    /// The larger of both figures, each for itself: what was reported is never taken back.
    pub(crate) fn at_least(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.max(other.input_tokens),
            output_tokens: self.output_tokens.max(other.output_tokens),
            cached_input_tokens: self.cached_input_tokens.max(other.cached_input_tokens),
        }
    }

    /// The same with each figure no larger than a model can have.
    pub(crate) fn bounded(self) -> Usage {
        let most = limits::MODEL_TOKENS_MAX;
        Usage {
            input_tokens: self.input_tokens.min(most),
            output_tokens: self.output_tokens.min(most),
            cached_input_tokens: self.cached_input_tokens.min(most),
        }
    }
}

/// Words for what of an answer is not recorded as it was sent, as `turn.completed` has them.
pub(crate) mod adjusted {
    pub(crate) const CALL_ID_REPLACED: &str = "call_id_replaced";
    pub(crate) const IMAGE_DROPPED: &str = "image_dropped";
    pub(crate) const TEXT_REPLACED: &str = "text_replaced";
    pub(crate) const TOOL_NAME_SHORTENED: &str = "tool_name_shortened";
    pub(crate) const USAGE_BOUNDED: &str = "usage_bounded";
    pub(crate) const USAGE_ESTIMATED: &str = "usage_estimated";
    pub(crate) const USAGE_UNREADABLE: &str = "usage_unreadable";
}

/// Why an attempt came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Stable and lower case: `model_unreachable`, `model_timeout`, `model_overloaded`, `model_rate_limited`,
    /// `model_failed` (the provider's own fault), `model_malformed`, `model_cut` (it ended without a finish),
    /// `model_unauthorized`, `model_not_found`, `model_refused` (the request is at fault), `model_context_full`.
    pub code: &'static str,
    pub message: String,
    /// What the provider answered, where it did.
    pub status: Option<u16>,
    /// Whether another attempt may do better.
    pub retriable: bool,
    /// How long the provider wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// What a model may be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    Tools,
    Images,
}

/// A provider of models.
pub trait Model: Send + Sync + 'static {
    /// Begins one attempt. Dropping the reply breaks it off.
    fn begin(&self, request: Arc<Request>) -> Box<dyn Reply>;

    /// Whether a model of this provider can do something; what is not known is assumed.
    fn can(&self, model: &str, capability: Capability) -> bool;

    /// The most tokens of conversation that a model is to be sent, where that is configured.
    fn context_tokens(&self, _model: &str) -> Option<u64> {
        None
    }
}

/// An answer on its way.
pub trait Reply: Send {
    /// The next piece. After [`Piece::Finish`] or a failure nothing more is asked. Dropping the future loses
    /// nothing.
    fn next(&mut self) -> BoxFuture<'_, Result<Piece, Failure>>;
}

/// Providers by name.
#[derive(Clone, Default)]
pub struct Models {
    pub by_name: BTreeMap<String, Arc<dyn Model>>,
}
