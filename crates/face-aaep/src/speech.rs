//! The texts that listeners hear: one catalogue a language, in the format of Fluent, for translators to edit.
//!
//! [`Speech::of`] gives the catalogue of a language, [`Speech::say`] a message in its three lengths. Knows no events and no
//! protocol messages but [`Summaries`].

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

/// What isolates nothing.
const EMPTY_ISOLATE: &str = "\u{2068}\u{2069}";

static ALL: LazyLock<Vec<Speech>> = LazyLock::new(|| SOURCES.iter().map(Speech::load).collect());

/// What is put into a message.
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
    /// Messages into which nothing is put, by their keys.
    fixed: Vec<Option<Summaries>>,
}

impl std::fmt::Debug for Speech {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Speech").field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl Speech {
    /// The languages that there are, the first one being the one that everything is written in first.
    pub fn languages() -> impl Iterator<Item = &'static str> {
        SOURCES.iter().map(|(tag, _, _)| *tag)
    }

    /// Each language with its catalogue as it is embedded, for readers that format the messages themselves.
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
        // Where the sentence runs the other way, what is put into it is kept apart.
        bundle.set_use_isolating(right_to_left);
        if let Err(why) = bundle.add_resource(resource) {
            panic!("the catalogue {tag} names a message twice: {why:?}");
        }
        let mut speech = Speech { tag, right_to_left, bundle, fixed: Vec::new() };
        speech.fixed = Key::ALL.iter().map(|key| speech.try_say(*key, None).ok()).collect();
        speech
    }

    /// The language tag of everything that is said.
    pub fn tag(&self) -> &'static str {
        self.tag
    }

    /// What an event says of its language when nothing foreign is put into its texts.
    pub fn hints(&self) -> LocalizationHints {
        let direction = if self.right_to_left { TextDirection::Rtl } else { TextDirection::Ltr };
        LocalizationHints {
            text_direction: Some(direction),
            available_languages: Speech::languages().map(str::to_owned).collect(),
            ..LocalizationHints::in_language(self.tag)
        }
    }

    /// Which way a text of this catalogue runs, with what was put into it: `auto` where that runs the other way and is not
    /// kept apart.
    pub fn direction(&self, text: &str) -> TextDirection {
        match self.right_to_left {
            true => TextDirection::Rtl,
            false if text.chars().any(runs_to_the_left) => TextDirection::Auto,
            false => TextDirection::Ltr,
        }
    }

    /// A message, with what is put into it.
    pub fn say(&self, key: Key, args: &[(&'static str, Arg<'_>)]) -> Summaries {
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
        let said = self.try_say(key, Some(&values));
        said.unwrap_or_else(|why| {
            unreachable!("a test says every message of {}: {}: {why}", self.tag, key.name())
        })
    }

    /// Its normal form alone.
    pub fn sentence(&self, key: Key, args: &[(&'static str, Arg<'_>)]) -> String {
        self.say(key, args).normal.unwrap_or_default()
    }

    fn try_say(&self, key: Key, args: Option<&FluentArgs<'_>>) -> Result<Summaries, String> {
        let message = self.bundle.get_message(key.name()).ok_or("there is no such message")?;
        let form = |pattern| {
            let mut errors: Vec<FluentError> = Vec::new();
            let text = self.bundle.format_pattern(pattern, args, &mut errors);
            // What is empty needs no isolation.
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

/// Characters of Hebrew, Arabic and the other scripts that run from right to left.
fn runs_to_the_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFF}'
        | '\u{10800}'..='\u{10FFF}' | '\u{1E800}'..='\u{1EFFF}')
}

#[cfg(test)]
mod tests;
