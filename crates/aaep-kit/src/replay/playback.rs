//! State that the player and all subscribers of a replay share: progress, listeners, prompts and answers. See
//! [`Playback`]. A line is known by its position: the count of lines before it, over all rounds. Nothing here waits for a
//! peer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use recount_world::{World, moment};
use tokio::sync::watch;
use tokio::time::Instant;

use super::fresh::Round;
use super::lock::lock;
use super::prompts::Prompts;
use super::room::ReplayRoom;
use super::script::ReplayScript;
use super::{NoticeSink, ReplayNotice, ReplayOptions};
use crate::limits;

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Lines said.
    pub(super) place: u64,
    /// Nothing more comes.
    pub(super) over: bool,
}

/// Who listens.
#[derive(Default)]
pub(super) struct Audience {
    /// The place of each.
    listening: BTreeMap<u64, u64>,
    next: u64,
    /// When the last one left before the end that nobody has come back for.
    left_early: Option<Instant>,
}

/// Everything that is shared.
pub(super) struct Playback {
    pub(super) world: World,
    pub(super) script: ReplayScript,
    pub(super) options: ReplayOptions,
    notify: NoticeSink,
    pub(super) progress: watch::Sender<Progress>,
    /// Changes when a listener comes, goes or has read everything.
    pub(super) moved: watch::Sender<u64>,
    audience: Mutex<Audience>,
    rounds: Mutex<VecDeque<Arc<Round>>>,
    pub(super) prompts: Prompts,
    pub(super) room: ReplayRoom,
}

/// A line as it goes out.
pub(super) struct OutgoingLine {
    pub(super) text: Bytes,
    pub(super) id: Option<Arc<str>>,
}

impl Playback {
    pub(super) fn new(
        world: &World,
        script: ReplayScript,
        options: ReplayOptions,
        notify: NoticeSink,
    ) -> Arc<Playback> {
        Arc::new(Playback {
            world: world.clone(),
            script,
            options,
            notify,
            progress: watch::Sender::default(),
            moved: watch::Sender::default(),
            audience: Mutex::default(),
            rounds: Mutex::default(),
            prompts: Prompts::default(),
            room: ReplayRoom::default(),
        })
    }

    pub(super) fn notify(&self, notice: ReplayNotice<'_>) {
        (self.notify)(notice);
    }

    fn lines(&self) -> u64 {
        self.script.len() as u64
    }

    pub(super) fn now(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Begins the next time through the recording.
    pub(super) fn open_round(&self) -> Arc<Round> {
        let mut rounds = lock(&self.rounds);
        let number = rounds.back().map_or(0, |round| round.number.wrapping_add(1));
        let round = Arc::new(Round::new(number, self.world.entropy.draw()));
        rounds.push_back(round.clone());
        if rounds.len() > limits::REPLAY_ROUNDS_KEPT {
            rounds.pop_front();
        }
        self.prompts.forget();
        round
    }

    fn round(&self, number: u64) -> Option<Arc<Round>> {
        lock(&self.rounds).iter().find(|round| u64::from(round.number) == number).cloned()
    }

    /// The place where who comes without a place begins: the first line of the present round.
    pub(super) fn beginning(&self) -> u64 {
        let rounds = lock(&self.rounds);
        rounds.back().map_or(0, |round| u64::from(round.number) * self.lines())
    }

    /// The first place that can still be said again.
    pub(super) fn oldest(&self) -> u64 {
        lock(&self.rounds).front().map_or(0, |round| u64::from(round.number) * self.lines())
    }

    /// The place behind the event with this id; `None` when no such event was said.
    pub(super) fn behind(&self, id: &str) -> Option<u64> {
        let (round, number) = if self.options.fresh {
            let number = u64::from(Round::number_in(id)?);
            (Some(self.round(number)?), number)
        } else {
            (None, 0)
        };
        let same = |line: usize| match (self.script.id(line), &round) {
            (Some(old), Some(round)) => round.id(old) == id,
            (Some(old), None) => old == id,
            (None, _) => false,
        };
        // At the last one of that name: what was said twice was heard twice.
        let line = (0..self.script.len()).rev().find(|line| same(*line))?;
        let place = number * self.lines() + line as u64 + 1;
        (place <= self.now().place).then_some(place)
    }

    /// The line at a place, as it goes out.
    pub(super) fn outgoing_line(&self, place: u64) -> OutgoingLine {
        let (number, line) =
            (place / self.lines(), usize::try_from(place % self.lines()).unwrap_or_default());
        let text = self.script.text(line);
        let old = self.script.id(line);
        let round = if self.options.fresh { self.round(number) } else { None };
        let Some(round) = round else { return OutgoingLine { text, id: old.map(Arc::from) } };
        let renewed = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| round.renew(&self.script, line, text))
            .map(Bytes::from);
        OutgoingLine { text: renewed.unwrap_or(text), id: old.map(|old| round.id(old).into()) }
    }

    /// A token as it is said in a round.
    pub(super) fn token(&self, round: &Round, old: &str) -> String {
        if self.options.fresh { round.id(old) } else { old.to_owned() }
    }

    /// Adds a listener from a place on; `None` when there are as many as can be.
    pub(super) fn enter(&self, place: u64) -> Option<u64> {
        let mut audience = lock(&self.audience);
        if audience.listening.len() >= limits::REPLAY_LISTENERS_MAX {
            return None;
        }
        let number = audience.next;
        audience.next += 1;
        audience.left_early = None;
        audience.listening.insert(number, place);
        drop(audience);
        self.stir();
        Some(number)
    }

    /// A listener has read everything up to a place.
    pub(super) fn took(&self, number: u64, place: u64) {
        if let Some(at) = lock(&self.audience).listening.get_mut(&number) {
            *at = place;
        }
        // Others wait only for a listener's last line.
        if place.is_multiple_of(self.lines()) {
            self.stir();
        }
    }

    /// A listener has left; `whole` when it was told that nothing more comes.
    pub(super) fn leave(&self, number: u64, whole: bool) {
        let mut audience = lock(&self.audience);
        let place = audience.listening.remove(&number).unwrap_or_default();
        audience.left_early = (!whole).then(moment);
        let listeners = audience.listening.len();
        drop(audience);
        self.notify(ReplayNotice::Left { lines: place, of: self.now().place, listeners });
        self.stir();
    }

    /// Nothing more is said.
    pub(super) fn finish(&self) {
        self.progress.send_modify(|progress| progress.over = true);
        self.stir();
    }

    pub(super) fn listeners(&self) -> usize {
        lock(&self.audience).listening.len()
    }

    /// Whether all that listen have taken all that was said.
    pub(super) fn all_taken(&self) -> bool {
        let place = self.now().place;
        lock(&self.audience).listening.values().all(|at| *at >= place)
    }

    /// Until when to wait for a listener that left before the end.
    pub(super) fn return_until(&self) -> Option<Instant> {
        lock(&self.audience).left_early.map(|at| at + limits::REPLAY_RETURN_WAIT)
    }

    pub(super) fn stir(&self) {
        self.moved.send_modify(|count| *count = count.wrapping_add(1));
    }
}
