//! Executes one run: reads the run's state, does the next outstanding work, reports the outcome, and repeats until no
//! work is outstanding.
//!
//! The next step follows only from the state of the run, never from the memory of the worker, so another worker can
//! take over with the log alone. It must not know providers or how tools work. Start with [`Worker::work`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use recount_engine::{RunConfig, RunConfigChange, WorkerExit, WorkerSession};
use recount_event::family::approval::Decision;
use recount_event::family::run::{Queued, RunKind};
use recount_event::family::tool::{self, RefusalCode};
use recount_event::family::turn::Instruction;
use recount_event::{Code, Draft, Event, ForeignId, Json, Payload, RunId};
use recount_run::{CallStage, Work, outstanding};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::agent::{self, Agent, EarlierConversation};
use crate::approved::{AllowedCall, FileRevisions};
use crate::conversation::Conversation;
use crate::mcp::McpSession;
use crate::refused_context::RefusedContext;
use crate::tool::Terms;
use crate::workspace::claims::Claim;

/// The execution of one run.
pub(crate) struct Worker {
    pub(crate) agent: Agent,
    pub(crate) worker_session: WorkerSession,
    pub(crate) queued: Arc<Queued>,
    pub(crate) config: RunConfig,
    pub(crate) conversation: Conversation,
    /// The number of earlier runs in the conversation, whether all have ended, and when the log was read.
    pub(crate) earlier: Option<(usize, bool, Instant)>,
    /// The sequence after the last applied event.
    pub(crate) next_sequence: u64,
    /// Unmasked inputs of unsettled calls whose logged input is masked.
    pub(crate) originals: HashMap<ForeignId, Value>,
    /// The sequences of `tool.invoked` of unsettled calls.
    pub(crate) invoked: HashMap<ForeignId, u64>,
    /// Unsettled calls that an allowance permits.
    pub(crate) allowed: HashMap<ForeignId, AllowedCall>,
    /// The conditions for calls, once there is a workspace.
    pub(crate) terms: Option<Terms>,
    /// Files that allowed calls changed.
    pub(crate) revisions: FileRevisions,
    /// The end of the last call, for runs of a single call.
    pub(crate) last_call: Option<LastCall>,
    /// Whether the log names the model.
    pub(crate) is_model_logged: bool,
    /// Whether a turn completed after the last checkpoint.
    pub(crate) completed_since_checkpoint: bool,
    /// The missing capabilities of the model that the log names.
    pub(crate) missing_logged: HashSet<String>,
    /// Whether the log has `workspace.provisioned`.
    pub(crate) provisioned: bool,
    /// The context sizes that providers rejected.
    pub(crate) refused: RefusedContext,
    /// The recorded instructions before the conversation.
    pub(crate) instructions: Option<Vec<Instruction>>,
    /// The connected MCP servers of the run.
    pub(crate) mcp: McpSession,
    /// The child runs of unsettled calls.
    pub(crate) children: HashMap<ForeignId, RunId>,
    /// The number of child runs started so far.
    pub(crate) children_started: u64,
    /// The event of another run that this run resumes.
    pub(crate) resumed: Option<(RunId, u64)>,
    /// The claim on the workspace while MCP server processes use it.
    pub(crate) server_claim: Option<Claim>,
    /// The permit to run MCP server processes.
    pub(crate) server_place: Option<OwnedSemaphorePermit>,
}

/// The end of the last call.
#[derive(Debug, Clone)]
pub(crate) struct LastCall {
    pub(crate) ended: CallEnd,
    pub(crate) exit_code: Option<i64>,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) enum CallEnd {
    Succeeded,
    Failed { code: String, error: String },
    Refused { code: String, message: String },
}

/// A call without a decision.
pub(crate) struct OpenCall {
    pub(crate) id: ForeignId,
    pub(crate) name: String,
    pub(crate) turn_index: Option<u64>,
}

/// `Err`: why the worker stops before the work is done.
pub(crate) type WorkResult<T> = Result<T, WorkerExit>;

impl Worker {
    /// Works until no work is outstanding. Returns the desk unless the run has to be retried.
    pub(crate) async fn work(agent: Agent, worker_session: WorkerSession) -> Option<WorkerSession> {
        let run = worker_session.run();
        let Some(queued) = worker_session.state().queued().cloned() else { return Some(worker_session) };
        let config = match RunConfig::from_json(queued.config.as_ref()) {
            Ok(config) => config,
            Err(why) => {
                // Only the server writes it, so another release did.
                tracing::warn!(%run, %why, "the configuration of a run cannot be read; the run fails");
                return Worker::give_up(
                    worker_session,
                    &format!("the configuration of the run cannot be read: {why}"),
                )
                .await;
            }
        };
        let mut worker = Worker {
            agent,
            worker_session,
            queued,
            config,
            conversation: Conversation::default(),
            earlier: None,
            next_sequence: 0,
            originals: HashMap::new(),
            invoked: HashMap::new(),
            allowed: HashMap::new(),
            terms: None,
            revisions: FileRevisions::default(),
            last_call: None,
            is_model_logged: false,
            completed_since_checkpoint: false,
            missing_logged: HashSet::new(),
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
        let result = worker.run_loop().await;
        worker.close_servers().await;
        match result {
            Ok(()) | Err(WorkerExit::Ended | WorkerExit::TakenOver) => Some(worker.hand_back()),
            Err(WorkerExit::Refused(rejection)) => {
                let sequence = worker.worker_session.state().next_sequence();
                tracing::error!(%run, sequence, %rejection, rule = ?rejection.rule, type_name = ?rejection.type_name,
                    "a report breaks the rules; the run fails");
                let message = format!("an event of the server itself was rejected: {rejection}");
                Worker::give_up(worker.worker_session, &message).await
            }
            Err(WorkerExit::Failed(error)) => {
                tracing::warn!(%run, %error, "a run cannot continue now; retrying");
                None
            }
        }
    }

    async fn run_loop(&mut self) -> WorkResult<()> {
        if self.needs_setup() {
            self.worker_session.wait_until_started().await?;
        }
        self.load_history().await?;
        loop {
            let work = outstanding(self.worker_session.state()).work;
            match work.first() {
                None => return Ok(()),
                Some(Work::Start) => self.start().await?,
                Some(Work::RunTool { .. }) => self.advance_calls().await?,
                Some(Work::CallModel) => self.turn(Vec::new()).await?,
                Some(Work::Conclude) => self.conclude().await?,
            }
        }
    }

    /// Whether the run needs its attachments, its secrets or a workspace before the first report.
    fn needs_setup(&self) -> bool {
        self.lacks_workspace() || !self.config.secrets.is_empty() || !self.config.attachments.is_empty()
    }

    /// Reads the earlier conversation and the events of the run.
    async fn load_history(&mut self) -> WorkResult<()> {
        let mut events = Vec::new();
        self.worker_session.history(|event| events.push(event.clone())).await?;
        if self.worker_session.state().kind() == RunKind::AgentLoop {
            let resumed = events.first().and_then(|event| match event.payload() {
                Payload::RunResumedFromEvent(resumed) => agent::resume_point(resumed),
                _ => None,
            });
            self.resumed = resumed;
            match self.agent.earlier_conversation(&self.worker_session, resumed).await {
                Ok(EarlierConversation { conversation, runs, is_final, read_at }) => {
                    (self.conversation, self.earlier) = (conversation, Some((runs, is_final, read_at)));
                }
                Err(left) => return self.fail_if_damaged(left).await,
            }
        }
        self.apply_events(&events);
        Ok(())
    }

    /// Fails the run if the earlier conversation is damaged, because the model would silently respond without it. Other
    /// read errors are retried.
    async fn fail_if_damaged(&mut self, left: WorkerExit) -> WorkResult<()> {
        let WorkerExit::Failed(error) = &left else { return Err(left) };
        let Some(damaged) = agent::damaged_events(error) else { return Err(left) };
        let run = self.worker_session.run();
        tracing::error!(%run, %error, "the conversation before a run is damaged; the run fails");
        let message = format!(
            "the conversation before this run cannot be read: {damaged}; restore the store from a backup, or start \
             a new session"
        );
        self.worker_session.fail(Code::RunDamaged.as_str(), message, false).await
    }

    /// Returns the desk. Caches the conversation of an ended run for the next run of its session.
    fn hand_back(self) -> WorkerSession {
        let Worker { agent, worker_session, conversation, earlier, next_sequence, .. } = self;
        let is_complete =
            worker_session.state().is_ended() && next_sequence == worker_session.state().next_sequence();
        if let Some((runs, is_final, read_at)) = earlier.filter(|_| is_complete) {
            let earlier = EarlierConversation { conversation, runs, is_final, read_at };
            agent.cache_conversation(&worker_session, earlier);
        }
        worker_session
    }

    /// Updates the worker's memory with events of the run.
    pub(crate) fn apply_events(&mut self, events: &[Event]) {
        for event in events {
            self.next_sequence = event.sequence + 1;
            self.conversation.event(event);
            self.refused.event(event.payload());
            match event.payload() {
                Payload::ErrorModelCapabilityMissing(missing) => {
                    self.missing_logged.insert(missing.missing_capability.clone());
                }
                Payload::WorkspaceProvisioned(_) => self.provisioned = true,
                Payload::TurnStarted(started) => {
                    self.is_model_logged = true;
                    self.instructions.get_or_insert_with(|| started.instructions.clone().unwrap_or_default());
                }
                Payload::RunContinued(continued) => self.apply_config_change(continued.config.as_ref()),
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
                    let ended = CallEnd::Succeeded;
                    self.last_call = Some(LastCall { ended, exit_code: exited.exit_code });
                }
                Payload::ToolCompleted(_) => self.record_call_end(CallEnd::Succeeded),
                Payload::ToolFailed(end) | Payload::ToolTimedOut(end) | Payload::ToolCancelled(end) => {
                    let code = end.code.clone().unwrap_or_else(|| "tool_failed".to_owned());
                    let error = end.error.clone().or_else(|| end.summary.clone()).unwrap_or_default();
                    self.record_call_end(CallEnd::Failed { code, error });
                }
                Payload::ToolRefused(refused) => {
                    let (code, message) = (refused.code.as_str().to_owned(), refused.message.clone());
                    self.record_call_end(CallEnd::Refused { code, message });
                }
                Payload::ApprovalResolved(resolved) if resolved.decision != Decision::Approved => {
                    let message = match &resolved.comment {
                        Some(comment) => format!("rejected by {}: {comment}", resolved.by),
                        None => format!("rejected by {}", resolved.by),
                    };
                    self.record_call_end(CallEnd::Refused { code: "denied".to_owned(), message });
                }
                Payload::ApprovalTimedOut(missed) if missed.decision != Some(Decision::Approved) => {
                    let message = "no approval was given in time".to_owned();
                    self.record_call_end(CallEnd::Refused { code: "timed_out".to_owned(), message });
                }
                _ => {}
            }
        }
        let state = self.worker_session.state();
        self.originals.retain(|call, _| state.call(call).is_some());
        self.invoked.retain(|call, _| state.call(call).is_some());
        self.allowed.retain(|call, _| state.call(call).is_some());
        self.children.retain(|call, _| state.call(call).is_some());
    }

    /// Applies changed settings of the application.
    fn apply_config_change(&mut self, config: Option<&Json>) {
        let Some(config) = config else { return };
        match RunConfigChange::from_json(config) {
            Ok(mut change) => {
                if let Some(model) = change.model.take() {
                    let queued = Arc::make_mut(&mut self.queued);
                    if queued.model.as_ref() != Some(&model) {
                        // The model name contains the provider.
                        (queued.provider, queued.model) = (None, Some(model));
                        self.is_model_logged = false;
                        // Another model may have a larger context.
                        self.refused = RefusedContext::default();
                    }
                }
                self.config = self.config.changed(change);
                // Tools and system prompt may have changed.
                self.instructions = None;
            }
            Err(why) => {
                let run = self.worker_session.run();
                tracing::warn!(
                    %run, %why,
                    "changed settings of an application cannot be read; the earlier settings stay in effect"
                );
            }
        }
    }

    fn record_call_end(&mut self, ended: CallEnd) {
        let exit_code = self.last_call.take().and_then(|last| last.exit_code);
        self.last_call = Some(LastCall { ended, exit_code });
    }

    /// Refuses proposed calls and fails invoked ones, because the run cannot continue.
    pub(crate) fn refuse_all(&self, code: &'static str, message: &str) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for (id, call) in self.worker_session.state().open_calls() {
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

    /// Reports events and applies them.
    pub(crate) async fn report(&mut self, drafts: Vec<Draft>) -> WorkResult<()> {
        let events = self.worker_session.report(drafts).await?;
        self.apply_events(&events);
        Ok(())
    }
}
