//! An utterance: text, language and speech priority. See [`Utterance`]. Must not depend on the reason for an utterance.

/// The urgency of an utterance, and what it may cut short: four of the five priorities of SSIP. A higher one is spoken
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpeechPriority {
    /// Only of use now, such as a state change: a newer one replaces it.
    Progress,
    /// Output and actions of an agent.
    Text,
    /// Replies to keys, and the keys that answer a prompt.
    Message,
    /// Prompts, errors and handoffs: spoken at once.
    Important,
}

impl SpeechPriority {
    /// Its name in `SET SELF PRIORITY`.
    pub fn ssip(self) -> &'static str {
        match self {
            SpeechPriority::Progress => "PROGRESS",
            SpeechPriority::Text => "TEXT",
            SpeechPriority::Message => "MESSAGE",
            SpeechPriority::Important => "IMPORTANT",
        }
    }
}

/// A text to be spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    pub priority: SpeechPriority,
    /// One line, without control characters.
    pub text: String,
    /// A BCP 47 tag.
    pub language: String,
    /// The number of its session; 0 for texts of the narrator.
    pub session: u32,
}

impl Utterance {
    /// A text of the narrator itself.
    pub fn own(priority: SpeechPriority, text: impl Into<String>, language: &str) -> Self {
        Utterance { priority, text: text.into(), language: language.to_owned(), session: 0 }
    }
}
