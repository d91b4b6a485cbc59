//! `handoff.*`: the agent gives the work to somebody else.

use crate::family::{payload, words};
use crate::{ForeignId, Json};

words! {
    /// Who should take over.
    TargetKind {
        Human = "human",
        SpecialistAgent = "specialist_agent",
        EscalationQueue = "escalation_queue",
    }

    /// How soon somebody should look at it.
    HandoffUrgency { Low = "low", Medium = "medium", High = "high" }
}

payload! {
    /// The agent cannot finish and asks somebody to take over.
    Requested { handoff_id: ForeignId, reason: String, target_kind: TargetKind } {
        tool_call_id: ForeignId,
        target_uri: String,
        packaged_context: Json,
        urgency_for_handoff: HandoffUrgency,
        summary_terse: String,
        summary_normal: String,
        summary_detailed: String,
        timeout_seconds: u64,
        /// RFC 3339.
        expires_at: String,
    }

    /// Somebody took over.
    Acknowledged { handoff_id: ForeignId, by: String } { tool_call_id: ForeignId, comment: String }

    /// Nobody will take over.
    Rejected { handoff_id: ForeignId, by: String } { tool_call_id: ForeignId, reason: String }

    /// Nobody took over in time.
    TimedOut { handoff_id: ForeignId, after_seconds: u64 } { tool_call_id: ForeignId }
}
