//! Projects the state changes, output texts, start and end of a session. Prompts and tool calls are in files of their
//! own.
//!
//! Must not depend on envelopes: [`EventBuilder`] adds them. Start with [`Course::apply`].

use std::collections::{BTreeMap, BTreeSet};

use recount_aaep::markdown;
use recount_aaep::wire::{
    Boundary, CancelledBy, ErrorCategory, OutputStreaming, SessionCancelled, SessionCompleted,
    SessionErrored, SessionStarted, StateChanged, Summaries, Urgency,
};
use recount_event::code::{CODES, Code};
use recount_event::family::run::WaitKind;
use recount_event::family::{assistant, run};
use recount_event::{ForeignId, Payload, RunId};
use serde_json::{Map, Value};

use super::event_builder::EventBuilder;
use super::open_call::OpenCall;
use super::open_prompt::OpenPrompt;
use super::state::State;
use super::{Tokens, id, text};
use crate::limits;
use crate::speech::{Arg, Key};

/// The state of a session so far.
#[derive(Debug, Clone)]
pub(super) struct Course {
    pub(super) state: State,
    /// The name of the agent in sentences.
    pub(super) agent: String,
    has_worker: bool,
    /// The request that the run was created with, for listeners that join.
    pub(super) request: Option<String>,
    /// The session that started this one.
    parent: Option<String>,
    /// Open prompts; handoffs are not among them.
    pub(super) prompts: BTreeMap<ForeignId, OpenPrompt>,
    /// Handoffs that are neither accepted nor declined.
    pub(super) handoffs: BTreeMap<ForeignId, OpenPrompt>,
    /// Open calls.
    pub(super) calls: BTreeMap<ForeignId, OpenCall>,
    /// Calls whose permission was requested and that are not invoked yet.
    pub(super) prompted_calls: BTreeSet<ForeignId>,
    /// Calls of this turn that a question or a handoff names and that are not invoked yet.
    pub(super) asking_calls: BTreeSet<ForeignId>,
    pub(super) calls_started: u64,
    /// Characters emitted of each open text, by turn and block.
    outputs: BTreeMap<(u64, u64), u64>,
    answer: Option<String>,
    /// The error message that was spoken last, so that the next event need not repeat it.
    pub(super) reported: Option<String>,
    /// The text that was completed last.
    last_text: Option<String>,
    /// Whether the answer was emitted as text, so that the ending need not repeat it.
    answer_was_emitted: bool,
    /// When the session started, in milliseconds since 1970.
    began: i64,
}

impl Course {
    pub(super) fn new(agent: String) -> Self {
        Course {
            state: State::Idle,
            agent,
            has_worker: false,
            request: None,
            parent: None,
            prompts: BTreeMap::new(),
            handoffs: BTreeMap::new(),
            calls: BTreeMap::new(),
            prompted_calls: BTreeSet::new(),
            asking_calls: BTreeSet::new(),
            calls_started: 0,
            outputs: BTreeMap::new(),
            answer: None,
            reported: None,
            last_text: None,
            answer_was_emitted: false,
            began: 0,
        }
    }

    pub(super) fn open_session(&mut self, to: &mut EventBuilder<'_>, queued: &run::Queued, resumed: bool) {
        self.began = to.millis();
        let request = text::some_quoted(queued.title.as_deref().or(queued.request_text.as_deref()));
        self.request.clone_from(&request);
        let agent = Arg::Text(&self.agent);
        let summaries = match &request {
            Some(request) => {
                to.render(Key::SessionStarted, &[("agent", agent), ("request", request.as_str().into())])
            }
            None => to.render(Key::SessionStartedPlain, &[("agent", agent)]),
        };
        let mut body = SessionStarted::new();
        body.requested_by = text::some_quoted(queued.requested_by.as_deref());
        body.request_text = text::some_field(queued.request_text.as_deref());
        to.push(body, summaries, Urgency::Normal);
        self.parent = parent(queued).map(|run| id::session_id(run).as_str().to_owned());
        self.name_parent(to);
        if resumed {
            self.push_sentence(to, Key::Resumed, &[]);
        }
    }

    /// Adds the parent of this session to the last event.
    pub(super) fn name_parent(&self, to: &mut EventBuilder<'_>) {
        if let Some(parent) = &self.parent {
            to.extend_last(Map::from_iter([("parent_session_id".to_owned(), parent.as_str().into())]));
        }
    }

    /// Projects an event of the run while the session is open.
    pub(super) fn apply(&mut self, to: &mut EventBuilder<'_>, payload: &Payload, tokens: Tokens<'_>) {
        match payload {
            Payload::RunStarted(_) if self.has_worker => self.push_sentence(to, Key::TakenOver, &[]),
            Payload::RunStarted(_) => self.has_worker = true,
            Payload::RunThrottled(held) => {
                let reason = text::quoted(&held.reason).replace('_', " ");
                self.push_sentence(
                    to,
                    Key::Throttled,
                    &[("place", held.place.into()), ("reason", reason.as_str().into())],
                );
            }
            Payload::RunWaiting(waiting) => {
                let own = |one: &&run::WaitsFor| one.kind == WaitKind::ClientTool;
                let calls = waiting.waits_for.iter().filter(own).count() as u64;
                if calls > 0 {
                    self.push_sentence(to, Key::WaitingForApplication, &[("calls", calls.into())]);
                }
            }
            // The answer was emitted earlier; the continuation matters only at the most verbose level.
            Payload::RunContinued(continued) => {
                let summaries = match text::quoted(&continued.by).as_str() {
                    "" => to.render(Key::Continued, &[]),
                    by => to.render(Key::ContinuedBy, &[("by", by.into())]),
                };
                self.change_state(to, self.state, summaries, Urgency::Background);
            }
            Payload::GapRunDisconnected(_) => self.push_sentence(to, Key::Disconnected, &[]),
            Payload::TurnStarted(_) => {
                self.asking_calls.clear();
                self.enter_unless_blocked(to, State::Thinking);
            }
            Payload::TurnFailed(failed) => {
                let message = text::quoted(&failed.message);
                let args: [(&'static str, Arg<'_>); 1] = [("message", message.as_str().into())];
                match (failed.will_retry, self.reported.as_ref() == Some(&message)) {
                    (true, true) => self.push_sentence(to, Key::TurnRetriedPlain, &[]),
                    (true, false) => self.push_sentence(to, Key::TurnRetried, &args),
                    // The ending follows, with the same message.
                    (false, true) => {}
                    (false, false) => self.push_sentence(to, Key::TurnFailed, &args),
                }
                self.reported = Some(message);
            }
            Payload::AssistantTextDelta(piece) => self.append_text(to, piece),
            Payload::AssistantTextComplete(whole) => self.complete_text(to, whole),
            Payload::AssistantToolCallProposed(_) => self.enter_unless_blocked(to, State::Deciding),
            Payload::AssistantFinalAnswer(answer) => {
                self.answer = text::some_field(Some(&answer.summary));
                self.answer_was_emitted = self.answer.is_some() && self.answer == self.last_text;
            }
            Payload::ContextCompacted(_) => self.push_sentence(to, Key::Compacted, &[]),
            // Its message is the message of the ending, which follows.
            Payload::WorkspaceFailed(_) => self.push_sentence(to, Key::WorkspaceFailed, &[]),
            Payload::CostBudgetWarning(warning) => {
                self.push_sentence(to, Key::BudgetWarning, &[("percent", warning.threshold_pct.into())]);
            }
            Payload::CostBudgetExceeded(_) => self.push_sentence(to, Key::BudgetExceeded, &[]),
            Payload::ChildRunStarted(child) => {
                match text::some_quoted(child.summary.as_deref()) {
                    Some(summary) => {
                        self.push_sentence(
                            to,
                            Key::ChildStartedWithSummary,
                            &[("summary", summary.as_str().into())],
                        );
                    }
                    None => self.push_sentence(to, Key::ChildStarted, &[]),
                }
                if let Ok(run) = child.child_run_id.parse::<RunId>() {
                    let session = id::session_id(run).as_str().into();
                    to.extend_last(Map::from_iter([("child_session_id".to_owned(), session)]));
                }
            }
            Payload::RunFinished(finished) => self.complete_session(to, finished),
            Payload::RunFailed(failed) => self.fail_session(to, failed),
            Payload::RunCancelled(cancelled) => self.cancel_session(to, cancelled),
            other => {
                let _silent = self.apply_prompt_event(to, other, tokens) || self.apply_tool_event(to, other);
            }
        }
    }

    /// Enters a state, unless an open prompt or a running call determines it.
    fn enter_unless_blocked(&mut self, to: &mut EventBuilder<'_>, state: State) {
        if self.prompts.is_empty() && self.calls.is_empty() {
            self.enter(to, state);
        }
    }

    /// Enters a state, unless the session is in it.
    pub(super) fn enter(&mut self, to: &mut EventBuilder<'_>, state: State) {
        if self.state != state {
            let summaries = to.render(state.key(), &[]);
            self.change_state(to, state, summaries, Urgency::Background);
        }
    }

    pub(super) fn change_state(
        &mut self,
        to: &mut EventBuilder<'_>,
        state: State,
        summaries: Summaries,
        urgency: Urgency,
    ) {
        let body = StateChanged::new(self.state.word().into(), state.word().into());
        to.push(body, summaries, urgency);
        self.state = state;
    }

    /// Emits a sentence without changing the state.
    pub(super) fn push_sentence(
        &mut self,
        to: &mut EventBuilder<'_>,
        key: Key,
        args: &[(&'static str, Arg<'_>)],
    ) {
        let summaries = to.render(key, args);
        self.change_state(to, self.state, summaries, Urgency::Normal);
    }

    fn append_text(&mut self, to: &mut EventBuilder<'_>, piece: &assistant::TextDelta) {
        if !piece.delta.is_empty() {
            self.push_text(to, (piece.turn_index, piece.block_index), &piece.delta, false);
        }
    }

    /// Completes a text with the characters that were not emitted as pieces. The recorded text is authoritative.
    fn complete_text(&mut self, to: &mut EventBuilder<'_>, whole: &assistant::TextComplete) {
        let block = (whole.turn_index, whole.block_index);
        let emitted = self.outputs.get(&block).copied();
        let from = usize::try_from(emitted.unwrap_or(0)).unwrap_or(usize::MAX);
        let rest = whole.text.char_indices().nth(from).map_or("", |(at, _)| &whole.text[at..]);
        if emitted.is_some() || !rest.is_empty() {
            self.push_text(to, block, rest, true);
        }
        self.last_text = text::some_field(Some(&whole.text));
        if whole.aborted == Some(true) {
            self.push_sentence(to, Key::TextCut, &[]);
        }
    }

    fn push_text(&mut self, to: &mut EventBuilder<'_>, block: (u64, u64), text: &str, complete: bool) {
        self.enter_unless_blocked(to, State::WritingOutput);
        let mut position = self.outputs.get(&block).copied().unwrap_or(0);
        let pieces = text::pieces(text);
        let last = pieces.len() - 1;
        for (at, piece) in pieces.into_iter().enumerate() {
            let complete = complete && at == last;
            let mut body = OutputStreaming::new(piece.to_owned(), position, complete);
            body.output_id = Some(id::output_id(block.0, block.1));
            body.content_type = Some("text/markdown".into());
            // The boundaries for speech are determined for each listener, from the whole text.
            body.coalesce_hint = Some(if complete { Boundary::Completion } else { Boundary::None });
            position += piece.chars().count() as u64;
            to.push(body, Summaries::default(), Urgency::Normal);
        }
        if complete {
            self.outputs.remove(&block);
        } else {
            self.outputs.insert(block, position);
        }
    }

    fn complete_session(&mut self, to: &mut EventBuilder<'_>, finished: &run::Finished) {
        self.close_open_items(to);
        let seconds =
            finished.duration_ms.unwrap_or_else(|| to.millis().abs_diff(self.began)).div_ceil(1_000);
        let agent = self.agent.clone();
        let answer = self.answer.as_deref().map(|answer| text::quoted(&markdown::plain(answer)));
        let mut args: Vec<(&'static str, Arg<'_>)> = vec![
            ("agent", agent.as_str().into()),
            ("seconds", seconds.into()),
            ("calls", self.calls_started.into()),
        ];
        let summaries = match &answer {
            Some(answer) if !self.answer_was_emitted => {
                args.push(("answer", answer.as_str().into()));
                to.render(Key::SessionCompletedWithAnswer, &args)
            }
            _ => to.render(Key::SessionCompleted, &args),
        };
        let mut body = SessionCompleted::new();
        body.duration_ms = finished.duration_ms.filter(|duration| *duration <= DAY_MS);
        body.tool_invocations_count = Some(self.calls_started);
        body.output_summary = self.answer.take();
        to.push(body, summaries, Urgency::Normal);
    }

    fn fail_session(&mut self, to: &mut EventBuilder<'_>, failed: &run::Failed) {
        self.close_open_items(to);
        let message = text::quoted(&failed.message);
        let message = if message.is_empty() { failed.code.clone() } else { text::without_ticks(message) };
        let code = text::quoted(&failed.code);
        let args = [("message", message.as_str().into()), ("code", code.as_str().into())];
        let summaries = to.render(Key::SessionErrored, &args);
        let mut body = SessionErrored::new(category(failed));
        body.error_code = error_code(&failed.code);
        body.recoverable = Some(failed.retriable);
        let remedy = if failed.retriable { Key::RemedyRetry } else { Key::RemedyNone };
        body.remediation_hint = to.render(remedy, &[]).normal;
        to.push(body, summaries, Urgency::Critical);
    }

    fn cancel_session(&mut self, to: &mut EventBuilder<'_>, cancelled: &run::Cancelled) {
        self.close_open_items(to);
        let reason = text::quoted(&cancelled.reason);
        let summaries = match reason.as_str() {
            "" => to.render(Key::SessionCancelledPlain, &[]),
            reason => to.render(Key::SessionCancelled, &[("reason", reason.into())]),
        };
        let mut body = SessionCancelled::new(match cancelled.by.as_str() {
            "policy" => CancelledBy::Producer,
            "timeout" => CancelledBy::Timeout,
            "system" | "shutdown" => CancelledBy::System,
            _ => CancelledBy::User,
        });
        body.partial_result = self.answer.take();
        to.push(body, summaries, Urgency::Normal);
    }

    /// Ends the session because the next event cannot be read. Open calls and prompts stay open: their outcome is
    /// unknown.
    pub(super) fn end_damaged(&mut self, to: &mut EventBuilder<'_>) {
        self.complete_open_texts(to);
        let mut body = SessionErrored::new(ErrorCategory::Permanent);
        body.error_code = error_code(Code::RunDamaged.as_str());
        body.recoverable = Some(false);
        body.remediation_hint = to.render(Key::RemedyDamaged, &[]).normal;
        let summaries = to.render(Key::Damaged, &[]);
        to.push(body, summaries, Urgency::Critical);
    }

    /// Marks every open text as complete.
    fn complete_open_texts(&mut self, to: &mut EventBuilder<'_>) {
        for block in self.outputs.keys().copied().collect::<Vec<_>>() {
            self.push_text(to, block, "", true);
        }
    }

    /// Closes open texts, prompts and calls before an ending. Own runs close them; external runs may not.
    fn close_open_items(&mut self, to: &mut EventBuilder<'_>) {
        self.complete_open_texts(to);
        if !self.prompts.is_empty() {
            self.prompts.clear();
            let summaries = to.render(Key::QuestionWithdrawn, &[]);
            self.change_state(to, self.after_prompts(), summaries, Urgency::Normal);
        }
        self.abandon_calls(to);
    }

    /// Records that a prompt represents this call, so that the call itself is not projected.
    pub(super) fn note_asking_call(&mut self, call: Option<&ForeignId>) {
        if self.asking_calls.len() < limits::ASKING_CALLS_MAX {
            self.asking_calls.extend(call.cloned());
        }
    }

    /// The state when no prompt is open.
    pub(super) fn after_prompts(&self) -> State {
        match (self.calls.is_empty(), self.handoffs.is_empty()) {
            (false, _) => State::CallingTool,
            (true, false) => State::HandingOff,
            (true, true) => State::Thinking,
        }
    }
}

/// The longest duration that the protocol can carry.
pub(super) const DAY_MS: u64 = 86_400_000;

/// The run that started this one.
fn parent(queued: &run::Queued) -> Option<RunId> {
    let config: Value = serde_json::from_str(queued.config.as_ref()?.text()).ok()?;
    config.pointer("/spawned_by/run_id")?.as_str()?.parse().ok()
}

fn category(failed: &run::Failed) -> ErrorCategory {
    let known = CODES.iter().find(|row| row.name == failed.code).map(|row| ErrorCategory::from(row.aaep));
    match (failed.code.as_str(), known) {
        // A person has to take over, or to allow more.
        ("handoff_timed_out" | "budget_exceeded", _) => ErrorCategory::RequiresUser,
        (_, Some(known)) => known,
        _ if failed.retriable => ErrorCategory::Transient,
        _ => ErrorCategory::Permanent,
    }
}

/// A code in the protocol's form, if it fits that form.
fn error_code(code: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = code.bytes().next()?;
    let formed = first.is_ascii_alphabetic() && (2..=64).contains(&code.len()) && code.bytes().all(fits);
    formed.then(|| code.to_ascii_uppercase())
}
