//! Readers of runs and of the feed: they join, lag, leave, and resume by cursor.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use recount_engine::{Delivery, Engine, Error, Subscription, limits as engine_limits};
use recount_event::{Code, codec};
use recount_faulty_store::answer_now;

use super::client_record::Target;
use super::{CallFailure, EnginePlay, frame};
use crate::dice::Dice;
use crate::limits;
use crate::trace::Check;

pub(super) async fn read(engine_play: Arc<EnginePlay>, n: u64) {
    let dice = engine_play.dice.fork(&format!("reader {n}"));
    let mut reader = Reader { name: format!("r{n}"), dice, last: None, target: Target::Feed, engine_play };
    // Every third one stays with the feed.
    let of_runs = !n.is_multiple_of(3);
    loop {
        reader.last = None;
        if of_runs && !reader.choose().await {
            return;
        }
        while reader.visit().await {
            reader.engine_play.sleep(reader.dice.below(1500)).await;
        }
        if reader.engine_play.is_quiet() {
            return;
        }
        reader.engine_play.sleep(100 + reader.dice.below(1500)).await;
    }
}

struct Reader {
    engine_play: Arc<EnginePlay>,
    dice: Dice,
    name: String,
    target: Target,
    /// The last received cursor.
    last: Option<u64>,
}

/// How one wait for events ended.
enum Step {
    Go(Delivery),
    Nothing,
    Broken,
}

impl Reader {
    /// Chooses a run to read, from its start or from the middle. Returns `false` if there is none and none will come.
    async fn choose(&mut self) -> bool {
        loop {
            let run = self.dice.pick(&self.engine_play.client_record().runs).copied();
            if let Some(run) = run {
                self.target = Target::Run(run);
                let tail = self.tail();
                self.last = self.dice.permille(400).then(|| self.dice.below(tail));
                return true;
            }
            if self.engine_play.is_quiet() {
                return false;
            }
            self.engine_play.sleep(100 + self.dice.below(200)).await;
        }
    }

    /// The cursor after the last event that is stored.
    fn tail(&self) -> u64 {
        let store = self.engine_play.disk.store();
        match self.target {
            Target::Run(run) => answer_now(store.tail(&run.to_string().into()))
                .ok()
                .flatten()
                .map_or(0, |tail| tail.next_sequence),
            Target::Feed => answer_now(store.last_position()).unwrap_or(0) + 1,
        }
    }

    fn next(&self) -> u64 {
        let first = u64::from(self.target == Target::Feed);
        self.last.map_or(first, |last| last + 1)
    }

    /// Whether it has not received everything before this position.
    fn is_behind(&self, tail: u64) -> bool {
        match self.target {
            Target::Run(_) => self.next() < tail,
            Target::Feed => self.engine_play.feed_has(self.next(), tail),
        }
    }

    /// Reads for a while. Returns `false` if there is no reason to come back.
    async fn visit(&mut self) -> bool {
        let (target, after) = (self.target, self.last);
        let tail = self.tail();
        let ask = |engine: Engine| async move {
            match target {
                Target::Run(run) => engine.read().follow_run(run, after).await,
                Target::Feed => engine.read().follow_feed(after).await,
            }
        };
        let (_, lost) = self.engine_play.up().await;
        let mut subscription = match self.engine_play.call("follow", ask).await {
            Ok(subscription) => subscription,
            Err(trouble) if self.engine_play.is_refused_fairly(target, after, &trouble) => {
                self.engine_play.trace.log(format_args!("{} finds nothing left after {after:?}", self.name));
                self.last = None;
                return target == Target::Feed;
            }
            Err(CallFailure::Rejected(rejection)) => {
                let wrong = format!("{} may not go on after {after:?}: {rejection}", self.name);
                self.engine_play.trace.wrong(Check::Readers, wrong);
                return false;
            }
            Err(CallFailure::Failed | CallFailure::Lost) => return true,
        };
        self.engine_play.trace.count(|counts| counts.readers += 1);
        self.engine_play.trace.log(format_args!("{} joins {target:?} after {after:?}", self.name));
        self.far_ahead(target).await;
        let mut caught_up = false;
        loop {
            match self.step(&mut subscription, lost.clone()).await {
                Step::Broken => return true,
                Step::Nothing if self.engine_play.is_quiet() => {
                    if self.is_behind(self.tail()) || !caught_up {
                        let wrong =
                            format!("{} makes no progress in {target:?} at {:?}", self.name, self.last);
                        self.engine_play.trace.wrong(Check::Live, wrong);
                    }
                    return false;
                }
                Step::Nothing => {}
                Step::Go(Delivery::Frames { bytes, last }) => self.take(bytes, last),
                Step::Go(Delivery::Gap { first, last }) => {
                    match target {
                        Target::Run(run) => {
                            self.engine_play.check_gap(&self.name, run, self.next(), first, last)
                        }
                        Target::Feed => {
                            let wrong = format!("{} received a gap in the feed", self.name);
                            self.engine_play.trace.wrong(Check::Gaps, wrong);
                        }
                    }
                    self.last = Some(last);
                }
                Step::Go(Delivery::Damaged(damage)) => {
                    let wrong = format!("{} received damage that no client caused: {damage}", self.name);
                    self.engine_play.trace.wrong(Check::Readers, wrong);
                }
                Step::Go(Delivery::Passed { .. }) => {
                    let wrong = format!("{} has no filter and received a filtered gap", self.name);
                    self.engine_play.trace.wrong(Check::Readers, wrong);
                }
                Step::Go(Delivery::CaughtUp) => {
                    if caught_up || self.is_behind(tail) {
                        let wrong =
                            format!("{} is reported as caught up at {:?} of {tail}", self.name, self.last);
                        self.engine_play.trace.wrong(Check::Readers, wrong);
                    }
                    caught_up = true;
                }
                Step::Go(Delivery::Closed) => {
                    self.closed();
                    return false;
                }
            }
            if self.engine_play.is_quiet() {
                continue;
            }
            if self.dice.permille(60) {
                return true;
            }
            if self.dice.permille(300) {
                let lag = if self.dice.permille(200) { 5000 } else { 300 };
                self.engine_play.sleep(self.dice.below(lag)).await;
            }
        }
    }

    async fn step(
        &self,
        subscription: &mut Subscription,
        mut lost: tokio::sync::watch::Receiver<u64>,
    ) -> Step {
        let wait = if self.engine_play.is_quiet() { limits::LEVEL_WAIT } else { Duration::from_secs(1) };
        tokio::select! {
            biased;
            _ = lost.changed() => Step::Broken,
            next = tokio::time::timeout(wait, subscription.next()) => match next {
                Err(_) => Step::Nothing,
                Ok(Ok(delivery)) => Step::Go(delivery),
                Ok(Err(error)) => {
                    if let (Target::Run(run), Error::Rejected(rejection)) = (self.target, &error)
                        && self.engine_play.is_erased_run(run, rejection)
                    {
                        self.engine_play.trace.count(|counts| counts.cut_off += 1);
                    } else if error.code() == Code::Internal {
                        self.engine_play.trace.wrong(Check::Grammar, format_args!("{}: {error}", self.name));
                    }
                    Step::Broken
                }
            },
        }
    }

    fn take(&mut self, bytes: Bytes, last: u64) {
        let frames = frame::open(bytes);
        let size: usize = frames.iter().map(|(_, envelope)| envelope.len()).sum();
        if frames.len() > engine_limits::PAGE_EVENTS || size > engine_limits::PAGE_BYTES {
            let wrong = format!("{} got {} events and {size} bytes at once", self.name, frames.len());
            self.engine_play.trace.wrong(Check::Bounds, wrong);
        }
        self.engine_play.trace.count(|counts| counts.deliveries += 1);
        self.engine_play.trace.log(format_args!("{} gets {} to {last}", self.name, frames.len()));
        for (cursor, envelope) in frames {
            // The feed skips removed events without a gap.
            let skips = self.target == Target::Feed && cursor > self.next();
            if cursor != self.next() && (!skips || self.engine_play.feed_has(self.next(), cursor)) {
                let wrong = format!("{} got {cursor} where {} was due", self.name, self.next());
                self.engine_play.trace.wrong(Check::Readers, wrong);
            }
            self.last = Some(cursor);
            let hash = blake3::hash(&envelope);
            if self.target == Target::Feed
                && let Ok(event) = codec::Envelope::read(&envelope)
            {
                self.engine_play.client_record().feed_places.insert(cursor, (event.run_id, event.sequence));
            }
            if self
                .engine_play
                .client_record()
                .seen
                .insert((self.target, cursor), hash)
                .is_some_and(|other| other != hash)
            {
                let wrong = format!("{cursor} of {:?} reads differently from before", self.target);
                self.engine_play.trace.wrong(Check::Readers, wrong);
            }
        }
        if self.last != Some(last) {
            let wrong = format!("{} was given {last} and received {:?}", self.name, self.last);
            self.engine_play.trace.wrong(Check::Readers, wrong);
        }
    }

    /// Checks that a stream closes only after the ending.
    fn closed(&self) {
        let Target::Run(run) = self.target else {
            self.engine_play.trace.wrong(Check::Readers, "the feed was closed");
            return;
        };
        self.engine_play.trace.log(format_args!("{} is closed", self.name));
        if self.engine_play.is_erased(run) {
            return;
        }
        let stored = self.engine_play.stored(run);
        let ending = stored.iter().find(|(_, _, bytes)| super::stored::is_ending(bytes));
        if ending.is_none_or(|(sequence, ..)| self.next() <= *sequence) {
            let wrong = format!("{} of {run} was closed at {:?}, before the ending", self.name, self.last);
            self.engine_play.trace.wrong(Check::Readers, wrong);
        }
    }

    /// Checks that an impossible cursor is refused with a typed error.
    async fn far_ahead(&self, target: Target) {
        if !self.dice.permille(50) {
            return;
        }
        let after = Some(1 << 50);
        let ask = |engine: Engine| async move {
            match target {
                Target::Run(run) => engine.read().follow_run(run, after).await.map(drop),
                Target::Feed => engine.read().follow_feed(after).await.map(drop),
            }
        };
        let ahead = match self.engine_play.call("follow", ask).await {
            Ok(()) => false,
            Err(CallFailure::Rejected(rejection)) => match target {
                Target::Run(run) if self.engine_play.is_erased_run(run, &rejection) => true,
                _ => rejection.code == Code::CursorAhead,
            },
            Err(CallFailure::Failed | CallFailure::Lost) => true,
        };
        if !ahead {
            self.engine_play.trace.wrong(Check::Readers, "a cursor far ahead was taken");
        }
    }
}
