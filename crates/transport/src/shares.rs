//! Fair shares of a limited number of places, so that no owner can take all of them.
//!
//! Each owner has a few places of its own. Once these are taken, it takes from the shared ones. This must not know
//! what an owner or a place is. Look at [`Shares::try_take`].

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many places there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareLimits {
    /// Places that all owners share.
    pub shared_max: usize,
    /// Places of each owner in addition to those.
    pub own_max: usize,
    /// All places of owners' own together; owners that come when these are taken have none of their own.
    pub own_total_max: usize,
}

impl ShareLimits {
    /// Limits with which one owner alone takes `max` places, and each further one has `own` of them to itself.
    pub fn for_each(max: usize, own: usize) -> Self {
        let own_max = own.min(max);
        ShareLimits { shared_max: max - own_max, own_max, own_total_max: usize::MAX }
    }

    /// Limits with which all owners together take at most `max` places. A part `kept` of it is reserved for owners with no
    /// more than `own` places.
    pub fn of_all(max: usize, kept: usize, own: usize) -> Self {
        let kept = kept.min(max);
        ShareLimits { shared_max: max - kept, own_max: own.min(kept), own_total_max: kept }
    }
}

/// See the file's head. Cheap to clone.
pub struct Shares<O: Eq + Hash + Clone>(Arc<Inner<O>>);

impl<O: Eq + Hash + Clone> Clone for Shares<O> {
    fn clone(&self) -> Self {
        Shares(self.0.clone())
    }
}

struct Inner<O: Eq + Hash + Clone> {
    limits: ShareLimits,
    taken: Mutex<Taken<O>>,
}

struct Taken<O> {
    shared: usize,
    own_total: usize,
    /// Of those owners that have any.
    own: HashMap<O, usize>,
    refused: u64,
}

/// Places that were taken; given back when this is dropped.
pub struct Share<O: Eq + Hash + Clone> {
    inner: Arc<Inner<O>>,
    /// The owner whose own places they are; `None` for shared ones.
    owner: Option<O>,
    places: usize,
}

impl<O: Eq + Hash + Clone> Shares<O> {
    pub fn new(limits: ShareLimits) -> Self {
        let taken = Taken { shared: 0, own_total: 0, own: HashMap::new(), refused: 0 };
        Shares(Arc::new(Inner { limits, taken: Mutex::new(taken) }))
    }

    /// Takes so many places together, all of one kind: own ones first. `None`: there are not enough.
    pub fn try_take(&self, owner: &O, places: usize) -> Option<Share<O>> {
        let ShareLimits { shared_max, own_max, own_total_max } = self.0.limits;
        let mut taken = self.0.lock();
        let own = taken.own.get(owner).copied().unwrap_or(0);
        let share = |owner: Option<&O>| Share { inner: self.0.clone(), owner: owner.cloned(), places };
        if own + places <= own_max && taken.own_total + places <= own_total_max {
            taken.own_total += places;
            *taken.own.entry(owner.clone()).or_default() += places;
            return Some(share(Some(owner)));
        }
        if taken.shared + places <= shared_max {
            taken.shared += places;
            return Some(share(None));
        }
        taken.refused += 1;
        None
    }

    pub fn limits(&self) -> ShareLimits {
        self.0.limits
    }

    /// Places that are taken.
    pub fn taken(&self) -> usize {
        let taken = self.0.lock();
        taken.shared + taken.own_total
    }

    /// How often there were not enough.
    pub fn refused(&self) -> u64 {
        self.0.lock().refused
    }
}

impl<O: Eq + Hash + Clone> Inner<O> {
    fn lock(&self) -> MutexGuard<'_, Taken<O>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Eq + Hash + Clone> Drop for Share<O> {
    fn drop(&mut self) {
        let mut taken = self.inner.lock();
        let Some(owner) = &self.owner else {
            taken.shared -= self.places;
            return;
        };
        taken.own_total -= self.places;
        if let Some(own) = taken.own.get_mut(owner) {
            *own -= self.places;
            if *own == 0 {
                taken.own.remove(owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(shared_max: usize, own_max: usize, own_total_max: usize) -> Shares<&'static str> {
        Shares::new(ShareLimits { shared_max, own_max, own_total_max })
    }

    #[test]
    fn an_owner_of_all_shared_places_leaves_others_their_own() {
        let shares = shares(3, 2, usize::MAX);
        let greedy: Vec<_> = std::iter::from_fn(|| shares.try_take(&"a", 1)).collect();
        assert_eq!((greedy.len(), shares.taken(), shares.refused()), (5, 5, 1));
        for other in ["b", "c"] {
            let own: Vec<_> = std::iter::from_fn(|| shares.try_take(&other, 1)).collect();
            assert_eq!(own.len(), 2, "{other}");
        }
        drop(greedy);
        assert_eq!(shares.taken(), 0);
        assert!(shares.0.lock().own.is_empty(), "nothing is kept of owners that have gone");
    }

    #[test]
    fn places_taken_together_are_of_one_kind_and_given_back_as_they_were_taken() {
        let shares = shares(4, 3, usize::MAX);
        let own = shares.try_take(&"a", 2).unwrap();
        let shared = shares.try_take(&"a", 2).unwrap();
        assert!(own.owner.is_some() && shared.owner.is_none());
        assert!(shares.try_take(&"a", 3).is_none(), "neither kind has three");
        drop(own);
        let again = shares.try_take(&"a", 3).unwrap();
        assert!(again.owner.is_some());
        assert_eq!(shares.taken(), 5);
    }

    #[test]
    fn where_own_places_run_out_the_shared_ones_are_left() {
        let shares = shares(1, 1, 2);
        let held: Vec<_> = ["a", "b", "c"].iter().filter_map(|owner| shares.try_take(owner, 1)).collect();
        assert_eq!(held.len(), 3);
        assert!(shares.try_take(&"d", 1).is_none());
    }
}
