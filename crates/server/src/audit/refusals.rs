//! Counts refused requests by peer and code until they are recorded. See [`Refusals`].
//!
//! A flood of wrong tokens must not become a flood of events, nor grow memory: beyond a bound of peers the rest is
//! counted without them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::limits;
use crate::peer::PeerId;

#[derive(Default)]
pub(super) struct Refusals {
    counted: Mutex<RefusalCounts>,
    changed: Notify,
}

#[derive(Default)]
struct RefusalCounts {
    by_peer: BTreeMap<(Option<PeerId>, &'static str), u64>,
    /// Counts of the peers beyond the bound, by code.
    of_others: BTreeMap<&'static str, u64>,
}

impl Refusals {
    pub(super) fn count(&self, code: &'static str, peer: Option<PeerId>) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let has_space = counted.by_peer.len() < limits::AUDIT_PEERS_MAX;
        match counted.by_peer.get_mut(&(peer, code)) {
            Some(times) => *times += 1,
            None if has_space => drop(counted.by_peer.insert((peer, code), 1)),
            None => *counted.of_others.entry(code).or_default() += 1,
        }
        drop(counted);
        self.changed.notify_one();
    }

    /// Returns when there is something to record.
    pub(super) async fn wait_for_some(&self) {
        self.changed.notified().await;
    }

    /// Takes the counts since the last call, as facts.
    pub(super) fn take(&self) -> Vec<Value> {
        let counted = std::mem::take(&mut *self.counted.lock().unwrap_or_else(PoisonError::into_inner));
        let of_peers = counted.by_peer.into_iter().map(|((peer, code), times)| {
            let peer = peer.map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
            json!({"code": code, "peer": peer, "times": times})
        });
        let of_others = counted.of_others.into_iter();
        let of_others =
            of_others.map(|(code, times)| json!({"code": code, "peer": "others", "times": times}));
        of_peers.chain(of_others).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn every_refusal_is_counted_and_memory_is_bounded() {
        let refusals = Refusals::default();
        let peers = u64::try_from(limits::AUDIT_PEERS_MAX).unwrap() + 50;
        for number in 0..peers {
            let peer = IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
            refusals.count("token_invalid", Some(peer.into()));
            refusals.count("token_invalid", Some(peer.into()));
        }
        let facts = refusals.take();
        assert_eq!(facts.len(), limits::AUDIT_PEERS_MAX + 1);
        let times: u64 = facts.iter().map(|fact| fact["times"].as_u64().unwrap()).sum();
        assert_eq!(times, 2 * peers);
        assert_eq!(facts.last().unwrap(), &json!({"code": "token_invalid", "peer": "others", "times": 100}));
        assert!(refusals.take().is_empty());
    }
}
