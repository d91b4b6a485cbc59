//! Kills engines, shuts them down, and opens others on the durable state, with clocks that differ.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recount_engine::Engine;
use recount_faulty_store::{FaultRates, FaultyStore};
use recount_world::{Clock, SeededEntropy, Tasks, World};

use super::{EnginePlay, Life, frame};
use crate::limits;
use crate::mutant::StoreCourse;
use crate::trace::Check;

/// The maximum difference of the clocks of two engines, in either direction.
pub(super) const SKEW_MAX_MS: u64 = 40_000;

/// A clock with a different offset for each engine.
struct SkewedClock {
    engine_play: Arc<EnginePlay>,
    ahead_ms: u64,
}

impl Clock for SkewedClock {
    fn now_ms(&self) -> u64 {
        (self.engine_play.clock.now_ms() + self.ahead_ms).saturating_sub(SKEW_MAX_MS / 2)
    }
}

pub(super) async fn keep(engine_play: Arc<EnginePlay>) {
    let dice = engine_play.dice.fork("keeper");
    for _ in 0..engine_play.setting.crashes {
        engine_play.sleep(100 + dice.below(4000)).await;
        let Some(life) = engine_play.life().clone() else { continue };
        if dice.permille(250) {
            engine_play.shut_down(life).await;
        } else {
            engine_play.kill(life).await;
        }
        engine_play.sleep(dice.below(2000)).await;
        engine_play.reopen().await;
    }
    engine_play.sleep(dice.below(3000)).await;
    engine_play.calm.store(true, Ordering::SeqCst);
    if let Some(life) = &*engine_play.life() {
        life.store.calm();
    }
    engine_play.trace.log("calm");
}

impl EnginePlay {
    pub(super) async fn kill(&self, life: Life) {
        self.trace.log("killed");
        self.trace.count(|counts| counts.crashes += 1);
        self.bury(life).await;
    }

    async fn shut_down(&self, life: Life) {
        self.trace.log("shut down");
        self.trace.count(|counts| counts.shutdowns += 1);
        match tokio::time::timeout(limits::ANSWER_WAIT, life.engine.shutdown()).await {
            Ok(0) => {}
            Ok(left) => self.trace.wrong(Check::Live, format_args!("{left} tasks did not end at shutdown")),
            Err(_) => self.trace.wrong(Check::Live, "the shutdown does not end"),
        }
        self.bury(life).await;
    }

    async fn bury(&self, life: Life) {
        *self.life() = None;
        self.lost.send_modify(|lives| *lives += 1);
        life.store.cut_power().await;
        life.engine.world().tasks.end_all(Duration::ZERO).await;
    }

    /// Opens another engine on the durable state.
    pub(super) async fn reopen(self: &Arc<Self>) {
        self.compare_acknowledged();
        for attempt in 0_u64.. {
            let lives = *self.lost.borrow();
            let dice = self.dice.fork(&format!("life {lives} {attempt}"));
            let calm = self.calm.load(Ordering::SeqCst);
            let faults = if calm { FaultRates::default() } else { self.setting.faults };
            let clock = SkewedClock { engine_play: self.clone(), ahead_ms: dice.below(SKEW_MAX_MS) };
            let world = World {
                clock: Arc::new(clock),
                entropy: Arc::new(SeededEntropy::new(dice.draw() as u64)),
                tasks: Tasks::new(),
            };
            let course = StoreCourse {
                dice,
                trace: self.trace.clone(),
                disk: self.disk.clone(),
                mutant_state: self.mutant_state.clone(),
            };
            let store = FaultyStore::queued(&self.disk, Arc::new(course), faults);
            let framing = Arc::new(frame::Padded { padding: self.setting.padding });
            match Engine::open(store.clone(), world, framing).await {
                Ok(engine) => {
                    self.trace.log(format_args!("opened, calm: {calm}"));
                    *self.life() = Some(Life { engine, store });
                    return;
                }
                Err(error) => {
                    self.trace.log(format_args!("not opened: {error}"));
                    store.cut_power().await;
                    self.sleep(100).await;
                }
            }
        }
    }

    /// Opens an engine without random faults, for the final checks.
    pub(super) async fn reopen_calmly(self: &Arc<Self>) -> Engine {
        let life = self.life().clone();
        if let Some(life) = life {
            self.bury(life).await;
        }
        self.reopen().await;
        self.up().await.0
    }
}
