//! One thing that is spoken: text, language, speech priority. See [`Utterance`]. It must not know what is said why.

/// How soon an utterance is spoken, and what it may cut short: four of the five priorities of SSIP. A higher one is spoken
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpeechPriority {
    /// What is only of use now, such as a change of state: a newer one replaces it.
    Progress,
    /// What an agent writes and does.
    Text,
    /// What the listener asked for, and how a prompt is answered.
    Message,
    /// Prompts, errors and handoffs: spoken at once, whatever is spoken.
    Important,
}

impl SpeechPriority {
    /// Its word in `SET SELF PRIORITY`.
    pub fn ssip(self) -> &'static str {
        match self {
            SpeechPriority::Progress => "PROGRESS",
            SpeechPriority::Text => "TEXT",
            SpeechPriority::Message => "MESSAGE",
            SpeechPriority::Important => "IMPORTANT",
        }
    }
}

/// One thing that is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    pub priority: SpeechPriority,
    /// One line, without control characters.
    pub text: String,
    /// A BCP 47 tag.
    pub language: String,
    /// The number of the session that it is about; 0 for the narrator's own words.
    pub session: u32,
}

impl Utterance {
    /// The narrator's own words, which are English.
    pub fn own(priority: SpeechPriority, text: impl Into<String>, language: &str) -> Self {
        Utterance { priority, text: text.into(), language: language.to_owned(), session: 0 }
    }
}
