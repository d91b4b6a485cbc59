//! Evaluates a subscription request or a renegotiation, capability by capability.

use serde_json::Value;

use super::compare::{DEFAULT_BOUNDARIES, DEFAULT_LANGUAGE, DEFAULT_LEVELS, merge};
use super::refusal::{Reason, Refusal};
use super::terms::{HandshakeOutcome, Terms};
use super::{Extension, Offer};
use crate::json::Reader;
use crate::language::best;
use crate::lex;
use crate::reading::Reading;
use crate::rule::{self, Findings, Profile, Severity, check_message, quote};
use crate::table::{CAPABILITIES, MessageKind};
use crate::wire::{Boundary, Capabilities, EventFilters, Pace, SubscriptionRequest, Verbosity};

/// The draft version, which is treated like 1.0.0 (G-22).
const DRAFT: &str = "0.1.0-draft";

/// Evaluates a request. The version is checked first, because a request of another version has an unknown meaning.
pub fn evaluate(offer: &Offer, request: &SubscriptionRequest) -> HandshakeOutcome {
    let evaluated = || {
        let note = version(&request.aaep_version)?;
        well_formed(request)?;
        if let Some(seconds) = offer.full {
            let message = format!("the limit of subscriptions is reached; retry in {seconds} seconds");
            let mut refusal = Refusal::new(Reason::RateLimit, message);
            refusal.retry_after_seconds = Some(seconds);
            return Err(refusal);
        }
        terms(offer, note.into_iter().collect(), request.capabilities.clone())
    };
    match evaluated() {
        Ok(mut terms) => {
            terms.correlation_id.clone_from(&request.correlation_id);
            HandshakeOutcome::Accepted(Box::new(terms))
        }
        Err(mut refusal) => {
            refusal.correlation_id.clone_from(&request.correlation_id);
            HandshakeOutcome::Rejected(refusal)
        }
    }
}

/// Evaluates the text of a request. A malformed request gets a rejection too (R-111).
///
/// ```
/// use recount_aaep::negotiate::{Offer, Reason, evaluate_text};
/// use recount_aaep::wire::Producer;
/// let offer = Offer::new(Producer::named("planner"), "en");
/// let refusal = evaluate_text(&offer, "{\"type\":\"subscription.request\"").rejected().unwrap();
/// assert_eq!(refusal.code, Reason::Unknown);
/// ```
pub fn evaluate_text(offer: &Offer, text: &str) -> HandshakeOutcome {
    let unreadable = |message: String| {
        let message = format!("the request is not valid: {message}; send one `subscription.request`");
        HandshakeOutcome::Rejected(Refusal::new(Reason::Unknown, message))
    };
    let mut reader = Reader::new();
    let doc = match reader.read(text) {
        Ok(doc) => doc,
        Err(error) => return unreadable(error.to_string()),
    };
    let Some(reading) = Reading::of(doc) else { return unreadable("it is not a JSON object".into()) };
    if rule::message_kind(&reading) != Some(MessageKind::SubscriptionRequest) {
        let name = reading.text(crate::field::Field::Type).unwrap_or_default();
        return unreadable(format!("its `type` is `{}`", quote(&name)));
    }
    let correlation = reading.node().get("correlation_id").and_then(crate::json::Node::str);
    let declared = reading.node().get("aaep_version");
    let refused = |mut refusal: Refusal| {
        refusal.correlation_id = correlation.as_deref().map(str::to_owned);
        HandshakeOutcome::Rejected(refusal)
    };
    let noted = match declared.map(|declared| declared.str()) {
        Some(Some(declared)) => version(&declared),
        // A request without a version has an unknown meaning too.
        other => {
            let wrong = if other.is_none() { "is missing" } else { "is no text" };
            let message =
                format!("`aaep_version` {wrong}; add \"aaep_version\": {:?} to the request", crate::VERSION);
            Err(Refusal::new(Reason::VersionUnsupported, message))
        }
    };
    let note = match noted {
        Ok(note) => note,
        Err(refusal) => return refused(refusal),
    };
    let mut value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return unreadable(error.to_string()),
    };
    if note.is_some() {
        remove_newer_fields(&mut value);
    } else if let Err(refusal) = well_formed_reading(&reading, false) {
        return refused(refusal);
    }
    match serde_json::from_value::<SubscriptionRequest>(value) {
        Ok(request) => evaluate(offer, &request),
        Err(error) => refused(Refusal::new(
            Reason::CapabilitiesIncompatible,
            format!("the request does not match chapter 5 of the specification: {error}"),
        )),
    }
}

/// Evaluates a renegotiation: omitted fields keep their values, and the whole request is evaluated again. A rejection
/// ends the subscription (§5.7).
pub fn renegotiate(offer: &Offer, terms: &Terms, wish: &Capabilities) -> HandshakeOutcome {
    let mut requested = terms.requested.clone();
    merge(&mut requested, wish.clone());
    // An existing subscription does not count against the limit.
    let offer = Offer { full: None, ..offer.clone() };
    evaluate(&offer, &SubscriptionRequest::new(crate::VERSION.into(), "known".into(), requested))
}

/// Checks whether a version is supported (G-22, G-23); returns a note about it, if any.
fn version(declared: &str) -> Result<Option<String>, Refusal> {
    let spoken = crate::VERSION;
    if declared == spoken {
        return Ok(None);
    }
    let major = declared.split('.').next();
    if declared == DRAFT || ((lex::VERSION.test)(declared) && major == Some("1")) {
        return Ok(Some(format!(
            "The request uses version {}; this server supports {spoken}.",
            quote(declared)
        )));
    }
    let message = format!("version `{}` is not supported; use {spoken}", quote(declared));
    Err(Refusal::new(Reason::VersionUnsupported, message))
}

fn well_formed(request: &SubscriptionRequest) -> Result<(), Refusal> {
    let text = serde_json::to_string(request).unwrap_or_default();
    let mut reader = Reader::new();
    let reading = reader.read(&text).ok().and_then(Reading::of);
    reading.map_or(Ok(()), |reading| well_formed_reading(&reading, request.aaep_version != crate::VERSION))
}

/// Vocabularies that a later version may extend.
const OPEN: [&str; 3] =
    ["capabilities.preferred_verbosity", "capabilities.cognitive_load", "capabilities.coalesce_boundaries"];

fn well_formed_reading(reading: &Reading<'_>, newer: bool) -> Result<(), Refusal> {
    let mut findings = Findings::new(Profile::Compat);
    check_message(MessageKind::SubscriptionRequest, reading, &mut findings);
    let found = findings.take();
    let counts = |finding: &&rule::Finding| {
        let open = newer && OPEN.iter().any(|path| finding.path.starts_with(path));
        finding.severity == Severity::Error && !open
    };
    let Some(finding) = found.iter().find(counts) else { return Ok(()) };
    let code = if finding.path.starts_with("capabilities") || finding.message.contains("`capabilities`") {
        Reason::CapabilitiesIncompatible
    } else {
        Reason::Unknown
    };
    let place = if finding.path.is_empty() { String::new() } else { format!(" (at `{}`)", finding.path) };
    Err(Refusal::new(code, format!("{}{place}; {}", finding.message, finding.rule.remedy)))
}

/// Removes unknown fields from a request of a later version (R-204).
fn remove_newer_fields(request: &mut Value) {
    let known =
        |fields: &'static [crate::shape::FieldSpec], name: &str| fields.iter().any(|s| s.name == name);
    let Value::Object(members) = request else { return };
    members.retain(|name, _| known(MessageKind::SubscriptionRequest.fields().fields, name));
    if let Some(Value::Object(capabilities)) = members.get_mut("capabilities") {
        capabilities.retain(|name, value| value.is_object() || known(CAPABILITIES.fields, name));
    }
}

/// The terms for a request, or the rejection.
fn terms(offer: &Offer, notes: Vec<String>, requested: Capabilities) -> Result<Terms, Refusal> {
    if requested.accept_signed_manifests_only == Some(true) && offer.signed_manifest.is_none() {
        return Err(Refusal::new(
            Reason::ManifestSignatureRequired,
            "no signed manifest is available; send the request without `accept_signed_manifests_only`",
        ));
    }
    if let Some((prefix, one, two)) = collision(offer, &requested) {
        let message = format!(
            "the prefix `{}` is declared by both `{}` and `{}`; request only one of them",
            quote(prefix),
            quote(one),
            quote(two)
        );
        return Err(Refusal::new(Reason::CapabilitiesIncompatible, message));
    }
    let incompatible = |message: &str| Err(Refusal::new(Reason::CapabilitiesIncompatible, message));
    if requested.max_events_per_second == Some(0) {
        return incompatible("`max_events_per_second` is 0; send 1 or more, or close the subscription");
    }
    let unknown = |boundary: &Boundary| matches!(boundary, Boundary::Other(_));
    if requested.coalesce_boundaries.as_ref().is_some_and(|wishes| wishes.iter().all(unknown)) {
        return incompatible("`coalesce_boundaries` names no known boundary");
    }
    Ok(honor(offer, notes, requested))
}

/// Two requested extensions with the same prefix (R-128).
fn collision<'a>(offer: &'a Offer, requested: &'a Capabilities) -> Option<(&'a str, &'a str, &'a str)> {
    let uris = requested.supported_extensions.as_deref().unwrap_or_default();
    let named: Vec<(&str, &str)> =
        uris.iter().filter_map(|uri| Some((offer.prefix(uri)?, uri.as_str()))).collect();
    named.iter().enumerate().find_map(|(at, (prefix, one))| {
        let twin = |(other, two): &&(&str, &str)| other == prefix && two != one;
        named[at + 1..].iter().find(twin).map(|(_, two)| (*prefix, *one, *two))
    })
}

impl Terms {
    /// The terms without a handshake: all defaults, but replies are supported, because otherwise such a subscriber
    /// would get no prompts (G-30).
    pub fn implied(offer: &Offer) -> Self {
        let requested = Capabilities {
            supports_confirmation_reply: Some(true),
            supports_clarification_reply: Some(true),
            ..Capabilities::default()
        };
        honor(offer, Vec::new(), requested)
    }
}

/// Builds the terms for a valid request.
fn honor(offer: &Offer, mut notes: Vec<String>, mut requested: Capabilities) -> Terms {
    // Unknown extensions are dropped, so that renegotiations cannot accumulate them (R-114).
    requested.extensions.retain(|prefix, _| offer.extensions.iter().any(|known| known.prefix == *prefix));
    let level = level(offer, &requested, &mut notes);
    let honored = Capabilities {
        max_events_per_second: rate(offer, &requested, &mut notes),
        preferred_verbosity: known(&requested.preferred_verbosity, |word| {
            matches!(word, Verbosity::Other(_))
        }),
        languages: languages(offer, &requested, &mut notes),
        supports_confirmation_reply: replies(
            requested.supports_confirmation_reply,
            offer.confirmations,
            offer,
            &requested,
            &mut notes,
        ),
        supports_clarification_reply: replies(
            requested.supports_clarification_reply,
            offer.clarifications,
            offer,
            &requested,
            &mut notes,
        ),
        coalesce_boundaries: boundaries(offer, &requested),
        event_filters: filters(&requested, &mut notes),
        supported_conformance_levels: levels(offer, &requested),
        supported_extensions: requested.supported_extensions.as_ref().map(|uris| {
            let offered = |uri: &&String| offer.extensions.iter().any(|known: &Extension| known.uri == **uri);
            uris.iter().filter(offered).cloned().collect()
        }),
        cognitive_load: known(&requested.cognitive_load, |word| matches!(word, Pace::Other(_))),
        pace_wpm: requested.pace_wpm,
        accept_signed_manifests_only: requested.accept_signed_manifests_only,
        extensions: std::collections::BTreeMap::new(),
    };
    Terms { requested, honored, level, notes, correlation_id: None }
}

fn known<T: Clone>(wish: &Option<T>, other: impl Fn(&T) -> bool) -> Option<T> {
    wish.clone().filter(|word| !other(word))
}

fn rate(offer: &Offer, requested: &Capabilities, notes: &mut Vec<String>) -> Option<u32> {
    let most = offer.max_events_per_second.map(|most| most.max(1));
    match (requested.max_events_per_second, most) {
        (Some(wish), Some(most)) if wish > most => {
            notes.push(format!("At most {most} events per second are sent."));
            Some(most)
        }
        (wish, most) => wish.or(most),
    }
}

/// The requested languages that are available. If there is none, the field is omitted, because an empty list is not
/// allowed, and the primary language is used (G-32, R-183).
fn languages(offer: &Offer, requested: &Capabilities, notes: &mut Vec<String>) -> Option<Vec<String>> {
    let default = [DEFAULT_LANGUAGE.to_owned()];
    let wishes = requested.languages.as_deref().unwrap_or(&default);
    let offers: Vec<&str> = std::iter::once(offer.primary_language.as_str())
        .chain(offer.languages.iter().map(String::as_str))
        .collect();
    let honored: Vec<String> = wishes.iter().filter(|wish| best(wish, &offers).is_some()).cloned().collect();
    if honored.is_empty() {
        notes.push(format!(
            "None of the requested languages is available; texts are in {}.",
            offer.primary_language
        ));
        return None;
    }
    Some(honored)
}

/// The requested boundaries that are supported; if there is none, all of them, because smaller chunks are always
/// allowed (G-32).
fn boundaries(offer: &Offer, requested: &Capabilities) -> Option<Vec<Boundary>> {
    let wishes = requested.coalesce_boundaries.as_deref().unwrap_or(&DEFAULT_BOUNDARIES);
    let known: Vec<Boundary> =
        wishes.iter().filter(|wish| !matches!(wish, Boundary::Other(_))).cloned().collect();
    let mut honored: Vec<Boundary> =
        known.iter().filter(|wish| offer.boundaries.contains(wish)).cloned().collect();
    if honored.is_empty() {
        honored = known;
    }
    (requested.coalesce_boundaries.is_some() || honored != DEFAULT_BOUNDARIES).then_some(honored)
}

fn filters(requested: &Capabilities, notes: &mut Vec<String>) -> Option<EventFilters> {
    let filters = requested.event_filters.as_ref()?;
    let brackets =
        [crate::Kind::SessionStarted, crate::Kind::SessionCompleted, crate::Kind::SessionCancelled];
    let left_out: Vec<&str> = brackets
        .into_iter()
        .map(crate::Kind::name)
        .filter(|name| !filters.pass(&format!("aaep:{name}")))
        .collect();
    if !left_out.is_empty() {
        notes.push(format!(
            "The filters exclude {}, so the start and end of sessions are not visible.",
            left_out.join(", ")
        ));
    }
    Some(filters.clone())
}

/// The highest common level; a level includes the lower ones.
fn level(offer: &Offer, requested: &Capabilities, notes: &mut Vec<String>) -> u8 {
    let wishes = requested.supported_conformance_levels.as_deref().unwrap_or(&DEFAULT_LEVELS);
    match wishes.iter().copied().filter(|level| (1..=offer.level).contains(level)).max() {
        Some(level) => level,
        None => {
            if !wishes.is_empty() {
                notes.push("None of the requested levels is supported; level 1 is used.".into());
            }
            1
        }
    }
}

fn levels(offer: &Offer, requested: &Capabilities) -> Option<Vec<u8>> {
    let wishes = requested.supported_conformance_levels.as_ref()?;
    let honored: Vec<u8> = wishes.iter().copied().filter(|level| (1..=offer.level).contains(level)).collect();
    Some(honored).filter(|levels| !levels.is_empty())
}

/// Replies belong to level 2: a subscriber that declares only level 1 gets no prompts (R-125). One that declares
/// support for replies and no levels gets them.
fn replies(
    wish: Option<bool>,
    taken: bool,
    offer: &Offer,
    requested: &Capabilities,
    notes: &mut Vec<String>,
) -> Option<bool> {
    if wish != Some(true) {
        return Some(false);
    }
    let levels = requested.supported_conformance_levels.as_ref();
    let knows = levels.is_none_or(|levels| levels.iter().any(|level| *level >= 2));
    let honored = taken && offer.level >= 2 && knows;
    let note = "Replies to prompts require level 2; prompts are not sent.";
    if !honored && !notes.iter().any(|known| known == note) {
        notes.push(note.into());
    }
    Some(honored)
}
