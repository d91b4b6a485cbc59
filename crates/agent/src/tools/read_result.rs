//! `read_result`: what an earlier call was answered, where the model is sent only its beginning and end.
//!
//! Look at [`ReadResult`]. The log is read by the keeper; this tool knows no engine.

use futures_util::future::BoxFuture;
use recount_event::ForeignId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::tool::{Assessment, Job, Outcome, ResultRange, Tool};
use crate::tools::ending::{Stop, completed};
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
        "Reads the result of an earlier call again, of which this conversation shows only a part. The note in its place \
         has the call_id. Read only the part that you need."
    }

    fn schema(&self) -> Value {
        input::schema(
            json!({
                "call_id": {
                    "type": "string", "minLength": 1, "maxLength": limits::RESULT_CALL_ID_CHARS_MAX,
                    "description": "The call_id that the note has."
                },
                "offset": {
                    "type": "integer", "minimum": 0,
                    "description": "The first byte. Default 0."
                },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": limits::RESULT_READ_BYTES_MAX,
                    "description": "How many bytes. Default all that are read at once."
                }
            }),
            &["call_id"],
        )
    }

    fn assess(&self, input: &Value) -> Assessment {
        let call = input::text(input, "call_id");
        input::harmless(&format!("result of {call}"), "Read a stored result again.", Vec::new())
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { read(job).await.unwrap_or_else(Outcome::from) })
    }
}

async fn read(mut job: Job<'_>) -> Result<Outcome, Stop> {
    let ReadResultInput { call_id, offset, limit } = input::read(job.input)?;
    let call = ForeignId::parse(&call_id)
        .map_err(|why| Stop::failed("not_found", format!("{call_id:?} is not the id of a call: {why}")))?;
    let most = limits::RESULT_READ_BYTES_MAX;
    let range = ResultRange { offset: offset.unwrap_or(0), limit: limit.unwrap_or(most).min(most) };
    let part = tokio::select! {
        biased;
        () = job.cancel.cancelled() => return Err(Stop::cancelled()),
        part = job.keeper.result(&call, range) => part,
    };
    let part = part.map_err(|why| Stop::failed("not_found", why))?;
    let (first, total) = (range.offset, part.total);
    if first > total {
        let message = format!("the result of {call} has {total} bytes; offset {first} is beyond its end");
        return Err(Stop::failed("range", message));
    }
    let end = total.min(first + range.limit);
    let more = if end < total { format!("; continue with offset {end}") } else { String::new() };
    let summary = format!("bytes {first} to {end} of {total}");
    let output = format!("[{summary} of the result of {call}{more}]\n{}", part.text);
    Ok(completed(output, summary, Vec::new()))
}
