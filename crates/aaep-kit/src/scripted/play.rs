//! Plays a script: builds its events, waits for replies, and continues accordingly. It does not depend on listeners or
//! transports.

use std::sync::Arc;
use std::time::Duration;

use recount_aaep::Kind;
use recount_aaep::build::{self, Draft, Frame};
use recount_aaep::wire::{
    Body, Boundary, Decision, ErrorCategory, HandoffTarget, Level, Progress, ReplyToken, Reversibility,
    ToolStatus, Urgency,
};
use recount_world::Kind as TaskKind;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::Fault;
use super::hub::{Hub, Recipients, fresh, fresh_event};
use super::identity::{AGENT, producer};
use super::open_prompt::PromptOutcome;
use super::subscription::ProducerSurface;
use crate::limits;
use crate::scenario;
use crate::scenario::scripts::{self, Clarify, Confirm, Script, Step, Tool};

/// The reason why the builder accepts these events.
const WRITTEN: &str = "the scripts follow the rules, which their tests check";

/// Starts the session that a text requests; returns its id.
pub(super) fn begin(hub: &Arc<Hub>, text: &str) -> String {
    let session = if hub.is(Fault::SessionIdReused) {
        "sess_00000000000000000000000000000001".to_owned()
    } else {
        fresh(&hub.world, "sess")
    };
    let script = scripts::script(scripts::scenario(text, hub.behaviour.sends_prompts));
    let frame = Frame::new(&session, AGENT, "en-US").expect(WRITTEN).with_producer(producer());
    if hub.behaviour.announce_sessions {
        for surface in [ProducerSurface::Legacy, ProducerSurface::LegacySocket] {
            for id in hub.ids(surface) {
                let announcement = json!({"kind": "session", "session_id": session}).to_string();
                hub.with(&id, |sub| sub.append(None, announcement));
            }
        }
    }
    let mut player = SessionPlayer {
        hub: hub.clone(),
        frame,
        input: text.to_owned(),
        state: "idle",
        last_ms: 0,
        calls: 0,
        undone: false,
        prompt: None,
    };
    let mut stopped = hub.stopped.subscribe();
    hub.world.tasks.spawn(TaskKind::Effect, |mut shutdown| async move {
        tokio::select! {
            () = shutdown.requested() => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
            () = player.play(&script) => {}
        }
        player.hub.end_session();
    });
    session
}

/// A running session.
struct SessionPlayer {
    hub: Arc<Hub>,
    frame: Frame,
    input: String,
    state: &'static str,
    /// The time of the last event; later events are never before it.
    last_ms: i64,
    calls: u64,
    /// Whether an action was not performed.
    undone: bool,
    /// The last prompt event.
    prompt: Option<recount_aaep::Event>,
}

impl SessionPlayer {
    async fn play(&mut self, script: &Script) {
        let began_ms = self.hub.now_ms();
        self.emit(build::session_started(script.begins)).await;
        for step in script.steps {
            match step {
                Step::State(to, summary) => self.change(to, summary).await,
                Step::Progress(steps) => self.progress(*steps).await,
                Step::Tool(tool) => {
                    let call = fresh(&self.hub.world, "call");
                    self.call(tool, &call).await;
                }
                Step::Output(pieces) => self.output(pieces).await,
                Step::Story(text) => self.stream_text(text).await,
                Step::Confirm(confirm) => self.confirm(confirm).await,
                Step::Clarify(clarify) => self.clarify(clarify).await,
                Step::Handoff => self.hand_over().await,
                Step::Fail => return self.fail().await,
            }
        }
        if matches!(self.state, "thinking" | "calling_tool" | "writing_output") {
            self.change("idle", "Done.").await;
        }
        let summary = if self.undone { "Nothing was done." } else { script.ends };
        let took_ms = self.hub.now_ms().saturating_sub(began_ms);
        self.emit(build::session_completed(summary).duration_ms(took_ms).tool_invocations_count(self.calls))
            .await;
    }

    /// Builds an event.
    fn make<B: Into<Body>>(&mut self, draft: Draft<B>) -> recount_aaep::Event {
        // A clock that steps back must not show.
        self.last_ms = self.last_ms.max(i64::try_from(self.hub.now_ms()).unwrap_or(i64::MAX));
        let id = fresh_event(&self.hub.world);
        self.frame.event(id.as_str(), self.last_ms, draft).expect(WRITTEN)
    }

    async fn emit<B: Into<Body>>(&mut self, draft: Draft<B>) {
        let event = self.make(draft);
        self.hub.publish(event, Recipients::All);
        if self.hub.is(Fault::SlowReaderStalls) {
            self.hub.wait_for_readers().await;
        }
    }

    async fn change(&mut self, to: &'static str, summary: &str) {
        let from = std::mem::replace(&mut self.state, to);
        self.emit(build::state_changed(from, to, summary)).await;
    }

    async fn rest(&self, times: u32) {
        let pause = Duration::from_millis(self.hub.behaviour.pause_ms) * times;
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    async fn progress(&mut self, steps: u64) {
        for step in 1..=steps {
            let far = Progress {
                percent: Some((step * 100 / steps).into()),
                step: Some(step),
                total_steps: Some(steps),
                description: Some(format!("Step {step} of {steps}.")),
            };
            let summary = format!("Step {step} of {steps} is done.");
            self.emit(build::progress(far).summary(summary).urgency(Urgency::Background)).await;
            self.rest(1).await;
        }
    }

    async fn call(&mut self, tool: &Tool, call: &str) {
        self.calls += 1;
        let args = if self.hub.is(Fault::SecretsEchoed) { self.input.as_str() } else { tool.args };
        let invoked = build::tool_invoked(tool.name, tool.summary)
            .args_summary(args)
            .risk_level(tool.risk.clone())
            .irreversible(tool.irreversible)
            .tool_call_id(call);
        self.emit(invoked).await;
        let done = if tool.times_out {
            self.rest(limits::SCRIPTED_SLOW_TOOL_PAUSES).await;
            build::tool_completed(tool.name, ToolStatus::Timeout, tool.done).error_message(tool.done)
        } else {
            build::tool_completed(tool.name, ToolStatus::Success, tool.done)
        };
        self.emit(done.tool_call_id(call)).await;
    }

    async fn output(&mut self, pieces: &[&str]) {
        let id = fresh(&self.hub.world, "out");
        let mut position = 0;
        for (at, piece) in pieces.iter().enumerate() {
            let draft = if at + 1 == pieces.len() {
                build::last_output(*piece, position)
            } else {
                build::output(*piece, position, Boundary::Sentence)
            };
            self.emit(draft.output_id(id.as_str())).await;
            position += piece.chars().count() as u64;
        }
    }

    async fn stream_text(&mut self, text: &str) {
        let id = fresh(&self.hub.world, "out");
        let mut position = 0;
        let words: Vec<&str> =
            text.split_inclusive("\n\n").flat_map(|paragraph| paragraph.split_inclusive(' ')).collect();
        for word in words {
            self.word(word, &mut position, &id).await;
            self.rest(1).await;
        }
        self.emit(build::last_output("", position).output_id(id)).await;
    }

    async fn word(&mut self, word: &str, position: &mut u64, id: &str) {
        let hint = if word.ends_with('\n') {
            Boundary::Paragraph
        } else if word.trim_end().ends_with('.') {
            Boundary::Sentence
        } else {
            Boundary::Word
        };
        self.emit(build::output(word, *position, hint).output_id(id)).await;
        *position += word.chars().count() as u64;
    }

    fn token(&self) -> ReplyToken {
        let drawn = if self.hub.is(Fault::TokenReused) {
            "rpl_00000000000000000000000000000001".to_owned()
        } else {
            fresh(&self.hub.world, "rpl")
        };
        ReplyToken::new(drawn).expect("a prefix and hexadecimal digits")
    }

    fn permission(&self, confirm: &Confirm, call: &str) -> Draft<recount_aaep::wire::AwaitingConfirmation> {
        let timeout = self.hub.behaviour.timeout_seconds;
        build::confirmation(confirm.action, confirm.consequence, self.token(), timeout)
            .risk_level(confirm.tool.risk.clone())
            .irreversible(confirm.reversibility == Reversibility::Irreversible)
            .reversibility(confirm.reversibility.clone())
            .allowed_replies(vec![Decision::Accept, Decision::Reject])
            .for_call(confirm.tool.name, call)
    }

    async fn confirm(&mut self, confirm: &Confirm) {
        let call = fresh(&self.hub.world, "call");
        if !self.hub.has_replier(Kind::AwaitingConfirmation) {
            self.undone = true;
            return self.change("deciding", "No subscriber can answer, so it is not done.").await;
        }
        let unasked = self.hub.is(Fault::IrreversibleUnasked) && confirm.tool.irreversible;
        if unasked {
            self.act(confirm, &call).await;
        }
        self.change("awaiting_input", "Waiting for your answer.").await;
        let prompt = self.permission(confirm, &call);
        let (token, answer) = self.send_prompt(prompt);
        if confirm.twice {
            if self.hub.is(Fault::SecondPrompt) {
                let again = self.permission(confirm, &call);
                self.send_prompt(again);
            }
            let waits = Progress {
                description: Some("The same booking is already waiting for your answer.".into()),
                ..Progress::default()
            };
            self.emit(build::progress(waits).summary("The same booking is already waiting for your answer."))
                .await;
        }
        if self.hub.is(Fault::NotBlocking) {
            self.act(confirm, &call).await;
        }
        let outcome = self.wait(&token, answer).await;
        self.follow(&outcome).await;
        match outcome {
            _ if unasked || self.hub.is(Fault::NotBlocking) => {}
            PromptOutcome::Accepted if self.hub.is(Fault::NotDoneAfterAccept) => {}
            PromptOutcome::Accepted => self.act(confirm, &call).await,
            PromptOutcome::TimedOut if self.hub.is(Fault::DoneAfterTimeout) => self.act(confirm, &call).await,
            PromptOutcome::Rejected if self.hub.is(Fault::DoneAfterReject) => self.act(confirm, &call).await,
            _ => self.undone = true,
        }
        self.second_answer(confirm, &outcome).await;
    }

    /// Sends the outcome of a prompt to all subscriptions.
    async fn follow(&mut self, outcome: &PromptOutcome) {
        let (to, summary) = match outcome {
            PromptOutcome::Accepted => ("calling_tool", "You said yes."),
            PromptOutcome::Rejected => ("deciding", "You said no, so it is not done."),
            PromptOutcome::Answered(_) => ("writing_output", "Thank you for the answer."),
            PromptOutcome::TimedOut => ("deciding", "There was no answer in time, so it is not done."),
            PromptOutcome::NoReplier => {
                ("deciding", "No subscriber remains that can answer, so it is not done.")
            }
        };
        if self.hub.is(Fault::NoFollowUp) && to == "deciding" {
            return;
        }
        if self.hub.is(Fault::ResolutionUnreported) {
            let from = std::mem::replace(&mut self.state, to);
            let event = self.make(build::state_changed(from, to, summary));
            return self.hub.publish(event, Recipients::Answerer);
        }
        self.change(to, summary).await;
    }

    /// Performs the accepted action.
    async fn act(&mut self, confirm: &Confirm, call: &str) {
        if self.state != "calling_tool" {
            self.change("calling_tool", "Doing it.").await;
        }
        self.call(confirm.tool, call).await;
    }

    /// Waits for a second reply, which only a faulty producer accepts.
    async fn second_answer(&mut self, confirm: &Confirm, outcome: &PromptOutcome) {
        let again = match outcome {
            PromptOutcome::TimedOut => self.hub.is(Fault::LateReplyTaken),
            _ => self.hub.is(Fault::SecondReplyTaken),
        };
        let Some(prompt) = self.prompt.take_if(|_| again) else { return };
        if self.hub.await_second_reply(prompt).await == Some(PromptOutcome::Accepted) {
            let call = fresh(&self.hub.world, "call");
            self.undone = false;
            self.act(confirm, &call).await;
        }
    }

    async fn clarify(&mut self, clarify: &Clarify) {
        if !self.hub.has_replier(Kind::AwaitingClarification) {
            return self.change("deciding", clarify.unavailable).await;
        }
        self.change("awaiting_input", "Waiting for your answer.").await;
        let timeout = self.hub.behaviour.timeout_seconds;
        let mut prompt =
            build::clarification(clarify.question, self.token(), timeout).context(clarify.context);
        for (value, label) in clarify.choices {
            prompt = prompt.choice(*value, *label);
        }
        let (token, answer) = self.send_prompt(prompt);
        match self.wait(&token, answer).await {
            PromptOutcome::Answered(value) => {
                self.follow(&PromptOutcome::Answered(value.clone())).await;
                // The label is the offered one, never the received value.
                let label =
                    clarify.choices.iter().find(|(known, _)| *known == value).map_or("", |(_, label)| label);
                self.output(&[&format!("{label}: {}", clarify.answers)]).await;
            }
            _ if self.hub.is(Fault::NoFollowUp) => {}
            _ => self.change("deciding", clarify.unavailable).await,
        }
    }

    fn send_prompt<B: Into<Body>>(&mut self, draft: Draft<B>) -> (String, PromptWait) {
        let event = self.make(draft);
        let sent_ms = event.envelope.timestamp.millis();
        self.prompt = Some(event.clone());
        let timeout = self.hub.behaviour.timeout_seconds;
        let (token, outcome) = self.hub.open_prompt(event, timeout).expect("the event is a prompt");
        let sent_ms = u64::try_from(sent_ms).unwrap_or(0);
        (token, PromptWait { outcome, sent_ms, timeout_ms: u64::from(timeout) * 1_000 })
    }

    /// Waits until a prompt is answered or expires, or no subscriber remains that could answer.
    async fn wait(&mut self, token: &str, prompt_wait: PromptWait) -> PromptOutcome {
        let PromptWait { mut outcome, sent_ms, timeout_ms } = prompt_wait;
        let mut ticks = self.hub.ticks();
        let due_ms = match self.hub.behaviour.fault {
            Some(Fault::TimeoutLate) => sent_ms + timeout_ms + limits::SCRIPTED_LATE_MS,
            Some(Fault::TimeoutEarly) => sent_ms + timeout_ms / 2,
            Some(Fault::TimeoutNever) => u64::MAX,
            Some(Fault::QuestionNeverResolved) if self.hub.is_question(token) => u64::MAX,
            _ => sent_ms + timeout_ms,
        };
        // A long prompt has reminders at half and at a tenth of its remaining time.
        let long = timeout_ms > limits::SCRIPTED_COUNTDOWN_ABOVE_MS;
        let mut reminders = Vec::new();
        if long {
            reminders.extend([(timeout_ms / 10 * 9, "A tenth"), (timeout_ms / 2, "Half")]);
        }
        loop {
            ticks.borrow_and_update();
            if let Ok(outcome) = outcome.try_recv() {
                return outcome;
            }
            let now = self.hub.now_ms();
            let answerable_until = self.hub.answerable_until_ms(token);
            let outlives = answerable_until.is_none() && self.hub.is(Fault::PromptOutlivesReaders);
            if !outlives && (now >= due_ms || answerable_until.is_none()) {
                let over = if now >= due_ms { PromptOutcome::TimedOut } else { PromptOutcome::NoReplier };
                return match self.hub.take(token) {
                    Some(_) => over,
                    // The reply came first.
                    None => outcome.await.unwrap_or(over),
                };
            }
            if let Some((_, part)) = reminders.pop_if(|(after, _)| now >= sent_ms + *after) {
                let summary = format!("{part} of the time to answer is left.");
                let left = Progress { description: Some(summary.clone()), ..Progress::default() };
                self.emit(build::progress(left).summary(summary).eta_ms(due_ms - now)).await;
                continue;
            }
            let reminder = reminders.last().map_or(u64::MAX, |(after, _)| sent_ms + after);
            let look_ms = if outlives {
                u64::MAX
            } else {
                due_ms.min(answerable_until.unwrap_or(due_ms)).min(reminder)
            };
            tokio::select! {
                biased;
                answer = &mut outcome => return answer.unwrap_or(PromptOutcome::TimedOut),
                changed = ticks.changed() => if changed.is_err() { return PromptOutcome::TimedOut },
                () = self.hub.world.sleep_until_ms(look_ms) => {}
            }
        }
    }

    async fn hand_over(&mut self) {
        // The context of a handoff: an event as large as every transport must carry.
        let page = "The customer asks for something that only a person may decide. "
            .repeat(scenario::limits::SCRIPTED_PAGE_SENTENCES);
        let transcript = vec![Value::from(page); scenario::limits::SCRIPTED_PAGES];
        let context = Map::from_iter([("transcript".to_owned(), Value::from(transcript))]);
        let handoff = build::handoff(
            "This is for a person to decide.",
            HandoffTarget::Human,
            "A person is asked to take over.",
        );
        self.emit(handoff.packaged_context(context).urgency_for_handoff(Level::Medium)).await;
    }

    async fn fail(&mut self) {
        let error =
            build::session_errored(ErrorCategory::Permanent, "The tool that was asked for does not exist.")
                .error_code("TOOL_UNKNOWN")
                .recoverable(false)
                .remediation_hint("Ask for a tool that exists.");
        self.emit(error).await;
    }
}

/// A prompt that was sent and not settled.
struct PromptWait {
    outcome: oneshot::Receiver<PromptOutcome>,
    sent_ms: u64,
    timeout_ms: u64,
}
