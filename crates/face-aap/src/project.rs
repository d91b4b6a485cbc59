//! From the events of a run to what the protocol says of one of its segments: pure. Begin with [`Projector`].
//!
//! A segment opens where the run was queued or continued, and closes where it begins to wait or ends; one segment is
//! one turn of the protocol. Whoever reads it again from its opening is told the same frames under the same ids. It
//! must never know sockets, stores or requests; pictures that the server keeps are named here and put in by whoever
//! can read them.

mod attempt;
mod frame;
mod gather;
mod history;
mod id;
mod picture;

use std::collections::{BTreeMap, BTreeSet};

use recount_event::family::run::{WaitKind, WaitsFor};
use recount_event::family::tool::{Ended, Executor, Invoked};
use recount_event::family::{assistant, clarification, handoff, turn};
use recount_event::{Event, ForeignId, Json, Payload};
use recount_run::{ASKING_TOOLS, view};

use crate::wire::{Awaiting, AwaitingKind, StopReason, TurnError, TurnEvent, Usage};

use attempt::Attempt;
pub use frame::{Frame, Told};
pub use gather::Gathered;
pub use history::{history_message, line_pictures};
pub use id::{FrameId, FrameIdError, TurnId, TurnIdError};
pub use picture::{ImageRef, Pictures, Shown};

/// How finely texts are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Whole blocks.
    Message,
    /// Pieces, as they came.
    Delta,
}

/// Whether a turn can begin at this event.
pub fn opens_segment(event: &Event) -> bool {
    matches!(event.payload(), Payload::RunQueued(_) | Payload::RunContinued(_))
}

/// Tells one segment, event by event.
#[derive(Debug, Clone)]
pub struct Projector {
    mode: Mode,
    opening: u64,
    stage: Stage,
    /// Blocks of which pieces were told, as turn and block.
    told: BTreeSet<(u64, u64)>,
    /// The answer of the turn that is open.
    attempt: Attempt,
    /// Calls that are not settled, as far as this segment knows them.
    calls: BTreeMap<ForeignId, Call>,
    questions: BTreeMap<ForeignId, clarification::Requested>,
    handoffs: BTreeMap<ForeignId, handoff::Requested>,
    usage: Usage,
    last_stop: Option<turn::StopReason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The opening has not come yet.
    Before,
    Open {
        /// Whether the run had begun before: then calls may be older than the segment.
        continued: bool,
    },
    Over,
}

/// What is known of a call.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// The model asked for it; other calls are no part of the conversation.
    proposed: bool,
    /// The application carries it out, and knows what came of it.
    client: bool,
}

impl Projector {
    /// For the segment that opens at the event of this sequence.
    pub fn new(mode: Mode, opening: u64) -> Self {
        Projector {
            mode,
            opening,
            stage: Stage::Before,
            told: BTreeSet::new(),
            attempt: Attempt::default(),
            calls: BTreeMap::new(),
            questions: BTreeMap::new(),
            handoffs: BTreeMap::new(),
            usage: Usage::default(),
            last_stop: None,
        }
    }

    /// Whether the segment has closed: its last frame was given.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// What the next event of the run says. Those before the opening and behind the close say nothing.
    pub fn event(&mut self, event: &Event) -> Vec<Frame> {
        let said = match self.stage {
            Stage::Before if event.sequence == self.opening => {
                let continued = matches!(event.payload(), Payload::RunContinued(_));
                self.stage = Stage::Open { continued };
                vec![Told::Event(TurnEvent::TurnStart {})]
            }
            Stage::Open { continued } => self.within(event.payload(), continued),
            Stage::Before | Stage::Over => return Vec::new(),
        };
        let frame = |(part, told)| Frame { id: Some(FrameId { sequence: event.sequence, part }), told };
        (0..).zip(said).map(frame).collect()
    }

    fn within(&mut self, payload: &Payload, continued: bool) -> Vec<Told> {
        match payload {
            Payload::TurnStarted(_) => self.abandoned(),
            Payload::TurnFailed(failed) if failed.will_retry => self.abandoned(),
            Payload::AssistantTextDelta(piece) => self.piece(piece, text_delta),
            Payload::AssistantThinkingDelta(piece) => self.piece(piece, thinking_delta),
            Payload::AssistantTextComplete(whole) => match self.mode {
                Mode::Message => self.block(whole, text_block),
                Mode::Delta => self.whole(whole, text_delta),
            },
            Payload::AssistantThinkingComplete(whole) => match self.mode {
                Mode::Message => self.block(whole, thinking_block),
                Mode::Delta => self.whole(whole, thinking_delta),
            },
            Payload::AssistantToolCallProposed(call) => self.proposed(call),
            Payload::ToolInvoked(invoked) => self.invoked(invoked),
            Payload::ToolRefused(no) => {
                let call = self.calls.remove(&no.tool_call_id);
                // A call that waited for leave was proposed in a segment before this one.
                let call = call.or(continued.then_some(Call { proposed: true, client: false }));
                self.in_order(result(call, &no.tool_call_id, &no.tool_name, || {
                    Shown::Text(no.message.clone())
                }))
            }
            Payload::ToolCompleted(ended)
            | Payload::ToolFailed(ended)
            | Payload::ToolCancelled(ended)
            | Payload::ToolTimedOut(ended) => {
                let call = self.calls.remove(&ended.tool_call_id);
                self.in_order(result(call, &ended.tool_call_id, &ended.tool_name, || outcome(ended)))
            }
            Payload::TurnCompleted(completed) => self.completed(completed),
            Payload::ClarificationRequested(asked) => {
                self.questions.insert(asked.clarification_id.clone(), asked.as_ref().clone());
                Vec::new()
            }
            Payload::HandoffRequested(asked) => {
                self.handoffs.insert(asked.handoff_id.clone(), asked.as_ref().clone());
                Vec::new()
            }
            Payload::RunWaiting(waiting) => self.waits(&waiting.waits_for),
            Payload::RunFinished(_) => self.finished(),
            Payload::RunFailed(failed) => self.failed(TurnError {
                code: failed.code.clone(),
                message: failed.message.clone(),
                retryable: failed.retriable,
            }),
            Payload::RunCancelled(cancelled) => self.failed(TurnError {
                code: "cancelled".into(),
                message: cancelled.reason.clone(),
                retryable: false,
            }),
            _ => Vec::new(),
        }
    }

    fn piece(&mut self, piece: &assistant::TextDelta, word: impl Fn(String) -> TurnEvent) -> Vec<Told> {
        if self.mode == Mode::Message || piece.delta.is_empty() {
            return Vec::new();
        }
        self.told.insert((piece.turn_index, piece.block_index));
        self.attempt.piece(word(piece.delta.clone()))
    }

    /// A block counts when its turn is complete.
    fn block(&mut self, whole: &assistant::TextComplete, word: impl Fn(String) -> TurnEvent) -> Vec<Told> {
        if !whole.text.is_empty() {
            self.attempt.hold(vec![Told::Event(word(whole.text.clone()))]);
        }
        Vec::new()
    }

    /// A block is told when it is complete, unless it was told in pieces.
    fn whole(&mut self, whole: &assistant::TextComplete, word: impl Fn(String) -> TurnEvent) -> Vec<Told> {
        let was_told = self.told.remove(&(whole.turn_index, whole.block_index));
        if was_told || whole.text.is_empty() {
            return Vec::new();
        }
        self.attempt.piece(word(whole.text.clone()))
    }

    /// Another answer takes the place of the one so far.
    fn abandoned(&mut self) -> Vec<Told> {
        let (told, calls) = self.attempt.abandon();
        for id in calls {
            // What becomes of them is no part of the conversation.
            self.calls.entry(id).and_modify(|call| call.proposed = false);
        }
        told
    }

    /// What the model says goes first.
    fn in_order(&mut self, told: Vec<Told>) -> Vec<Told> {
        if told.is_empty() || !self.attempt.holds_results() {
            return told;
        }
        self.attempt.hold(told);
        Vec::new()
    }

    fn proposed(&mut self, call: &assistant::ToolCallProposed) -> Vec<Told> {
        self.calls.insert(call.tool_call_id.clone(), Call { proposed: true, client: false });
        if asks(&call.tool_name) {
            return Vec::new();
        }
        let told = Told::Event(TurnEvent::ToolCall {
            tool_call_id: call.tool_call_id.to_string(),
            name: call.tool_name.clone(),
            input: input_object(&call.input),
        });
        self.attempt.hold_call(call.tool_call_id.clone(), vec![told]);
        Vec::new()
    }

    fn invoked(&mut self, invoked: &Invoked) -> Vec<Told> {
        // One that was allowed is invoked in the segment that the answer opened; its turn says that it was proposed.
        let proposed = invoked.turn_index.is_some();
        let call = self.calls.entry(invoked.tool_call_id.clone());
        let call = call.or_insert(Call { proposed, client: false });
        call.client = invoked.executor == Some(Executor::Client);
        // A call that is carried out cannot be taken back, nor what the model said before it.
        match self.attempt.holds_call(&invoked.tool_call_id) {
            true => self.attempt.release(),
            false => Vec::new(),
        }
    }

    fn completed(&mut self, completed: &turn::Completed) -> Vec<Told> {
        self.last_stop = Some(completed.stop_reason);
        self.usage.add(Usage {
            input_tokens: completed.input_tokens.unwrap_or(0),
            output_tokens: completed.output_tokens.unwrap_or(0),
            cached_input_tokens: completed.cached_input_tokens.unwrap_or(0),
            cost_micros_usd: completed.cost_micros_usd,
        });
        self.attempt.release()
    }

    fn waits(&mut self, waits_for: &[WaitsFor]) -> Vec<Told> {
        let mut said = self.attempt.release();
        let is_call = |one: &WaitsFor| matches!(one.kind, WaitKind::Approval | WaitKind::ClientTool);
        if waits_for.iter().any(is_call) {
            said.push(self.stop(StopReason::ToolUse, None, None));
            return said;
        }
        let mut awaiting = None;
        for one in waits_for {
            let (text, what) = match one.kind {
                WaitKind::Clarification => self.question(&one.id),
                WaitKind::Handoff => self.parting(&one.id),
                WaitKind::Approval | WaitKind::ClientTool => continue,
            };
            said.extend(text.filter(|text| !text.is_empty()).map(|text| Told::Event(self.text(text))));
            awaiting = awaiting.or(Some(what));
        }
        said.push(self.stop(StopReason::EndTurn, None, awaiting));
        said
    }

    fn question(&self, id: &ForeignId) -> (Option<String>, Awaiting) {
        let mut awaiting = Awaiting::new(AwaitingKind::Clarification, id.to_string());
        let Some(asked) = self.questions.get(id) else { return (None, awaiting) };
        awaiting.question = Some(asked.question.clone());
        awaiting.choices = asked.choices.clone();
        awaiting.expires_at = asked.expires_at.clone();
        (Some(view::question(asked)), awaiting)
    }

    fn parting(&self, id: &ForeignId) -> (Option<String>, Awaiting) {
        let mut awaiting = Awaiting::new(AwaitingKind::Handoff, id.to_string());
        let Some(asked) = self.handoffs.get(id) else { return (None, awaiting) };
        awaiting.reason = Some(asked.reason.clone());
        awaiting.target_kind = Some(asked.target_kind.to_string());
        awaiting.expires_at = asked.expires_at.clone();
        (Some(view::parting(asked)), awaiting)
    }

    fn text(&self, text: String) -> TurnEvent {
        match self.mode {
            Mode::Message => text_block(text),
            Mode::Delta => text_delta(text),
        }
    }

    fn finished(&mut self) -> Vec<Told> {
        let (reason, error) = match self.last_stop {
            None | Some(turn::StopReason::EndTurn | turn::StopReason::ToolUse) => (StopReason::EndTurn, None),
            Some(turn::StopReason::MaxTokens) => (StopReason::MaxTokens, None),
            Some(turn::StopReason::Refusal) => (StopReason::Refusal, None),
            Some(turn::StopReason::Error) => (
                StopReason::Error,
                Some(TurnError {
                    code: "model_error".into(),
                    message: "the model stopped with an error".into(),
                    retryable: true,
                }),
            ),
        };
        let mut told = self.attempt.abort();
        told.push(self.stop(reason, error, None));
        told
    }

    fn failed(&mut self, error: TurnError) -> Vec<Told> {
        let mut told = self.attempt.abort();
        told.push(self.stop(StopReason::Error, Some(error), None));
        told
    }

    fn stop(&mut self, reason: StopReason, error: Option<TurnError>, awaiting: Option<Awaiting>) -> Told {
        self.stage = Stage::Over;
        let awaiting = awaiting.map(Box::new);
        Told::Event(TurnEvent::TurnStop { stop_reason: reason, usage: Some(self.usage), error, awaiting })
    }
}

fn text_delta(delta: String) -> TurnEvent {
    TurnEvent::TextDelta { delta, retracts: None }
}

fn thinking_delta(delta: String) -> TurnEvent {
    TurnEvent::ThinkingDelta { delta, retracts: None }
}

fn text_block(text: String) -> TurnEvent {
    TurnEvent::Text { text, status: None }
}

fn thinking_block(thinking: String) -> TurnEvent {
    TurnEvent::Thinking { thinking, status: None }
}

/// Whether a tool asks people something: then what it asks is told as text.
fn asks(tool_name: &str) -> bool {
    ASKING_TOOLS.contains(&tool_name)
}

/// How a call ended, where the application is to be told.
fn result(
    call: Option<Call>,
    tool_call_id: &ForeignId,
    tool_name: &str,
    content: impl FnOnce() -> Shown,
) -> Vec<Told> {
    match call {
        Some(Call { proposed: true, client: false }) if !asks(tool_name) => {
            vec![Told::ToolResult { tool_call_id: tool_call_id.to_string(), content: content() }]
        }
        _ => Vec::new(),
    }
}

/// What the model was told, or the words that stand in its place.
fn outcome(ended: &Ended) -> Shown {
    shown(&view::Output::of(ended))
}

fn shown(output: &view::Output) -> Shown {
    match output {
        view::Output::Json(output) => Shown::of(output),
        view::Output::Text(words) => Shown::Text(words.clone()),
    }
}

/// The input of a call as the protocol takes it: always an object.
fn input_object(input: &Json) -> Json {
    match input.text() {
        text if text.starts_with('{') => input.clone(),
        "null" => Json::parse("{}").unwrap_or_default(),
        text => Json::parse(&format!("{{\"input\":{text}}}")).unwrap_or_default(),
    }
}
