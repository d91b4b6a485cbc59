//! Plays a script as an external run: reports its events, waits for the outcome of its prompts, and continues with
//! that. See [`ScriptPlayer::play`]. It must not know the listeners.

use std::time::Duration;

use recount_aaep::wire::{Level, Reversibility};
use recount_aaep_scenarios::scripts::{Clarify, Confirm, Script, Step, Tool};
use recount_engine::{BatchId, Engine, Error, Events};
use recount_event::family::approval::Decision;
use recount_event::{ForeignId, Payload, RunId, door};
use serde_json::{Value, json};

use crate::limits;

/// Why a script stopped before its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlayError {
    #[error(transparent)]
    Engine(#[from] Error),
    #[error("a script has a malformed event: {0}")]
    Malformed(String),
    #[error("the run ended while it waited for an answer")]
    Ended,
}

/// The outcome of a prompt.
enum PromptOutcome {
    Approved,
    /// Holds the answer as text.
    Answered(String),
    /// Refused, timed out or withdrawn.
    Declined,
}

/// One run that is played.
pub(super) struct ScriptPlayer {
    engine: Engine,
    run: RunId,
    producer: ForeignId,
    events: Events,
    prompt_wait: Duration,
    batches: u64,
    /// Calls, prompts and turns so far, for their names.
    named: u64,
}

impl ScriptPlayer {
    pub(super) async fn new(
        engine: &Engine,
        run: RunId,
        prompt_wait: Duration,
    ) -> Result<ScriptPlayer, Error> {
        let producer =
            ForeignId::parse("conformance-agent").unwrap_or_else(|why| unreachable!("letters: {why}"));
        let events = engine.read().follow_events(run, None).await?;
        Ok(ScriptPlayer { engine: engine.clone(), run, producer, events, prompt_wait, batches: 0, named: 0 })
    }

    pub(super) async fn play(mut self, script: &Script) -> Result<(), PlayError> {
        self.report(&[("run.started", json!({}))]).await?;
        for step in script.steps {
            match step {
                // The states of a run follow from its events.
                Step::State(..) => {}
                Step::Progress(steps) => self.progress(*steps).await?,
                Step::Tool(tool) => {
                    let call = self.name("call");
                    self.call(tool, &call).await?;
                }
                Step::Output(pieces) => self.output(pieces).await?,
                Step::Story(text) => {
                    let words: Vec<&str> = text.split_inclusive(' ').collect();
                    self.output(&words).await?;
                }
                Step::Confirm(confirm) => self.confirm(confirm).await?,
                Step::Clarify(clarify) => self.clarify(clarify).await?,
                Step::Handoff => self.hand_over().await?,
                Step::Fail => return self.fail().await,
            }
        }
        self.report(&[("run.finished", json!({ "final_status": "completed" }))]).await
    }

    async fn report(&mut self, events: &[(&str, Value)]) -> Result<(), PlayError> {
        let drafts = events.iter().map(|(name, data)| door::draft(name, &data.to_string()));
        let drafts: Result<Vec<_>, _> = drafts.collect();
        let drafts = drafts.map_err(|why| PlayError::Malformed(why.to_string()))?;
        let triple = BatchId { producer: self.producer.clone(), epoch: 0, seq: self.batches };
        self.batches += 1;
        self.engine.write().ingest(self.run, triple, drafts).await?;
        Ok(())
    }

    /// A name that is unique in the store, as the names of prompts must be.
    fn name(&mut self, prefix: &str) -> String {
        self.named += 1;
        format!("{prefix}_{}_{}", self.run.ulid(), self.named)
    }

    async fn call(&mut self, tool: &Tool, call: &str) -> Result<(), PlayError> {
        let invoked = json!({
            "tool_call_id": call, "tool_name": tool.name, "args_summary": tool.args,
            "risk_level": risk_text(&tool.risk), "irreversible": tool.irreversible,
        });
        self.report(&[("tool.invoked", invoked)]).await?;
        let mut ended = json!({ "tool_call_id": call, "tool_name": tool.name });
        let name = if tool.times_out {
            tokio::time::sleep(limits::CONFORMANCE_TOOL_WAIT).await;
            ended["error"] = tool.done.into();
            "tool.timed_out"
        } else {
            ended["summary"] = tool.done.into();
            "tool.completed"
        };
        self.report(&[(name, ended)]).await
    }

    /// Reports one text in these pieces; a single piece has no deltas.
    async fn output(&mut self, pieces: &[&str]) -> Result<(), PlayError> {
        let turn = self.named;
        self.named += 1;
        self.report(&[("turn.started", json!({ "turn_index": turn }))]).await?;
        for piece in pieces.iter().filter(|_| pieces.len() > 1) {
            let delta = json!({ "turn_index": turn, "block_index": 0, "delta": piece });
            self.report(&[("assistant.text_delta", delta)]).await?;
        }
        let whole = json!({ "turn_index": turn, "block_index": 0, "text": pieces.concat() });
        let completed = json!({ "turn_index": turn, "stop_reason": "end_turn" });
        self.report(&[("assistant.text_complete", whole), ("turn.completed", completed)]).await
    }

    /// Reports a todo list whose steps complete one after the other.
    async fn progress(&mut self, steps: u64) -> Result<(), PlayError> {
        let call = self.name("call");
        self.report(&[("tool.invoked", json!({ "tool_call_id": call, "tool_name": "todo_write" }))]).await?;
        for step in 0..steps {
            let todos: Vec<Value> = (0..steps)
                .map(|number| {
                    let status = match number {
                        done if done < step => "completed",
                        now if now == step => "in_progress",
                        _ => "pending",
                    };
                    json!({ "content": format!("Step {}.", number + 1), "status": status })
                })
                .collect();
            let updated = json!({ "tool_call_id": call, "tool_name": "todo_write", "todos": todos });
            self.report(&[("tool.todo_write.updated", updated)]).await?;
        }
        let completed =
            json!({ "tool_call_id": call, "tool_name": "todo_write", "summary": "All steps are done." });
        self.report(&[("tool.completed", completed)]).await
    }

    async fn confirm(&mut self, confirm: &Confirm) -> Result<(), PlayError> {
        let (call, prompt) = (self.name("call"), self.name("appr"));
        let irreversible = confirm.reversibility == Reversibility::Irreversible;
        let requested = json!({
            "approval_id": prompt, "tool_call_id": call, "kind": confirm.tool.name, "summary": confirm.action,
            "action": confirm.action, "consequence": confirm.consequence, "risk_level": risk_text(&confirm.tool.risk),
            "reversibility": if irreversible { "irreversible" } else { "reversible" },
            "irreversible": irreversible, "timeout_seconds": self.prompt_wait.as_secs(), "default_decision": "reject",
        });
        self.report(&[("approval.requested", requested)]).await?;
        match self.outcome(&prompt).await? {
            PromptOutcome::Approved => self.call(confirm.tool, &call).await,
            PromptOutcome::Answered(_) | PromptOutcome::Declined => Ok(()),
        }
    }

    async fn clarify(&mut self, clarify: &Clarify) -> Result<(), PlayError> {
        let prompt = self.name("clar");
        let choice = |(value, label): &(&str, &str)| json!({ "value": value, "label": label });
        let requested = json!({
            "clarification_id": prompt, "question": clarify.question, "context": clarify.context,
            "choices": clarify.choices.iter().map(choice).collect::<Vec<_>>(),
            "timeout_seconds": self.prompt_wait.as_secs(),
        });
        self.report(&[("clarification.requested", requested)]).await?;
        let PromptOutcome::Answered(answer) = self.outcome(&prompt).await? else { return Ok(()) };
        // The text is from the script: the label of the choice, never the bytes of the answer.
        let chosen =
            clarify.choices.iter().find(|(value, _)| *value == answer).map_or("", |(_, label)| label);
        self.output(&[&format!("{chosen}: {}", clarify.answers)]).await
    }

    /// Ends the run with an open handoff; the ending withdraws it. Another system would continue here.
    async fn hand_over(&mut self) -> Result<(), PlayError> {
        // The transcript makes an event as large as every transport must carry.
        let page = "The customer asks for something that only a person may decide. "
            .repeat(recount_aaep_scenarios::limits::SCRIPTED_PAGE_SENTENCES);
        let transcript = vec![page; recount_aaep_scenarios::limits::SCRIPTED_PAGES];
        let requested = json!({
            "handoff_id": self.name("hand"), "reason": "This is for a person to decide.", "target_kind": "human",
            "packaged_context": { "transcript": transcript }, "urgency_for_handoff": "medium",
        });
        self.report(&[("handoff.requested", requested)]).await
    }

    async fn fail(&mut self) -> Result<(), PlayError> {
        let failed = json!({
            "code": "tool_unknown", "message": "The tool that was asked for does not exist.", "retriable": false,
        });
        self.report(&[("run.failed", failed)]).await
    }

    /// Waits for the outcome of a prompt.
    async fn outcome(&mut self, prompt: &str) -> Result<PromptOutcome, PlayError> {
        while let Some(events) = self.events.next().await? {
            for event in events {
                let (id, outcome) = match event.payload() {
                    Payload::ApprovalResolved(resolved) => {
                        let approved = resolved.decision == Decision::Approved;
                        (
                            &resolved.approval_id,
                            if approved { PromptOutcome::Approved } else { PromptOutcome::Declined },
                        )
                    }
                    Payload::ApprovalTimedOut(late) => (&late.approval_id, PromptOutcome::Declined),
                    Payload::ClarificationAnswered(answered) => {
                        let text = serde_json::from_str(answered.response.text()).unwrap_or_default();
                        (&answered.clarification_id, PromptOutcome::Answered(text))
                    }
                    Payload::ClarificationTimedOut(late) => (&late.clarification_id, PromptOutcome::Declined),
                    _ => continue,
                };
                if id.as_str() == prompt {
                    return Ok(outcome);
                }
            }
        }
        Err(PlayError::Ended)
    }
}

fn risk_text(risk: &Level) -> &'static str {
    match risk {
        Level::High => "high",
        Level::Medium => "medium",
        _ => "low",
    }
}
