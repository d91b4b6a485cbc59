//! Reopens a session: replays its runs from the log, then follows the active run and forwards its open prompts.
//!
//! Must not depend on prompts of the editor. Start with [`reopen`].

use std::rc::Rc;

use recount_client::Listing;
use recount_client::aap::wire::SessionInfo;
use recount_client::reply::Gap;
use recount_event::codec;
use serde_json::Value;

use super::connection::Connection;
use super::follow;
use super::session::{Following, Session};
use crate::accept::{self, Reopening};
use crate::error::{INVALID_REQUEST, RpcError};
use crate::limits;
use crate::project::{Projector, Step};

/// A session of this agent, from the server.
pub(super) async fn found(this: &Connection, id: &str) -> Result<SessionInfo, RpcError> {
    let info = match this.aap.session(id).await {
        Err(why) if matches!(why.status(), Some(400 | 404 | 410)) => {
            return Err(RpcError::session_not_found(id));
        }
        info => info?,
    };
    let (theirs, ours) = (&info.agent.name, &this.options.agent);
    if theirs != ours {
        return Err(RpcError::params(format!(
            "session {id} belongs to the agent {theirs}, but this program runs the agent {ours}; start it \
             with --agent {theirs}"
        )));
    }
    Ok(info)
}

/// Sends the response itself, after the replay and before the updates that follow.
pub(super) async fn reopen(
    this: &Rc<Connection>,
    request: &Value,
    Reopening { session: id, folder }: Reopening,
    is_load: bool,
) -> Result<(), RpcError> {
    let introduced = this.introduced()?;
    this.has_room(Some(&id))?;
    is_idle(this, &id)?;
    let info = found(this, &id).await?;
    let works_in = info.workspace.as_ref().map(|workspace| accept::trimmed(&workspace.path).to_owned());
    if works_in.as_ref().is_some_and(|works_in| *works_in != folder.cwd) {
        let works_in = works_in.unwrap_or_default();
        return Err(RpcError::params(format!(
            "session {id} works in {works_in:?}, but cwd is {:?}; send cwd {works_in:?}",
            crate::error::shortened(&folder.cwd)
        )));
    }
    this.leave_out(&folder);
    let session = Rc::new(Session::new(&info, &introduced.agent));
    let runs = runs(this, &id).await?;
    let newest = runs.last().cloned();
    let skipped = if is_load { 0 } else { runs.len().saturating_sub(1) };
    let mut active = None;
    for run in &runs[skipped..] {
        let replayed = replay(this, &session, run, is_load).await?;
        let (following, after) = replayed;
        if !following.is_over() && newest.as_deref() == Some(run) {
            active = Some((Rc::new(following), after));
        }
    }
    is_idle(this, &id)?;
    if let Some(following) = this.open(session.clone()).and_then(|before| before.following()) {
        following.stop();
    }
    this.answer(request, Ok(session.shown(&introduced.agent))).await;
    if let Some((following, after)) = active {
        following.projector.borrow_mut().go_live();
        follow::begin(this, &session, following.clone(), after);
        follow::forward_open_prompts(this, &session, &following, is_load);
    }
    Ok(())
}

/// The followed run answers a prompt in progress, so it is not replaced.
fn is_idle(this: &Connection, id: &str) -> Result<(), RpcError> {
    let is_prompting = this.session(id).is_ok_and(|session| session.prompting().is_some());
    match is_prompting {
        true => Err(RpcError::new(
            INVALID_REQUEST,
            format!("a prompt of session {id} is in progress; send session/cancel first"),
        )),
        false => Ok(()),
    }
}

/// The runs of a session, oldest first.
async fn runs(this: &Connection, session: &str) -> Result<Vec<String>, RpcError> {
    let mut runs = Vec::new();
    let mut after = None;
    loop {
        let listing = Listing { after, limit: Some(limits::PAGE_RUNS), ..Listing::default() };
        let page = this.patiently(async || this.client.list_session_runs(session, &listing).await).await?;
        runs.extend(page.data.into_iter().map(|run| run.id));
        after = page.next;
        if !page.has_more || runs.len() >= limits::REPLAYED_RUNS_MAX {
            if page.has_more {
                let most = limits::REPLAYED_RUNS_MAX;
                this.note(&format!(
                    "session {session} has more than {most} runs; only the newest {most} are replayed"
                ));
            }
            runs.truncate(limits::REPLAYED_RUNS_MAX);
            runs.reverse();
            return Ok(runs);
        }
    }
}

/// Replays one run up to now. Returns the last event, after which following continues.
async fn replay(
    this: &Connection,
    session: &Session,
    run: &str,
    is_shown: bool,
) -> Result<(Following, Option<u64>), RpcError> {
    let following = Following::new(Projector::new(run, this.client.base_url(), true));
    let mut after = None;
    loop {
        let limit = Some(limits::PAGE_EVENTS);
        let page = this.patiently(async || this.client.read_run_events(run, after, limit).await).await?;
        if let Some(gap @ Gap::Damaged(range)) = &page.gap {
            let note = following.projector.borrow().note(&follow::gap_words(gap));
            show(this, session, &following, is_shown, vec![note]).await;
            after = range.last_sequence.or(after);
        }
        for envelope in &page.data {
            let steps = match codec::decode(envelope.get().as_bytes()) {
                Ok(event) => {
                    after = Some(event.sequence);
                    following.projector.borrow_mut().event(&event)
                }
                Err(why) => {
                    let words = format!("An event of the run cannot be read: {why}");
                    vec![following.projector.borrow().note(&words)]
                }
            };
            show(this, session, &following, is_shown, steps).await;
        }
        let next = page.next.as_ref().and_then(Value::as_u64);
        after = after.max(next);
        if !page.has_more {
            return Ok((following, after));
        }
    }
}

/// Sends the updates of an event, if the editor requested a replay.
async fn show(this: &Connection, session: &Session, following: &Following, is_shown: bool, steps: Vec<Step>) {
    for step in steps {
        if let Step::Ended(ending) = &step {
            *following.ending.borrow_mut() = Some(ending.clone());
        }
        match step {
            _ if !is_shown => {}
            Step::Update(update) => this.update(&session.id, &update).await,
            Step::Patch { call, artifact, path } => {
                for update in follow::patch(this, following, [&call, &artifact, &path]).await {
                    this.update(&session.id, &update).await;
                }
            }
            Step::Ended(ending) => {
                let note = ending.words().map(|words| following.projector.borrow().note(&words));
                if let Some(Step::Update(update)) = note {
                    this.update(&session.id, &update).await;
                }
            }
            // Open prompts are forwarded after the replay.
            Step::Prompt(_) | Step::Settled { .. } => {}
        }
    }
}
