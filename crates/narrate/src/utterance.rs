//! An utterance: text, subject, language and speech priority. See [`Utterance`]. Must not depend on events.

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

/// What an utterance is about. Printed lines begin with it, so that a reader can search for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpeechSubject {
    /// The text of the agent.
    Agent,
    /// Tool calls and progress.
    Tool,
    /// A permission that is requested, and the decision.
    Permission,
    /// A question of the agent, and the answer.
    Question,
    /// A handover of the work.
    Handoff,
    /// Start, states and end of a run.
    Run,
    /// Why a run failed.
    Error,
    /// The narrator itself: the keys of a prompt, responses to keys.
    Narrator,
}

impl SpeechSubject {
    /// The word at the beginning of a printed line. It is the same in every language.
    pub fn label(self) -> &'static str {
        match self {
            SpeechSubject::Agent => "agent",
            SpeechSubject::Tool => "tool",
            SpeechSubject::Permission => "permission",
            SpeechSubject::Question => "question",
            SpeechSubject::Handoff => "handoff",
            SpeechSubject::Run => "run",
            SpeechSubject::Error => "error",
            SpeechSubject::Narrator => "narrator",
        }
    }
}

/// A text to be spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    pub priority: SpeechPriority,
    pub subject: SpeechSubject,
    /// One line, or lines of code, without control characters.
    pub text: String,
    /// A BCP 47 tag.
    pub language: String,
    /// The number of its session; 0 for texts of the narrator.
    pub session: u32,
}

impl Utterance {
    /// A text of the narrator itself.
    pub fn own(priority: SpeechPriority, text: impl Into<String>, language: &str) -> Self {
        let subject = SpeechSubject::Narrator;
        Utterance { priority, subject, text: text.into(), language: language.to_owned(), session: 0 }
    }
}
