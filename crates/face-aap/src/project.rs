//! Projects the events of one segment of a run to frames of the protocol. Pure. Entry point: [`Projector`].
//!
//! A segment opens when the run is queued or continued, and closes when the run waits or ends. One segment is one turn
//! of the protocol. Projecting it again gives the same frames with the same ids. This module must not depend on
//! sockets, stores or requests; it names stored pictures and the caller resolves them.

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
    phase: SegmentPhase,
    /// Blocks that were sent in pieces, as turn and block.
    streamed_blocks: BTreeSet<(u64, u64)>,
    /// The response of the open turn.
    attempt: Attempt,
    /// Unsettled calls that this segment knows.
    calls: BTreeMap<ForeignId, Call>,
    questions: BTreeMap<ForeignId, clarification::Requested>,
    handoffs: BTreeMap<ForeignId, handoff::Requested>,
    usage: Usage,
    last_stop: Option<turn::StopReason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentPhase {
    /// Before the opening.
    Before,
    Open {
        /// Whether the run was continued. Then calls may be older than the segment.
        continued: bool,
    },
    Over,
}

/// The known facts about a call.
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
            phase: SegmentPhase::Before,
            streamed_blocks: BTreeSet::new(),
            attempt: Attempt::default(),
            calls: BTreeMap::new(),
            questions: BTreeMap::new(),
            handoffs: BTreeMap::new(),
            usage: Usage::default(),
            last_stop: None,
        }
    }

    /// Whether the segment has closed and its last frame was returned.
    pub fn is_over(&self) -> bool {
        self.phase == SegmentPhase::Over
    }

    /// Projects the next event of the run. Events before the opening and after the close give no frames.
    pub fn event(&mut self, event: &Event) -> Vec<Frame> {
        let payloads = match self.phase {
            SegmentPhase::Before if event.sequence == self.opening => {
                let continued = matches!(event.payload(), Payload::RunContinued(_));
                self.phase = SegmentPhase::Open { continued };
                vec![FramePayload::Event(TurnEvent::TurnStart {})]
            }
            SegmentPhase::Open { continued } => self.apply(event.payload(), continued),
            SegmentPhase::Before | SegmentPhase::Over => return Vec::new(),
        };
        let frame = |(part, payload)| Frame { id: Some(FrameId { sequence: event.sequence, part }), payload };
        (0..).zip(payloads).map(frame).collect()
    }

    fn apply(&mut self, payload: &Payload, continued: bool) -> Vec<FramePayload> {
        match payload {
            Payload::TurnStarted(_) => self.abandon_attempt(),
            Payload::TurnFailed(failed) if failed.will_retry => self.abandon_attempt(),
            Payload::AssistantTextDelta(piece) => self.push_piece(piece, text_delta),
            Payload::AssistantThinkingDelta(piece) => self.push_piece(piece, thinking_delta),
            Payload::AssistantTextComplete(whole) => match self.mode {
                Mode::Message => self.hold_block(whole, text_block),
                Mode::Delta => self.complete_block(whole, text_delta),
            },
            Payload::AssistantThinkingComplete(whole) => match self.mode {
                Mode::Message => self.hold_block(whole, thinking_block),
                Mode::Delta => self.complete_block(whole, thinking_delta),
            },
            Payload::AssistantToolCallProposed(call) => self.propose_call(call),
            Payload::ToolInvoked(invoked) => self.start_call(invoked),
            Payload::ToolRefused(no) => {
                let call = self.calls.remove(&no.tool_call_id);
                // A call that waited for approval was proposed in an earlier segment.
                let call = call.or(continued.then_some(Call { proposed: true, client: false }));
                self.push_in_order(result(call, &no.tool_call_id, &no.tool_name, || {
                    UnresolvedContent::Text(no.message.clone())
                }))
            }
            Payload::ToolCompleted(ended)
            | Payload::ToolFailed(ended)
            | Payload::ToolCancelled(ended)
            | Payload::ToolTimedOut(ended) => {
                let call = self.calls.remove(&ended.tool_call_id);
                self.push_in_order(result(call, &ended.tool_call_id, &ended.tool_name, || outcome(ended)))
            }
            Payload::TurnCompleted(completed) => self.complete_turn(completed),
            Payload::ClarificationRequested(request) => {
                self.questions.insert(request.clarification_id.clone(), request.as_ref().clone());
                Vec::new()
            }
            Payload::HandoffRequested(request) => {
                self.handoffs.insert(request.handoff_id.clone(), request.as_ref().clone());
                Vec::new()
            }
            Payload::RunWaiting(waiting) => self.stop_waiting(&waiting.waits_for),
            Payload::RunFinished(_) => self.finish(),
            Payload::RunFailed(failed) => self.fail(TurnError {
                code: failed.code.clone(),
                message: failed.message.clone(),
                retryable: failed.retriable,
            }),
            Payload::RunCancelled(cancelled) => self.fail(TurnError {
                code: "cancelled".into(),
                message: cancelled.reason.clone(),
                retryable: false,
            }),
            _ => Vec::new(),
        }
    }

    fn push_piece(
        &mut self,
        piece: &assistant::TextDelta,
        word: impl Fn(String) -> TurnEvent,
    ) -> Vec<FramePayload> {
        if self.mode == Mode::Message || piece.delta.is_empty() {
            return Vec::new();
        }
        self.streamed_blocks.insert((piece.turn_index, piece.block_index));
        self.attempt.piece(word(piece.delta.clone()))
    }

    /// Holds a block back until its turn is complete.
    fn hold_block(
        &mut self,
        whole: &assistant::TextComplete,
        word: impl Fn(String) -> TurnEvent,
    ) -> Vec<FramePayload> {
        if !whole.text.is_empty() {
            self.attempt.hold(vec![FramePayload::Event(word(whole.text.clone()))]);
        }
        Vec::new()
    }

    /// Sends a complete block, unless it was sent in pieces.
    fn complete_block(
        &mut self,
        whole: &assistant::TextComplete,
        word: impl Fn(String) -> TurnEvent,
    ) -> Vec<FramePayload> {
        let was_streamed = self.streamed_blocks.remove(&(whole.turn_index, whole.block_index));
        if was_streamed || whole.text.is_empty() {
            return Vec::new();
        }
        self.attempt.piece(word(whole.text.clone()))
    }

    /// Discards the response so far, because another one replaces it.
    fn abandon_attempt(&mut self) -> Vec<FramePayload> {
        let (payloads, calls) = self.attempt.abandon();
        for id in calls {
            // Their results are not part of the conversation.
            self.calls.entry(id).and_modify(|call| call.proposed = false);
        }
        payloads
    }

    /// Holds results back until the output of the model is sent.
    fn push_in_order(&mut self, payloads: Vec<FramePayload>) -> Vec<FramePayload> {
        if payloads.is_empty() || !self.attempt.holds_results() {
            return payloads;
        }
        self.attempt.hold(payloads);
        Vec::new()
    }

    fn propose_call(&mut self, call: &assistant::ToolCallProposed) -> Vec<FramePayload> {
        self.calls.insert(call.tool_call_id.clone(), Call { proposed: true, client: false });
        if is_prompt_tool(&call.tool_name) {
            return Vec::new();
        }
        let payload = FramePayload::Event(TurnEvent::ToolCall {
            tool_call_id: call.tool_call_id.to_string(),
            name: call.tool_name.clone(),
            input: input_object(&call.input),
        });
        self.attempt.hold_call(call.tool_call_id.clone(), vec![payload]);
        Vec::new()
    }

    fn start_call(&mut self, invoked: &Invoked) -> Vec<FramePayload> {
        // An approved call is invoked in the segment that the approval opened. Its turn index shows that it was
        // proposed.
        let proposed = invoked.turn_index.is_some();
        let call = self.calls.entry(invoked.tool_call_id.clone());
        let call = call.or_insert(Call { proposed, client: false });
        call.client = invoked.executor == Some(Executor::Client);
        // An executed call cannot be retracted, nor can the text before it.
        match self.attempt.holds_call(&invoked.tool_call_id) {
            true => self.attempt.release(),
            false => Vec::new(),
        }
    }

    fn complete_turn(&mut self, completed: &turn::Completed) -> Vec<FramePayload> {
        self.last_stop = Some(completed.stop_reason);
        self.usage.add(Usage {
            input_tokens: completed.input_tokens.unwrap_or(0),
            output_tokens: completed.output_tokens.unwrap_or(0),
            cached_input_tokens: completed.cached_input_tokens.unwrap_or(0),
            cost_micros_usd: completed.cost_micros_usd,
        });
        self.attempt.release()
    }

    fn stop_waiting(&mut self, waits_for: &[WaitsFor]) -> Vec<FramePayload> {
        let mut payloads = self.attempt.release();
        let is_call = |one: &WaitsFor| matches!(one.kind, WaitKind::Approval | WaitKind::ClientTool);
        if waits_for.iter().any(is_call) {
            payloads.push(self.stop(StopReason::ToolUse, None, None));
            return payloads;
        }
        let mut awaiting = None;
        for one in waits_for {
            let (text, what) = match one.kind {
                WaitKind::Clarification => self.clarification(&one.id),
                WaitKind::Handoff => self.handoff(&one.id),
                WaitKind::Approval | WaitKind::ClientTool => continue,
            };
            payloads.extend(
                text.filter(|text| !text.is_empty()).map(|text| FramePayload::Event(self.text(text))),
            );
            awaiting = awaiting.or(Some(what));
        }
        payloads.push(self.stop(StopReason::EndTurn, None, awaiting));
        payloads
    }

    fn clarification(&self, id: &ForeignId) -> (Option<String>, Awaiting) {
        let mut awaiting = Awaiting::new(AwaitingKind::Clarification, id.to_string());
        let Some(request) = self.questions.get(id) else { return (None, awaiting) };
        awaiting.question = Some(request.question.clone());
        awaiting.choices = request.choices.clone();
        awaiting.expires_at = request.expires_at.clone();
        (Some(view::question(request)), awaiting)
    }

    fn handoff(&self, id: &ForeignId) -> (Option<String>, Awaiting) {
        let mut awaiting = Awaiting::new(AwaitingKind::Handoff, id.to_string());
        let Some(request) = self.handoffs.get(id) else { return (None, awaiting) };
        awaiting.reason = Some(request.reason.clone());
        awaiting.target_kind = Some(request.target_kind.to_string());
        awaiting.expires_at = request.expires_at.clone();
        (Some(view::handoff_text(request)), awaiting)
    }

    fn text(&self, text: String) -> TurnEvent {
        match self.mode {
            Mode::Message => text_block(text),
            Mode::Delta => text_delta(text),
        }
    }

    fn finish(&mut self) -> Vec<FramePayload> {
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
        let mut payloads = self.attempt.abort();
        payloads.push(self.stop(reason, error, None));
        payloads
    }

    fn fail(&mut self, error: TurnError) -> Vec<FramePayload> {
        let mut payloads = self.attempt.abort();
        payloads.push(self.stop(StopReason::Error, Some(error), None));
        payloads
    }

    fn stop(
        &mut self,
        reason: StopReason,
        error: Option<TurnError>,
        awaiting: Option<Awaiting>,
    ) -> FramePayload {
        self.phase = SegmentPhase::Over;
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

/// Whether a tool opens a prompt. Its question is sent as text.
fn is_prompt_tool(tool_name: &str) -> bool {
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
        Some(Call { proposed: true, client: false }) if !is_prompt_tool(tool_name) => {
            vec![FramePayload::ToolResult { tool_call_id: tool_call_id.to_string(), content: content() }]
        }
        _ => Vec::new(),
    }
}

/// The output that the model received, or the text that replaces it.
fn outcome(ended: &Ended) -> UnresolvedContent {
    shown(&view::Output::of(ended))
}

fn shown(output: &view::Output) -> UnresolvedContent {
    match output {
        view::Output::Json(output) => UnresolvedContent::of(output),
        view::Output::Text(words) => UnresolvedContent::Text(words.clone()),
    }
}

/// The input of a call in the form of the protocol: always an object.
fn input_object(input: &Json) -> Json {
    match input.text() {
        text if text.starts_with('{') => input.clone(),
        "null" => Json::parse("{}").unwrap_or_default(),
        text => Json::parse(&format!("{{\"input\":{text}}}")).unwrap_or_default(),
    }
}
