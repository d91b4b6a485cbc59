//! Handshakes on the producer's side: evaluates subscription requests against an offer. Pure: it must not know
//! connections or credentials, and every request gets a response (R-111).
//!
//! [`Offer`] describes a producer, [`evaluate`] evaluates a request against it, and [`Terms`] is the resulting
//! agreement, by which [`crate::shaping`] shapes a stream. The terms never exceed the request (R-112);
//! [`exceeded_capabilities`] checks that for any handshake.
//!
//! ```
//! use recount_aaep::negotiate::{self, HandshakeOutcome, Offer};
//! use recount_aaep::wire::{Producer, SubscriptionId};
//!
//! let mut offer = Offer::new(Producer::named("retirement-planner"), "en-US");
//! offer.max_events_per_second = Some(20);
//!
//! let request = r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"reader",
//!     "capabilities":{"max_events_per_second":50,"languages":["yo-NG","en"]}}"#;
//! let HandshakeOutcome::Accepted(terms) = negotiate::evaluate_text(&offer, request) else { panic!("it can be served") };
//! assert_eq!(terms.events_per_second(), Some(20));
//! assert_eq!(terms.honored().languages.as_deref(), Some(&["en".to_owned()][..]));
//! let message = terms.to_message(&offer, SubscriptionId::new("sub_1")?);
//! assert_eq!(message.aaep_version, "1.0.0");
//!
//! let HandshakeOutcome::Rejected(refusal) = negotiate::evaluate_text(&offer, &request.replace("1.0.0", "99.99.99")) else { panic!() };
//! assert_eq!(refusal.code.as_str(), "version_unsupported");
//! # Ok::<(), recount_aaep::wire::IdError>(())
//! ```

mod compare;
mod offer;
mod refusal;
mod request;
mod terms;

pub use compare::{exceeded_capabilities, merge};
pub use offer::{Extension, Offer};
pub use refusal::{Reason, Refusal};
pub use request::{evaluate, evaluate_text, renegotiate};
pub use terms::{HandshakeOutcome, Terms};
