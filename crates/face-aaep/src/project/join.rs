//! What a listener receives that joins a run in progress: a summary of its state, and the open prompts again. Pure.
//!
//! Must not depend on subscriptions or clocks: the caller passes the time. Start with [`Projector::join_summary`];
//! [`informational`] is a prompt for listeners that cannot reply.

use std::sync::Arc;

use recount_aaep::wire::{Producer, StateChanged, Summaries, Timestamp, Urgency};
use recount_aaep::{Body, Event};
use recount_event::{ForeignId, RunId};

use super::course::Course;
use super::event_builder::{EventBuilder, Frame};
use super::open_prompt::OpenPrompt;
use super::prompts::bounded;
use super::state::State;
use super::{OURS, Place, Projector, SessionPhase, session_id, text};
use crate::limits;
use crate::speech::{Arg, Key, Speech};

/// Why a listener has not received the run from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinReason {
    /// It joins now.
    Joined,
    /// It received the run earlier and missed events since then.
    Missed,
}

/// See [`Projector::join_summary`].
#[derive(Debug, Clone)]
pub struct JoinSummary {
    /// A `state.changed` from and to the present state, with a sentence that summarises the run.
    pub summary: Event,
    /// The open prompts and handoffs, oldest first, each with its remaining time.
    pub prompts: Vec<RepeatedPrompt>,
}

/// An open prompt, emitted again.
#[derive(Debug, Clone)]
pub struct RepeatedPrompt {
    pub prompt: ForeignId,
    /// The event that is emitted again.
    pub opened: Option<Place>,
    pub event: Event,
    opened_ms: i64,
    deadline_ms: Option<i64>,
}

impl RepeatedPrompt {
    /// The prompt for a listener that goes on after an event of this time: later events have later times.
    pub fn at(&self, millis: i64) -> Event {
        let millis = millis.max(self.opened_ms);
        let mut event = self.event.clone();
        event.envelope.timestamp = Timestamp::of_millis(millis);
        set_seconds_left(&mut event.body, self.deadline_ms, millis);
        event
    }
}

impl JoinSummary {
    /// The events in the order in which they are sent.
    pub fn into_events(self) -> impl Iterator<Item = Event> {
        std::iter::once(self.summary).chain(self.prompts.into_iter().map(|repeated| repeated.event))
    }
}

impl Projector {
    /// Whether a prompt or a handoff has no outcome.
    pub(crate) fn awaits_reply(&self) -> bool {
        self.phase == SessionPhase::Open && self.course.unsettled().next().is_some()
    }

    /// Summarises the run at a time: `None` before the session has started and after it has ended.
    ///
    /// The ids have parts from [`Place::JOIN_PART`] on, which no event of the log has. So a stream cannot be resumed
    /// after them, and they are sent without an SSE id. The projection of the next event of the log follows.
    pub fn join_summary(&self, now_ms: u64, reason: JoinReason) -> Option<JoinSummary> {
        if self.phase != SessionPhase::Open {
            return None;
        }
        let millis = self.millis.max(i64::try_from(now_ms).unwrap_or(i64::MAX));
        let mut to = EventBuilder::new(&self.frame, self.run, self.sequence, millis);
        to.begin_at_part(Place::JOIN_PART);
        let state = self.course.state;
        let summaries = self.course.join_sentence(&to, reason);
        to.push(StateChanged::new(state.word().into(), state.word().into()), summaries, Urgency::Normal);
        self.course.name_parent(&mut to);
        let summary = to.finish().remove(0);
        let mut open: Vec<(&ForeignId, &OpenPrompt, &Arc<Event>)> = self
            .course
            .unsettled()
            .filter_map(|(id, prompt)| prompt.shown.as_ref().map(|shown| (id, prompt, shown)))
            .collect();
        open.sort_by_key(|(_, prompt, _)| prompt.sequence);
        let prompts = (Place::JOIN_PART + 1..).zip(open).map(|(part, (id, prompt, shown))| {
            let mut event = Event::clone(shown);
            event.envelope.event_id = Place { run: self.run, sequence: self.sequence, part }.event_id();
            let opened = Place::parse(shown.envelope.event_id.as_str());
            let (opened_ms, deadline_ms) = (shown.envelope.timestamp.millis(), prompt.deadline_ms);
            let repeated = RepeatedPrompt { prompt: id.clone(), opened, event, opened_ms, deadline_ms };
            RepeatedPrompt { event: repeated.at(millis), ..repeated }
        });
        let prompts = prompts.collect();
        Some(JoinSummary { summary, prompts })
    }
}

impl Course {
    /// Prompts and handoffs without an outcome.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = (&ForeignId, &OpenPrompt)> {
        self.prompts.iter().chain(&self.handoffs)
    }

    /// Keeps the prompt that was just emitted, so that it can be emitted again.
    pub(super) fn remember_prompt(&self, to: &EventBuilder<'_>, deadline_ms: Option<i64>) -> OpenPrompt {
        let kept = self.unsettled().filter(|(_, prompt)| prompt.shown.is_some()).count();
        let shown = to.last().filter(|_| kept < limits::PROMPTS_REPEATED_MAX).cloned().map(Arc::new);
        OpenPrompt { sequence: to.sequence(), deadline_ms, shown }
    }

    fn join_sentence(&self, to: &EventBuilder<'_>, reason: JoinReason) -> Summaries {
        let state = self.state_sentence(to);
        let state = ("state", Arg::Text(&state));
        let agent = ("agent", Arg::Text(&self.agent));
        match (reason, &self.request) {
            (JoinReason::Missed, _) => to.render(Key::Missed, &[agent, state]),
            (JoinReason::Joined, None) => to.render(Key::Joined, &[agent, state]),
            (JoinReason::Joined, Some(request)) => {
                let request = text::ended(request.clone());
                to.render(Key::JoinedRequest, &[agent, ("request", request.as_str().into()), state])
            }
        }
    }

    fn state_sentence(&self, to: &EventBuilder<'_>) -> String {
        let mut calls = self.calls.values();
        match (self.state, calls.next(), calls.len() as u64) {
            (State::AwaitingInput, ..) if !self.prompts.is_empty() => {
                to.sentence(Key::OpenPrompts, &[("prompts", (self.prompts.len() as u64).into())])
            }
            (State::CallingTool, Some(call), 0) => {
                to.sentence(Key::ToolInvoked, &[("tool", text::quoted(&call.tool_name).as_str().into())])
            }
            (State::CallingTool, Some(_), others) => {
                to.sentence(Key::ToolsRunning, &[("calls", (others + 1).into())])
            }
            (state, ..) => to.sentence(state.key(), &[]),
        }
    }
}

/// A prompt counts its seconds from its own timestamp, so a repeated prompt gets the remaining seconds.
fn set_seconds_left(body: &mut Body, deadline_ms: Option<i64>, now_ms: i64) {
    let Some(deadline_ms) = deadline_ms else { return };
    let left = bounded(u64::try_from(deadline_ms.saturating_sub(now_ms) / 1_000).unwrap_or(0));
    if let Some((_, seconds)) = body.prompt_mut() {
        *seconds = left;
    }
}

/// What a listener receives for a run whose events are no longer stored.
pub fn aged_out(run: RunId, speech: &'static Speech, now_ms: u64) -> Event {
    let frame = Frame::new(speech, session_id(run), Producer::named(OURS));
    let mut to = EventBuilder::new(&frame, run, 0, i64::try_from(now_ms).unwrap_or(i64::MAX));
    to.begin_at_part(Place::JOIN_PART);
    let state = State::Idle.word();
    let summaries = to.render(Key::AgedOut, &[]);
    to.push(StateChanged::new(state.into(), state.into()), summaries, Urgency::Normal);
    to.finish().remove(0)
}

/// A prompt for listeners that cannot reply: a sentence without a reply token. `None` for events that are not prompts.
pub fn informational(prompt: &Event) -> Option<Event> {
    let tag = prompt.envelope.localization_hints.as_ref().and_then(|hints| hints.primary_language.as_deref());
    let speech = Speech::of(tag.unwrap_or_default());
    let summaries = match &prompt.body {
        Body::AwaitingConfirmation(ask) => {
            let (action, consequence) =
                (text::ended(ask.action.clone()), text::ended(ask.consequence.clone()));
            let args = [("action", action.as_str().into()), ("consequence", consequence.as_str().into())];
            let irreversible = ask.irreversible == Some(true);
            let key =
                if irreversible { Key::ConfirmationOfOthersIrreversible } else { Key::ConfirmationOfOthers };
            speech.render(key, &args)
        }
        Body::AwaitingClarification(ask) => {
            speech.render(Key::ClarificationOfOthers, &[("question", ask.question.as_str().into())])
        }
        _ => return None,
    };
    let state = State::AwaitingInput.word();
    let mut envelope = prompt.envelope.clone();
    envelope.urgency = Some(Urgency::Normal);
    let body = StateChanged::new(state.into(), state.into()).into();
    Some(Event { envelope, summaries, body, other: Vec::new() })
}
