//! The export of all tenants to one endpoint: starts a follower for each and reads their figures. See [`Exporter`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use std::time::Duration;

use recount_engine::Engine;
use recount_world::{Kind, World};

use crate::batch::resource;
use crate::figures::{Counters, ExportFigures};
use crate::follow::Follower;
use crate::metrics::{ReadPage, push};
use crate::send::Sender;
use crate::settings::ExportSettings;

/// Exports the runs of tenants. Cheap to clone.
#[derive(Clone)]
pub struct Exporter(Arc<Inner>);

struct Inner {
    settings: ExportSettings,
    sender: Arc<Sender>,
    tenants: Mutex<BTreeMap<String, Arc<Counters>>>,
}

impl Exporter {
    /// `Err`: why there can be no HTTP client.
    pub fn new(settings: ExportSettings) -> Result<Exporter, String> {
        let sender = Arc::new(Sender::new(&settings.endpoint, &settings.headers)?);
        Ok(Exporter(Arc::new(Inner { settings, sender, tenants: Mutex::default() })))
    }

    /// Exports the runs of a tenant that end from now on, until its server stops.
    pub async fn follow(&self, tenant: &str, engine: &Engine) {
        let counters = Arc::new(Counters::default());
        {
            let mut tenants = self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            tenants.insert(tenant.to_owned(), counters.clone());
        }
        let follower =
            Follower::new(tenant, engine.clone(), self.0.settings.clone(), self.0.sender.clone(), counters);
        follower.prepare().await;
        engine.world().tasks.spawn(Kind::Service, |shutdown| follower.run(shutdown));
    }

    /// Sends the figures of the server, as the page that `read` returns has them, until the server stops. `Err`: why there can
    /// be no HTTP client.
    pub fn push_metrics(&self, read: ReadPage, every: Duration, world: &World) -> Result<(), String> {
        let settings = &self.0.settings;
        let sender = Sender::new(&settings.endpoint.for_metrics(), &settings.headers)?;
        let (to, of_push) = ((sender, resource(settings, None)), world.clone());
        world.tasks.spawn(Kind::Service, move |shutdown| push(to, read, every, of_push, shutdown));
        Ok(())
    }

    /// By tenant.
    pub fn figures(&self) -> BTreeMap<String, ExportFigures> {
        let tenants = self.0.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.iter().map(|(tenant, counters)| (tenant.clone(), counters.read())).collect()
    }

    /// Where traces are sent.
    pub fn endpoint(&self) -> String {
        self.0.settings.endpoint.shown()
    }
}
