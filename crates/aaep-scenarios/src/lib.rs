//! Scenarios of conformance suites: a few sentences that ask a producer to show one behaviour each, sent as the public
//! suite sends them (`{"kind":"user_input","text":…}`). A producer with a model reads the sentence; a scripted one
//! recognizes its words and plays a script of [`scripts`].
//!
//! This crate is data. It must not know how events are sent, or who tests whom.

pub mod limits;
pub mod scripts;

/// One thing to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scenario {
    /// A short answer, and nothing else.
    Brief,
    /// One harmless tool that succeeds.
    Tool,
    /// A tool that takes longer than it may.
    ToolTimeout,
    /// An answer of three sentences, streamed.
    Stream,
    /// A long answer of many words, one after another.
    LongStream,
    /// Work with much progress to tell.
    Progress,
    /// What cannot be done, so that the session ends in an error.
    Error,
    /// An input that holds a secret.
    Secrets,
    /// An action that is to be confirmed, and can be taken back.
    Confirm,
    /// An action that cannot be taken back.
    Irreversible,
    /// The same action asked for twice while its confirmation is open.
    Twice,
    /// A question of the agent's own, free text or a choice.
    Clarify,
    /// Something that a person has to take over.
    Handoff,
}

impl Scenario {
    pub const ALL: [Scenario; 13] = [
        Scenario::Brief,
        Scenario::Tool,
        Scenario::ToolTimeout,
        Scenario::Stream,
        Scenario::LongStream,
        Scenario::Progress,
        Scenario::Error,
        Scenario::Secrets,
        Scenario::Confirm,
        Scenario::Irreversible,
        Scenario::Twice,
        Scenario::Clarify,
        Scenario::Handoff,
    ];

    /// Whether a person is asked for something in it.
    pub fn has_prompts(self) -> bool {
        matches!(
            self,
            Scenario::Confirm
                | Scenario::Irreversible
                | Scenario::Twice
                | Scenario::Clarify
                | Scenario::Handoff
        )
    }

    /// What is said to the producer.
    pub fn text(self) -> &'static str {
        match self {
            Scenario::Brief => "Hello, please respond briefly.",
            Scenario::Tool => "Please use a tool to fetch some data.",
            Scenario::ToolTimeout => "Please use a tool that takes too long and is given up.",
            Scenario::Stream => "Tell me about the moon in three sentences.",
            Scenario::LongStream => "Write a long story about the sea, several paragraphs.",
            Scenario::Progress => "Do something with many small steps and report the progress of each.",
            Scenario::Error => "Please use a tool that does not exist, so that the work ends in an error.",
            Scenario::Secrets => "Use the data tool with api_key=sk-test-12345 as its argument.",
            Scenario::Confirm => "Book a meeting room for tomorrow; ask me to confirm first.",
            Scenario::Irreversible => "Delete the customer's record for good; ask me to confirm first.",
            Scenario::Twice => "Book the same meeting room twice at once; ask me to confirm.",
            Scenario::Clarify => "What is the weather like? Ask me for the city.",
            Scenario::Handoff => "This needs a person. Hand it over to a human.",
        }
    }

    /// The scenario that a sentence asks for, if it is one of these.
    pub fn of(text: &str) -> Option<Scenario> {
        Scenario::ALL.into_iter().find(|scenario| scenario.text() == text.trim())
    }
}
