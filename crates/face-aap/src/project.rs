//! Projects the events of one segment of a run to frames of the protocol: pure. Entry point: [`Projector`].
//!
//! A segment opens where the run was queued or continued, and closes where it begins to wait or ends; one segment is
//! one turn of the protocol. Projecting it again from its opening gives the same frames with the same ids. It
//! must never know sockets, stores or requests; stored pictures are named here and resolved by the caller.

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
pub use frame::{Frame, FramePayload};
pub use gather::Gathered;
pub use history::{history_message, line_pictures};
pub use id::{FrameId, FrameIdError, TurnId, TurnIdError};
pub use picture::{ImageRef, Pictures, UnresolvedContent};

/// How finely texts are streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Whole blocks.
    Message,
    /// Pieces, as they arrive.
    Delta,
}

/// Whether a turn can begin at this event.
pub fn opens_segment(event: &Event) -> bool {
    matches!(event.payload(), Payload::RunQueued(_) | Payload::RunContinued(_))
}

/// Projects one segment, event by event.
#[derive(Debug, Clone)]
pub struct Projector {
    mode: Mode,
    opening: u64,
    stage: Stage,
    /// Blocks that were sent in pieces, as turn and block.
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
        /// Whether the run was continued: then calls may be older than the segment.
        continued: bool,
    },
    Over,
}

/// What is known of a call.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// The model requested it; other calls are not part of the conversation.
    proposed: bool,
    /// The application executes it, and knows its result.
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

    /// The frames of the next event of the run. Events before the opening and after the close have none.
    pub fn event(&mut self, event: &Event) -> Vec<Frame> {
        let said = match self.stage {
            Stage::Before if event.sequence == self.opening => {
                let continued = matches!(event.payload(), Payload::RunContinued(_));
                self.stage = Stage::Open { continued };
                vec![FramePayload::Event(TurnEvent::TurnStart {})]
            }
            Stage::Open { continued } => self.within(event.payload(), continued),
            Stage::Before | Stage::Over => return Vec::new(),
        };
        let frame = |(part, told)| Frame { id: Some(FrameId { sequence: event.sequence, part }), told };
        (0..).zip(said).map(frame).collect()
    }

    fn within(&mut self, payload: &Payload, continued: bool) -> Vec<FramePayload> {
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
                    UnresolvedContent::Text(no.message.clone())
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

    fn piece(
        &mut self,
        piece: &assistant::TextDelta,
        word: impl Fn(String) -> TurnEvent,
    ) -> Vec<FramePayload> {
        if self.mode == Mode::Message || piece.delta.is_empty() {
            return Vec::new();
        }
        self.told.insert((piece.turn_index, piece.block_index));
        self.attempt.piece(word(piece.delta.clone()))
    }

    /// A block counts when its turn is complete.
    fn block(
        &mut self,
        whole: &assistant::TextComplete,
        word: impl Fn(String) -> TurnEvent,
    ) -> Vec<FramePayload> {
        if !whole.text.is_empty() {
            self.attempt.hold(vec![FramePayload::Event(word(whole.text.clone()))]);
        }
        Vec::new()
    }

    /// A block is sent when it is complete, unless it was sent in pieces.
    fn whole(
        &mut self,
        whole: &assistant::TextComplete,
        word: impl Fn(String) -> TurnEvent,
    ) -> Vec<FramePayload> {
        let was_told = self.told.remove(&(whole.turn_index, whole.block_index));
        if was_told || whole.text.is_empty() {
            return Vec::new();
        }
        self.attempt.piece(word(whole.text.clone()))
    }

    /// Another answer takes the place of the one so far.
    fn abandoned(&mut self) -> Vec<FramePayload> {
        let (told, calls) = self.attempt.abandon();
        for id in calls {
            // What becomes of them is no part of the conversation.
            self.calls.entry(id).and_modify(|call| call.proposed = false);
        }
        told
    }

    /// The model's output goes first.
    fn in_order(&mut self, told: Vec<FramePayload>) -> Vec<FramePayload> {
        if told.is_empty() || !self.attempt.holds_results() {
            return told;
        }
        self.attempt.hold(told);
        Vec::new()
    }

    fn proposed(&mut self, call: &assistant::ToolCallProposed) -> Vec<FramePayload> {
        self.calls.insert(call.tool_call_id.clone(), Call { proposed: true, client: false });
        if asks(&call.tool_name) {
            return Vec::new();
        }
        let told = FramePayload::Event(TurnEvent::ToolCall {
            tool_call_id: call.tool_call_id.to_string(),
            name: call.tool_name.clone(),
            input: input_object(&call.input),
        });
        self.attempt.hold_call(call.tool_call_id.clone(), vec![told]);
        Vec::new()
    }

    fn invoked(&mut self, invoked: &Invoked) -> Vec<FramePayload> {
        // A call that was allowed is invoked in the segment that the answer opened; its turn shows that it was proposed.
        let proposed = invoked.turn_index.is_some();
        let call = self.calls.entry(invoked.tool_call_id.clone());
        let call = call.or_insert(Call { proposed, client: false });
        call.client = invoked.executor == Some(Executor::Client);
        // An executed call cannot be taken back, nor what the model wrote before it.
        match self.attempt.holds_call(&invoked.tool_call_id) {
            true => self.attempt.release(),
            false => Vec::new(),
        }
    }

    fn completed(&mut self, completed: &turn::Completed) -> Vec<FramePayload> {
        self.last_stop = Some(completed.stop_reason);
        self.usage.add(Usage {
            input_tokens: completed.input_tokens.unwrap_or(0),
            output_tokens: completed.output_tokens.unwrap_or(0),
            cached_input_tokens: completed.cached_input_tokens.unwrap_or(0),
            cost_micros_usd: completed.cost_micros_usd,
        });
        self.attempt.release()
    }

    fn waits(&mut self, waits_for: &[WaitsFor]) -> Vec<FramePayload> {
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
            said.extend(
                text.filter(|text| !text.is_empty()).map(|text| FramePayload::Event(self.text(text))),
            );
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

    fn finished(&mut self) -> Vec<FramePayload> {
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

    fn failed(&mut self, error: TurnError) -> Vec<FramePayload> {
        let mut told = self.attempt.abort();
        told.push(self.stop(StopReason::Error, Some(error), None));
        told
    }

    fn stop(
        &mut self,
        reason: StopReason,
        error: Option<TurnError>,
        awaiting: Option<Awaiting>,
    ) -> FramePayload {
        self.stage = Stage::Over;
        let awaiting = awaiting.map(Box::new);
        FramePayload::Event(TurnEvent::TurnStop {
            stop_reason: reason,
            usage: Some(self.usage),
            error,
            awaiting,
        })
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

/// Whether a tool asks people something: its question is then sent as text.
fn asks(tool_name: &str) -> bool {
    ASKING_TOOLS.contains(&tool_name)
}

/// The result of a call, if the application should see it.
fn result(
    call: Option<Call>,
    tool_call_id: &ForeignId,
    tool_name: &str,
    content: impl FnOnce() -> UnresolvedContent,
) -> Vec<FramePayload> {
    match call {
        Some(Call { proposed: true, client: false }) if !asks(tool_name) => {
            vec![FramePayload::ToolResult { tool_call_id: tool_call_id.to_string(), content: content() }]
        }
        _ => Vec::new(),
    }
}

/// The output as the model saw it, or the text in its place.
fn outcome(ended: &Ended) -> UnresolvedContent {
    shown(&view::Output::of(ended))
}

fn shown(output: &view::Output) -> UnresolvedContent {
    match output {
        view::Output::Json(output) => UnresolvedContent::of(output),
        view::Output::Text(words) => UnresolvedContent::Text(words.clone()),
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
