//! One turn of a run: sends the request to the model, reports the response while it streams, and records the result.
//!
//! A failed turn is retried if a retry can help, and each failed attempt is reported. It must not know how calls are
//! executed (`calls`) or how budgets are computed (`budget`). Start with [`Worker::turn`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use recount_event::family::assistant::{FinalAnswer, ToolCallProposed};
use recount_event::family::error::Upstream;
use recount_event::family::run::CheckpointSaved;
use recount_event::family::tool::{RefusalCode, Refused};
use recount_event::family::turn::{Completed, Failed, Started, StopReason};
use recount_event::{Code, Draft, ForeignId, Json, Payload, door};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::agent::ChosenModel;
use crate::budget::{BUDGET_EXCEEDED, TurnEnd};
use crate::call_input::CallInputs;
use crate::limits;
use crate::model::{Failure, Piece, Reply, Request, Secret, Usage, adjusted};
use crate::model_images::ModelImages;
use crate::response_blocks::{ResponseBlocks, WrittenCall, quoted_bytes};
use crate::tools::ending::counted;
use crate::worker::{WorkResult, Worker};

/// The outcome of an attempt.
enum AttemptOutcome {
    Completed(Box<TurnResponse>),
    /// `is_logged`: some of it is in the log, so the turn must fail in the log before it starts again.
    Failed {
        failure: Failure,
        is_logged: bool,
        usage: Usage,
    },
}

/// A complete response. The end of the turn reports its remaining events.
struct TurnResponse {
    blocks: ResponseBlocks,
    calls: Vec<WrittenCall>,
    stop: StopReason,
    usage: Usage,
    adjusted: BTreeSet<&'static str>,
    images: ModelImages,
}

impl Worker {
    /// Starts or restarts a turn and completes it. `opening` has the events before it that are not reported yet.
    pub(crate) async fn turn(&mut self, mut opening: Vec<Draft>) -> WorkResult<()> {
        // Wait first: the checks below are valid only for a short time, and the wait may be long.
        self.server_place(&mut opening).await?;
        self.end_with_parent().await?;
        // All calls of the previous turn are settled here, even if the run ends now.
        if self.completed_since_checkpoint {
            let checkpoint = CheckpointSaved::new(self.worker_session.mint("ckpt_"));
            self.record_files(&checkpoint.checkpoint_id).await;
            opening.push(Payload::RunCheckpointSaved(Box::new(checkpoint)).into());
        }
        if self.end_if_exhausted(&mut opening).await? {
            return Ok(());
        }
        let most = self.config.max_turns.unwrap_or(limits::TURNS_DEFAULT);
        if self.worker_session.state().turns_completed() >= most {
            let within = counted(most, "turn", "turns");
            let message = format!("the model did not finish within {within}");
            return self.fail_after(opening, "turn_limit", message).await;
        }
        if let Some(message) = self.full_message() {
            return self.fail_after(opening, "run_full", message).await;
        }
        if self.lacks_workspace() && !self.provision(&mut opening).await? {
            return Ok(());
        }
        let chosen = match self.agent.choose_model(&self.queued) {
            Ok(chosen) => chosen,
            Err(message) => return self.fail_after(opening, "model_unknown", message).await,
        };
        let budget = self.budget().await?;
        if let Err(message) = self.agent.check_budget(&chosen, budget) {
            return self.fail_after(opening, Code::BudgetUnpriced.as_str(), message).await;
        }
        let key = match self.key().await? {
            Ok(key) => key,
            Err(message) => return self.fail_after(opening, "secret_lost", message).await,
        };
        self.reach_servers(&mut opening).await?;
        let tokens = self.prepare(&chosen, &mut opening);
        let index = self.begin(&chosen, opening, tokens).await?;
        let request = self.request_for(&chosen, key).await;
        let started_at = recount_world::moment();
        for attempt in 1.. {
            match self.attempt(&chosen, &request, index).await? {
                AttemptOutcome::Completed(response) => {
                    let duration = started_at.elapsed();
                    return self.complete(&chosen, index, response, duration).await;
                }
                AttemptOutcome::Failed { failure, .. }
                    if self.shorten_after(&chosen, index, &failure).await? =>
                {
                    return Ok(());
                }
                AttemptOutcome::Failed { failure, is_logged, usage } => {
                    let retries = failure.retriable
                        && attempt < limits::ATTEMPTS_MAX
                        && failure.retry_after.is_none_or(|wait| wait <= limits::RETRY_AFTER_MAX);
                    let failed = FailedAttempt { attempt, failure: &failure, is_logged, usage, retries };
                    if !self.failed_attempt(&chosen, index, failed).await? {
                        return Ok(());
                    }
                    self.pause(attempt, failure.retry_after).await;
                }
            }
        }
        Ok(())
    }

    /// Why no further turn can start, in a run that is close to the limits of the rules.
    fn full_message(&self) -> Option<String> {
        let room = self.worker_session.state().remaining_limits();
        let is_full = room.turns <= limits::ATTEMPTS_MAX
            || room.calls < limits::MODEL_CALLS_MAX as u64
            || room.prompts < limits::CALLS_PER_TURN_MAX as u64;
        is_full.then(|| {
            "the run reached its limit of turns, calls or prompts; continue it in a new run".to_owned()
        })
    }

    /// Reports `opening` and `turn.started`.
    async fn begin(&mut self, chosen: &ChosenModel, mut opening: Vec<Draft>, tokens: u64) -> WorkResult<u64> {
        let state = self.worker_session.state();
        let index = state.retry_turn().unwrap_or_else(|| state.next_turn_index());
        let mut started = turn_started(chosen, index, tokens);
        self.add_instructions(chosen, &mut started).await;
        opening.push(Payload::TurnStarted(Box::new(started)).into());
        self.report(opening).await?;
        Ok(index)
    }

    /// Sends the request once, and reports the response while it streams.
    async fn attempt(
        &mut self,
        chosen: &ChosenModel,
        request: &Arc<Request>,
        index: u64,
    ) -> WorkResult<AttemptOutcome> {
        let redactor = self.worker_session.redactor().clone();
        let mut blocks = ResponseBlocks::new(index, self.worker_session.state().next_block(), redactor);
        blocks.logs_thinking = self.config.thinking;
        blocks.key = request.key.as_ref().and_then(Secret::redactor);
        blocks.inputs = request
            .streams_call_inputs
            .then(|| CallInputs::new(index, self.worker_session.redactor().clone()));
        self.worker_session.write().check_owner()?;
        let mut reply = chosen.provides.begin(request.clone());
        let mut watch = self.worker_session.watch();
        let images = ModelImages::new(self.agent.settings.experimental.images);
        let mut output = ModelOutput { images, ..ModelOutput::default() };
        let mut is_logged = false;
        let mut logged_usage = Usage::default();
        while output.end.is_none() || blocks.has_drafts() {
            if output.end.is_none() && !blocks.has_drafts() {
                tokio::select! {
                    biased;
                    () = watch.ended() => return Err(recount_engine::WorkerExit::Ended),
                    piece = reply.next() => output.add(piece, &mut blocks),
                    () = until(blocks.release_due()) => blocks.release(recount_world::moment()),
                }
                // Pieces that have already arrived go into the same report.
                while output.end.is_none()
                    && !blocks.is_full()
                    && let Some(piece) = reply.next().now_or_never()
                {
                    output.add(piece, &mut blocks);
                }
                continue;
            }
            if let Some(Ok(_)) = output.end {
                // The end of the turn reports the rest.
                break;
            }
            is_logged = true;
            let mut drafts = blocks.take_drafts_with_inputs(|| self.worker_session.mint("call_"));
            if output.has_usage_to_log(logged_usage) {
                // Logged usage counts even if the end of the turn is never recorded.
                logged_usage = output.usage;
                drafts.insert(0, self.open_turn_tick(chosen, output.usage).await?);
            }
            // Pieces that arrive during the report are batched.
            let events =
                receive_during(self.worker_session.report(drafts), &mut *reply, &mut blocks, &mut output)
                    .await?;
            self.apply_events(&events);
        }
        let ModelOutput { calls, end, usage, adjusted, images } = output;
        // A turn with usage must fail in the log, or its usage is lost.
        is_logged |= usage.is_reported();
        match end {
            Some(Ok(stop)) => Ok(AttemptOutcome::Completed(Box::new(TurnResponse {
                blocks,
                calls,
                stop,
                usage,
                adjusted,
                images,
            }))),
            Some(Err(failure)) => Ok(AttemptOutcome::Failed { failure, is_logged, usage }),
            None => {
                let message = "the provider stopped sending and did not finish the response".to_owned();
                let failure =
                    Failure { code: "model_cut", message, status: None, retriable: true, retry_after: None };
                Ok(AttemptOutcome::Failed { failure, is_logged, usage })
            }
        }
    }

    /// Reports a failed attempt. Returns whether the turn is retried.
    async fn failed_attempt(
        &mut self,
        chosen: &ChosenModel,
        index: u64,
        failed: FailedAttempt<'_>,
    ) -> WorkResult<bool> {
        let FailedAttempt { attempt, failure, is_logged, usage, retries } = failed;
        let mut upstream = Upstream::new(chosen.provider.clone(), failure.message.clone(), failure.retriable);
        upstream.status = failure.status.map(u64::from);
        upstream.attempt = Some(attempt);
        upstream.max_attempts = Some(limits::ATTEMPTS_MAX);
        let mut drafts = vec![Payload::ErrorUpstream(Box::new(upstream)).into()];
        if !is_logged && retries {
            self.report(drafts).await?;
            return Ok(true);
        }
        // Open texts end as aborted.
        drafts.extend(self.worker_session.state().cut_texts().into_iter().map(Draft::from));
        let spent = self.spent(chosen, usage);
        let end = if retries { TurnEnd::Retried } else { TurnEnd::Failed };
        let exceeded = usage.is_reported() && self.tick(&mut drafts, spent, end).await?;
        let retries = retries && !exceeded;
        let failed = Failed::new(index, failure.code.to_owned(), failure.message.clone(), retries);
        drafts.push(Payload::TurnFailed(Box::new(failed)).into());
        if exceeded {
            drafts.push(self.failed_with_turn(0, spent, BUDGET_EXCEEDED, budget_message(), false));
        } else if !retries {
            let message = failure.message.clone();
            drafts.push(self.failed_with_turn(0, spent, failure.code, message, failure.retriable));
        } else {
            let started = turn_started(chosen, index, self.conversation.tokens_estimate());
            drafts.push(Payload::TurnStarted(Box::new(started)).into());
        }
        self.report(drafts).await?;
        Ok(retries)
    }

    /// Waits before the next attempt, or until the run ends.
    async fn pause(&self, attempt: u64, retry_after: Option<Duration>) {
        let doubled = 1_u32 << attempt.saturating_sub(1).min(8);
        let wait = retry_after.unwrap_or(limits::BACK_OFF * doubled);
        let mut watch = self.worker_session.watch();
        tokio::select! {
            biased;
            () = watch.ended() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Reports the result of the turn: remaining text, calls, usage, budget, and the end of the run if no work is left.
    async fn complete(
        &mut self,
        chosen: &ChosenModel,
        index: u64,
        response: Box<TurnResponse>,
        duration: Duration,
    ) -> WorkResult<()> {
        let TurnResponse { mut blocks, mut calls, stop, usage, mut adjusted, images } = *response;
        for call in &mut calls {
            call.name =
                self.agent.client_tool_of(&self.config, &call.name).unwrap_or(std::mem::take(&mut call.name));
        }
        let mut drafts = blocks.take_drafts_with_inputs(|| self.worker_session.mint("call_"));
        if !self.store_model_images(index, images, &mut drafts).await {
            adjusted.insert(adjusted::IMAGE_DROPPED);
        }
        let mut sealed = Vec::new();
        let only = calls.first().filter(|_| calls.len() == 1).map(|call| tool_name(&call.name));
        let call_count = calls.len();
        let call_bytes: usize = calls.iter().map(|call| call.name.len() + call.input.len()).sum();
        let usage = self.usage_of(usage, blocks.complete_text().len() + call_bytes, &mut adjusted).await?;
        let mut refused = Vec::new();
        for (at, call) in calls.into_iter().enumerate() {
            let (proposed, original) =
                self.propose(index, blocks.call_id(at), blocks.masked(call), &mut adjusted);
            if at >= limits::CALLS_PER_TURN_MAX {
                refused.push(refuse_excess_call(&proposed));
            }
            sealed.push((proposed.tool_call_id.clone(), original));
            drafts.push(Payload::AssistantToolCallProposed(Box::new(proposed)).into());
        }
        let is_last = call_count == 0;
        let stop = match (stop, is_last) {
            (StopReason::EndTurn, false) => StopReason::ToolUse,
            (StopReason::ToolUse, true) => StopReason::EndTurn,
            (stop, _) => stop,
        };
        let spent = self.spent(chosen, usage);
        let mut completed = Completed::new(index, stop);
        completed.input_tokens = Some(spent.input_tokens);
        completed.output_tokens = Some(spent.output_tokens);
        completed.cached_input_tokens = Some(usage.cached_input_tokens);
        completed.cost_micros_usd = self.agent.has_price(chosen).then_some(spent.cost_micros_usd);
        completed.adjusted =
            (!adjusted.is_empty()).then(|| adjusted.into_iter().map(str::to_owned).collect());
        completed.duration_ms = u64::try_from(duration.as_millis()).ok();
        completed.tool_calls = Some(call_count as u64);
        if is_last && stop == StopReason::EndTurn {
            let summary = shortened(&blocks.complete_text());
            drafts.push(Payload::AssistantFinalAnswer(Box::new(FinalAnswer::new(index, summary))).into());
        }
        drafts.push(Payload::TurnCompleted(Box::new(completed)).into());
        let end = if is_last { TurnEnd::Last } else { TurnEnd::Calls };
        let exceeded = self.tick(&mut drafts, spent, end).await?;
        drafts.extend(refused);
        if is_last && exceeded {
            drafts.push(self.failed_with_turn(1, spent, BUDGET_EXCEEDED, budget_message(), false));
        } else if is_last {
            drafts.push(self.finished_with_turn(stop, spent));
        }
        let only = only.filter(|_| stop == StopReason::ToolUse);
        let only = sealed.first().map(|(id, _)| id.clone()).zip(only);
        self.keep_originals(&mut drafts, sealed).await?;
        if let Some((id, name)) = only.filter(|_| !exceeded) {
            drafts.extend(self.single_call_start(id, name, index).await?);
        }
        self.report(drafts).await
    }

    /// The call for the log, and its unmasked input.
    fn propose(
        &self,
        index: u64,
        id: Option<ForeignId>,
        call: WrittenCall,
        adjusted: &mut BTreeSet<&'static str>,
    ) -> (ToolCallProposed, Value) {
        let original = read_input(&call.input);
        let input = Json::of(&original).unwrap_or_else(|_| empty_object());
        let id = id.unwrap_or_else(|| self.worker_session.mint("call_"));
        let name = tool_name(&call.name);
        if name != call.name {
            adjusted.insert(adjusted::TOOL_NAME_SHORTENED);
        }
        let mut proposed = ToolCallProposed::new(index, id, name, input);
        let provider_id = call.provider_call_id;
        if provider_id.len() > limits::MODEL_CALL_ID_BYTES_MAX || provider_id.chars().any(char::is_control) {
            adjusted.insert(adjusted::CALL_ID_REPLACED);
        } else {
            proposed.provider_call_id = Some(provider_id).filter(|id| !id.is_empty());
        }
        (proposed, original)
    }
}

fn turn_started(chosen: &ChosenModel, index: u64, tokens: u64) -> Started {
    let mut started = Started::new(index);
    started.model = Some(chosen.model.clone());
    started.provider = Some(chosen.provider.clone());
    started.input_tokens_estimate = Some(tokens);
    started
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Receives pieces from the model until the report is done.
async fn receive_during(
    report: impl Future<Output = WorkResult<Vec<recount_event::Event>>>,
    reply: &mut dyn Reply,
    blocks: &mut ResponseBlocks,
    output: &mut ModelOutput,
) -> WorkResult<Vec<recount_event::Event>> {
    tokio::pin!(report);
    loop {
        tokio::select! {
            biased;
            done = &mut report => return done,
            piece = reply.next(), if output.end.is_none() && !blocks.is_full() => output.add(piece, blocks),
        }
    }
}

/// A failed attempt, and whether it is retried.
struct FailedAttempt<'a> {
    attempt: u64,
    failure: &'a Failure,
    is_logged: bool,
    usage: Usage,
    retries: bool,
}

/// What the model sent in addition to texts.
#[derive(Default)]
struct ModelOutput {
    calls: Vec<WrittenCall>,
    end: Option<Result<StopReason, Failure>>,
    /// The usage that the provider has reported so far.
    usage: Usage,
    adjusted: BTreeSet<&'static str>,
    images: ModelImages,
}

impl ModelOutput {
    /// Whether to log usage before the turn ends: the first report, and then each time it has doubled, so that a
    /// provider with frequent reports causes few events.
    fn has_usage_to_log(&self, logged: Usage) -> bool {
        let sum = |usage: Usage| u128::from(usage.input_tokens) + u128::from(usage.output_tokens);
        self.usage.is_reported() && sum(self.usage) >= 2 * sum(logged)
    }

    fn fail(&mut self, message: String) {
        self.end = Some(Err(Failure {
            code: "model_malformed",
            message,
            status: None,
            retriable: false,
            retry_after: None,
        }));
    }

    fn add_usage(&mut self, usage: Usage) {
        let bounded = usage.bounded();
        if bounded != usage {
            self.adjusted.insert(adjusted::USAGE_BOUNDED);
        }
        self.usage = self.usage.at_least(bounded);
    }

    fn add(&mut self, piece: Result<Piece, Failure>, blocks: &mut ResponseBlocks) {
        match piece {
            Ok(Piece::Text(text)) => blocks.add_text(&text, recount_world::moment()),
            Ok(Piece::Thinking(text)) => blocks.add_thinking(&text, recount_world::moment()),
            Ok(Piece::Call { provider_call_id, name, input }) => {
                blocks.close();
                if self.calls.len() == limits::MODEL_CALLS_MAX {
                    let most = limits::MODEL_CALLS_MAX;
                    self.fail(format!("the model made more than {most} calls in one turn"));
                } else {
                    self.calls.push(WrittenCall { provider_call_id, name, input });
                }
            }
            Ok(Piece::CallInput { call, text }) => blocks.add_call_input(call, &text),
            Ok(Piece::Image { mime, bytes }) => {
                if !self.images.add(mime, bytes) {
                    self.adjusted.insert(adjusted::IMAGE_DROPPED);
                }
            }
            Ok(Piece::Usage(usage)) => self.add_usage(usage),
            Ok(Piece::Adjusted(what)) => {
                self.adjusted.insert(what);
            }
            Ok(Piece::Finish { stop, usage }) => {
                blocks.close();
                self.add_usage(usage);
                self.end = Some(Ok(stop));
            }
            Err(failure) => self.end = Some(Err(failure)),
        }
        if blocks.has_too_many_blocks && !matches!(self.end, Some(Err(_))) {
            let most = limits::TURN_BLOCKS_MAX;
            self.fail(format!("the model started more than {most} text and thinking blocks in one turn"));
        }
    }
}

/// The key of the original text in the object that replaces an unreadable input.
pub(crate) const RAW: &str = "raw";

/// The input of a call as JSON. A text that is not an unambiguous JSON object is kept as text, under [`RAW`].
fn read_input(text: &str) -> Value {
    let text = if text.trim().is_empty() { "{}" } else { text };
    match parse_input(text) {
        Ok(input) => Value::Object(input),
        Err(_) => json!({ RAW: kept_input(text) }),
    }
}

/// The input of a call as an object, or why it is refused.
fn parse_input(text: &str) -> Result<Map<String, Value>, String> {
    let most = limits::CALL_INPUT_BYTES_MAX;
    if text.len() > most {
        return Err(format!("it has {} bytes; the limit is {most}", text.len()));
    }
    door::compact(text).map_err(|why| why.to_string())?;
    // The input is nested in the event, which counts as a level.
    door::compact(&format!("[{text}]")).map_err(|why| why.reason)?;
    serde_json::from_str(text).map_err(|_| "it is not an object".to_owned())
}

/// Why the input of a call could not be read, derived from the kept text.
pub(crate) fn why_unreadable(kept: &str) -> String {
    if kept.len() < kept_input(&format!("{kept}    ")).len() {
        return parse_input(kept).err().unwrap_or_else(|| "it cannot be read".to_owned());
    }
    format!("it has more than {} bytes", limits::CALL_INPUT_BYTES_MAX)
}

/// The beginning of an unreadable input, up to the limits of what is kept.
fn kept_input(text: &str) -> &str {
    let (mut bytes, mut quoted) = (0, 0);
    for letter in text.chars() {
        let mut buffer = [0; 4];
        quoted += quoted_bytes(letter.encode_utf8(&mut buffer));
        if bytes + letter.len_utf8() > limits::CALL_INPUT_BYTES_MAX
            || quoted > limits::CALL_INPUT_QUOTED_BYTES_MAX
        {
            break;
        }
        bytes += letter.len_utf8();
    }
    &text[..bytes]
}

/// The refusal of a call beyond the limit of calls per turn.
fn refuse_excess_call(proposed: &ToolCallProposed) -> Draft {
    let most = limits::CALLS_PER_TURN_MAX;
    let message = format!(
        "a turn can make at most {most} calls, so this call was not run; repeat it in the next turn if it is \
         still needed"
    );
    let (id, name) = (proposed.tool_call_id.clone(), proposed.tool_name.clone());
    Payload::ToolRefused(Box::new(Refused::new(id, name, RefusalCode::Unavailable, message))).into()
}

fn budget_message() -> String {
    "the task's budget is exhausted; raise it and run again".to_owned()
}

fn empty_object() -> Json {
    Json::parse("{}").expect("this is JSON")
}

/// A valid tool name for the log. A model can send any text.
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
    fn an_input_that_is_not_an_object_is_kept_as_text() {
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
