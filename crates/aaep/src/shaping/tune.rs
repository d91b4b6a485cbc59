//! Adapts an event to one subscriber: its language and its verbosity. No event is dropped, and
//! prompts and errors keep all texts.

use serde_json::{Map, Value};

use crate::field::Field;
use crate::language::choose;
use crate::negotiate::Terms;
use crate::table::{LOCALIZED, REQUIRED};
use crate::wire::{Event, Pace, Verbosity};

pub(super) fn tune(event: &mut Event, terms: &Terms) {
    if let Some(translation) = translated(event, terms) {
        *event = translation;
    }
    let low = *terms.cognitive_load() == Pace::Low;
    let wish = match terms.verbosity() {
        Verbosity::Detailed if low => &Verbosity::Normal,
        Verbosity::Normal if low => &Verbosity::Terse,
        wish => wish,
    };
    let summaries = &mut event.summaries;
    let prompt = event.body.kind().is_some_and(crate::Kind::is_critical);
    let shorter = summaries.terse.is_some() || summaries.normal.is_some();
    if (low || *wish == Verbosity::Terse) && !prompt && shorter {
        summaries.detailed = None;
        event.other.retain(|(name, _)| !name.starts_with("summary_detailed_"));
    }
    let there = [
        (Verbosity::Terse, &summaries.terse),
        (Verbosity::Normal, &summaries.normal),
        (Verbosity::Detailed, &summaries.detailed),
    ];
    if let Some(text) = summaries.at(wish)
        && let Some((level, _)) = there
            .iter()
            .find(|(level, there)| there.as_deref() == Some(text) && level == wish)
            .or_else(|| there.iter().find(|(_, there)| there.as_deref() == Some(text)))
    {
        event.envelope.verbosity = Some(level.clone());
    }
}

/// Splits a name such as `summary_normal_yo` into the field and the tag.
fn localized(name: &str) -> Option<(&'static str, String)> {
    LOCALIZED.iter().find_map(|base| {
        let tag = name.strip_prefix(base)?.strip_prefix('_')?.replace('_', "-");
        crate::language::looks_like_tag(&tag).then_some((*base, tag))
    })
}

/// The event in a requested language, if it has texts in it; the original texts become localized fields. An event
/// without all main texts in a language is not changed.
fn translated(event: &Event, terms: &Terms) -> Option<Event> {
    let hints = event.envelope.localization_hints.as_ref()?;
    let primary = hints.primary_language.as_deref()?;
    let texts: Vec<(&'static str, String, &str)> = event
        .other
        .iter()
        .filter(|(_, value)| value.get().starts_with('"'))
        .filter_map(|(name, _)| localized(name).map(|(base, tag)| (base, tag, &**name)))
        .collect();
    if texts.is_empty() {
        return None;
    }
    let kind = event.kind()?;
    let must = REQUIRED[kind as usize];
    let main = |base: &&&str| {
        let required = Field::of_name(base).is_some_and(|field| must & field.bit() != 0);
        required || (**base == "summary_normal" && event.summaries.normal.is_some())
    };
    let mains: Vec<&str> = LOCALIZED.iter().filter(main).copied().collect();
    let has = |base: &str, tag: &str| texts.iter().any(|(b, t, _)| *b == base && t == tag);
    let whole = |tag: &str| mains.iter().all(|base| has(base, tag));
    let mut offers = vec![primary];
    offers.extend(texts.iter().map(|(_, tag, _)| tag.as_str()).filter(|tag| whole(tag)));
    let chain: Vec<&str> = hints.fallback_chain.iter().map(String::as_str).collect();
    let chosen = choose(&terms.languages(), &offers, &chain, primary);
    let suffix = primary.to_ascii_lowercase();
    let known = |base: &str| localized(&format!("{base}_{suffix}")).is_some();
    if chosen.eq_ignore_ascii_case(primary) || !known("summary_normal") {
        return None;
    }
    let Ok(Value::Object(mut members)) = serde_json::to_value(event) else { return None };
    for base in LOCALIZED {
        let there = texts.iter().find(|(b, tag, _)| b == base && tag == chosen);
        let value = members.remove(*base);
        if let Some((_, _, name)) = there
            && let Some(text) = members.remove(*name)
        {
            members.insert((*base).to_owned(), text);
        }
        if let Some(value) = value {
            members.entry(format!("{base}_{suffix}")).or_insert(value);
        }
    }
    set_language(&mut members, primary, chosen);
    Event::parse(&Value::Object(members).to_string()).ok()
}

/// Sets the new language, and resets the direction and script of the old one.
fn set_language(members: &mut Map<String, Value>, primary: &str, chosen: &str) {
    let Some(Value::Object(hints)) = members.get_mut("localization_hints") else { return };
    let available: Vec<String> = hints
        .get("available_languages")
        .and_then(|tags| serde_json::from_value(tags.clone()).ok())
        .unwrap_or_default();
    let written =
        available.iter().find(|tag| tag.eq_ignore_ascii_case(chosen)).map_or(chosen, String::as_str);
    hints.insert("primary_language".into(), written.into());
    hints.insert("text_direction".into(), "auto".into());
    hints.remove("script");
    if !available.is_empty() && !available.iter().any(|tag| tag.eq_ignore_ascii_case(primary)) {
        let all: Vec<&str> = available.iter().map(String::as_str).chain(std::iter::once(primary)).collect();
        hints.insert("available_languages".into(), all.into());
    }
}
