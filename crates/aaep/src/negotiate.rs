//! Handshakes on the producer's side: what of a subscriber's wishes is honoured, and when the answer is no. Pure: it
//! knows no connection and no credentials, and it never answers with silence (R-111).
//!
//! [`Offer`] says what a producer can do, [`answer`] holds a request against it, and [`Terms`] is what both sides keep
//! to from then on: [`crate::shaping`] shapes a stream by them. What is honoured is never more than what was asked for
//! (R-112); [`wider`] is the judge of that for everybody's handshakes.
//!
//! ```
//! use recount_aaep::negotiate::{self, Answer, Offer};
//! use recount_aaep::wire::{Producer, SubscriptionId};
//!
//! let mut offer = Offer::new(Producer::named("retirement-planner"), "en-US");
//! offer.max_events_per_second = Some(20);
//!
//! let request = r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"reader",
//!     "capabilities":{"max_events_per_second":50,"languages":["yo-NG","en"]}}"#;
//! let Answer::Accepted(terms) = negotiate::answer_text(&offer, request) else { panic!("it can be served") };
//! assert_eq!(terms.events_per_second(), Some(20));
//! assert_eq!(terms.honored().languages.as_deref(), Some(&["en".to_owned()][..]));
//! let message = terms.to_message(&offer, SubscriptionId::new("sub_1")?);
//! assert_eq!(message.aaep_version, "1.0.0");
//!
//! let Answer::Rejected(refusal) = negotiate::answer_text(&offer, &request.replace("1.0.0", "99.99.99")) else { panic!() };
//! assert_eq!(refusal.code.as_str(), "version_unsupported");
//! # Ok::<(), recount_aaep::wire::IdError>(())
//! ```

mod compare;
mod offer;
mod refusal;
mod request;
mod terms;

pub use compare::{merge, wider};
pub use offer::{Extension, Offer};
pub use refusal::{Reason, Refusal};
pub use request::{answer, answer_text, renegotiate};
pub use terms::{Answer, Terms};
