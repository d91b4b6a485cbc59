//! The history of a session as an application reads it: its messages in the order of its events. A pure fold over the
//! session's runs, one after another.
//!
//! It agrees with what a client gathers from a stream of whole messages: a line of the assistant holds its texts,
//! thoughts and calls as they came. The line is closed by a result from this server, by a message of a person, and at the
//! end of a segment of a run. A block carries a status, because the model's answer is final only when its turn completes.
//! Look at [`History::event`]. It must never know a protocol, nor the messages of the session before its first run.

mod attempt;
mod compacted;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use recount_event::family::run::{WaitKind, WaitsFor};
use recount_event::family::tool::{Ended, Executor};
use recount_event::family::{clarification, handoff, user};
use recount_event::{Event, ForeignId, Json, Payload, RunId};

use attempt::Attempt;
use compacted::Cut;
pub use words::{CUT_OFF_NOTE, handoff_text, question};

/// See the file's head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    lines: Vec<Placed>,
    /// The assistant's line that still gathers.
    gathers: Option<usize>,
    /// The runs folded so far, in order; the last one is active.
    runs: Vec<RunId>,
    run: ActiveRun,
    /// Calls that lines speak of and that are not settled, of all runs.
    open: BTreeSet<(RunId, ForeignId)>,
    cut: Option<Cut>,
    /// Results that the model sees in part: how many bytes were left, each time that they were shortened.
    trims: BTreeMap<ForeignId, Vec<u64>>,
}

/// The state of the active run.
#[derive(Debug, Clone, Default, PartialEq)]
struct ActiveRun {
    /// The request of the run, until a message has it.
    request: Option<(u64, String)>,
    /// Attachments that no line has yet: they join the next message of the user.
    sent: Vec<(u64, user::Attachment)>,
    /// Unsettled calls that lines contain, and whether an application executes them.
    calls: BTreeMap<ForeignId, Executor>,
    questions: BTreeMap<ForeignId, Question>,
    /// The reasons of handoffs that were not shown yet.
    handoffs: BTreeMap<ForeignId, String>,
    /// The model's answer that is not final yet.
    attempt: Attempt,
}

/// A question without an outcome.
#[derive(Debug, Clone, PartialEq)]
struct Question {
    /// Until the segment in which it was requested ends: a stream shows it there or not at all.
    text: Option<String>,
    default: Option<Json>,
    /// Whether the run waited for people only, for this one among them. Other prompts never reached the
    /// application, so their answers are not lines.
    awaited: bool,
}

/// A line, and the sequence of the last event that changed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    pub run: RunId,
    pub sequence: u64,
    pub line: Line,
}

/// One message of a participant.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// A person, or the application for them. `blocks` where there was more than a text.
    User { text: String, blocks: Option<Vec<Json>> },
    /// The agent.
    Assistant { blocks: Vec<AnswerBlock> },
    /// The result of a call in a line of the agent.
    Tool { tool_call_id: ForeignId, output: Output },
}

/// A part of the agent's output, and whether it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerBlock {
    pub block: Block,
    pub status: BlockStatus,
}

/// Whether a block is part of the agent's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockStatus {
    /// Its turn is not over.
    Open,
    /// Its turn completed: it is part of the model's context from then on.
    Final,
    /// Its turn ended before the answer was complete, without a replacement. It is not in the model's context.
    Aborted,
    /// Its turn failed and was retried: another answer replaces it. It is not in the model's context.
    Abandoned,
}

/// A part of the agent's output.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(String),
    Thinking(String),
    ToolUse { tool_call_id: ForeignId, name: String, input: Json },
}

/// The result of a call, as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Text or content blocks, as the event has them.
    Json(Json),
    /// The text of an error or a refusal.
    Text(String),
}

impl History {
    pub fn new() -> Self {
        History::default()
    }

    /// Adds the next event. An event of another run starts that run.
    pub fn event(&mut self, event: &Event) {
        if self.runs.last() != Some(&event.run_id) {
            self.next_run();
            self.runs.push(event.run_id);
        }
        match event.payload() {
            Payload::RunQueued(queued) => {
                let text = queued.request_text.clone().filter(|text| !text.is_empty());
                self.run.request = text.map(|text| (event.sequence, text));
            }
            Payload::UserMessage(message) => self.user(event, message),
            Payload::UserAttachment(sent) => self.add_attachment(event, sent),
            Payload::TurnStarted(_) => {
                self.abandon_attempt();
                self.add_unrecorded_request(event.run_id);
            }
            Payload::TurnCompleted(_) => self.end_attempt(BlockStatus::Final),
            Payload::TurnFailed(failed) if failed.will_retry => self.abandon_attempt(),
            Payload::RunWaiting(waiting) => {
                self.end_attempt(BlockStatus::Final);
                self.end_segment(event, &waiting.waits_for);
            }
            Payload::RunFinished(_) | Payload::RunFailed(_) | Payload::RunCancelled(_) => {
                self.end_attempt(BlockStatus::Aborted);
                self.add_unrecorded_request(event.run_id);
                self.gathers = None;
            }
            Payload::ClarificationRequested(request) => self.add_question(request),
            Payload::ClarificationAnswered(answered) => {
                self.add_answer(
                    event,
                    &answered.clarification_id,
                    Some(&answered.response),
                    answered.blocks.clone(),
                );
            }
            Payload::ClarificationTimedOut(missed) => self.add_missed_answer(event, missed),
            Payload::HandoffRequested(request) => self.add_handoff(request),
            Payload::ContextCompacted(compacted) => self.cut = Some(Cut::of(compacted)),
            Payload::ContextTrimmed(trimmed) => self.trim(trimmed),
            _ => self.agent(event),
        }
    }

    /// The agent's output, its calls and their results.
    fn agent(&mut self, event: &Event) {
        match event.payload() {
            Payload::AssistantThinkingComplete(thought) if !thought.text.is_empty() => {
                self.add_block_in_turn(event, Block::Thinking(thought.text.clone()));
            }
            Payload::AssistantTextComplete(complete) if !complete.text.is_empty() => {
                self.add_block_in_turn(event, Block::Text(complete.text.clone()));
            }
            Payload::AssistantToolCallProposed(call)
                if !crate::ASKING_TOOLS.contains(&call.tool_name.as_str()) =>
            {
                let (id, name, input) =
                    (call.tool_call_id.clone(), call.tool_name.clone(), call.input.clone());
                self.run.calls.insert(id.clone(), Executor::Server);
                self.open.insert((event.run_id, id.clone()));
                self.run.attempt.calls.insert(id.clone());
                self.add_block_in_turn(event, Block::ToolUse { tool_call_id: id, name, input });
            }
            Payload::ToolInvoked(invoked) => {
                // An executed call cannot be taken back, nor what the model wrote before it.
                if self.run.attempt.calls.contains(&invoked.tool_call_id) {
                    self.end_attempt(BlockStatus::Final);
                }
                if let Some(executor) = self.run.calls.get_mut(&invoked.tool_call_id) {
                    *executor = invoked.executor.unwrap_or(Executor::Server);
                }
            }
            Payload::ToolRefused(no) => {
                self.add_result(event, &no.tool_call_id, Output::Text(no.message.clone()))
            }
            Payload::ToolCompleted(ended)
            | Payload::ToolFailed(ended)
            | Payload::ToolCancelled(ended)
            | Payload::ToolTimedOut(ended) => self.add_result(event, &ended.tool_call_id, Output::of(ended)),
            _ => {}
        }
    }

    /// The events of the next run follow. What the last one left open stays open.
    pub fn next_run(&mut self) {
        self.gathers = None;
        self.run = ActiveRun::default();
    }

    /// All lines.
    pub fn full(&self) -> impl Iterator<Item = &Placed> {
        self.lines.iter()
    }

    fn push(&mut self, run: RunId, sequence: u64, line: Line) {
        self.lines.push(Placed { run, sequence, line });
    }

    fn add_block(&mut self, event: &Event, block: Block, status: BlockStatus) {
        let block = AnswerBlock { block, status };
        if let Some(line) = self.gathers.and_then(|at| self.lines.get_mut(at))
            && let Line::Assistant { blocks } = &mut line.line
        {
            blocks.push(block);
            line.sequence = event.sequence;
            return;
        }
        self.gathers = Some(self.lines.len());
        self.push(event.run_id, event.sequence, Line::Assistant { blocks: vec![block] });
    }

    /// A result from the application is not sent back to it, so it does not close the open line.
    fn add_result(&mut self, event: &Event, tool_call_id: &ForeignId, output: Output) {
        let Some(executor) = self.run.calls.remove(tool_call_id) else { return };
        self.open.remove(&(event.run_id, tool_call_id.clone()));
        if executor == Executor::Server {
            self.gathers = None;
        }
        let line = Line::Tool { tool_call_id: tool_call_id.clone(), output };
        self.push(event.run_id, event.sequence, line);
    }

    fn user(&mut self, event: &Event, message: &user::Message) {
        self.run.request = None;
        self.gathers = None;
        let line = Line::User { text: message.text.clone(), blocks: message.blocks.clone() };
        self.push(event.run_id, event.sequence, line);
        self.join_attachments();
    }

    /// Adds a request that no `user.message` recorded as a line of the user. Called before the model is called, and at
    /// the ending.
    fn add_unrecorded_request(&mut self, run: RunId) {
        let (sequence, text) = match (self.run.request.take(), self.run.sent.first()) {
            (Some((sequence, text)), _) => (sequence, text),
            (None, Some((sequence, _))) => (*sequence, String::new()),
            (None, None) => return,
        };
        self.gathers = None;
        self.push(run, sequence, Line::User { text, blocks: None });
        self.join_attachments();
    }

    fn add_attachment(&mut self, event: &Event, sent: &user::Attachment) {
        self.run.sent.push((event.sequence, sent.clone()));
        let last = self.lines.last();
        let words = |placed: &Placed| placed.run == event.run_id && matches!(placed.line, Line::User { .. });
        if self.run.request.is_none() && last.is_some_and(words) {
            self.join_attachments();
        }
    }

    /// Attachments of a message join the line that holds its text, unless it has them itself.
    fn join_attachments(&mut self) {
        let Some(Placed { sequence, line: Line::User { text, blocks }, .. }) = self.lines.last_mut() else {
            return;
        };
        for (at, sent) in self.run.sent.drain(..) {
            let named = blocks.iter().flatten().any(|block| words::names(block, &sent.artifact_id));
            if let Some(block) = words::attachment(&sent).filter(|_| !named) {
                blocks.get_or_insert_with(|| words::text_block(text).into_iter().collect()).push(block);
                *sequence = at.max(*sequence);
            }
        }
    }

    fn add_question(&mut self, request: &clarification::Requested) {
        let text = Some(question(request));
        let open = Question { text, default: request.default_response.clone(), awaited: false };
        self.run.questions.insert(request.clarification_id.clone(), open);
    }

    fn add_handoff(&mut self, request: &handoff::Requested) {
        self.run.handoffs.insert(request.handoff_id.clone(), handoff_text(request));
    }

    /// The segment ends. When it waits for people only, their prompts become lines.
    fn end_segment(&mut self, event: &Event, waits_for: &[WaitsFor]) {
        let calls = |one: &WaitsFor| matches!(one.kind, WaitKind::Approval | WaitKind::ClientTool);
        if !waits_for.iter().any(calls) {
            for one in waits_for {
                if let Some(text) = self.run.prompt_text(one) {
                    self.add_block(event, Block::Text(text), BlockStatus::Final);
                }
            }
        }
        self.run.handoffs.clear();
        self.run.questions.values_mut().for_each(|question| question.text = None);
        self.gathers = None;
    }

    fn add_answer(
        &mut self,
        event: &Event,
        id: &ForeignId,
        response: Option<&Json>,
        blocks: Option<Vec<Json>>,
    ) {
        let Some(question) = self.run.questions.remove(id) else { return };
        let Some(response) = response.or(question.default.as_ref()).filter(|_| question.awaited) else {
            return;
        };
        self.gathers = None;
        let line = Line::User { text: words::answer_text(response), blocks };
        self.push(event.run_id, event.sequence, line);
    }

    fn add_missed_answer(&mut self, event: &Event, missed: &clarification::TimedOut) {
        match missed.applied {
            clarification::Applied::Default => {
                self.add_answer(event, &missed.clarification_id, missed.response.as_ref(), None);
            }
            clarification::Applied::Unavailable => {
                self.run.questions.remove(&missed.clarification_id);
            }
        }
    }
}

impl ActiveRun {
    /// The text of a prompt that the run waits for from now on.
    fn prompt_text(&mut self, one: &WaitsFor) -> Option<String> {
        let text = match one.kind {
            WaitKind::Clarification => {
                let question = self.questions.get_mut(&one.id)?;
                question.awaited = true;
                question.text.take()
            }
            WaitKind::Handoff => self.handoffs.remove(&one.id),
            WaitKind::Approval | WaitKind::ClientTool => None,
        };
        text.filter(|text| !text.is_empty())
    }
}

impl Output {
    /// The output, or the text if there is none.
    pub fn of(ended: &Ended) -> Self {
        match (&ended.output, &ended.error) {
            (Some(output), _) => Output::Json(output.clone()),
            (None, Some(error)) => Output::Text(error.clone()),
            (None, None) => Output::Text(ended.summary.clone().unwrap_or_default()),
        }
    }
}
