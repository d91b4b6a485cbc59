//! What was said in sessions whose last run ended here, so that the next message need not read all of the log again.
//!
//! The log stays the truth: what is kept is taken only where the newest earlier run of the session is the one that was
//! kept, and not for long. It is kept packed, in one piece of memory. Look at [`Recall`].

use std::collections::{BTreeMap, HashMap};
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
pub(crate) struct Recall(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    by_session: HashMap<SessionId, Entry>,
    /// The one kept longest first.
    order: BTreeMap<u64, SessionId>,
    next: u64,
    bytes: usize,
}

struct Entry {
    /// The conversation.
    packed: Box<[u8]>,
    last: RunId,
    runs: usize,
    read: Instant,
    number: u64,
}

impl Recall {
    /// Takes what is kept of a session out, if it goes up to this run.
    pub(crate) fn take(&self, session: SessionId, last: RunId, now: Instant) -> Option<Remembered> {
        let Entry { packed, last: kept, runs, read, .. } = self.kept().remove(session)?;
        if kept != last || now.duration_since(read) >= limits::RECALL_AGE_MAX {
            return None;
        }
        let conversation = Conversation::unpacked(&packed)?;
        Some(Remembered { conversation, last, runs, read })
    }

    /// Keeps a conversation, and lets the oldest ones go where there is no room.
    pub(crate) fn put(&self, session: SessionId, remembered: Remembered) {
        let Remembered { conversation, last, runs, read } = remembered;
        let packed = conversation.packed();
        let mut kept = self.kept();
        kept.remove(session);
        let Some(packed) = packed else { return };
        if packed.len() > limits::RECALL_BYTES_MAX || runs >= limits::EARLIER_RUNS_MAX {
            return;
        }
        let number = kept.next;
        kept.next += 1;
        kept.bytes += packed.len();
        kept.order.insert(number, session);
        kept.by_session.insert(session, Entry { packed, last, runs, read, number });
        while kept.bytes > limits::RECALL_BYTES_MAX || kept.order.len() > limits::RECALL_SESSIONS_MAX {
            let Some(oldest) = kept.order.values().next().copied() else { break };
            kept.remove(oldest);
        }
    }

    pub(crate) fn forget(&self, session: SessionId) {
        self.kept().remove(session);
    }

    pub(crate) fn forget_all(&self) {
        *self.kept() = Kept::default();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it holds it, and were it so, nothing of it would be half done.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, session: SessionId) -> Option<Entry> {
        let entry = self.by_session.remove(&session)?;
        self.order.remove(&entry.number);
        self.bytes -= entry.packed.len();
        Some(entry)
    }
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
    fn the_oldest_go_first_by_bytes_and_by_number() {
        let recall = Recall::default();
        let now = recount_world::moment();
        for number in 1..=5 {
            recall.put(session(number), remembered(limits::RECALL_BYTES_MAX / 4, 1));
        }
        assert!(recall.take(session(1), run(1), now).is_none());
        assert!(recall.take(session(5), run(1), now).is_some());
        recall.put(session(9), remembered(limits::RECALL_BYTES_MAX + 1, 1));
        assert!(recall.take(session(9), run(1), now).is_none());
        recall.forget_all();
        let most = limits::RECALL_SESSIONS_MAX as u128;
        (0..=most).for_each(|number| recall.put(session(number), remembered(1, 1)));
        assert!(recall.take(session(0), run(1), now).is_none());
        assert!(recall.take(session(most), run(1), now).is_some());
        assert!(recall.kept().bytes < limits::RECALL_BYTES_MAX);
    }
}
