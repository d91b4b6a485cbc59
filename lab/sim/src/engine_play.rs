//! Tier B: plays the real engine on simulated time, with a failing store, a keeper that cuts the power, and clients
//! that use only the public interface.
//!
//! One [`EnginePlay`] is one play. Its clients are futures in one task, so the dice alone decide the order. Start at
//! [`play`].

mod client_record;
mod frame;
mod keeper;
mod operator;
mod producer;
mod reader;
mod removed;
mod stored;
mod verdict;

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use recount_engine::{Engine, Error};
use recount_event::Code;
use recount_faulty_store::{Disk, FaultRates, FaultyStore};
use recount_run::Rejection;
use recount_world::RuntimeClock;
use tokio::sync::watch;

use crate::dice::Dice;
use crate::limits;
use crate::mutant::{Mutant, MutantState};
use crate::trace::{Check, Outcome, Trace};
use client_record::ClientRecord;

/// The start time of plays.
pub const START_MS: u64 = 1_777_803_825_000;

/// The settings of a play, drawn from its seed.
#[derive(Debug, Clone, Copy)]
struct Setting {
    producers: u64,
    operators: u64,
    readers: u64,
    crashes: u64,
    /// Whether clients prune, pin and delete.
    retains: bool,
    /// Whether the power is cut once more after the last action.
    last_crash: bool,
    faults: FaultRates,
    /// Padding bytes of each frame, so that live lists overflow.
    padding: usize,
}

impl Setting {
    fn draw(dice: &Dice) -> Self {
        let often = |most: u64| if dice.permille(700) { 1 + dice.below(most) } else { 0 };
        Setting {
            producers: 3 + dice.below(5),
            operators: 1 + dice.below(3),
            readers: 4 + dice.below(7),
            crashes: dice.below(9),
            retains: true,
            last_crash: dice.permille(500),
            faults: FaultRates {
                refuse: often(60),
                fail: often(120),
                lose_answer: often(120),
                unobserved: often(80),
                read: often(25),
                write_ms: dice.below(40),
                observe_ms: dice.below(30),
            },
            padding: [0, 0, 2 << 10, 20 << 10][dice.index(4)],
        }
    }
}

/// Plays one seed to its end.
pub fn play(seed: u64, mutant: Option<Mutant>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing of the system");
    runtime.block_on(async move {
        let engine_play = EnginePlay::new(seed, mutant);
        let whole = Box::pin(engine_play.play());
        if tokio::time::timeout(limits::PLAY_TIME, whole).await.is_err() {
            engine_play.trace.wrong(Check::Live, "the play does not come to its end");
        }
        engine_play.trace.outcome()
    })
}

pub(crate) struct EnginePlay {
    dice: Dice,
    trace: Trace,
    clock: Arc<RuntimeClock>,
    disk: Arc<Disk>,
    mutant_state: Arc<MutantState>,
    setting: Setting,
    client_record: Mutex<ClientRecord>,
    life: Mutex<Option<Life>>,
    /// The number of engines that have ended.
    lost: watch::Sender<u64>,
    /// The number of clients that are still working.
    working: AtomicUsize,
    /// Whether all activity has ended.
    quiet: AtomicBool,
    calm: AtomicBool,
}

/// An engine and its store.
#[derive(Clone)]
struct Life {
    engine: Engine,
    store: Arc<FaultyStore>,
}

/// Why a call failed.
pub(crate) enum CallFailure {
    Rejected(Rejection),
    /// A fault; a retry may help.
    Failed,
    /// The engine died first, so the outcome is unknown.
    Lost,
}

impl EnginePlay {
    fn new(seed: u64, mutant: Option<Mutant>) -> Arc<Self> {
        let dice = Dice::new(seed);
        let clock = Arc::new(RuntimeClock::starting_at(START_MS));
        let trace = Trace::new(clock.clone());
        let mut setting = Setting::draw(&dice.fork("setting"));
        if let Some(mutant) = mutant {
            setting.retains = mutant.is_about_taking();
            // Enough of every action that a mutant can affect.
            setting.crashes = 3;
            setting.last_crash = true;
            setting.producers = 6;
            setting.operators = 3;
            setting.faults = FaultRates {
                write_ms: 20,
                observe_ms: 10,
                fail: 30,
                lose_answer: 30,
                ..FaultRates::default()
            };
        }
        Arc::new(EnginePlay {
            dice,
            trace,
            clock,
            disk: Disk::new(),
            mutant_state: MutantState::new(mutant),
            setting,
            client_record: Mutex::default(),
            life: Mutex::default(),
            lost: watch::channel(0).0,
            working: AtomicUsize::new(0),
            quiet: AtomicBool::new(false),
            calm: AtomicBool::new(false),
        })
    }

    async fn play(self: &Arc<Self>) {
        self.trace.log(format_args!("{:?}", self.setting));
        self.reopen().await;
        let mut clients: Vec<BoxFuture<'static, ()>> = Vec::new();
        for n in 0..self.setting.producers {
            clients.push(self.work(producer::produce(self.clone(), n)));
        }
        for n in 0..self.setting.operators {
            clients.push(operator::operate(self.clone(), n).boxed());
        }
        for n in 0..self.setting.readers {
            clients.push(reader::read(self.clone(), n).boxed());
        }
        clients.push(self.work(keeper::keep(self.clone())));
        clients.push(self.clone().hush().boxed());
        join_all(clients).await;
        verdict::judge(self).await;
    }

    /// Registers a client that the play waits for.
    fn work(self: &Arc<Self>, client: impl Future<Output = ()> + Send + 'static) -> BoxFuture<'static, ()> {
        self.working.fetch_add(1, Ordering::SeqCst);
        let engine_play = self.clone();
        async move {
            client.await;
            engine_play.working.fetch_sub(1, Ordering::SeqCst);
        }
        .boxed()
    }

    /// Kills the current engine and opens another one.
    async fn restart(self: &Arc<Self>) {
        let life = self.life().clone();
        if let Some(life) = life {
            self.kill(life).await;
            self.reopen().await;
        }
    }

    /// Marks the play as quiet when all work is done and all deadlines have passed.
    async fn hush(self: Arc<Self>) {
        while self.is_working() {
            self.sleep(50).await;
        }
        self.trace.log("the work is done");
        if self.setting.last_crash {
            self.restart().await;
        }
        self.sleep((limits::PATIENCE_S + keeper::SKEW_MAX_MS / 500) * 1000).await;
        self.quiet.store(true, Ordering::SeqCst);
        self.trace.log("quiet");
    }

    fn is_working(&self) -> bool {
        self.working.load(Ordering::SeqCst) > 0
    }

    fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::SeqCst)
    }

    fn client_record(&self) -> MutexGuard<'_, ClientRecord> {
        self.client_record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn life(&self) -> MutexGuard<'_, Option<Life>> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sleep(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    /// Waits for an engine, and for a receiver that signals its end.
    async fn up(&self) -> (Engine, watch::Receiver<u64>) {
        loop {
            let mut lost = self.lost.subscribe();
            lost.borrow_and_update();
            let engine = self.life().as_ref().map(|life| life.engine.clone());
            match engine {
                Some(engine) => return (engine, lost),
                None => self.sleep(20).await,
            }
        }
    }

    /// Calls the current engine. Every call must return, unless the engine dies.
    async fn call<T, F>(&self, what: &str, ask: impl FnOnce(Engine) -> F) -> Result<T, CallFailure>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (engine, mut lost) = self.up().await;
        let answer = tokio::time::timeout(limits::ANSWER_WAIT, Box::pin(ask(engine)));
        tokio::select! {
            biased;
            _ = lost.changed() => Err(CallFailure::Lost),
            answer = answer => match answer {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(Error::Rejected(rejection))) => {
                    self.trace.count(|counts| counts.refusals += 1);
                    if rejection.code == Code::Internal {
                        self.trace.wrong(Check::Grammar, format_args!("{what}: {rejection}"));
                    }
                    Err(CallFailure::Rejected(rejection))
                }
                Ok(Err(Error::Failed(failure))) => {
                    if failure.code == Code::Internal {
                        self.trace.wrong(Check::Grammar, format_args!("{what}: {failure}"));
                    }
                    Err(CallFailure::Failed)
                }
                Err(_) => {
                    self.trace.wrong(Check::Live, format_args!("{what} was never answered"));
                    Err(CallFailure::Lost)
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Counts;

    #[test]
    fn fixed_seeds_hold() {
        let mut counts = Counts::default();
        for seed in 0..8 {
            let outcome = play(seed, None);
            assert!(outcome.wrong.is_empty(), "seed {seed}: {:#?}", outcome.wrong);
            counts += outcome.counts;
        }
        let taken = [counts.prunes, counts.pins, counts.deletions, counts.gaps];
        assert!(taken.iter().all(|count| *count > 0), "{counts:?}");
    }

    #[test]
    fn the_same_seed_plays_the_same_way() {
        for seed in [3, 4] {
            let (one, other) = (play(seed, None), play(seed, None));
            assert_eq!(one, other);
        }
        assert_ne!(play(3, None).trace, play(4, None).trace);
    }

    /// Each check fails for a store with the matching fault.
    #[test]
    fn every_mutant_is_detected_by_its_check() {
        let mutant_state = [
            (Mutant::DropAppend, vec![Check::Durable]),
            (Mutant::DropAnswer, vec![Check::Durable, Check::Answers]),
            (Mutant::RepeatRecord, vec![Check::Grammar]),
            (Mutant::RepeatEnding, vec![Check::Endings]),
            (Mutant::SwapFeed, vec![Check::Readers]),
            (Mutant::ObserveEarly, vec![Check::Readers]),
            (Mutant::ForgetRuns, vec![Check::Catalogue]),
            (Mutant::ForgetProducers, vec![Check::Once]),
            (Mutant::ForgetDeadlines, vec![Check::Timeouts, Check::Catalogue]),
            (Mutant::NeverAnswer, vec![Check::Live]),
            (Mutant::AlterByte, vec![Check::Readers]),
            (Mutant::WrongHead, vec![Check::Chain]),
            (Mutant::IgnoreBound, vec![Check::Bounds]),
            (Mutant::LoseLast, vec![Check::Durable]),
            (Mutant::ForgetCut, vec![Check::Gaps]),
            (Mutant::CutTooMuch, vec![Check::Gaps, Check::Durable]),
            (Mutant::ForgetErasing, vec![Check::Erased]),
        ];
        assert_eq!(mutant_state.len(), Mutant::ALL.len());
        for (mutant, expected) in mutant_state {
            let mut noticed = std::collections::BTreeSet::new();
            for seed in 0..6 {
                noticed.extend(play(seed, Some(mutant)).checks);
                if expected.iter().all(|check| noticed.contains(check)) {
                    break;
                }
            }
            for check in expected {
                assert!(noticed.contains(&check), "{mutant:?} is not noticed by {check:?}: {noticed:?}");
            }
        }
    }
}
