//! The export of all tenants: starts a follower for each and each signal, and reads their figures. See [`Exporter`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recount_engine::Engine;
use recount_world::{Kind, World};

use crate::batch::resource;
use crate::figures::{Counters, ExportFigures};
use crate::follow::{Follower, Projection};
use crate::logs::EventRecords;
use crate::metrics::{ReadPage, push};
use crate::outbox::Outbox;
use crate::send::Sender;
use crate::settings::{ExportSettings, Signal};
use crate::traces::EndedRuns;

/// Exports the runs of tenants. Cheap to clone.
#[derive(Clone)]
pub struct Exporter(Arc<Inner>);

struct Inner {
    settings: ExportSettings,
    traces: Option<Arc<Sender>>,
    logs: Option<Arc<Sender>>,
    tenants: Mutex<BTreeMap<String, Arc<Counters>>>,
}

impl Exporter {
    /// `Err`: why there can be no HTTP client.
    pub fn new(settings: ExportSettings) -> Result<Exporter, String> {
        let sender = |signal| {
            let endpoint = settings.endpoint(signal);
            endpoint.map(|endpoint| Sender::new(endpoint, settings.headers(signal)).map(Arc::new)).transpose()
        };
        let (traces, logs) = (sender(Signal::Traces)?, sender(Signal::Logs)?);
        Ok(Exporter(Arc::new(Inner { settings, traces, logs, tenants: Mutex::default() })))
    }

    /// Exports the runs of a tenant that end from now on, and the events from now on, until its server stops.
    pub async fn follow(&self, tenant: &str, engine: &Engine) {
        let counters = Arc::new(Counters::default());
        {
            let mut tenants = self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            tenants.insert(tenant.to_owned(), counters.clone());
        }
        let contents = self.0.settings.contents;
        if let Some(sender) = &self.0.traces {
            let runs = EndedRuns::new(tenant, engine.clone(), contents, counters.clone());
            self.start(tenant, engine, sender, &counters, runs).await;
        }
        if let Some(sender) = &self.0.logs {
            let records = EventRecords::new(tenant, engine.clone(), contents);
            self.start(tenant, engine, sender, &counters, records).await;
        }
    }

    /// Forgets the figures of a tenant whose engine has ended.
    pub fn forget(&self, tenant: &str) {
        self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant);
    }

    async fn start<P: Projection>(
        &self,
        tenant: &str,
        engine: &Engine,
        sender: &Arc<Sender>,
        counters: &Arc<Counters>,
        projection: P,
    ) {
        let (settings, world) = (&self.0.settings, engine.world());
        let outbox = Outbox::new(tenant, world.clone(), settings, sender.clone(), counters.clone());
        let follower = Follower::new(tenant, engine.clone(), settings.history, projection, outbox);
        follower.prepare().await;
        world.tasks.spawn(Kind::Service, |shutdown| follower.run(shutdown));
    }

    /// Sends the figures of the server, as the page that `read` returns has them, until the server stops; not if there is no
    /// endpoint for traces, beside which those for metrics is. `Err`: why there can be no HTTP client.
    pub fn push_metrics(&self, read: ReadPage, every: Duration, world: &World) -> Result<(), String> {
        let settings = &self.0.settings;
        let Some(endpoint) = &settings.traces else { return Ok(()) };
        let sender = Sender::new(&endpoint.for_metrics(), &settings.headers)?;
        let (to, of_push) = ((sender, resource(settings, None)), world.clone());
        world.tasks.spawn(Kind::Service, move |shutdown| push(to, read, every, of_push, shutdown));
        Ok(())
    }

    /// By tenant.
    pub fn figures(&self) -> BTreeMap<String, ExportFigures> {
        let tenants = self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.iter().map(|(tenant, counters)| (tenant.clone(), counters.read())).collect()
    }

    /// Where a signal is sent, if it is exported.
    pub fn endpoint(&self, signal: Signal) -> Option<String> {
        self.0.settings.endpoint(signal).map(|endpoint| endpoint.shown())
    }
}
