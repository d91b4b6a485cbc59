//! Projections of runs that all subscriptions share: each run is projected once for each language in use.
//!
//! [`RunReader`] reads one run from any sequence number, [`TenantReader`] all runs of a tenant as they happen. A reader has only
//! a cursor. Events are shared in windows of bounded bytes; older events are projected again from the store. Must not
//! depend on subscriptions, terms or sockets. Start with [`Projections`].

mod projected;
mod run;
mod run_reader;
mod tenant;
mod tenant_reader;
mod window;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use recount_engine::{Engine, EngineInstance};
use recount_event::RunId;

pub(crate) use self::projected::Projected;
use self::projected::ProjectedSink;
use self::run::RunProjection;
pub(crate) use self::run_reader::{Broken, RunReader};
use self::tenant::TenantProjection;
pub(crate) use self::tenant_reader::{Next, TenantReader};
use self::window::Budget;
use crate::limits;
use crate::reply_tokens::ReplyTokens;
use crate::speech::Speech;

/// All projections of the process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Projections(Arc<Inner>);

struct Inner {
    tokens: ReplyTokens,
    budget: Arc<Budget>,
    runs: Mutex<Known<(EngineInstance, RunId, &'static str), RunProjection>>,
    tenants: Mutex<Known<(EngineInstance, &'static str), TenantProjection>>,
}

/// Projections by key. They live as long as a reader holds them.
struct Known<K, T> {
    by_key: HashMap<K, Weak<T>>,
    /// The number of keys at which keys without a projection are removed.
    swept_at: usize,
}

impl<K: Eq + Hash, T> Known<K, T> {
    fn new() -> Self {
        Known { by_key: HashMap::new(), swept_at: limits::PROJECTIONS_SWEPT_MIN }
    }

    fn find(&self, key: &K) -> Option<Arc<T>> {
        self.by_key.get(key).and_then(Weak::upgrade)
    }

    fn insert(&mut self, key: K, projection: &Arc<T>) {
        if self.by_key.len() >= self.swept_at {
            self.by_key.retain(|_, projection| projection.strong_count() > 0);
            self.swept_at = limits::PROJECTIONS_SWEPT_MIN.max(self.by_key.len() * 2);
        }
        self.by_key.insert(key, Arc::downgrade(projection));
    }
}

impl Projections {
    pub(crate) fn new(tokens: ReplyTokens) -> Self {
        Projections(Arc::new(Inner {
            tokens,
            budget: Arc::default(),
            runs: Mutex::new(Known::new()),
            tenants: Mutex::new(Known::new()),
        }))
    }

    /// The projection of a run in a language, for readers of this run, or for a projection of all runs from a sequence
    /// on.
    fn run(
        &self,
        engine: &Engine,
        run: RunId,
        speech: &'static Speech,
        tenant: Option<(&Arc<dyn ProjectedSink>, u64)>,
    ) -> Arc<RunProjection> {
        let key = (engine.instance(), run, speech.tag());
        let mut runs = lock(&self.0.runs);
        if let Some(known) = runs.find(&key).filter(|known| !known.has_failed()) {
            match tenant {
                Some((tenant, from)) => known.hand_on(tenant, from),
                None => known.keep(),
            }
            return known;
        }
        let (tokens, budget) = (self.0.tokens.clone(), self.0.budget.clone());
        let started = RunProjection::start(engine, run, speech, tokens, budget, tenant);
        runs.insert(key, &started);
        started
    }

    /// The projection of all runs of a tenant in a language.
    pub(crate) fn tenant(&self, engine: &Engine, speech: &'static Speech) -> Arc<TenantProjection> {
        let key = (engine.instance(), speech.tag());
        let mut tenants = lock(&self.0.tenants);
        if let Some(known) = tenants.find(&key).filter(|known| !known.has_failed()) {
            return known;
        }
        let started = TenantProjection::start(self, engine, speech);
        tenants.insert(key, &started);
        started
    }

    pub(crate) fn tokens(&self) -> &ReplyTokens {
        &self.0.tokens
    }

    /// Bytes of events in windows.
    pub(crate) fn bytes(&self) -> usize {
        self.0.budget.bytes()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
