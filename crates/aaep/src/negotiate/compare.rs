//! Compares and merges capabilities: which honored ones exceed the requested ones, and what a renegotiation keeps. This
//! is the only definition of "more permissive".

use crate::language::nearness;
use crate::wire::{Boundary, Capabilities, EventFilters};

/// The defaults of absent fields.
pub(super) const DEFAULT_LANGUAGE: &str = "en-US";
pub(super) const DEFAULT_BOUNDARIES: [Boundary; 2] = [Boundary::Sentence, Boundary::Completion];
pub(super) const DEFAULT_LEVELS: [u8; 1] = [1];

/// The names of the capabilities that exceed the request; none in a correct handshake (R-112).
/// An absent rate means no limit, absent languages mean `en-US` (G-31).
///
/// ```
/// use recount_aaep::negotiate::exceeded_capabilities;
/// use recount_aaep::wire::Capabilities;
/// let five = Capabilities { max_events_per_second: Some(5), ..Capabilities::default() };
/// let two = Capabilities { max_events_per_second: Some(2), ..Capabilities::default() };
/// assert!(exceeded_capabilities(&five, &two).is_empty());
/// assert_eq!(exceeded_capabilities(&two, &five), ["max_events_per_second"]);
/// assert_eq!(exceeded_capabilities(&two, &Capabilities::default()), ["max_events_per_second"]);
/// ```
pub fn exceeded_capabilities(requested: &Capabilities, honored: &Capabilities) -> Vec<&'static str> {
    let mut axes = Vec::new();
    if let Some(most) = requested.max_events_per_second
        && honored.max_events_per_second.is_none_or(|rate| rate > most)
    {
        axes.push("max_events_per_second");
    }
    let default_language = [DEFAULT_LANGUAGE.to_owned()];
    let languages = requested.languages.as_deref().unwrap_or(&default_language);
    if let Some(offered) = &honored.languages
        && offered.iter().any(|tag| !languages.iter().any(|wish| nearness(wish, tag).is_some()))
    {
        axes.push("languages");
    }
    let boundaries = requested.coalesce_boundaries.as_deref().unwrap_or(&DEFAULT_BOUNDARIES);
    if let Some(offered) = &honored.coalesce_boundaries
        && offered.iter().any(|boundary| !boundaries.contains(boundary))
    {
        axes.push("coalesce_boundaries");
    }
    let levels = requested.supported_conformance_levels.as_deref().unwrap_or(&DEFAULT_LEVELS);
    if let Some(offered) = &honored.supported_conformance_levels
        && offered.iter().any(|level| !levels.contains(level))
    {
        axes.push("supported_conformance_levels");
    }
    let extensions = requested.supported_extensions.as_deref().unwrap_or_default();
    if let Some(offered) = &honored.supported_extensions
        && offered.iter().any(|uri| !extensions.contains(uri))
    {
        axes.push("supported_extensions");
    }
    let raised =
        |requested: Option<bool>, honored: Option<bool>| honored == Some(true) && requested != Some(true);
    if raised(requested.supports_confirmation_reply, honored.supports_confirmation_reply) {
        axes.push("supports_confirmation_reply");
    }
    if raised(requested.supports_clarification_reply, honored.supports_clarification_reply) {
        axes.push("supports_clarification_reply");
    }
    if raised(honored.accept_signed_manifests_only, requested.accept_signed_manifests_only) {
        axes.push("accept_signed_manifests_only");
    }
    let every = EventFilters::default();
    let (requested, honored) = (
        requested.event_filters.as_ref().unwrap_or(&every),
        honored.event_filters.as_ref().unwrap_or(&every),
    );
    if passes_more(requested, honored) {
        axes.push("event_filters");
    }
    axes
}

/// Whether some name passes the second filters but not the first. Patterns are whole names or prefixes, so it is enough
/// to test each pattern, and each prefix followed by a character that no pattern contains.
fn passes_more(requested: &EventFilters, honored: &EventFilters) -> bool {
    if requested == honored {
        return false;
    }
    let more = |name: &str| honored.pass(name) && !requested.pass(name);
    let patterns = [&requested.include, &requested.exclude, &honored.include, &honored.exclude];
    let of_kinds = crate::Kind::ALL.iter().any(|kind| more(kind.compact()));
    of_kinds
        || more("aaep:agent.\u{1}")
        || more("\u{1}")
        || patterns.into_iter().flatten().flatten().any(|pattern| {
            let beginning = pattern.strip_suffix('*').unwrap_or(pattern);
            more(beginning)
                || more(&format!("{beginning}\u{1}"))
                || beginning.strip_suffix('.').is_some_and(more)
        })
}

/// Merges a renegotiation into the requested capabilities: omitted fields keep their values (R-120).
///
/// ```
/// use recount_aaep::negotiate::merge;
/// use recount_aaep::wire::Capabilities;
/// let mut requested = Capabilities { pace_wpm: Some(180), max_events_per_second: Some(9), ..Capabilities::default() };
/// merge(&mut requested, Capabilities { pace_wpm: Some(120), ..Capabilities::default() });
/// assert_eq!((requested.pace_wpm, requested.max_events_per_second), (Some(120), Some(9)));
/// ```
pub fn merge(requested: &mut Capabilities, wish: Capabilities) {
    macro_rules! take {
        ($( $field:ident )*) => { $( if wish.$field.is_some() { requested.$field = wish.$field; } )* };
    }
    take! {
        max_events_per_second preferred_verbosity languages supports_confirmation_reply supports_clarification_reply
        coalesce_boundaries event_filters supported_conformance_levels supported_extensions cognitive_load pace_wpm
        accept_signed_manifests_only
    }
    requested.extensions.extend(wish.extensions);
}
