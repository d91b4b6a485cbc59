//! A producer's session: start, states, progress, calls and output. Prompts are in `prompt`, endings in `ending`. Start
//! at [`ProducerSession`].

use std::collections::{BTreeMap, VecDeque};

use super::batch::Batch;
use super::open::{Grant, OpenPrompt, PromptHandle};
use super::stamp::Stamp;
use super::{Misuse, StateTexts};
use crate::build::{self, Draft, Frame};
use crate::limits::{PRODUCED_CALLS_MAX, PRODUCED_OUTPUTS_MAX};
use crate::wire::{
    Boundary, Event, HandoffRequested, Level, OutputStreaming, ProgressUpdated, ReplyToken, SessionStarted,
    ToolCompleted, ToolInvoked,
};

/// Identifies a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallHandle(pub(super) u64);

/// Identifies an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputHandle(pub(super) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    New,
    Running,
    Ended,
}

#[derive(Debug, Clone)]
pub(super) struct OpenOutput {
    /// Number of written characters.
    pub(super) position: u64,
    pub(super) started: bool,
    pub(super) content_type: Option<String>,
}

/// One session of a producer; see [the module](super).
#[derive(Debug, Clone)]
pub struct ProducerSession {
    pub(super) frame: Frame,
    pub(super) texts: StateTexts,
    pub(super) phase: Phase,
    pub(super) state: String,
    /// The number of the next event.
    pub(super) sequence: u64,
    /// The time of the last event.
    pub(super) last_ms: i64,
    /// Open calls: number and tool.
    pub(super) calls: BTreeMap<u64, String>,
    pub(super) next_call: u64,
    pub(super) outputs: BTreeMap<u64, OpenOutput>,
    pub(super) next_output: u64,
    pub(super) prompt: Option<OpenPrompt>,
    pub(super) next_prompt: u64,
    /// Accepted prompts whose calls have not started, by the number of the prompt.
    pub(super) grants: BTreeMap<u64, Grant>,
    /// Tokens of settled prompts, the newest last.
    pub(super) settled: VecDeque<ReplyToken>,
}

impl ProducerSession {
    /// Creates a session with English texts for its states. Fails if the frame would produce invalid events.
    pub fn new(frame: Frame) -> Result<Self, Misuse> {
        Self::with_texts(frame, StateTexts::english())
    }

    /// Creates a session in another language. Fails if a text or the frame would produce invalid events.
    pub fn with_texts(frame: Frame, texts: StateTexts) -> Result<Self, Misuse> {
        // Validates the texts now, because they are used later where an error is not possible.
        for text in texts.all() {
            frame.numbered("evt_0", 0, 0, build::state_changed("idle", "thinking", text))?;
        }
        Ok(ProducerSession {
            frame,
            texts,
            phase: Phase::New,
            state: "idle".into(),
            sequence: 0,
            last_ms: 0,
            calls: BTreeMap::new(),
            next_call: 1,
            outputs: BTreeMap::new(),
            next_output: 1,
            prompt: None,
            next_prompt: 1,
            grants: BTreeMap::new(),
            settled: VecDeque::new(),
        })
    }

    /// Starts the session.
    pub fn start(&mut self, stamp: Stamp, draft: Draft<SessionStarted>) -> Result<Vec<Event>, Misuse> {
        match self.phase {
            Phase::New => {}
            Phase::Running => return Err(Misuse::AlreadyStarted),
            Phase::Ended => return Err(Misuse::Ended),
        }
        let events = self.emit(stamp, |batch| batch.push(draft))?;
        self.phase = Phase::Running;
        Ok(events)
    }

    /// Announces a state such as `thinking`. The session itself announces the states of calls, prompts, output and
    /// handoffs. Rejected while a call or a prompt is open.
    pub fn set_state(&mut self, stamp: Stamp, state: &str, summary: &str) -> Result<Vec<Event>, Misuse> {
        self.running()?;
        self.no_prompt()?;
        self.no_calls()?;
        if matches!(state, "calling_tool" | "awaiting_input" | "writing_output" | "handing_off") {
            return Err(Misuse::ManagedState(state.to_owned()));
        }
        self.emit(stamp, |batch| batch.change(state, summary))
    }

    /// Reports progress; also while a prompt is open, for example the remaining time.
    pub fn report_progress(
        &mut self,
        stamp: Stamp,
        draft: Draft<ProgressUpdated>,
    ) -> Result<Vec<Event>, Misuse> {
        self.running()?;
        self.emit(stamp, |batch| batch.push(draft))
    }

    /// Starts a call that needs no confirmation. The session sets its `tool_call_id`. After a handoff, the calls before
    /// it must have ended.
    pub fn begin_call(
        &mut self,
        stamp: Stamp,
        call: Draft<ToolInvoked>,
    ) -> Result<(CallHandle, Vec<Event>), Misuse> {
        self.running()?;
        if needs_confirmation(&call.body) {
            return Err(Misuse::ConfirmationRequired(call.body.tool));
        }
        let number = self.next_call;
        let started = self.begin(stamp, call, number)?;
        self.next_call += 1;
        Ok(started)
    }

    /// Starts the call of an accepted prompt. Tool, arguments, risk and description must equal those passed to
    /// [`ProducerSession::confirm`]; one acceptance allows one call.
    pub fn begin_confirmed_call(
        &mut self,
        stamp: Stamp,
        call: Draft<ToolInvoked>,
        prompt: PromptHandle,
    ) -> Result<(CallHandle, Vec<Event>), Misuse> {
        self.running()?;
        let Some(grant) = self.grants.get(&prompt.0) else { return Err(Misuse::NotAccepted(prompt.0)) };
        let expected = |body: &ToolInvoked| ToolInvoked { expected_duration_ms: None, ..body.clone() };
        if expected(&grant.call) != expected(&call.body) {
            return Err(Misuse::ArgumentsChanged(prompt.0));
        }
        let started = self.begin(stamp, call, grant.number)?;
        self.grants.remove(&prompt.0);
        Ok(started)
    }

    fn begin(
        &mut self,
        stamp: Stamp,
        call: Draft<ToolInvoked>,
        number: u64,
    ) -> Result<(CallHandle, Vec<Event>), Misuse> {
        self.no_prompt()?;
        if call.body.tool_call_id.is_some() {
            return Err(Misuse::IdGiven("tool_call_id"));
        }
        if self.calls.len() >= PRODUCED_CALLS_MAX {
            return Err(Misuse::LimitReached { what: "calls", most: PRODUCED_CALLS_MAX });
        }
        // After a handoff, the session announces that work continues; the calls before it must have ended.
        let resumes = self.state == "handing_off";
        if resumes {
            self.no_calls()?;
        }
        let tool = call.body.tool.clone();
        let events = self.emit(stamp, |batch| {
            if resumes {
                batch.enter("thinking", &batch.texts.thinking)?;
            }
            batch.enter("calling_tool", &batch.texts.calling_tool)?;
            batch.push(call.tool_call_id(call_id(number)))
        })?;
        self.calls.insert(number, tool);
        Ok((CallHandle(number), events))
    }

    /// Ends a call. After the last open call, the state is `thinking`.
    pub fn end_call(
        &mut self,
        stamp: Stamp,
        call: CallHandle,
        draft: Draft<ToolCompleted>,
    ) -> Result<Vec<Event>, Misuse> {
        self.running()?;
        let Some(tool) = self.calls.get(&call.0) else { return Err(Misuse::CallUnknown(call.0)) };
        if *tool != draft.body.tool {
            return Err(Misuse::ToolRenamed { started: tool.clone(), ended: draft.body.tool });
        }
        if draft.body.tool_call_id.is_some() {
            return Err(Misuse::IdGiven("tool_call_id"));
        }
        let last = self.calls.len() == 1;
        let events = self.emit(stamp, |batch| {
            batch.push(draft.tool_call_id(call_id(call.0)))?;
            if last && batch.state == "calling_tool" {
                batch.change("thinking", &batch.texts.thinking)?;
            }
            Ok(())
        })?;
        self.calls.remove(&call.0);
        Ok(events)
    }

    /// Opens an output of plain text, or of a media type such as `text/markdown`. It emits no event before the first
    /// write.
    pub fn open_output(&mut self, content_type: Option<&str>) -> Result<OutputHandle, Misuse> {
        self.running()?;
        if self.outputs.len() >= PRODUCED_OUTPUTS_MAX {
            return Err(Misuse::LimitReached { what: "outputs", most: PRODUCED_OUTPUTS_MAX });
        }
        let content_type = content_type.map(str::to_owned);
        let number = self.next_output;
        self.outputs.insert(number, OpenOutput { position: 0, started: false, content_type });
        self.next_output += 1;
        Ok(OutputHandle(number))
    }

    /// Writes a chunk of an output that ends at this boundary. Rejected while a call or a prompt is open.
    pub fn write(
        &mut self,
        stamp: Stamp,
        output: OutputHandle,
        chunk: &str,
        hint: Boundary,
    ) -> Result<Vec<Event>, Misuse> {
        self.piece(stamp, output, chunk, |position| build::output(chunk, position, hint))
    }

    /// Writes the last chunk of an output; it may be empty.
    pub fn finish_output(
        &mut self,
        stamp: Stamp,
        output: OutputHandle,
        chunk: &str,
    ) -> Result<Vec<Event>, Misuse> {
        let events = self.piece(stamp, output, chunk, |position| build::last_output(chunk, position))?;
        self.outputs.remove(&output.0);
        Ok(events)
    }

    fn piece(
        &mut self,
        stamp: Stamp,
        output: OutputHandle,
        chunk: &str,
        draft: impl FnOnce(u64) -> Draft<OutputStreaming>,
    ) -> Result<Vec<Event>, Misuse> {
        self.running()?;
        let Some(open) = self.outputs.get(&output.0) else { return Err(Misuse::OutputUnknown(output.0)) };
        self.no_prompt()?;
        self.no_calls()?;
        let draft = open.with_output_id(output.0, draft(open.position));
        let events = self.emit(stamp, |batch| {
            batch.enter("writing_output", &batch.texts.writing_output)?;
            batch.push(draft)
        })?;
        if let Some(open) = self.outputs.get_mut(&output.0) {
            // Positions count characters, not bytes.
            open.position += chunk.chars().count() as u64;
            open.started = true;
        }
        Ok(events)
    }

    /// Requests that another agent or a person continues.
    pub fn hand_off(&mut self, stamp: Stamp, draft: Draft<HandoffRequested>) -> Result<Vec<Event>, Misuse> {
        self.running()?;
        self.no_prompt()?;
        self.emit(stamp, |batch| {
            batch.enter("handing_off", &batch.texts.handing_off)?;
            batch.push(draft)
        })
    }

    /// The last announced state.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Whether the session has ended.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    pub(super) fn running(&self) -> Result<(), Misuse> {
        match self.phase {
            Phase::New => Err(Misuse::NotStarted),
            Phase::Running => Ok(()),
            Phase::Ended => Err(Misuse::Ended),
        }
    }

    pub(super) fn no_prompt(&self) -> Result<(), Misuse> {
        if self.prompt.is_some() { Err(Misuse::PromptOpen) } else { Ok(()) }
    }

    pub(super) fn no_calls(&self) -> Result<(), Misuse> {
        if self.calls.is_empty() { Ok(()) } else { Err(Misuse::CallsOpen(self.calls.len())) }
    }

    /// The time of a stamp, clamped to the range of timestamps and never before the last event.
    pub(super) fn now_ms(&self, stamp: Stamp) -> i64 {
        /// The last millisecond of the year 9999.
        const LAST: i64 = 253_402_300_799_999;
        stamp.now_ms.clamp(0, LAST).max(self.last_ms)
    }

    /// Builds events, and updates the session only if all of them are valid.
    pub(super) fn emit(
        &mut self,
        stamp: Stamp,
        fill: impl FnOnce(&mut Batch<'_>) -> Result<(), Misuse>,
    ) -> Result<Vec<Event>, Misuse> {
        let mut batch = Batch {
            frame: &self.frame,
            texts: &self.texts,
            stamp,
            now_ms: self.now_ms(stamp),
            sequence: self.sequence,
            state: self.state.clone(),
            events: Vec::new(),
        };
        fill(&mut batch)?;
        let Batch { now_ms, sequence, state, events, .. } = batch;
        (self.last_ms, self.sequence, self.state) = (now_ms, sequence, state);
        Ok(events)
    }
}

impl OpenOutput {
    /// Sets the id of the output on a chunk.
    pub(super) fn with_output_id(
        &self,
        number: u64,
        draft: Draft<OutputStreaming>,
    ) -> Draft<OutputStreaming> {
        let draft = draft.output_id(format!("out_{number}"));
        match &self.content_type {
            Some(content_type) => draft.content_type(content_type.clone()),
            None => draft,
        }
    }
}

pub(super) fn call_id(number: u64) -> String {
    format!("call_{number}")
}

/// Whether a call needs its own confirmation.
pub(super) fn needs_confirmation(call: &ToolInvoked) -> bool {
    call.irreversible == Some(true) || call.risk_level == Some(Level::High)
}
