//! `handoff.*`: the agent hands its work over to a person or to another agent.

use crate::family::{payload, words};
use crate::{ForeignId, Json};

words! {
    /// Who should take over.
    TargetKind {
        Human = "human",
        SpecialistAgent = "specialist_agent",
        EscalationQueue = "escalation_queue",
    }

    /// The urgency of a handoff.
    HandoffUrgency { Low = "low", Medium = "medium", High = "high" }
}

/// Characters of a reason, and of the two longer summaries. The check of JSON from outside refuses more.
pub const REASON_CHARS_MAX: usize = 16_384;

/// Characters of the shortest summary. The check of JSON from outside refuses more.
pub const SUMMARY_TERSE_CHARS_MAX: usize = 4_096;

payload! {
    /// The agent cannot finish and hands the work over.
    Requested {
        handoff_id: ForeignId,
        /// Why the agent cannot continue.
        #[schemars(length(min = 1, max = 16_384))]
        reason: String,
        target_kind: TargetKind,
    } {
        tool_call_id: ForeignId,
        /// The exact recipient: a queue, an agent, a workflow.
        target_uri: String,
        /// The context for the recipient, an object in a format of the producer.
        #[schemars(with = "Option<std::collections::BTreeMap<String, Json>>")]
        packaged_context: Json,
        urgency_for_handoff: HandoffUrgency,
        /// The handoff in a few words.
        #[schemars(length(min = 1, max = 4_096))]
        summary_terse: String,
        /// The handoff in a sentence or two.
        #[schemars(length(min = 1, max = 16_384))]
        summary_normal: String,
        /// The handoff in full.
        #[schemars(length(min = 1, max = 16_384))]
        summary_detailed: String,
        timeout_seconds: u64,
        expires_at: String,
    }

    /// The handoff was accepted.
    Acknowledged { handoff_id: ForeignId, by: String } { tool_call_id: ForeignId, comment: String }

    /// The handoff was rejected.
    Rejected { handoff_id: ForeignId, by: String } { tool_call_id: ForeignId, reason: String }

    /// The deadline of the handoff was moved.
    Extended {
        handoff_id: ForeignId,
        /// The new deadline.
        expires_at: String,
        /// The time added to the previous deadline, in seconds.
        seconds: u64,
        by: String,
    } { tool_call_id: ForeignId }

    /// The handoff timed out.
    TimedOut { handoff_id: ForeignId, after_seconds: u64 } { tool_call_id: ForeignId }
}

impl Requested {
    /// The first bound that a field breaks. The check of JSON from outside refuses such a handoff; a stored one is still
    /// read. Code that creates a handoff of an own run must call this first.
    pub fn breach(&self) -> Option<String> {
        let texts = [
            ("reason", Some(&self.reason), REASON_CHARS_MAX),
            ("summary_terse", self.summary_terse.as_ref(), SUMMARY_TERSE_CHARS_MAX),
            ("summary_normal", self.summary_normal.as_ref(), REASON_CHARS_MAX),
            ("summary_detailed", self.summary_detailed.as_ref(), REASON_CHARS_MAX),
        ];
        for (name, text, max) in texts {
            let chars = text.map_or(1, |text| text.chars().count());
            if chars == 0 || chars > max {
                return Some(format!("{name} has {chars} characters; send 1 to {max}"));
            }
        }
        let context = self.packaged_context.as_ref()?;
        (!context.text().starts_with('{')).then(|| "packaged_context must be an object".into())
    }
}
