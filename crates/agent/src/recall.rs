//! What was said in sessions whose last run ended here, so that the next message need not read all of the log again.
//!
//! The log stays the truth: what is kept is taken only where the newest earlier run of the session is the one that was
//! kept, and not for long. It is kept packed, in one piece of memory.
//!
//! Where there is no room, any of them goes, and not the one that was kept longest: of sessions that come in turn and do
//! not all fit, that one is always the next to come, and not one would be found. Look at [`Recall`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use recount_event::{RunId, SessionId};
use tokio::time::Instant;

use crate::conversation::Conversation;
use crate::limits;

/// The conversation of a session up to the end of a run.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    pub(crate) conversation: Conversation,
    /// The last run that is part of it, and how many are.
    pub(crate) last: RunId,
    pub(crate) runs: usize,
    /// When the log was read for it.
    pub(crate) read: Instant,
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct Recall(Mutex<RecallCache>);

#[derive(Default)]
struct RecallCache {
    by_session: HashMap<SessionId, RecallEntry>,
    /// All of them, in no order.
    sessions: Vec<SessionId>,
    bytes: usize,
    /// Which of them goes next; see [`RecallCache::pick`].
    lot: u64,
}

struct RecallEntry {
    /// The conversation.
    packed: Box<[u8]>,
    last: RunId,
    runs: usize,
    read: Instant,
    /// Where it stands among the sessions.
    place: usize,
}

impl Recall {
    /// Takes what is kept of a session out, if it goes up to this run.
    pub(crate) fn take(&self, session: SessionId, last: RunId, now: Instant) -> Option<Remembered> {
        let RecallEntry { packed, last: kept, runs, read, .. } = self.kept().remove(session)?;
        if kept != last || now.duration_since(read) >= limits::RECALL_AGE_MAX {
            return None;
        }
        let conversation = Conversation::unpacked(&packed)?;
        Some(Remembered { conversation, last, runs, read })
    }

    /// Keeps a conversation, and lets others go where there is no room.
    pub(crate) fn put(&self, session: SessionId, remembered: Remembered) {
        let Remembered { conversation, last, runs, read } = remembered;
        let packed = conversation.packed();
        let mut kept = self.kept();
        kept.remove(session);
        let Some(packed) = packed else { return };
        if packed.len() > limits::RECALL_BYTES_MAX || runs >= limits::EARLIER_RUNS_MAX {
            return;
        }
        while kept.bytes + packed.len() > limits::RECALL_BYTES_MAX
            || kept.sessions.len() >= limits::RECALL_SESSIONS_MAX
        {
            let Some(other) = kept.pick() else { break };
            kept.remove(other);
        }
        kept.bytes += packed.len();
        let place = kept.sessions.len();
        kept.sessions.push(session);
        kept.by_session.insert(session, RecallEntry { packed, last, runs, read, place });
    }

    pub(crate) fn forget(&self, session: SessionId) {
        self.kept().remove(session);
    }

    pub(crate) fn forget_all(&self) {
        *self.kept() = RecallCache::default();
    }

    fn kept(&self) -> MutexGuard<'_, RecallCache> {
        // Nothing panics while it holds it, and were it so, nothing of it would be half done.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl RecallCache {
    fn remove(&mut self, session: SessionId) -> Option<RecallEntry> {
        let entry = self.by_session.remove(&session)?;
        self.bytes -= entry.packed.len();
        self.sessions.swap_remove(entry.place);
        if let Some(moved) = self.sessions.get(entry.place) {
            self.by_session.entry(*moved).and_modify(|other| other.place = entry.place);
        }
        Some(entry)
    }

    /// Any of them: which, is to have nothing to do with when they came. (A linear congruence, of which the upper bits
    /// are scattered well enough for that.)
    fn pick(&mut self) -> Option<SessionId> {
        self.lot = self.lot.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = (self.lot >> 33).checked_rem(self.sessions.len() as u64)?;
        self.sessions.get(place as usize).copied()
    }
}

/// How many of the newest runs of a session count, of as many as were listed. Where there are as many as may be, fewer
/// do: then the next ones only add to what is kept here, and the log is not read again with each of them.
pub(crate) fn counted(listed: usize) -> usize {
    if listed < limits::EARLIER_RUNS_MAX { listed } else { limits::EARLIER_RUNS_MIN }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn session(number: u128) -> SessionId {
        SessionId::new(number.into())
    }

    fn run(number: u128) -> RunId {
        RunId::new(number.into())
    }

    fn remembered(bytes: usize, last: u128) -> Remembered {
        let mut conversation = Conversation::default();
        conversation.seed(&json!({ "role": "user", "content": "x".repeat(bytes) }));
        Remembered { conversation, last: run(last), runs: 1, read: recount_world::moment() }
    }

    #[test]
    fn what_is_kept_is_taken_for_its_own_run_while_it_is_fresh() {
        let recall = Recall::default();
        let now = recount_world::moment();
        recall.put(session(1), remembered(10, 5));
        assert!(recall.take(session(2), run(5), now).is_none());
        assert!(recall.take(session(1), run(5), now).is_some());
        assert!(recall.take(session(1), run(5), now).is_none());
        for (last, at) in [(6, now), (5, now + limits::RECALL_AGE_MAX * 2)] {
            recall.put(session(1), remembered(10, 5));
            assert!(recall.take(session(1), run(last), at).is_none());
        }
        for forget in [|recall: &Recall| recall.forget(session(1)), |recall: &Recall| recall.forget_all()] {
            recall.put(session(1), remembered(10, 5));
            forget(&recall);
            assert!(recall.take(session(1), run(5), now).is_none());
        }
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for_in_bytes_and_in_number() {
        let recall = Recall::default();
        let now = recount_world::moment();
        let found =
            |most: u128| (1..=most).filter(|n| recall.take(session(*n), run(1), now).is_some()).count();
        for number in 1..=5 {
            recall.put(session(number), remembered(limits::RECALL_BYTES_MAX / 4, 1));
            assert!(recall.kept().bytes <= limits::RECALL_BYTES_MAX);
        }
        assert_eq!((found(5), found(5)), (3, 0));
        assert_eq!(recall.kept().bytes, 0);
        recall.put(session(9), remembered(limits::RECALL_BYTES_MAX + 1, 1));
        assert_eq!(found(9), 0);
        let most = limits::RECALL_SESSIONS_MAX as u128;
        (1..=most + 10).for_each(|number| recall.put(session(number), remembered(1, 1)));
        assert_eq!(found(most + 10) as u128, most);
        assert!(recall.kept().sessions.is_empty());
    }

    /// The log is read when there are as many runs as may be, and then not before there are as many again.
    #[test]
    fn a_session_of_very_many_runs_is_read_now_and_then_and_not_with_each() {
        let recall = Recall::default();
        let now = recount_world::moment();
        let (mut runs, mut read) = (0, Vec::new());
        for number in 0..3 * limits::EARLIER_RUNS_MAX {
            runs = recall.take(session(1), run(1), now).map_or_else(
                || {
                    read.push(number);
                    counted(number.min(limits::EARLIER_RUNS_MAX))
                },
                |remembered| remembered.runs,
            );
            recall.put(session(1), Remembered { runs: runs + 1, ..remembered(1, 1) });
        }
        let (most, least) = (limits::EARLIER_RUNS_MAX, limits::EARLIER_RUNS_MIN);
        let expected: Vec<usize> = (most..3 * most).step_by(most - least).collect();
        assert_eq!((read[0], &read[1..]), (0, &expected[..]));
        assert!(runs < most);
    }

    /// Each is taken and put back longer, as a message does it.
    #[test]
    fn of_sessions_that_come_in_turn_most_are_found_though_not_all_have_room() {
        let recall = Recall::default();
        let now = recount_world::moment();
        let (sessions, rounds) = (50, 20);
        let bytes = limits::RECALL_BYTES_MAX / 40;
        let mut found = 0;
        for number in (0..rounds).flat_map(|_| 0..sessions) {
            found += u128::from(recall.take(session(number), run(1), now).is_some());
            recall.put(session(number), remembered(bytes, 1));
        }
        let of = sessions * rounds;
        assert!(found > of / 2 && found < of * 9 / 10, "{found} of {of}");
    }
}
