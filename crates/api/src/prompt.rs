//! Approvals, clarifications and handoffs on the wire: what they have in common, what each kind has of its own, and the
//! requests that answer them. The table after [`PromptAnswer`] has the routes of the answers.

use recount_event::Json;
pub use recount_event::PromptKind;
pub use recount_event::family::approval::AllowanceScope;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// A prompt and its outcome.
pub trait Prompt: Serialize + DeserializeOwned + Send + Sync {
    const KIND: PromptKind;

    fn head(&self) -> PromptHead<'_>;
}

/// The fields that all prompts have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptHead<'p> {
    pub id: &'p str,
    pub run_id: &'p str,
    pub status: &'p str,
    /// What it is about, in a few words.
    pub title: &'p str,
    pub requested_at: &'p str,
    pub expires_at: Option<&'p str>,
}

/// An answer to a prompt: the body of a `POST` to the last part of its route.
pub trait PromptAnswer: Serialize + Sync {
    type Prompt: Prompt;

    /// The last part of the route.
    const VERB: &'static str;
}

macro_rules! prompt {
    ($kind:ident, |$prompt:ident| $title:expr, $($answer:ident = $verb:literal),+) => {
        impl Prompt for $kind {
            const KIND: PromptKind = PromptKind::$kind;

            fn head(&self) -> PromptHead<'_> {
                let $prompt = self;
                PromptHead {
                    id: &self.id,
                    run_id: &self.run_id,
                    status: &self.status,
                    title: $title,
                    requested_at: &self.requested_at,
                    expires_at: self.expires_at.as_deref(),
                }
            }
        }

        $(impl PromptAnswer for $answer {
            type Prompt = $kind;

            const VERB: &'static str = $verb;
        })+
    };
}

prompt!(Approval, |approval| &approval.summary, ResolveApproval = "resolve");

prompt!(Clarification, |clarification| &clarification.question, AnswerClarification = "answer");

prompt!(
    Handoff,
    |handoff| handoff.summary_terse.as_deref().unwrap_or(&handoff.reason),
    AcknowledgeHandoff = "acknowledge",
    RejectHandoff = "reject"
);

/// An approval and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    pub id: String,
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub tool_call_id: String,
    pub kind: String,
    pub summary: String,
    /// `pending`, `approved`, `rejected`, `cancelled` or `timed_out`.
    pub status: String,
    pub requested_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The decision at the timeout: `approve` or `reject`.
    pub default_decision: String,
    /// `true`: at the deadline the request is withdrawn, because the agent's own dialog decides then. `default_decision`
    /// has no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn_at_deadline: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irreversible: Option<bool>,
    /// Binds the request to one exact call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_digest: Option<String>,
    /// What a person reads before deciding: the complete command, the diff of the files, or the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// `command`, `diff` or `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_kind: Option<String>,
    /// Size of the complete preview in bytes, if `preview` is only its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_size_bytes: Option<u64>,
    /// The artifact with the complete preview, if `preview` is only its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_artifact_id: Option<String>,
    /// A digest of everything that a client shows of the prompt. Send it with the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Whether the answer may have `remember`. Absent for calls that always need an approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_be_remembered: bool,
    /// The allowance that the decision created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_id: Option<String>,
    /// Its scope: `run`, `session` or `workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_scope: Option<String>,
}

/// A question and its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clarification {
    pub id: String,
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    pub question: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_response_kinds: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<Json>>,
    /// The answer that applies at the timeout.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub default_response: Option<Json>,
    /// A digest of everything that a client shows of the prompt. Send it with the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_digest: Option<String>,
    /// `pending`, `answered`, `timed_out`, or `cancelled` if it was withdrawn.
    pub status: String,
    pub requested_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The answer, or the default that was applied.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub response: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
}

/// Work that an agent hands over, and the outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Handoff {
    pub id: String,
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    pub reason: String,
    /// `human`, `specialist_agent` or `escalation_queue`.
    pub target_kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_uri: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgency_for_handoff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_terse: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_normal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_detailed: Option<String>,
    /// The context for the recipient. Only present if a single handoff is shown, because it may be large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packaged_context: Option<Json>,
    /// A digest of everything that a client shows of the prompt. Send it with the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_digest: Option<String>,
    /// `pending`, `acknowledged`, `rejected` or `timed_out`.
    pub status: String,
    pub requested_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
    /// The comment of an acceptance, or the reason of a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A JSON `null` is a value, too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// `POST /v1/approvals/{approval}/resolve`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolveApproval {
    pub decision: Verdict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// With `approve`: also approve the same call later in the run, in its session, or in runs that work in the
    /// same folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<AllowanceScope>,
    /// The `shown_digest` of the prompt that was shown. The answer is refused if the prompt differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_digest: Option<String>,
}

/// `POST /v1/clarifications/{clarification}/answer`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerClarification {
    /// Any JSON: a text, one of the choices, or another value that fits the question. Stored unchanged, except for whitespace.
    pub response: Box<RawValue>,
    /// The `shown_digest` of the prompt that was shown. The answer is refused if the prompt differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_digest: Option<String>,
}

/// `POST /v1/handoffs/{handoff}/acknowledge`; the body is optional.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcknowledgeHandoff {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The `shown_digest` of the prompt that was shown. The answer is refused if the prompt differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_digest: Option<String>,
}

/// `POST /v1/handoffs/{handoff}/reject`; the body is optional.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectHandoff {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The `shown_digest` of the prompt that was shown. The answer is refused if the prompt differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_digest: Option<String>,
}

/// `POST /v1/approvals/{approval}/extend`, and the same for clarifications and handoffs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendPrompt {
    /// The time to add to the deadline.
    #[schemars(range(min = 1, max = 86_400))]
    pub seconds: u64,
}

/// A decision on an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Approve,
    Reject,
}
