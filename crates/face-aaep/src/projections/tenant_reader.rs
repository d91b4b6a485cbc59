//! A cursor in the projection of all runs of a tenant. Start with [`TenantReader::next`].

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::Arc;

use recount_aaep::Kind;
use recount_engine::{Engine, Narrowing};
use recount_event::RunId;
use tokio::sync::watch;

use super::Projections;
use super::projected::Projected;
use super::run::JoinState;
use super::run_reader::Broken;
use super::tenant::{LiveRun, TenantLevel, TenantProjection, TenantStage};
use crate::limits;
use crate::project::JoinReason;
use crate::speech::Speech;

/// Reads the new events of the runs that a caller may see.
pub(crate) struct TenantReader {
    projections: Projections,
    engine: Engine,
    narrowing: Narrowing,
    tenant: Arc<TenantProjection>,
    level: watch::Receiver<TenantLevel>,
    /// The number of the next event; `None` before it has joined.
    next: Option<u64>,
    /// Live runs that it has not joined yet.
    joining: VecDeque<(RunId, LiveRun)>,
    /// For each joined run, the first event that was not yet returned.
    had: HashMap<RunId, u64>,
    /// The reason of the join.
    reason: JoinReason,
}

/// The next step of the reader.
pub(crate) enum Next {
    /// Events in order and without repetition; the list may be empty.
    Events(Vec<Arc<Projected>>),
    /// A live run and its state. Its later events follow.
    Joined(Box<JoinState>),
    /// No more events.
    Over,
}

impl TenantReader {
    pub(crate) fn open(
        projections: &Projections,
        engine: &Engine,
        narrowing: Narrowing,
        speech: &'static Speech,
        reason: JoinReason,
    ) -> Self {
        let tenant = projections.tenant(engine, speech);
        TenantReader {
            projections: projections.clone(),
            engine: engine.clone(),
            narrowing,
            level: tenant.level(),
            tenant,
            next: None,
            joining: VecDeque::new(),
            had: HashMap::new(),
            reason,
        }
    }

    /// Continues in another language: joins all live runs again.
    pub(crate) fn change_language(&mut self, speech: &'static Speech) {
        if speech.tag() != self.tenant.speech().tag() {
            *self = TenantReader::open(
                &self.projections,
                &self.engine,
                self.narrowing.clone(),
                speech,
                JoinReason::Joined,
            );
        }
    }

    /// Starts now, so that later events are not missed.
    pub(crate) async fn begin(&mut self) -> Result<(), Broken> {
        let mut level = self.tenant.level();
        let stage =
            level.wait_for(|level| level.stage != TenantStage::Starting).await.map(|level| level.stage);
        if !stage.is_ok_and(|stage| stage == TenantStage::Live) {
            return Err(Broken);
        }
        self.join();
        Ok(())
    }

    /// Waits for the next events. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Next, Broken> {
        loop {
            while self.joining.front().is_some_and(|(_, live)| live.projection.is_caught_up(live.history)) {
                if let Some(join_state) = self.joined() {
                    return Ok(Next::Joined(Box::new(join_state)));
                }
            }
            let level = *self.level.borrow_and_update();
            match (level.stage, self.next) {
                (TenantStage::Failed, _) => return Err(Broken),
                (TenantStage::Starting, _) => {}
                (TenantStage::Live, None) => self.join(),
                (TenantStage::Live, Some(next)) => match self.tenant.from(next) {
                    Some(events) if !events.is_empty() => {
                        self.next = Some(next + events.len() as u64);
                        return Ok(Next::Events(self.wanted(events)));
                    }
                    Some(_) => {}
                    // Events that have left the window are replaced by the state of the runs.
                    None => {
                        self.reason = JoinReason::Missed;
                        self.join();
                    }
                },
            }
            let first = self.joining.front().cloned();
            let caught_up = async {
                match &first {
                    Some((_, live)) => live.projection.caught_up(live.history).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                changed = self.level.changed() => if changed.is_err() { return Err(Broken) },
                () = caught_up => {}
            }
        }
    }

    /// Starts here, with every live run.
    fn join(&mut self) {
        let (next, mut live) = self.tenant.live();
        // Only some runs are joined, to bound the memory of a subscription: those that wait for a reply, then the
        // newest. The others are received from their next event on.
        live.make_contiguous().sort_by_cached_key(|(run, live)| (!live.awaits_reply(), Reverse(*run)));
        live.truncate(limits::RUNS_JOINED_MAX);
        self.next = Some(next);
        self.had = live.iter().map(|(run, _)| (*run, u64::MAX)).collect();
        self.joining = live;
    }

    /// The state of the next run to join, if the caller may see it. For a run that has ended in the meantime, all
    /// events since then follow.
    fn joined(&mut self) -> Option<JoinState> {
        let (run, live) = self.joining.pop_front()?;
        let join_state = live.projection.join_state(self.reason);
        if join_state.lead_in.is_empty() {
            self.had.remove(&run);
            return None;
        }
        self.had.insert(run, join_state.next);
        let seen = join_state.owner.is_some_and(|owner| self.narrowing.admits(owner.task, owner.session));
        seen.then_some(join_state)
    }

    fn wanted(&mut self, mut events: Vec<Arc<Projected>>) -> Vec<Arc<Projected>> {
        events.retain(|event| {
            let run = event.owner.run;
            let is_last = event.event.kind().is_some_and(Kind::is_terminal);
            // The ending of a run that is not joined yet is not part of a summary.
            if self.had.get(&run).is_some_and(|had| event.index < *had && !is_last) {
                return false;
            }
            if self.had.remove(&run) == Some(u64::MAX) {
                self.joining.retain(|(joining, _)| *joining != run);
            }
            self.narrowing.admits(event.owner.task, event.owner.session)
        });
        events
    }
}
