//! The state of a run: everything the rules need to check the next event, and nothing else.
//!
//! A [`State`] is created by [`State::blank`] and changed only by [`crate::apply`]. Copies are cheap at any
//! length of run, because a batch is checked on a copy: closed items are in shared parts.

mod ledger;
mod status;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use recount_event::family::assistant::TextComplete;
use recount_event::family::run::{Driver, Queued, RunKind};
use recount_event::family::tool::Executor;
use recount_event::family::{approval, clarification, handoff, run};
use recount_event::{EventId, ForeignId, Json, Payload, RunId, SessionId, TaskId};

use crate::limits;
pub(crate) use ledger::{Ledger, NameStatus, Space};
pub use recount_event::{PromptKind, PromptName};
pub use status::Status;
pub(crate) use text::SharedText;

/// A run as its events add up.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub(crate) run_id: RunId,
    pub(crate) task_id: Option<TaskId>,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) next_sequence: u64,
    /// The first remaining event; those before it were pruned.
    pub(crate) first_sequence: u64,
    pub(crate) last_ms: u64,
    pub(crate) last_event_id: Option<EventId>,
    pub(crate) created_ms: u64,
    pub(crate) started_ms: Option<u64>,
    /// The last `run.started`: it identifies the claim on the run.
    pub(crate) claim: Option<u64>,
    /// The run has had no driver since this was set; `run.started` resets it.
    pub(crate) lost: bool,
    pub(crate) queued: Option<Arc<Queued>>,
    pub(crate) phase: Phase,
    pub(crate) turns: Turns,
    pub(crate) calls: BTreeMap<ForeignId, Call>,
    pub(crate) calls_seen: u64,
    pub(crate) prompts: BTreeMap<PromptName, Prompt>,
    pub(crate) prompts_seen: u64,
    pub(crate) ledger: Ledger,
    pub(crate) cost: Cost,
}

/// The phase of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Phase {
    Blank,
    /// After `run.resumed_from_event`; `run.queued` must follow.
    Resuming,
    Queued,
    Running,
    /// Suspended on people or applications.
    Waiting,
    /// Continued although something is open: `run.waiting` with the rest must follow.
    Regrouping,
    Ended(Ended),
}

/// How a run ended, and when.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    pub(crate) at_ms: u64,
    pub(crate) sequence: u64,
    pub(crate) how: FinalEvent,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FinalEvent {
    Finished(Arc<run::Finished>),
    Failed(Arc<run::Failed>),
    Cancelled(Arc<run::Cancelled>),
}

/// The calls of the model so far.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turns {
    /// The highest index started.
    pub(crate) highest: Option<u64>,
    /// Whether that index may be started again.
    pub(crate) may_retry: bool,
    pub(crate) open: Option<Turn>,
    pub(crate) started: u64,
    pub(crate) completed: u64,
    /// Whether the model is to be called when nothing is open: at first, after calls, to try again, and
    /// after a person's message.
    pub(crate) wants_model: bool,
    /// Blocks of the highest index that are closed, in order. They stay closed when it is started again.
    pub(crate) closed_blocks: Vec<u64>,
    pub(crate) final_answer: bool,
}

impl Default for Turns {
    fn default() -> Self {
        Turns {
            highest: None,
            may_retry: false,
            open: None,
            started: 0,
            completed: 0,
            wants_model: true,
            closed_blocks: Vec::new(),
            final_answer: false,
        }
    }
}

/// The turn that is open.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub(crate) index: u64,
    pub(crate) proposed: u64,
    pub(crate) blocks: BTreeMap<u64, OpenBlock>,
    /// What the provider has reported for the turn so far. A turn that fails has used this; a turn that completes reports
    /// its own usage.
    pub(crate) used: Totals,
}

/// A text that is being written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpenBlock {
    pub(crate) kind: BlockKind,
    pub(crate) text: SharedText,
}

/// Whether a block is text or thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Text,
    Thinking,
}

/// A call that is not settled.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Unknown while only an approval has named the call.
    pub tool_name: Option<Arc<str>>,
    /// The model's input, if the call was proposed.
    pub input: Option<Arc<Json>>,
    /// The turn that proposed it.
    pub turn_index: Option<u64>,
    pub stage: CallStage,
    /// The event that first named it: the order of calls.
    pub(crate) since: u64,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) answer: Option<Answer>,
    pub(crate) is_masked: bool,
}

impl Call {
    /// Whether the log holds the input with secrets masked, so that it differs from what the model proposed.
    pub fn is_masked(&self) -> bool {
        self.is_masked
    }
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStage {
    /// Only an approval has named it.
    Announced,
    Proposed,
    Invoked(Invoked),
}

/// A running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invoked {
    pub executor: Executor,
    /// Whether it does nothing before its command is recorded, as the tools of this server for the shell and for git.
    pub(crate) is_command: bool,
    pub(crate) shell: Option<Shell>,
    /// Whether it started a run, whose ending will be its outcome.
    pub(crate) has_child: bool,
}

/// The command of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shell {
    pub(crate) stdout: u64,
    pub(crate) stderr: u64,
    pub(crate) exited: bool,
}

/// The decision on a call, by a person or by a timeout.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) request: Arc<approval::Requested>,
    pub(crate) outcome: ApprovalOutcome,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ApprovalOutcome {
    Granted,
    /// `answer` is the text for the model, if the decision came with one.
    Denied {
        comment: Option<Arc<str>>,
        answer: Option<Arc<str>>,
    },
    Missed,
    Cancelled,
}

/// The result of a question or a handoff for its call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Response(Arc<Json>),
    Unanswered,
    TakenOver { by: Arc<str> },
    NotTakenOver { by: Arc<str> },
    TimedOut,
}

/// An open prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    pub requested_ms: u64,
    /// Extensions included.
    pub deadline_ms: Option<u64>,
    /// By how much the deadline was moved, and how often.
    pub(crate) extended_seconds: u64,
    pub(crate) extensions: u64,
    pub(crate) request: PromptRequest,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PromptRequest {
    Approval(Arc<approval::Requested>),
    Clarification(Arc<clarification::Requested>),
    Handoff(Arc<handoff::Requested>),
}

/// Usage of the run, and the state of its budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Used before this run, by the runs it continues.
    pub(crate) prior: Totals,
    /// Used by the completed turns of this run, and by failed ones as far as that was reported.
    pub(crate) turns: Totals,
    /// Used by the runs that this one started.
    pub(crate) children: Totals,
    /// The last `cost.tick`.
    pub(crate) ticked: Option<Totals>,
    pub(crate) warned: BTreeSet<u64>,
    pub(crate) exceeded: bool,
}

/// How much a run may still do; see [`State::remaining_limits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemainingLimits {
    pub turns: u64,
    pub calls: u64,
    pub prompts: u64,
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost_micros_usd: u64,
}

impl State {
    /// A run before its first event.
    pub fn blank(run_id: RunId, task_id: Option<TaskId>, session_id: Option<SessionId>) -> Self {
        State {
            run_id,
            task_id,
            session_id,
            next_sequence: 0,
            first_sequence: 0,
            last_ms: 0,
            last_event_id: None,
            created_ms: 0,
            started_ms: None,
            claim: None,
            lost: false,
            queued: None,
            phase: Phase::Blank,
            turns: Turns::default(),
            calls: BTreeMap::new(),
            calls_seen: 0,
            prompts: BTreeMap::new(),
            prompts_seen: 0,
            ledger: Ledger::default(),
            cost: Cost::default(),
        }
    }

    /// A run whose events before `first_sequence` were pruned, before the first that is left. It counts as running
    /// until the marker after its ending describes it.
    pub fn beginning_at(
        first_sequence: u64,
        run_id: RunId,
        task_id: Option<TaskId>,
        session_id: Option<SessionId>,
    ) -> Self {
        State { next_sequence: first_sequence, first_sequence, ..State::blank(run_id, task_id, session_id) }
    }

    pub fn run_id(&self) -> RunId {
        self.run_id
    }

    pub fn task_id(&self) -> Option<TaskId> {
        self.task_id
    }

    pub fn session_id(&self) -> Option<SessionId> {
        self.session_id
    }

    /// The number of events, and the sequence of the one to come.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The first remaining event: 0 unless the run was pruned.
    pub fn first_sequence(&self) -> u64 {
        self.first_sequence
    }

    /// Where the run ended, if it has.
    pub fn ending_sequence(&self) -> Option<u64> {
        match &self.phase {
            Phase::Ended(ended) => Some(ended.sequence),
            _ => None,
        }
    }

    /// Whether the events that describe the run are missing and no marker has described it yet.
    pub(crate) fn is_headless(&self) -> bool {
        self.first_sequence > 0 && self.queued.is_none()
    }

    pub fn last_event_id(&self) -> Option<EventId> {
        self.last_event_id
    }

    /// When the last event occurred; 0 before the first.
    pub fn last_occurred_ms(&self) -> u64 {
        self.last_ms
    }

    /// Whether nothing has happened yet.
    pub fn is_blank(&self) -> bool {
        self.next_sequence == 0
    }

    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// How the run was requested; `None` before `run.queued`.
    pub fn queued(&self) -> Option<&Arc<Queued>> {
        self.queued.as_ref()
    }

    /// The driver of the run. A blank run counts as our own.
    pub fn driver(&self) -> Driver {
        self.queued.as_ref().map_or(Driver::Own, |queued| queued.driver)
    }

    /// The open request for permission with this id.
    pub fn approval(&self, id: &ForeignId) -> Option<&approval::Requested> {
        match &self.prompts.get(&PromptKind::Approval.named(id))?.request {
            PromptRequest::Approval(request) => Some(request),
            PromptRequest::Clarification(_) | PromptRequest::Handoff(_) => None,
        }
    }

    /// The kind of work. A blank run counts as an agent loop.
    pub fn kind(&self) -> RunKind {
        self.queued.as_ref().map_or(RunKind::AgentLoop, |queued| queued.kind)
    }

    /// The status of the run, as in lists. A blank run counts as queued.
    pub fn status(&self) -> Status {
        match &self.phase {
            Phase::Blank | Phase::Resuming | Phase::Queued => Status::Queued,
            Phase::Running => Status::Running,
            Phase::Waiting | Phase::Regrouping => Status::Waiting,
            Phase::Ended(ended) => match ended.how {
                FinalEvent::Finished(_) => Status::Finished,
                FinalEvent::Failed(_) => Status::Failed,
                FinalEvent::Cancelled(_) => Status::Cancelled,
            },
        }
    }

    /// A call that is not settled.
    pub fn call(&self, tool_call_id: &str) -> Option<&Call> {
        self.calls.get(tool_call_id)
    }

    /// Calls that are not settled, in the order of their names.
    pub fn open_calls(&self) -> impl Iterator<Item = (&ForeignId, &Call)> {
        self.calls.iter()
    }

    /// Prompts without an outcome, by kind and name.
    pub fn open_prompts(&self) -> impl Iterator<Item = (&PromptName, &Prompt)> {
        self.prompts.iter()
    }

    /// Turns completed so far.
    pub fn turns_completed(&self) -> u64 {
        self.turns.completed
    }

    /// The index of the turn that is open.
    pub fn open_turn(&self) -> Option<u64> {
        self.turns.open.as_ref().map(|turn| turn.index)
    }

    /// The index of the turn that failed and may be started again.
    pub fn retry_turn(&self) -> Option<u64> {
        self.turns.highest.filter(|_| self.turns.may_retry)
    }

    /// The next block of the highest turn, after those that are closed.
    pub fn next_block(&self) -> u64 {
        self.turns.closed_blocks.last().map_or(0, |last| last + 1)
    }

    /// The events that close the open texts, cut off at their current length.
    pub fn cut_texts(&self) -> Vec<Payload> {
        let Some(turn) = &self.turns.open else { return Vec::new() };
        let cut = |(block_index, block): (&u64, &OpenBlock)| {
            let mut cut = TextComplete::new(turn.index, *block_index, block.text.text());
            cut.aborted = Some(true);
            match block.kind {
                BlockKind::Text => Payload::AssistantTextComplete(Box::new(cut)),
                BlockKind::Thinking => Payload::AssistantThinkingComplete(Box::new(cut)),
            }
        };
        turn.blocks.iter().map(cut).collect()
    }

    /// The text so far of an open text or thinking block.
    pub fn open_text(&self, turn_index: u64, block_index: u64) -> Option<String> {
        let turn = self.turns.open.as_ref().filter(|turn| turn.index == turn_index)?;
        turn.blocks.get(&block_index).map(|block| block.text.text())
    }

    /// The least index that a new turn may have.
    pub fn next_turn_index(&self) -> u64 {
        self.turns.highest.map_or(0, |highest| highest.saturating_add(1))
    }

    /// Usage so far, earlier runs included: for own runs the prior usage, ended turns and the usage reported
    /// for the open one; for external runs the last total they reported.
    pub fn totals(&self) -> Totals {
        match self.driver() {
            Driver::Own => self.totals_of_closed_turns().plus(self.open_turn_used()),
            Driver::External => self.cost.ticked.unwrap_or(self.cost.prior),
        }
    }

    /// What an own run has used in turns that are over, earlier runs and the runs that it started included.
    pub fn totals_of_closed_turns(&self) -> Totals {
        self.cost.prior.plus(self.cost.turns).plus(self.cost.children)
    }

    /// The usage of the runs that this one started; part of its totals.
    pub fn child_runs_used(&self) -> Totals {
        self.cost.children
    }

    /// Usage before this run, by the runs it continues.
    pub fn totals_before(&self) -> Totals {
        self.cost.prior
    }

    /// The usage that was reported for the open turn so far.
    pub fn open_turn_used(&self) -> Totals {
        self.turns.open.as_ref().map_or(Totals::default(), |turn| turn.used)
    }

    /// How many turns, calls and prompts may still follow before a limit of the run refuses one.
    pub fn remaining_limits(&self) -> RemainingLimits {
        RemainingLimits {
            turns: limits::TURNS_MAX.saturating_sub(self.turns.started),
            calls: limits::CALLS_MAX.saturating_sub(self.calls_seen),
            prompts: limits::PROMPTS_MAX.saturating_sub(self.prompts_seen),
        }
    }

    /// Turns, money and time of this run alone, were it to end now; a run that never began has none.
    pub fn figures(&self, now_ms: u64) -> (Option<u64>, Option<u64>, Option<u64>) {
        let Some(started_ms) = self.started_ms else { return (None, None, None) };
        let cost = self.totals().cost_micros_usd.saturating_sub(self.cost.prior.cost_micros_usd);
        (Some(self.turns.completed), Some(cost), Some(now_ms.saturating_sub(started_ms)))
    }

    /// Calls that were ever proposed, invoked or announced.
    pub fn calls_seen(&self) -> u64 {
        self.calls_seen
    }

    /// What the run waits for, or would wait for: pending prompts, and calls that an application executes.
    pub fn waits_for_what(&self) -> Vec<run::WaitsFor> {
        self.waits_for()
    }

    /// Whether an open prompt belongs to this call.
    pub fn has_prompt_about(&self, tool_call_id: &str) -> bool {
        self.has_prompt(tool_call_id)
    }

    /// Whether the budget is used up, so that no model and no tool may be called.
    pub fn budget_exceeded(&self) -> bool {
        self.cost.exceeded
    }

    /// Whether the warning for this share of the budget was given, in this run or before.
    pub fn budget_warned(&self, threshold_pct: u64) -> bool {
        self.cost.warned.contains(&threshold_pct)
    }

    /// The claim on the run: the sequence of the last `run.started`, which a takeover changes.
    pub fn claim(&self) -> Option<u64> {
        self.claim
    }

    pub(crate) fn is_own(&self) -> bool {
        self.driver() == Driver::Own
    }

    pub(crate) fn has_started(&self) -> bool {
        self.started_ms.is_some()
    }

    /// Whether a call waits for an answer of a person.
    pub(crate) fn has_prompt(&self, tool_call_id: &str) -> bool {
        self.prompts.values().any(|prompt| prompt.tool_call_id().is_some_and(|id| **id == *tool_call_id))
    }

    /// Whether an approval of this call is pending.
    pub(crate) fn approval_pending(&self, tool_call_id: &str) -> bool {
        self.prompts.values().any(
            |prompt| matches!(&prompt.request, PromptRequest::Approval(one) if *one.tool_call_id == *tool_call_id),
        )
    }

    /// What the run waits for, or would wait for: pending prompts, and calls that an application executes.
    pub(crate) fn waits_for(&self) -> Vec<run::WaitsFor> {
        let prompts = self
            .prompts
            .keys()
            .map(|name| run::WaitsFor { kind: name.kind.wait_kind(), id: name.id.clone() });
        let calls = self
            .calls
            .iter()
            .filter(|(_, call)| call.is_with_client())
            .map(|(id, _)| run::WaitsFor { kind: run::WaitKind::ClientTool, id: id.clone() });
        prompts.chain(calls).collect()
    }

    /// Open calls in order.
    pub(crate) fn calls_in_order(&self) -> Vec<ForeignId> {
        let mut ids: Vec<&ForeignId> = self.calls.keys().collect();
        ids.sort_by_key(|id| self.calls[*id].since);
        ids.into_iter().cloned().collect()
    }
}

impl Call {
    /// Whether it was invoked and an application executes it.
    pub fn is_with_client(&self) -> bool {
        matches!(self.stage, CallStage::Invoked(Invoked { executor: Executor::Client, .. }))
    }

    /// Whether it was invoked and this server executes it.
    pub fn is_with_server(&self) -> bool {
        matches!(self.stage, CallStage::Invoked(Invoked { executor: Executor::Server, .. }))
    }

    /// Whether it started a run, whose ending will be its outcome.
    pub fn has_child(&self) -> bool {
        matches!(self.stage, CallStage::Invoked(Invoked { has_child: true, .. }))
    }

    /// Whether the call is a question or a handoff that was not requested yet. They are requested one at a time, after
    /// permissions, so that a run may wait for others while they are only proposed.
    pub fn is_yet_to_ask(&self) -> bool {
        self.stage == CallStage::Proposed
            && self.tool_name.as_deref().is_some_and(|name| crate::ASKING_TOOLS.contains(&name))
    }

    /// Whether its prompt has an outcome that was not acted on yet.
    pub fn is_held(&self) -> bool {
        self.answer.is_some() || (self.verdict.is_some() && !matches!(self.stage, CallStage::Invoked(_)))
    }

    /// Whether a command of it is running. A prompt of such a call concerns the command, and does not settle it.
    pub(crate) fn runs_command(&self) -> bool {
        matches!(self.stage, CallStage::Invoked(Invoked { shell: Some(Shell { exited: false, .. }), .. }))
    }

    /// Whether it has certainly done nothing: its command is recorded before it starts, and is not recorded.
    pub(crate) fn has_not_started(&self) -> bool {
        matches!(self.stage, CallStage::Invoked(Invoked { is_command: true, shell: None, .. }))
    }

    /// The request that was granted, when there was one.
    pub fn granted(&self) -> Option<&approval::Requested> {
        self.verdict
            .as_ref()
            .filter(|verdict| verdict.outcome == ApprovalOutcome::Granted)
            .map(|verdict| &*verdict.request)
    }

    /// The tool's name for sentences and for events that must carry one.
    pub(crate) fn name(&self) -> &str {
        self.tool_name.as_deref().unwrap_or("unknown")
    }
}

impl Prompt {
    pub(crate) fn new(requested_ms: u64, deadline_ms: Option<u64>, request: PromptRequest) -> Self {
        Prompt { requested_ms, deadline_ms, extended_seconds: 0, extensions: 0, request }
    }

    /// How often its deadline was moved.
    pub fn extensions(&self) -> u64 {
        self.extensions
    }

    pub fn kind(&self) -> PromptKind {
        match self.request {
            PromptRequest::Approval(_) => PromptKind::Approval,
            PromptRequest::Clarification(_) => PromptKind::Clarification,
            PromptRequest::Handoff(_) => PromptKind::Handoff,
        }
    }

    /// The call that waits for the outcome.
    pub fn tool_call_id(&self) -> Option<&ForeignId> {
        match &self.request {
            PromptRequest::Approval(request) => Some(&request.tool_call_id),
            PromptRequest::Clarification(request) => request.tool_call_id.as_ref(),
            PromptRequest::Handoff(request) => request.tool_call_id.as_ref(),
        }
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BlockKind::Text => "text",
            BlockKind::Thinking => "thinking",
        })
    }
}

impl Totals {
    /// Sums that would not fit stay at the largest number.
    pub fn plus(self, other: Totals) -> Totals {
        Totals {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cost_micros_usd: self.cost_micros_usd.saturating_add(other.cost_micros_usd),
        }
    }

    pub(crate) fn is_below(self, other: Totals) -> bool {
        self.input_tokens < other.input_tokens
            || self.output_tokens < other.output_tokens
            || self.cost_micros_usd < other.cost_micros_usd
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} input tokens, {} output tokens, {} micro-dollars",
            self.input_tokens, self.output_tokens, self.cost_micros_usd
        )
    }
}
