//! Opens tenants: each has a store and an engine of its own, so no tenant can see data of another.
//!
//! The store of the default tenant is in the data folder itself, the others are below it in folders with their names.
//! See `docs/decisions/0014`.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use futures_util::future::join_all;
use recount_engine::{ArtifactQuota, Engine, EngineStats, Error, ListQuery, Policy, SEAL_KEY_BYTES};
use recount_event::{Code, PromptKind};
use recount_face_aep::{Refusal, SseFraming};
use recount_log::{Fault, Store};
use recount_otel::Exporter;
use recount_world::{Kind, World};
use serde_json::json;
use tokio::sync::{Notify, Semaphore, watch};

use crate::agents::AgentPool;
use crate::audit::{self, Audit, AuditKind};
use crate::forwarding::ForwardTarget;
use crate::idle_connections::IdleConnections;
use crate::stores::Stores;
use crate::tenant_folder::{TENANT_DEFAULT, folder_within};
use crate::{Files, StartError, limits};

/// [`Stores::open`] or [`Stores::open_when_given_back`].
type OpenStore = fn(&Stores, &str) -> Result<Arc<dyn Store>, Fault>;

/// Whether a store belongs to a tenant besides the default one.
pub(crate) fn is_other(name: &str) -> bool {
    ![TENANT_DEFAULT, audit::TENANT].contains(&name)
}

pub(crate) struct Tenants {
    default: Engine,
    others: RwLock<BTreeMap<String, Engine>>,
    /// Their stores, and the key that seals originals. Without them there can be no other tenants.
    stores: Option<(Stores, [u8; SEAL_KEY_BYTES])>,
    world: World,
    /// One new tenant at a time.
    creation: tokio::sync::Mutex<()>,
    /// The retention policy of every store.
    policy: OnceLock<(Policy, Duration)>,
    /// The artifact quota of each tenant.
    quota: OnceLock<ArtifactQuota>,
    /// Heads of runs are signed.
    signs: OnceLock<()>,
    /// The agents that execute own runs, if there are any.
    agents: OnceLock<Arc<AgentPool>>,
    /// Agents will be attached; until then the server is not ready.
    expects_agents: OnceLock<()>,
    /// Exports runs, if an endpoint is configured.
    exporter: OnceLock<Exporter>,
    /// The audit trail; none without a data folder.
    audit: OnceLock<Audit>,
    served: ServedTenants,
    /// Tenants that this server knows and does not serve at the moment.
    elsewhere: RwLock<BTreeMap<String, Elsewhere>>,
    /// Some tenant is at another place.
    moved: Notify,
    /// Permits of requests at other servers: each needs a connection there.
    pub(crate) forwarded: Arc<Semaphore>,
}

/// Where a tenant is.
pub(crate) enum TenantPlace {
    Here(Engine),
    Elsewhere(Elsewhere),
}

/// Which tenants a server serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ServedTenants {
    /// All of them.
    #[default]
    All,
    /// The default one, and those that are not at other servers.
    Spread,
    /// Those that another server has handed over. The default engine is empty.
    HandedOver,
}

/// Where a tenant is that this server does not serve.
#[derive(Clone)]
pub(crate) enum Elsewhere {
    /// On its way, or its server has failed.
    Moving,
    Server(Arc<TenantServer>),
    /// There, and it is being given back: new requests wait.
    Leaving(Arc<TenantServer>),
}

impl Elsewhere {
    fn server(&self) -> Option<&Arc<TenantServer>> {
        match self {
            Elsewhere::Moving => None,
            Elsewhere::Server(server) | Elsewhere::Leaving(server) => Some(server),
        }
    }
}

/// Another server that has the store of a tenant.
pub(crate) struct TenantServer {
    pub(crate) target: ForwardTarget,
    /// Whether the tenant is no longer there.
    ended: watch::Sender<bool>,
    /// Connections to it.
    pub(crate) idle: IdleConnections,
}

impl TenantServer {
    pub(crate) fn new(target: ForwardTarget) -> Self {
        TenantServer { target, ended: watch::channel(false).0, idle: IdleConnections::default() }
    }

    /// Returns when the tenant is no longer there.
    pub(crate) fn watch_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut ended = self.ended.subscribe();
        async move {
            // A dropped sender means the same.
            ended.wait_for(|ended| *ended).await.ok();
        }
    }
}

impl Tenants {
    /// Opens the stores of all tenants that this server serves.
    pub(crate) async fn open(
        default: Engine,
        stores: Option<(Stores, [u8; SEAL_KEY_BYTES])>,
        served: ServedTenants,
    ) -> Result<Arc<Self>, StartError> {
        let world = default.world().clone();
        let names = match &stores {
            Some((stores, _)) if served != ServedTenants::HandedOver => {
                stores.wait_for(&world, Stores::names).await?
            }
            _ => Vec::new(),
        };
        let others = RwLock::default();
        let creation = tokio::sync::Mutex::default();
        let tenants = Arc::new(Tenants {
            default,
            others,
            stores,
            world,
            creation,
            policy: OnceLock::new(),
            quota: OnceLock::new(),
            signs: OnceLock::new(),
            agents: OnceLock::new(),
            expects_agents: OnceLock::new(),
            exporter: OnceLock::new(),
            audit: OnceLock::new(),
            served,
            elsewhere: RwLock::default(),
            moved: Notify::new(),
            forwarded: Arc::new(Semaphore::new(Files::now().connections_max() / 2)),
        });
        for name in names.iter().filter(|name| is_other(name)) {
            if served == ServedTenants::Spread && tenants.is_at_another_server(name).await {
                // The server that has it gives it back, because it was handed over by another one.
                tenants.set_elsewhere(name, Elsewhere::Moving);
                continue;
            }
            match tenants.open_one(name, Stores::open_when_given_back).await {
                Ok(_) => {}
                Err(refusal) if served == ServedTenants::Spread => {
                    tracing::warn!(tenant = name, detail = refusal.detail, "cannot serve the tenant yet");
                    tenants.set_elsewhere(name, Elsewhere::Moving);
                }
                Err(Refusal { detail, .. }) => {
                    let why = format!("cannot use the store of the tenant {name}: {detail}");
                    return Err(StartError::failed(why));
                }
            }
        }
        Ok(tenants)
    }

    async fn is_at_another_server(&self, name: &str) -> bool {
        let Some((stores, _)) = &self.stores else { return false };
        let of_owner = name.to_owned();
        let owner = stores.wait_for(&self.world, move |stores| stores.owner(&of_owner)).await;
        owner.is_ok_and(|owner| owner.is_some_and(|owner| Some(&*owner.node) != stores.node()))
    }

    /// Serves a tenant from now on that is not served here.
    pub(crate) async fn take(&self, name: &str) -> Result<(), Refusal> {
        let _one_at_a_time = self.creation.lock().await;
        if self.engine(name).is_none() {
            self.open_one(name, Stores::open).await?;
        }
        self.replace_elsewhere(name, None);
        Ok(())
    }

    /// Ends serving a tenant, unless that would interrupt or lose something. Its streams end, and its store is given back.
    /// Returns whether that happened. Do not drop it halfway.
    pub(crate) async fn give_back(&self, name: &str) -> Result<bool, Error> {
        let _one_at_a_time = self.creation.lock().await;
        let Some(engine) = self.engine(name) else { return Ok(true) };
        // Most of those that stay are not disturbed.
        if !self.can_move(name, &engine).await? {
            return Ok(false);
        }
        // New requests wait.
        self.set_elsewhere(name, Elsewhere::Moving);
        let can_move = self.can_move(name, &engine).await;
        if !matches!(can_move, Ok(true)) {
            self.replace_elsewhere(name, None);
            return can_move;
        }
        let left = engine.shutdown().await;
        if left > 0 {
            tracing::warn!(tenant = name, left, "tasks of a tenant did not end before it moved");
        }
        self.others.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        if let Some(exporter) = self.exporter.get() {
            exporter.forget(name);
        }
        Ok(true)
    }

    /// Whether no own run is unfinished, no prompt is pending, and this server has no copies of workspaces, which stay here.
    async fn can_move(&self, name: &str, engine: &Engine) -> Result<bool, Error> {
        if !engine.catalogue().unfinished().await?.is_empty() {
            return Ok(false);
        }
        for kind in [PromptKind::Approval, PromptKind::Clarification, PromptKind::Handoff] {
            let pending = ListQuery { after: None, limit: 1, status: Some("pending".to_owned()) };
            let pending = engine.read().list_prompts(kind, &pending).await?;
            if !pending.items.is_empty() {
                return Ok(false);
            }
        }
        let Some(agents) = self.agents.get() else { return Ok(false) };
        Ok(!agents.has_copies(name, &self.world).await)
    }

    pub(crate) fn set_elsewhere(&self, name: &str, place: Elsewhere) {
        self.replace_elsewhere(name, Some(place));
    }

    /// Requests at the server where the tenant was end.
    fn replace_elsewhere(&self, name: &str, place: Option<Elsewhere>) {
        let now = place.as_ref().and_then(Elsewhere::server).cloned();
        let before = {
            let mut elsewhere = self.elsewhere.write().unwrap_or_else(PoisonError::into_inner);
            match place {
                Some(place) => elsewhere.insert(name.to_owned(), place),
                None => elsewhere.remove(name),
            }
        };
        if let Some(before) = before.as_ref().and_then(Elsewhere::server)
            && !now.is_some_and(|now| Arc::ptr_eq(&now, before))
        {
            before.ended.send_replace(true);
        }
        self.moved.notify_waiters();
    }

    /// Where a tenant is; `None` if there is no such tenant.
    pub(crate) fn place(&self, name: &str) -> Option<TenantPlace> {
        // One that is given back is elsewhere before it is not here, and one that is taken the other way round.
        let elsewhere = || self.elsewhere(name).map(TenantPlace::Elsewhere);
        elsewhere().or_else(|| self.engine(name).map(TenantPlace::Here)).or_else(elsewhere)
    }

    /// The same after a move that is under way, for which it waits a while.
    pub(crate) async fn settled_place(&self, name: &str) -> Option<TenantPlace> {
        let settling = async {
            loop {
                let mut moved = pin!(self.moved.notified());
                moved.as_mut().enable();
                match self.place(name) {
                    Some(TenantPlace::Elsewhere(Elsewhere::Moving | Elsewhere::Leaving(_))) => moved.await,
                    place => return place,
                }
            }
        };
        let settled = tokio::time::timeout(limits::SPREAD_PATIENCE, settling).await;
        settled.unwrap_or_else(|_| self.place(name))
    }

    /// Where a tenant is that this server knows and does not serve.
    pub(crate) fn elsewhere(&self, name: &str) -> Option<Elsewhere> {
        self.elsewhere.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The other servers that have stores of tenants.
    pub(crate) fn other_servers(&self) -> Vec<ForwardTarget> {
        let elsewhere = self.elsewhere.read().unwrap_or_else(PoisonError::into_inner);
        let mut targets: BTreeMap<String, ForwardTarget> = BTreeMap::new();
        for place in elsewhere.values() {
            if let Elsewhere::Server(server) | Elsewhere::Leaving(server) = place {
                targets.entry(server.target.node.clone()).or_insert_with(|| server.target.clone());
            }
        }
        targets.into_values().collect()
    }

    async fn open_one(&self, name: &str, open: OpenStore) -> Result<Engine, Refusal> {
        let Some((stores, key)) = &self.stores else {
            let detail = "this server has no data folder, so it cannot have other tenants";
            return Err(Refusal::new(Code::LimitReached, detail));
        };
        let tenant = name.to_owned();
        let opened = stores.wait_for(&self.world, move |stores| open(stores, &tenant)).await;
        let store = opened.map_err(Error::from)?;
        let redactor = self.default.write().redactor().clone();
        let framing = Arc::new(SseFraming);
        let world = match self.served {
            ServedTenants::All => self.world.clone(),
            // It may end alone.
            ServedTenants::Spread | ServedTenants::HandedOver => self.world.separate(),
        };
        // One key for all: sealed records are bound to their run.
        let engine = Engine::open_with_key(store.clone(), world, framing, redactor, Some(*key)).await;
        let engine = match engine {
            Ok(engine) => engine,
            Err(error) => {
                if let Err(fault) = store.close().await {
                    tracing::warn!(tenant = name, %fault, "the store of the tenant did not close cleanly");
                }
                return Err(error.into());
            }
        };
        if let Err(error) = self.prepare(name, &engine).await {
            if self.served != ServedTenants::All {
                engine.shutdown().await;
            }
            return Err(error.into());
        }
        self.others.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), engine.clone());
        Ok(engine)
    }

    /// Starts everything that belongs to the engine of a tenant.
    async fn prepare(&self, name: &str, engine: &Engine) -> Result<(), Error> {
        if let Some(quota) = self.quota.get() {
            engine.write().limit_artifacts(*quota);
        }
        if let Some((policy, every)) = self.policy.get() {
            engine.admin().start_sweeps(*policy, *every);
            engine.admin().start_scrubs();
        }
        if self.signs.get().is_some() {
            engine.admin().start_signing(name).await?;
        }
        if let Some(agents) = self.agents.get() {
            agents.attach_performer(name, engine).await?;
        }
        if let Some(exporter) = self.exporter.get() {
            exporter.follow(name, engine).await;
        }
        Ok(())
    }

    /// Creates the store of a tenant if it is missing.
    pub(crate) async fn ensure(&self, name: &str) -> Result<(), Refusal> {
        if self.place(name).is_some() {
            return Ok(());
        }
        let _one_at_a_time = self.creation.lock().await;
        match self.place(name) {
            Some(_) => Ok(()),
            None => self.create(name).await.map(drop),
        }
    }

    /// The engine of a tenant; its store is created if it is missing.
    #[cfg(test)]
    pub(crate) async fn get_or_create(&self, name: &str) -> Result<Engine, Refusal> {
        self.ensure(name).await?;
        let missing = || Refusal::new(Code::StoreUnavailable, "the tenant is at another server");
        self.engine(name).ok_or_else(missing)
    }

    async fn create(&self, name: &str) -> Result<Engine, Refusal> {
        let count = self.count_others();
        if count >= limits::TENANTS_MAX {
            let detail = format!("the limit of {count} tenants is reached");
            return Err(Refusal::new(Code::LimitReached, detail));
        }
        tracing::info!(tenant = name, "creating the store of a new tenant");
        self.open_one(name, Stores::open).await
    }

    /// How many tenants there are besides the default one.
    fn count_others(&self) -> usize {
        let here = self.others.read().unwrap_or_else(PoisonError::into_inner).len();
        here + self.elsewhere.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How many tenants there are.
    pub(crate) fn count(&self) -> usize {
        1 + self.count_others()
    }

    pub(crate) fn default_engine(&self) -> &Engine {
        &self.default
    }

    pub(crate) fn engine(&self, name: &str) -> Option<Engine> {
        if name == TENANT_DEFAULT {
            return Some(self.default.clone());
        }
        self.others.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All engines of tenants that are served here, the default one first.
    pub(crate) fn all(&self) -> Vec<(String, Engine)> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        let others = others.iter().map(|(name, engine)| (name.clone(), engine.clone()));
        let default = (TENANT_DEFAULT.to_owned(), self.default.clone());
        let default = Some(default).filter(|_| self.served != ServedTenants::HandedOver);
        default.into_iter().chain(others).collect()
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    pub(crate) fn served(&self) -> ServedTenants {
        self.served
    }

    /// Ends all engines, with everything that belongs to them; the default one first. Returns the number of tasks that did
    /// not end.
    pub(crate) async fn shutdown(&self) -> usize {
        let engines = || {
            let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
            std::iter::once(&self.default).chain(others.values()).cloned().collect::<Vec<_>>()
        };
        // Requests and streams of all tenants end first, because connections of the server wait for them.
        for kind in [Kind::Service, Kind::Connection] {
            let patience = recount_engine::limits::SHUTDOWN_TIMEOUT;
            join_all(engines().iter().map(|engine| engine.world().tasks.end(kind, patience))).await;
        }
        join_all(engines().iter().map(Engine::shutdown)).await.into_iter().sum()
    }

    /// Signs the heads of runs from now on, in all stores.
    pub(crate) async fn sign_heads(&self) -> Result<(), Error> {
        for (name, engine) in self.all() {
            engine.admin().start_signing(&name).await?;
        }
        self.signs.get_or_init(|| ());
        Ok(())
    }

    /// Limits the artifacts of tasks and uploads from now on, in all stores.
    pub(crate) fn limit_artifacts(&self, quota: ArtifactQuota) {
        for (_, engine) in self.all() {
            engine.write().limit_artifacts(quota);
        }
        if self.quota.set(quota).is_err() {
            tracing::warn!("the quota of artifacts was set twice; new tenants use the first one");
        }
    }

    /// Prunes by this policy from now on, in all stores, and scrubs them.
    pub(crate) fn set_retention(&self, policy: Policy, every: Duration) {
        for (_, engine) in self.all() {
            engine.admin().start_scrubs();
            engine.admin().start_sweeps(policy, every);
        }
        // Set once, when the server starts.
        if self.policy.set((policy, every)).is_err() {
            tracing::warn!("the retention policy was set twice; new tenants use the first one");
        }
    }

    /// The retention policy, and the pause between two sweeps; nothing before [`Tenants::set_retention`].
    pub(crate) fn retention(&self) -> Option<(Policy, Duration)> {
        self.policy.get().copied()
    }

    /// Exports the runs of all tenants, and of tenants to come.
    pub(crate) async fn export_traces(&self, exporter: Exporter) {
        let _one_at_a_time = self.creation.lock().await;
        for (name, engine) in self.all() {
            exporter.follow(&name, &engine).await;
        }
        // Set once, when the server starts.
        self.exporter.get_or_init(|| exporter);
    }

    pub(crate) fn exporter(&self) -> Option<&Exporter> {
        self.exporter.get()
    }

    /// To be called before connections are accepted, if [`Tenants::attach_agents`] follows.
    pub(crate) fn expect_agents(&self) {
        self.expects_agents.get_or_init(|| ());
    }

    /// Whether agents are still to be attached.
    pub(crate) fn awaits_agents(&self) -> bool {
        self.expects_agents.get().is_some() && self.agents.get().is_none()
    }

    /// Attaches the agents that execute the runs of all tenants, and of tenants to come.
    pub(crate) async fn attach_agents(&self, agents: Arc<AgentPool>) -> Result<(), Error> {
        let _one_at_a_time = self.creation.lock().await;
        for (name, engine) in self.all() {
            agents.attach_performer(&name, &engine).await?;
        }
        // Set once, when the server starts; an engine would have refused a second one.
        self.agents.get_or_init(|| agents);
        Ok(())
    }

    /// Sets the audit trail that records actions from now on.
    pub(crate) fn record_in(&self, audit: Audit) {
        // Set once, when the server starts.
        self.audit.get_or_init(|| audit);
    }

    /// Records which stores were opened without the end of their log, including that of the audit trail.
    pub(crate) async fn record_dropped_ends(&self) {
        let Some(audit) = self.audit() else { return };
        let trail = (audit::TENANT.to_owned(), audit.engine().clone());
        for (tenant, engine) in self.all().into_iter().chain([trail]) {
            let Some(end) = engine.admin().dropped_end() else { continue };
            let facts = json!({
                "tenant": tenant, "reason": end.reason.as_str(), "message": end.words,
                "last_position": end.last_position,
            });
            audit.record(AuditKind::LogEndDropped, facts).await;
        }
    }

    pub(crate) fn audit(&self) -> Option<&Audit> {
        self.audit.get()
    }

    pub(crate) fn stores(&self) -> Option<&Stores> {
        self.stores.as_ref().map(|(stores, _)| stores)
    }

    /// Waits until another server owns the stores.
    pub(crate) async fn lost(&self) {
        match self.stores() {
            Some(stores) => stores.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Disconnects from a database. Call it after all engines have ended.
    pub(crate) async fn disconnect(&self) {
        if let Some(stores) = self.stores() {
            stores.wait_for(&self.world, Stores::disconnect).await;
        }
    }

    pub(crate) fn agents(&self) -> Option<&Arc<AgentPool>> {
        self.agents.get()
    }

    pub(crate) async fn ready(&self) -> Result<(), Error> {
        for (_, engine) in self.all() {
            engine.admin().ready().await?;
        }
        Ok(())
    }

    /// The sum over all tenants.
    pub(crate) async fn stats(&self) -> Result<EngineStats, Error> {
        let mut sum = self.default.admin().stats().await?;
        for (_, engine) in self.all().into_iter().filter(|(name, _)| name != TENANT_DEFAULT) {
            sum.add(&engine.admin().stats().await?);
        }
        Ok(sum)
    }

    /// Copies all stores to a new folder, one after the other: each as of one moment.
    pub(crate) async fn backup(&self, to: &Path) -> Result<(), Error> {
        self.default.admin().backup(to.to_owned()).await?;
        for (name, engine) in self.all().into_iter().skip(1) {
            engine.admin().backup(folder_within(to, &name)).await?;
        }
        if let Some(audit) = self.audit() {
            audit.engine().admin().backup(folder_within(to, audit::TENANT)).await?;
        }
        Ok(())
    }
}
