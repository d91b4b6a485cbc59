//! `session/load` for an agent that cannot load: its history from the log, its future from `session/resume` where it can.
//!
//! A session that cannot continue is reported as over. See [`load`].

use recount_client::{Client, ClientError, Listing};
use recount_record::acp::Replay;
use recount_record::session_title_end;
use serde_json::{Value, json};

use super::super::super::recorded::find_session;
use super::super::producer::all_events;
use super::{AcpRecorder, raw, write};
use crate::limits;

/// A `session/load` that waits for the agent to resume the session.
pub(super) struct Resuming {
    /// The id of the editor's request.
    request: String,
    session: String,
    updates: Vec<Value>,
}

/// The title of our session for one of the agent; it is found again by its end.
pub(super) fn chat_title(agent: &str, folder: &str, session: &str) -> String {
    let folder = recount_record::cut(folder, limits::ACP_TITLE_BYTES_MAX).0;
    format!("{agent} in {folder}{}", session_title_end(session))
}

/// Our session for one of this agent, the newest if there are several.
pub(super) async fn find_chat(
    client: &Client,
    agent: &str,
    session: &str,
) -> Result<Option<String>, ClientError> {
    find_session(client, &format!("{agent} in "), &session_title_end(session)).await
}

/// Answers the editor's `session/load`.
pub(super) async fn load(recording: &mut AcpRecorder, request: String, session: String, params: Value) {
    let updates = match history(recording, &session).await {
        Ok(Some(updates)) => updates,
        Ok(None) => {
            let why = format!(
                "the agent cannot load sessions, and Recount has no recording of session {session:?}"
            );
            return refuse(recording, &request, -32002, &why).await;
        }
        Err(why) => {
            let why =
                format!("the agent cannot load sessions, and the recording in Recount cannot be read: {why}");
            return refuse(recording, &request, -32603, &why).await;
        }
    };
    if recording.gate.abilities().resume {
        recording.own_requests += 1;
        let id = json!(format!("recount-{}", recording.own_requests)).to_string();
        recording.gate.own_request(&id);
        let message = json!({"jsonrpc": "2.0", "id": raw(&id), "method": "session/resume", "params": params});
        recording.resuming.insert(id, Resuming { request, session, updates });
        return write(&recording.world, &recording.agent, &message).await;
    }
    recording.gate.session_is_over(&session);
    let over = "This session is shown from the recording in Recount. The agent cannot resume it; start a new \
                session to continue.";
    show(recording, &session, &updates).await;
    let last = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": over}});
    show(recording, &session, &[last]).await;
    answer(recording, &request, "result", &json!({})).await;
}

/// The agent answered `session/resume`.
pub(super) async fn resumed(recording: &mut AcpRecorder, id: &str, message: &Value) {
    let Some(resuming) = recording.resuming.remove(id) else { return };
    let Resuming { request, session, updates } = resuming;
    if message["error"].is_null() {
        show(recording, &session, &updates).await;
        return answer(recording, &request, "result", &message["result"]).await;
    }
    let why = message["error"]["message"].as_str().unwrap_or("no reason given");
    let why = format!("the agent cannot resume the session: {why}");
    refuse(recording, &request, message["error"]["code"].as_i64().unwrap_or(-32603), &why).await;
}

/// A prompt to a session that only the log has.
pub(super) async fn refuse_prompt(recording: &mut AcpRecorder, request: &str) {
    let why = "this session is shown from the recording in Recount and the agent cannot resume it; start a \
               new session";
    refuse(recording, request, -32002, why).await;
}

/// The messages of a session, as updates; `None` where the log does not have them.
async fn history(recording: &mut AcpRecorder, session: &str) -> Result<Option<Vec<Value>>, ClientError> {
    // What waits is sent first, so that it is part of it.
    recording.send().await;
    let client = recording.client.clone();
    let agent = recording.account.agent.clone();
    let Some(chat) = find_chat(&client, &agent, session).await? else { return Ok(None) };
    let mut runs = Vec::new();
    let mut listing = Listing { limit: Some(limits::ACP_LOOKUP_PAGE), ..Listing::default() };
    while runs.len() < limits::ACP_LOADED_RUNS_MAX {
        let page = client.list_session_runs(&chat, &listing).await?;
        runs.extend(page.data.into_iter().map(|run| run.id));
        if !page.has_more {
            break;
        }
        listing.after = page.next;
    }
    runs.truncate(limits::ACP_LOADED_RUNS_MAX);
    let mut updates = Vec::new();
    let mut bytes = 0;
    // The newest first, so that those are kept where not all fit.
    for run in &runs {
        let mut replay = Replay::default();
        let events = all_events(&client, run).await?;
        let shown: Vec<Value> = events.iter().filter_map(|(kind, data)| replay.event(kind, data)).collect();
        bytes += shown.iter().map(|update| update.to_string().len()).sum::<usize>();
        if bytes > limits::ACP_LOADED_BYTES_MAX {
            let text = "Earlier parts of this session are only in the recording in Recount.";
            updates.push(vec![
                json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
            ]);
            break;
        }
        updates.push(shown);
    }
    Ok(Some(updates.into_iter().rev().flatten().collect()))
}

async fn show(recording: &AcpRecorder, session: &str, updates: &[Value]) {
    for update in updates {
        let params = json!({"sessionId": session, "update": update});
        write(
            &recording.world,
            &recording.editor,
            &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}),
        )
        .await;
    }
}

async fn refuse(recording: &AcpRecorder, request: &str, code: i64, why: &str) {
    answer(recording, request, "error", &json!({"code": code, "message": why})).await;
}

async fn answer(recording: &AcpRecorder, request: &str, name: &str, value: &Value) {
    recording.gate.answered_here(request);
    write(&recording.world, &recording.editor, &json!({"jsonrpc": "2.0", "id": raw(request), name: value}))
        .await;
}
