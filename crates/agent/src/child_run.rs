//! Child runs: a call starts a run, waits for its ending, and returns the outcome.
//!
//! The id of the child is logged before it starts, so after a restart the worker waits for the same run again. A child
//! works in the workspace of its parent, has at most the rights and the budget of the parent, and ends with it. It must
//! not know how a run is executed. Start with [`Worker::carry_out_child`].

use recount_engine::{Error, NewTask, RunConfig, RunRow, SpawnedBy};
use recount_event::family::run::{ChildStarted, Queued, RunKind};
use recount_event::family::tool::Ended;
use recount_event::{Draft, ForeignId, Payload, RunId};
use recount_run::{CancelledBy, Command, Status, Totals};
use serde_json::Value;

use crate::agent::{self, Agent};
use crate::execute::{ReadyCall, outcome_failed};
use crate::limits;
use crate::tool::Outcome;
use crate::tools::ending::{self, CallFailure};
use crate::tools::spawn_run::{ChildRunInput, SPAWN_RUN};
use crate::worker::{WorkResult, Worker};

/// The reason for cancelling a run whose parent has ended.
const PARENT_ENDED: &str = "the parent run has ended";

impl Agent {
    /// Whether a run is at the maximum depth and cannot start child runs.
    pub(crate) fn is_too_deep(config: &RunConfig, tool: &str) -> bool {
        tool == SPAWN_RUN
            && config.spawned_by.as_ref().is_some_and(|above| above.depth >= limits::CHILD_RUN_DEPTH_MAX)
    }
}

impl Worker {
    /// Whether a call starts a child run, or has started one.
    pub(crate) fn is_child_call(&self, id: &ForeignId) -> bool {
        let name = self.worker_session.state().call(id).and_then(|call| call.tool_name.clone());
        self.children.contains_key(id)
            || name.is_some_and(|name| self.tool(&name).is_some_and(|tool| tool.spawns()))
    }

    /// Starts the child run of a call, or finds the started one, and waits for its ending.
    pub(crate) async fn carry_out_child(&mut self, id: &ForeignId) -> WorkResult<()> {
        let started_at = recount_world::moment();
        let known = self.children.get(id).copied();
        // An existing child counts even if the tool is disabled now.
        let exists = match known {
            Some(run) => self.worker_session.read().tail(run).await?.is_some(),
            None => false,
        };
        let (child, mut ended) = match known.filter(|_| exists) {
            Some(run) => {
                self.close_servers().await;
                (run, self.ended_draft(id))
            }
            None => {
                let Some((ready, _)) = self.prepare_call(id).await? else { return Ok(()) };
                let ReadyCall { input, ended, .. } = ready;
                match self.start_child(id, &input, known).await? {
                    Ok(run) => (run, ended),
                    Err(refused) => return self.settle(ended, refused).await,
                }
            }
        };
        let Some(row) = self.child_ended(child).await? else {
            let erased = outcome_failed("child_gone", format!("{child} was erased"));
            return self.settle(ended, erased).await;
        };
        ended.duration_ms = u64::try_from(started_at.elapsed().as_millis()).ok();
        let mut outcome = self.child_outcome(child, &row).await?;
        outcome.events = self.charge_child(&row).await?;
        self.settle(ended, outcome).await
    }

    /// The fields of the end of a call that are known before its outcome.
    fn ended_draft(&self, id: &ForeignId) -> Ended {
        let call = self.worker_session.state().call(id);
        let name = call.and_then(|call| call.tool_name.as_deref()).unwrap_or(SPAWN_RUN);
        let mut ended = Ended::new(id.clone(), name.to_owned());
        ended.turn_index = call.and_then(|call| call.turn_index);
        ended.kind = Some("run".to_owned());
        ended
    }

    /// Logs the id of the child run and starts it. `Err`: the outcome of a call whose child could not be started.
    async fn start_child(
        &mut self,
        id: &ForeignId,
        input: &Value,
        known: Option<RunId>,
    ) -> WorkResult<Result<RunId, Outcome>> {
        let child: ChildRunInput = match self.child_input(id, input) {
            Ok(child) => child,
            Err(failure) => return Ok(Err(failure.into())),
        };
        let refused = |why: String| Ok(Err(outcome_failed("child_refused", why)));
        if !self.config.secrets.is_empty() {
            return refused("a run that uses its session's secret key cannot start other runs".to_owned());
        }
        let tools = match self.child_tools(child.tools.as_ref()) {
            Ok(tools) => tools,
            Err(why) => return refused(why),
        };
        let run = match known {
            Some(run) => run,
            None if self.children_started >= limits::CHILD_RUNS_MAX => {
                return refused(format!(
                    "this run has started {} runs, which is the limit",
                    limits::CHILD_RUNS_MAX
                ));
            }
            None => self.announce_child(id, &child).await?,
        };
        let (task, queued) = self.child_config(id, child, tools).await?;
        // The child may need the slot of the MCP servers. Waiting parents could otherwise hold all slots.
        self.close_servers().await;
        match self.worker_session.write().start_child(run, task, queued).await {
            Ok(()) => Ok(Ok(run)),
            Err(Error::Rejected(why)) => refused(format!("the run was rejected: {why}")),
            Err(failed) => Err(failed.into()),
        }
    }

    /// The input of the call from the log. Text that is masked there stays masked for the child run.
    fn child_input(&self, id: &ForeignId, input: &Value) -> Result<ChildRunInput, CallFailure> {
        let logged = self.worker_session.state().call(id).and_then(|call| call.input.clone());
        let logged = logged.and_then(|input| serde_json::from_str(input.text()).ok());
        ChildRunInput::read(logged.as_ref().unwrap_or(input))
    }

    /// The tools of the child run, out of the tools of this run without client tools.
    fn child_tools(&self, requested: Option<&Vec<String>>) -> Result<Option<Vec<String>>, String> {
        let Some(requested) = requested else { return Ok(self.config.tools.clone()) };
        let is_own = |name: &String| self.tool(name).is_some() && self.agent.offers(&self.config, name);
        match requested.iter().find(|name| !is_own(name)) {
            Some(name) => Err(format!(
                "the tool {name:?} is not available in this run; name other tools or leave `tools` out"
            )),
            None => Ok(Some(requested.clone())),
        }
    }

    async fn announce_child(&mut self, id: &ForeignId, child: &ChildRunInput) -> WorkResult<RunId> {
        let minted = self.worker_session.mint("run_");
        let run: RunId = minted.as_str().parse().expect("it was generated as a run id");
        let mut started = ChildStarted::new(run.to_string());
        started.tool_call_id = Some(id.clone());
        started.summary = Some(ending::first_line(child.title.as_ref().unwrap_or(&child.prompt)));
        self.report(vec![Payload::ChildRunStarted(Box::new(started)).into()]).await?;
        Ok(run)
    }

    /// The task and the configuration of the child run, with the remaining budget of this run.
    async fn child_config(
        &self,
        id: &ForeignId,
        child: ChildRunInput,
        tools: Option<Vec<String>>,
    ) -> WorkResult<(NewTask, Queued)> {
        let state = self.worker_session.state();
        let budget = self.budget().await?;
        let used = Worker::budget_usage(state.totals(), state.turns_completed());
        let smaller = |requested: Option<u64>, most: Option<u64>| requested.into_iter().chain(most).min();
        let remaining = |most: Option<u64>, used: u64| most.map(|most| most.saturating_sub(used));
        let title = child.title.unwrap_or_else(|| ending::first_line(&child.prompt));
        let task = NewTask {
            title: Some(title.clone()),
            budget_micros_usd: smaller(
                child.budget_micros_usd,
                remaining(budget.micros_usd, used.micros_usd),
            ),
            budget_tokens: smaller(child.budget_tokens, remaining(budget.tokens, used.tokens)),
        };
        let depth = self.config.spawned_by.as_ref().map_or(0, |above| above.depth) + 1;
        let spawned_by = SpawnedBy { run_id: self.worker_session.run(), tool_call_id: id.clone(), depth };
        let config = RunConfig {
            system: self.config.system.clone(),
            workspace_instructions: self.config.workspace_instructions,
            tools,
            max_turns: smaller(child.max_turns, remaining(budget.turns, used.turns))
                .or(self.config.max_turns),
            max_output_tokens: self.config.max_output_tokens,
            workspace_source: self.config.workspace_source.clone(),
            copy_ignored: self.config.copy_ignored,
            network: self.config.network,
            timeout_seconds: self.config.timeout_seconds,
            output_bytes_max: self.config.output_bytes_max,
            ask_first: self.config.ask_first.clone(),
            thinking: self.config.thinking,
            compact_above: self.config.compact_above,
            spawned_by: Some(spawned_by),
            ..RunConfig::default()
        };
        let mut queued = Queued::new(RunKind::AgentLoop);
        queued.title = Some(title);
        queued.request_text = Some(child.prompt);
        queued.requested_by = Some(self.worker_session.run().to_string());
        queued.agent = self.queued.agent.clone();
        (queued.model, queued.provider) = (self.queued.model.clone(), self.queued.provider.clone());
        queued.workspace_mode = self.queued.workspace_mode.clone();
        queued.workspace_path = self.queued.workspace_path.clone();
        queued.traceparent = self.queued.traceparent.clone();
        queued.config = Some(config.written());
        Ok((task, queued))
    }

    /// Waits for the ending of a child run, and cancels the child if this run ends first. `None`: the child was erased.
    async fn child_ended(&mut self, child: RunId) -> WorkResult<Option<RunRow>> {
        let end = match self.worker_session.read().run_end(child).await {
            Ok(end) => end,
            Err(Error::Rejected(_)) => return Ok(None),
            Err(failed) => return Err(failed.into()),
        };
        let mut watch = self.worker_session.watch();
        let place = self.worker_session.lend_slot();
        let has_ended = tokio::select! {
            biased;
            () = watch.ended() => false,
            () = async { end.reached().await; place.reclaim().await } => true,
        };
        if !has_ended {
            let command = Command::Cancel { by: CancelledBy::System, reason: PARENT_ENDED.to_owned() };
            if let Err(error) = self.worker_session.write().submit(child, command).await {
                // It has ended, or checks its parent before its next turn.
                tracing::debug!(%child, %error, "a child run was not cancelled when its parent ended");
            }
            return Err(recount_engine::WorkerExit::Ended);
        }
        Ok(self.worker_session.catalogue().run(child).await?)
    }

    /// The outcome of the call for the model, from the ended child run.
    async fn child_outcome(&self, child: RunId, row: &RunRow) -> WorkResult<Outcome> {
        let message = match self.last_message(child).await {
            Ok(message) => message,
            Err(error) => match agent::damaged_events(&error) {
                Some(damaged) => format!("(The final message cannot be read: {damaged}.)"),
                None => return Err(error.into()),
            },
        };
        let turns = ending::counted(row.turns, "turn", "turns");
        if row.status == Status::Finished.as_str() {
            let message = if message.is_empty() {
                "The run ended without a final message.".to_owned()
            } else {
                message
            };
            return Ok(ending::completed(message, format!("{child} finished after {turns}"), Vec::new()));
        }
        let why = row.message.as_deref().or(row.ending.as_deref()).unwrap_or_default();
        let is_cancelled = row.status == Status::Cancelled.as_str();
        let code = if is_cancelled { "child_cancelled" } else { "child_failed" };
        let mut failed = outcome_failed(code, format!("{child} {} after {turns}: {why}", row.status));
        if !message.is_empty() {
            failed.output = format!("{}\nLast message of the run:\n{message}", failed.output);
        }
        Ok(failed)
    }

    /// The texts of the last turn that has any.
    async fn last_message(&self, run: RunId) -> Result<String, Error> {
        let (mut last, mut turn) = (String::new(), None);
        agent::each_event(self.worker_session.read(), run, u64::MAX, |event| {
            if let Payload::AssistantTextComplete(text) = event.payload()
                && text.aborted != Some(true)
            {
                if turn.replace(text.turn_index) != Some(text.turn_index) {
                    last.clear();
                }
                last.push_str(&text.text);
            }
        })
        .await?;
        Ok(last)
    }

    /// The events that add the usage of a child run to this run.
    async fn charge_child(&self, row: &RunRow) -> WorkResult<Vec<Draft>> {
        let state = self.worker_session.state();
        let used = Totals {
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cost_micros_usd: row.cost_micros_usd,
        };
        let budget = self.budget().await?;
        let mut drafts = vec![self.tick_with(budget, Totals::default(), used, false)];
        drafts.extend(self.warning(budget, Worker::budget_usage(state.totals().plus(used), 0)));
        Ok(drafts)
    }

    /// Ends this run if its parent has ended, possibly while no server ran.
    pub(crate) async fn end_with_parent(&mut self) -> WorkResult<()> {
        let Some(spawned_by) = &self.config.spawned_by else { return Ok(()) };
        let parent = self.worker_session.catalogue().run(spawned_by.run_id).await?;
        if parent.is_some_and(|row| !row.has_ended()) {
            return Ok(());
        }
        let command = Command::Cancel { by: CancelledBy::System, reason: PARENT_ENDED.to_owned() };
        match self.worker_session.write().submit(self.worker_session.run(), command).await {
            Ok(_) | Err(Error::Rejected(_)) => Err(recount_engine::WorkerExit::Ended),
            Err(failed) => Err(failed.into()),
        }
    }
}
