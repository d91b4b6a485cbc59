//! Handles `session/prompt`: sends it to the server, which starts or continues a run; and cancels that run.
//!
//! Must not depend on events. Start with [`prompt`] and [`cancel`].

use std::collections::BTreeMap;
use std::rc::Rc;

use recount_client::aap::AapError;
use recount_client::aap::wire::{NewTurn, TurnMessage, Way};
use recount_client::request::Cancel;
use serde_json::{Value, json};

use super::connection::Connection;
use super::ending;
use super::follow;
use super::session::{Following, Session};
use crate::error::{INTERNAL_ERROR, INVALID_REQUEST, RpcError};
use crate::project::{Projector, call};
use crate::{accept, limits, offer};

/// Starts the turn of `session/prompt`. The response is sent when the run ends or asks a question; an error is sent at
/// once.
pub(super) async fn prompt(this: &Rc<Connection>, id: &Value, params: &Value) -> Result<(), RpcError> {
    let introduced = this.introduced()?;
    let request = accept::prompt(params, offer::takes_images(&introduced.agent))?;
    let session = this.session(&request.session)?;
    if !session.begin_prompt(id) {
        let why = "a prompt of this session is in progress; wait for its response, or send session/cancel";
        return Err(RpcError::new(INVALID_REQUEST, why));
    }
    match send(this, &session, request.content).await {
        Ok(run) => started(this, &session, &run, &request.text).await,
        Err(error) => {
            let prompting = session.end_prompt();
            if prompting.is_some_and(|prompting| prompting.is_cancelled) {
                this.answer(id, Ok(json!({ "stopReason": "cancelled" }))).await;
                return Ok(());
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Sends the message as a turn, once, with retries. Returns the run.
async fn send(
    this: &Connection,
    session: &Session,
    content: recount_client::aap::wire::Content,
) -> Result<String, RpcError> {
    let introduced = this.introduced()?;
    let (mode, agent) = (session.mode.get(), session.overrides(&introduced.agent));
    let sent: BTreeMap<String, String> =
        agent.as_ref().and_then(|overrides| overrides.options.clone()).unwrap_or_default();
    let new = NewTurn { messages: vec![TurnMessage::User { content }], stream: Way::Delta, agent };
    let key = format!("acp-{:032x}", this.world.entropy.draw());
    let mut attempt = 1;
    let turn = loop {
        match this.aap.turn_once(&session.id, &new, &key).await {
            Err(why) if attempt < limits::CALL_ATTEMPTS_MAX && may_have_started(&why) => {
                attempt += 1;
                tokio::time::sleep(limits::CALL_RETRY_WAIT).await;
            }
            done => break done?,
        }
    };
    session.stored(mode, &sent);
    // The id of a turn is its run and the sequence of its first event.
    let run = turn.id().and_then(|id| id.rsplit_once('-')).map(|(run, _)| format!("run_{run}"));
    run.ok_or_else(|| {
        RpcError::new(INTERNAL_ERROR, "the server started a turn without an id; it has another version")
    })
}

fn may_have_started(why: &AapError) -> bool {
    match why {
        AapError::Unreachable { .. } => true,
        AapError::Refused { code, .. } => code.as_deref() == Some("idempotency_in_progress"),
        _ => false,
    }
}

/// Follows the run of a prompt, or cancels it if a cancellation was requested in the meantime.
async fn started(this: &Rc<Connection>, session: &Rc<Session>, run: &str, text: &str) {
    session.prompt_runs(run);
    if session.prompting().is_some_and(|prompting| prompting.is_cancelled) {
        cancel(this, session);
    }
    if !session.is_titled.replace(true) {
        entitle(this, session, text).await;
    }
    match session.following().filter(|following| following.run == run) {
        // The run asked a question and continues.
        Some(following) => {
            // Taken out first, because others change it while the response is sent.
            let how = following.ending.borrow().clone();
            match how {
                Some(how) => {
                    let used = following.projector.borrow().used();
                    ending::answer(this, session, run, &how, used).await;
                }
                None => ending::end_if_waiting(this, session, &following).await,
            }
        }
        None => {
            let projector = Projector::new(run, this.client.base_url(), false);
            follow::begin(this, session, Rc::new(Following::new(projector)), None);
        }
    }
}

/// Sets the title of a session from its first message.
async fn entitle(this: &Connection, session: &Session, text: &str) {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    let title = call::shortened(line.trim());
    if title.is_empty() {
        return;
    }
    match this.aap.retitle_session(&session.id, &title).await {
        Ok(()) => {
            this.update(&session.id, &json!({ "sessionUpdate": "session_info_update", "title": title }))
                .await;
        }
        Err(why) => this.note(&format!("the title of session {} could not be set: {why}", session.id)),
    }
}

/// `session/cancel`: cancels what the session does now. The prompt is answered when the run ends.
pub(super) fn cancel(this: &Rc<Connection>, session: &Session) {
    let Some(run) = session.cancel() else { return };
    let (this, request) = (this.clone(), this.begin());
    this.clone().spawn(async move {
        if let Err(why) = cancel_run(&this, &run).await {
            this.note(&format!("run {run} could not be cancelled: {}", why.message));
        }
        drop(request);
    });
}

pub(super) async fn cancel_run(this: &Connection, run: &str) -> Result<(), RpcError> {
    let cancel = Cancel { reason: Some("cancelled in the editor".to_owned()) };
    match this.patiently(async || this.client.cancel_run(run, &cancel).await).await {
        Err(why) if why.code() == Some("run_ended") => Ok(()),
        done => done.map(drop).map_err(RpcError::from),
    }
}
