//! The `read_result` tool: returns the stored result of an earlier call of which the model sees only a part.
//!
//! It must not know the engine: the artifact store reads the log.
//!
//! Start at [`ReadResult`].

use futures_util::future::BoxFuture;
use recount_event::ForeignId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::{Assessment, Job, Outcome, ResultRange, Tool};
use crate::tools::ending::{CallFailure, completed};
use crate::tools::input;
use crate::tools::limits;

/// The tool's name.
pub(crate) const READ_RESULT: &str = "read_result";

pub(crate) struct ReadResult;

#[derive(Deserialize)]
struct ReadResultInput {
    call_id: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl Tool for ReadResult {
    fn name(&self) -> &'static str {
        READ_RESULT
    }

    fn kind(&self) -> &'static str {
        "run"
    }

    fn description(&self) -> &'static str {
        "Returns the stored result of an earlier tool call that this conversation shows only in part. The \
         note in the conversation names its call_id. Read only the part that you need."
    }

    fn schema(&self) -> Value {
        input::schema(
            json!({
                "call_id": {
                    "type": "string", "minLength": 1, "maxLength": limits::RESULT_CALL_ID_CHARS_MAX,
                    "description": "The call_id from the note."
                },
                "offset": {
                    "type": "integer", "minimum": 0,
                    "description": "The first byte to return. Default 0."
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": limits::RESULT_READ_BYTES_MAX,
                    "description": "The number of bytes to return. Default: as many as one call may return."
                }
            }),
            &["call_id"],
        )
    }

    fn assess(&self, input: &Value) -> Assessment {
        let call = input::text(input, "call_id");
        input::harmless(&format!("result of {call}"), "Read a stored result.", Vec::new())
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { read(job).await.unwrap_or_else(Outcome::from) })
    }
}

async fn read(mut job: Job<'_>) -> Result<Outcome, CallFailure> {
    let ReadResultInput { call_id, offset, limit } = input::read(job.input)?;
    let call = ForeignId::parse(&call_id).map_err(|why| {
        CallFailure::failed("not_found", format!("{call_id:?} is not a valid call id: {why}"))
    })?;
    let most = limits::RESULT_READ_BYTES_MAX;
    let range = ResultRange { offset: offset.unwrap_or(0), limit: limit.unwrap_or(most).min(most) };
    let part = tokio::select! {
        biased;
        () = job.cancel.cancelled() => return Err(CallFailure::cancelled()),
        part = job.artifacts.result(&call, range) => part,
    };
    let part = part.map_err(|why| CallFailure::failed("not_found", why))?;
    let (first, total) = (range.offset, part.total);
    if first > total {
        let message = format!("the result of {call} has {total} bytes; offset {first} is past its end");
        return Err(CallFailure::failed("range", message));
    }
    let end = total.min(first + range.limit);
    let more = if end < total { format!("; continue with offset {end}") } else { String::new() };
    let summary = format!("bytes {first} to {end} of {total}");
    let output = format!("[{summary} of the result of {call}{more}]\n{}", part.text);
    Ok(completed(output, summary, Vec::new()))
}
