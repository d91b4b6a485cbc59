//! The projection of one run in one language, made by one task while it has readers. Start with [`RunProjection`].

use std::sync::{Arc, Mutex, Weak};

use recount_aaep::Event as AaepEvent;
use recount_engine::{Engine, SharedEvent};
use recount_event::RunId;
use recount_world::{Clock, Kind, Shutdown};
use tokio::sync::watch;

use super::lock;
use super::projected::{Projected, ProjectedSink, RunOwner, project, project_damage};
use super::window::{Budget, Window};
use crate::limits;
use crate::project::{JoinReason, Place, Projector, RepeatedPrompt};
use crate::reply_tokens::ReplyTokens;
use crate::speech::Speech;

/// The progress of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunLevel {
    /// The number of the next event.
    pub(super) next: u64,
    /// The sequence after the last event of the log that was projected.
    pub(super) sequence: u64,
    pub(super) end: RunEnd,
}

impl RunLevel {
    fn has(self, sequence: u64) -> bool {
        self.sequence >= sequence || self.end != RunEnd::Open
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunEnd {
    /// More events may follow.
    Open,
    /// The session has ended, or no more of it can be read: its beginning was pruned, or the next event is damaged.
    Over,
    /// The events cannot be read at the moment, or the run was deleted.
    Failed,
}

/// The shared projection of a run, with a window of its newest events.
pub(crate) struct RunProjection {
    speech: &'static Speech,
    tokens: ReplyTokens,
    clock: Arc<dyn Clock>,
    state: Mutex<RunFold>,
    level: watch::Sender<RunLevel>,
    /// Dropped with the projection, which ends its task.
    _alive: watch::Sender<()>,
}

struct RunFold {
    projector: Projector,
    window: Window,
    owner: Option<RunOwner>,
    /// The sequence of the last event of the log that was projected.
    sequence: Option<u64>,
    /// Projections of all runs that receive this one, from a sequence on.
    tenants: Vec<(Weak<dyn ProjectedSink>, u64)>,
}

/// The state of a run, for a subscription that joins it.
pub(crate) struct JoinState {
    /// A summary and the open prompts; none before the session has started and after it has ended.
    pub(crate) lead_in: Vec<AaepEvent>,
    pub(crate) owner: Option<RunOwner>,
    /// The number of the next event.
    pub(crate) next: u64,
    /// The last event of the log that the state includes.
    pub(crate) sequence: Option<u64>,
    /// Whether the events cannot be read at the moment, so that the state is not known.
    pub(crate) has_failed: bool,
}

impl RunProjection {
    pub(super) fn start(
        engine: &Engine,
        run: RunId,
        speech: &'static Speech,
        tokens: ReplyTokens,
        budget: Arc<Budget>,
        tenant: Option<(&Arc<dyn ProjectedSink>, u64)>,
    ) -> Arc<Self> {
        let (alive, dropped) = watch::channel(());
        let state = RunFold {
            projector: Projector::new(run, speech),
            window: Window::new(limits::RUN_WINDOW_BYTES_MAX, budget, tenant.is_none()),
            owner: None,
            sequence: None,
            tenants: tenant.map(|(tenant, from)| (Arc::downgrade(tenant), from)).into_iter().collect(),
        };
        let level = watch::Sender::new(RunLevel { next: 0, sequence: 0, end: RunEnd::Open });
        let clock = engine.world().clock.clone();
        let projection =
            Arc::new(RunProjection { speech, tokens, clock, state: Mutex::new(state), level, _alive: alive });
        let (ours, engine_too) = (Arc::downgrade(&projection), engine.clone());
        engine
            .world()
            .tasks
            .spawn(Kind::Connection, move |shutdown| drive(ours, engine_too, run, dropped, shutdown));
        projection
    }

    pub(super) fn speech(&self) -> &'static Speech {
        self.speech
    }

    pub(super) fn has_failed(&self) -> bool {
        self.level.borrow().end == RunEnd::Failed
    }

    pub(super) fn is_over(&self) -> bool {
        self.level.borrow().end != RunEnd::Open
    }

    pub(super) fn level(&self) -> watch::Receiver<RunLevel> {
        self.level.subscribe()
    }

    /// Whether everything before a sequence is projected, or no more will be.
    pub(super) fn is_caught_up(&self, sequence: u64) -> bool {
        self.level.borrow().has(sequence)
    }

    /// Returns when everything before a sequence is projected, or no more will be.
    pub(crate) async fn caught_up(&self, sequence: u64) {
        let mut level = self.level.subscribe();
        if level.wait_for(|level| level.has(sequence)).await.is_err() {
            unreachable!("this holds the sender");
        }
    }

    /// Keeps later events for readers of this run.
    pub(super) fn keep(&self) {
        lock(&self.state).window.keep();
    }

    /// Some events from a number on; `None` if they have to be projected again.
    pub(super) fn from(&self, number: u64) -> Option<Vec<Arc<Projected>>> {
        lock(&self.state).window.from(number)
    }

    /// The number of the first event after a place; `None` if that event may have left the window.
    pub(super) fn after(&self, place: Place) -> Option<u64> {
        lock(&self.state).window.after(place)
    }

    /// The place and the time of the newest event, if it is in the window.
    pub(super) fn newest(&self) -> Option<(Place, i64)> {
        let state = lock(&self.state);
        state.window.kept().last().map(|newest| (newest.place, newest.event.envelope.timestamp.millis()))
    }

    /// The current state of the run.
    pub(crate) fn join_state(&self, reason: JoinReason) -> JoinState {
        let now = self.clock.now_ms();
        let state = lock(&self.state);
        let has_failed = self.has_failed();
        let lead_in = state.projector.join_summary(now, reason);
        JoinState {
            lead_in: lead_in.map(|summary| summary.into_events().collect()).unwrap_or_default(),
            owner: state.owner,
            next: state.window.next(),
            sequence: state.sequence,
            has_failed,
        }
    }

    /// Whether a prompt is open.
    pub(super) fn awaits_reply(&self) -> bool {
        lock(&self.state).projector.awaits_reply()
    }

    /// The prompts that are open now.
    pub(super) fn open_prompts(&self) -> Vec<RepeatedPrompt> {
        let summary = lock(&self.state).projector.join_summary(self.clock.now_ms(), JoinReason::Joined);
        summary.map(|summary| summary.prompts).unwrap_or_default()
    }

    /// The owner of the run, if its events were read or its damage was found.
    pub(super) fn owner(&self) -> Option<RunOwner> {
        lock(&self.state).owner
    }

    /// Sends the events from a sequence on to a projection of all runs, starting with those in the window.
    pub(super) fn hand_on(&self, tenant: &Arc<dyn ProjectedSink>, sequence: u64) {
        let mut state = lock(&self.state);
        for event in state.window.kept().filter(|event| event.place.sequence >= sequence) {
            tenant.push(event.clone());
        }
        state.tenants.retain(|(known, _)| known.strong_count() > 0);
        state.tenants.push((Arc::downgrade(tenant), sequence));
    }

    fn take(&self, events: &[Arc<SharedEvent>]) -> bool {
        let mut state = lock(&self.state);
        let mut level = *self.level.borrow();
        for event in events {
            let RunFold { projector, window, .. } = &mut *state;
            for projected in project(projector, event, &self.tokens, window.next()) {
                state.owner = Some(projected.owner);
                for (tenant, from) in &state.tenants {
                    if event.sequence >= *from
                        && let Some(tenant) = tenant.upgrade()
                    {
                        tenant.push(projected.clone());
                    }
                }
                state.window.push(projected);
            }
            state.sequence = Some(event.sequence);
            level.sequence = event.sequence + 1;
            if state.projector.is_over() {
                level.end = RunEnd::Over;
                break;
            }
        }
        level.next = state.window.next();
        drop(state);
        self.level.send_replace(level);
        level.end == RunEnd::Open
    }

    /// Ends the session at a damaged event. Projections of all runs receive the end at any position.
    fn break_off(&self, owner: RunOwner, sequence: u64) {
        let mut state = lock(&self.state);
        let RunFold { projector, window, .. } = &mut *state;
        for projected in project_damage(projector, owner, sequence, window.next()) {
            for tenant in state.tenants.iter().filter_map(|(tenant, _)| tenant.upgrade()) {
                tenant.push(projected.clone());
            }
            state.window.push(projected);
        }
        state.owner = Some(owner);
        let next = state.window.next();
        drop(state);
        self.level.send_modify(|level| (level.next, level.end) = (next, RunEnd::Over));
    }

    /// Marks the end: no more events follow.
    fn close(&self, end: RunEnd) {
        self.level.send_if_modified(|level| {
            let open = level.end == RunEnd::Open;
            if open {
                level.end = end;
            }
            open
        });
    }
}

/// Tells readers that no more events follow, even if the task panics.
struct RunEndGuard(Weak<RunProjection>);

impl Drop for RunEndGuard {
    fn drop(&mut self) {
        if let Some(projection) = self.0.upgrade() {
            projection.close(RunEnd::Failed);
        }
    }
}

async fn drive(
    projection: Weak<RunProjection>,
    engine: Engine,
    run: RunId,
    mut dropped: watch::Receiver<()>,
    mut shutdown: Shutdown,
) {
    let ending = RunEndGuard(projection);
    let mut events = match engine.read().follow_events(run, None).await {
        Ok(events) => events,
        Err(error) => {
            tracing::debug!(%error, %run, "a run cannot be projected");
            return;
        }
    };
    loop {
        let next = tokio::select! {
            biased;
            () = shutdown.requested() => return,
            _ = dropped.changed() => return,
            next = events.next() => next,
        };
        let Some(projection) = ending.0.upgrade() else { return };
        match next {
            Ok(Some(events)) if projection.take(&events) => {}
            Ok(Some(_)) => return,
            // All stored events were read. The beginning of a session may be pruned.
            Ok(None) => return projection.close(RunEnd::Over),
            Err(error) => {
                tracing::warn!(%error, %run, "a run cannot be projected any further");
                if error.is_damage() {
                    break_off(&projection, &engine, run, events.last()).await;
                }
                return;
            }
        }
    }
}

/// Ends the projection of a run whose next event is damaged.
async fn break_off(projection: &RunProjection, engine: &Engine, run: RunId, last: Option<u64>) {
    let owner = match projection.owner() {
        Some(owner) => owner,
        // No event of the run could be read, so the catalogue is used.
        None => match engine.catalogue().run(run).await {
            Ok(Some(row)) => RunOwner { run, task: row.task_id, session: row.session_id },
            Ok(None) => return,
            Err(error) => {
                return tracing::warn!(
                    %error,
                    %run,
                    "the task and session of a damaged run cannot be read"
                );
            }
        },
    };
    projection.break_off(owner, last.map_or(0, |last| last + 1));
}
