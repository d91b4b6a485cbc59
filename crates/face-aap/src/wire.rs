//! The protocol's types, in its own words, in both directions. Entry point: [`read`].
//!
//! Unknown keys in requests are ignored. Known ones must have the right type; the refusal names the place. It must never
//! know of runs or events.

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

/// The place that is all of a body.
const WHOLE: &str = "body";

/// Why a body is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Unreadable {
    /// The place in the body, as in `messages[0].content`; `body` when it is all of it.
    pub path: String,
    pub reason: String,
}

/// Reads what a client sent. JSON that not every reader would read alike is refused as everywhere else.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Unreadable> {
    let whole = |reason: String| Unreadable { path: WHOLE.into(), reason };
    let text = std::str::from_utf8(body).map_err(|why| whole(format!("not UTF-8: {why}")))?;
    let text = door::compact(text).map_err(|why| whole(format!("invalid JSON: {why}")))?;
    // An array would be read as an object's fields in their order.
    if !text.starts_with('{') {
        return Err(whole("an object is expected".into()));
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

/// The reason without its line and column: the text that was read is not the text that was sent. `event` has the same for
/// its own reports, and keeps it to itself: sharing it would make how serde words its errors a part of its interface.
fn without_place(why: &serde_json::Error) -> String {
    let text = why.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests;
