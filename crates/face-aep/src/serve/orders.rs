//! Own runs: create, and start by a message in a session.

use ::http::StatusCode;
use axum::extract::{RawQuery, Request};
use recount_api::query as words;
use recount_api::reply::Page;
use recount_api::request::SendMessage;
use recount_engine::{Attached, ListQuery, NewRun, Order, Scope};
use recount_event::family::run::{Driver, RunKind};
use recount_event::{Code, ForeignId, SessionId};

use super::Face;
use super::artifacts::found;
use super::http::{Answer, Ids, Query, body_bytes, json};
use super::once::IdempotentRequest;
use super::runs::{answer_made, show_made};
use crate::accept::{RunOptions, RunRequest};
use crate::error::Refusal;
use crate::{accept, limits, project};

impl Face {
    /// Refuses own runs where no performer is attached, and to clients that may only ingest.
    pub(super) fn may_order(&self, kind: RunKind) -> Result<(), Refusal> {
        if !self.caller.may(Scope::Run) {
            let kind = kind.as_str();
            let needs = format!(
                "a run of kind {kind} needs the scope run; this token may only create runs of kind external"
            );
            return Err(Refusal::new(Code::ScopeMissing, needs));
        }
        if !self.engine.work().has_performer() {
            let kind = kind.as_str();
            let nobody = format!("this server executes no runs of kind {kind}; send kind external");
            return Err(Refusal::new(Code::KindUnavailable, nobody));
        }
        Ok(())
    }

    /// A run to be queued, with its configuration and the items that it names.
    pub(super) async fn ordered(&self, asked: RunRequest) -> Result<NewRun, Refusal> {
        let RunRequest { mut new, mut wanted, resume } = asked;
        self.may_make_in(new.task, new.session)?;
        if new.queued.driver == Driver::External {
            return Ok(new);
        }
        self.may_order(new.queued.kind)?;
        if let Some((run, from_sequence)) = resume {
            let past = self.engine.write().past(self.run_id(&run.to_string()).await?).await?;
            if past.queued.kind != RunKind::AgentLoop || (past.task, past.session) != (new.task, new.session)
            {
                let detail = format!(
                    "resume is {run}, which is not a run of kind agent_loop of the same task and session"
                );
                return Err(Refusal::new(Code::OrderRefused, detail));
            }
            new.resumed_from = Some(past.place(from_sequence)?);
            new.queued.workspace_path = past.queued.workspace_path.clone();
            past.precede(&mut new.queued);
        }
        if let Some(picked) = wanted.agent.take() {
            let template = accept::template(self.engine.catalogue().profiles().get(&picked.name)?, &picked)?;
            wanted.by_template(&mut new.queued, template);
        }
        let RunOptions { mut order, model, workspace_mode, attachments, network: _, agent: _ } = wanted;
        order.attachments.extend(self.attached(attachments).await?);
        new.queued.model = model;
        new.queued.workspace_mode = workspace_mode;
        new.queued.config = Some(order.written());
        Ok(new)
    }

    /// What comes with a request, as a run is told of it.
    pub(super) async fn attached(
        &self,
        named: Vec<(ForeignId, Option<String>)>,
    ) -> Result<Vec<Attached>, Refusal> {
        let mut attached = Vec::new();
        for (artifact_id, name) in named {
            let row = found(self, &artifact_id).await?;
            let mime = row.mime().unwrap_or("application/octet-stream").to_owned();
            let name = name.or_else(|| row.name().map(str::to_owned));
            attached.push(Attached { artifact_id, mime, name });
        }
        Ok(attached)
    }

    /// Fills in the missing fields of a message from the last own run of its session: a
    /// conversation continues with the same model, on the same folder.
    async fn continued(&self, session: SessionId, asked: &mut RunRequest) -> Result<(), Refusal> {
        let newest = ListQuery { limit: limits::SESSION_RUNS_LOOKED_AT_MAX, ..ListQuery::default() };
        let runs = self.engine.catalogue().list_session_runs(session, &newest).await?.items;
        let is_ours =
            |kind: &str, driver: &str| kind == RunKind::AgentLoop.as_str() && driver == Driver::Own.as_str();
        let Some(last) = runs.iter().find(|row| is_ours(&row.kind, &row.driver)) else { return Ok(()) };
        let Some(before) = self.engine.read().queued(last.id).await? else { return Ok(()) };
        let Ok(then) = Order::read(before.config.as_ref()) else { return Ok(()) };
        asked.new.queued.prior_run_id = Some(last.id.to_string());
        if asked.new.queued.agent.is_some() {
            // The configuration of the session applies.
            return Ok(());
        }
        let RunOptions { order, model, workspace_mode, network, .. } = &mut asked.wanted;
        if model.is_none() {
            *model = before.model;
            asked.new.queued.provider = before.provider;
        }
        order.system = order.system.take().or(then.system);
        order.workspace_instructions = order.workspace_instructions.or(then.workspace_instructions);
        order.tools = order.tools.take().or(then.tools);
        if order.workspace_source.is_none() && workspace_mode.is_none() {
            order.workspace_source = then.workspace_source;
            *workspace_mode = before.workspace_mode;
        }
        order.network = network.unwrap_or(then.network);
        Ok(())
    }
}

pub(super) async fn send_message(face: Face, Ids(session): Ids<String>, request: Request) -> Answer {
    let again = IdempotentRequest::of(&request);
    if let Some(made) = &again.made {
        return show_made(&face, made).await;
    }
    let trace = accept::traceparent(request.headers().get("traceparent"));
    let session = face.session_id(&session)?;
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: SendMessage = accept::body(&bytes)?;
    if face.engine.catalogue().session(session).await?.is_none() {
        return Err(face.engine.catalogue().missing_session(session).await.into());
    }
    let mut asked = accept::message(request, session, &face.caller.name)?;
    if let Some(row) = face.engine.catalogue().setup(session).await? {
        let profile = face.engine.catalogue().profiles().get(&row.setup.agent)?;
        asked.wanted.by_template(&mut asked.new.queued, profile.order(&row.setup.choice())?);
    }
    face.continued(session, &mut asked).await?;
    let mut new = face.ordered(asked).await?;
    new.queued.traceparent = trace;
    answer_made(&face, new, again).await
}

pub(super) async fn list_agents(face: Face) -> Answer {
    let agents = face.engine.catalogue().profiles().iter().map(project::agent).collect();
    Ok(json(StatusCode::OK, &Page::new(agents, None, false)))
}

pub(super) async fn list_messages(face: Face, Ids(session): Ids<String>, RawQuery(raw): RawQuery) -> Answer {
    let session = face.session_id(&session)?;
    if face.engine.catalogue().session(session).await?.is_none() {
        return Err(face.engine.catalogue().missing_session(session).await.into());
    }
    let query = Query::parse(raw.as_deref());
    let after = accept::message_cursor(query.get(words::AFTER))?;
    let limit = accept::limit(query.get(words::LIMIT), words::LIST_LIMIT_DEFAULT, words::LIST_LIMIT_MAX)?;
    let page = face.engine.read().messages(session, after, limit).await?;
    let next = page.next.map(|(run, sequence)| serde_json::Value::String(format!("{run}:{sequence}")));
    let told = page.told.into_iter().map(project::message).collect();
    Ok(json(StatusCode::OK, &Page::new(told, next, page.has_more)))
}
