//! What the signing of heads keeps in memory. See [`Signer`].

use std::sync::{Arc, OnceLock};

use recount_signature::SigningKey;
use serde::{Deserialize, Serialize};

/// The row with the progress of the service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// The position up to which all endings were signed.
    pub(super) cursor: u64,
    /// The number and digest of the last statement.
    pub(super) number: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
}

/// Signs for one tenant.
pub(crate) struct Signer {
    pub(super) tenant: String,
    pub(super) state: tokio::sync::Mutex<SignerState>,
}

pub(super) struct SignerState {
    pub(super) key: SigningKey,
    pub(super) progress: Progress,
    /// A change was sent to the store and its outcome is not known here: both are read again before the next use.
    pub(super) is_unsettled: bool,
}

/// Signs nothing until it is set.
pub(crate) type SignerOnce = Arc<OnceLock<Signer>>;
