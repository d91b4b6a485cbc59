//! The payloads of the twelve event types (chapter 4).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::{ReplyToken, Timestamp};
use super::whole;
use super::words::{
    Boundary, CancelledBy, Decision, ErrorCategory, HandoffTarget, Level, Reversibility, ToolStatus,
};
use crate::kind::Kind;

whole::plain!(
    Boundary,
    CancelledBy,
    Decision,
    ErrorCategory,
    HandoffTarget,
    Level,
    Reversibility,
    ToolStatus,
    ReplyToken,
    Progress,
    Vec<Choice>,
    Vec<Decision>,
);

macro_rules! bodies {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $( must $required:ident : $required_type:ty, )*
            $( may $optional:ident : $optional_type:ty, )*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            pub struct $name {
                $( #[serde(deserialize_with = "whole::must")] pub $required: $required_type, )*
                $(
                    #[serde(default, deserialize_with = "whole::may", skip_serializing_if = "Option::is_none")]
                    pub $optional: Option<$optional_type>,
                )*
            }

            #[allow(clippy::new_without_default, reason = "only some of them have no required field")]
            impl $name {
                /// Creates it with the required fields.
                pub fn new($( $required: $required_type ),*) -> Self {
                    $name { $( $required, )* $( $optional: None, )* }
                }
            }
        )*

        /// The payload of an event, beside its summaries.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Body {
            $( $name($name), )*
            /// A type of an extension, or one that this version does not know; its fields are in
            /// [`super::Event::other`].
            Other {
                /// The unchanged type name.
                #[serde(skip)]
                type_name: Box<str>,
            },
        }

        impl Body {
            /// The kind of a core event.
            pub fn kind(&self) -> Option<Kind> {
                match self {
                    $( Body::$name(_) => Some(Kind::$name), )*
                    Body::Other { .. } => None,
                }
            }

            pub(super) fn read(kind: Kind, text: &str) -> Result<Body, serde_json::Error> {
                match kind { $( Kind::$name => serde_json::from_str(text).map(Body::$name), )* }
            }
        }

        $(
            impl From<$name> for Body {
                fn from(body: $name) -> Body {
                    Body::$name(body)
                }
            }
        )*
    };
}

bodies! {
    /// A session starts.
    SessionStarted {
        may expected_duration_ms: u64,
        may requested_by: String,
        may request_text: String,
        may tools_available: Vec<String>,
    }
    /// A session completes successfully.
    SessionCompleted {
        may duration_ms: u64,
        may tool_invocations_count: u64,
        may output_summary: String,
        may result_uri: String,
    }
    /// A session ends with an error.
    SessionErrored {
        must error_category: ErrorCategory,
        may error_code: String,
        may error_uri: String,
        may recoverable: bool,
        may remediation_hint: String,
    }
    /// A session is cancelled.
    SessionCancelled {
        must cancelled_by: CancelledBy,
        may cancellation_reason: String,
        may partial_result: String,
    }
    /// The producer changes its state. Any state name is allowed.
    StateChanged {
        must from_state: String,
        must to_state: String,
        may expected_duration_ms: u64,
    }
    /// Progress of the session.
    ProgressUpdated {
        must progress: Progress,
        may eta_ms: u64,
    }
    /// A tool is about to be called.
    ToolInvoked {
        must tool: String,
        may description: String,
        may args_summary: String,
        may expected_duration_ms: u64,
        may risk_level: Level,
        may irreversible: bool,
        may tool_call_id: String,
    }
    /// A call has ended.
    ToolCompleted {
        must tool: String,
        must status: ToolStatus,
        may tool_call_id: String,
        may duration_ms: u64,
        may error_message: String,
    }
    /// A chunk of output.
    OutputStreaming {
        must chunk: String,
        must position: u64,
        must complete: bool,
        may coalesce_hint: Boundary,
        may output_id: String,
        may content_type: String,
        may language: String,
    }
    /// A prompt to confirm an action.
    AwaitingConfirmation {
        must action: String,
        must consequence: String,
        must reply_token: ReplyToken,
        must timeout_seconds: u32,
        must default_decision: Decision,
        may risk_level: Level,
        may irreversible: bool,
        may reversibility: Reversibility,
        may allowed_replies: Vec<Decision>,
        may extra_context: Map<String, Value>,
    }
    /// A prompt with a question.
    AwaitingClarification {
        must question: String,
        must reply_token: ReplyToken,
        must timeout_seconds: u32,
        may accepted_response_kinds: Vec<String>,
        may choices: Vec<Choice>,
        may context: String,
        may default_response: String,
    }
    /// A request that another agent or a person continues.
    HandoffRequested {
        must reason: String,
        must target_kind: HandoffTarget,
        may target_uri: String,
        may packaged_context: Map<String, Value>,
        may urgency_for_handoff: Level,
    }
}

/// Progress, with at least one field.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<serde_json::Number>,
    #[serde(default, deserialize_with = "whole::may", skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    #[serde(default, deserialize_with = "whole::may", skip_serializing_if = "Option::is_none")]
    pub total_steps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A choice of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The value to return.
    pub value: String,
    /// The text for people.
    pub label: String,
}

impl Body {
    /// The token and the timeout of a prompt; `None` for events that take no reply.
    pub fn prompt(&self) -> Option<(&ReplyToken, u32)> {
        match self {
            Body::AwaitingConfirmation(prompt) => Some((&prompt.reply_token, prompt.timeout_seconds)),
            Body::AwaitingClarification(prompt) => Some((&prompt.reply_token, prompt.timeout_seconds)),
            _ => None,
        }
    }

    /// The same, to change them.
    pub fn prompt_mut(&mut self) -> Option<(&mut ReplyToken, &mut u32)> {
        match self {
            Body::AwaitingConfirmation(prompt) => {
                Some((&mut prompt.reply_token, &mut prompt.timeout_seconds))
            }
            Body::AwaitingClarification(prompt) => {
                Some((&mut prompt.reply_token, &mut prompt.timeout_seconds))
            }
            _ => None,
        }
    }
}

impl AwaitingConfirmation {
    /// The deadline in milliseconds since 1970, for a prompt with this timestamp.
    pub fn deadline_ms(&self, timestamp: &Timestamp) -> i64 {
        timestamp.millis() + i64::from(self.timeout_seconds) * 1_000
    }

    /// Whether this prompt allows a decision.
    pub fn allows(&self, decision: &Decision) -> bool {
        match &self.allowed_replies {
            Some(allowed) => allowed.contains(decision),
            None => matches!(decision, Decision::Accept | Decision::Reject),
        }
    }
}
