//! Routes for the history of a session and for forks, which copy the beginning of a history into a new session.
//!
//! A history has the seed messages exactly as sent, then the messages of the runs. Start with [`messages`].

use ::http::{HeaderMap, StatusCode};
use axum::body::Body;
use axum::extract::{OriginalUri, RawQuery};
use recount_engine::{ClientTool, NewFork, Scope};
use recount_event::{Code, Json, SessionId};
use recount_run::view::{Line, Placed};

use super::caller::Face;
use super::http::{HandlerResult, Ids, body_bytes, json};
use super::idempotency::{IdempotentRequest, replayed};
use super::originals::Originals;
use super::pictures;
use crate::accept::{self, Kind};
use crate::error::Refusal;
use crate::project::{history_message, line_pictures};
use crate::wire::{
    Content, ContentBlock, HistoryLists, HistoryMessage, HistoryResponse, PostSessionsResponse,
};

pub(super) async fn get_history(
    face: Face,
    Ids(session): Ids<String>,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
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
        let detail = format!("the agent {} does not offer {word} history", setup.agent);
        return Err(Refusal::new(Code::HistoryUndeclared, detail));
    }
    let messages = messages(&face, session, kind, &setup.client_tools).await?;
    let history = match kind {
        Kind::Full => HistoryLists { full: Some(messages), compacted: None },
        Kind::Compacted => HistoryLists { full: None, compacted: Some(messages) },
    };
    Ok(json(StatusCode::OK, &HistoryResponse { history }))
}

/// The messages of a session, with the original inputs of open calls of these tools if the caller may read them.
async fn messages(
    face: &Face,
    session: SessionId,
    kind: Kind,
    client_tools: &[ClientTool],
) -> Result<Vec<Json>, Refusal> {
    let mut messages = face.engine.catalogue().seed(session).await?;
    if kind == Kind::Compacted {
        messages = messages.into_iter().filter_map(as_seen_by_model).collect();
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
    let needed = lines.iter().flat_map(|line| line_pictures(line));
    let pictures = pictures::of(&face.engine, session, needed.collect::<Vec<_>>()).await?;
    // Only the active run has open calls.
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

/// A seed message as the model sees it: without thinking, and without texts that have a status. `None` if nothing
/// remains.
fn as_seen_by_model(message: Json) -> Option<Json> {
    let Ok(HistoryMessage::Assistant { content: Content::Blocks(blocks) }) =
        serde_json::from_str(message.text())
    else {
        return Some(message);
    };
    let is_seen = |block: &ContentBlock| match block {
        ContentBlock::Text { status, .. } => status.is_none(),
        ContentBlock::Thinking { .. } => false,
        ContentBlock::ToolUse { .. } | ContentBlock::Image { .. } => true,
    };
    if blocks.iter().all(is_seen) {
        return Some(message);
    }
    let seen: Vec<ContentBlock> = blocks.into_iter().filter(is_seen).collect();
    (!seen.is_empty()).then(|| sent(&HistoryMessage::Assistant { content: Content::Blocks(seen) }))
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
) -> HandlerResult {
    face.may(Scope::Run)?;
    face.check_may_create()?;
    let session = face.session_id(&session)?;
    face.setup(session).await?;
    let bytes = body_bytes(&headers, body).await?;
    let fork = accept::fork(&bytes)?;
    let idempotent = IdempotentRequest::of(&face, &uri, &headers, &bytes).await?;
    if let Some(created) = idempotent.created {
        let session_id = created.session()?.to_string();
        return Ok(replayed(json(StatusCode::CREATED, &PostSessionsResponse { session_id })));
    }
    let messages = messages(&face, session, Kind::Full, &[]).await?;
    let there_are = messages.len();
    let at = match fork.at.map(usize::try_from) {
        None => there_are,
        Some(Ok(at)) if at <= there_are => at,
        Some(_) => {
            let detail = format!(
                "at is {}, but the history has {there_are} messages; send how many of them to copy into the \
                 new session",
                fork.at.unwrap_or_default()
            );
            return Err(Refusal::new(Code::ParameterInvalid, detail));
        }
    };
    let seed = messages.into_iter().take(at).collect();
    let new = NewFork { title: fork.title, seed };
    let row = face.engine.write().fork(session, new, idempotent.idempotency.as_ref()).await?;
    Ok(json(StatusCode::CREATED, &PostSessionsResponse { session_id: row.id.to_string() }))
}
