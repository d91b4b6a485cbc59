//! The history of a session: seed messages exactly as sent, then the fold of its runs. And forks: a session
//! that continues from a place in another one.

use ::http::{HeaderMap, StatusCode};
use axum::body::Body;
use axum::extract::{OriginalUri, RawQuery};
use recount_engine::{ClientTool, NewFork, Scope};
use recount_event::{Code, Json, SessionId};
use recount_run::view::{Line, Placed};

use super::caller::Face;
use super::http::{Answer, Ids, body_bytes, json};
use super::idempotency::{IdempotentRequest, replayed};
use super::originals::Originals;
use super::pictures;
use crate::accept::{self, Kind};
use crate::error::Refusal;
use crate::project::{history_message, line_pictures};
use crate::wire::{
    Content, ContentBlock, HistoryLists, HistoryMessage, HistoryResponse, PostSessionsResponse,
};

pub(super) async fn get_history(face: Face, Ids(session): Ids<String>, RawQuery(raw): RawQuery) -> Answer {
    face.may(Scope::Read)?;
    let session = face.session_id(&session)?;
    let setup = face.setup(session).await?.setup;
    let kind = accept::history_kind(raw.as_deref())?;
    // The history with an agent that was removed from the configuration stays readable.
    let can = face.profile(&setup.agent).map(|profile| profile.capabilities).unwrap_or_default();
    let (is_declared, word) = match kind {
        Kind::Full => (can.history_full, "full"),
        Kind::Compacted => (can.history_compacted, "compacted"),
    };
    if !is_declared {
        let detail = format!("the agent {} offers no {word} history", setup.agent);
        return Err(Refusal::new(Code::HistoryUndeclared, detail));
    }
    let messages = messages(&face, session, kind, &setup.client_tools).await?;
    let history = match kind {
        Kind::Full => HistoryLists { full: Some(messages), compacted: None },
        Kind::Compacted => HistoryLists { full: None, compacted: Some(messages) },
    };
    Ok(json(StatusCode::OK, &HistoryResponse { history }))
}

/// With the originals of open calls of these tools, as far as the caller may read them.
async fn messages(
    face: &Face,
    session: SessionId,
    kind: Kind,
    client_tools: &[ClientTool],
) -> Result<Vec<Json>, Refusal> {
    let mut messages = face.engine.catalogue().seed(session).await?;
    if kind == Kind::Compacted {
        messages = messages.into_iter().filter_map(as_told).collect();
    }
    let history = face.engine.read().history(session).await?;
    let lines: Vec<Placed> = match kind {
        Kind::Full => history.full().cloned().collect(),
        Kind::Compacted => {
            let (summary, lines) = history.compacted();
            if let Some(summary) = summary {
                // The summary replaces all earlier messages, but not the system prompt.
                messages.retain(is_system);
                messages.push(sent(&HistoryMessage::User { content: Content::Text(summary.to_owned()) }));
            }
            lines
        }
    };
    let lines: Vec<&Line> = lines.iter().map(|placed| &placed.line).collect();
    let wanted = lines.iter().flat_map(|line| line_pictures(line));
    let pictures = pictures::of(&face.engine, session, wanted.collect::<Vec<_>>()).await?;
    // Only the run at work has open calls.
    let active = face.engine.catalogue().active_run(session).await?;
    let mut originals = active.map(|run| Originals::new(face, run, client_tools));
    for line in lines {
        let mut message = history_message(line, &pictures);
        if let Some(originals) = &mut originals {
            originals.restore_message(&mut message).await?;
        }
        messages.push(sent(&message));
    }
    Ok(messages)
}

/// A seed message as the model sees it: without thoughts and without texts that are marked as no
/// part of the answer. `None` when nothing is left.
fn as_told(message: Json) -> Option<Json> {
    let Ok(HistoryMessage::Assistant { content: Content::Blocks(blocks) }) =
        serde_json::from_str(message.text())
    else {
        return Some(message);
    };
    let is_told = |block: &ContentBlock| match block {
        ContentBlock::Text { status, .. } => status.is_none(),
        ContentBlock::Thinking { .. } => false,
        ContentBlock::ToolUse { .. } | ContentBlock::Image { .. } => true,
    };
    if blocks.iter().all(is_told) {
        return Some(message);
    }
    let told: Vec<ContentBlock> = blocks.into_iter().filter(is_told).collect();
    (!told.is_empty()).then(|| sent(&HistoryMessage::Assistant { content: Content::Blocks(told) }))
}

fn is_system(message: &Json) -> bool {
    matches!(serde_json::from_str(message.text()), Ok(HistoryMessage::System { .. }))
}

fn sent(message: &HistoryMessage) -> Json {
    Json::of(message).expect("messages hold only values that JSON can represent")
}

pub(super) async fn fork_session(
    face: Face,
    Ids(session): Ids<String>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    face.may(Scope::Run)?;
    face.may_make()?;
    let session = face.session_id(&session)?;
    face.setup(session).await?;
    let bytes = body_bytes(&headers, body).await?;
    let asked = accept::fork(&bytes)?;
    let again = IdempotentRequest::of(&face, &uri, &headers, &bytes).await?;
    if let Some(made) = again.made {
        let session_id = made.session()?.to_string();
        return Ok(replayed(json(StatusCode::CREATED, &PostSessionsResponse { session_id })));
    }
    let messages = messages(&face, session, Kind::Full, &[]).await?;
    let there_are = messages.len();
    let at = match asked.at.map(usize::try_from) {
        None => there_are,
        Some(Ok(at)) if at <= there_are => at,
        Some(_) => {
            let detail = format!(
                "at is {}, but the history has {there_are} messages; send the number of messages to start the new session with",
                asked.at.unwrap_or_default()
            );
            return Err(Refusal::new(Code::ParameterInvalid, detail));
        }
    };
    let seed = messages.into_iter().take(at).collect();
    let new = NewFork { title: asked.title, seed };
    let row = face.engine.write().fork(session, new, again.idempotency.as_ref()).await?;
    Ok(json(StatusCode::CREATED, &PostSessionsResponse { session_id: row.id.to_string() }))
}
