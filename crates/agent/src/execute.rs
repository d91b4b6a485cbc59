//! Carries one allowed call out: runs the tool, lets it tell what it does, breaks it off when the run ends, and
//! writes down how it ended. Look at [`Worker::carry_out`]; calls that run side by side stand in `together`.

use std::pin::pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use recount_engine::{Desk, Keep as EngineKeep, Watch, WriteHandle};
use recount_event::family::tool::Ended;
use recount_event::{Draft, Event, ForeignId, Json, Payload, RunId};
use serde_json::Value;

use crate::hooks::HookedCall;
use crate::limits;
use crate::read_back;
use crate::tool::{
    Cancel, Gone, How, Job, Keep, Keeper, Kept, Outcome, OutputInLog, ResultPart, ResultRange, TOOL_ERROR,
    Teller, Terms, Tool,
};
use crate::worker::{Done, Worker};
use crate::workspace::claims::{Claim, Sort, StillHeld};

impl Worker {
    /// What a call really asks for. `None` when the log holds it masked and the original is gone.
    pub(crate) async fn input(&mut self, id: &ForeignId) -> Done<Option<Value>> {
        if let Some(original) = self.originals.get(id) {
            return Ok(Some(original.clone()));
        }
        if let Some(sealed) = self.desk.write().unseal(self.desk.run(), id).await? {
            return Ok(serde_json::from_slice(&sealed).ok());
        }
        let logged = self.desk.state().call(id).filter(|call| !call.is_masked());
        let logged = logged.and_then(|call| call.input.clone());
        Ok(logged.and_then(|input| serde_json::from_str(input.text()).ok()))
    }

    /// Keeps the inputs of calls that the log will hold masked where only this server can read them.
    pub(crate) async fn keep_originals(
        &mut self,
        drafts: &mut [Draft],
        calls: Vec<(ForeignId, Value)>,
    ) -> Done<()> {
        let write = self.desk.write().clone();
        let run = self.desk.run();
        for (id, original) in calls {
            let proposed = drafts.iter().find(|draft| {
                matches!(&draft.payload, Payload::AssistantToolCallProposed(proposed) if proposed.tool_call_id == id)
            });
            if let Some(proposed) = proposed
                && self.desk.masks(&proposed.payload)
            {
                write.seal(run, &id, original.to_string().as_bytes()).await?;
            }
            self.originals.insert(id, original);
        }
        Ok(())
    }

    /// Runs an invoked call to its end.
    pub(crate) async fn carry_out(&mut self, id: &ForeignId) -> Done<()> {
        if self.is_of_child(id) {
            return self.carry_out_child(id).await;
        }
        let Some((ready, terms)) = self.make_ready(id).await? else { return Ok(()) };
        let ReadyCall { id, name, tool, input, mut ended } = ready;
        let _place = self.tool_place().await?;
        let claim = match self.claim_folder(&terms).await? {
            Ok(claim) => claim,
            Err(busy) => return self.settle(ended, busy).await,
        };
        // The wait for a place may have been long.
        if let Some(error) = self.changed_since_approval(&id, &tool, &input).await {
            return self.settle(ended, outcome_failed("changed_since_approval", error)).await;
        }
        let hooked = self.hooks_before(&id, &name).await;
        let mut began = recount_world::moment();
        let world = self.desk.world().clone();
        let redactor = self.desk.redactor().clone();
        let keeper = self.keeper();
        let (approved, rewritten) = (self.approved(&id), self.rewritten.clone());
        let watch = self.desk.watch();
        let (tell_cancel, mut cancel) = Cancel::new();
        let mut seen = Vec::new();
        let mut teller = DeskTeller { desk: &mut self.desk, seen: &mut seen, left: None };
        let outcome = {
            let call = async {
                if let Some(hooked) = &hooked
                    && let Some(vetoed) = hooked.admit(&mut teller, &mut cancel).await
                {
                    return vetoed;
                }
                began = recount_world::moment();
                let job = Job {
                    call: &id,
                    tool_name: &name,
                    turn_index: ended.turn_index,
                    input: &input,
                    approved,
                    rewritten,
                    terms: &terms,
                    teller: &mut teller,
                    keeper: &keeper,
                    redactor: &redactor,
                    cancel,
                    world: &world,
                };
                tool.run(job).await
            };
            finish(Box::pin(call), watch, &tell_cancel).await
        };
        drop(claim);
        let left = teller.left.take();
        self.see(&seen);
        if let Some(left) = left {
            return Err(left);
        }
        let Some(outcome) = outcome else { return Err(recount_engine::Left::Ended) };
        ended.duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
        self.settle(ended, outcome).await
    }

    /// All that an invoked call needs to be run. `None`: it cannot be run, and was settled.
    pub(crate) async fn make_ready(&mut self, id: &ForeignId) -> Done<Option<(ReadyCall, Terms)>> {
        let Some(call) = self.desk.state().call(id) else { return Ok(None) };
        let (name, turn_index) = (call.tool_name.as_deref().unwrap_or_default().to_owned(), call.turn_index);
        let mut ended = Ended::new(id.clone(), name.clone());
        ended.turn_index = turn_index;
        let Some(tool) = self.tool(&name).cloned() else {
            let error = self.no_such_tool(&name);
            self.settle(ended, outcome_failed("tool_unavailable", error)).await?;
            return Ok(None);
        };
        ended.kind = Some(tool.kind().to_owned());
        if let Some(origin) = tool.origin() {
            (ended.mcp_server, ended.mcp_tool) = (Some(origin.server.clone()), Some(origin.tool.clone()));
        }
        if turn_index.is_some() && !self.agent.offers(&self.order, &name) {
            // It was allowed, and what was chosen anew since took it away.
            let error = format!("{name} is not among the tools of this run any more");
            self.settle(ended, outcome_failed("not_offered", error)).await?;
            return Ok(None);
        }
        let input = match turn_index {
            // Of a run that is one call the order says it.
            None => {
                self.originals.get(id).cloned().or_else(|| self.only_input().ok().map(|(_, input)| input))
            }
            Some(_) => self.input(id).await?,
        };
        let Some(input) = input else {
            let error = "its input held a secret that was not kept, so it cannot be carried out".to_owned();
            self.settle(ended, outcome_failed("input_lost", error)).await?;
            return Ok(None);
        };
        let Some(terms) = self.terms() else {
            self.settle(ended, outcome_failed("workspace_gone", "there is no workspace".into())).await?;
            return Ok(None);
        };
        if let Some(error) = self.changed_since_approval(id, &tool, &input).await {
            self.settle(ended, outcome_failed("changed_since_approval", error)).await?;
            return Ok(None);
        }
        Ok(Some((ReadyCall { id: id.clone(), name, tool, input, ended }, terms)))
    }

    pub(crate) fn keeper(&self) -> RunKeeper {
        RunKeeper { write: self.desk.write().clone(), run: self.desk.run() }
    }

    /// Says that a tool works in its folder, until the answer is dropped: a tool may be alive when its run has ended, and
    /// nothing is applied there meanwhile.
    pub(crate) async fn claim_folder(&mut self, terms: &Terms) -> Done<Result<Option<Claim>, Outcome>> {
        if terms.root.as_os_str().is_empty() {
            // What needs no folder is given none.
            return Ok(Ok(None));
        }
        let mut watch = self.desk.watch();
        let claim = self.agent.claims.claim(vec![terms.root.clone()], Sort::Shared);
        tokio::select! {
            biased;
            () = watch.ended() => Err(recount_engine::Left::Ended),
            claim = claim => Ok(claim.map(Some).map_err(|StillHeld| {
                let root = terms.root.display();
                outcome_failed("workspace_busy", format!("changes are applied to {root}, and that goes on; try again later"))
            })),
        }
    }

    /// Writes down how a call ended, and waits for the hooks after it.
    pub(crate) async fn settle(&mut self, ended: Ended, outcome: Outcome) -> Done<()> {
        match self.record_end(ended, outcome).await? {
            Some(hooked) => self.run_hooks_after(hooked).await,
            None => Ok(()),
        }
    }

    /// Writes down how a call ended. Answers with the hooks that are to run then.
    pub(crate) async fn record_end(
        &mut self,
        mut ended: Ended,
        outcome: Outcome,
    ) -> Done<Option<HookedCall>> {
        let hooked = self.hooks_after(&ended);
        let mut drafts = outcome.events;
        let summary = one_line(&outcome.summary);
        ended.summary = (!summary.is_empty()).then_some(summary);
        ended.result_artifact_id = outcome.artifact;
        let mut output = outcome.output;
        // Where the tool has kept it, it is there already.
        if let Some((mime, bytes)) = outcome.image.filter(|_| ended.result_artifact_id.is_none()) {
            match self.keep_image(&ended.tool_call_id, mime, bytes).await {
                Ok(created) => drafts.push(created),
                Err(error) => output += &format!("\n[the picture could not be kept: {error}]"),
            }
        }
        let told = self.told(&mut ended, &output, &mut drafts).await;
        ended.output = Json::of(&told).ok();
        if ended.mcp_server.is_some() {
            ended.result = Some(outcome.how.mcp_result().to_owned());
        }
        let ended = Box::new(ended);
        let payload = match outcome.how {
            // The call was carried out; that its tool failed is what it brought.
            How::Failed { code: TOOL_ERROR, .. } => Payload::ToolCompleted(ended),
            How::Completed => Payload::ToolCompleted(ended),
            How::Failed { code, error } => Payload::ToolFailed(because(ended, code, error)),
            How::TimedOut { code, error } => Payload::ToolTimedOut(because(ended, code, error)),
            How::Cancelled => {
                Payload::ToolCancelled(because(ended, "cancelled", "it was broken off".to_owned()))
            }
        };
        drafts.push(payload.into());
        let events = self.desk.report(drafts).await?;
        self.see(&events);
        Ok(match hooked {
            Some(hooked) => Some(self.with_end(hooked, &events).await),
            None => None,
        })
    }

    /// What the model is told of an output: all of it, or its head and where the rest is.
    async fn told(&self, ended: &mut Ended, output: &str, drafts: &mut Vec<Draft>) -> String {
        if output.len() <= limits::OUTPUT_TOLD_BYTES {
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
            match self.desk.write().keep(self.desk.run(), keep).await {
                Ok(kept) => {
                    drafts.push(kept.created);
                    ended.result_artifact_id = Some(kept.id);
                }
                Err(error) => {
                    tracing::warn!(run = %self.desk.run(), %error, "an output could not be kept whole");
                    lost = format!(", and could not be kept: {error}");
                }
            }
        }
        let mut end = limits::OUTPUT_TOLD_BYTES;
        while !output.is_char_boundary(end) {
            end -= 1;
        }
        let rest = output.len() - end;
        format!("{}\n[{rest} bytes more were left out here{lost}]", &output[..end])
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
        let kept = self.desk.write().keep(self.desk.run(), keep).await;
        let kept = kept.inspect_err(|error| {
            tracing::warn!(run = %self.desk.run(), %error, "a picture could not be kept");
        })?;
        Ok(kept.created)
    }
}

/// A call that can be run.
pub(crate) struct ReadyCall {
    pub(crate) id: ForeignId,
    pub(crate) name: String,
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) input: Value,
    /// The beginning of its outcome.
    pub(crate) ended: Ended,
}

/// Waits for a call, and breaks it off when the run ends. `None` when it did not come to an end then.
async fn finish(
    call: BoxFuture<'_, Outcome>,
    mut watch: Watch,
    tell_cancel: &tokio::sync::watch::Sender<bool>,
) -> Option<Outcome> {
    let mut call = pin!(call);
    tokio::select! {
        biased;
        outcome = &mut call => return Some(outcome),
        () = watch.ended() => {}
    }
    tell_cancel.send_replace(true);
    tokio::time::timeout(limits::CANCEL_PATIENCE, call).await.ok()
}

fn because(mut ended: Box<Ended>, code: &str, error: String) -> Box<Ended> {
    ended.code = Some(code.to_owned());
    ended.error = Some(crate::tools::cut_bytes(error, limits::CALL_ERROR_BYTES_MAX));
    ended
}

pub(crate) fn outcome_failed(code: &'static str, error: String) -> Outcome {
    Outcome {
        output: error.clone(),
        summary: error.clone(),
        how: How::Failed { code, error },
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

/// Tells at the desk what a call does.
struct DeskTeller<'a> {
    desk: &'a mut Desk,
    seen: &'a mut Vec<Event>,
    left: Option<recount_engine::Left>,
}

impl Teller for DeskTeller<'_> {
    fn tell(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, Gone>> {
        Box::pin(async move {
            if self.left.is_some() {
                return Err(Gone);
            }
            match self.desk.report(drafts).await {
                Ok(events) => {
                    let first = first_sequence(&events);
                    self.seen.extend(without_output(events));
                    Ok(first)
                }
                Err(left) => {
                    self.left = Some(left);
                    Err(Gone)
                }
            }
        })
    }
}

/// Where the events begin that were told; what others wrote before them is among them.
pub(crate) fn first_sequence(events: &[Event]) -> u64 {
    events.first().map_or(0, |event| event.sequence)
}

/// Output is not looked at again, and there may be much of it.
pub(crate) fn without_output(events: Vec<Event>) -> impl Iterator<Item = Event> {
    events.into_iter().filter(|event| !matches!(event.payload(), Payload::ToolShellOutputChunk(_)))
}

/// Keeps what calls bring for their run.
pub(crate) struct RunKeeper {
    write: WriteHandle,
    run: RunId,
}

impl Keeper for RunKeeper {
    fn keep(&self, thing: Keep) -> BoxFuture<'_, Result<Kept, String>> {
        Box::pin(async move {
            let keep = EngineKeep {
                kind: thing.kind.to_owned(),
                mime: thing.mime,
                summary: thing.summary,
                name: None,
                bytes: thing.bytes,
                original_size_bytes: None,
                call: thing.call,
                target: thing.target,
            };
            let kept = self.write.keep(self.run, keep).await.map_err(|error| error.to_string())?;
            Ok(Kept { id: kept.id, created: kept.created })
        })
    }

    fn keep_output(&self, output: OutputInLog) -> BoxFuture<'_, Result<Kept, String>> {
        Box::pin(async move {
            let kept = self.write.keep_output(self.run, output).await.map_err(|error| error.to_string())?;
            Ok(Kept { id: kept.id, created: kept.created })
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
