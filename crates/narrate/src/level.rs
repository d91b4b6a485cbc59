//! The amount of speech: [`SpeechLevel`].

use recount_aaep::wire::{Pace, Verbosity};

use super::phrases::PhraseKey;

/// The amount of speech, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SpeechLevel {
    /// Prompts, errors, handoffs, and the start and end of sessions.
    Brief,
    /// Also output and tool calls, in short form.
    Terse,
    /// Also states and progress, in whole sentences.
    #[default]
    Normal,
    /// Everything.
    Detailed,
}

impl SpeechLevel {
    pub const ALL: [SpeechLevel; 4] =
        [SpeechLevel::Brief, SpeechLevel::Terse, SpeechLevel::Normal, SpeechLevel::Detailed];

    /// The phrase for its name.
    pub(super) fn word(self) -> PhraseKey {
        match self {
            SpeechLevel::Brief => PhraseKey::LevelBrief,
            SpeechLevel::Terse => PhraseKey::LevelTerse,
            SpeechLevel::Normal => PhraseKey::LevelNormal,
            SpeechLevel::Detailed => PhraseKey::LevelDetailed,
        }
    }

    /// One level up or down, if there is one.
    pub(super) fn step(self, up: bool) -> Option<SpeechLevel> {
        let at = SpeechLevel::ALL.iter().position(|level| *level == self)?;
        let to = if up { at.checked_add(1) } else { at.checked_sub(1) };
        SpeechLevel::ALL.get(to?).copied()
    }

    /// The verbosity that is requested from the producer.
    pub fn verbosity(self) -> Verbosity {
        match self {
            SpeechLevel::Brief | SpeechLevel::Terse => Verbosity::Terse,
            SpeechLevel::Normal => Verbosity::Normal,
            SpeechLevel::Detailed => Verbosity::Detailed,
        }
    }

    /// The cognitive load that is requested: a brief listener gets fewer and shorter events.
    pub fn load(self) -> Pace {
        if self == SpeechLevel::Brief { Pace::Low } else { Pace::Medium }
    }
}
