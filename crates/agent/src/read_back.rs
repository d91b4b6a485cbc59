//! Reads the stored result of a call from the log, of this run or of a run that it continues.
//!
//! It must never know models or tools.
//!
//! Start at [`result`]. What is masked in the log stays masked.

use recount_engine::{ArtifactContent, Error, FoundArtifact, ReadHandle};
use recount_event::family::tool::Ended;
use recount_event::{ForeignId, Payload, RunId};
use serde_json::Value;

use crate::limits;
use crate::tool::{ResultPart, ResultRange};

/// A part of a call's result, or the reason why there is none.
pub(crate) async fn result(
    read: &ReadHandle,
    run: RunId,
    call: &ForeignId,
    range: ResultRange,
) -> Result<ResultPart, String> {
    let mut next = Some(run);
    for _ in 0..limits::RESULT_RUNS_MAX {
        let Some(run) = next else { break };
        if let Some(ended) = ended_in(read, run, call).await.map_err(|why| why.to_string())? {
            return part_of(read, run, &ended, range).await.map_err(|why| why.to_string());
        }
        let row = read.catalogue().run(run).await.map_err(|why| why.to_string())?;
        next = row.and_then(|row| row.prior_run_id).and_then(|prior| prior.parse().ok());
    }
    Err(format!("no finished call {call} in this run or in the runs that it continues; call the tool again"))
}

/// The end of a call in this run.
async fn ended_in(read: &ReadHandle, run: RunId, call: &ForeignId) -> Result<Option<Box<Ended>>, Error> {
    let Some(tail) = read.tail(run).await? else { return Ok(None) };
    let mut events = read.follow_events(run, None).await?;
    // The run goes on, so its end is not awaited.
    while events.last().is_none_or(|last| last + 1 < tail) {
        let Some(page) = events.next().await? else { break };
        for event in page {
            match event.payload() {
                Payload::ToolCompleted(ended)
                | Payload::ToolFailed(ended)
                | Payload::ToolTimedOut(ended)
                | Payload::ToolCancelled(ended)
                    if ended.tool_call_id == *call =>
                {
                    return Ok(Some(ended.clone()));
                }
                _ => {}
            }
        }
    }
    Ok(None)
}

/// Reads from the artifact with the complete result if there is one, otherwise from the event.
async fn part_of(
    read: &ReadHandle,
    run: RunId,
    ended: &Ended,
    range: ResultRange,
) -> Result<ResultPart, Error> {
    if let Some(id) = &ended.result_artifact_id {
        let found = read.find_artifacts(id).await?.into_iter().find(|found| is_text_of(found, run));
        if let Some(found) = found {
            return match read.artifact_content(&found).await? {
                ArtifactContent::Kept(bytes) => Ok(cut(&bytes, range)),
                ArtifactContent::Logged(output) => {
                    let (mut bytes, mut pieces) = (Vec::new(), output.part(range.offset, range.limit));
                    while let Some(piece) = pieces.next().await? {
                        bytes.extend_from_slice(&piece);
                    }
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    Ok(ResultPart { text, total: output.size() })
                }
            };
        }
    }
    let output = ended.output.as_ref().map(|output| output.text()).unwrap_or_default();
    let text = match serde_json::from_str(output) {
        Ok(Value::String(text)) => text,
        _ => output.to_owned(),
    };
    Ok(cut(text.as_bytes(), range))
}

/// Results are text; images and patches are not.
fn is_text_of(found: &FoundArtifact, run: RunId) -> bool {
    matches!(found, FoundArtifact::OfRun(row) if row.run_id == run)
        && matches!(found.kind(), "command_output" | "tool_result_blob" | "fetched_resource")
}

fn cut(bytes: &[u8], range: ResultRange) -> ResultPart {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let (first, last) = (place(range.offset), place(range.offset.saturating_add(range.limit)));
    let text = String::from_utf8_lossy(&bytes[first..last]).into_owned();
    ResultPart { text, total: bytes.len() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stays_within_its_result() {
        let cases =
            [((0, 3), "abc"), ((2, 100), "cdef"), ((6, 1), ""), ((9, 1), ""), ((u64::MAX, u64::MAX), "")];
        for ((offset, limit), text) in cases {
            let part = cut(b"abcdef", ResultRange { offset, limit });
            assert_eq!((part.text.as_str(), part.total), (text, 6), "{offset} {limit}");
        }
    }
}
