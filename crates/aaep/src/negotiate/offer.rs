//! The offer of a producer: its capabilities for all subscribers. It must not know a subscriber.

use crate::wire::{Boundary, Producer};

/// An extension: the URI that names it, and the prefix that its context declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    pub uri: String,
    pub prefix: String,
}

impl Extension {
    pub fn new(uri: impl Into<String>, prefix: impl Into<String>) -> Self {
        Extension { uri: uri.into(), prefix: prefix.into() }
    }
}

/// The capabilities of a producer. [`Offer::new`] has everything that this crate alone supports; set the other fields
/// for a signed manifest or extensions.
///
/// ```
/// use recount_aaep::negotiate::Offer;
/// use recount_aaep::wire::Producer;
/// let mut offer = Offer::new(Producer::named("planner"), "en-US");
/// offer.languages.push("yo-NG".into());
/// offer.level = 2;
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    pub producer: Producer,
    pub manifest_uri: Option<String>,
    /// A compact JWS. Without one, a subscriber that requires signed manifests is rejected (R-113).
    pub signed_manifest: Option<String>,
    /// The highest level of conformance, 1 to 3; it includes the lower ones.
    pub level: u8,
    /// The maximum rate for any subscriber. Absent: no limit.
    pub max_events_per_second: Option<u32>,
    /// The default language of texts.
    pub primary_language: String,
    /// All languages of the texts, including the primary one.
    pub languages: Vec<String>,
    /// Languages to try, in order, for a subscriber that requests none of the available ones.
    pub fallback_chain: Vec<String>,
    /// The supported boundaries of output.
    pub boundaries: Vec<Boundary>,
    /// Whether replies to confirmations are supported.
    pub confirmations: bool,
    /// Whether replies to clarifications are supported.
    pub clarifications: bool,
    /// Extensions that events of this producer use.
    pub extensions: Vec<Extension>,
    /// Further extensions with a known prefix. Contexts are never fetched, so other prefixes are unknown (G-37).
    pub known_extensions: Vec<Extension>,
    /// Set if the limit of subscriptions is reached: seconds until a retry (R-131).
    pub full: Option<u32>,
}

impl Offer {
    /// An offer of level 3 with one language, support for replies and no rate limit.
    pub fn new(producer: Producer, language: impl Into<String>) -> Self {
        let language = language.into();
        Offer {
            producer,
            manifest_uri: None,
            signed_manifest: None,
            level: 3,
            max_events_per_second: None,
            primary_language: language.clone(),
            languages: vec![language],
            fallback_chain: Vec::new(),
            boundaries: vec![
                Boundary::None,
                Boundary::Word,
                Boundary::Sentence,
                Boundary::Paragraph,
                Boundary::Completion,
            ],
            confirmations: true,
            clarifications: true,
            extensions: Vec::new(),
            known_extensions: Vec::new(),
            full: None,
        }
    }

    /// The prefix of an extension, if known.
    pub(super) fn prefix(&self, uri: &str) -> Option<&str> {
        let known = self.extensions.iter().chain(&self.known_extensions);
        known.into_iter().find(|extension| extension.uri == uri).map(|extension| extension.prefix.as_str())
    }
}
