//! Reasons for rejecting a subscription.

use crate::wire::SubscriptionRejected;

macro_rules! reasons {
    ($( $(#[$doc:meta])* $reason:ident = $code:literal, )*) => {
        /// The codes of `subscription.rejected` (§5.5). Subscribers take codes that they do not know as `unknown`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $( $(#[$doc])* $reason, )* }

        impl Reason {
            /// All of them.
            pub const ALL: &[Reason] = &[$( Reason::$reason, )*];

            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self { $( Reason::$reason => $code, )* }
            }
        }
    };
}

reasons! {
    /// The version is not spoken here.
    VersionUnsupported = "version_unsupported",
    /// Nothing but signed manifests is taken, and there is none.
    ManifestSignatureRequired = "manifest_signature_required",
    /// The capabilities are not what they are to be, or contradict each other.
    CapabilitiesIncompatible = "capabilities_incompatible",
    /// There is no room now.
    RateLimit = "rate_limit",
    /// Nobody knows who asks.
    AuthenticationRequired = "authentication_required",
    /// Who asks may not.
    AuthorizationDenied = "authorization_denied",
    /// What carries the messages does not work now.
    TransportUnavailable = "transport_unavailable",
    /// Something else; a request that cannot be read, above all.
    Unknown = "unknown",
}

/// A no, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: Reason,
    /// What is so and should not be, and what to do.
    pub message: String,
    /// When asking again may help.
    pub retry_after_seconds: Option<u32>,
    /// Of the request, when it had one.
    pub correlation_id: Option<String>,
}

impl Refusal {
    pub fn new(code: Reason, message: impl Into<String>) -> Self {
        Refusal { code, message: message.into(), retry_after_seconds: None, correlation_id: None }
    }

    /// As it goes over the wire.
    pub fn to_message(&self) -> SubscriptionRejected {
        // The protocol asks for 1 to 4096 characters; what is quoted of a request is short, so nothing is cut in practice.
        let message: String = self.message.chars().take(4_096).collect();
        let mut rejected = SubscriptionRejected::new(self.code.as_str().into(), message);
        rejected.retry_after_seconds = self.retry_after_seconds.map(|seconds| seconds.min(86_400));
        rejected.correlation_id.clone_from(&self.correlation_id);
        rejected
    }
}
