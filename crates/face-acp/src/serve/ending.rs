//! Answers the prompt in progress when its run ends, or waits for the user's next message.
//!
//! Must not depend on events. Start with [`answer`].

use serde_json::json;

use super::connection::Connection;
use super::session::{Following, Prompting, Session};
use crate::error::{INTERNAL_ERROR, RpcError};
use crate::project::{Ending, TokenUsage};

/// Answers the prompt in progress, if it belongs to this run.
pub(super) async fn answer(
    this: &Connection,
    session: &Session,
    run: &str,
    ending: &Ending,
    used: TokenUsage,
) -> bool {
    if session.prompting().is_none_or(|prompting| prompting.run.as_deref() != Some(run)) {
        return false;
    }
    let Some(Prompting { request, is_cancelled, .. }) = session.end_prompt() else { return false };
    let reason = match ending {
        _ if is_cancelled => "cancelled",
        Ending::Cancelled { .. } => "cancelled",
        Ending::Stopped(reason) => reason,
        Ending::Failed { code, message, retriable } => {
            let data = json!({ "code": code, "retryable": retriable, "runId": run });
            let error = RpcError::new(INTERNAL_ERROR, format!("the run failed: {message} ({code})"));
            this.answer(&request, Err(RpcError { data: Some(data), ..error })).await;
            return true;
        }
    };
    let TokenUsage { input_tokens, output_tokens, cost_micros_usd } = used;
    let result = json!({
        "stopReason": reason,
        "usage": {
            "totalTokens": input_tokens + output_tokens,
            "inputTokens": input_tokens,
            "outputTokens": output_tokens,
        },
        "_meta": { "recount": { "runId": run, "costMicrosUsd": cost_micros_usd } },
    });
    this.answer(&request, Ok(result)).await;
    true
}

/// Answers the prompt in progress with an error, if it belongs to this run.
pub(super) async fn fail(this: &Connection, session: &Session, run: &str, error: RpcError) {
    if session.prompting().is_some_and(|prompting| prompting.run.as_deref() == Some(run))
        && let Some(prompting) = session.end_prompt()
    {
        this.answer(&prompting.request, Err(error)).await;
    }
}

/// Answers the prompt in progress if its run waits for the user's next message. The run does not end.
pub(super) async fn end_if_waiting(this: &Connection, session: &Session, following: &Following) {
    if session.waits_for_message(following) {
        let used = following.projector.borrow().used();
        answer(this, session, &following.run, &Ending::Stopped("end_turn"), used).await;
    }
}
