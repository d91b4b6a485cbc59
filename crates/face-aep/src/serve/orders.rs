//! Creates own runs, also for messages in a session, and lists agents and messages. Start with [`Face::prepare_run`].

use ::http::StatusCode;
use axum::extract::{RawQuery, Request};
use recount_api::query as words;
use recount_api::reply::Page;
use recount_api::request::SendMessage;
use recount_engine::{Attachment, ListQuery, NewRun, ResumeFrom, RunConfig, Scope};
use recount_event::family::run::{Driver, RunKind};
use recount_event::{Code, ForeignId, SessionId};

use super::Face;
use super::artifacts::found;
use super::http::{HandlerResult, Ids, Query, body_bytes, json};
use super::once::IdempotentRequest;
use super::runs::{create_run_response, show_created_run};
use crate::accept::{ResumedRun, RunOptions, RunRequest};
use crate::error::Refusal;
use crate::{accept, limits, project};

impl Face {
    /// Refuses own runs if no performer is attached or the client may only ingest.
    pub(super) fn check_may_start(&self, kind: RunKind) -> Result<(), Refusal> {
        if !self.caller.may(Scope::Run) {
            let kind = kind.as_str();
            let needs = format!(
                "a run of kind {kind} requires the scope run; this token may only create runs of kind \
                 external"
            );
            return Err(Refusal::new(Code::ScopeMissing, needs));
        }
        if !self.engine.work().has_performer() {
            let kind = kind.as_str();
            let detail = format!("this server does not execute runs of kind {kind}; send kind external");
            return Err(Refusal::new(Code::KindUnavailable, detail));
        }
        Ok(())
    }

    /// Resolves everything that a requested run names, and returns the run to queue.
    pub(super) async fn prepare_run(&self, request: RunRequest) -> Result<NewRun, Refusal> {
        let RunRequest { mut new, mut options, resume } = request;
        self.check_may_create_in(new.task, new.session)?;
        if new.queued.driver == Driver::External {
            return Ok(new);
        }
        self.check_may_start(new.queued.kind)?;
        let mut files_from = None;
        if let Some(ResumedRun { run, from_sequence, files }) = resume {
            let past = self.engine.write().ended_run(self.run_id(&run.to_string()).await?).await?;
            if past.queued.kind != RunKind::AgentLoop || (past.task, past.session) != (new.task, new.session)
            {
                let detail = format!(
                    "resume is {run}, which is not a run of kind agent_loop of the same task and session"
                );
                return Err(Refusal::new(Code::OrderRefused, detail));
            }
            new.resumed_from = Some(past.resume_point(from_sequence)?);
            if let Some(sequence) = from_sequence {
                let from = ResumeFrom::Sequence(sequence);
                files_from = self.engine.work().files_from(&past, &from, Some(sequence), files).await?;
            }
            new.queued.workspace_path = past.queued.workspace_path.clone();
            past.set_predecessor(&mut new.queued);
        }
        if let Some(picked) = options.agent.take() {
            let template = accept::template(self.engine.catalogue().profiles().get(&picked.name)?, &picked)?;
            options.apply_template(&mut new.queued, template);
        }
        let RunOptions { mut order, model, workspace_mode, attachments, network: _, agent: _ } = options;
        order.attachments.extend(self.resolve_attachments(attachments).await?);
        new.queued.model = model;
        new.queued.workspace_mode = workspace_mode;
        order.files_from = files_from;
        new.queued.config = Some(order.written());
        Ok(new)
    }

    /// Looks up the attachments of a request.
    pub(super) async fn resolve_attachments(
        &self,
        named: Vec<(ForeignId, Option<String>)>,
    ) -> Result<Vec<Attachment>, Refusal> {
        let mut attached = Vec::new();
        for (artifact_id, name) in named {
            let row = found(self, &artifact_id).await?;
            let mime = row.mime().unwrap_or("application/octet-stream").to_owned();
            let name = name.or_else(|| row.name().map(str::to_owned));
            attached.push(Attachment { artifact_id, mime, name });
        }
        Ok(attached)
    }

    /// Fills in the missing fields of a message from the last own run of its session: a
    /// conversation continues with the same model, on the same folder.
    async fn inherit_from_last_run(
        &self,
        session: SessionId,
        request: &mut RunRequest,
    ) -> Result<(), Refusal> {
        let newest = ListQuery { limit: limits::SESSION_RUNS_LOOKED_AT_MAX, ..ListQuery::default() };
        let runs = self.engine.catalogue().list_session_runs(session, &newest).await?.items;
        let is_ours =
            |kind: &str, driver: &str| kind == RunKind::AgentLoop.as_str() && driver == Driver::Own.as_str();
        let Some(last) = runs.iter().find(|row| is_ours(&row.kind, &row.driver)) else { return Ok(()) };
        let Some(before) = self.engine.read().queued(last.id).await? else { return Ok(()) };
        let Ok(then) = RunConfig::from_json(before.config.as_ref()) else { return Ok(()) };
        request.new.queued.prior_run_id = Some(last.id.to_string());
        if last.task_id == request.new.task {
            // A message after a branch continues in its copy.
            request.new.queued.workspace_path = before.workspace_path;
        }
        if request.new.queued.agent.is_some() {
            // The configuration of the session applies.
            return Ok(());
        }
        let RunOptions { order, model, workspace_mode, network, .. } = &mut request.options;
        if model.is_none() {
            *model = before.model;
            request.new.queued.provider = before.provider;
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

pub(super) async fn send_message(face: Face, Ids(session): Ids<String>, request: Request) -> HandlerResult {
    let idempotent = IdempotentRequest::of(&request);
    if let Some(created) = &idempotent.created {
        return show_created_run(&face, created).await;
    }
    let trace = accept::traceparent(request.headers().get("traceparent"));
    let session = face.session_id(&session)?;
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: SendMessage = accept::body(&bytes)?;
    face.engine.catalogue().existing_session(session).await?;
    let mut run = accept::message(request, session, &face.caller.name)?;
    if let Some(row) = face.engine.catalogue().setup(session).await? {
        let profile = face.engine.catalogue().profiles().get(&row.setup.agent)?;
        run.options.apply_template(&mut run.new.queued, profile.run_config(&row.setup.choice())?);
    }
    face.inherit_from_last_run(session, &mut run).await?;
    let mut new = face.prepare_run(run).await?;
    new.queued.traceparent = trace;
    create_run_response(&face, new, idempotent).await
}

pub(super) async fn list_agents(face: Face) -> HandlerResult {
    let agents = face.engine.catalogue().profiles().iter().map(project::agent).collect();
    Ok(json(StatusCode::OK, &Page::new(agents, None, false)))
}

pub(super) async fn list_messages(
    face: Face,
    Ids(session): Ids<String>,
    RawQuery(raw): RawQuery,
) -> HandlerResult {
    let session = face.session_id(&session)?;
    face.engine.catalogue().existing_session(session).await?;
    let query = Query::parse(raw.as_deref());
    let after = accept::message_cursor(query.get(words::AFTER))?;
    let limit = accept::limit(query.get(words::LIMIT), words::LIST_LIMIT_DEFAULT, words::LIST_LIMIT_MAX)?;
    let page = face.engine.read().messages(session, after, limit).await?;
    let next = page.next.map(|(run, sequence)| serde_json::Value::String(format!("{run}:{sequence}")));
    let messages = page.messages.into_iter().map(project::message).collect();
    Ok(json(StatusCode::OK, &Page::new(messages, next, page.has_more)))
}
