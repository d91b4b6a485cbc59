//! The types of the protocol's JSON, in both directions. Entry point: [`read`].
//!
//! Unknown keys in requests are ignored. Known keys must have the right type; the refusal names the path. Must not
//! depend on runs or events.

mod event;
mod message;
mod meta;
mod session;
mod turn;
mod usage;

use recount_event::door;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use event::TurnEvent;
pub use message::{ApplicationMessage, AsSent, Content, ContentBlock, HistoryMessage, TextStatus};
pub use meta::{
    AgentInfo, AgentOption, ApplicationCapability, Capabilities, HistoryCapability, ImageCapability,
    MetaResponse, OptionKind, Present, StreamCapability, ToolSpec, VERSION, WorkspaceCapability,
};
pub use session::{
    AgentConfig, AgentOverrides, HistoryLists, HistoryResponse, PostSessionsRequest, PostSessionsResponse,
    ServerToolRef, SessionInfo, SessionStatus, SessionWorkspace, SessionsResponse,
};
pub use turn::{
    Awaiting, AwaitingKind, PostSessionTurnRequest, PostSessionTurnResponse, StopReason, StreamMode,
    TurnError,
};
pub use usage::Usage;

/// The path of a whole body.
const WHOLE: &str = "body";

/// Why a body is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Unreadable {
    /// The path in the body, such as `messages[0].content`; `body` for the whole body.
    pub path: String,
    pub reason: String,
}

/// Reads a client's JSON. JSON that parsers read differently is refused, as everywhere else.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    let whole = |reason: String| Unreadable { path: WHOLE.into(), reason };
    let text = std::str::from_utf8(body).map_err(|why| whole(format!("not UTF-8: {why}")))?;
    let text = door::compact(text).map_err(|why| whole(format!("invalid JSON: {why}")))?;
    // Serde would read an array as the fields of an object in their order.
    if !text.starts_with('{') {
        return Err(whole("expected an object".into()));
    }
    read_text(&text)
}

fn read_text<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Unreadable> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|why| {
        let path = why.path().to_string();
        let path = if path == "." { WHOLE.into() } else { path };
        Unreadable { path, reason: without_place(&why.into_inner()) }
    })
}

/// The reason without its line and column, because the parsed text is not the text that was sent. `event` has the same
/// function privately: sharing it would make serde's messages a part of its interface.
fn without_place(why: &serde_json::Error) -> String {
    let text = why.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
