//! Caches the conversations of sessions whose last run ended on this server, so that the next message does not read the
//! whole log again.
//!
//! An entry is used only if its last run is the newest earlier run of the session, and only for a limited time. The log
//! remains authoritative. Entries are packed into one allocation each. The cache must not read the log.
//!
//! A full cache evicts a random entry, not the oldest. If more sessions take turns than fit, the oldest entry is always
//! the one that is needed next, and every lookup would miss. Start with [`ConversationCache`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use recount_event::{RunId, SessionId};
use tokio::time::Instant;

use crate::conversation::Conversation;
use crate::limits;

/// The conversation of a session up to the end of a run.
#[derive(Debug, Clone)]
pub(crate) struct CachedConversation {
    pub(crate) conversation: Conversation,
    /// The last run that is part of it.
    pub(crate) last: RunId,
    /// The number of runs that are part of it.
    pub(crate) runs: usize,
    /// When it was read from the log.
    pub(crate) read_at: Instant,
}

#[derive(Default)]
pub(crate) struct ConversationCache(Mutex<CacheState>);

#[derive(Default)]
struct CacheState {
    by_session: HashMap<SessionId, CacheEntry>,
    /// All cached sessions, in no order.
    sessions: Vec<SessionId>,
    bytes: usize,
    /// The state of the generator that chooses the entry to evict; see [`CacheState::pick`].
    seed: u64,
}

struct CacheEntry {
    packed: Box<[u8]>,
    last: RunId,
    runs: usize,
    read_at: Instant,
    /// Its index in `sessions`.
    index: usize,
}

impl ConversationCache {
    /// Removes and returns the entry of a session, if `last` is its last run.
    pub(crate) fn take(&self, session: SessionId, last: RunId, now: Instant) -> Option<CachedConversation> {
        let CacheEntry { packed, last: cached_last, runs, read_at, .. } = self.lock().remove(session)?;
        if cached_last != last || now.duration_since(read_at) >= limits::CONVERSATION_CACHE_AGE_MAX {
            return None;
        }
        let conversation = Conversation::unpacked(&packed)?;
        Some(CachedConversation { conversation, last, runs, read_at })
    }

    /// Adds a conversation, and evicts others if the cache is full.
    pub(crate) fn put(&self, session: SessionId, cached: CachedConversation) {
        let CachedConversation { conversation, last, runs, read_at } = cached;
        let packed = conversation.packed();
        let mut state = self.lock();
        state.remove(session);
        let Some(packed) = packed else { return };
        if packed.len() > limits::CONVERSATION_CACHE_BYTES_MAX || runs >= limits::EARLIER_RUNS_MAX {
            return;
        }
        while state.bytes + packed.len() > limits::CONVERSATION_CACHE_BYTES_MAX
            || state.sessions.len() >= limits::CONVERSATION_CACHE_SESSIONS_MAX
        {
            let Some(other) = state.pick() else { break };
            state.remove(other);
        }
        state.bytes += packed.len();
        let index = state.sessions.len();
        state.sessions.push(session);
        state.by_session.insert(session, CacheEntry { packed, last, runs, read_at, index });
    }

    pub(crate) fn forget(&self, session: SessionId) {
        self.lock().remove(session);
    }

    pub(crate) fn forget_all(&self) {
        *self.lock() = CacheState::default();
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        // No code panics while it holds the lock, and a panic would not leave the state inconsistent.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl CacheState {
    fn remove(&mut self, session: SessionId) -> Option<CacheEntry> {
        let entry = self.by_session.remove(&session)?;
        self.bytes -= entry.packed.len();
        self.sessions.swap_remove(entry.index);
        if let Some(moved) = self.sessions.get(entry.index) {
            self.by_session.entry(*moved).and_modify(|other| other.index = entry.index);
        }
        Some(entry)
    }

    /// A pseudo-random session, independent of the order of arrival. The upper bits of this linear congruential
    /// generator are random enough for that.
    fn pick(&mut self) -> Option<SessionId> {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let index = (self.seed >> 33).checked_rem(self.sessions.len() as u64)?;
        self.sessions.get(index as usize).copied()
    }
}

/// The number of newest runs of a session to use, out of `listed`. At the maximum only half of them are used: the next
/// runs then extend the cached conversation, and not each one reads the log again.
pub(crate) fn runs_to_use(listed: usize) -> usize {
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

    fn cached(bytes: usize, last: u128) -> CachedConversation {
        let mut conversation = Conversation::default();
        conversation.seed(&json!({ "role": "user", "content": "x".repeat(bytes) }));
        CachedConversation { conversation, last: run(last), runs: 1, read_at: recount_world::moment() }
    }

    #[test]
    fn an_entry_is_returned_for_its_last_run_until_it_expires() {
        let cache = ConversationCache::default();
        let now = recount_world::moment();
        cache.put(session(1), cached(10, 5));
        assert!(cache.take(session(2), run(5), now).is_none());
        assert!(cache.take(session(1), run(5), now).is_some());
        assert!(cache.take(session(1), run(5), now).is_none());
        for (last, at) in [(6, now), (5, now + limits::CONVERSATION_CACHE_AGE_MAX * 2)] {
            cache.put(session(1), cached(10, 5));
            assert!(cache.take(session(1), run(last), at).is_none());
        }
        for forget in [
            |cache: &ConversationCache| cache.forget(session(1)),
            |cache: &ConversationCache| cache.forget_all(),
        ] {
            cache.put(session(1), cached(10, 5));
            forget(&cache);
            assert!(cache.take(session(1), run(5), now).is_none());
        }
    }

    #[test]
    fn the_cache_is_limited_in_bytes_and_sessions() {
        let cache = ConversationCache::default();
        let now = recount_world::moment();
        let found =
            |most: u128| (1..=most).filter(|n| cache.take(session(*n), run(1), now).is_some()).count();
        for number in 1..=5 {
            cache.put(session(number), cached(limits::CONVERSATION_CACHE_BYTES_MAX / 4, 1));
            assert!(cache.lock().bytes <= limits::CONVERSATION_CACHE_BYTES_MAX);
        }
        assert_eq!((found(5), found(5)), (3, 0));
        assert_eq!(cache.lock().bytes, 0);
        cache.put(session(9), cached(limits::CONVERSATION_CACHE_BYTES_MAX + 1, 1));
        assert_eq!(found(9), 0);
        let most = limits::CONVERSATION_CACHE_SESSIONS_MAX as u128;
        (1..=most + 10).for_each(|number| cache.put(session(number), cached(1, 1)));
        assert_eq!(found(most + 10) as u128, most);
        assert!(cache.lock().sessions.is_empty());
    }

    /// The log is read when the number of runs reaches the maximum, and then again only at the next maximum.
    #[test]
    fn a_session_of_many_runs_is_not_read_with_each_run() {
        let cache = ConversationCache::default();
        let now = recount_world::moment();
        let (mut runs, mut read) = (0, Vec::new());
        for number in 0..3 * limits::EARLIER_RUNS_MAX {
            runs = cache.take(session(1), run(1), now).map_or_else(
                || {
                    read.push(number);
                    runs_to_use(number.min(limits::EARLIER_RUNS_MAX))
                },
                |entry| entry.runs,
            );
            cache.put(session(1), CachedConversation { runs: runs + 1, ..cached(1, 1) });
        }
        let (most, least) = (limits::EARLIER_RUNS_MAX, limits::EARLIER_RUNS_MIN);
        let expected: Vec<usize> = (most..3 * most).step_by(most - least).collect();
        assert_eq!((read[0], &read[1..]), (0, &expected[..]));
        assert!(runs < most);
    }

    /// Each lookup removes the entry and adds it again, as a message does.
    #[test]
    fn most_lookups_hit_when_more_sessions_take_turns_than_fit() {
        let cache = ConversationCache::default();
        let now = recount_world::moment();
        let (sessions, rounds) = (50, 20);
        let bytes = limits::CONVERSATION_CACHE_BYTES_MAX / 40;
        let mut found = 0;
        for number in (0..rounds).flat_map(|_| 0..sessions) {
            found += u128::from(cache.take(session(number), run(1), now).is_some());
            cache.put(session(number), cached(bytes, 1));
        }
        let of = sessions * rounds;
        assert!(found > of / 2 && found < of * 9 / 10, "{found} of {of}");
    }
}
