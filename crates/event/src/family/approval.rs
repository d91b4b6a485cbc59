//! `approval.*`: permission asked for and given, refused or missed.

use crate::ForeignId;
use crate::family::tool::RiskLevel;
use crate::family::{payload, words};

pub use crate::family::tool::AllowanceScope;

words! {
    /// What happens by itself when nobody answers in time.
    DefaultDecision { Approve = "approve", Reject = "reject" }

    /// What became of a request.
    Decision { Approved = "approved", Rejected = "rejected", Cancelled = "cancelled" }

    /// Whether the effect of a call can be undone.
    Reversibility {
        Reversible = "reversible",
        PartiallyReversible = "partially_reversible",
        Irreversible = "irreversible",
    }
}

payload! {
    /// A call waits for permission.
    Requested {
        approval_id: ForeignId,
        tool_call_id: ForeignId,
        /// What sort of call waits; usually the tool's name.
        kind: String,
        summary: String,
    } {
        policy_reason: String,
        /// What will be done, in a sentence.
        action: String,
        /// What follows from it, in a sentence.
        consequence: String,
        risk_level: RiskLevel,
        reversibility: Reversibility,
        irreversible: bool,
        timeout_seconds: u64,
        expires_at: String,
        default_decision: DefaultDecision,
        /// Binds the request to one exact call: a digest of the tool's name and the call's input.
        call_digest: String,
        /// What a person has to read before deciding: the whole command, the difference of the files, or the input.
        preview: String,
        /// What `preview` is: `command`, `diff` or `input`.
        preview_kind: String,
        /// Bytes of the whole preview, where `preview` is only its beginning.
        preview_size_bytes: u64,
        /// Where the whole preview is kept, where `preview` is only its beginning.
        preview_artifact_id: ForeignId,
        /// Binds the request to what the preview shows: a call that would do something else by now is not carried out.
        preview_digest: String,
        /// By what an allowance for this call would be found again. Keyed, so that it tells nothing of the call. Missing
        /// where the call is always asked about.
        allowance_digest: String,
    }

    /// Somebody decided.
    Resolved { approval_id: ForeignId, decision: Decision, by: String } {
        tool_call_id: ForeignId,
        comment: String,
        scope: String,
        /// Through which protocol the decision came, where that matters to who asked.
        via: String,
        /// What the model is told in the place of an outcome, from an application that answered the call itself.
        answer: String,
        /// The allowance that this decision made: calls like this one are not asked about again, as far as `scope` says.
        allowance_id: ForeignId,
    }

    /// Nobody decided in time, and the default was applied.
    TimedOut { approval_id: ForeignId, after_seconds: u64 } {
        tool_call_id: ForeignId,
        decision: Decision,
        by: String,
        scope: String,
    }
}

impl Requested {
    /// Whether a mistake here cannot be mended: then only a person may say yes.
    pub fn is_grave(&self) -> bool {
        self.irreversible == Some(true)
            || self.reversibility == Some(Reversibility::Irreversible)
            || self.risk_level == Some(RiskLevel::High)
    }
}
