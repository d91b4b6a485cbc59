//! `clarification.*`: a question to a person, and what came of it.

use crate::family::{payload, words};
use crate::{ForeignId, Json};

words! {
    /// What stood in for an answer.
    Applied { Default = "default", Unavailable = "unavailable" }
}

payload! {
    /// The agent asks.
    Requested { clarification_id: ForeignId, question: String } {
        tool_call_id: ForeignId,
        context: String,
        accepted_response_kinds: Vec<String>,
        choices: Vec<Json>,
        default_response: Json,
        timeout_seconds: u64,
        expires_at: String,
    }

    /// Somebody answered.
    Answered { clarification_id: ForeignId, response: Json, by: String } {
        tool_call_id: ForeignId,
        /// What was said, where it was said in content blocks: texts. `response` has them as one.
        blocks: Vec<Json>,
    }

    /// Nobody answered: the default was taken, or there is none.
    TimedOut { clarification_id: ForeignId, applied: Applied } {
        tool_call_id: ForeignId,
        response: Json,
        after_seconds: u64,
        by: String,
    }
}
