//! Limits of open connections, in all and per address or user, and their counters. See [`ConnectionLimits`].
//!
//! A new connection is known only by its peer, so the last slots are reserved for peers with few connections.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use recount_transport::{Share, ShareLimits, Shares};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits;
use crate::peer::PeerId;

/// Shared by the listener, which admits connections, and metrics.
pub(crate) struct ConnectionLimits {
    places: Shares<PeerId>,
    places_max: usize,
    /// Slots for connections that only get a refusal.
    refusals: Arc<Semaphore>,
    accepted: AtomicU64,
    stalled: AtomicU64,
}

/// What happens to a new connection.
pub(crate) enum Admission {
    Place(Share<PeerId>),
    /// Over the limit; it gets a refusal.
    Refusal(OwnedSemaphorePermit),
    /// Over the limit of refusals, too; it is closed.
    Nothing,
}

impl ConnectionLimits {
    pub(crate) fn new(places_max: usize) -> Arc<Self> {
        Arc::new(ConnectionLimits {
            places: Shares::new(limits_of(places_max)),
            places_max,
            refusals: Arc::new(Semaphore::new(limits::REFUSALS_MAX)),
            accepted: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
        })
    }

    pub(crate) fn try_admit(&self, peer: impl Into<PeerId>) -> Admission {
        if let Some(place) = self.places.try_take(&network_of(peer.into()), 1) {
            self.accepted.fetch_add(1, Ordering::Relaxed);
            return Admission::Place(place);
        }
        self.refusals.clone().try_acquire_owned().map_or(Admission::Nothing, Admission::Refusal)
    }

    /// Admits a connection again, whose client turned out to have another address.
    pub(crate) fn readmit(&self, held: Share<PeerId>, peer: impl Into<PeerId>) -> Admission {
        drop(held);
        self.accepted.fetch_sub(1, Ordering::Relaxed);
        self.try_admit(peer)
    }

    /// Counts a connection that was cut because its peer accepted no data.
    pub(crate) fn count_stalled(&self) {
        self.stalled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn places_max(&self) -> usize {
        self.places_max
    }

    pub(crate) fn open(&self) -> usize {
        self.places.taken()
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.places.refused()
    }

    pub(crate) fn stalled(&self) -> u64 {
        self.stalled.load(Ordering::Relaxed)
    }
}

fn limits_of(places_max: usize) -> ShareLimits {
    let kept = places_max / limits::CONNECTIONS_KEPT_DIVISOR;
    let each = limits::PEER_CONNECTIONS_KEPT.min(kept.div_ceil(limits::PEERS_KEPT_MIN));
    ShareLimits::of_all(places_max, kept, each)
}

/// The network of an address: the owner of one IPv6 address usually has all of its network. A user stays as it is.
pub(crate) fn network_of(peer: PeerId) -> PeerId {
    let PeerId::Address(address) = peer else { return peer };
    PeerId::Address(match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address @ IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(connections: &ConnectionLimits, peer: &str) -> Vec<Share<PeerId>> {
        fill_with(connections, PeerId::Address(peer.parse().unwrap()))
    }

    fn fill_with(connections: &ConnectionLimits, peer: PeerId) -> Vec<Share<PeerId>> {
        let mut held = Vec::new();
        while let Admission::Place(place) = connections.try_admit(peer) {
            held.push(place);
        }
        held
    }

    #[test]
    fn no_address_takes_all_places() {
        for places_max in [16, 100, 1_000, limits::CONNECTIONS_MAX] {
            let connections = ConnectionLimits::new(places_max);
            let greedy = fill(&connections, "192.0.2.1");
            assert!(greedy.len() < places_max && greedy.len() >= places_max * 7 / 8, "{}", greedy.len());
            let other = fill(&connections, "::ffff:192.0.2.2");
            assert!(!other.is_empty(), "of {places_max}");
            assert_eq!(connections.open(), greedy.len() + other.len());
            assert_eq!(fill(&connections, "192.0.2.2").len(), 0, "the same address in another form");
            assert_eq!(connections.refused(), 3);
            drop(greedy);
            assert_eq!(connections.open(), other.len());
        }
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let connections = ConnectionLimits::new(100);
        let greedy = fill(&connections, "2001:db8:0:1::1");
        assert!(fill(&connections, "2001:db8:0:1:ffff::2").is_empty());
        assert!(!fill(&connections, "2001:db8:0:2::1").is_empty());
        drop(greedy);
    }

    #[test]
    fn no_user_takes_all_places() {
        let connections = ConnectionLimits::new(100);
        let greedy = fill_with(&connections, PeerId::User(1000));
        assert!(greedy.len() < 100);
        assert!(!fill_with(&connections, PeerId::User(1001)).is_empty());
        assert!(fill_with(&connections, PeerId::User(1000)).is_empty());
        drop(greedy);
    }

    #[test]
    fn a_single_place_can_be_taken() {
        assert_eq!(fill(&ConnectionLimits::new(1), "192.0.2.1").len(), 1);
    }
}
