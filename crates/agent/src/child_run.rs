//! Calls that start a run: the run's id is written down, the run is started under it, and its ending is the outcome of
//! the call.
//!
//! Nothing here is kept in memory alone: after a restart the log says which run a call started, and the worker waits for
//! that one again. A run that is started works in the folder of the one above, with no more rights and no more budget
//! than that has, and ends with it. Look at [`Worker::carry_out_child`]. It must not know how a run is carried out.

use recount_engine::{Error, NewTask, Order, RunRow, SpawnedBy};
use recount_event::family::run::{ChildStarted, Queued, RunKind};
use recount_event::family::tool::Ended;
use recount_event::{Draft, ForeignId, Payload, RunId};
use recount_run::{CancelledBy, Command, Status, Totals};
use serde_json::Value;

use crate::agent::{self, Agent};
use crate::execute::{ReadyCall, outcome_failed};
use crate::limits;
use crate::tool::Outcome;
use crate::tools::ending::{self, Stop};
use crate::tools::spawn_run::{SPAWN_RUN, WantedRun};
use crate::worker::{Done, Worker};

/// Why a run was cancelled whose starter has ended.
const STARTER_ENDED: &str = "the run that started it has ended";

impl Agent {
    /// Whether a run lies so deep below others that it may start none.
    pub(crate) fn is_too_deep(order: &Order, tool: &str) -> bool {
        tool == SPAWN_RUN
            && order.spawned_by.as_ref().is_some_and(|above| above.depth >= limits::CHILD_RUN_DEPTH_MAX)
    }
}

impl Worker {
    /// Whether a call starts a run, or has started one.
    pub(crate) fn is_of_child(&self, id: &ForeignId) -> bool {
        let name = self.desk.state().call(id).and_then(|call| call.tool_name.clone());
        self.children.contains_key(id)
            || name.is_some_and(|name| self.tool(&name).is_some_and(|tool| tool.spawns()))
    }

    /// Starts the run of a call, or finds the one that was started, and waits for its ending.
    pub(crate) async fn carry_out_child(&mut self, id: &ForeignId) -> Done<()> {
        let began = recount_world::moment();
        let known = self.children.get(id).copied();
        // A run that is there counts, also where the tool is switched off since.
        let is_there = match known {
            Some(run) => self.desk.read().tail(run).await?.is_some(),
            None => false,
        };
        let (child, mut ended) = match known.filter(|_| is_there) {
            Some(run) => {
                self.leave_servers().await;
                (run, self.ended_of(id))
            }
            None => {
                let Some((ready, _)) = self.make_ready(id).await? else { return Ok(()) };
                let ReadyCall { input, ended, .. } = ready;
                match self.start_child(id, &input, known).await? {
                    Ok(run) => (run, ended),
                    Err(refused) => return self.settle(ended, refused).await,
                }
            }
        };
        let Some(row) = self.child_ended(child).await? else {
            let gone = outcome_failed("child_gone", format!("{child} was erased"));
            return self.settle(ended, gone).await;
        };
        ended.duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
        let mut outcome = self.child_outcome(child, &row).await?;
        outcome.events = self.charge_child(&row).await?;
        self.settle(ended, outcome).await
    }

    /// The beginning of the outcome of a call that is under way.
    fn ended_of(&self, id: &ForeignId) -> Ended {
        let call = self.desk.state().call(id);
        let name = call.and_then(|call| call.tool_name.as_deref()).unwrap_or(SPAWN_RUN);
        let mut ended = Ended::new(id.clone(), name.to_owned());
        ended.turn_index = call.and_then(|call| call.turn_index);
        ended.kind = Some("run".to_owned());
        ended
    }

    /// Writes the id of the run down and starts it. `Err`: it cannot be, and nothing was started.
    async fn start_child(
        &mut self,
        id: &ForeignId,
        input: &Value,
        known: Option<RunId>,
    ) -> Done<Result<RunId, Outcome>> {
        let wanted: WantedRun = match self.wanted_run(id, input) {
            Ok(wanted) => wanted,
            Err(stop) => return Ok(Err(stop.into())),
        };
        let refused = |why: String| Ok(Err(outcome_failed("child_refused", why)));
        if !self.order.secrets.is_empty() {
            return refused("a run under a secret key of its session cannot start another".to_owned());
        }
        let tools = match self.tools_of_child(wanted.tools.as_ref()) {
            Ok(tools) => tools,
            Err(why) => return refused(why),
        };
        let run = match known {
            Some(run) => run,
            None if self.children_started >= limits::CHILD_RUNS_MAX => {
                return refused(format!(
                    "this run has started {} runs, the most it may",
                    limits::CHILD_RUNS_MAX
                ));
            }
            None => self.announce_child(id, &wanted).await?,
        };
        let (task, queued) = self.child_order(id, wanted, tools).await?;
        // It may need their place, and runs that keep theirs while they wait for others could keep all.
        self.leave_servers().await;
        match self.desk.write().start_child(run, task, queued).await {
            Ok(()) => Ok(Ok(run)),
            Err(Error::Rejected(why)) => refused(format!("the run was refused: {why}")),
            Err(failed) => Err(failed.into()),
        }
    }

    /// What the log says that is wanted: what was masked there is masked for the run, too.
    fn wanted_run(&self, id: &ForeignId, input: &Value) -> Result<WantedRun, Stop> {
        let logged = self.desk.state().call(id).and_then(|call| call.input.clone());
        let logged = logged.and_then(|input| serde_json::from_str(input.text()).ok());
        WantedRun::read(logged.as_ref().unwrap_or(input))
    }

    /// The tools of the run: of those that this one has, but for those of an application.
    fn tools_of_child(&self, wanted: Option<&Vec<String>>) -> Result<Option<Vec<String>>, String> {
        let Some(wanted) = wanted else { return Ok(self.order.tools.clone()) };
        let is_own = |name: &String| self.tool(name).is_some() && self.agent.offers(&self.order, name);
        match wanted.iter().find(|name| !is_own(name)) {
            Some(name) => Err(format!("{name:?} is not among the tools of this run; name others or none")),
            None => Ok(Some(wanted.clone())),
        }
    }

    async fn announce_child(&mut self, id: &ForeignId, wanted: &WantedRun) -> Done<RunId> {
        let minted = self.desk.mint("run_");
        let run: RunId = minted.as_str().parse().expect("it was minted as the id of a run");
        let mut started = ChildStarted::new(run.to_string());
        started.tool_call_id = Some(id.clone());
        started.summary = Some(ending::first_line(wanted.title.as_ref().unwrap_or(&wanted.prompt)));
        self.report(vec![Payload::ChildRunStarted(Box::new(started)).into()]).await?;
        Ok(run)
    }

    /// The task and the run, with what is left of this run's budget.
    async fn child_order(
        &self,
        id: &ForeignId,
        wanted: WantedRun,
        tools: Option<Vec<String>>,
    ) -> Done<(NewTask, Queued)> {
        let state = self.desk.state();
        let budget = self.budget().await?;
        let used = Worker::used(state.totals(), state.turns_completed());
        let least = |asked: Option<u64>, most: Option<u64>| asked.into_iter().chain(most).min();
        let left = |most: Option<u64>, used: u64| most.map(|most| most.saturating_sub(used));
        let title = wanted.title.unwrap_or_else(|| ending::first_line(&wanted.prompt));
        let task = NewTask {
            title: Some(title.clone()),
            budget_micros_usd: least(wanted.budget_micros_usd, left(budget.micros_usd, used.micros_usd)),
            budget_tokens: least(wanted.budget_tokens, left(budget.tokens, used.tokens)),
        };
        let depth = self.order.spawned_by.as_ref().map_or(0, |above| above.depth) + 1;
        let spawned_by = SpawnedBy { run_id: self.desk.run(), tool_call_id: id.clone(), depth };
        let order = Order {
            system: self.order.system.clone(),
            workspace_instructions: self.order.workspace_instructions,
            tools,
            max_turns: least(wanted.max_turns, left(budget.turns, used.turns)).or(self.order.max_turns),
            max_output_tokens: self.order.max_output_tokens,
            workspace_source: self.order.workspace_source.clone(),
            copy_ignored: self.order.copy_ignored,
            network: self.order.network,
            timeout_seconds: self.order.timeout_seconds,
            output_bytes_max: self.order.output_bytes_max,
            ask_first: self.order.ask_first.clone(),
            thinking: self.order.thinking,
            compact_above: self.order.compact_above,
            spawned_by: Some(spawned_by),
            ..Order::default()
        };
        let mut queued = Queued::new(RunKind::AgentLoop);
        queued.title = Some(title);
        queued.request_text = Some(wanted.prompt);
        queued.requested_by = Some(self.desk.run().to_string());
        queued.agent = self.queued.agent.clone();
        (queued.model, queued.provider) = (self.queued.model.clone(), self.queued.provider.clone());
        queued.workspace_mode = self.queued.workspace_mode.clone();
        queued.workspace_path = self.queued.workspace_path.clone();
        queued.traceparent = self.queued.traceparent.clone();
        queued.config = Some(order.written());
        Ok((task, queued))
    }

    /// Waits for the ending of a run that this one started, and ends it when this one ends before. `None`: it was erased.
    async fn child_ended(&mut self, child: RunId) -> Done<Option<RunRow>> {
        let end = match self.desk.read().run_end(child).await {
            Ok(end) => end,
            Err(Error::Rejected(_)) => return Ok(None),
            Err(failed) => return Err(failed.into()),
        };
        let mut watch = self.desk.watch();
        let place = self.desk.lend_place();
        let has_ended = tokio::select! {
            biased;
            () = watch.ended() => false,
            () = async { end.reached().await; place.take_back().await } => true,
        };
        if !has_ended {
            let command = Command::Cancel { by: CancelledBy::System, reason: STARTER_ENDED.to_owned() };
            if let Err(error) = self.desk.write().submit(child, command).await {
                // It has ended, or looks for this run itself before its next turn.
                tracing::debug!(%child, %error, "a run whose starter ended was not cancelled from there");
            }
            return Err(recount_engine::Left::Ended);
        }
        Ok(self.desk.catalogue().run(child).await?)
    }

    /// What the model is told of a run that ended.
    async fn child_outcome(&self, child: RunId, row: &RunRow) -> Done<Outcome> {
        let answer = match self.last_words(child).await {
            Ok(answer) => answer,
            Err(error) => match agent::damaged_events(&error) {
                Some(damaged) => format!("(Its answer cannot be read: {damaged}.)"),
                None => return Err(error.into()),
            },
        };
        let turns = row.turns;
        if row.status == Status::Finished.as_str() {
            let answer = if answer.is_empty() { "It gave no answer.".to_owned() } else { answer };
            return Ok(ending::completed(
                answer,
                format!("{child} finished after {turns} turns"),
                Vec::new(),
            ));
        }
        let why = row.message.as_deref().or(row.ending.as_deref()).unwrap_or_default();
        let is_cancelled = row.status == Status::Cancelled.as_str();
        let code = if is_cancelled { "child_cancelled" } else { "child_failed" };
        let mut failed = outcome_failed(code, format!("{child} {} after {turns} turns: {why}", row.status));
        if !answer.is_empty() {
            failed.output = format!("{}\nIts last words:\n{answer}", failed.output);
        }
        Ok(failed)
    }

    /// The texts of a run's last turn that said something.
    async fn last_words(&self, run: RunId) -> Result<String, Error> {
        let (mut last, mut turn) = (String::new(), None);
        agent::each_event(self.desk.read(), run, u64::MAX, |event| {
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

    /// Adds what a run used to the totals of this one.
    async fn charge_child(&self, row: &RunRow) -> Done<Vec<Draft>> {
        let state = self.desk.state();
        let used = Totals {
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cost_micros_usd: row.cost_micros_usd,
        };
        let budget = self.budget().await?;
        let mut drafts = vec![self.tick_with(budget, Totals::default(), used, false)];
        drafts.extend(self.warning(budget, Worker::used(state.totals().plus(used), 0)));
        Ok(drafts)
    }

    /// Ends this run when the one that started it has ended, which may have been while no server ran.
    pub(crate) async fn ends_with_starter(&mut self) -> Done<()> {
        let Some(above) = &self.order.spawned_by else { return Ok(()) };
        let starter = self.desk.catalogue().run(above.run_id).await?;
        if starter.is_some_and(|row| !row.has_ended()) {
            return Ok(());
        }
        let command = Command::Cancel { by: CancelledBy::System, reason: STARTER_ENDED.to_owned() };
        match self.desk.write().submit(self.desk.run(), command).await {
            Ok(_) | Err(Error::Rejected(_)) => Err(recount_engine::Left::Ended),
            Err(failed) => Err(failed.into()),
        }
    }
}
