//! The projection of all runs of a tenant in one language: the events of its live runs, merged.
//!
//! One task follows the feed for new runs; each run is projected by its own task. Start with [`TenantProjection`].

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, Weak};

use recount_engine::{Engine, Error, ListQuery, RunFilter, RunRow};
use recount_event::RunId;
use recount_event::codec::Envelope;
use recount_world::{Kind, Shutdown};
use tokio::sync::watch;

use super::projected::{Projected, ProjectedSink};
use super::run::RunProjection;
use super::window::Window;
use super::{Projections, lock};
use crate::limits;
use crate::speech::Speech;

/// The progress of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TenantLevel {
    /// The number of the next event.
    pub(super) next: u64,
    pub(super) stage: TenantStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TenantStage {
    /// Not all runs that were live at the start are known.
    Starting,
    Live,
    Failed,
}

/// A run that has not ended. Events before the sequence `history` happened before this projection started.
#[derive(Clone)]
pub(super) struct LiveRun {
    pub(super) projection: Arc<RunProjection>,
    pub(super) history: u64,
    /// Whether it waited for a reply when this projection started.
    waited: bool,
}

impl LiveRun {
    /// Whether a prompt of it is open.
    pub(super) fn awaits_reply(&self) -> bool {
        match self.projection.is_caught_up(self.history) {
            true => self.projection.awaits_reply(),
            false => self.waited,
        }
    }
}

/// The shared projection of a tenant, with a window of its newest events.
pub(crate) struct TenantProjection {
    speech: &'static Speech,
    window: Mutex<Window>,
    runs: Mutex<HashMap<RunId, LiveRun>>,
    level: watch::Sender<TenantLevel>,
    /// Dropped with the projection, which ends its task.
    _alive: watch::Sender<()>,
}

impl TenantProjection {
    pub(super) fn start(projections: &Projections, engine: &Engine, speech: &'static Speech) -> Arc<Self> {
        let (alive, dropped) = watch::channel(());
        let window = Window::new(limits::TENANT_WINDOW_BYTES_MAX, projections.0.budget.clone(), true);
        let tenant = Arc::new(TenantProjection {
            speech,
            window: Mutex::new(window),
            runs: Mutex::default(),
            level: watch::Sender::new(TenantLevel { next: 0, stage: TenantStage::Starting }),
            _alive: alive,
        });
        let task = Task {
            tenant: TenantEndGuard(Arc::downgrade(&tenant)),
            projections: projections.clone(),
            engine: engine.clone(),
        };
        engine.world().tasks.spawn(Kind::Connection, move |shutdown| task.drive(dropped, shutdown));
        tenant
    }

    pub(super) fn speech(&self) -> &'static Speech {
        self.speech
    }

    pub(super) fn has_failed(&self) -> bool {
        self.level.borrow().stage == TenantStage::Failed
    }

    pub(super) fn level(&self) -> watch::Receiver<TenantLevel> {
        self.level.subscribe()
    }

    /// The number of the next event, and the runs that are live.
    pub(super) fn live(&self) -> (u64, VecDeque<(RunId, LiveRun)>) {
        // The number is read first: later events are in the window, earlier ones in the state of the runs.
        let next = lock(&self.window).next();
        let runs = lock(&self.runs);
        (next, runs.iter().map(|(run, live)| (*run, live.clone())).collect())
    }

    /// Some events from a number on; `None` if the first of them has left the window.
    pub(super) fn from(&self, number: u64) -> Option<Vec<Arc<Projected>>> {
        lock(&self.window).from(number)
    }

    fn is_full(&self) -> bool {
        lock(&self.runs).len() >= limits::LIVE_RUNS_MAX
    }
}

impl ProjectedSink for TenantProjection {
    fn push(&self, event: Arc<Projected>) {
        let (run, is_last) =
            (event.owner.run, event.event.kind().is_some_and(recount_aaep::Kind::is_terminal));
        let next = {
            let mut window = lock(&self.window);
            window.push(event);
            window.next()
        };
        self.level.send_modify(|level| level.next = level.next.max(next));
        if is_last {
            // Dropped by the feed task later, because this is called by the projection of the run itself.
            drop(lock(&self.runs).remove(&run));
        }
    }
}

/// Tells readers that no more events follow, even if the task panics.
struct TenantEndGuard(Weak<TenantProjection>);

impl Drop for TenantEndGuard {
    fn drop(&mut self) {
        if let Some(tenant) = self.0.upgrade() {
            tenant.level.send_modify(|level| level.stage = TenantStage::Failed);
        }
    }
}

struct Task {
    tenant: TenantEndGuard,
    projections: Projections,
    engine: Engine,
}

impl Task {
    async fn drive(self, mut dropped: watch::Receiver<()>, mut shutdown: Shutdown) {
        tokio::select! {
            biased;
            () = shutdown.requested() => {}
            _ = dropped.changed() => {}
            failed = self.follow() => if let Err(error) = failed {
                tracing::warn!(%error, "the runs of a tenant cannot be followed any further");
            }
        }
    }

    async fn follow(&self) -> Result<(), Error> {
        let began = self.engine.read().last_position().await?;
        let mut feed = self.engine.read().follow_feed_records(began).await?;
        for (run, waited) in self.unended().await? {
            let history = self.engine.read().tail(run).await?.unwrap_or(0);
            self.add(run, history, waited);
        }
        if let Some(tenant) = self.tenant.0.upgrade() {
            tenant.level.send_modify(|level| level.stage = TenantStage::Live);
        }
        while let Some(records) = feed.next().await? {
            for (_, envelope) in records {
                match Envelope::read(&envelope) {
                    Ok(envelope) if envelope.sequence == 0 => self.add(envelope.run_id, 0, false),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The runs that have not ended, all own runs and the newest external ones, each with whether it waits for a reply.
    async fn unended(&self) -> Result<BTreeMap<RunId, bool>, Error> {
        let mut rows: Vec<RunRow> = self.engine.catalogue().unfinished().await?;
        let mut query = ListQuery { limit: limits::RUNS_PAGE, ..ListQuery::default() };
        let mut looked_at = 0;
        loop {
            let page = self
                .engine
                .catalogue()
                .list_matching_runs(&query, &RunFilter::default(), &Default::default())
                .await?;
            looked_at += page.items.len();
            rows.extend(page.items.into_iter().filter(|row| !row.has_ended()));
            if !page.end.has_more || looked_at >= limits::RUNS_LOOKED_AT_MAX {
                break;
            }
            query.after = page.end.next;
        }
        let waits = |row: &RunRow| {
            [&row.pending_approvals, &row.pending_clarifications, &row.pending_handoffs]
                .into_iter()
                .any(|pending| !pending.is_empty())
        };
        Ok(rows.iter().map(|row| (row.id, waits(row))).collect())
    }

    fn add(&self, run: RunId, history: u64, waited: bool) {
        let Some(tenant) = self.tenant.0.upgrade() else { return };
        if lock(&tenant.runs).contains_key(&run) {
            return;
        }
        if tenant.is_full() {
            tracing::warn!(
                %run,
                max = limits::LIVE_RUNS_MAX,
                "too many runs are active; this one is only on its own streams"
            );
            return;
        }
        let sink: Arc<dyn ProjectedSink> = tenant.clone();
        let projection = self.projections.run(&self.engine, run, tenant.speech, Some((&sink, history)));
        // The run may have ended in the meantime; then its last event came before it was listed here.
        if !projection.is_over() {
            lock(&tenant.runs).insert(run, LiveRun { projection: projection.clone(), history, waited });
        }
        if projection.is_over() {
            lock(&tenant.runs).remove(&run);
        }
    }
}
