//! A cursor in the projection of all runs of a tenant. See [`TenantReader::next`].

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::Arc;

use recount_engine::{Engine, Narrowing};
use recount_event::RunId;
use tokio::sync::watch;

use super::projected::Projected;
use super::run::Standing;
use super::run_reader::Broken;
use super::tenant::{Level, LiveRun, Stage, TenantProjection};
use super::Projections;
use crate::speech::{Key, Speech};

/// Reads what happens in the runs that a caller may see, from now on.
pub(crate) struct TenantReader {
    projections: Projections,
    engine: Engine,
    narrowing: Narrowing,
    tenant: Arc<TenantProjection>,
    level: watch::Receiver<Level>,
    /// The number of the next event; `None` before it has joined.
    next: Option<u64>,
    /// Live runs that it has not joined yet.
    joining: VecDeque<(RunId, LiveRun)>,
    /// Of runs that it joins or has joined: the first of their events that it has not had.
    had: HashMap<RunId, u64>,
    /// The sentence for runs that it joins.
    key: Key,
}

/// What comes next.
pub(crate) enum Next {
    /// Events in order, none twice; maybe none.
    Events(Vec<Arc<Projected>>),
    /// A live run, and where it stands. Events that come after this follow.
    Joined(Box<Standing>),
}

impl TenantReader {
    pub(crate) fn open(
        projections: &Projections,
        engine: &Engine,
        narrowing: Narrowing,
        speech: &'static Speech,
        key: Key,
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
            key,
        }
    }

    /// Goes on in another language: joins all live runs anew.
    pub(crate) fn change_language(&mut self, speech: &'static Speech) {
        if speech.tag() != self.tenant.speech().tag() {
            *self = TenantReader::open(
                &self.projections,
                &self.engine,
                self.narrowing.clone(),
                speech,
                Key::Joined,
            );
        }
    }

    /// Waits for what comes next. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Next, Broken> {
        loop {
            let level = *self.level.borrow_and_update();
            match (level.stage, self.next) {
                (Stage::Failed, _) => return Err(Broken),
                (Stage::Starting, _) => {}
                (Stage::Live, None) => self.join(),
                (Stage::Live, Some(next)) => match self.tenant.from(next) {
                    Some(events) if !events.is_empty() => {
                        self.next = Some(next + events.len() as u64);
                        return Ok(Next::Events(self.wanted(events)));
                    }
                    Some(_) => {}
                    // Too far behind: what was missed is said as where the runs stand.
                    None => {
                        self.key = Key::Missed;
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
                () = caught_up => if let Some(standing) = self.joined() {
                    return Ok(Next::Joined(Box::new(standing)));
                },
            }
        }
    }

    /// Begins here, with every live run.
    fn join(&mut self) {
        let (next, live) = self.tenant.live();
        self.next = Some(next);
        self.had = live.iter().map(|(run, _)| (*run, u64::MAX)).collect();
        self.joining = live;
    }

    /// Where the first run stands that was to be joined, if the caller may see it and it goes on.
    fn joined(&mut self) -> Option<Standing> {
        let (run, live) = self.joining.pop_front()?;
        let standing = live.projection.standing(self.key);
        self.had.insert(run, standing.next);
        let seen = standing.owner.is_some_and(|owner| self.narrowing.admits(owner.task, owner.session));
        (seen && !standing.is_over).then_some(standing)
    }

    fn wanted(&mut self, mut events: Vec<Arc<Projected>>) -> Vec<Arc<Projected>> {
        events.retain(|event| {
            let run = event.owner.run;
            if self.had.get(&run).is_some_and(|had| event.index < *had) {
                return false;
            }
            self.had.remove(&run);
            self.narrowing.admits(event.owner.task, event.owner.session)
        });
        events
    }
}
