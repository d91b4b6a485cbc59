//! What a producer offers to subscribers. It must not know any of them.

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

/// What a producer can do. [`Offer::new`] can do everything that needs nothing but this crate; what takes more (a
/// signed manifest, extensions) is added by who has it.
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
    /// A compact JWS. Without one, who wants nothing but signed manifests is refused (R-113).
    pub signed_manifest: Option<String>,
    /// The highest level of conformance, 1 to 3; lower ones are part of it.
    pub level: u8,
    /// The most that is sent to anybody. Absent: no limit.
    pub max_events_per_second: Option<u32>,
    /// The language of texts when nothing better is wished for.
    pub primary_language: String,
    /// All languages there are texts in, the primary one among them.
    pub languages: Vec<String>,
    /// Which of them to try, in order, for who wishes for none of them.
    pub fallback_chain: Vec<String>,
    /// Where output can be cut.
    pub boundaries: Vec<Boundary>,
    /// Whether replies to confirmations are taken.
    pub confirmations: bool,
    /// Whether replies to clarifications are taken.
    pub clarifications: bool,
    /// Extensions that events of this producer use.
    pub extensions: Vec<Extension>,
    /// Further extensions whose prefix is known. Contexts are never fetched, so of others it is not (G-37).
    pub known_extensions: Vec<Extension>,
    /// There is no room for one more: in how many seconds to ask again (R-131).
    pub full: Option<u32>,
}

impl Offer {
    /// A producer of level 3 that speaks one language, takes replies and sends as fast as it is asked to.
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

    /// The prefix of an extension, where it is known.
    pub(super) fn prefix(&self, uri: &str) -> Option<&str> {
        let known = self.extensions.iter().chain(&self.known_extensions);
        known.into_iter().find(|extension| extension.uri == uri).map(|extension| extension.prefix.as_str())
    }
}
