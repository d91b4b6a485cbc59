//! State shared by the player and all subscribers of a replay: progress, listeners, prompts and responses. See
//! [`Playback`]. A line is identified by its position: the number of lines before it over all rounds. Nothing here
//! waits for a peer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use recount_world::{World, moment};
use tokio::sync::watch;
use tokio::time::Instant;

use super::fresh::Round;
use super::lock::lock;
use super::prompts::Prompts;
use super::script::ReplayScript;
use super::subscriptions::ReplaySubscriptions;
use super::{NoticeSink, ReplayNotice, ReplayOptions};
use crate::limits;

/// The progress of a playback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// The number of lines sent.
    pub(super) position: u64,
    /// Whether everything was sent.
    pub(super) over: bool,
}

/// The current listeners.
#[derive(Default)]
pub(super) struct ListenerPositions {
    /// The position of each listener.
    listening: BTreeMap<u64, u64>,
    next: u64,
    /// When the last listener left before the end; cleared when one connects.
    left_early: Option<Instant>,
}

/// The shared state of a replay.
pub(super) struct Playback {
    pub(super) world: World,
    pub(super) script: ReplayScript,
    pub(super) options: ReplayOptions,
    notify: NoticeSink,
    pub(super) progress: watch::Sender<Progress>,
    /// Changes when a listener connects, leaves or has read everything.
    pub(super) listeners_changed: watch::Sender<u64>,
    positions: Mutex<ListenerPositions>,
    rounds: Mutex<VecDeque<Arc<Round>>>,
    pub(super) prompts: Prompts,
    pub(super) subscriptions: ReplaySubscriptions,
}

/// A line to send.
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
            listeners_changed: watch::Sender::default(),
            positions: Mutex::default(),
            rounds: Mutex::default(),
            prompts: Prompts::default(),
            subscriptions: ReplaySubscriptions::default(),
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

    /// Starts the next round.
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

    /// The start position for new listeners: the first line of the current round.
    pub(super) fn round_start(&self) -> u64 {
        let rounds = lock(&self.rounds);
        rounds.back().map_or(0, |round| u64::from(round.number) * self.lines())
    }

    /// The first position that can still be sent.
    pub(super) fn oldest_position(&self) -> u64 {
        lock(&self.rounds).front().map_or(0, |round| u64::from(round.number) * self.lines())
    }

    /// The position after the event with this id; `None` if it was not sent.
    pub(super) fn position_after(&self, id: &str) -> Option<u64> {
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
        // The last event with this id: repeated events were received repeatedly.
        let line = (0..self.script.len()).rev().find(|line| same(*line))?;
        let position = number * self.lines() + line as u64 + 1;
        (position <= self.now().position).then_some(position)
    }

    /// The line at a position, as it is sent.
    pub(super) fn outgoing_line(&self, position: u64) -> OutgoingLine {
        let (number, line) =
            (position / self.lines(), usize::try_from(position % self.lines()).unwrap_or_default());
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

    /// A token as it is sent in a round.
    pub(super) fn token(&self, round: &Round, old: &str) -> String {
        if self.options.fresh { round.id(old) } else { old.to_owned() }
    }

    /// Adds a listener at a position; `None` if the limit is reached.
    pub(super) fn add_listener(&self, position: u64) -> Option<u64> {
        let mut positions = lock(&self.positions);
        if positions.listening.len() >= limits::REPLAY_LISTENERS_MAX {
            return None;
        }
        let number = positions.next;
        positions.next += 1;
        positions.left_early = None;
        positions.listening.insert(number, position);
        drop(positions);
        self.notify_changed();
        Some(number)
    }

    /// Records that a listener has read everything up to a position.
    pub(super) fn record_read(&self, number: u64, position: u64) {
        if let Some(at) = lock(&self.positions).listening.get_mut(&number) {
            *at = position;
        }
        // Others wait only for a listener's last line.
        if position.is_multiple_of(self.lines()) {
            self.notify_changed();
        }
    }

    /// Removes a listener; `whole` if the end was delivered to it.
    pub(super) fn remove_listener(&self, number: u64, whole: bool) {
        let mut positions = lock(&self.positions);
        let position = positions.listening.remove(&number).unwrap_or_default();
        positions.left_early = (!whole).then(moment);
        let listeners = positions.listening.len();
        drop(positions);
        self.notify(ReplayNotice::ListenerLeft { lines: position, of: self.now().position, listeners });
        self.notify_changed();
    }

    /// Marks the playback as finished.
    pub(super) fn finish(&self) {
        self.progress.send_modify(|progress| progress.over = true);
        self.notify_changed();
    }

    pub(super) fn listeners(&self) -> usize {
        lock(&self.positions).listening.len()
    }

    /// Whether all current listeners have read everything that was sent.
    pub(super) fn is_all_read(&self) -> bool {
        let position = self.now().position;
        lock(&self.positions).listening.values().all(|at| *at >= position)
    }

    /// Until when to wait for a listener that left early.
    pub(super) fn return_deadline(&self) -> Option<Instant> {
        lock(&self.positions).left_early.map(|at| at + limits::REPLAY_RETURN_WAIT)
    }

    pub(super) fn notify_changed(&self) {
        self.listeners_changed.send_modify(|count| *count = count.wrapping_add(1));
    }
}
