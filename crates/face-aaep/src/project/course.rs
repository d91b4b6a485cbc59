//! The course of a session: its states, its texts, its sentences, its beginning and end. Prompts and calls have files of
//! their own. Knows no envelopes: [`Saying`] has them.

use std::collections::{BTreeMap, BTreeSet};

use recount_aaep::wire::{
    Boundary, CancelledBy, ErrorCategory, OutputStreaming, SessionCancelled, SessionCompleted,
    SessionErrored, SessionStarted, StateChanged, Summaries, Urgency,
};
use recount_event::code::{CODES, Code};
use recount_event::family::run::WaitKind;
use recount_event::family::{assistant, run};
use recount_event::{ForeignId, Payload};

use super::open_call::OpenCall;
use super::open_prompt::OpenPrompt;
use super::saying::Saying;
use super::state::State;
use super::{Tokens, id, text};
use crate::limits;
use crate::speech::{Arg, Key};

/// Where a session is.
#[derive(Debug, Clone)]
pub(super) struct Course {
    pub(super) state: State,
    /// What listeners call the agent.
    pub(super) agent: String,
    has_worker: bool,
    /// What was asked for, for listeners that join.
    pub(super) request: Option<String>,
    /// Open prompts; handoffs are not among them.
    pub(super) prompts: BTreeMap<ForeignId, OpenPrompt>,
    /// Handoffs that nobody has taken or declined.
    pub(super) handoffs: BTreeMap<ForeignId, OpenPrompt>,
    /// Open calls.
    pub(super) calls: BTreeMap<ForeignId, OpenCall>,
    /// Calls of this turn that a question or a handoff names and that have not been invoked yet.
    pub(super) asking_calls: BTreeSet<ForeignId>,
    pub(super) calls_started: u64,
    /// Characters told of each open text, by turn and block.
    outputs: BTreeMap<(u64, u64), u64>,
    answer: Option<String>,
    /// The text that was completed last.
    last_text: Option<String>,
    /// Whether the answer was heard as text, so that the ending need not repeat it.
    answer_was_heard: bool,
    /// When it began, in milliseconds since 1970.
    began: i64,
}

impl Course {
    pub(super) fn new(agent: String) -> Self {
        Course {
            state: State::Idle,
            agent,
            has_worker: false,
            request: None,
            prompts: BTreeMap::new(),
            handoffs: BTreeMap::new(),
            calls: BTreeMap::new(),
            asking_calls: BTreeSet::new(),
            calls_started: 0,
            outputs: BTreeMap::new(),
            answer: None,
            last_text: None,
            answer_was_heard: false,
            began: 0,
        }
    }

    pub(super) fn opens(&mut self, to: &mut Saying<'_>, queued: &run::Queued, resumed: bool) {
        self.began = to.millis();
        let request = text::some_quoted(queued.title.as_deref().or(queued.request_text.as_deref()));
        self.request.clone_from(&request);
        let agent = Arg::Text(&self.agent);
        let summaries = match &request {
            Some(request) => {
                to.say(Key::SessionStarted, &[("agent", agent), ("request", request.as_str().into())])
            }
            None => to.say(Key::SessionStartedPlain, &[("agent", agent)]),
        };
        let mut body = SessionStarted::new();
        body.requested_by = text::some_quoted(queued.requested_by.as_deref());
        body.request_text = text::some_field(queued.request_text.as_deref());
        to.push(body, summaries, Urgency::Normal);
        if resumed {
            self.sentence(to, Key::Resumed, &[]);
        }
    }

    /// What an event of the run says once the session is open.
    pub(super) fn says(&mut self, to: &mut Saying<'_>, payload: &Payload, tokens: Tokens<'_>) {
        match payload {
            Payload::RunStarted(_) if self.has_worker => self.sentence(to, Key::TakenOver, &[]),
            Payload::RunStarted(_) => self.has_worker = true,
            Payload::RunThrottled(held) => {
                let reason = text::quoted(&held.reason);
                self.sentence(
                    to,
                    Key::Throttled,
                    &[("place", held.place.into()), ("reason", reason.as_str().into())],
                );
            }
            Payload::RunWaiting(waiting) => {
                let own = |one: &&run::WaitsFor| one.kind == WaitKind::ClientTool;
                let calls = waiting.waits_for.iter().filter(own).count() as u64;
                if calls > 0 {
                    self.sentence(to, Key::WaitingForApplication, &[("calls", calls.into())]);
                }
            }
            // The answer was said before; that work goes on is for those who want to hear everything.
            Payload::RunContinued(continued) => {
                let summaries = match text::quoted(&continued.by).as_str() {
                    "" => to.say(Key::Continued, &[]),
                    by => to.say(Key::ContinuedBy, &[("by", by.into())]),
                };
                self.changes(to, self.state, summaries, Urgency::Background);
            }
            Payload::GapRunDisconnected(_) => self.sentence(to, Key::Disconnected, &[]),
            Payload::TurnStarted(_) => {
                self.asking_calls.clear();
                self.goes_to(to, State::Thinking);
            }
            Payload::TurnFailed(failed) => {
                let key = if failed.will_retry { Key::TurnRetried } else { Key::TurnFailed };
                self.sentence(to, key, &[("message", text::quoted(&failed.message).as_str().into())]);
            }
            Payload::AssistantTextDelta(piece) => self.writes(to, piece),
            Payload::AssistantTextComplete(whole) => self.has_written(to, whole),
            Payload::AssistantToolCallProposed(_) => self.goes_to(to, State::Deciding),
            Payload::AssistantFinalAnswer(answer) => {
                self.answer = text::some_field(Some(&answer.summary));
                self.answer_was_heard = self.answer.is_some() && self.answer == self.last_text;
            }
            Payload::ContextCompacted(_) => self.sentence(to, Key::Compacted, &[]),
            // Its message is the message of the ending, which follows.
            Payload::WorkspaceFailed(_) => self.sentence(to, Key::WorkspaceFailed, &[]),
            Payload::CostBudgetWarning(warning) => {
                self.sentence(to, Key::BudgetWarning, &[("percent", warning.threshold_pct.into())]);
            }
            Payload::CostBudgetExceeded(_) => self.sentence(to, Key::BudgetExceeded, &[]),
            Payload::ChildRunStarted(child) => match text::some_quoted(child.summary.as_deref()) {
                Some(summary) => {
                    self.sentence(to, Key::ChildStartedSaying, &[("summary", summary.as_str().into())]);
                }
                None => self.sentence(to, Key::ChildStarted, &[]),
            },
            Payload::RunFinished(finished) => self.finishes(to, finished),
            Payload::RunFailed(failed) => self.fails(to, failed),
            Payload::RunCancelled(cancelled) => self.is_cancelled(to, cancelled),
            other => {
                let _silent = self.of_prompts(to, other, tokens) || self.of_tools(to, other);
            }
        }
    }

    /// Enters a state in which nothing waits for an answer or for a tool. Where something does, the state is theirs.
    fn goes_to(&mut self, to: &mut Saying<'_>, state: State) {
        if self.prompts.is_empty() && self.calls.is_empty() {
            self.enters(to, state);
        }
    }

    /// Enters a state, unless it is in it.
    pub(super) fn enters(&mut self, to: &mut Saying<'_>, state: State) {
        if self.state != state {
            let summaries = to.say(state.key(), &[]);
            self.changes(to, state, summaries, Urgency::Background);
        }
    }

    pub(super) fn changes(
        &mut self,
        to: &mut Saying<'_>,
        state: State,
        summaries: Summaries,
        urgency: Urgency,
    ) {
        let body = StateChanged::new(self.state.word().into(), state.word().into());
        to.push(body, summaries, urgency);
        self.state = state;
    }

    /// Says something; the state stays.
    pub(super) fn sentence(&mut self, to: &mut Saying<'_>, key: Key, args: &[(&'static str, Arg<'_>)]) {
        let summaries = to.say(key, args);
        self.changes(to, self.state, summaries, Urgency::Normal);
    }

    fn writes(&mut self, to: &mut Saying<'_>, piece: &assistant::TextDelta) {
        if !piece.delta.is_empty() {
            self.tells(to, (piece.turn_index, piece.block_index), &piece.delta, false);
        }
    }

    /// The text as it was recorded counts; what of it was not told in pieces is told now.
    fn has_written(&mut self, to: &mut Saying<'_>, whole: &assistant::TextComplete) {
        let block = (whole.turn_index, whole.block_index);
        let told = self.outputs.get(&block).copied();
        let from = usize::try_from(told.unwrap_or(0)).unwrap_or(usize::MAX);
        let rest = whole.text.char_indices().nth(from).map_or("", |(at, _)| &whole.text[at..]);
        if told.is_some() || !rest.is_empty() {
            self.tells(to, block, rest, true);
        }
        self.last_text = text::some_field(Some(&whole.text));
        if whole.aborted == Some(true) {
            self.sentence(to, Key::TextCut, &[]);
        }
    }

    fn tells(&mut self, to: &mut Saying<'_>, block: (u64, u64), said: &str, complete: bool) {
        self.goes_to(to, State::WritingOutput);
        let mut position = self.outputs.get(&block).copied().unwrap_or(0);
        let pieces = text::pieces(said);
        let last = pieces.len() - 1;
        for (at, piece) in pieces.into_iter().enumerate() {
            let complete = complete && at == last;
            let mut body = OutputStreaming::new(piece.to_owned(), position, complete);
            body.output_id = Some(id::output_id(block.0, block.1));
            body.content_type = Some("text/markdown".into());
            // Where it may be spoken is found for each listener, from all of the text.
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

    fn finishes(&mut self, to: &mut Saying<'_>, finished: &run::Finished) {
        self.closes(to);
        let seconds =
            finished.duration_ms.unwrap_or_else(|| to.millis().abs_diff(self.began)).div_ceil(1_000);
        let agent = self.agent.clone();
        let answer = self.answer.as_deref().map(text::quoted);
        let mut args: Vec<(&'static str, Arg<'_>)> = vec![
            ("agent", agent.as_str().into()),
            ("seconds", seconds.into()),
            ("calls", self.calls_started.into()),
        ];
        let summaries = match &answer {
            Some(answer) if !self.answer_was_heard => {
                args.push(("answer", answer.as_str().into()));
                to.say(Key::SessionCompletedSaying, &args)
            }
            _ => to.say(Key::SessionCompleted, &args),
        };
        let mut body = SessionCompleted::new();
        body.duration_ms = finished.duration_ms.filter(|duration| *duration <= DAY_MS);
        body.tool_invocations_count = Some(self.calls_started);
        body.output_summary = self.answer.take();
        to.push(body, summaries, Urgency::Normal);
    }

    fn fails(&mut self, to: &mut Saying<'_>, failed: &run::Failed) {
        self.closes(to);
        let message = text::quoted(&failed.message);
        let message = if message.is_empty() { failed.code.clone() } else { message };
        let code = text::quoted(&failed.code);
        let args = [("message", message.as_str().into()), ("code", code.as_str().into())];
        let summaries = to.say(Key::SessionErrored, &args);
        let mut body = SessionErrored::new(category(failed));
        body.error_code = error_code(&failed.code);
        body.recoverable = Some(failed.retriable);
        let remedy = if failed.retriable { Key::RemedyRetry } else { Key::RemedyNone };
        body.remediation_hint = to.say(remedy, &[]).normal;
        to.push(body, summaries, Urgency::Critical);
    }

    fn is_cancelled(&mut self, to: &mut Saying<'_>, cancelled: &run::Cancelled) {
        self.closes(to);
        let reason = text::quoted(&cancelled.reason);
        let summaries = match reason.as_str() {
            "" => to.say(Key::SessionCancelledPlain, &[]),
            reason => to.say(Key::SessionCancelled, &[("reason", reason.into())]),
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

    /// The record cannot be read any further. What is open in it stays as it is: nothing is known of how it ended.
    pub(super) fn breaks_off(&mut self, to: &mut Saying<'_>) {
        self.completes_texts(to);
        let mut body = SessionErrored::new(ErrorCategory::Permanent);
        body.error_code = error_code(Code::RunDamaged.as_str());
        body.recoverable = Some(false);
        body.remediation_hint = to.say(Key::RemedyDamaged, &[]).normal;
        let summaries = to.say(Key::Damaged, &[]);
        to.push(body, summaries, Urgency::Critical);
    }

    /// No more comes of any text.
    fn completes_texts(&mut self, to: &mut Saying<'_>) {
        for block in self.outputs.keys().copied().collect::<Vec<_>>() {
            self.tells(to, block, "", true);
        }
    }

    /// Before an ending nothing stays open. Runs close what they open; accounts of others may not have.
    fn closes(&mut self, to: &mut Saying<'_>) {
        self.completes_texts(to);
        if !self.prompts.is_empty() {
            self.prompts.clear();
            let summaries = to.say(Key::QuestionWithdrawn, &[]);
            self.changes(to, self.after_prompts(), summaries, Urgency::Normal);
        }
        self.abandons_calls(to);
    }

    /// What this call asks is heard as a prompt.
    pub(super) fn is_asking(&mut self, call: Option<&ForeignId>) {
        if self.asking_calls.len() < limits::ASKING_CALLS_MAX {
            self.asking_calls.extend(call.cloned());
        }
    }

    /// What the agent does when no prompt is open.
    pub(super) fn after_prompts(&self) -> State {
        match (self.calls.is_empty(), self.handoffs.is_empty()) {
            (false, _) => State::CallingTool,
            (true, false) => State::HandingOff,
            (true, true) => State::Thinking,
        }
    }
}

/// The longest duration that the protocol can say.
pub(super) const DAY_MS: u64 = 86_400_000;

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

/// A code in the protocol's form, where it has one.
fn error_code(code: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = code.bytes().next()?;
    let formed = first.is_ascii_alphabetic() && (2..=64).contains(&code.len()) && code.bytes().all(fits);
    formed.then(|| code.to_ascii_uppercase())
}
