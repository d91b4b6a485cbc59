//! Retention: the policy that selects runs to prune, pins, and the sweep.
//!
//! Only ended runs are pruned, in the order in which they ended. Pinned runs and runs of a session are never pruned.
//! [`Policy::reason`] is pure; the run's writer executes the prune. A sweep handles a limited number of runs.

use std::collections::BinaryHeap;
use std::time::Duration;

use recount_event::{Code, RunId, time};
use recount_log::{Append, AppendError, Guard, ReadBound, ReadResult as _};
use recount_world::Kind;

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::error::run_erased;
use crate::ground::journal::stream_of;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::write::request::{Prune, PruneRows};
use crate::write::row_deletions::delete_rows;
use crate::{Error, IdempotencyKey, Pin, Pruned, RequestResult, RunRow, limits};

/// How much is stored. A limit that is not set prunes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy {
    /// How long an ended run keeps all its events.
    pub max_age: Option<Duration>,
    /// Events of the whole store.
    pub max_events: Option<u64>,
    /// Bytes of events of the whole store.
    pub max_bytes: Option<u64>,
}

/// The stored events and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredSize {
    pub events: u64,
    pub bytes: u64,
}

/// The result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepReport {
    pub runs: u64,
    pub events: u64,
    /// Whether the sweep reached its limit, so that another one may find more.
    pub has_more: bool,
    /// Due runs that are damaged and were skipped.
    pub damaged: u64,
}

/// What a sweep would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepPlan {
    /// With all rounds together.
    pub swept: SweepReport,
    /// The runs, up to a bound.
    pub runs: Vec<RunId>,
}

impl SweepPlan {
    fn add(&mut self, run: RunId, events: u64) {
        self.swept.runs += 1;
        self.swept.events += events;
        if self.runs.len() < limits::SWEEP_PLAN_RUNS_MAX {
            self.runs.push(run);
        }
    }
}

impl SweepReport {
    fn with(self, pruned: &Pruned) -> Self {
        let runs = self.runs + u64::from(pruned.events > 0);
        SweepReport { runs, events: self.events + pruned.events, ..self }
    }

    /// The progress as stored with an idempotency key.
    fn so_far(self) -> RequestResult {
        RequestResult::Pruned { runs: self.runs, events: self.events }
    }

    fn finished(self) -> RequestResult {
        let SweepReport { runs, events, has_more, damaged } = self;
        RequestResult::Swept { runs, events, more: u64::from(has_more), damaged }
    }
}

impl Policy {
    pub fn is_off(&self) -> bool {
        *self == Policy::default()
    }

    /// Why a run that ended at this time is pruned, if it is the first of those that remain.
    pub fn reason(&self, now_ms: u64, ended_ms: u64, stored: StoredSize) -> Option<&'static str> {
        let age = Duration::from_millis(now_ms.saturating_sub(ended_ms));
        if self.max_age.is_some_and(|max| age > max) {
            return Some("max_age");
        }
        if self.max_events.is_some_and(|max| stored.events > max) {
            return Some("max_events");
        }
        if self.max_bytes.is_some_and(|max| stored.bytes > max) {
            return Some("max_bytes");
        }
        None
    }
}

impl AdminHandle {
    /// Removes the events of an ended run before `before`, at most those before its ending.
    #[boxed]
    pub async fn prune(&self, run: RunId, before: Option<u64>, reason: &str) -> Result<Pruned, Error> {
        self.prune_keyed(run, before, reason, None).await
    }

    /// What a prune would remove now. Changes nothing.
    #[boxed]
    pub async fn would_prune(&self, run: RunId, before: Option<u64>) -> Result<Pruned, Error> {
        let _turn = self.housekeeping.lock().await;
        self.trial(run, before).await
    }

    async fn trial(&self, run: RunId, before: Option<u64>) -> Result<Pruned, Error> {
        if self.catalogue().is_pinned(run).await? {
            let message = format!("{run} is pinned; unpin it first");
            return Err(Error::rejected(Code::RunPinned, message));
        }
        self.check_artifact_pins(run).await?;
        let prune = Prune { before, reason: String::new(), rows: None, is_trial: true };
        self.write().writers.ask(run, prune).await
    }

    /// What all rounds of a sweep would prune now. Changes nothing.
    #[boxed]
    pub async fn would_sweep(&self, policy: &Policy) -> Result<SweepPlan, Error> {
        let mut plan = SweepPlan::default();
        if policy.is_off() {
            return Ok(plan);
        }
        let _turn = self.housekeeping.lock().await;
        let now_ms = self.ground().world.clock.now_ms();
        let mut kept = self.stored_size().await?;
        let mut after = None;
        loop {
            let oldest = self.ended_first(limits::SWEEP_RUNS_MAX, after).await?;
            after = oldest.last().copied();
            let is_last = oldest.len() < limits::SWEEP_RUNS_MAX;
            for (ended_ms, run) in oldest {
                if policy.reason(now_ms, ended_ms, kept).is_none() {
                    return Ok(plan);
                }
                match self.trial(run, None).await {
                    Ok(Pruned { events: 0, .. }) => {}
                    Ok(Pruned { events, first_sequence, .. }) => {
                        let bytes = match policy.max_bytes {
                            Some(_) => self.bytes_before(run, first_sequence).await?,
                            None => 0,
                        };
                        // The marker that describes the prune is one event.
                        kept.events = kept.events.saturating_sub(events) + 1;
                        kept.bytes = kept.bytes.saturating_sub(bytes);
                        plan.add(run, events);
                    }
                    Err(Error::Rejected(_)) => {}
                    Err(error) if error.is_damage() => plan.swept.damaged += 1,
                    Err(error) => return Err(error),
                }
            }
            if is_last {
                return Ok(plan);
            }
        }
    }

    /// Bytes of the events of a run before one of them.
    async fn bytes_before(&self, run: RunId, sequence: u64) -> Result<u64, Error> {
        let (store, stream) = (self.ground().store(), stream_of(run));
        let bound = ReadBound { count: limits::PAGE_EVENTS, bytes: limits::PAGE_BYTES };
        let Some(end) = store.end(&stream).await? else { return Ok(0) };
        let (mut from, mut bytes) = (end.first_sequence, 0);
        while from < sequence {
            let page = store.read(&stream, from, bound).await?;
            let Some(last) = page.last() else { break };
            from = last.sequence + 1;
            let before = page.iter().filter(|record| record.sequence < sequence);
            bytes += before.map(|record| record.bytes.len() as u64).sum::<u64>();
        }
        Ok(bytes)
    }

    async fn stored_size(&self) -> Result<StoredSize, Error> {
        let stats = self.ground().store().stats().await?;
        Ok(StoredSize {
            events: stats.hot_records + stats.sealed_records,
            bytes: stats.hot_bytes + stats.sealed_bytes,
        })
    }

    /// The same for a request with a key.
    #[boxed]
    pub async fn prune_keyed(
        &self,
        run: RunId,
        before: Option<u64>,
        reason: &str,
        idempotency: Option<&IdempotencyKey>,
    ) -> Result<Pruned, Error> {
        let _turn = self.housekeeping.lock().await;
        let now_ms = self.ground().world.clock.now_ms();
        let rows = idempotency.cloned().map(|idempotency| -> PruneRows {
            Box::new(move |pruned| {
                let Pruned { first_sequence, events, .. } = *pruned;
                idempotency.rows(now_ms, RequestResult::PrunedRun { run, first_sequence, events })
            })
        });
        self.prune_in_turn(run, before, reason, rows).await
    }

    async fn prune_in_turn(
        &self,
        run: RunId,
        before: Option<u64>,
        reason: &str,
        rows: Option<PruneRows>,
    ) -> Result<Pruned, Error> {
        self.check_artifact_pins(run).await?;
        let prune = Prune { before, reason: reason.to_owned(), rows, is_trial: false };
        self.write().writers.ask(run, prune).await
    }

    /// Pins of artifacts are set under the same lock.
    async fn check_artifact_pins(&self, run: RunId) -> Result<(), Error> {
        if let Some(artifact) = self.catalogue().pinned_artifact_of(run).await? {
            let message = format!("artifact {artifact} of {run} is pinned; unpin it first");
            return Err(Error::rejected(Code::RunPinned, message));
        }
        Ok(())
    }

    /// Prunes by policy once.
    #[boxed]
    pub async fn sweep(&self, policy: &Policy) -> Result<SweepReport, Error> {
        self.sweep_keyed(policy, None, None).await
    }

    /// The same for a request with a key. Each prune stores the progress, so that the request can be repeated after a
    /// crash and continues. The end is stored too, so that a finished one prunes nothing more.
    #[boxed]
    pub async fn sweep_keyed(
        &self,
        policy: &Policy,
        idempotency: Option<&IdempotencyKey>,
        so_far: Option<&RequestResult>,
    ) -> Result<SweepReport, Error> {
        let mut swept = match so_far {
            Some(&RequestResult::Swept { runs, events, more, damaged }) => {
                return Ok(SweepReport { runs, events, has_more: more > 0, damaged });
            }
            Some(&RequestResult::Pruned { runs, events }) => {
                SweepReport { runs, events, ..SweepReport::default() }
            }
            None => SweepReport::default(),
            Some(other) => {
                return Err(Error::bug(format!(
                    "the idempotency key of a prune request belongs to {other:?}"
                )));
            }
        };
        if policy.is_off() {
            return Ok(swept);
        }
        let _turn = self.housekeeping.lock().await;
        self.sweep_runs(policy, idempotency, &mut swept).await?;
        self.write().store_result(idempotency, swept.finished()).await?;
        Ok(swept)
    }

    async fn sweep_runs(
        &self,
        policy: &Policy,
        idempotency: Option<&IdempotencyKey>,
        swept: &mut SweepReport,
    ) -> Result<(), Error> {
        let mut after = None;
        loop {
            let oldest = self.ended_first(limits::SWEEP_RUNS_MAX, after).await?;
            let (count, events) = (oldest.len(), swept.events);
            after = oldest.last().copied();
            for run in oldest {
                if !self.sweep_run(run, policy, idempotency, swept).await? {
                    return Ok(());
                }
            }
            let is_all = count < limits::SWEEP_RUNS_MAX;
            // If nothing was pruned, another sweep would select the same runs.
            if is_all || swept.events > events {
                swept.has_more = !is_all;
                return Ok(());
            }
        }
    }

    /// Prunes a run if it is due. `false`: neither this run nor any that ended later is due.
    async fn sweep_run(
        &self,
        (ended_ms, run): (u64, RunId),
        policy: &Policy,
        idempotency: Option<&IdempotencyKey>,
        swept: &mut SweepReport,
    ) -> Result<bool, Error> {
        let now_ms = self.ground().world.clock.now_ms();
        let kept = self.stored_size().await?;
        let Some(reason) = policy.reason(now_ms, ended_ms, kept) else { return Ok(false) };
        let before = *swept;
        let rows = idempotency.cloned().map(|idempotency| -> PruneRows {
            Box::new(move |pruned| idempotency.rows(now_ms, before.with(pruned).so_far()))
        });
        match self.prune_in_turn(run, None, reason, rows).await {
            Ok(pruned) => *swept = swept.with(&pruned),
            // Pinned or erased in the meantime.
            Err(Error::Rejected(no)) => tracing::debug!(%run, %no, "a run was not pruned"),
            // Continue with the others. A damaged run is erased with its task or its session.
            Err(error) if error.is_damage() => {
                tracing::warn!(%run, %error, "a damaged run cannot be pruned");
                swept.damaged += 1;
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Runs that can be pruned, in the order in which they ended.
    async fn ended_first(
        &self,
        limit: usize,
        after: Option<(u64, RunId)>,
    ) -> Result<Vec<(u64, RunId)>, Error> {
        let mut oldest: BinaryHeap<(u64, RunId)> = BinaryHeap::new();
        let mut pages = RowPages::new(self.ground().store(), rows::RUNS, limits::SWEEP_PAGE);
        while let Some(page) = pages.next().await? {
            for row in &page.rows {
                // Unreadable and damaged rows do not block the others.
                let Ok(row) = read_row::<RunRow>(rows::RUNS, &row.key, &row.value) else { continue };
                let (Some(ended_at), false, None) = (&row.ended_at, row.only_ending_left, &row.session_id)
                else {
                    continue;
                };
                let Some(ended_ms) = time::parse_ms(ended_at) else { continue };
                let run = row.id;
                let is_beyond = oldest.len() == limit
                    && oldest.peek().is_some_and(|youngest| *youngest < (ended_ms, run));
                if is_beyond || after.is_some_and(|after| (ended_ms, run) <= after) {
                    continue;
                }
                // A run whose pins cannot be read stays.
                if self.is_pinned(run).await.readable()?.whole().unwrap_or(true) {
                    continue;
                }
                oldest.push((ended_ms, run));
                if oldest.len() > limit {
                    oldest.pop();
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(oldest.into_sorted_vec())
    }

    /// Whether a pin of the run or of one of its artifacts prevents pruning.
    async fn is_pinned(&self, run: RunId) -> Result<bool, Error> {
        Ok(self.catalogue().is_pinned(run).await?
            || self.catalogue().pinned_artifact_of(run).await?.is_some())
    }

    /// Starts a service that sweeps. `every` is the pause after each sweep.
    pub fn start_sweeps(&self, policy: Policy, every: Duration) {
        if policy.is_off() {
            return;
        }
        let admin = self.clone();
        self.ground().world.tasks.spawn_until_shutdown(Kind::Service, async move {
            loop {
                match admin.sweep(&policy).await {
                    Ok(SweepReport { has_more: true, .. }) => continue,
                    Ok(SweepReport { runs, events, .. }) if runs > 0 => {
                        tracing::info!(runs, events, "pruned by retention");
                    }
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%error, "pruning by retention failed; retrying later"),
                }
                tokio::time::sleep(every).await;
            }
        });
    }

    /// Protects a run from pruning. Pinning a pinned run changes nothing.
    #[boxed]
    pub async fn pin(&self, run: RunId, by: &str) -> Result<Pin, Error> {
        if let Some(pin) = self.catalogue().pin_of(run).await? {
            return Ok(pin);
        }
        self.catalogue().existing_run(run).await?;
        let pinned_at = time::format_ms(self.ground().world.clock.now_ms());
        let by = self.write().redactor().text(by).into_owned();
        let pin = Pin { by, pinned_at };
        let rows = vec![
            rows::put(rows::PINS, run.to_string(), Guard::Any, &pin),
            // The run may have been erased at this moment.
            rows::must_be_absent(rows::ERASED, rows::tenant_key(run)),
        ];
        match self.ground().store().append(Append { rows, ..Append::default() }).await {
            Ok(_) => Ok(pin),
            Err(AppendError::GuardFailed { .. }) => Err(run_erased(run)),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the pin of a run. A run without a pin does not change.
    #[boxed]
    pub async fn unpin(&self, run: RunId) -> Result<(), Error> {
        self.catalogue().existing_run(run).await?;
        delete_rows(self.ground().store(), vec![rows::delete(rows::PINS, run.to_string())]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_reason_is_returned() {
        let stored = |events, bytes| StoredSize { events, bytes };
        let seconds = |n| Some(Duration::from_secs(n));
        for (policy, stored, expected) in [
            (Policy::default(), stored(9, 9), None),
            (Policy { max_age: seconds(5), ..Policy::default() }, stored(9, 9), None),
            (Policy { max_age: seconds(4), ..Policy::default() }, stored(9, 9), Some("max_age")),
            (Policy { max_age: seconds(0), ..Policy::default() }, stored(0, 0), Some("max_age")),
            (Policy { max_events: Some(9), ..Policy::default() }, stored(9, 9), None),
            (Policy { max_events: Some(8), ..Policy::default() }, stored(9, 9), Some("max_events")),
            (Policy { max_bytes: Some(9), ..Policy::default() }, stored(9, 9), None),
            (Policy { max_bytes: Some(0), ..Policy::default() }, stored(9, 9), Some("max_bytes")),
            (
                Policy { max_age: seconds(9), max_events: Some(8), max_bytes: Some(8) },
                stored(9, 9),
                Some("max_events"),
            ),
        ] {
            assert_eq!(policy.reason(6_000, 1_000, stored), expected, "{policy:?} {stored:?}");
        }
        let policy = Policy { max_age: seconds(0), ..Policy::default() };
        assert_eq!(
            policy.reason(1_000, 6_000, stored(9, 9)),
            None,
            "no event is old after the clock was set back"
        );
    }
}
