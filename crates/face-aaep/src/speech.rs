//! Renders the texts of events from one Fluent catalogue per language, which translators edit.
//!
//! [`Speech::of`] returns the catalogue of a language, [`Speech::render`] a message in three lengths. Must not depend
//! on events, or on protocol messages other than [`Summaries`].

mod key;

use std::borrow::Cow;
use std::sync::LazyLock;

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentError, FluentResource, FluentValue};
use recount_aaep::wire::{LocalizationHints, Summaries, TextDirection};
use unic_langid::LanguageIdentifier;

pub use key::Key;

/// Language tag, whether it runs from right to left, and the catalogue.
const SOURCES: &[(&str, bool, &str)] =
    &[("en-US", false, include_str!("../speech/en-US.ftl")), ("ar", true, include_str!("../speech/ar.ftl"))];

/// An isolate without content.
const EMPTY_ISOLATE: &str = "\u{2068}\u{2069}";

static ALL: LazyLock<Vec<Speech>> = LazyLock::new(|| SOURCES.iter().map(Speech::load).collect());

/// An argument of a message.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    Text(&'a str),
    Number(u64),
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(text: &'a str) -> Self {
        Arg::Text(text)
    }
}

impl From<u64> for Arg<'_> {
    fn from(number: u64) -> Self {
        Arg::Number(number)
    }
}

/// The catalogue of one language.
pub struct Speech {
    tag: &'static str,
    right_to_left: bool,
    bundle: FluentBundle<FluentResource>,
    /// Messages without arguments, rendered once, by their keys.
    fixed: Vec<Option<Summaries>>,
}

impl std::fmt::Debug for Speech {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Speech").field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl Speech {
    /// The available languages. The first is the one that texts are written in.
    pub fn languages() -> impl Iterator<Item = &'static str> {
        SOURCES.iter().map(|(tag, _, _)| *tag)
    }

    /// The embedded catalogue of each language, for readers that format the messages themselves.
    pub fn sources() -> impl Iterator<Item = (&'static str, &'static str)> {
        SOURCES.iter().map(|(tag, _, source)| (*tag, *source))
    }

    /// The catalogue of one of [`Speech::languages`]; of another language, the first one.
    pub fn of(tag: &str) -> &'static Speech {
        ALL.iter().find(|speech| speech.tag == tag).unwrap_or(&ALL[0])
    }

    fn load(&(tag, right_to_left, source): &(&'static str, bool, &str)) -> Speech {
        let language: LanguageIdentifier = tag.parse().expect("a language tag");
        let resource = FluentResource::try_new(source.to_owned());
        let resource =
            resource.unwrap_or_else(|(_, why)| panic!("the catalogue {tag} cannot be read: {why:?}"));
        let mut bundle = FluentBundle::new_concurrent(vec![language]);
        // Arguments in a right-to-left sentence are isolated.
        bundle.set_use_isolating(right_to_left);
        if let Err(why) = bundle.add_resource(resource) {
            panic!("the catalogue {tag} names a message twice: {why:?}");
        }
        let mut speech = Speech { tag, right_to_left, bundle, fixed: Vec::new() };
        speech.fixed = Key::ALL.iter().map(|key| speech.try_render(*key, None).ok()).collect();
        speech
    }

    /// The language tag of the catalogue.
    pub fn tag(&self) -> &'static str {
        self.tag
    }

    /// The localization hints of an event whose texts have no foreign arguments.
    pub fn hints(&self) -> LocalizationHints {
        let direction = if self.right_to_left { TextDirection::Rtl } else { TextDirection::Ltr };
        LocalizationHints {
            text_direction: Some(direction),
            available_languages: Speech::languages().map(str::to_owned).collect(),
            ..LocalizationHints::in_language(self.tag)
        }
    }

    /// The direction of a text of this catalogue: `auto` if an argument runs the other way and is not isolated.
    pub fn direction(&self, text: &str) -> TextDirection {
        match self.right_to_left {
            true => TextDirection::Rtl,
            false if text.chars().any(runs_to_the_left) => TextDirection::Auto,
            false => TextDirection::Ltr,
        }
    }

    /// Renders a message with its arguments.
    pub fn render(&self, key: Key, args: &[(&'static str, Arg<'_>)]) -> Summaries {
        if let Some(fixed) = &self.fixed[key as usize] {
            return fixed.clone();
        }
        let mut values = FluentArgs::with_capacity(args.len());
        for &(name, value) in args {
            match value {
                Arg::Text(text) => values.set(name, FluentValue::String(Cow::Borrowed(text))),
                Arg::Number(number) => values.set(name, FluentValue::from(number)),
            }
        }
        let rendered = self.try_render(key, Some(&values));
        rendered.unwrap_or_else(|why| {
            unreachable!("a test renders every message of {}: {}: {why}", self.tag, key.name())
        })
    }

    /// Renders only the normal form.
    pub fn sentence(&self, key: Key, args: &[(&'static str, Arg<'_>)]) -> String {
        self.render(key, args).normal.unwrap_or_default()
    }

    fn try_render(&self, key: Key, args: Option<&FluentArgs<'_>>) -> Result<Summaries, String> {
        let message = self.bundle.get_message(key.name()).ok_or("there is no such message")?;
        let form = |pattern| {
            let mut errors: Vec<FluentError> = Vec::new();
            let text = self.bundle.format_pattern(pattern, args, &mut errors);
            // An empty argument needs no isolation.
            let text = text.replace(EMPTY_ISOLATE, "").trim().to_owned();
            if errors.is_empty() { Ok(text) } else { Err(format!("{errors:?}")) }
        };
        let attribute =
            |name| message.get_attribute(name).map(|attribute| form(attribute.value())).transpose();
        Ok(Summaries {
            normal: message.value().map(form).transpose()?,
            terse: attribute("terse")?,
            detailed: attribute("detailed")?,
        })
    }
}

/// Characters of Hebrew, Arabic and other right-to-left scripts.
fn runs_to_the_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFF}'
        | '\u{10800}'..='\u{10FFF}' | '\u{1E800}'..='\u{1EFFF}')
}

#[cfg(test)]
mod tests;
