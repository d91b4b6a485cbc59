//! `clarification.*`: a question to a person, and its answer.

use crate::family::{payload, words};
use crate::{ForeignId, Json};

words! {
    /// What was applied instead of an answer.
    Applied { Default = "default", Unavailable = "unavailable" }
}

payload! {
    /// The agent asks a question.
    Requested { clarification_id: ForeignId, question: String } {
        tool_call_id: ForeignId,
        context: String,
        accepted_response_kinds: Vec<String>,
        choices: Vec<Json>,
        default_response: Json,
        timeout_seconds: u64,
        expires_at: String,
    }

    /// The question was answered.
    Answered { clarification_id: ForeignId, response: Json, by: String } {
        tool_call_id: ForeignId,
        /// The content blocks of the answer, if it has any: texts. `response` has them as one text.
        blocks: Vec<Json>,
    }

    /// The deadline of the question was moved.
    Extended {
        clarification_id: ForeignId,
        /// The new deadline.
        expires_at: String,
        /// The time added to the previous deadline, in seconds.
        seconds: u64,
        by: String,
    } { tool_call_id: ForeignId }

    /// The question timed out: the default was applied, if there is one.
    TimedOut { clarification_id: ForeignId, applied: Applied } {
        tool_call_id: ForeignId,
        response: Json,
        after_seconds: u64,
        by: String,
    }
}
