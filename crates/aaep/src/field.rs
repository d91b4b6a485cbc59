//! The names of all top-level fields of events, and a fast lookup from a name to its [`Field`].

macro_rules! fields {
    ($( $field:ident = $name:literal, )*) => {
        /// A top-level field of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field { $( #[doc = concat!("`", $name, "`")] $field, )* }

        impl Field {
            /// All of them: first those of the envelope, then those of the types.
            pub const ALL: &[Field] = &[$( Field::$field, )*];
            const NAMES: &[&str] = &[$( $name, )*];
        }
    };
}

fields! {
    Context = "@context",
    AaepVersion = "aaep_version",
    Type = "type",
    EventId = "event_id",
    SessionId = "session_id",
    SequenceNumber = "sequence_number",
    Timestamp = "timestamp",
    Producer = "producer",
    Verbosity = "verbosity",
    Urgency = "urgency",
    LocalizationHints = "localization_hints",
    CorrelationId = "correlation_id",
    Extensions = "extensions",
    SummaryTerse = "summary_terse",
    SummaryNormal = "summary_normal",
    SummaryDetailed = "summary_detailed",
    ExpectedDurationMs = "expected_duration_ms",
    RequestedBy = "requested_by",
    RequestText = "request_text",
    ToolsAvailable = "tools_available",
    DurationMs = "duration_ms",
    ToolInvocationsCount = "tool_invocations_count",
    OutputSummary = "output_summary",
    ResultUri = "result_uri",
    ErrorCategory = "error_category",
    ErrorCode = "error_code",
    ErrorUri = "error_uri",
    Recoverable = "recoverable",
    RemediationHint = "remediation_hint",
    CancelledBy = "cancelled_by",
    CancellationReason = "cancellation_reason",
    PartialResult = "partial_result",
    FromState = "from_state",
    ToState = "to_state",
    Progress = "progress",
    EtaMs = "eta_ms",
    Tool = "tool",
    Description = "description",
    ArgsSummary = "args_summary",
    RiskLevel = "risk_level",
    Irreversible = "irreversible",
    ToolCallId = "tool_call_id",
    Status = "status",
    ErrorMessage = "error_message",
    Chunk = "chunk",
    Position = "position",
    Complete = "complete",
    CoalesceHint = "coalesce_hint",
    OutputId = "output_id",
    ContentType = "content_type",
    Language = "language",
    Action = "action",
    Consequence = "consequence",
    ReplyToken = "reply_token",
    TimeoutSeconds = "timeout_seconds",
    DefaultDecision = "default_decision",
    Reversibility = "reversibility",
    AllowedReplies = "allowed_replies",
    ExtraContext = "extra_context",
    Question = "question",
    AcceptedResponseKinds = "accepted_response_kinds",
    Choices = "choices",
    AnswerContext = "context",
    DefaultResponse = "default_response",
    Reason = "reason",
    TargetKind = "target_kind",
    TargetUri = "target_uri",
    PackagedContext = "packaged_context",
    UrgencyForHandoff = "urgency_for_handoff",
}

const BUCKETS: usize = 256;
const NONE: u8 = u8::MAX;

/// The hash table of names, with linear probing.
const SLOTS: [u8; BUCKETS] = {
    let mut slots = [NONE; BUCKETS];
    let mut at = 0;
    while at < Field::NAMES.len() {
        let mut slot = hash(Field::NAMES[at].as_bytes());
        while slots[slot] != NONE {
            slot = (slot + 1) % BUCKETS;
        }
        #[expect(clippy::cast_possible_truncation, reason = "there are fewer fields than a byte can count")]
        let number = at as u8;
        slots[slot] = number;
        at += 1;
    }
    slots
};

const fn hash(name: &[u8]) -> usize {
    let length = name.len();
    if length == 0 {
        return 0;
    }
    let ends = name[0] as usize * 7 + name[length - 1] as usize * 29;
    (length * 37 + ends + name[length / 2] as usize * 113 + name[length / 3] as usize * 59) % BUCKETS
}

impl Field {
    /// The number of fields.
    pub const COUNT: usize = Field::NAMES.len();

    pub fn name(self) -> &'static str {
        Field::NAMES[self as usize]
    }

    /// The field with this name.
    #[inline]
    pub fn of_name(name: &str) -> Option<Field> {
        let mut slot = hash(name.as_bytes());
        loop {
            let at = SLOTS[slot];
            if at == NONE {
                return None;
            }
            if Field::NAMES[at as usize] == name {
                return Some(Field::ALL[at as usize]);
            }
            slot = (slot + 1) % BUCKETS;
        }
    }

    /// As one bit of a set.
    pub const fn bit(self) -> u128 {
        1 << self as u8
    }

    /// Whether it belongs to the envelope.
    pub fn is_envelope(self) -> bool {
        self <= Field::Extensions
    }

    /// Top-level fields with text for people.
    pub const FOR_PEOPLE: &[Field] = &[
        Field::SummaryTerse,
        Field::SummaryNormal,
        Field::SummaryDetailed,
        Field::RequestText,
        Field::OutputSummary,
        Field::RemediationHint,
        Field::PartialResult,
        Field::Description,
        Field::ArgsSummary,
        Field::ErrorMessage,
        Field::Action,
        Field::Consequence,
        Field::Question,
        Field::AnswerContext,
        Field::Reason,
        Field::Chunk,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_name_is_found_and_no_other() {
        for field in Field::ALL {
            assert_eq!(Field::of_name(field.name()), Some(*field));
        }
        for other in ["", "a", "summary", "summary_normal_yo", "Type", "event-id"] {
            assert_eq!(Field::of_name(other), None, "{other}");
        }
    }
}
