//! The result of an append: the location of its events, and whether a failed append may have been committed.

use recount_log::{AppendError, FaultKind, Landed};

/// The location of the events of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    pub first_sequence: u64,
    pub last_sequence: u64,
    /// Position of the last event. If it was pruned and its batch is repeated: the position before the first event of
    /// the run that is still stored.
    pub position: u64,
}

/// Whether a failed append may have been committed.
pub(crate) fn may_have_happened(error: &AppendError) -> bool {
    match error {
        AppendError::GuardFailed { .. } | AppendError::Erased { .. } => false,
        AppendError::TailMoved { .. } => true,
        // Refused before any write.
        AppendError::Fault(fault) => !matches!(
            fault.kind,
            FaultKind::Busy | FaultKind::Closed | FaultKind::Fenced | FaultKind::TooLarge
        ),
    }
}

pub(crate) fn receipt(landed: &Landed) -> Receipt {
    Receipt {
        first_sequence: landed.first_sequence,
        last_sequence: landed.last_sequence,
        position: landed.first_position + (landed.last_sequence - landed.first_sequence),
    }
}
