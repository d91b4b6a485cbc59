//! `tool.http.*`, `tool.web_fetch.*` and `tool.web_search.*`: asking other computers.

use crate::family::payload;
use crate::{ForeignId, Json};

payload! {
    /// A request went out. Names of headers only, never their values.
    Requested { tool_call_id: ForeignId } {
        method: String,
        url: String,
        query: String,
        header_keys: Vec<String>,
    }

    /// An answer came, or did not.
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
