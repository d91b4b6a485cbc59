//! Messages other than events (chapters 5 and 6), and [`Message`], which is any message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::envelope::{Context, Producer};
use super::error::ParseError;
use super::event::Event;
use super::id::{ReplyToken, SubscriptionId, Timestamp};
use super::whole;
use super::words::{Boundary, Decision, Pace, Verbosity};
use crate::json::Reader;
use crate::kind::{PREFIX, TYPES_URI, VOCABULARY_URI};
use crate::reading::Reading;
use crate::table::{MessageKind, message_kind};

/// The capabilities of a subscriber, or those that a producer honors. An absent field means the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Capabilities {
    /// Absent: no limit.
    #[serde(default, deserialize_with = "whole::may", skip_serializing_if = "Option::is_none")]
    pub max_events_per_second: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_verbosity: Option<Verbosity>,
    /// Absent: `en-US`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub languages: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_confirmation_reply: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supports_clarification_reply: Option<bool>,
    /// Absent: `sentence` and `completion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalesce_boundaries: Option<Vec<Boundary>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_filters: Option<EventFilters>,
    /// Absent: level 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported_conformance_levels: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported_extensions: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cognitive_load: Option<Pace>,
    #[serde(default, deserialize_with = "whole::may", skip_serializing_if = "Option::is_none")]
    pub pace_wpm: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_signed_manifests_only: Option<bool>,
    /// Capabilities of extensions, by prefix.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, Value>,
}

/// Event filters: patterns that may end in `*`. `exclude` overrides `include`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventFilters {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<String>>,
}

impl EventFilters {
    /// Whether an event with this compact type name passes. Critical events always pass; the caller checks that.
    ///
    /// ```
    /// use recount_aaep::wire::EventFilters;
    /// let filters = EventFilters {
    ///     include: Some(vec!["aaep:agent.tool.*".into()]),
    ///     exclude: Some(vec!["aaep:agent.tool.completed".into()]),
    /// };
    /// assert!(filters.pass("aaep:agent.tool.invoked"));
    /// assert!(!filters.pass("aaep:agent.tool.completed"));
    /// ```
    pub fn pass(&self, type_name: &str) -> bool {
        let type_name = compact(type_name);
        let matches = |pattern: &String| {
            let pattern = compact(pattern);
            match pattern.strip_suffix('*') {
                // `x.*` also matches `x`, as in the public suite.
                Some(beginning) => {
                    type_name.starts_with(beginning) || beginning.strip_suffix('.') == Some(&*type_name)
                }
                None => pattern == type_name,
            }
        };
        let included = match &self.include {
            Some(include) if !include.is_empty() => include.iter().any(matches),
            _ => type_name.starts_with("aaep:agent."),
        };
        included && !self.exclude.iter().flatten().any(matches)
    }
}

/// The compact form of a name or pattern in the protocol's namespace (R-006).
fn compact(name: &str) -> std::borrow::Cow<'_, str> {
    match [TYPES_URI, VOCABULARY_URI].iter().find_map(|uri| name.strip_prefix(uri)) {
        Some(rest) => format!("{PREFIX}{rest}").into(),
        None => name.into(),
    }
}

macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $( must $required:ident : $required_type:ty, )*
            $( may $optional:ident : $optional_type:ty, )*
        }
    )*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            r#type: Box<str>,
            $( pub $required: $required_type, )*
            $(
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$optional_type>,
            )*
        }

        impl $name {
            /// Creates it with the required fields.
            pub fn new($( $required: $required_type ),*) -> Self {
                $name {
                    r#type: MessageKind::$name.name().into(),
                    $( $required, )*
                    $( $optional: None, )*
                }
            }
        }

        impl From<$name> for Message {
            fn from(message: $name) -> Message {
                Message::$name(Box::new(message))
            }
        }
    )* };
}

messages! {
    /// A subscriber requests a subscription.
    SubscriptionRequest {
        must aaep_version: String,
        must subscriber_id: String,
        must capabilities: Capabilities,
        may subscriber_name: String,
        may subscriber_version: String,
        may subscriber_manifest_uri: String,
        may correlation_id: String,
        may extensions: BTreeMap<String, Map<String, Value>>,
    }
    /// A producer accepts a subscription, with the honored capabilities.
    SubscriptionAccepted {
        must subscription_id: SubscriptionId,
        must aaep_version: String,
        must producer: Producer,
        must honored_capabilities: Capabilities,
        may manifest_uri: String,
        may signed_manifest: String,
        may negotiation_notes: String,
        may correlation_id: String,
        may extensions: BTreeMap<String, Map<String, Value>>,
    }
    /// A producer rejects a subscription, with a reason. Unknown codes count as `unknown`.
    SubscriptionRejected {
        must reason_code: String,
        must reason_message: String,
        may retry_after_seconds: u32,
        may alternative_manifest_uri: String,
        may correlation_id: String,
        may extensions: BTreeMap<String, Map<String, Value>>,
    }
    /// A subscriber renegotiates; omitted fields keep their values.
    SubscriptionRenegotiate {
        must subscription_id: SubscriptionId,
        must capabilities: Capabilities,
        may correlation_id: String,
        may extensions: BTreeMap<String, Map<String, Value>>,
    }
    /// Either side ends the subscription.
    SubscriptionClose {
        must subscription_id: SubscriptionId,
        may reason_code: String,
        may reason_message: String,
        may correlation_id: String,
        may extensions: BTreeMap<String, Map<String, Value>>,
    }
    /// The reply to `awaiting.confirmation`.
    ConfirmationReply {
        must reply_token: ReplyToken,
        must decision: Decision,
        must subscription_id: SubscriptionId,
        must timestamp: Timestamp,
        may decided_by: String,
        may decision_rationale: String,
        may modified_action: Map<String, Value>,
        may correlation_id: String,
    }
    /// The reply to `awaiting.clarification`.
    ClarificationReply {
        must reply_token: ReplyToken,
        must response: Response,
        must subscription_id: SubscriptionId,
        must timestamp: Timestamp,
        may decided_by: String,
        may confidence: f64,
        may correlation_id: String,
    }
}

/// A response: text or the value of a choice, a boolean, or a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Response {
    Bool(bool),
    Number(f64),
    Text(String),
}

/// A producer's manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProducerManifest {
    #[serde(rename = "@context")]
    pub context: Context,
    r#type: Box<str>,
    pub agent_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    pub aaep_versions_supported: Vec<String>,
    pub conformance_levels_supported: Vec<u8>,
    pub transports_supported: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages_supported: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event_types_emitted: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions_supported: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_verbosity: Option<Verbosity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent_subscriptions: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// Paths, framing, states and other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ProducerManifest {
    /// Creates a manifest with the required fields.
    pub fn new(agent_id: impl Into<String>, levels: Vec<u8>, transports: Vec<String>) -> Self {
        ProducerManifest {
            context: Context::default(),
            r#type: "aaep:producer.manifest".into(),
            agent_id: agent_id.into(),
            agent_version: None,
            agent_name: None,
            aaep_versions_supported: vec![crate::VERSION.into()],
            conformance_levels_supported: levels,
            transports_supported: transports,
            languages_supported: Vec::new(),
            event_types_emitted: Vec::new(),
            extensions_supported: Vec::new(),
            default_verbosity: None,
            max_concurrent_subscriptions: None,
            contact: None,
            other: Map::new(),
        }
    }
}

/// Any message of the protocol.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Event(Box<Event>),
    SubscriptionRequest(Box<SubscriptionRequest>),
    SubscriptionAccepted(Box<SubscriptionAccepted>),
    SubscriptionRejected(Box<SubscriptionRejected>),
    SubscriptionRenegotiate(Box<SubscriptionRenegotiate>),
    SubscriptionClose(Box<SubscriptionClose>),
    ConfirmationReply(Box<ConfirmationReply>),
    ClarificationReply(Box<ClarificationReply>),
    ProducerManifest(Box<ProducerManifest>),
}

impl Message {
    /// Parses a message. A text with another type is an event, possibly of an unknown type.
    ///
    /// ```
    /// use recount_aaep::Message;
    /// let text = r#"{"type":"confirmation.reply","reply_token":"rpl_1","decision":"accept",
    ///     "subscription_id":"sub_1","timestamp":"2026-05-24T14:22:21.000Z"}"#;
    /// assert!(matches!(Message::parse(text)?, Message::ConfirmationReply(_)));
    /// # Ok::<(), recount_aaep::ParseError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut reader = Reader::new();
        let doc = reader.read(text)?;
        let kind = Reading::of(doc).and_then(|reading| message_kind(&reading));
        let Some(kind) = kind else { return Event::parse(text).map(|event| Message::Event(Box::new(event))) };
        fn read<'t, T: Deserialize<'t> + Into<Message>>(text: &'t str) -> Result<Message, ParseError> {
            serde_json::from_str::<T>(text).map(T::into).map_err(|error| ParseError::shape(text, &error))
        }
        match kind {
            MessageKind::SubscriptionRequest => read::<SubscriptionRequest>(text),
            MessageKind::SubscriptionAccepted => read::<SubscriptionAccepted>(text),
            MessageKind::SubscriptionRejected => read::<SubscriptionRejected>(text),
            MessageKind::SubscriptionRenegotiate => read::<SubscriptionRenegotiate>(text),
            MessageKind::SubscriptionClose => read::<SubscriptionClose>(text),
            MessageKind::ConfirmationReply => read::<ConfirmationReply>(text),
            MessageKind::ClarificationReply => read::<ClarificationReply>(text),
            MessageKind::ProducerManifest => read::<ProducerManifest>(text),
        }
    }

    /// Serializes it without white space.
    pub fn to_json(&self) -> String {
        let written = match self {
            Message::Event(message) => return message.to_json(),
            Message::SubscriptionRequest(message) => serde_json::to_string(message),
            Message::SubscriptionAccepted(message) => serde_json::to_string(message),
            Message::SubscriptionRejected(message) => serde_json::to_string(message),
            Message::SubscriptionRenegotiate(message) => serde_json::to_string(message),
            Message::SubscriptionClose(message) => serde_json::to_string(message),
            Message::ConfirmationReply(message) => serde_json::to_string(message),
            Message::ClarificationReply(message) => serde_json::to_string(message),
            Message::ProducerManifest(message) => serde_json::to_string(message),
        };
        written.unwrap_or_else(|error| unreachable!("keys are strings: {error}"))
    }
}

impl From<ProducerManifest> for Message {
    fn from(message: ProducerManifest) -> Message {
        Message::ProducerManifest(Box::new(message))
    }
}

impl From<Event> for Message {
    fn from(event: Event) -> Message {
        Message::Event(Box::new(event))
    }
}
