//! One turn: asks the model, tells what it says while it says it, and writes down what it came to.
//!
//! A turn that fails is tried again where that may help, and every failed attempt is told. Look at
//! [`Worker::turn`]. Budgets stand in `budget`, what becomes of calls in `calls`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use recount_event::family::assistant::{FinalAnswer, ToolCallProposed};
use recount_event::family::error::Upstream;
use recount_event::family::run::CheckpointSaved;
use recount_event::family::turn::{Completed, Failed, Started, StopReason};
use recount_event::{Draft, Json, Payload, door};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::agent::Chosen;
use crate::limits;
use crate::model::{Failure, Piece, Reply, Request, Secret, Usage};
use crate::said::Saying;
use crate::worker::{Done, Worker};

/// What an attempt brought.
enum Attempt {
    Answered(Box<Answer>),
    /// `told`: some of it stands in the log, so that the turn has to be failed before it is begun again.
    Failed {
        failure: Failure,
        told: bool,
    },
}

/// A whole answer, told up to what is still to be reported with the end of the turn.
struct Answer {
    saying: Saying,
    calls: Vec<Wanted>,
    stop: StopReason,
    usage: Usage,
}

/// A call as the model wrote it.
pub(crate) struct Wanted {
    pub(crate) provider_call_id: String,
    pub(crate) name: String,
    pub(crate) input: String,
}

impl Worker {
    /// Begins a turn, or begins one again, and sees it to its end. `opening` is what stands in the log before it and was
    /// not reported yet.
    pub(crate) async fn turn(&mut self, mut opening: Vec<Draft>) -> Done<()> {
        if self.halts(&mut opening).await? {
            return Ok(());
        }
        let most = self.order.max_turns.unwrap_or(limits::TURNS_DEFAULT);
        if self.desk.state().turns_completed() >= most {
            let message = format!("the model went on for {most} turns without coming to an end");
            return self.fail_behind(opening, "turn_limit", message).await;
        }
        if self.lacks_workspace() && !self.provision(&mut opening).await? {
            return Ok(());
        }
        let chosen = match self.agent.choose(&self.queued) {
            Ok(chosen) => chosen,
            Err(message) => return self.fail_behind(opening, "model_unknown", message).await,
        };
        let key = match self.key().await? {
            Ok(key) => key,
            Err(message) => return self.fail_behind(opening, "secret_lost", message).await,
        };
        let tokens = self.prepare(&chosen, &mut opening);
        let index = self.begin(&chosen, opening, tokens).await?;
        let request = self.request_for(&chosen, key).await;
        let began = recount_world::moment();
        let mut index = index;
        for attempt in 1.. {
            match self.attempt(&chosen, &request, index).await? {
                Attempt::Answered(answer) => {
                    let took = began.elapsed();
                    return self.complete(&chosen, index, answer, took).await;
                }
                Attempt::Failed { failure, told } => {
                    let again = failure.retriable
                        && attempt < limits::ATTEMPTS_MAX
                        && failure.retry_after.is_none_or(|wait| wait <= limits::RETRY_AFTER_MAX);
                    index = self.failed_attempt(&chosen, index, attempt, &failure, told, again).await?;
                    if !again {
                        return Ok(());
                    }
                    self.pause(attempt, failure.retry_after).await;
                }
            }
        }
        Ok(())
    }

    /// Writes `turn.started`, and before it what there is to say first.
    async fn begin(&mut self, chosen: &Chosen, mut opening: Vec<Draft>, tokens: u64) -> Done<u64> {
        let state = self.desk.state();
        if state.turns_completed() > 0 {
            let checkpoint = CheckpointSaved::new(self.desk.mint("ckpt_"));
            opening.push(Payload::RunCheckpointSaved(Box::new(checkpoint)).into());
        }
        let index = state.retry_turn().unwrap_or_else(|| state.next_turn_index());
        opening.push(turn_started(chosen, index, tokens));
        self.report(opening).await?;
        Ok(index)
    }

    /// Asks once, and reports what comes as it comes.
    async fn attempt(&mut self, chosen: &Chosen, request: &Arc<Request>, index: u64) -> Done<Attempt> {
        let redactor = self.desk.redactor().clone();
        let mut saying = Saying::new(index, self.next_block, redactor);
        saying.tells_thinking = self.order.thinking;
        saying.key = request.key.as_ref().and_then(Secret::searched);
        let mut reply = chosen.provides.begin(request.clone());
        let mut watch = self.desk.watch();
        let mut heard = Heard { calls: Vec::new(), over: None };
        let mut told = false;
        while heard.over.is_none() || saying.has_more() {
            if heard.over.is_none() && !saying.has_more() {
                tokio::select! {
                    biased;
                    () = watch.ended() => return Err(recount_engine::Left::Ended),
                    piece = reply.next() => heard.take(piece, &mut saying),
                    () = until(saying.release_due()) => saying.release(recount_world::moment()),
                }
                // What has come with it already is told with it.
                while heard.over.is_none()
                    && !saying.is_full()
                    && let Some(piece) = reply.next().now_or_never()
                {
                    heard.take(piece, &mut saying);
                }
                continue;
            }
            if let Some(Ok(_)) = heard.over {
                // The rest is reported with the end of the turn.
                break;
            }
            told = true;
            let drafts = saying.take();
            // While this is under way, what comes gathers.
            let events = listen(self.desk.report(drafts), &mut *reply, &mut saying, &mut heard).await?;
            self.see(&events);
        }
        self.next_block = saying.next_block();
        match heard.over {
            Some(Ok((stop, usage))) => {
                Ok(Attempt::Answered(Box::new(Answer { saying, calls: heard.calls, stop, usage })))
            }
            Some(Err(failure)) => Ok(Attempt::Failed { failure, told }),
            None => {
                let message = "the provider said nothing more and did not finish".to_owned();
                let failure =
                    Failure { code: "model_cut", message, status: None, retriable: true, retry_after: None };
                Ok(Attempt::Failed { failure, told })
            }
        }
    }

    /// Tells of an attempt that came to nothing. Answers the index under which the turn goes on, if it does.
    async fn failed_attempt(
        &mut self,
        chosen: &Chosen,
        index: u64,
        attempt: u64,
        failure: &Failure,
        told: bool,
        again: bool,
    ) -> Done<u64> {
        let mut upstream = Upstream::new(chosen.provider.clone(), failure.message.clone(), failure.retriable);
        upstream.status = failure.status.map(u64::from);
        upstream.attempt = Some(attempt);
        upstream.max_attempts = Some(limits::ATTEMPTS_MAX);
        let mut drafts = vec![Payload::ErrorUpstream(Box::new(upstream)).into()];
        if told || !again {
            // Texts that were begun are closed as cut off.
            drafts.extend(self.desk.state().cut_texts().into_iter().map(Draft::from));
            let failed = Failed::new(index, failure.code.to_owned(), failure.message.clone(), again);
            drafts.push(Payload::TurnFailed(Box::new(failed)).into());
        }
        if !again {
            drafts.push(self.failed(failure.code, failure.message.clone(), failure.retriable));
        } else if told {
            drafts.push(turn_started(chosen, index, self.conversation.tokens_estimate()));
        }
        self.report(drafts).await?;
        Ok(index)
    }

    /// Waits before the next attempt, unless the run ends meanwhile.
    async fn pause(&self, attempt: u64, retry_after: Option<Duration>) {
        let doubled = 1_u32 << attempt.saturating_sub(1).min(8);
        let wait = retry_after.unwrap_or(limits::BACK_OFF * doubled);
        let mut watch = self.desk.watch();
        tokio::select! {
            biased;
            () = watch.ended() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Writes down what the turn came to: its last words, its calls, its figures, the budget, and where nothing is
    /// left to do, the ending.
    async fn complete(
        &mut self,
        chosen: &Chosen,
        index: u64,
        answer: Box<Answer>,
        took: Duration,
    ) -> Done<()> {
        let Answer { mut saying, mut calls, stop, usage } = *answer;
        for wanted in &mut calls {
            wanted.name =
                self.agent.meant(&self.order, &wanted.name).unwrap_or(std::mem::take(&mut wanted.name));
        }
        let mut drafts = saying.take();
        let mut sealed = Vec::new();
        let only = calls.first().filter(|_| calls.len() == 1).map(|wanted| tool_name(&wanted.name));
        let called = calls.len();
        for wanted in calls {
            let (proposed, original) = self.proposed(index, saying.masked(wanted));
            sealed.push((proposed.tool_call_id.clone(), original));
            drafts.push(Payload::AssistantToolCallProposed(Box::new(proposed)).into());
        }
        let last = called == 0;
        let stop = match (stop, last) {
            (StopReason::EndTurn, false) => StopReason::ToolUse,
            (StopReason::ToolUse, true) => StopReason::EndTurn,
            (stop, _) => stop,
        };
        let cost = self.agent.cost(&chosen.provider, &chosen.model, usage);
        let mut completed = Completed::new(index, stop);
        completed.input_tokens = Some(usage.input_tokens);
        completed.output_tokens = Some(usage.output_tokens);
        completed.cached_input_tokens = Some(usage.cached_input_tokens);
        completed.cost_micros_usd = cost;
        completed.duration_ms = u64::try_from(took.as_millis()).ok();
        completed.tool_calls = Some(called as u64);
        if last && stop == StopReason::EndTurn {
            let summary = shortened(&saying.whole());
            drafts.push(Payload::AssistantFinalAnswer(Box::new(FinalAnswer::new(index, summary))).into());
        }
        drafts.push(Payload::TurnCompleted(Box::new(completed)).into());
        self.tick(&mut drafts, usage, cost.unwrap_or(0), last).await?;
        if last {
            drafts.push(self.finished_with_turn(stop, cost.unwrap_or(0)));
        }
        let only = only.filter(|_| stop == StopReason::ToolUse);
        let only = sealed.first().map(|(id, _)| id.clone()).zip(only);
        self.keep_originals(&mut drafts, sealed).await?;
        let halts = drafts.iter().any(|draft| matches!(draft.payload, Payload::CostBudgetExceeded(_)));
        if let Some((id, name)) = only.filter(|_| !halts) {
            drafts.extend(self.begun_at_once(id, name, index).await?);
        }
        self.report(drafts).await
    }

    /// The call for the log, and what it really asks for.
    fn proposed(&self, index: u64, wanted: Wanted) -> (ToolCallProposed, Value) {
        let original = read_input(&wanted.input);
        let input = Json::of(&original).unwrap_or_else(|_| empty());
        let id = self.desk.mint("call_");
        let mut proposed = ToolCallProposed::new(index, id, tool_name(&wanted.name), input);
        proposed.provider_call_id = Some(wanted.provider_call_id);
        (proposed, original)
    }
}

fn turn_started(chosen: &Chosen, index: u64, tokens: u64) -> Draft {
    let mut started = Started::new(index);
    started.model = Some(chosen.model.clone());
    started.provider = Some(chosen.provider.clone());
    started.input_tokens_estimate = Some(tokens);
    Payload::TurnStarted(Box::new(started)).into()
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Listens to the model while a report is under way.
async fn listen(
    report: impl Future<Output = Done<Vec<recount_event::Event>>>,
    reply: &mut dyn Reply,
    saying: &mut Saying,
    heard: &mut Heard,
) -> Done<Vec<recount_event::Event>> {
    tokio::pin!(report);
    loop {
        tokio::select! {
            biased;
            done = &mut report => return done,
            piece = reply.next(), if heard.over.is_none() && !saying.is_full() => heard.take(piece, saying),
        }
    }
}

/// What came of the model beside its texts.
struct Heard {
    calls: Vec<Wanted>,
    over: Option<Result<(StopReason, Usage), Failure>>,
}

impl Heard {
    fn take(&mut self, piece: Result<Piece, Failure>, saying: &mut Saying) {
        match piece {
            Ok(Piece::Text(text)) => saying.text(&text, recount_world::moment()),
            Ok(Piece::Thinking(text)) => saying.thinking(&text, recount_world::moment()),
            Ok(Piece::Call { provider_call_id, name, input }) => {
                saying.close();
                if self.calls.len() == limits::CALLS_PER_TURN_MAX {
                    let message =
                        format!("the model made more than {} calls in one turn", limits::CALLS_PER_TURN_MAX);
                    let failure = Failure {
                        code: "model_malformed",
                        message,
                        status: None,
                        retriable: false,
                        retry_after: None,
                    };
                    self.over = Some(Err(failure));
                } else {
                    self.calls.push(Wanted { provider_call_id, name, input });
                }
            }
            Ok(Piece::Finish { stop, usage }) => {
                saying.close();
                self.over = Some(Ok((stop, usage)));
            }
            Err(failure) => self.over = Some(Err(failure)),
        }
    }
}

/// What stands under this key in the place of an input that cannot be read.
pub(crate) const RAW: &str = "raw";

/// What the model wrote as a call's input, when it is an object that every reader reads alike; else what it wrote,
/// as a text.
fn read_input(text: &str) -> Value {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let raw = |text: &str| {
        let mut end = text.len().min(limits::CALL_INPUT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        json!({ RAW: text[..end] })
    };
    if text.len() > limits::CALL_INPUT_BYTES_MAX {
        return raw(text);
    }
    match door::compact(text).ok().and_then(|compact| serde_json::from_str(&compact).ok()) {
        Some(Value::Object(input)) => Value::Object(input),
        _ => raw(text),
    }
}

fn empty() -> Json {
    Json::parse("{}").expect("this is JSON")
}

/// A tool's name as the log takes it: models write what they like.
fn tool_name(name: &str) -> String {
    let name: String =
        name.chars().filter(|letter| !letter.is_control()).take(limits::LINE_CHARS_MAX).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(limits::LINE_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_is_no_object_is_kept_as_it_was_written() {
        assert_eq!(read_input(" {\"a\" : 1} "), json!({ "a": 1 }));
        assert_eq!(read_input(""), json!({}));
        for odd in ["[1]", "{\"a\":", "\"x\"", "{\"a\":1,\"a\":2}", "nonsense"] {
            assert_eq!(read_input(odd), json!({ "raw": odd }));
        }
        let long = "é".repeat(limits::CALL_INPUT_BYTES_MAX);
        let kept = read_input(&long);
        assert_eq!(kept["raw"].as_str().unwrap().len(), limits::CALL_INPUT_BYTES_MAX);
    }
}
