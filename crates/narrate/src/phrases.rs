//! Renders the narrator's own texts from one Fluent catalogue per language, which translators edit.
//!
//! Must not depend on sessions or keys. Start with [`Phrases::of`], which chooses the catalogue for a listener.

mod key;

use std::borrow::Cow;
use std::sync::LazyLock;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentError, FluentResource, FluentValue};
use unic_langid::LanguageIdentifier;

pub use key::PhraseKey;

/// Language tag, whether it runs from right to left, and the catalogue.
const SOURCES: &[(&str, bool, &str)] = &[
    ("en-US", false, include_str!("../speech/narrator.en-US.ftl")),
    ("ar", true, include_str!("../speech/narrator.ar.ftl")),
];

static ALL: LazyLock<Vec<Phrases>> = LazyLock::new(|| SOURCES.iter().map(Phrases::load).collect());

/// An argument of a phrase.
pub(super) enum PhraseArg<'a> {
    Text(&'a str),
    Number(u64),
}

impl<'a> From<&'a str> for PhraseArg<'a> {
    fn from(text: &'a str) -> Self {
        PhraseArg::Text(text)
    }
}

impl<'a> From<&'a String> for PhraseArg<'a> {
    fn from(text: &'a String) -> Self {
        PhraseArg::Text(text)
    }
}

impl From<u64> for PhraseArg<'_> {
    fn from(number: u64) -> Self {
        PhraseArg::Number(number)
    }
}

/// The catalogue of one language.
pub struct Phrases {
    tag: &'static str,
    bundle: FluentBundle<FluentResource>,
}

impl std::fmt::Debug for Phrases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Phrases").field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl Phrases {
    /// The catalogue of the first available language; otherwise English.
    pub fn of(languages: &[String]) -> &'static Phrases {
        let offers: Vec<&str> = SOURCES.iter().map(|(tag, _, _)| *tag).collect();
        let languages: Vec<&str> = languages.iter().map(String::as_str).collect();
        let tag = recount_aaep::language::choose(&languages, &offers, &[], offers[0]);
        ALL.iter().find(|phrases| phrases.tag == tag).unwrap_or(&ALL[0])
    }

    fn load(&(tag, right_to_left, source): &(&'static str, bool, &str)) -> Phrases {
        let language: LanguageIdentifier = tag.parse().expect("a language tag");
        let resource = FluentResource::try_new(source.to_owned());
        let resource =
            resource.unwrap_or_else(|(_, why)| panic!("the catalogue {tag} cannot be read: {why:?}"));
        let mut bundle = FluentBundle::new_concurrent(vec![language]);
        // Arguments in a right-to-left sentence are isolated.
        bundle.set_use_isolating(right_to_left);
        if let Err(why) = bundle.add_resource(resource) {
            panic!("the catalogue {tag} names a phrase twice: {why:?}");
        }
        Phrases { tag, bundle }
    }

    /// The language tag of the catalogue.
    pub(super) fn tag(&self) -> &'static str {
        self.tag
    }

    /// Renders a phrase without arguments.
    pub(super) fn plain(&self, key: PhraseKey) -> String {
        self.render(key, &[])
    }

    /// Renders a phrase with its arguments.
    pub(super) fn render(&self, key: PhraseKey, puts: &[(&'static str, PhraseArg<'_>)]) -> String {
        let mut values = FluentArgs::with_capacity(puts.len());
        for (name, put) in puts {
            match put {
                PhraseArg::Text(text) => values.set(*name, FluentValue::String(Cow::Borrowed(text))),
                PhraseArg::Number(number) => values.set(*name, FluentValue::from(*number)),
            }
        }
        let rendered = self.try_render(key, &values);
        rendered.unwrap_or_else(|why| {
            unreachable!("a test renders every phrase of {}: {}: {why}", self.tag, key.name())
        })
    }

    fn try_render(&self, key: PhraseKey, values: &FluentArgs<'_>) -> Result<String, String> {
        let message = self.bundle.get_message(key.name()).ok_or("the phrase is missing")?;
        let pattern = message.value().ok_or("it has no value")?;
        let mut errors: Vec<FluentError> = Vec::new();
        let text = self.bundle.format_pattern(pattern, Some(values), &mut errors);
        // A long phrase has line breaks in the catalogue, which are not spoken.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if errors.is_empty() { Ok(text) } else { Err(format!("{errors:?}")) }
    }
}

#[cfg(test)]
mod tests;
