//! `tool.http.*`, `tool.web_fetch.*` and `tool.web_search.*`: requests to other computers.

use crate::family::payload;
use crate::{ForeignId, Json};

payload! {
    /// A request was sent. It has the names of headers, never their values.
    Requested { tool_call_id: ForeignId } {
        method: String,
        url: String,
        query: String,
        header_keys: Vec<String>,
    }

    /// The response arrived, or the request failed.
    Response { tool_call_id: ForeignId } {
        status: u64,
        duration_ms: u64,
        body_artifact_id: ForeignId,
        body_truncated: bool,
        extracted_text_artifact_id: ForeignId,
        hits: Vec<Json>,
        error: String,
    }
}
