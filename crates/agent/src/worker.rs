//! One run at work: looks what the run is owed, does it, and looks again, until nothing is owed.
//!
//! What comes next always follows from the run's state, never from what this worker remembers, so a worker that is
//! lost is replaced by another that reads the log. Look at [`Worker::work`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use recount_engine::{Desk, Left, Order, OrderChange};
use recount_event::family::approval::Decision;
use recount_event::family::run::{Queued, RunKind};
use recount_event::family::tool::{self, RefusalCode};
use recount_event::family::turn::Instruction;
use recount_event::{Code, Draft, Event, ForeignId, Json, Payload, RunId};
use recount_run::{CallStage, Work, outstanding};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::agent::{self, Agent, Past};
use crate::approved::{AllowedCall, Rewritten};
use crate::conversation::Conversation;
use crate::mcp::McpSession;
use crate::refused_context::RefusedContext;
use crate::tool::Terms;
use crate::workspace::claims::Claim;

/// See the file's head.
pub(crate) struct Worker {
    pub(crate) agent: Agent,
    pub(crate) desk: Desk,
    pub(crate) queued: Arc<Queued>,
    pub(crate) order: Order,
    pub(crate) conversation: Conversation,
    /// How many runs were said before this one, and whether all are over; when the log was read for them.
    pub(crate) past: Option<(usize, bool, Instant)>,
    /// The sequence behind the last event that was taken in.
    pub(crate) seen: u64,
    /// What calls were really asked to do, where the log holds it masked. Of calls that are not settled.
    pub(crate) originals: HashMap<ForeignId, Value>,
    /// Where `tool.invoked` stands of calls that are not settled.
    pub(crate) invoked: HashMap<ForeignId, u64>,
    /// Calls that an allowance lets through. Of calls that are not settled.
    pub(crate) allowed: HashMap<ForeignId, AllowedCall>,
    /// What holds for calls, once there is a workspace.
    pub(crate) terms: Option<Terms>,
    /// Files that allowed calls changed.
    pub(crate) rewritten: Rewritten,
    /// How the last call ended, for runs that are one call.
    pub(crate) last_call: Option<LastCall>,
    pub(crate) model_told: bool,
    /// Whether a turn completed after the last checkpoint.
    pub(crate) completed_since_checkpoint: bool,
    /// What the model cannot do, as far as the log says it.
    pub(crate) missing_told: HashSet<String>,
    /// Whether the log says that there is a workspace.
    pub(crate) provisioned: bool,
    /// What was refused as too long.
    pub(crate) refused: RefusedContext,
    /// What the model is given before the conversation, once the log says it.
    pub(crate) instructions: Option<Vec<Instruction>>,
    /// The MCP servers of the run, as far as they were reached.
    pub(crate) mcp: McpSession,
    /// The runs that calls have started. Of calls that are not settled.
    pub(crate) children: HashMap<ForeignId, RunId>,
    /// How many there were in all.
    pub(crate) children_started: u64,
    /// Where in another run this one goes on from.
    pub(crate) resumed: Option<(RunId, u64)>,
    /// That their processes work in the run's folder.
    pub(crate) server_claim: Option<Claim>,
    /// That there may be such processes.
    pub(crate) server_place: Option<OwnedSemaphorePermit>,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) struct LastCall {
    pub(crate) ended: CallEnd,
    pub(crate) exit_code: Option<i64>,
}

/// What settled it.
#[derive(Debug, Clone)]
pub(crate) enum CallEnd {
    Well,
    Badly { code: String, error: String },
    Refused { code: String, message: String },
}

/// A call that nobody has seen to yet.
pub(crate) struct Open {
    pub(crate) id: ForeignId,
    pub(crate) name: String,
    pub(crate) turn_index: Option<u64>,
}

/// Why a worker leaves before the run has nothing left to do.
pub(crate) type Done<T> = Result<T, Left>;

impl Worker {
    /// Works until the run is owed nothing more. Gives the desk back when it left in good order.
    pub(crate) async fn work(agent: Agent, desk: Desk) -> Option<Desk> {
        let run = desk.run();
        let Some(queued) = desk.state().queued().cloned() else { return Some(desk) };
        let order = match Order::read(queued.config.as_ref()) {
            Ok(order) => order,
            Err(why) => {
                // Only this server writes it, so it was another release.
                tracing::warn!(%run, %why, "the order of a run cannot be read; the run fails");
                return Worker::give_up(desk, &format!("its order cannot be read: {why}")).await;
            }
        };
        let mut worker = Worker {
            agent,
            desk,
            queued,
            order,
            conversation: Conversation::default(),
            past: None,
            seen: 0,
            originals: HashMap::new(),
            invoked: HashMap::new(),
            allowed: HashMap::new(),
            terms: None,
            rewritten: Rewritten::default(),
            last_call: None,
            model_told: false,
            completed_since_checkpoint: false,
            missing_told: HashSet::new(),
            provisioned: false,
            refused: RefusedContext::default(),
            instructions: None,
            mcp: McpSession::default(),
            children: HashMap::new(),
            children_started: 0,
            resumed: None,
            server_claim: None,
            server_place: None,
        };
        let worked = worker.work_on().await;
        worker.leave_servers().await;
        match worked {
            Ok(()) | Err(Left::Ended | Left::TakenOver) => Some(worker.hand_back()),
            Err(Left::Refused(rejection)) => {
                let sequence = worker.desk.state().next_sequence();
                tracing::error!(%run, sequence, %rejection, rule = ?rejection.rule, type_name = ?rejection.type_name,
                    "a report breaks the rules; the run fails");
                let message = format!("the server's own report was refused: {rejection}");
                Worker::give_up(worker.desk, &message).await
            }
            Err(Left::Failed(error)) => {
                tracing::warn!(%run, %error, "a run cannot go on now, and is tried again");
                None
            }
        }
    }

    async fn work_on(&mut self) -> Done<()> {
        if self.has_luggage() {
            self.desk.settled().await?;
        }
        self.remember().await?;
        loop {
            let work = outstanding(self.desk.state()).work;
            match work.first() {
                None => return Ok(()),
                Some(Work::Start) => self.start().await?,
                Some(Work::RunTool { .. }) => self.see_to_calls().await?,
                Some(Work::CallModel) => self.turn(Vec::new()).await?,
                Some(Work::Conclude) => self.conclude().await?,
            }
        }
    }

    /// Whether something is to be fetched or made before the first report: what came with the run, or a place to work.
    fn has_luggage(&self) -> bool {
        self.lacks_workspace() || !self.order.secrets.is_empty() || !self.order.attachments.is_empty()
    }

    /// Reads what came before.
    async fn remember(&mut self) -> Done<()> {
        let mut events = Vec::new();
        self.desk.history(|event| events.push(event.clone())).await?;
        if self.desk.state().kind() == RunKind::AgentLoop {
            let resumed = events.first().and_then(|event| match event.payload() {
                Payload::RunResumedFromEvent(resumed) => agent::place(resumed),
                _ => None,
            });
            self.resumed = resumed;
            match self.agent.earlier(&self.desk, resumed).await {
                Ok(Past { conversation, runs, is_over, read }) => {
                    (self.conversation, self.past) = (conversation, Some((runs, is_over, read)));
                }
                Err(left) => return self.lacks_earlier(left).await,
            }
        }
        self.see(&events);
        Ok(())
    }

    /// Fails the run where a part of the conversation before it is damaged: the model would answer without it, and
    /// nothing would say so. Reads that failed in another way are tried again.
    async fn lacks_earlier(&mut self, left: Left) -> Done<()> {
        let Left::Failed(error) = &left else { return Err(left) };
        let Some(damaged) = agent::damaged_events(error) else { return Err(left) };
        let run = self.desk.run();
        tracing::error!(%run, %error, "the conversation before a run is damaged; the run fails");
        let message = format!(
            "the conversation before this run cannot be read: {damaged}; restore the store from a backup, or start a new \
             session"
        );
        self.desk.fail(Code::RunDamaged.as_str(), message, false).await
    }

    /// Gives the desk back. What was said up to the end of the run is kept for the next one of its session.
    fn hand_back(self) -> Desk {
        let Worker { agent, desk, conversation, past, seen, .. } = self;
        let is_whole = desk.state().is_ended() && seen == desk.state().next_sequence();
        if let Some((runs, is_over, read)) = past.filter(|_| is_whole) {
            agent.remember(&desk, Past { conversation, runs, is_over, read });
        }
        desk
    }

    /// Takes in what happened.
    pub(crate) fn see(&mut self, events: &[Event]) {
        for event in events {
            self.seen = event.sequence + 1;
            self.conversation.event(event);
            self.refused.see(event.payload());
            match event.payload() {
                Payload::ErrorModelCapabilityMissing(missing) => {
                    self.missing_told.insert(missing.missing_capability.clone());
                }
                Payload::WorkspaceProvisioned(_) => self.provisioned = true,
                Payload::TurnStarted(started) => {
                    self.model_told = true;
                    self.instructions.get_or_insert_with(|| started.instructions.clone().unwrap_or_default());
                }
                Payload::RunContinued(continued) => self.go_on_with(continued.config.as_ref()),
                Payload::TurnCompleted(_) => self.completed_since_checkpoint = true,
                Payload::RunCheckpointSaved(_) => self.completed_since_checkpoint = false,
                Payload::ToolInvoked(invoked) => {
                    self.invoked.insert(invoked.tool_call_id.clone(), event.sequence);
                }
                Payload::ChildRunStarted(started) => {
                    self.children_started += 1;
                    let run = started.child_run_id.parse().ok();
                    self.children.extend(started.tool_call_id.clone().zip(run));
                }
                Payload::ToolShellExited(exited) => {
                    let ended = CallEnd::Well;
                    self.last_call = Some(LastCall { ended, exit_code: exited.exit_code });
                }
                Payload::ToolCompleted(_) => self.ended(CallEnd::Well),
                Payload::ToolFailed(end) | Payload::ToolTimedOut(end) | Payload::ToolCancelled(end) => {
                    let code = end.code.clone().unwrap_or_else(|| "tool_failed".to_owned());
                    let error = end.error.clone().or_else(|| end.summary.clone()).unwrap_or_default();
                    self.ended(CallEnd::Badly { code, error });
                }
                Payload::ToolRefused(refused) => {
                    let (code, message) = (refused.code.as_str().to_owned(), refused.message.clone());
                    self.ended(CallEnd::Refused { code, message });
                }
                Payload::ApprovalResolved(resolved) if resolved.decision != Decision::Approved => {
                    let message = match &resolved.comment {
                        Some(comment) => format!("{} did not allow it: {comment}", resolved.by),
                        None => format!("{} did not allow it", resolved.by),
                    };
                    self.ended(CallEnd::Refused { code: "denied".to_owned(), message });
                }
                Payload::ApprovalTimedOut(missed) if missed.decision != Some(Decision::Approved) => {
                    let message = "nobody allowed it in time".to_owned();
                    self.ended(CallEnd::Refused { code: "timed_out".to_owned(), message });
                }
                _ => {}
            }
        }
        let state = self.desk.state();
        self.originals.retain(|call, _| state.call(call).is_some());
        self.invoked.retain(|call, _| state.call(call).is_some());
        self.allowed.retain(|call, _| state.call(call).is_some());
        self.children.retain(|call, _| state.call(call).is_some());
    }

    /// What holds from here on, where who answered chose anew.
    fn go_on_with(&mut self, config: Option<&Json>) {
        let Some(config) = config else { return };
        match OrderChange::read(config) {
            Ok(mut change) => {
                if let Some(model) = change.model.take() {
                    let queued = Arc::make_mut(&mut self.queued);
                    if queued.model.as_ref() != Some(&model) {
                        // Its name says whose it is.
                        (queued.provider, queued.model) = (None, Some(model));
                        self.model_told = false;
                        // Another model may take more.
                        self.refused = RefusedContext::default();
                    }
                }
                self.order = self.order.changed(change);
                // Tools and words may be others.
                self.instructions = None;
            }
            Err(why) => {
                let run = self.desk.run();
                tracing::warn!(%run, %why, "what an application chose anew cannot be read; what was chosen before holds");
            }
        }
    }

    fn ended(&mut self, ended: CallEnd) {
        let exit_code = self.last_call.take().and_then(|last| last.exit_code);
        self.last_call = Some(LastCall { ended, exit_code });
    }

    /// Refuses what was proposed, and gives up what was invoked, because the run cannot go on.
    pub(crate) fn refuse_all(&self, code: &'static str, message: &str) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for (id, call) in self.desk.state().open_calls() {
            let name = call.tool_name.as_deref().unwrap_or_default().to_owned();
            drafts.push(match call.stage {
                CallStage::Invoked(_) => {
                    let mut ended = tool::Ended::new(id.clone(), name);
                    ended.turn_index = call.turn_index;
                    (ended.code, ended.error) = (Some(code.to_owned()), Some(message.to_owned()));
                    Payload::ToolFailed(Box::new(ended)).into()
                }
                CallStage::Announced | CallStage::Proposed => {
                    let (code, message) = (RefusalCode::Unavailable, message.to_owned());
                    Payload::ToolRefused(Box::new(tool::Refused::new(id.clone(), name, code, message))).into()
                }
            });
        }
        drafts
    }

    /// Reports, and takes in what came of it.
    pub(crate) async fn report(&mut self, drafts: Vec<Draft>) -> Done<()> {
        let events = self.desk.report(drafts).await?;
        self.see(&events);
        Ok(())
    }
}
