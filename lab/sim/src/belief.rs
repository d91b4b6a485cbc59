//! A producer's model of its run, from the events alone.
//!
//! It is deliberately separate from the state of the rules: it is the knowledge of a client. It is good enough to
//! generate mostly legal events, and may be wrong. Start at [`Belief::see`].

use std::collections::BTreeMap;

use recount_event::family::approval::Decision;
use recount_event::family::run::{Driver, WaitKind};
use recount_event::family::shell::Stream;
use recount_event::family::tool::Executor;
use recount_event::{ForeignId, Payload};
use recount_run::PromptKind;

/// Everything that is open, and the counters for new names.
#[derive(Debug, Clone, Default)]
pub struct Belief {
    pub own: bool,
    pub started: bool,
    pub lost: bool,
    pub waiting: bool,
    pub ended: bool,
    pub turn: Option<Turn>,
    pub turn_next: u64,
    pub turn_again: Option<u64>,
    pub turns_completed: u64,
    pub blocks_used: u64,
    pub calls: BTreeMap<ForeignId, Call>,
    pub prompts: BTreeMap<(PromptKind, ForeignId), Option<ForeignId>>,
    pub names_used: u64,
    pub answered_finally: bool,
    pub halted: bool,
    pub tokens: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Turn {
    pub index: u64,
    pub proposed: u64,
    /// Open blocks: whether it is thinking, and the text so far.
    pub blocks: BTreeMap<u64, (bool, String)>,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub tool_name: Option<String>,
    pub turn: Option<u64>,
    pub stage: Stage,
    /// The decision of a person, if one was made.
    pub granted: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Announced,
    Proposed,
    Invoked { client: bool, shell: Option<Shell> },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shell {
    pub out: u64,
    pub err: u64,
    pub exited: bool,
}

impl Belief {
    /// Builds the model from events.
    pub fn of<'a>(payloads: impl IntoIterator<Item = &'a Payload>) -> Self {
        let mut belief = Belief::default();
        payloads.into_iter().for_each(|payload| belief.see(payload));
        belief
    }

    /// Applies an event.
    pub fn see(&mut self, payload: &Payload) {
        match payload {
            Payload::RunQueued(queued) => self.own = queued.driver == Driver::Own,
            Payload::RunStarted(_) => (self.started, self.lost) = (true, false),
            Payload::GapRunDisconnected(_) => self.lost = true,
            Payload::RunWaiting(_) => self.waiting = true,
            Payload::RunContinued(_) => self.waiting = false,
            Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_) => self.ended = true,

            Payload::TurnStarted(started) => {
                self.turn = Some(Turn { index: started.turn_index, ..Turn::default() });
                self.turn_next = started.turn_index + 1;
                self.turn_again = None;
            }
            Payload::TurnCompleted(completed) => {
                self.turn = None;
                self.turns_completed += 1;
                self.tokens += completed.input_tokens.unwrap_or(0);
            }
            Payload::TurnFailed(failed) => {
                self.turn = None;
                self.turn_again = failed.will_retry.then_some(failed.turn_index);
            }
            Payload::AssistantTextDelta(delta) => self.grow(delta.block_index, false, &delta.delta),
            Payload::AssistantThinkingDelta(delta) => self.grow(delta.block_index, true, &delta.delta),
            Payload::AssistantTextComplete(whole) | Payload::AssistantThinkingComplete(whole) => {
                self.blocks_used = self.blocks_used.max(whole.block_index + 1);
                if let Some(turn) = &mut self.turn {
                    turn.blocks.remove(&whole.block_index);
                }
            }
            Payload::AssistantFinalAnswer(_) => self.answered_finally = true,
            Payload::AssistantToolCallProposed(proposed) => {
                self.names_used += 1;
                if let Some(turn) = &mut self.turn {
                    turn.proposed += 1;
                }
                let call = Call {
                    tool_name: Some(proposed.tool_name.clone()),
                    turn: Some(proposed.turn_index),
                    stage: Stage::Proposed,
                    granted: None,
                };
                self.calls.insert(proposed.tool_call_id.clone(), call);
            }
            Payload::CostTick(tick) => self.tokens = self.tokens.max(tick.cumulative_input_tokens),
            Payload::CostBudgetExceeded(_) => self.halted = true,
            other => self.see_call_or_prompt(other),
        }
    }

    fn see_call_or_prompt(&mut self, payload: &Payload) {
        match payload {
            Payload::ToolInvoked(invoked) => {
                self.names_used += 1;
                let client = invoked.executor == Some(Executor::Client);
                let call = self.call(&invoked.tool_call_id);
                call.tool_name = Some(invoked.tool_name.clone());
                call.stage = Stage::Invoked { client, shell: None };
            }
            Payload::ToolRefused(refused) => drop(self.calls.remove(&refused.tool_call_id)),
            Payload::ToolCompleted(ended)
            | Payload::ToolFailed(ended)
            | Payload::ToolCancelled(ended)
            | Payload::ToolTimedOut(ended) => drop(self.calls.remove(&ended.tool_call_id)),
            Payload::ToolShellCommand(command) => self.shell(&command.tool_call_id, |_| {}),
            Payload::ToolShellOutputChunk(chunk) => {
                let bytes = chunk.byte_count().unwrap_or(0);
                self.shell(&chunk.tool_call_id, |shell| match chunk.stream {
                    Stream::Stdout => shell.out += bytes,
                    Stream::Stderr => shell.err += bytes,
                });
            }
            Payload::ToolShellExited(exited) => self.shell(&exited.tool_call_id, |shell| shell.exited = true),

            Payload::ApprovalRequested(requested) => {
                self.names_used += 1;
                self.call(&requested.tool_call_id).granted = None;
                self.ask(PromptKind::Approval, &requested.approval_id, Some(&requested.tool_call_id));
            }
            Payload::ClarificationRequested(requested) => {
                self.ask(
                    PromptKind::Clarification,
                    &requested.clarification_id,
                    requested.tool_call_id.as_ref(),
                );
            }
            Payload::HandoffRequested(requested) => {
                self.ask(PromptKind::Handoff, &requested.handoff_id, requested.tool_call_id.as_ref());
            }
            Payload::ApprovalResolved(resolved) => {
                self.judged(&resolved.approval_id, resolved.decision == Decision::Approved);
            }
            Payload::ApprovalTimedOut(missed) => {
                self.judged(&missed.approval_id, missed.decision == Some(Decision::Approved));
            }
            Payload::ClarificationAnswered(answered) => {
                self.over(PromptKind::Clarification, &answered.clarification_id);
            }
            Payload::ClarificationTimedOut(missed) => {
                self.over(PromptKind::Clarification, &missed.clarification_id);
            }
            Payload::HandoffAcknowledged(taken) => self.over(PromptKind::Handoff, &taken.handoff_id),
            Payload::HandoffRejected(refused) => self.over(PromptKind::Handoff, &refused.handoff_id),
            Payload::HandoffTimedOut(missed) => self.over(PromptKind::Handoff, &missed.handoff_id),
            _ => {}
        }
    }

    /// Open prompts of one kind.
    pub fn open(&self, kind: PromptKind) -> Vec<ForeignId> {
        self.prompts.keys().filter(|(of, _)| *of == kind).map(|(_, id)| id.clone()).collect()
    }

    /// Whether a call has an open prompt.
    pub fn has_open_prompt(&self, call: &ForeignId) -> bool {
        self.prompts.values().any(|about| about.as_ref() == Some(call))
    }

    /// The items that the run would wait for.
    pub fn waits_for(&self) -> Vec<(WaitKind, ForeignId)> {
        let prompts = self.prompts.keys().map(|(kind, id)| {
            let kind = match kind {
                PromptKind::Approval => WaitKind::Approval,
                PromptKind::Clarification => WaitKind::Clarification,
                PromptKind::Handoff => WaitKind::Handoff,
            };
            (kind, id.clone())
        });
        let calls = self.calls.iter().filter(|(_, call)| call.is_with_client());
        prompts.chain(calls.map(|(id, _)| (WaitKind::ClientTool, id.clone()))).collect()
    }

    fn grow(&mut self, index: u64, thinking: bool, piece: &str) {
        self.blocks_used = self.blocks_used.max(index + 1);
        if let Some(turn) = &mut self.turn {
            turn.blocks.entry(index).or_insert((thinking, String::new())).1.push_str(piece);
        }
    }

    fn call(&mut self, id: &ForeignId) -> &mut Call {
        let new = Call { tool_name: None, turn: None, stage: Stage::Announced, granted: None };
        self.calls.entry(id.clone()).or_insert(new)
    }

    fn shell(&mut self, id: &ForeignId, change: impl FnOnce(&mut Shell)) {
        if let Some(Call { stage: Stage::Invoked { shell, .. }, .. }) = self.calls.get_mut(id) {
            change(shell.get_or_insert_default());
        }
    }

    fn ask(&mut self, kind: PromptKind, id: &ForeignId, call: Option<&ForeignId>) {
        self.names_used += 1;
        self.prompts.insert((kind, id.clone()), call.cloned());
    }

    fn over(&mut self, kind: PromptKind, id: &ForeignId) {
        self.prompts.remove(&(kind, id.clone()));
    }

    fn judged(&mut self, id: &ForeignId, granted: bool) {
        let Some(about) = self.prompts.remove(&(PromptKind::Approval, id.clone())).flatten() else { return };
        let Some(call) = self.calls.get_mut(&about) else { return };
        call.granted = Some(granted);
        if call.stage == Stage::Announced && !granted {
            self.calls.remove(&about);
        }
    }
}

impl Call {
    pub fn is_with_client(&self) -> bool {
        matches!(self.stage, Stage::Invoked { client: true, .. })
    }
}
