//! Producers of external runs, and performers of own runs. They resend batches without a response.

use std::sync::Arc;

use recount_engine::{BatchId, Engine, NewRun, Receipt};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, Draft, Event, RunId, TaskId, codec, door};
use recount_run::Command;

use super::{CallFailure, EnginePlay};
use crate::belief::Belief;
use crate::dice::Dice;
use crate::event_generator::{self, EventGenerator};
use crate::limits;
use crate::trace::Check;

/// The number of retries after which the store counts as dead.
const TRIES_MAX: u64 = 400;

pub(super) async fn produce(engine_play: Arc<EnginePlay>, n: u64) {
    let dice = engine_play.dice.fork(&format!("producer {n}"));
    let mut producer = Producer {
        name: format!("p{n}"),
        dice,
        task: None,
        round: 0,
        epoch: 0,
        seq: 0,
        last: None,
        engine_play,
    };
    for round in 0..2 {
        producer.round = round;
        producer.report_run().await;
    }
}

struct Producer {
    engine_play: Arc<EnginePlay>,
    dice: Dice,
    name: String,
    task: Option<TaskId>,
    round: u64,
    epoch: u64,
    seq: u64,
    /// The last batch that was acknowledged.
    last: Option<(BatchId, Vec<Draft>, Receipt)>,
}

/// What a producer knows of its run.
struct Known {
    run: RunId,
    next: u64,
    belief: Belief,
}

impl Known {
    /// Reads the events since the last time.
    async fn catch_up(&mut self, engine_play: &EnginePlay) -> Result<(), CallFailure> {
        loop {
            let (run, after) = (self.run, self.next.checked_sub(1));
            let ask = |engine: Engine| async move { engine.read().read_run(run, after, 50).await };
            let (page, more) = match engine_play.call("read_run", ask).await {
                Err(CallFailure::Rejected(rejection)) if !engine_play.is_erased_run(run, &rejection) => {
                    engine_play
                        .trace
                        .wrong(Check::Readers, format_args!("{run} may not be read: {rejection}"));
                    return Err(CallFailure::Rejected(rejection));
                }
                read => read?,
            };
            for (sequence, bytes) in page {
                if sequence > self.next {
                    engine_play.check_gap("a page", run, self.next, self.next, sequence - 1);
                }
                match codec::decode(&bytes) {
                    Ok(event) => self.belief.see(event.payload()),
                    Err(why) => {
                        engine_play.trace.wrong(Check::Grammar, format_args!("{run} {sequence}: {why}"))
                    }
                }
                self.next = sequence + 1;
            }
            if !more {
                return Ok(());
            }
        }
    }
}

impl EnginePlay {
    /// Builds the model of a run by reading all of it; `None` if that is not possible now.
    pub(super) async fn look_at(&self, run: RunId) -> Option<Belief> {
        let mut known = Known { run, next: 0, belief: Belief::default() };
        known.catch_up(self).await.ok()?;
        Some(known.belief)
    }
}

impl Producer {
    async fn report_run(&mut self) {
        let Some(run) = self.begin().await else { return };
        self.engine_play.trace.log(format_args!("{} reports to {run}", self.name));
        self.engine_play.trace.count(|counts| counts.runs += 1);
        self.engine_play.client_record().runs.push(run);
        (self.epoch, self.seq, self.last) = (self.dice.below(3), 0, None);
        let mut known = Known { run, next: 0, belief: Belief::default() };
        for _ in 0..15 + self.dice.below(25) {
            self.engine_play.sleep(1 + self.dice.below(400)).await;
            if known.catch_up(&self.engine_play).await.is_err() {
                continue;
            }
            let tag = format!("{}-{}", self.name, self.round);
            let event_generator =
                EventGenerator { dice: &self.dice, tag: &tag, wild: 30, patience: limits::PATIENCE_S };
            let batch = event_generator.batch(&known.belief, 7);
            if known.belief.ended {
                break;
            }
            if known.belief.own {
                let drafts = batch.into_iter().map(Draft::from).collect();
                self.submit(run, drafts).await;
            } else {
                self.report(run, batch.iter().filter_map(event_generator::draft).collect()).await;
                self.stray(run).await;
            }
        }
    }

    async fn begin(&mut self) -> Option<RunId> {
        let kind = if self.dice.permille(700) { RunKind::External } else { RunKind::AgentLoop };
        for _ in 0..TRIES_MAX {
            let task = self.task;
            let queued = Queued::new(kind);
            let created = if task.is_none() && self.dice.permille(300) {
                let ask =
                    |engine: Engine| async move { engine.write().create_task(None, Some(queued)).await };
                self.engine_play.call("create_task", ask).await.map(|(row, run)| {
                    self.task = Some(row.id);
                    self.engine_play.client_record().tasks.extend(self.task);
                    self.belongs(run, self.task);
                    run
                })
            } else {
                let new = NewRun { queued, task, session: None, resumed_from: None };
                let ask = |engine: Engine| async move { engine.write().create_run(new).await };
                self.engine_play.call("create_run", ask).await.map(|(run, receipt)| {
                    self.belongs(Some(run), task);
                    self.engine_play.acknowledge(run, receipt, &[]);
                    Some(run)
                })
            };
            match created {
                Ok(run) => return run,
                Err(CallFailure::Rejected(rejection)) if rejection.code == Code::TaskBusy => {
                    // It started without a response, or the earlier one continues.
                    self.task = None;
                }
                Err(CallFailure::Rejected(rejection))
                    if rejection.code == Code::TaskErased
                        && task.is_some_and(|task| {
                            self.engine_play.client_record().deletions.contains_key(&task)
                        }) =>
                {
                    self.task = None;
                }
                Err(CallFailure::Rejected(rejection)) => {
                    self.engine_play.trace.wrong(Check::Live, format_args!("a run is refused: {rejection}"));
                    return None;
                }
                Err(CallFailure::Failed | CallFailure::Lost) => {}
            }
            self.back_off().await;
        }
        self.engine_play.trace.wrong(Check::Live, "no run can be created");
        None
    }

    fn belongs(&self, run: Option<RunId>, task: Option<TaskId>) {
        if let (Some(run), Some(task)) = (run, task) {
            self.engine_play.client_record().task_of.insert(run, task);
        }
    }

    async fn back_off(&self) {
        self.engine_play.sleep(20 + self.dice.below(300)).await;
    }

    /// Sends a batch until its outcome is known.
    async fn report(&mut self, run: RunId, drafts: Vec<Draft>) {
        if drafts.is_empty() {
            return;
        }
        let triple = BatchId { producer: event_generator::id(&self.name), epoch: self.epoch, seq: self.seq };
        // This event identifies the batch in the log.
        let mark = format!(r#"{{"p":"{}","e":{},"s":{}}}"#, self.name, self.epoch, self.seq);
        let mark = door::draft("ext.sim.batch", &mark).expect("a mark is legal");
        let drafts: Vec<Draft> = std::iter::once(mark).chain(drafts).collect();
        self.engine_play
            .client_record()
            .batches
            .entry((run, self.name.clone(), self.epoch, self.seq))
            .or_insert(None);
        for _ in 0..TRIES_MAX {
            match self.send(run, triple.clone(), drafts.clone()).await {
                Ok(receipt) => {
                    self.engine_play.trace.log(format_args!(
                        "{} {}/{} landed at {}..={}",
                        self.name, self.epoch, self.seq, receipt.first_sequence, receipt.last_sequence
                    ));
                    self.engine_play.trace.count(|counts| counts.batches += 1);
                    self.engine_play.acknowledge(run, receipt, &drafts);
                    let batch = (run, self.name.clone(), self.epoch, self.seq);
                    self.engine_play.client_record().batches.insert(batch, Some(receipt));
                    self.seq += 1;
                    self.last = Some((triple, drafts, receipt));
                    return;
                }
                Err(CallFailure::Rejected(rejection)) => {
                    self.engine_play.trace.log(format_args!("{} refused: {rejection}", self.name));
                    let fair = matches!(
                        rejection.code,
                        Code::EventRefused | Code::RunEnded | Code::LimitReached | Code::IdTaken
                    );
                    // The records of producers are deleted shortly before the run.
                    let is_going =
                        rejection.code == Code::ProducerGap && self.engine_play.is_deletion_requested(run);
                    if !fair && !is_going && !self.engine_play.is_erased_run(run, &rejection) {
                        let wrong = format!("batch {}/{} of {run}: {rejection}", self.epoch, self.seq);
                        self.engine_play.trace.wrong(Check::Once, wrong);
                    }
                    return;
                }
                Err(CallFailure::Failed | CallFailure::Lost) => {}
            }
            if self.dice.permille(30) {
                // Another instance takes over without knowing the outcome of this batch.
                (self.epoch, self.seq) = (self.epoch + 1 + self.dice.below(2), 0);
                self.engine_play.trace.log(format_args!("{} begins anew in {}", self.name, self.epoch));
                return;
            }
            self.back_off().await;
        }
        self.engine_play.trace.wrong(Check::Live, format_args!("{run} takes no batch"));
    }

    async fn send(&self, run: RunId, triple: BatchId, drafts: Vec<Draft>) -> Result<Receipt, CallFailure> {
        self.engine_play
            .call("ingest", |engine: Engine| async move { engine.write().ingest(run, triple, drafts).await })
            .await
    }

    /// Sends invalid batches: an old one, an old number with other events, a number with a gap, a batch of a replaced
    /// instance.
    async fn stray(&mut self, run: RunId) {
        let Some((triple, drafts, receipt)) = self.last.clone() else { return };
        if !self.dice.permille(250) || triple.epoch != self.epoch {
            return;
        }
        let note = || vec![door::draft("ext.sim.stray", "{}").expect("a note is legal")];
        let (what, triple, drafts, expected) = match self.dice.below(4) {
            0 => ("again", triple, drafts, None),
            1 => ("reused", triple, note(), Some(Code::ProducerReused)),
            2 => ("too far", BatchId { seq: self.seq + 1, ..triple }, note(), Some(Code::ProducerGap)),
            _ if triple.epoch > 0 => {
                let old = BatchId { epoch: triple.epoch - 1, ..triple };
                ("old", old, note(), Some(Code::ProducerFenced))
            }
            _ => return,
        };
        match (self.send(run, triple, drafts).await, expected) {
            (Ok(other), None) if other == receipt => {}
            // The positions of removed events are unknown.
            (Ok(other), None)
                if (other.first_sequence, other.last_sequence)
                    == (receipt.first_sequence, receipt.last_sequence)
                    && self.engine_play.may_be_removed(run, receipt.last_sequence) => {}
            (Err(CallFailure::Rejected(rejection)), Some(expected)) if rejection.code == expected => {}
            (Err(CallFailure::Failed | CallFailure::Lost), _) => {}
            (Err(CallFailure::Rejected(_)), _) if self.engine_play.is_deletion_requested(run) => {}
            (Ok(other), _) => {
                self.engine_play.trace.wrong(Check::Once, format_args!("{what}: {other:?}, not {receipt:?}"));
            }
            (Err(CallFailure::Rejected(rejection)), _) => {
                self.engine_play.trace.wrong(Check::Once, format_args!("{what}: {rejection}"));
            }
        }
    }

    /// A performer of an own run reads the run again if the outcome of its report is unknown.
    async fn submit(&self, run: RunId, drafts: Vec<Draft>) {
        if drafts.is_empty() {
            return;
        }
        let command = Command::Progress { drafts };
        let ask = |engine: Engine| async move { engine.write().submit(run, command).await };
        match self.engine_play.call("submit", ask).await {
            Ok(Some(receipt)) => self.engine_play.acknowledge(run, receipt, &[]),
            Ok(None) => {}
            Err(CallFailure::Rejected(rejection)) => {
                self.engine_play.trace.log(format_args!("{} refused: {rejection}", self.name));
            }
            Err(CallFailure::Failed | CallFailure::Lost) => self.back_off().await,
        }
    }
}

/// Decodes a run.
pub(super) fn decoded(stored: &[(u64, u64, bytes::Bytes)]) -> Result<Vec<Event>, codec::DecodeError> {
    stored.iter().map(|(_, _, bytes)| codec::decode(bytes)).collect()
}
