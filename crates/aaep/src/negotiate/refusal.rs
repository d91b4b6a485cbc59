//! Reasons for rejecting a subscription.

use crate::wire::SubscriptionRejected;

macro_rules! reasons {
    ($( $(#[$doc:meta])* $reason:ident = $code:literal, )*) => {
        /// The codes of `subscription.rejected` (§5.5). Subscribers treat unknown codes as `unknown`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $( $(#[$doc])* $reason, )* }

        impl Reason {
            /// All of them.
            pub const ALL: &[Reason] = &[$( Reason::$reason, )*];

            /// The code on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $( Reason::$reason => $code, )* }
            }
        }
    };
}

reasons! {
    /// The version is not supported.
    VersionUnsupported = "version_unsupported",
    /// The subscriber requires a signed manifest, and none is available.
    ManifestSignatureRequired = "manifest_signature_required",
    /// The capabilities are invalid or contradictory.
    CapabilitiesIncompatible = "capabilities_incompatible",
    /// The limit of subscriptions is reached.
    RateLimit = "rate_limit",
    /// The subscriber is not authenticated.
    AuthenticationRequired = "authentication_required",
    /// The subscriber has no permission.
    AuthorizationDenied = "authorization_denied",
    /// The transport is temporarily unavailable.
    TransportUnavailable = "transport_unavailable",
    /// Any other reason, such as a malformed request.
    Unknown = "unknown",
}

/// A rejection with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: Reason,
    /// What is wrong, and what to do.
    pub message: String,
    /// When a retry may succeed.
    pub retry_after_seconds: Option<u32>,
    /// The request's, if it had one.
    pub correlation_id: Option<String>,
}

impl Refusal {
    pub fn new(code: Reason, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into(), retry_after_seconds: None, correlation_id: None }
    }

    /// The message for the wire.
    pub fn to_message(&self) -> SubscriptionRejected {
        // The protocol requires 1 to 4096 characters. Quotes are short, so nothing is cut in practice.
        let message: String = self.message.chars().take(4_096).collect();
        let mut rejected = SubscriptionRejected::new(self.code.as_str().into(), message);
        rejected.retry_after_seconds = self.retry_after_seconds.map(|seconds| seconds.min(86_400));
        rejected.correlation_id.clone_from(&self.correlation_id);
        rejected
    }
}
