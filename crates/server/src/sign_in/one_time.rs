//! Values that can be taken once, each for a short time, with a bound for all and for each peer.
//!
//! Start at [`OneTime`]. Keys are secrets, so only their hashes are kept. It must not know what the values mean.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection_limits::network_of;
use crate::peer::PeerId;

pub(super) struct OneTime<T> {
    entries: Mutex<HashMap<blake3::Hash, Entry<T>>>,
    most: usize,
    of_peer_max: usize,
}

struct Entry<T> {
    /// `None` after it was taken.
    value: Option<T>,
    peer: Option<PeerId>,
    until: Instant,
}

/// Why a value was not kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotKept {
    /// The key was used before.
    Known,
    /// The bound is reached.
    Full,
}

/// Why there is no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Unknown,
    /// It was taken before.
    Taken,
}

/// A key whose value is not known yet. It counts as used, until this is dropped.
pub(super) struct Reserved<'a, T> {
    of: &'a OneTime<T>,
    key: blake3::Hash,
    peer: Option<PeerId>,
    is_kept: bool,
}

impl<T> Reserved<'_, T> {
    /// Keeps a value; `None` marks the key as used.
    pub(super) fn keep(mut self, value: Option<T>, life: Duration) {
        let entry = Entry { value, peer: self.peer, until: recount_world::moment() + life };
        self.of.lock().insert(self.key, entry);
        self.is_kept = true;
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.of.lock().remove(&self.key);
        }
    }
}

impl<T> OneTime<T> {
    pub(super) fn new(most: usize, of_peer_max: usize) -> Self {
        OneTime { entries: Mutex::default(), most, of_peer_max }
    }

    pub(super) fn put(
        &self,
        key: &str,
        value: T,
        peer: Option<PeerId>,
        life: Duration,
    ) -> Result<(), NotKept> {
        self.reserve(key, peer, life)?.keep(Some(value), life);
        Ok(())
    }

    /// Takes the place of a value before work that leads to it. `life` is longer than that work.
    pub(super) fn reserve(
        &self,
        key: &str,
        peer: Option<PeerId>,
        life: Duration,
    ) -> Result<Reserved<'_, T>, NotKept> {
        let now = recount_world::moment();
        let peer = peer.map(network_of);
        let mut entries = self.lock();
        entries.retain(|_, entry| entry.until > now);
        let key = blake3::hash(key.as_bytes());
        if entries.contains_key(&key) {
            return Err(NotKept::Known);
        }
        let of_peer = entries.values().filter(|entry| entry.peer == peer).count();
        if entries.len() >= self.most || of_peer >= self.of_peer_max {
            return Err(NotKept::Full);
        }
        entries.insert(key, Entry { value: None, peer, until: now + life });
        Ok(Reserved { of: self, key, peer, is_kept: false })
    }

    /// Looks at a value, and takes it if `is_done`.
    pub(super) fn with<R>(&self, key: &str, look: impl FnOnce(&mut T) -> (R, bool)) -> Result<R, Missing> {
        let now = recount_world::moment();
        let mut entries = self.lock();
        let entry = entries.get_mut(&blake3::hash(key.as_bytes())).filter(|entry| entry.until > now);
        let entry = entry.ok_or(Missing::Unknown)?;
        let value = entry.value.as_mut().ok_or(Missing::Taken)?;
        let (result, is_done) = look(value);
        if is_done {
            entry.value = None;
        }
        Ok(result)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<blake3::Hash, Entry<T>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_value_is_taken_once_and_in_time() {
        let values = OneTime::new(10, 10);
        let take = |key: &str| values.with(key, |value: &mut u8| (*value, true));
        values.put("a", 1, None, LIFE).unwrap();
        assert_eq!(values.put("a", 2, None, LIFE), Err(NotKept::Known));
        assert_eq!(take("b"), Err(Missing::Unknown));
        assert_eq!(values.with("a", |value| (*value, false)), Ok(1));
        assert_eq!(take("a"), Ok(1));
        assert_eq!(take("a"), Err(Missing::Taken));
        assert_eq!(values.put("a", 2, None, LIFE), Err(NotKept::Known), "it was used");
        values.put("b", 2, None, LIFE).unwrap();
        tokio::time::advance(LIFE).await;
        assert_eq!(take("b"), Err(Missing::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn no_peer_takes_all_places() {
        let values = OneTime::new(5, 2);
        let peer = |text: &str| Some(text.parse::<std::net::IpAddr>().unwrap().into());
        let put = |key: &str, from| values.put(key, (), peer(from), LIFE);
        put("1", "10.0.0.1").unwrap();
        put("2", "10.0.0.1").unwrap();
        assert_eq!(put("3", "10.0.0.1"), Err(NotKept::Full));
        put("4", "2001:db8::1").unwrap();
        put("5", "2001:db8::2").unwrap();
        assert_eq!(put("6", "2001:db8::3"), Err(NotKept::Full), "of the same network");
        put("7", "10.0.0.2").unwrap();
        assert_eq!(put("8", "10.0.0.3"), Err(NotKept::Full), "all places are taken");
        tokio::time::advance(LIFE).await;
        put("8", "10.0.0.3").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_free_again_if_its_work_fails() {
        let values = OneTime::new(1, 1);
        let reserved = values.reserve("a", None, LIFE).unwrap();
        assert_eq!(values.put("a", 1, None, LIFE), Err(NotKept::Known), "at work");
        assert_eq!(values.put("b", 1, None, LIFE), Err(NotKept::Full));
        assert_eq!(values.with("a", |value| (*value, true)), Err(Missing::Taken), "it has no value yet");
        drop(reserved);
        values.put("a", 1, None, LIFE).unwrap();
        assert_eq!(values.with("a", |value| (*value, true)), Ok(1));
        tokio::time::advance(LIFE).await;
        values.reserve("a", None, LIFE).unwrap().keep(None, LIFE);
        assert_eq!(values.put("a", 1, None, LIFE), Err(NotKept::Known), "it was used");
    }
}
