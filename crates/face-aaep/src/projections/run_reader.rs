//! A cursor in the projection of one run. Start with [`RunReader::next`].

use std::sync::Arc;

use recount_engine::{Engine, Error, Events};
use recount_event::RunId;
use tokio::sync::watch;

use super::Projections;
use super::projected::{Projected, project, project_damage};
use super::run::{JoinState, RunEnd, RunLevel, RunProjection};
use crate::project::{JoinReason, Place, Projector, RepeatedPrompt};
use crate::reply_tokens::ReplyTokens;
use crate::speech::Speech;

/// The run can no longer be read, or was deleted. The log has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

/// Reads the events of a run in order, from any place.
pub(crate) struct RunReader {
    engine: Engine,
    run: RunId,
    tokens: ReplyTokens,
    projection: Arc<RunProjection>,
    level: watch::Receiver<RunLevel>,
    /// The number of the next event.
    next: u64,
    /// Events up to here are skipped.
    after: Option<Place>,
    /// A projection for this reader alone, while it reads before the window.
    own: Option<Box<Own>>,
}

struct Own {
    events: Events,
    projector: Projector,
    next: u64,
}

impl RunReader {
    /// Reads after a place, or from the beginning.
    pub(crate) fn open(
        projections: &Projections,
        engine: &Engine,
        run: RunId,
        speech: &'static Speech,
        after: Option<Place>,
    ) -> Self {
        let projection = projections.run(engine, run, speech, None);
        RunReader {
            engine: engine.clone(),
            run,
            tokens: projections.tokens().clone(),
            level: projection.level(),
            next: after.and_then(|place| projection.after(place)).unwrap_or(0),
            projection,
            after,
            own: None,
        }
    }

    /// Continues in another language at the same place.
    pub(crate) fn change_language(&mut self, projections: &Projections, speech: &'static Speech) {
        if speech.tag() == self.projection.speech().tag() {
            return;
        }
        // Numbers are the same in all languages.
        self.projection = projections.run(&self.engine, self.run, speech, None);
        self.level = self.projection.level();
        self.own = None;
    }

    /// Skips everything up to now and returns the state of the run. The state includes everything before `sequence`.
    pub(crate) async fn skip_to_now(&mut self, sequence: u64, reason: JoinReason) -> JoinState {
        self.projection.caught_up(sequence).await;
        let join_state = self.projection.join_state(reason);
        self.next = join_state.next;
        self.after = None;
        self.own = None;
        join_state
    }

    /// The prompts of the run that are open now; now is after the events before `sequence`.
    pub(crate) async fn open_prompts(&self, sequence: u64) -> Vec<RepeatedPrompt> {
        self.projection.caught_up(sequence).await;
        self.projection.open_prompts()
    }

    /// The place and the time of the newest event, if it is after the place that it reads after.
    pub(crate) fn newest(&self) -> Option<(Place, i64)> {
        self.projection.newest().filter(|(place, _)| self.after.is_none_or(|after| *place > after))
    }

    /// Whether no more events follow: the session ended before `sequence`, and its last event was received.
    pub(crate) async fn is_at_the_end(&self, sequence: u64) -> bool {
        self.projection.caught_up(sequence).await;
        let level = *self.level.borrow();
        level.end == RunEnd::Over
            && self.after.and_then(|place| self.projection.after(place)) == Some(level.next)
    }

    /// Waits for the next events, in order and without repetition; the list may be empty. `None`: the session has ended
    /// and all events were returned. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Arc<Projected>>>, Broken> {
        loop {
            let level = *self.level.borrow_and_update();
            match self.projection.from(self.next) {
                Some(events) if !events.is_empty() => {
                    self.own = None;
                    self.next += events.len() as u64;
                    return Ok(Some(self.wanted(events)));
                }
                Some(_) => match level.end {
                    RunEnd::Over => return Ok(None),
                    RunEnd::Failed => return Err(Broken),
                    RunEnd::Open => {
                        self.own = None;
                        if self.level.changed().await.is_err() {
                            unreachable!("the projection is held");
                        }
                    }
                },
                None => {
                    let events = self.again().await?;
                    return Ok(Some(self.wanted(events)));
                }
            }
        }
    }

    fn wanted(&self, mut events: Vec<Arc<Projected>>) -> Vec<Arc<Projected>> {
        if let Some(after) = self.after {
            events.retain(|event| event.place > after);
        }
        events
    }

    /// Projects the events that have left the window from the store.
    async fn again(&mut self) -> Result<Vec<Arc<Projected>>, Broken> {
        let own = match &mut self.own {
            Some(own) => own,
            None => {
                let events = self.engine.read().follow_events(self.run, None).await;
                let events = events.map_err(|error| broken(self.run, &error))?;
                let projector = Projector::new(self.run, self.projection.speech());
                self.own.insert(Box::new(Own { events, projector, next: 0 }))
            }
        };
        let mut projected = Vec::new();
        match own.events.next().await {
            Ok(Some(events)) => {
                for event in events {
                    let of_one = project(&mut own.projector, &event, &self.tokens, own.next);
                    own.next += of_one.len() as u64;
                    projected.extend(of_one);
                }
            }
            // The window cannot begin after the last event of a run.
            Ok(None) => return Err(Broken),
            Err(error) => {
                let owner = self.projection.owner().filter(|_| error.is_damage() && !own.projector.is_over());
                let Some(owner) = owner else { return Err(broken(self.run, &error)) };
                let sequence = own.events.last().map_or(0, |last| last + 1);
                projected = project_damage(&mut own.projector, owner, sequence, own.next);
                own.next += projected.len() as u64;
            }
        }
        projected.retain(|projected| projected.index >= self.next);
        self.next = self.next.max(own.next);
        Ok(projected)
    }
}

fn broken(run: RunId, error: &Error) -> Broken {
    tracing::warn!(%error, %run, "a run cannot be projected again");
    Broken
}
