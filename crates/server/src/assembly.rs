//! What the main server and a server with tenants of another one have in common: settings, limits, export and agents.
//!
//! It must not know how a server starts. See [`server_settings`] and [`HostedServer`].

use std::sync::Arc;

use axum::Router;
use recount_engine::Redactor;
use recount_log::Store;
use recount_otel::metrics::ReadPage;
use recount_otel::{ExportSettings, Exporter};
use recount_world::World;
use serde_json::json;

use crate::agents::AgentPool;
use crate::audit::Relay;
use crate::config::{Config, Webhooks};
use crate::running::{Running, ServerSettings, ServerSockets};
use crate::stores::Stores;
use crate::tenants::ServedTenants;
use crate::{StartError, boxed, metrics};

pub(crate) fn server_settings(config: &Config, pool: &AgentPool) -> ServerSettings {
    let settings = config.settings.iter().map(
        |setting| json!({"key": setting.key, "value": setting.value, "source": setting.source.to_string()}),
    );
    ServerSettings {
        access: config.access.clone(),
        aap: config.aap.clone(),
        aaep: config.aaep,
        profiles: pool.profiles().clone(),
        webhooks: config.webhooks.clone(),
        public_url: config.public_url.clone(),
        sign_in: config.sign_in.clone(),
        settings: settings.collect(),
        ..ServerSettings::default()
    }
}

/// Sets what all tenants have in common.
pub(crate) async fn configure_tenants(config: &Config, running: &Running) -> Result<(), StartError> {
    let tenants = &running.gate.tenants;
    tenants.limit_artifacts(config.artifacts);
    tenants.set_retention(config.retention, config.sweep_every);
    tenants.expect_agents();
    if let Some(settings) = export_settings(config)? {
        let failed =
            |why| StartError::failed(format!("cannot create an HTTP client for otel.endpoint: {why}"));
        let exporter = Exporter::new(settings).map_err(failed)?;
        // The main server sends the metrics of all.
        let is_main = tenants.served() != ServedTenants::HandedOver;
        if is_main && config.otel.as_ref().is_some_and(|export| export.metrics) {
            let (sources, world) = (running.sources.clone(), running.engine.world().clone());
            let read: ReadPage = Box::new(move || {
                let sources = sources.clone();
                Box::pin(async move { metrics::read(&sources).await })
            });
            exporter.push_metrics(read, recount_otel::limits::METRICS_EVERY, &world).map_err(failed)?;
        }
        tenants.export_traces(exporter).await;
    }
    Ok(())
}

/// Serves tenants that another server hands over. It has no listener.
pub(crate) struct HostedServer {
    pub(crate) running: Running,
    pub(crate) router: Router,
}

impl HostedServer {
    #[boxed]
    pub(crate) async fn start(
        config: &Config,
        world: World,
        (stores, empty): (Stores, Arc<dyn Store>),
        pool: Arc<AgentPool>,
        redactor: Arc<Redactor>,
        relay: Arc<Relay>,
    ) -> Result<Self, StartError> {
        let entry = ServerSettings {
            // Tenants with webhooks stay at the main server, and people sign in there.
            webhooks: Webhooks::default(),
            sign_in: None,
            served: ServedTenants::HandedOver,
            relay: Some(relay),
            ..server_settings(config, &pool)
        };
        let entry = ServerSettings { aaep: entry.aaep.without_room(), ..entry };
        let sockets = ServerSockets::default();
        let (running, listeners) = Running::on(sockets, empty, world, Some(stores), entry, redactor).await?;
        let configured = async {
            configure_tenants(config, &running).await?;
            attach_agents(&running, pool).await
        };
        if let Err(error) = configured.await {
            running.end().await;
            return Err(error);
        }
        Ok(HostedServer { running, router: listeners.router() })
    }
}

/// Where and what to export, with the headers of their variable.
pub(crate) fn export_settings(config: &Config) -> Result<Option<ExportSettings>, StartError> {
    let export = config.otel.as_ref();
    export.map(|export| export.settings(&|name| std::env::var(name).ok())).transpose()
}

/// Attaches the agents that execute this server's own runs.
pub(crate) async fn attach_agents(running: &Running, pool: Arc<AgentPool>) -> Result<(), StartError> {
    let failed = |why| StartError::failed(format!("cannot attach agents for own runs: {why}"));
    running.gate.tenants.attach_agents(pool).await.map_err(failed)
}
