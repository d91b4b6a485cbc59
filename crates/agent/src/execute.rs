//! Executes one allowed call: runs the tool, appends its events, cancels it when the run ends, and records the outcome.
//!
//! Start at [`Worker::carry_out`]. Concurrent calls are in `together`.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use recount_engine::{ArtifactInput as EngineKeep, Watch, WorkerSession, WriteHandle};
use recount_event::family::tool::Ended;
use recount_event::{Draft, Event, ForeignId, Json, Payload, RunId};
use serde_json::Value;

use crate::hooks::HookedCall;
use crate::limits;
use crate::read_back;
use crate::tool::{
    ArtifactStore, Cancel, EventReporter, Job, NewArtifact, Outcome, OutcomeStatus, OutputInLog, ResultPart,
    ResultRange, RunLost, StoredArtifact, TOOL_ERROR, Terms, Tool,
};
use crate::worker::{WorkResult, Worker};
use crate::workspace::claims::{Claim, ClaimMode, StillClaimed};

impl Worker {
    /// The unmasked input of a call. `None` when the log holds it masked and the original is no longer available.
    pub(crate) async fn input(&mut self, id: &ForeignId) -> WorkResult<Option<Value>> {
        if let Some(original) = self.originals.get(id) {
            return Ok(Some(original.clone()));
        }
        if let Some(sealed) = self.worker_session.write().unseal(self.worker_session.run(), id).await? {
            return Ok(serde_json::from_slice(&sealed).ok());
        }
        let logged = self.worker_session.state().call(id).filter(|call| !call.is_masked());
        let logged = logged.and_then(|call| call.input.clone());
        Ok(logged.and_then(|input| serde_json::from_str(input.text()).ok()))
    }

    /// Seals the inputs that the log will hold masked, so that only this server can read them.
    pub(crate) async fn keep_originals(
        &mut self,
        drafts: &mut [Draft],
        calls: Vec<(ForeignId, Value)>,
    ) -> WorkResult<()> {
        let write = self.worker_session.write().clone();
        let run = self.worker_session.run();
        for (id, original) in calls {
            let proposed = drafts.iter().find(|draft| {
                matches!(&draft.payload, Payload::AssistantToolCallProposed(proposed) if proposed.tool_call_id == id)
            });
            if let Some(proposed) = proposed
                && self.worker_session.masks(&proposed.payload)
            {
                write.seal(run, &id, original.to_string().as_bytes()).await?;
            }
            self.originals.insert(id, original);
        }
        Ok(())
    }

    /// Runs an invoked call to its end.
    pub(crate) async fn carry_out(&mut self, id: &ForeignId) -> WorkResult<()> {
        if self.is_child_call(id) {
            return self.carry_out_child(id).await;
        }
        let Some((ready, terms)) = self.prepare_call(id).await? else { return Ok(()) };
        let ReadyCall { id, name, tool, input, mut ended } = ready;
        let _place = self.tool_place().await?;
        let claim = match self.claim_folder(&terms).await? {
            Ok(claim) => claim,
            Err(busy) => return self.settle(ended, busy).await,
        };
        // The wait for a free place may have been long.
        if let Some(error) = self.changed_since_approval(&id, &tool, &input).await {
            return self.settle(ended, outcome_failed("changed_since_approval", error)).await;
        }
        let hooked = self.hooks_before(&id, &name).await;
        let mut started = recount_world::moment();
        let world = self.worker_session.world().clone();
        let redactor = self.worker_session.redactor().clone();
        let artifacts = self.artifacts();
        let (approved, revisions) = (self.approved(&id), self.revisions.clone());
        let watch = self.worker_session.watch();
        let write = self.worker_session.write().clone();
        let (cancel_sender, mut cancel) = Cancel::new();
        let mut seen = Vec::new();
        let mut reporter =
            DeskReporter { worker_session: &mut self.worker_session, seen: &mut seen, left: None };
        let outcome = {
            let call = async {
                // Before the hooks, which are effects too, and again after them.
                if let Err(error) = write.check_owner() {
                    return outcome_failed(NOT_OWNER, error.to_string());
                }
                if let Some(hooked) = &hooked
                    && let Some(vetoed) = hooked.admit(&mut reporter, &mut cancel).await
                {
                    return vetoed;
                }
                if let Err(error) = write.check_owner() {
                    return outcome_failed(NOT_OWNER, error.to_string());
                }
                started = recount_world::moment();
                let job = Job {
                    call: &id,
                    tool_name: &name,
                    turn_index: ended.turn_index,
                    input: &input,
                    approved,
                    revisions,
                    terms: &terms,
                    reporter: &mut reporter,
                    artifacts: &artifacts,
                    redactor: &redactor,
                    cancel,
                    world: &world,
                };
                tool.run(job).await
            };
            run_until_ended(Box::pin(call), watch, &cancel_sender).await
        };
        drop(claim);
        let left = reporter.left.take();
        self.apply_events(&seen);
        if let Some(left) = left {
            return Err(left);
        }
        let Some(outcome) = outcome else { return Err(recount_engine::WorkerExit::Ended) };
        ended.duration_ms = u64::try_from(started.elapsed().as_millis()).ok();
        self.settle(ended, outcome).await
    }

    /// Collects what an invoked call needs to run. `None`: it cannot run, and its failure was recorded.
    pub(crate) async fn prepare_call(&mut self, id: &ForeignId) -> WorkResult<Option<(ReadyCall, Terms)>> {
        let Some(call) = self.worker_session.state().call(id) else { return Ok(None) };
        let (name, turn_index) = (call.tool_name.as_deref().unwrap_or_default().to_owned(), call.turn_index);
        let mut ended = Ended::new(id.clone(), name.clone());
        ended.turn_index = turn_index;
        let Some(tool) = self.tool(&name).cloned() else {
            let error = self.unknown_tool_message(&name);
            self.settle(ended, outcome_failed("tool_unavailable", error)).await?;
            return Ok(None);
        };
        ended.kind = Some(tool.kind().to_owned());
        if let Some(origin) = tool.origin() {
            (ended.mcp_server, ended.mcp_tool) = (Some(origin.server.clone()), Some(origin.tool.clone()));
        }
        if turn_index.is_some() && !self.agent.offers(&self.config, &name) {
            // It was allowed, but a later change of the settings removed the tool.
            let error = format!("the tool {name} is no longer available in this run");
            self.settle(ended, outcome_failed("not_offered", error)).await?;
            return Ok(None);
        }
        let input = match turn_index {
            // In a run that is one call, the order has the input.
            None => self
                .originals
                .get(id)
                .cloned()
                .or_else(|| self.single_call_input().ok().map(|(_, input)| input)),
            Some(_) => self.input(id).await?,
        };
        let Some(input) = input else {
            let error =
                "the call was not run because its input contained a secret, which is not stored".to_owned();
            self.settle(ended, outcome_failed("input_lost", error)).await?;
            return Ok(None);
        };
        let Some(terms) = self.terms() else {
            self.settle(ended, outcome_failed("workspace_gone", "the run has no workspace".into())).await?;
            return Ok(None);
        };
        if let Some(error) = self.changed_since_approval(id, &tool, &input).await {
            self.settle(ended, outcome_failed("changed_since_approval", error)).await?;
            return Ok(None);
        }
        Ok(Some((ReadyCall { id: id.clone(), name, tool, input, ended }, terms)))
    }

    pub(crate) fn artifacts(&self) -> RunArtifacts {
        RunArtifacts { write: self.worker_session.write().clone(), run: self.worker_session.run() }
    }

    /// Claims the folder for a tool until the claim is dropped. A tool may outlive its run, and no changes may be
    /// applied to the folder until it ends.
    pub(crate) async fn claim_folder(&mut self, terms: &Terms) -> WorkResult<Result<Option<Claim>, Outcome>> {
        if terms.root.as_os_str().is_empty() {
            // Tools that need no folder have none.
            return Ok(Ok(None));
        }
        let mut watch = self.worker_session.watch();
        let claim = self.agent.claims.claim(vec![terms.root.clone()], ClaimMode::Shared);
        tokio::select! {
            biased;
            () = watch.ended() => Err(recount_engine::WorkerExit::Ended),
            claim = claim => Ok(claim.map(Some).map_err(|StillClaimed| {
                let root = terms.root.display();
                outcome_failed("workspace_busy", format!(
                    "changes are being applied to {root}; try again later"))
            })),
        }
    }

    /// Records how a call ended, and waits for the hooks after it.
    pub(crate) async fn settle(&mut self, ended: Ended, outcome: Outcome) -> WorkResult<()> {
        match self.record_end(ended, outcome).await? {
            Some(hooked) => self.run_hooks_after(hooked).await,
            None => Ok(()),
        }
    }

    /// Records how a call ended. Returns the hooks to run afterwards.
    pub(crate) async fn record_end(
        &mut self,
        mut ended: Ended,
        outcome: Outcome,
    ) -> WorkResult<Option<HookedCall>> {
        let hooked = self.hooks_after(&ended);
        let mut drafts = outcome.events;
        let summary = one_line(&outcome.summary);
        ended.summary = (!summary.is_empty()).then_some(summary);
        ended.result_artifact_id = outcome.artifact;
        let mut output = outcome.output;
        // If the tool stored an artifact, the image is already in it.
        if let Some((mime, bytes)) = outcome.image.filter(|_| ended.result_artifact_id.is_none()) {
            match self.keep_image(&ended.tool_call_id, mime, bytes).await {
                Ok(created) => drafts.push(created),
                Err(error) => output += &format!("\n[the image could not be stored: {error}]"),
            }
        }
        let shown = self.model_output(&mut ended, &output, &mut drafts).await;
        ended.output = Json::of(&shown).ok();
        if ended.mcp_server.is_some() {
            ended.result = Some(outcome.status.mcp_result().to_owned());
        }
        let ended = Box::new(ended);
        let payload = match outcome.status {
            // The call itself succeeded; the error is the result of the tool.
            OutcomeStatus::Failed { code: TOOL_ERROR, .. } => Payload::ToolCompleted(ended),
            OutcomeStatus::Completed => Payload::ToolCompleted(ended),
            OutcomeStatus::Failed { code, error } => Payload::ToolFailed(with_error(ended, code, error)),
            OutcomeStatus::TimedOut { code, error } => Payload::ToolTimedOut(with_error(ended, code, error)),
            OutcomeStatus::Cancelled => {
                Payload::ToolCancelled(with_error(ended, "cancelled", "the call was interrupted".to_owned()))
            }
        };
        drafts.push(payload.into());
        let events = self.worker_session.report(drafts).await?;
        self.apply_events(&events);
        Ok(match hooked {
            Some(hooked) => Some(self.with_end(hooked, &events).await),
            None => None,
        })
    }

    /// The output for the model: all of it, or its beginning with a note about the rest.
    async fn model_output(&self, ended: &mut Ended, output: &str, drafts: &mut Vec<Draft>) -> String {
        if output.len() <= limits::OUTPUT_SHOWN_BYTES {
            return output.to_owned();
        }
        let mut lost = String::new();
        if ended.result_artifact_id.is_none() {
            let keep = EngineKeep {
                kind: "tool_result_blob".to_owned(),
                mime: "text/plain; charset=utf-8".to_owned(),
                summary: ended.summary.clone(),
                name: None,
                bytes: output.to_owned().into(),
                original_size_bytes: None,
                call: Some(ended.tool_call_id.clone()),
                target: None,
            };
            match self.worker_session.write().store_artifact(self.worker_session.run(), keep).await {
                Ok(stored) => {
                    drafts.push(stored.created);
                    ended.result_artifact_id = Some(stored.id);
                }
                Err(error) => {
                    tracing::warn!(run = %self.worker_session.run(), %error, "an output could not be stored completely");
                    lost = format!(" and could not be stored: {error}");
                }
            }
        }
        let mut end = limits::OUTPUT_SHOWN_BYTES;
        while !output.is_char_boundary(end) {
            end -= 1;
        }
        let rest = output.len() - end;
        format!("{}\n[{rest} more bytes omitted{lost}]", &output[..end])
    }

    async fn keep_image(
        &self,
        call: &ForeignId,
        mime: String,
        bytes: bytes::Bytes,
    ) -> Result<Draft, recount_engine::Error> {
        let keep = EngineKeep {
            kind: "image".to_owned(),
            mime,
            summary: None,
            name: None,
            bytes,
            original_size_bytes: None,
            call: Some(call.clone()),
            target: None,
        };
        let stored = self.worker_session.write().store_artifact(self.worker_session.run(), keep).await;
        let stored = stored.inspect_err(|error| {
            tracing::warn!(run = %self.worker_session.run(), %error, "an image could not be stored");
        })?;
        Ok(stored.created)
    }
}

/// A call that is ready to run.
pub(crate) struct ReadyCall {
    pub(crate) id: ForeignId,
    pub(crate) name: String,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) input: Value,
    /// The start of its outcome event.
    pub(crate) ended: Ended,
}

/// Waits for a call and cancels it when the run ends. `None` when it did not end within the grace period.
async fn run_until_ended(
    call: BoxFuture<'_, Outcome>,
    mut watch: Watch,
    cancel_sender: &tokio::sync::watch::Sender<bool>,
) -> Option<Outcome> {
    let mut call = pin!(call);
    tokio::select! {
        biased;
        outcome = &mut call => return Some(outcome),
        () = watch.ended() => {}
    }
    cancel_sender.send_replace(true);
    tokio::time::timeout(limits::CANCEL_PATIENCE, call).await.ok()
}

fn with_error(mut ended: Box<Ended>, code: &str, error: String) -> Box<Ended> {
    ended.code = Some(code.to_owned());
    ended.error = Some(crate::tools::cut_bytes(error, limits::CALL_ERROR_BYTES_MAX));
    ended
}

/// The code of a call that was not executed because another node may own the store.
pub(crate) const NOT_OWNER: &str = "store_not_owned";

pub(crate) fn outcome_failed(code: &'static str, error: String) -> Outcome {
    Outcome {
        output: error.clone(),
        summary: error.clone(),
        status: OutcomeStatus::Failed { code, error },
        events: Vec::new(),
        artifact: None,
        image: None,
    }
}

fn one_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(limits::LINE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// Appends the events of a call through the desk.
struct DeskReporter<'a> {
    worker_session: &'a mut WorkerSession,
    seen: &'a mut Vec<Event>,
    left: Option<recount_engine::WorkerExit>,
}

impl EventReporter for DeskReporter<'_> {
    fn report(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, RunLost>> {
        Box::pin(async move {
            if self.left.is_some() {
                return Err(RunLost);
            }
            match self.worker_session.report(drafts).await {
                Ok(events) => {
                    let first = first_sequence(&events);
                    self.seen.extend(without_output(events));
                    Ok(first)
                }
                Err(left) => {
                    self.left = Some(left);
                    Err(RunLost)
                }
            }
        })
    }
}

/// The sequence of the first appended event. Events of other writers may be among them.
pub(crate) fn first_sequence(events: &[Event]) -> u64 {
    events.first().map_or(0, |event| event.sequence)
}

/// Drops output events, which are not needed again and may be large.
pub(crate) fn without_output(events: Vec<Event>) -> impl Iterator<Item = Event> {
    events.into_iter().filter(|event| !matches!(event.payload(), Payload::ToolShellOutputChunk(_)))
}

/// Stores the artifacts of a run's calls.
pub(crate) struct RunArtifacts {
    write: WriteHandle,
    run: RunId,
}

impl ArtifactStore for RunArtifacts {
    fn store(&self, artifact: NewArtifact) -> BoxFuture<'_, Result<StoredArtifact, String>> {
        Box::pin(async move {
            let keep = EngineKeep {
                kind: artifact.kind.to_owned(),
                mime: artifact.mime,
                summary: artifact.summary,
                name: None,
                bytes: artifact.bytes,
                original_size_bytes: None,
                call: artifact.call,
                target: artifact.target,
            };
            let stored =
                self.write.store_artifact(self.run, keep).await.map_err(|error| error.to_string())?;
            Ok(StoredArtifact { id: stored.id, created: stored.created })
        })
    }

    fn store_output(&self, output: OutputInLog) -> BoxFuture<'_, Result<StoredArtifact, String>> {
        Box::pin(async move {
            let stored = self
                .write
                .store_output_artifact(self.run, output)
                .await
                .map_err(|error| error.to_string())?;
            Ok(StoredArtifact { id: stored.id, created: stored.created })
        })
    }

    fn result<'a>(
        &'a self,
        call: &'a ForeignId,
        range: ResultRange,
    ) -> BoxFuture<'a, Result<ResultPart, String>> {
        Box::pin(read_back::result(self.write.read(), self.run, call, range))
    }
}
