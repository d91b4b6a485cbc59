//! What becomes of an append: where its events are, and whether one that failed may be in the log all the same.

use recount_log::{AppendError, FaultKind, Landed};

/// Where the events of a command landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    pub first_sequence: u64,
    pub last_sequence: u64,
    /// Position of the last event. Of one that was pruned, when a batch is repeated, the place right before
    /// what is left of the run.
    pub position: u64,
}

/// Whether a failed append may be in the log all the same.
pub(crate) fn may_have_happened(error: &AppendError) -> bool {
    match error {
        AppendError::GuardFailed { .. } | AppendError::Erased { .. } => false,
        AppendError::TailMoved { .. } => true,
        // Refused at the door.
        AppendError::Fault(fault) => {
            !matches!(fault.kind, FaultKind::Busy | FaultKind::Closed | FaultKind::TooLarge)
        }
    }
}

pub(crate) fn receipt(landed: &Landed) -> Receipt {
    Receipt {
        first_sequence: landed.first_sequence,
        last_sequence: landed.last_sequence,
        position: landed.first_position + (landed.last_sequence - landed.first_sequence),
    }
}
