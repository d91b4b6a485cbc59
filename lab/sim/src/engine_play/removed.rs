//! Decides which events may be missing: those that a run's newest marker names, and the runs of deleted tasks. Any
//! other missing event is a loss. The module must not depend on the engine's state.

use recount_engine::Engine;
use recount_event::{Code, RunId, TaskId};
use recount_faulty_store::answer_now;
use recount_log::{RowRange, Tail};
use recount_run::Rejection;

use super::client_record::{ClientRecord, Target};
use super::stored::{begins, is_ending};
use super::{CallFailure, EnginePlay};
use crate::trace::Check;

/// How often the play checks for finished deletions, 100 ms apart, after faults have ended.
const LOOKS_MAX: usize = 600;

impl ClientRecord {
    fn is_deletion_requested(&self, task: Option<TaskId>) -> bool {
        task.is_some_and(|task| self.deletions.contains_key(&task))
    }
}

impl EnginePlay {
    pub(super) fn tail_of(&self, run: RunId) -> Option<Tail> {
        answer_now(self.disk.store().tail(&run.to_string().into()))
            .expect("the wrapped store is never closed")
    }

    pub(super) fn is_erased(&self, run: RunId) -> bool {
        self.tail_of(run).is_some_and(|tail| tail.erased)
    }

    /// Whether deletion of this run's task was requested.
    pub(super) fn is_deletion_requested(&self, run: RunId) -> bool {
        let client_record = self.client_record();
        let known = client_record.task_of.get(&run).copied();
        client_record.is_deletion_requested(known.or_else(|| self.task_by_tombstone(run)))
    }

    /// The task of a run whose creation was never answered, from its tombstone.
    fn task_by_tombstone(&self, run: RunId) -> Option<TaskId> {
        let row = answer_now(self.disk.store().row("record.erased", &format!("default/{run}"))).ok()??;
        let tombstone: serde_json::Value = serde_json::from_slice(&row.value).ok()?;
        tombstone["task_id"].as_str()?.parse().ok()
    }

    /// Whether an event may be missing.
    pub(super) fn may_be_removed(&self, run: RunId, sequence: u64) -> bool {
        sequence < begins(&self.stored(run)) || (self.is_erased(run) && self.is_deletion_requested(run))
    }

    /// Whether a run was refused because it was erased; its deletion must have been requested.
    pub(super) fn is_erased_run(&self, run: RunId, rejection: &Rejection) -> bool {
        if rejection.code != Code::RunErased {
            return false;
        }
        if !self.is_deletion_requested(run) || !self.is_erased(run) {
            self.trace.wrong(Check::Erased, format_args!("{run} was deleted without a request: {rejection}"));
        }
        true
    }

    /// Checks a gap that a reader received.
    pub(super) fn check_gap(&self, who: &str, run: RunId, due: u64, first: u64, last: u64) {
        let begins = begins(&self.stored(run));
        let is_named = last < begins || (self.is_erased(run) && self.is_deletion_requested(run));
        if first != due || last < first || !is_named {
            let wrong = format!(
                "{who} received at {due} of {run} a gap from {first} to {last}, but it begins at {begins}"
            );
            self.trace.wrong(Check::Gaps, wrong);
        }
        self.trace.count(|counts| counts.gaps += 1);
        self.trace.log(format_args!("{who} received a gap, {first} to {last} of {run}"));
    }

    /// Whether the feed has a stored event between two positions.
    pub(super) fn feed_has(&self, from: u64, to: u64) -> bool {
        let bound = recount_log::ReadBound { count: 1, bytes: 1 };
        let found = answer_now(self.disk.store().read_feed(from.max(1), bound)).unwrap_or_default();
        found.first().is_some_and(|found| found.record.position < to)
    }

    fn deletions_under_way(&self) -> usize {
        let range = RowRange::first("record.erasing", "", usize::MAX);
        answer_now(self.disk.store().rows(range)).unwrap_or_default().len()
    }

    /// Checks that an engine without faults finishes open deletions.
    pub(super) async fn check_deletions_end(&self) {
        for _ in 0..LOOKS_MAX {
            if self.deletions_under_way() == 0 {
                return;
            }
            self.sleep(100).await;
        }
        self.trace.wrong(Check::Erased, "an accepted deletion is never finished");
    }

    /// Checks that each run begins where its newest marker says, and that pruned events stay pruned.
    pub(super) fn check_gaps(&self, runs: &[RunId]) {
        for run in runs {
            let (stored, tail) = (self.stored(*run), self.tail_of(*run));
            let Some(tail) = tail.filter(|tail| !tail.erased) else { continue };
            let begins = begins(&stored);
            let places: Vec<u64> = stored.iter().map(|found| found.0).collect();
            if places != (begins..tail.next_sequence).collect::<Vec<_>>() || tail.first_sequence != begins {
                let (first, last) = (places.first(), places.last());
                let wrong = format!("{run} is {first:?} to {last:?} but its marker gives {begins}");
                self.trace.wrong(Check::Gaps, wrong);
            }
            if begins > 0 && !stored.iter().any(|(.., bytes)| is_ending(bytes)) {
                self.trace.wrong(Check::Gaps, format_args!("{run} was pruned and has no ending"));
            }
            let acknowledged = self.client_record().pruned.get(run).copied().unwrap_or(0);
            if begins < acknowledged {
                self.trace.wrong(
                    Check::Gaps,
                    format_args!("{run} begins at {begins} again, not at {acknowledged}"),
                );
            }
        }
    }

    /// Checks that a task is deleted with all its runs, permanently, or not at all; and only on request.
    pub(super) async fn check_deletions(&self, engine: &Engine, runs: &[RunId]) {
        for run in runs.iter().filter(|run| self.is_erased(**run)) {
            if !self.is_deletion_requested(*run) {
                self.trace.wrong(Check::Erased, format_args!("{run} was deleted without a request"));
            }
            if !self.stored(*run).is_empty() {
                self.trace.wrong(Check::Erased, format_args!("{run} has left events behind"));
            }
            let answers = [
                engine.read().read_run(*run, None, 1).await.map(drop),
                engine.read().follow_run(*run, None).await.map(drop),
                engine.read().digest(*run).await.map(drop),
            ];
            for answer in answers {
                if !answer.as_ref().is_err_and(|error| error.code() == Code::RunErased) {
                    self.trace.wrong(Check::Erased, format_args!("{run} was erased and answers {answer:?}"));
                }
            }
        }
        let deletions = self.client_record().deletions.clone();
        let task_of = self.client_record().task_of.clone();
        for (task, acknowledged) in deletions {
            let is_there = engine.catalogue().task(task).await.is_ok_and(|row| row.is_some());
            if acknowledged && is_there {
                self.trace.wrong(Check::Erased, format_args!("{task} was deleted and is there"));
            }
            for (run, _) in task_of.iter().filter(|(_, of)| **of == task) {
                if self.is_erased(*run) == is_there {
                    let wrong = format!("{task} is there: {is_there}, and so is not {run}");
                    self.trace.wrong(Check::Erased, wrong);
                }
            }
        }
    }

    /// Whether a reader was refused correctly: then it starts again, or follows another run.
    pub(super) fn is_refused_fairly(
        &self,
        target: Target,
        after: Option<u64>,
        trouble: &CallFailure,
    ) -> bool {
        let CallFailure::Rejected(rejection) = trouble else { return false };
        match target {
            Target::Run(run) => self.is_erased_run(run, rejection),
            Target::Feed => {
                let next = after.unwrap_or(0) + 1;
                rejection.code == Code::CursorPruned && next > 1 && !self.feed_has(1, next + 1)
            }
        }
    }
}
