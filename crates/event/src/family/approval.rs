//! `approval.*`: permission requested, granted, denied or timed out.

use crate::ForeignId;
use crate::family::tool::RiskLevel;
use crate::family::{payload, words};

pub use crate::family::tool::AllowanceScope;

words! {
    /// The decision that applies at the timeout.
    DefaultDecision { Approve = "approve", Reject = "reject" }

    /// The decision on an approval.
    Decision { Approved = "approved", Rejected = "rejected", Cancelled = "cancelled" }

    /// What was decided outside the server about an approval that its producer withdrew.
    DecidedElsewhere {
        Approved = "approved",
        Rejected = "rejected",
        /// Not decided yet, or not known.
        Undecided = "undecided",
    }

    /// Whether the effect of a call can be undone.
    Reversibility {
        Reversible = "reversible",
        PartiallyReversible = "partially_reversible",
        Irreversible = "irreversible",
    }
}

payload! {
    /// A call needs an approval.
    Requested {
        approval_id: ForeignId,
        tool_call_id: ForeignId,
        /// The kind of call; usually the tool's name.
        kind: String,
        summary: String,
    } {
        policy_reason: String,
        /// What the call does, in a sentence.
        action: String,
        /// The consequence, in a sentence.
        consequence: String,
        risk_level: RiskLevel,
        reversibility: Reversibility,
        irreversible: bool,
        timeout_seconds: u64,
        expires_at: String,
        default_decision: DefaultDecision,
        /// In an external run, `true`: at the deadline the approval is withdrawn as `undecided`, because the agent's own
        /// dialog decides then. `default_decision` has no effect.
        withdrawn_at_deadline: bool,
        /// A digest of the tool's name and the call's input; the approval is only for this exact call.
        call_digest: String,
        /// What a person reads before deciding: the complete command, the diff of the files, or the input.
        preview: String,
        /// The kind of `preview`: `command`, `diff` or `input`.
        preview_kind: String,
        /// The size of the complete preview in bytes, if `preview` is only its beginning.
        preview_size_bytes: u64,
        /// The artifact with the complete preview, if `preview` is only its beginning.
        preview_artifact_id: ForeignId,
        /// Binds the approval to the preview: the call does not run if its effect has changed since then.
        preview_digest: String,
        /// The key of an allowance for this call. It is a keyed hash, so it reveals nothing about the call. Missing
        /// if the call always needs an approval.
        allowance_digest: String,
    }

    /// The approval was decided.
    Resolved { approval_id: ForeignId, decision: Decision, by: String } {
        tool_call_id: ForeignId,
        comment: String,
        scope: String,
        /// The protocol of the decision, if the requester needs it.
        via: String,
        /// The result that an application gave instead of running the call; the model gets it.
        answer: String,
        /// The allowance that this decision created: within `scope`, calls like this one need no further approval.
        allowance_id: ForeignId,
        /// Only with `cancelled`, in an external run: its producer withdrew the approval, because it is decided outside the
        /// server, such as in the agent's own dialog. The value is the decision there; `by` names who made it or where. After
        /// `approved` and `undecided` the call may be invoked.
        decided_elsewhere: DecidedElsewhere,
    }

    /// The deadline of the approval was moved.
    Extended {
        approval_id: ForeignId,
        /// The new deadline.
        expires_at: String,
        /// The time added to the previous deadline, in seconds.
        seconds: u64,
        by: String,
    } { tool_call_id: ForeignId }

    /// The approval timed out, and the default was applied.
    TimedOut { approval_id: ForeignId, after_seconds: u64 } {
        tool_call_id: ForeignId,
        decision: Decision,
        by: String,
        scope: String,
    }
}

impl Resolved {
    /// Whether the approval was withdrawn and the call left to a decision elsewhere that is not a rejection.
    pub fn leaves_call_open(&self) -> bool {
        matches!(self.decided_elsewhere, Some(DecidedElsewhere::Approved | DecidedElsewhere::Undecided))
    }
}

impl Requested {
    /// Whether a mistake here cannot be undone: then only a person may approve.
    pub fn is_grave(&self) -> bool {
        self.irreversible == Some(true)
            || self.reversibility == Some(Reversibility::Irreversible)
            || self.risk_level == Some(RiskLevel::High)
    }
}
