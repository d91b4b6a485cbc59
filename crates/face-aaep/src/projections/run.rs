//! The projection of one run in one language, made by one task while anybody reads it. See [`RunProjection`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use recount_aaep::Event as AaepEvent;
use recount_aaep::wire::Envelope;
use recount_engine::{Engine, SharedEvent};
use recount_event::{ForeignId, RunId};
use recount_world::{Kind, Shutdown};
use tokio::sync::watch;

use super::projected::{Projected, PromptChange, RunOwner, project, prompt_change};
use super::tenant::TenantProjection;
use super::window::{Budget, Window};
use super::lock;
use crate::joining;
use crate::limits;
use crate::project::{Place, Projector};
use crate::reply_tokens::ReplyTokens;
use crate::speech::{Key, Speech};

/// How far a projection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level {
    /// The number of the next event.
    pub(super) next: u64,
    /// The sequence after the last event of the log that was projected.
    pub(super) sequence: u64,
    pub(super) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// More may come.
    Open,
    /// The session has ended.
    Over,
    /// The events cannot be read any further, or the run was deleted.
    Failed,
}

/// See the head of this file.
pub(crate) struct RunProjection {
    run: RunId,
    speech: &'static Speech,
    tokens: ReplyTokens,
    state: Mutex<State>,
    level: watch::Sender<Level>,
    /// Dropped with the projection, which ends its task.
    _alive: watch::Sender<()>,
}

struct State {
    projector: Projector,
    window: Window,
    /// Open prompts, as they were shown.
    prompts: BTreeMap<ForeignId, Arc<Projected>>,
    /// The envelope and the owner of the last event.
    last: Option<(Envelope, RunOwner)>,
    /// Projections of all runs that receive this one, from a sequence on.
    tenants: Vec<(Weak<TenantProjection>, u64)>,
}

/// Where a run stands, for a subscription that joins it.
pub(crate) struct Standing {
    /// Says the state; `None` if nothing has happened yet.
    pub(crate) summary: Option<AaepEvent>,
    pub(crate) owner: Option<RunOwner>,
    /// Open prompts, as they were shown.
    pub(crate) prompts: Vec<Arc<Projected>>,
    /// The number of the next event.
    pub(crate) next: u64,
    pub(crate) is_over: bool,
}

impl RunProjection {
    pub(super) fn start(
        engine: &Engine,
        run: RunId,
        speech: &'static Speech,
        tokens: ReplyTokens,
        budget: Arc<Budget>,
        tenant: Option<(&Arc<TenantProjection>, u64)>,
    ) -> Arc<Self> {
        let (alive, gone) = watch::channel(());
        let state = State {
            projector: Projector::new(run, speech),
            window: Window::new(limits::RUN_WINDOW_BYTES_MAX, budget, tenant.is_none()),
            prompts: BTreeMap::new(),
            last: None,
            tenants: tenant.map(|(tenant, from)| (Arc::downgrade(tenant), from)).into_iter().collect(),
        };
        let level = watch::Sender::new(Level { next: 0, sequence: 0, end: End::Open });
        let projection =
            Arc::new(RunProjection { run, speech, tokens, state: Mutex::new(state), level, _alive: alive });
        let (ours, engine_too) = (Arc::downgrade(&projection), engine.clone());
        engine.world().tasks.spawn(Kind::Connection, move |shutdown| drive(ours, engine_too, run, gone, shutdown));
        projection
    }

    pub(super) fn speech(&self) -> &'static Speech {
        self.speech
    }

    pub(super) fn has_failed(&self) -> bool {
        self.level.borrow().end == End::Failed
    }

    pub(super) fn is_over(&self) -> bool {
        self.level.borrow().end != End::Open
    }

    pub(super) fn level(&self) -> watch::Receiver<Level> {
        self.level.subscribe()
    }

    /// Returns when everything before a sequence is projected, or no more will be.
    pub(crate) async fn caught_up(&self, sequence: u64) {
        let mut level = self.level.subscribe();
        let there = |level: &Level| level.sequence >= sequence || level.end != End::Open;
        if level.wait_for(there).await.is_err() {
            unreachable!("this holds the sender");
        }
    }

    /// Keeps events for readers of this run from now on.
    pub(super) fn keep(&self) {
        lock(&self.state).window.keep();
    }

    /// Some events from a number on; `None` when they have to be projected again.
    pub(super) fn from(&self, number: u64) -> Option<Vec<Arc<Projected>>> {
        lock(&self.state).window.from(number)
    }

    /// The number of the first event after a place; `None` when it may be one that is not here any more.
    pub(super) fn after(&self, place: Place) -> Option<u64> {
        lock(&self.state).window.after(place)
    }

    /// Where the run stands now, in a sentence of this kind.
    pub(crate) fn standing(&self, key: Key) -> Standing {
        let state = lock(&self.state);
        let place = self.level.borrow().sequence.checked_sub(1);
        let summary = state.last.as_ref().zip(place).map(|((envelope, _), sequence)| {
            let place = Place { run: self.run, sequence, part: joining::SUMMARY_PART };
            joining::summary(envelope, place, state.projector.state(), self.speech, key)
        });
        Standing {
            summary,
            owner: state.last.as_ref().map(|(_, owner)| *owner),
            prompts: state.prompts.values().cloned().collect(),
            next: state.window.next(),
            is_over: state.projector.is_over(),
        }
    }

    /// Hands what comes of the log from a sequence on to a projection of all runs; what is here of it already at once.
    pub(super) fn hand_on(&self, tenant: &Arc<TenantProjection>, sequence: u64) {
        let mut state = lock(&self.state);
        for event in state.window.kept().filter(|event| event.place.sequence >= sequence) {
            tenant.push(event.clone());
        }
        state.tenants.retain(|(known, _)| known.strong_count() > 0);
        state.tenants.push((Arc::downgrade(tenant), sequence));
    }

    fn take(&self, events: &[Arc<SharedEvent>]) -> bool {
        let now = recount_world::moment();
        let mut state = lock(&self.state);
        let mut level = *self.level.borrow();
        for event in events {
            let State { projector, window, .. } = &mut *state;
            let projected = project(projector, event, &self.tokens, window.next(), Some(now));
            match prompt_change(event.payload()) {
                Some(PromptChange::Opens(prompt)) => {
                    let shown = projected.iter().find(|projected| projected.prompt.is_some());
                    state.prompts.extend(shown.map(|shown| (prompt.clone(), shown.clone())));
                }
                Some(PromptChange::Settles(prompt)) => drop(state.prompts.remove(prompt)),
                None => {}
            }
            for projected in projected {
                state.last = Some((projected.event.envelope.clone(), projected.owner));
                for (tenant, from) in &state.tenants {
                    if event.sequence >= *from
                        && let Some(tenant) = tenant.upgrade()
                    {
                        tenant.push(projected.clone());
                    }
                }
                state.window.push(projected);
            }
            level.sequence = event.sequence + 1;
            if state.projector.is_over() {
                state.prompts.clear();
                level.end = End::Over;
                break;
            }
        }
        level.next = state.window.next();
        drop(state);
        self.level.send_replace(level);
        level.end == End::Open
    }

    /// No more will come, and the session has not ended.
    fn fail(&self) {
        self.level.send_if_modified(|level| {
            let open = level.end == End::Open;
            if open {
                level.end = End::Failed;
            }
            open
        });
    }
}

/// Tells readers that nothing more comes, however the task ends.
struct EndOf(Weak<RunProjection>);

impl Drop for EndOf {
    fn drop(&mut self) {
        if let Some(projection) = self.0.upgrade() {
            projection.fail();
        }
    }
}

async fn drive(
    projection: Weak<RunProjection>,
    engine: Engine,
    run: RunId,
    mut gone: watch::Receiver<()>,
    mut shutdown: Shutdown,
) {
    let ending = EndOf(projection);
    let mut events = match engine.follow_events(run, None).await {
        Ok(events) => events,
        Err(error) => {
            tracing::debug!(%error, %run, "a run cannot be projected");
            return;
        }
    };
    drop(engine);
    loop {
        let next = tokio::select! {
            biased;
            () = shutdown.requested() => return,
            _ = gone.changed() => return,
            next = events.next() => next,
        };
        let Some(projection) = ending.0.upgrade() else { return };
        match next {
            Ok(Some(events)) if projection.take(&events) => {}
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, %run, "a run cannot be projected any further");
                return;
            }
        }
    }
}
