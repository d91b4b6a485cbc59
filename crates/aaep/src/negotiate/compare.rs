//! Capabilities beside each other: what is honoured beyond what was asked for, and what a change of mind leaves as it
//! was. The one place that says what "more permissive" means.

use crate::language::nearness;
use crate::wire::{Boundary, Capabilities, EventFilters};

/// What the absence of a field stands for.
pub(super) const DEFAULT_LANGUAGE: &str = "en-US";
pub(super) const DEFAULT_BOUNDARIES: [Boundary; 2] = [Boundary::Sentence, Boundary::Completion];
pub(super) const DEFAULT_LEVELS: [u8; 1] = [1];

/// The names of the capabilities in which more is honoured than was asked for; none in a right handshake (R-112).
/// An absent rate means no limit, absent languages mean `en-US` (G-31).
///
/// ```
/// use recount_aaep::negotiate::wider;
/// use recount_aaep::wire::Capabilities;
/// let five = Capabilities { max_events_per_second: Some(5), ..Capabilities::default() };
/// let two = Capabilities { max_events_per_second: Some(2), ..Capabilities::default() };
/// assert!(wider(&five, &two).is_empty());
/// assert_eq!(wider(&two, &five), ["max_events_per_second"]);
/// assert_eq!(wider(&two, &Capabilities::default()), ["max_events_per_second"]);
/// ```
pub fn wider(requested: &Capabilities, honored: &Capabilities) -> Vec<&'static str> {
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

/// Whether something passes the second filters and not the first. Patterns are whole names or beginnings, so if there
/// is such a name, one of these is: a pattern itself, or what a pattern begins with and a letter that is in none.
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

/// A change of mind: what is not said keeps its value (R-120).
///
/// ```
/// use recount_aaep::negotiate::merge;
/// use recount_aaep::wire::Capabilities;
/// let mut asked = Capabilities { pace_wpm: Some(180), max_events_per_second: Some(9), ..Capabilities::default() };
/// merge(&mut asked, Capabilities { pace_wpm: Some(120), ..Capabilities::default() });
/// assert_eq!((asked.pace_wpm, asked.max_events_per_second), (Some(120), Some(9)));
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
