//! What is kept and what is pruned: the choice, the pins that withhold a run from it, and the sweeper.
//!
//! Only runs that have ended are pruned, those first that ended first; pinned ones and runs of a session never
//! are. The choice is [`Policy::reason`] and pure; what a prune does is in the writer, because only that
//! changes a run. A round is bounded in runs and goes on where it is needed.

use std::collections::BinaryHeap;
use std::time::Duration;

use recount_event::{Code, RunId, time};
use recount_log::{Append, AppendError, Guard};
use recount_world::Kind;

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::table::read_row;
use crate::ground::error::run_erased;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::write::damaged_rows::take_away;
use crate::write::removal::PruneRows;
use crate::write::request::Prune;
use crate::{Error, KeyedReply, Made, Once, Pin, Pruned, RunRow, limits};

/// How much is kept. Nothing is pruned for a reason that is not set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy {
    /// How long a run is kept whole after it has ended.
    pub max_age: Option<Duration>,
    /// Events of the whole store.
    pub max_events: Option<u64>,
    /// Bytes of events of the whole store.
    pub max_bytes: Option<u64>,
}

/// How much there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoredSize {
    pub events: u64,
    pub bytes: u64,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    pub runs: u64,
    pub events: u64,
    /// Whether the round ended at its bound and another one may find more.
    pub has_more: bool,
    /// Runs that were to be pruned and are damaged: they are left.
    pub damaged: u64,
}

impl Swept {
    fn with(self, pruned: &Pruned) -> Self {
        let runs = self.runs + u64::from(pruned.events > 0);
        Swept { runs, events: self.events + pruned.events, ..self }
    }

    /// As a request remembers how far it came.
    fn so_far(self) -> Made {
        Made::Pruned { runs: self.runs, events: self.events }
    }
}

impl Policy {
    pub fn is_off(&self) -> bool {
        *self == Policy::default()
    }

    /// Why a run that ended at this time is to be pruned, if none that is left ended before it.
    pub fn reason(&self, now_ms: u64, ended_ms: u64, kept: StoredSize) -> Option<&'static str> {
        let age = Duration::from_millis(now_ms.saturating_sub(ended_ms));
        if self.max_age.is_some_and(|max| age > max) {
            return Some("max_age");
        }
        if self.max_events.is_some_and(|max| kept.events > max) {
            return Some("max_events");
        }
        if self.max_bytes.is_some_and(|max| kept.bytes > max) {
            return Some("max_bytes");
        }
        None
    }
}

impl AdminHandle {
    /// Takes the events of an ended run before `before` away, at most those before its ending.
    #[boxed]
    pub async fn prune(&self, run: RunId, before: Option<u64>, reason: &str) -> Result<Pruned, Error> {
        let _turn = self.housekeeping.lock().await;
        self.prune_in_turn(run, before, reason, None).await
    }

    /// The same for a request with a key, whose answer is kept with the prune. Where there was nothing to take it is not.
    #[boxed]
    pub async fn prune_keyed(
        &self,
        run: RunId,
        before: Option<u64>,
        reason: &str,
        reply: KeyedReply<Pruned>,
    ) -> Result<Pruned, Error> {
        let _turn = self.housekeeping.lock().await;
        let now_ms = self.ground().world.clock.now_ms();
        let rows: PruneRows = Box::new(move |pruned| {
            let made = Made::At(run, pruned.first_sequence);
            reply.rows(now_ms, made, pruned).0
        });
        self.prune_in_turn(run, before, reason, Some(rows)).await
    }

    async fn prune_in_turn(
        &self,
        run: RunId,
        before: Option<u64>,
        reason: &str,
        rows: Option<PruneRows>,
    ) -> Result<Pruned, Error> {
        // Pins of artifacts are set in turn with prunes.
        if let Some(artifact) = self.catalogue().pinned_artifact_of(run).await? {
            let message = format!("artifact {artifact} of {run} is pinned; unpin it first");
            return Err(Error::rejected(Code::RunPinned, message));
        }
        self.write().writers.ask(run, Prune { before, reason: reason.to_owned(), rows }).await
    }

    /// One round of pruning by policy.
    #[boxed]
    pub async fn sweep(&self, policy: &Policy) -> Result<Swept, Error> {
        self.sweep_once(policy, None, None).await
    }

    /// The same for a request that is to be done once. Each prune is remembered with what was swept until then, so
    /// that the request, sent again after a crash, goes on from there.
    #[boxed]
    pub async fn sweep_once(
        &self,
        policy: &Policy,
        once: Option<&Once>,
        so_far: Option<&Made>,
    ) -> Result<Swept, Error> {
        let mut swept = match so_far {
            Some(Made::Pruned { runs, events }) => Swept { runs: *runs, events: *events, ..Swept::default() },
            None => Swept::default(),
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
        let mut after = None;
        loop {
            let oldest = self.ended_first(limits::SWEEP_RUNS_MAX, after).await?;
            let (looked_at, events) = (oldest.len(), swept.events);
            after = oldest.last().copied();
            for run in oldest {
                if !self.sweep_run(run, policy, once, &mut swept).await? {
                    return Ok(swept);
                }
            }
            let is_all = looked_at < limits::SWEEP_RUNS_MAX;
            // Where nothing could be taken, another sweep would only come to the same runs again.
            if is_all || swept.events > events {
                swept.has_more = !is_all;
                return Ok(swept);
            }
        }
    }

    /// Prunes a run if that is due. `false`: neither it nor any that ended later is.
    async fn sweep_run(
        &self,
        (ended_ms, run): (u64, RunId),
        policy: &Policy,
        once: Option<&Once>,
        swept: &mut Swept,
    ) -> Result<bool, Error> {
        let now_ms = self.ground().world.clock.now_ms();
        let stats = self.ground().store().stats().await?;
        let kept = StoredSize {
            events: stats.hot_records + stats.sealed_records,
            bytes: stats.hot_bytes + stats.sealed_bytes,
        };
        let Some(reason) = policy.reason(now_ms, ended_ms, kept) else { return Ok(false) };
        let before = *swept;
        let rows = once.cloned().map(|once| -> PruneRows {
            Box::new(move |pruned| once.rows(now_ms, Some(before.with(pruned).so_far()), None))
        });
        match self.prune_in_turn(run, None, reason, rows).await {
            Ok(pruned) => *swept = swept.with(&pruned),
            // Pinned or erased since it was looked at.
            Err(Error::Rejected(no)) => tracing::debug!(%run, %no, "a run was not pruned"),
            // The others go. It goes when its task or its session is deleted.
            Err(error) if error.is_damage() => {
                tracing::warn!(%run, %error, "a damaged run cannot be pruned");
                swept.damaged += 1;
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Runs of which something may be pruned, those first that ended first.
    async fn ended_first(
        &self,
        limit: usize,
        after: Option<(u64, RunId)>,
    ) -> Result<Vec<(u64, RunId)>, Error> {
        let mut oldest: BinaryHeap<(u64, RunId)> = BinaryHeap::new();
        let mut pages = RowPages::new(self.ground().store(), rows::RUNS, limits::SWEEP_PAGE);
        while let Some(page) = pages.next().await? {
            for row in &page.rows {
                // One that cannot be read does not prevent others, and neither do damaged rows.
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
                match self.is_withheld(run).await {
                    Ok(false) => {}
                    Ok(true) => continue,
                    Err(error) if error.is_damage() => continue,
                    Err(error) => return Err(error),
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

    /// Whether a pin says that nothing of a run may be pruned.
    async fn is_withheld(&self, run: RunId) -> Result<bool, Error> {
        Ok(self.catalogue().is_pinned(run).await?
            || self.catalogue().pinned_artifact_of(run).await?.is_some())
    }

    /// Sweeps from now on, each time this long after the sweep before has ended.
    pub fn keep_to(&self, policy: Policy, every: Duration) {
        if policy.is_off() {
            return;
        }
        let admin = self.clone();
        self.ground().world.tasks.spawn(Kind::Service, move |mut shutdown| async move {
            let sweeping = async {
                loop {
                    match admin.sweep(&policy).await {
                        Ok(Swept { has_more: true, .. }) => continue,
                        Ok(Swept { runs, events, .. }) if runs > 0 => {
                            tracing::info!(runs, events, "pruned by retention");
                        }
                        Ok(_) => {}
                        Err(error) => tracing::warn!(%error, "pruning by retention failed; retrying later"),
                    }
                    tokio::time::sleep(every).await;
                }
            };
            tokio::select! {
                biased;
                () = shutdown.requested() => {}
                () = sweeping => {}
            }
        });
    }

    /// Withholds a run from pruning. Pinning again changes nothing.
    #[boxed]
    pub async fn pin(&self, run: RunId, by: &str) -> Result<Pin, Error> {
        if let Some(pin) = self.catalogue().pin_of(run).await? {
            return Ok(pin);
        }
        if self.catalogue().run(run).await?.is_none() {
            return Err(self.catalogue().missing_run(run).await);
        }
        let pinned_at = time::format_ms(self.ground().world.clock.now_ms());
        let by = self.write().redactor().text(by).into_owned();
        let pin = Pin { by, pinned_at };
        let rows = vec![
            rows::put(rows::PINS, run.to_string(), Guard::Any, &pin),
            // It may have been erased in this moment.
            rows::must_be_absent(rows::ERASED, rows::tenant_key(run)),
        ];
        match self.ground().store().append(Append { rows, ..Append::default() }).await {
            Ok(_) => Ok(pin),
            Err(AppendError::GuardFailed { .. }) => Err(run_erased(run)),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets a run be pruned again. One that is not pinned is left as it is.
    #[boxed]
    pub async fn unpin(&self, run: RunId) -> Result<(), Error> {
        if self.catalogue().run(run).await?.is_none() {
            return Err(self.catalogue().missing_run(run).await);
        }
        take_away(self.ground().store(), vec![rows::delete(rows::PINS, run.to_string())]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_there_is_counts() {
        let kept = |events, bytes| StoredSize { events, bytes };
        let seconds = |n| Some(Duration::from_secs(n));
        for (policy, kept, expected) in [
            (Policy::default(), kept(9, 9), None),
            (Policy { max_age: seconds(5), ..Policy::default() }, kept(9, 9), None),
            (Policy { max_age: seconds(4), ..Policy::default() }, kept(9, 9), Some("max_age")),
            (Policy { max_age: seconds(0), ..Policy::default() }, kept(0, 0), Some("max_age")),
            (Policy { max_events: Some(9), ..Policy::default() }, kept(9, 9), None),
            (Policy { max_events: Some(8), ..Policy::default() }, kept(9, 9), Some("max_events")),
            (Policy { max_bytes: Some(9), ..Policy::default() }, kept(9, 9), None),
            (Policy { max_bytes: Some(0), ..Policy::default() }, kept(9, 9), Some("max_bytes")),
            (
                Policy { max_age: seconds(9), max_events: Some(8), max_bytes: Some(8) },
                kept(9, 9),
                Some("max_events"),
            ),
        ] {
            assert_eq!(policy.reason(6_000, 1_000, kept), expected, "{policy:?} {kept:?}");
        }
        let policy = Policy { max_age: seconds(0), ..Policy::default() };
        assert_eq!(policy.reason(1_000, 6_000, kept(9, 9)), None, "a clock set back makes nothing old");
    }
}
