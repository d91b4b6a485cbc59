//! The fields of each event type and message, with their shapes: chapters 3 to 6 of the specification as data.

use crate::field::Field;
use crate::kind::{Kind, TypeClass, classify};
use crate::lex;
use crate::reading::Reading;
use crate::rules;
use crate::shape::{FieldSpec, ObjectShape, Shape};

const DAY_MS: i64 = 86_400_000;
const DURATION: Shape = Shape::Int { min: 0, max: DAY_MS };
const SHORT: Shape = Shape::Text { min: 1, max: 4_096 };
const LONG: Shape = Shape::Text { min: 1, max: 16_384 };
const LONG_OR_EMPTY: Shape = Shape::Text { min: 0, max: 16_384 };
const NAME: Shape = Shape::Text { min: 1, max: 256 };
const ANY_TEXT: Shape = Shape::Text { min: 0, max: usize::MAX };
const COUNT: Shape = Shape::Int { min: 0, max: i64::MAX };
const FROM_ONE: Shape = Shape::Int { min: 1, max: i64::MAX };
const URI: Shape = Shape::Lex(&lex::URI);
const TAG: Shape = Shape::Graded { loose: &lex::LANGUAGE, strict: &lex::BCP47, rule: &rules::LANGUAGE_BCP47 };
const MOMENT: Shape =
    Shape::Graded { loose: &lex::MOMENT, strict: &lex::TIMESTAMP, rule: &rules::TIMESTAMP_FRACTION };
const EVENT_VERSION: Shape =
    Shape::Graded { loose: &lex::VERSION, strict: &lex::PUBLISHED, rule: &rules::VERSION_PUBLISHED };
const RISK: Shape = Shape::OneOf(&["low", "medium", "high"]);
const DECISION: Shape = Shape::OneOf(&["accept", "reject"]);
const VERBOSITY: Shape = Shape::OneOf(&["terse", "normal", "detailed"]);
static DECISION_LIST: Shape = NAME;
/// The boundaries of output, the finest first.
pub const BOUNDARIES: &[&str] = &["none", "word", "sentence", "paragraph", "completion"];
static BOUNDARY: Shape = Shape::OneOf(BOUNDARIES);
static ONE_TAG: Shape = TAG;
static ONE_NAME: Shape = NAME;
static ONE_URI: Shape = URI;
static ONE_TEXT: Shape = ANY_TEXT;
static ONE_LEVEL: Shape = Shape::OneOfInts(&[1, 2, 3]);
static ANSWER_KIND: Shape = Shape::OneOf(&["freetext", "yes_no", "multiple_choice", "numeric"]);
static ONE_CHOICE: Shape = Shape::Closed(&CHOICE);

/// `producer`.
pub static PRODUCER: ObjectShape = ObjectShape {
    name: "producer",
    fields: &[
        FieldSpec::required("agent_id", Shape::Text { min: 1, max: usize::MAX }),
        FieldSpec::optional("agent_version", ANY_TEXT),
        FieldSpec::optional("agent_name", ANY_TEXT),
        FieldSpec::optional("model", ANY_TEXT),
        FieldSpec::optional("manifest_uri", URI),
    ],
    extensible: false,
    min_fields: 0,
};

/// `localization_hints`.
pub static HINTS: ObjectShape = ObjectShape {
    name: "localization hints",
    fields: &[
        FieldSpec::optional("primary_language", TAG),
        FieldSpec::optional("text_direction", Shape::OneOf(&["ltr", "rtl", "auto"])),
        FieldSpec::optional(
            "available_languages",
            Shape::List { of: &ONE_TAG, min: 0, max: 32, unique: true },
        ),
        FieldSpec::optional("fallback_chain", Shape::List { of: &ONE_TAG, min: 0, max: 16, unique: false }),
        FieldSpec::optional("script", Shape::Lex(&lex::SCRIPT)),
        FieldSpec::optional("calendar", ANY_TEXT),
    ],
    extensible: false,
    min_fields: 0,
};

/// `progress`.
pub static PROGRESS: ObjectShape = ObjectShape {
    name: "progress",
    fields: &[
        FieldSpec::optional("percent", Shape::Number { min: 0.0, max: 100.0 }),
        FieldSpec::optional("step", FROM_ONE),
        FieldSpec::optional("total_steps", FROM_ONE),
        FieldSpec::optional("description", SHORT),
    ],
    extensible: false,
    min_fields: 1,
};

/// One of `choices`.
pub static CHOICE: ObjectShape = ObjectShape {
    name: "choice",
    fields: &[
        FieldSpec::required("value", NAME),
        FieldSpec::required("label", Shape::Text { min: 1, max: 1_024 }),
    ],
    extensible: false,
    min_fields: 0,
};

/// `event_filters`.
pub static FILTERS: ObjectShape = ObjectShape {
    name: "event filters",
    fields: &[
        FieldSpec::optional("include", Shape::List { of: &ONE_NAME, min: 0, max: usize::MAX, unique: false }),
        FieldSpec::optional("exclude", Shape::List { of: &ONE_NAME, min: 0, max: usize::MAX, unique: false }),
    ],
    extensible: false,
    min_fields: 0,
};

/// `capabilities` and `honored_capabilities`.
pub static CAPABILITIES: ObjectShape = ObjectShape {
    name: "capabilities",
    fields: &[
        FieldSpec::optional("max_events_per_second", Shape::Int { min: 1, max: 100_000 }),
        FieldSpec::optional("preferred_verbosity", VERBOSITY),
        FieldSpec::optional("languages", Shape::List { of: &ONE_TAG, min: 1, max: 32, unique: true }),
        FieldSpec::optional("supports_confirmation_reply", Shape::Bool),
        FieldSpec::optional("supports_clarification_reply", Shape::Bool),
        FieldSpec::optional(
            "coalesce_boundaries",
            Shape::List { of: &BOUNDARY, min: 1, max: 5, unique: true },
        ),
        FieldSpec::optional("event_filters", Shape::Closed(&FILTERS)),
        FieldSpec::optional(
            "supported_conformance_levels",
            Shape::List { of: &ONE_LEVEL, min: 0, max: 3, unique: true },
        ),
        FieldSpec::optional(
            "supported_extensions",
            Shape::List { of: &ONE_URI, min: 0, max: 64, unique: false },
        ),
        FieldSpec::optional("cognitive_load", Shape::OneOf(&["low", "medium", "high"])),
        FieldSpec::optional("pace_wpm", Shape::Int { min: 50, max: 1_000 }),
        FieldSpec::optional("accept_signed_manifests_only", Shape::Bool),
    ],
    extensible: true,
    min_fields: 0,
};

/// The shape of a field, which is the same in every type that has it.
pub static SHAPES: [Shape; Field::COUNT] = [
    Shape::Context,
    EVENT_VERSION,
    ANY_TEXT,
    Shape::Lex(&lex::EVENT_ID),
    Shape::Lex(&lex::SESSION_ID),
    COUNT,
    MOMENT,
    Shape::Closed(&PRODUCER),
    VERBOSITY,
    Shape::OneOf(&["background", "normal", "critical"]),
    Shape::Closed(&HINTS),
    ANY_TEXT,
    Shape::Objects,
    SHORT,
    LONG,
    LONG,
    DURATION,
    NAME,
    LONG_OR_EMPTY,
    Shape::List { of: &ONE_NAME, min: 0, max: 256, unique: true },
    DURATION,
    COUNT,
    LONG_OR_EMPTY,
    URI,
    Shape::OneOf(&["transient", "permanent", "requires_user", "unknown"]),
    Shape::Lex(&lex::ERROR_CODE),
    URI,
    Shape::Bool,
    SHORT,
    Shape::OneOf(&["user", "producer", "timeout", "system"]),
    Shape::Lex(&lex::CANCELLATION_REASON),
    LONG_OR_EMPTY,
    Shape::Text { min: 1, max: 64 },
    Shape::Text { min: 1, max: 64 },
    Shape::Closed(&PROGRESS),
    DURATION,
    Shape::Lex(&lex::TOOL),
    SHORT,
    LONG_OR_EMPTY,
    RISK,
    Shape::Bool,
    Shape::Lex(&lex::TOOL_CALL_ID),
    Shape::OneOf(&["success", "error", "timeout"]),
    SHORT,
    LONG_OR_EMPTY,
    COUNT,
    Shape::Bool,
    Shape::OneOf(BOUNDARIES),
    Shape::Lex(&lex::OUTPUT_ID),
    Shape::Graded {
        loose: &lex::MEDIA_TYPE_WITH_PARAMETERS,
        strict: &lex::MEDIA_TYPE,
        rule: &rules::MEDIA_TYPE_PARAMETERS,
    },
    TAG,
    LONG,
    LONG,
    Shape::Lex(&lex::REPLY_TOKEN),
    Shape::Int { min: 1, max: 86_400 },
    DECISION,
    Shape::OneOf(&["reversible", "reversible_with_effort", "irreversible"]),
    Shape::List { of: &DECISION_LIST, min: 1, max: 32, unique: true },
    Shape::Object,
    LONG,
    Shape::List { of: &ANSWER_KIND, min: 1, max: 4, unique: true },
    Shape::List { of: &ONE_CHOICE, min: 2, max: 32, unique: false },
    SHORT,
    Shape::Text { min: 0, max: 4_096 },
    LONG,
    Shape::OneOf(&["human", "specialist_agent", "escalation_queue"]),
    URI,
    Shape::Object,
    RISK,
];

/// The required fields of every event.
pub const ENVELOPE_REQUIRED: &[Field] =
    &[Field::Context, Field::Type, Field::EventId, Field::SessionId, Field::Timestamp, Field::Producer];

const SUMMARIES: &[Field] = &[Field::SummaryTerse, Field::SummaryNormal, Field::SummaryDetailed];

/// The payload of a type: required and optional fields.
pub const fn payload(kind: Kind) -> (&'static [Field], &'static [Field]) {
    use Field as F;
    match kind {
        Kind::SessionStarted => {
            (&[F::SummaryNormal], &[F::ExpectedDurationMs, F::RequestedBy, F::RequestText, F::ToolsAvailable])
        }
        Kind::SessionCompleted => {
            (&[F::SummaryNormal], &[F::DurationMs, F::ToolInvocationsCount, F::OutputSummary, F::ResultUri])
        }
        Kind::SessionErrored => (
            &[F::ErrorCategory, F::SummaryNormal],
            &[F::ErrorCode, F::ErrorUri, F::Recoverable, F::RemediationHint],
        ),
        Kind::SessionCancelled => {
            (&[F::CancelledBy, F::SummaryNormal], &[F::CancellationReason, F::PartialResult])
        }
        Kind::StateChanged => (&[F::FromState, F::ToState], &[F::ExpectedDurationMs]),
        Kind::ProgressUpdated => (&[F::Progress], &[F::EtaMs]),
        Kind::ToolInvoked => (
            &[F::Tool, F::SummaryNormal],
            &[
                F::Description,
                F::ArgsSummary,
                F::ExpectedDurationMs,
                F::RiskLevel,
                F::Irreversible,
                F::ToolCallId,
            ],
        ),
        Kind::ToolCompleted => (&[F::Tool, F::Status], &[F::ToolCallId, F::DurationMs, F::ErrorMessage]),
        Kind::OutputStreaming => (
            &[F::Chunk, F::Position, F::Complete],
            &[F::CoalesceHint, F::OutputId, F::ContentType, F::Language],
        ),
        Kind::AwaitingConfirmation => (
            &[F::Action, F::Consequence, F::ReplyToken, F::TimeoutSeconds, F::DefaultDecision],
            &[F::RiskLevel, F::Irreversible, F::Reversibility, F::AllowedReplies, F::ExtraContext],
        ),
        Kind::AwaitingClarification => (
            &[F::Question, F::ReplyToken, F::TimeoutSeconds],
            &[F::AcceptedResponseKinds, F::Choices, F::AnswerContext, F::DefaultResponse],
        ),
        Kind::HandoffRequested => {
            (&[F::Reason, F::TargetKind], &[F::TargetUri, F::PackagedContext, F::UrgencyForHandoff])
        }
    }
}

/// The summaries of a type: all types have them, except chunks of output.
pub const fn summaries(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::OutputStreaming => &[],
        _ => SUMMARIES,
    }
}

const fn bits(fields: &[Field]) -> u128 {
    let mut set = 0;
    let mut at = 0;
    while at < fields.len() {
        set |= fields[at].bit();
        at += 1;
    }
    set
}

const KINDS: usize = Kind::ALL.len();

/// The required payload fields of each type, as bit sets.
pub const REQUIRED: [u128; KINDS] = {
    let mut sets = [0; KINDS];
    let mut at = 0;
    while at < KINDS {
        sets[at] = bits(payload(Kind::ALL[at]).0);
        at += 1;
    }
    sets
};

/// The envelope fields, as a bit set.
pub const ENVELOPE: u128 = (Field::Extensions.bit() << 1) - 1;

/// The allowed fields of each type, including the envelope, as bit sets.
pub const ALLOWED: [u128; KINDS] = {
    let mut sets = [0; KINDS];
    let mut at = 0;
    while at < KINDS {
        let kind = Kind::ALL[at];
        sets[at] = ENVELOPE | bits(payload(kind).0) | bits(payload(kind).1) | bits(summaries(kind));
        at += 1;
    }
    sets
};

/// The fields with text for people, as a bit set.
pub const FOR_PEOPLE: u128 = bits(Field::FOR_PEOPLE);

/// Fields that may have texts in other languages, such as `summary_normal_yo`.
pub const LOCALIZED: &[&str] = &[
    "summary_terse",
    "summary_normal",
    "summary_detailed",
    "action",
    "consequence",
    "question",
    "reason",
    "description",
    "remediation_hint",
    "error_message",
    "context",
];

/// Wrong names in existing code, with the right ones.
pub const MISNOMERS: &[(&str, &str)] = &[
    ("progress_percent", "progress.percent"),
    ("progress_message", "progress.description"),
    ("estimated_remaining_ms", "eta_ms"),
    ("options", "choices"),
    ("free_form_allowed", "accepted_response_kinds"),
    ("multi_select", "accepted_response_kinds"),
    ("handoff_target", "target_uri"),
    ("context_summary", "packaged_context"),
    ("language", "localization_hints.primary_language"),
];

const TYPE_NAME: Shape = Shape::Text { min: 1, max: usize::MAX };
const SUBSCRIPTION: Shape = Shape::Lex(&lex::SUBSCRIPTION_ID);
const CORRELATION: FieldSpec = FieldSpec::optional("correlation_id", ANY_TEXT);

macro_rules! messages {
    ($( $message:ident = $name:literal { $( $spec:expr, )* } )*) => {
        /// The kind of a message other than an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum MessageKind { $( #[doc = concat!("`", $name, "`")] $message, )* }

        impl MessageKind {
            /// All of them.
            pub const ALL: &[MessageKind] = &[$( MessageKind::$message, )*];

            /// The name, without the prefix `aaep:`.
            pub const fn name(self) -> &'static str {
                match self { $( MessageKind::$message => $name, )* }
            }

            /// The kind with this name, with or without the prefix.
            pub fn of_name(name: &str) -> Option<MessageKind> {
                match name.strip_prefix(crate::kind::PREFIX).unwrap_or(name) {
                    $( $name => Some(MessageKind::$message), )*
                    _ => None,
                }
            }

            /// Its fields.
            pub fn fields(self) -> &'static ObjectShape {
                match self { $(
                    MessageKind::$message => {
                        static FIELDS: ObjectShape = ObjectShape {
                            name: $name,
                            fields: &[$( $spec, )*],
                            extensible: false,
                            min_fields: 0,
                        };
                        &FIELDS
                    }
                )* }
            }
        }
    };
}

messages! {
    SubscriptionRequest = "subscription.request" {
        FieldSpec::required("type", TYPE_NAME),
        FieldSpec::required("aaep_version", Shape::Lex(&lex::VERSION)),
        FieldSpec::required("subscriber_id", NAME),
        FieldSpec::required("capabilities", Shape::Closed(&CAPABILITIES)),
        FieldSpec::optional("subscriber_name", Shape::Text { min: 0, max: 256 }),
        FieldSpec::optional("subscriber_version", Shape::Text { min: 0, max: 64 }),
        FieldSpec::optional("subscriber_manifest_uri", URI),
        CORRELATION,
        FieldSpec::optional("extensions", Shape::Objects),
    }
    SubscriptionAccepted = "subscription.accepted" {
        FieldSpec::required("type", TYPE_NAME),
        FieldSpec::required("subscription_id", SUBSCRIPTION),
        FieldSpec::required("aaep_version", Shape::Lex(&lex::VERSION)),
        FieldSpec::required("producer", Shape::Closed(&PRODUCER)),
        FieldSpec::required("honored_capabilities", Shape::Closed(&CAPABILITIES)),
        FieldSpec::optional("manifest_uri", URI),
        FieldSpec::optional("signed_manifest", Shape::Lex(&lex::SIGNATURE)),
        FieldSpec::optional("negotiation_notes", Shape::Text { min: 0, max: 4_096 }),
        CORRELATION,
        FieldSpec::optional("extensions", Shape::Objects),
    }
    SubscriptionRejected = "subscription.rejected" {
        FieldSpec::required("type", TYPE_NAME),
        FieldSpec::required("reason_code", NAME),
        FieldSpec::required("reason_message", SHORT),
        FieldSpec::optional("retry_after_seconds", Shape::Int { min: 0, max: 86_400 }),
        FieldSpec::optional("alternative_manifest_uri", URI),
        CORRELATION,
        FieldSpec::optional("extensions", Shape::Objects),
    }
    SubscriptionRenegotiate = "subscription.renegotiate" {
        FieldSpec::required("type", TYPE_NAME),
        FieldSpec::required("subscription_id", SUBSCRIPTION),
        FieldSpec::required("capabilities", Shape::Closed(&CAPABILITIES)),
        CORRELATION,
        FieldSpec::optional("extensions", Shape::Objects),
    }
    SubscriptionClose = "subscription.close" {
        FieldSpec::required("type", TYPE_NAME),
        FieldSpec::required("subscription_id", SUBSCRIPTION),
        FieldSpec::optional("reason_code", NAME),
        FieldSpec::optional("reason_message", Shape::Text { min: 0, max: 4_096 }),
        CORRELATION,
        FieldSpec::optional("extensions", Shape::Objects),
    }
    ConfirmationReply = "confirmation.reply" {
        FieldSpec::required("type", TYPE_NAME),
        FieldSpec::required("reply_token", Shape::Lex(&lex::REPLY_TOKEN)),
        FieldSpec::required("decision", DECISION),
        FieldSpec::required("subscription_id", SUBSCRIPTION),
        FieldSpec::required("timestamp", MOMENT),
        FieldSpec::optional("decided_by", NAME),
        FieldSpec::optional("decision_rationale", SHORT),
        FieldSpec::optional("modified_action", Shape::Object),
        CORRELATION,
    }
    ClarificationReply = "clarification.reply" {
        FieldSpec::required("type", TYPE_NAME),
        FieldSpec::required("reply_token", Shape::Lex(&lex::REPLY_TOKEN)),
        FieldSpec::required("response", Shape::Response { max: 16_384 }),
        FieldSpec::required("subscription_id", SUBSCRIPTION),
        FieldSpec::required("timestamp", MOMENT),
        FieldSpec::optional("decided_by", NAME),
        FieldSpec::optional("confidence", Shape::Number { min: 0.0, max: 1.0 }),
        CORRELATION,
    }
    ProducerManifest = "producer.manifest" {
        FieldSpec::required("@context", Shape::Context),
        FieldSpec::required("type", TYPE_NAME),
        FieldSpec::required("agent_id", NAME),
        FieldSpec::required("aaep_versions_supported", Shape::List { of: &ONE_NAME, min: 1, max: 64, unique: true }),
        FieldSpec::required("conformance_levels_supported", Shape::List { of: &ONE_LEVEL, min: 1, max: 3, unique: true }),
        FieldSpec::required("transports_supported", Shape::List { of: &ONE_NAME, min: 1, max: 64, unique: true }),
        FieldSpec::optional("agent_version", ANY_TEXT),
        FieldSpec::optional("agent_name", ANY_TEXT),
        FieldSpec::optional("languages_supported", Shape::List { of: &ONE_TAG, min: 0, max: 256, unique: true }),
        FieldSpec::optional("event_types_emitted", Shape::List { of: &ONE_NAME, min: 0, max: 256, unique: true }),
        FieldSpec::optional("extensions_supported", Shape::List { of: &ONE_URI, min: 0, max: 64, unique: true }),
        FieldSpec::optional("default_verbosity", VERBOSITY),
        FieldSpec::optional("max_concurrent_subscriptions", FROM_ONE),
        FieldSpec::optional("contact", ANY_TEXT),
        FieldSpec::optional("endpoints", Shape::Object),
        FieldSpec::optional("framing", ANY_TEXT),
        FieldSpec::optional("states", Shape::List { of: &ONE_TEXT, min: 0, max: 256, unique: true }),
        FieldSpec::optional("multi_agent_pattern", ANY_TEXT),
        FieldSpec::optional("extensions", Shape::Objects),
    }
}

/// The kind of a message that is not an event.
pub fn message_kind(reading: &Reading<'_>) -> Option<MessageKind> {
    let name = reading.text(Field::Type)?;
    match classify(&name) {
        TypeClass::Core(_) => None,
        _ => MessageKind::of_name(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_are_in_the_order_of_the_fields() {
        // Fields whose shapes would differ after a shift.
        let shape = |field: Field| format!("{:?}", SHAPES[field as usize]);
        assert!(shape(Field::Extensions).contains("Objects"));
        assert!(shape(Field::Tool).contains("tool"));
        assert!(shape(Field::ToolCallId).contains("call"));
        assert!(shape(Field::ReplyToken).contains("reply"));
        assert!(shape(Field::UrgencyForHandoff).contains("high"));
        assert!(shape(Field::CoalesceHint).contains("sentence"));
        assert!(shape(Field::TargetKind).contains("human"));
        assert!(shape(Field::DefaultDecision).contains("accept"));
        assert!(shape(Field::ErrorCategory).contains("transient"));
    }
}
