//! The texts of state changes that a session announces itself.

use std::borrow::Cow;

/// One sentence for each state that the session announces. They must be in the language of the session's
/// [`crate::build::Frame`]; the default is English.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateTexts {
    /// Work continues after a call or a prompt.
    pub thinking: Cow<'static, str>,
    pub calling_tool: Cow<'static, str>,
    pub writing_output: Cow<'static, str>,
    pub awaiting_input: Cow<'static, str>,
    pub handing_off: Cow<'static, str>,
    /// The work is complete.
    pub idle: Cow<'static, str>,
    /// A prompt was accepted.
    pub accepted: Cow<'static, str>,
    /// A prompt was rejected, so nothing is done.
    pub rejected: Cow<'static, str>,
    /// A question was answered.
    pub answered: Cow<'static, str>,
    /// No reply arrived in time, and the default is to accept.
    pub accepted_by_default: Cow<'static, str>,
    /// No reply arrived in time, and the default is to reject.
    pub rejected_by_default: Cow<'static, str>,
    /// A question got no response in time.
    pub unanswered: Cow<'static, str>,
    /// A prompt was withdrawn.
    pub withdrawn: Cow<'static, str>,
    /// A call was abandoned because the session ends.
    pub call_abandoned: Cow<'static, str>,
}

impl StateTexts {
    /// The sentences in English.
    pub fn english() -> Self {
        StateTexts {
            thinking: "Thinking.".into(),
            calling_tool: "Using a tool.".into(),
            writing_output: "Writing.".into(),
            awaiting_input: "Waiting for your reply.".into(),
            handing_off: "Handing over.".into(),
            idle: "Done.".into(),
            accepted: "You accepted.".into(),
            rejected: "Rejected. The action is not done.".into(),
            answered: "You answered.".into(),
            accepted_by_default: "The action is done, because there was no reply in time.".into(),
            rejected_by_default: "The action is not done, because there was no reply in time.".into(),
            unanswered: "There was no answer in time.".into(),
            withdrawn: "The prompt was withdrawn.".into(),
            call_abandoned: "The tool call was abandoned.".into(),
        }
    }

    pub(super) fn all(&self) -> [&str; 14] {
        [
            &self.thinking,
            &self.calling_tool,
            &self.writing_output,
            &self.awaiting_input,
            &self.handing_off,
            &self.idle,
            &self.accepted,
            &self.rejected,
            &self.answered,
            &self.accepted_by_default,
            &self.rejected_by_default,
            &self.unanswered,
            &self.withdrawn,
            &self.call_abandoned,
        ]
    }
}

impl Default for StateTexts {
    fn default() -> Self {
        StateTexts::english()
    }
}
