//! One turn: asks the model, tells what it says while it says it, and writes down what it came to.
//!
//! A turn that fails is tried again where that may help, and every failed attempt is told. Look at
//! [`Worker::turn`]. Budgets stand in `budget`, what becomes of calls in `calls`.

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

use crate::agent::Chosen;
use crate::budget::{BUDGET_EXCEEDED, TurnEnd};
use crate::call_input::CallInputs;
use crate::limits;
use crate::model::{Failure, Piece, Reply, Request, Secret, Usage, adjusted};
use crate::model_images::ModelImages;
use crate::said::{Saying, WrittenCall, quoted_bytes};
use crate::worker::{Done, Worker};

/// What an attempt brought.
enum AttemptOutcome {
    Answered(Box<TurnAnswer>),
    /// `told`: some of it is in the log, so that the turn has to be failed before it starts again.
    Failed {
        failure: Failure,
        told: bool,
        usage: Usage,
    },
}

/// A whole answer, told up to what is still to be reported with the end of the turn.
struct TurnAnswer {
    saying: Saying,
    calls: Vec<WrittenCall>,
    stop: StopReason,
    usage: Usage,
    adjusted: BTreeSet<&'static str>,
    images: ModelImages,
}

impl Worker {
    /// Begins a turn, or begins one again, and sees it to its end. `opening` is what precedes it in the log and was
    /// not reported yet.
    pub(crate) async fn turn(&mut self, mut opening: Vec<Draft>) -> Done<()> {
        // All that follows holds for the moment, and the wait may be long.
        self.server_place(&mut opening).await?;
        self.ends_with_starter().await?;
        // Every call of the turn before is settled here, also where the run ends now.
        if self.completed_since_checkpoint {
            let checkpoint = CheckpointSaved::new(self.desk.mint("ckpt_"));
            opening.push(Payload::RunCheckpointSaved(Box::new(checkpoint)).into());
        }
        if self.halts(&mut opening).await? {
            return Ok(());
        }
        let most = self.order.max_turns.unwrap_or(limits::TURNS_DEFAULT);
        if self.desk.state().turns_completed() >= most {
            let message = format!("the model went on for {most} turns without coming to an end");
            return self.fail_behind(opening, "turn_limit", message).await;
        }
        if let Some(message) = self.is_full() {
            return self.fail_behind(opening, "run_full", message).await;
        }
        if self.lacks_workspace() && !self.provision(&mut opening).await? {
            return Ok(());
        }
        let chosen = match self.agent.choose(&self.queued) {
            Ok(chosen) => chosen,
            Err(message) => return self.fail_behind(opening, "model_unknown", message).await,
        };
        let budget = self.budget().await?;
        if let Err(message) = self.agent.affords(&chosen, budget) {
            return self.fail_behind(opening, Code::BudgetUnpriced.as_str(), message).await;
        }
        let key = match self.key().await? {
            Ok(key) => key,
            Err(message) => return self.fail_behind(opening, "secret_lost", message).await,
        };
        self.reach_servers(&mut opening).await?;
        let tokens = self.prepare(&chosen, &mut opening);
        let index = self.begin(&chosen, opening, tokens).await?;
        let request = self.request_for(&chosen, key).await;
        let began = recount_world::moment();
        for attempt in 1.. {
            match self.attempt(&chosen, &request, index).await? {
                AttemptOutcome::Answered(answer) => {
                    let took = began.elapsed();
                    return self.complete(&chosen, index, answer, took).await;
                }
                AttemptOutcome::Failed { failure, .. }
                    if self.shortens_after(&chosen, index, &failure).await? =>
                {
                    return Ok(());
                }
                AttemptOutcome::Failed { failure, told, usage } => {
                    let again = failure.retriable
                        && attempt < limits::ATTEMPTS_MAX
                        && failure.retry_after.is_none_or(|wait| wait <= limits::RETRY_AFTER_MAX);
                    let failed = FailedAttempt { attempt, failure: &failure, told, usage, again };
                    if !self.failed_attempt(&chosen, index, failed).await? {
                        return Ok(());
                    }
                    self.pause(attempt, failure.retry_after).await;
                }
            }
        }
        Ok(())
    }

    /// Why no further turn may begin, in a run that has nearly as much in it as the rules allow.
    fn is_full(&self) -> Option<String> {
        let room = self.desk.state().room();
        let is_full = room.turns <= limits::ATTEMPTS_MAX
            || room.calls < limits::MODEL_CALLS_MAX as u64
            || room.prompts < limits::CALLS_PER_TURN_MAX as u64;
        is_full.then(|| {
            "the run has reached its limit of turns, calls or prompts; continue it in a new run".to_owned()
        })
    }

    /// Writes `turn.started`, and before it what there is to say first.
    async fn begin(&mut self, chosen: &Chosen, mut opening: Vec<Draft>, tokens: u64) -> Done<u64> {
        let state = self.desk.state();
        let index = state.retry_turn().unwrap_or_else(|| state.next_turn_index());
        let mut started = turn_started(chosen, index, tokens);
        self.give_instructions(chosen, &mut started).await;
        opening.push(Payload::TurnStarted(Box::new(started)).into());
        self.report(opening).await?;
        Ok(index)
    }

    /// Asks once, and reports what comes as it comes.
    async fn attempt(&mut self, chosen: &Chosen, request: &Arc<Request>, index: u64) -> Done<AttemptOutcome> {
        let redactor = self.desk.redactor().clone();
        let mut saying = Saying::new(index, self.desk.state().next_block(), redactor);
        saying.tells_thinking = self.order.thinking;
        saying.key = request.key.as_ref().and_then(Secret::searched);
        saying.inputs = request.wants_inputs.then(|| CallInputs::new(index, self.desk.redactor().clone()));
        let mut reply = chosen.provides.begin(request.clone());
        let mut watch = self.desk.watch();
        let images = ModelImages::new(self.agent.settings.experimental.images);
        let mut heard = ModelOutput { images, ..ModelOutput::default() };
        let mut told = false;
        let mut usage_told = Usage::default();
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
            let mut drafts = saying.take_with_inputs(|| self.desk.mint("call_"));
            if heard.tells_usage_after(usage_told) {
                // What was reported counts even when nobody gets to write down how the turn ended.
                usage_told = heard.usage;
                drafts.insert(0, self.open_turn_tick(chosen, heard.usage).await?);
            }
            // While this is under way, what comes gathers.
            let events = listen(self.desk.report(drafts), &mut *reply, &mut saying, &mut heard).await?;
            self.see(&events);
        }
        let ModelOutput { calls, over, usage, adjusted, images } = heard;
        // A turn that has used something has to be failed, or nobody would know.
        told |= usage.is_reported();
        match over {
            Some(Ok(stop)) => Ok(AttemptOutcome::Answered(Box::new(TurnAnswer {
                saying,
                calls,
                stop,
                usage,
                adjusted,
                images,
            }))),
            Some(Err(failure)) => Ok(AttemptOutcome::Failed { failure, told, usage }),
            None => {
                let message = "the provider said nothing more and did not finish".to_owned();
                let failure =
                    Failure { code: "model_cut", message, status: None, retriable: true, retry_after: None };
                Ok(AttemptOutcome::Failed { failure, told, usage })
            }
        }
    }

    /// Tells of an attempt that came to nothing. Answers whether the turn is tried again.
    async fn failed_attempt(&mut self, chosen: &Chosen, index: u64, failed: FailedAttempt<'_>) -> Done<bool> {
        let FailedAttempt { attempt, failure, told, usage, again } = failed;
        let mut upstream = Upstream::new(chosen.provider.clone(), failure.message.clone(), failure.retriable);
        upstream.status = failure.status.map(u64::from);
        upstream.attempt = Some(attempt);
        upstream.max_attempts = Some(limits::ATTEMPTS_MAX);
        let mut drafts = vec![Payload::ErrorUpstream(Box::new(upstream)).into()];
        if !told && again {
            self.report(drafts).await?;
            return Ok(true);
        }
        // Open texts are closed as cut off.
        drafts.extend(self.desk.state().cut_texts().into_iter().map(Draft::from));
        let spent = self.spent(chosen, usage);
        let end = if again { TurnEnd::Again } else { TurnEnd::Failed };
        let exceeded = usage.is_reported() && self.tick(&mut drafts, spent, end).await?;
        let again = again && !exceeded;
        let failed = Failed::new(index, failure.code.to_owned(), failure.message.clone(), again);
        drafts.push(Payload::TurnFailed(Box::new(failed)).into());
        if exceeded {
            drafts.push(self.failed_after(0, spent, BUDGET_EXCEEDED, budget_message(), false));
        } else if !again {
            let message = failure.message.clone();
            drafts.push(self.failed_after(0, spent, failure.code, message, failure.retriable));
        } else {
            let started = turn_started(chosen, index, self.conversation.tokens_estimate());
            drafts.push(Payload::TurnStarted(Box::new(started)).into());
        }
        self.report(drafts).await?;
        Ok(again)
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
        answer: Box<TurnAnswer>,
        took: Duration,
    ) -> Done<()> {
        let TurnAnswer { mut saying, mut calls, stop, usage, mut adjusted, images } = *answer;
        for wanted in &mut calls {
            wanted.name =
                self.agent.meant(&self.order, &wanted.name).unwrap_or(std::mem::take(&mut wanted.name));
        }
        let mut drafts = saying.take_with_inputs(|| self.desk.mint("call_"));
        if !self.keep_model_images(index, images, &mut drafts).await {
            adjusted.insert(adjusted::IMAGE_DROPPED);
        }
        let mut sealed = Vec::new();
        let only = calls.first().filter(|_| calls.len() == 1).map(|wanted| tool_name(&wanted.name));
        let called = calls.len();
        let written: usize = calls.iter().map(|wanted| wanted.name.len() + wanted.input.len()).sum();
        let usage = self.usage_of(usage, saying.whole().len() + written, &mut adjusted).await?;
        let mut refused = Vec::new();
        for (place, wanted) in calls.into_iter().enumerate() {
            let (proposed, original) =
                self.proposed(index, saying.call_id(place), saying.masked(wanted), &mut adjusted);
            if place >= limits::CALLS_PER_TURN_MAX {
                refused.push(one_too_many(&proposed));
            }
            sealed.push((proposed.tool_call_id.clone(), original));
            drafts.push(Payload::AssistantToolCallProposed(Box::new(proposed)).into());
        }
        let last = called == 0;
        let stop = match (stop, last) {
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
        completed.duration_ms = u64::try_from(took.as_millis()).ok();
        completed.tool_calls = Some(called as u64);
        if last && stop == StopReason::EndTurn {
            let summary = shortened(&saying.whole());
            drafts.push(Payload::AssistantFinalAnswer(Box::new(FinalAnswer::new(index, summary))).into());
        }
        drafts.push(Payload::TurnCompleted(Box::new(completed)).into());
        let end = if last { TurnEnd::Last } else { TurnEnd::Calls };
        let halts = self.tick(&mut drafts, spent, end).await?;
        drafts.extend(refused);
        if last && halts {
            drafts.push(self.failed_after(1, spent, BUDGET_EXCEEDED, budget_message(), false));
        } else if last {
            drafts.push(self.finished_with_turn(stop, spent));
        }
        let only = only.filter(|_| stop == StopReason::ToolUse);
        let only = sealed.first().map(|(id, _)| id.clone()).zip(only);
        self.keep_originals(&mut drafts, sealed).await?;
        if let Some((id, name)) = only.filter(|_| !halts) {
            drafts.extend(self.started_at_once(id, name, index).await?);
        }
        self.report(drafts).await
    }

    /// The call for the log, and what it really asks for.
    fn proposed(
        &self,
        index: u64,
        id: Option<ForeignId>,
        wanted: WrittenCall,
        adjusted: &mut BTreeSet<&'static str>,
    ) -> (ToolCallProposed, Value) {
        let original = read_input(&wanted.input);
        let input = Json::of(&original).unwrap_or_else(|_| empty());
        let id = id.unwrap_or_else(|| self.desk.mint("call_"));
        let name = tool_name(&wanted.name);
        if name != wanted.name {
            adjusted.insert(adjusted::TOOL_NAME_SHORTENED);
        }
        let mut proposed = ToolCallProposed::new(index, id, name, input);
        let its_own = wanted.provider_call_id;
        if its_own.len() > limits::MODEL_CALL_ID_BYTES_MAX || its_own.chars().any(char::is_control) {
            adjusted.insert(adjusted::CALL_ID_REPLACED);
        } else {
            proposed.provider_call_id = Some(its_own).filter(|id| !id.is_empty());
        }
        (proposed, original)
    }
}

fn turn_started(chosen: &Chosen, index: u64, tokens: u64) -> Started {
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

/// Listens to the model while a report is under way.
async fn listen(
    report: impl Future<Output = Done<Vec<recount_event::Event>>>,
    reply: &mut dyn Reply,
    saying: &mut Saying,
    heard: &mut ModelOutput,
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

/// An attempt that came to nothing, and whether another one follows.
struct FailedAttempt<'a> {
    attempt: u64,
    failure: &'a Failure,
    told: bool,
    usage: Usage,
    again: bool,
}

/// What came of the model beside its texts.
#[derive(Default)]
struct ModelOutput {
    calls: Vec<WrittenCall>,
    over: Option<Result<StopReason, Failure>>,
    /// What the provider has reported so far.
    usage: Usage,
    adjusted: BTreeSet<&'static str>,
    images: ModelImages,
}

impl ModelOutput {
    /// Whether usage is reported that the log should have before the turn ends: the first of it, and then whenever
    /// it has doubled, so that a provider which reports it all the time costs few events.
    fn tells_usage_after(&self, told: Usage) -> bool {
        let sum = |usage: Usage| u128::from(usage.input_tokens) + u128::from(usage.output_tokens);
        self.usage.is_reported() && sum(self.usage) >= 2 * sum(told)
    }

    fn fail(&mut self, message: String) {
        self.over = Some(Err(Failure {
            code: "model_malformed",
            message,
            status: None,
            retriable: false,
            retry_after: None,
        }));
    }

    fn used(&mut self, usage: Usage) {
        let bounded = usage.bounded();
        if bounded != usage {
            self.adjusted.insert(adjusted::USAGE_BOUNDED);
        }
        self.usage = self.usage.at_least(bounded);
    }

    fn take(&mut self, piece: Result<Piece, Failure>, saying: &mut Saying) {
        match piece {
            Ok(Piece::Text(text)) => saying.text(&text, recount_world::moment()),
            Ok(Piece::Thinking(text)) => saying.thinking(&text, recount_world::moment()),
            Ok(Piece::Call { provider_call_id, name, input }) => {
                saying.close();
                if self.calls.len() == limits::MODEL_CALLS_MAX {
                    let most = limits::MODEL_CALLS_MAX;
                    self.fail(format!("the model made more than {most} calls in one turn"));
                } else {
                    self.calls.push(WrittenCall { provider_call_id, name, input });
                }
            }
            Ok(Piece::CallInput { call, text }) => saying.call_input(call, &text),
            Ok(Piece::Image { mime, bytes }) => {
                if !self.images.take(mime, bytes) {
                    self.adjusted.insert(adjusted::IMAGE_DROPPED);
                }
            }
            Ok(Piece::Usage(usage)) => self.used(usage),
            Ok(Piece::Adjusted(what)) => {
                self.adjusted.insert(what);
            }
            Ok(Piece::Finish { stop, usage }) => {
                saying.close();
                self.used(usage);
                self.over = Some(Ok(stop));
            }
            Err(failure) => self.over = Some(Err(failure)),
        }
        if saying.has_too_many_blocks && !matches!(self.over, Some(Err(_))) {
            let most = limits::TURN_BLOCKS_MAX;
            self.fail(format!("the model started more than {most} text and thinking blocks in one turn"));
        }
    }
}

/// What stands under this key in the place of an input that cannot be read.
pub(crate) const RAW: &str = "raw";

/// What the model wrote as a call's input, when it is an object that every reader reads alike; else what it wrote,
/// as a text.
fn read_input(text: &str) -> Value {
    let text = if text.trim().is_empty() { "{}" } else { text };
    match parse_input(text) {
        Ok(input) => Value::Object(input),
        Err(_) => json!({ RAW: beginning_of(text) }),
    }
}

/// What the input of a call says, or why it is refused.
fn parse_input(text: &str) -> Result<Map<String, Value>, String> {
    let most = limits::CALL_INPUT_BYTES_MAX;
    if text.len() > most {
        return Err(format!("it has {} bytes, and at most {most} are taken", text.len()));
    }
    door::compact(text).map_err(|why| why.to_string())?;
    // It stands within the event's own object, which counts as a level, too.
    door::compact(&format!("[{text}]")).map_err(|why| why.reason)?;
    serde_json::from_str(text).map_err(|_| "it is no object".to_owned())
}

/// Why the input of a call could not be read, by what is kept of it.
pub(crate) fn why_unreadable(kept: &str) -> String {
    if kept.len() < beginning_of(&format!("{kept}    ")).len() {
        return parse_input(kept).err().unwrap_or_else(|| "it cannot be read".to_owned());
    }
    format!("it has more than {} bytes", limits::CALL_INPUT_BYTES_MAX)
}

/// As much of a text as is kept of an input that cannot be read.
fn beginning_of(text: &str) -> &str {
    let (mut bytes, mut quoted) = (0, 0);
    for letter in text.chars() {
        let mut room = [0; 4];
        quoted += quoted_bytes(letter.encode_utf8(&mut room));
        if bytes + letter.len_utf8() > limits::CALL_INPUT_BYTES_MAX
            || quoted > limits::CALL_INPUT_QUOTED_BYTES_MAX
        {
            break;
        }
        bytes += letter.len_utf8();
    }
    &text[..bytes]
}

/// The refusal of a call that came after as many as a turn may make.
fn one_too_many(proposed: &ToolCallProposed) -> Draft {
    let most = limits::CALLS_PER_TURN_MAX;
    let message = format!(
        "a turn may make at most {most} calls, so this call was not executed; repeat it in the next turn if it is \
         still needed"
    );
    let (id, name) = (proposed.tool_call_id.clone(), proposed.tool_name.clone());
    Payload::ToolRefused(Box::new(Refused::new(id, name, RefusalCode::Unavailable, message))).into()
}

fn budget_message() -> String {
    "the task's budget is used up; raise it and run again".to_owned()
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
