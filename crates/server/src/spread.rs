//! Spreads tenants over the servers of a database: the main server, which owns the store of the default tenant, hands others over
//! to standbys, and sends their requests there.
//!
//! The database has the owner of each store, so nothing about that is stored elsewhere. The main server identifies all
//! clients; standbys trust it. See `docs/decisions/0155`. Start at [`Spread::start`]; `hosting.rs` is the other side.

mod balance;
pub(crate) mod client;
mod forward;
pub(crate) mod peers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use recount_engine::SEAL_KEY_BYTES;
use recount_log_postgres::{NodeRow, StoreRow, Survey};
use recount_world::{Kind, Shutdown, World};
use tokio::time::Instant;

use self::balance::{IDLE, Move, ServerLoad, TenantLoad, next_move};
pub(crate) use self::forward::{ForwardedRequest, forward, is_of_the_main_server};
use self::peers::{SeenServer, give_back, hand_over, look, relay_audit};
pub(crate) use self::peers::{add_checks, add_keys, add_metrics};
use crate::forwarding::{ForwardTarget, NodeKey};
use crate::limits;
use crate::stores::Stores;
use crate::tenants::{Elsewhere, TenantServer, Tenants, is_other};

/// The main server's view of all tenants.
pub(crate) struct Spread {
    tenants: Arc<Tenants>,
    stores: Stores,
    key: NodeKey,
    world: World,
    /// Tenants that stay, because the configuration has webhooks of them.
    staying: BTreeSet<String>,
    /// Whether other servers must have a certificate, because this one has.
    needs_tls: bool,
    progress: Mutex<Progress>,
}

/// What changes while tenants are looked at and moved.
#[derive(Default)]
struct Progress {
    loads: BTreeMap<String, Load>,
    /// Servers that refused a tenant, and until when none is handed over to them.
    refusing: BTreeMap<String, Instant>,
    /// Tenants for which something is done, and whether it is a move.
    busy: BTreeMap<String, bool>,
    /// Tenants that could not be opened.
    failed: BTreeMap<String, Failure>,
    /// Servers whose events get into the audit trail.
    relayed: BTreeSet<String>,
}

/// Attempts to open a tenant in a row, and when the next one is due.
#[derive(Clone, Copy)]
struct Failure {
    attempts: u32,
    next: Instant,
}

/// The load of a tenant, from the positions of its store.
struct Load {
    last_position: u64,
    at: Instant,
    /// Events per second, smoothed.
    rate: f64,
    moved: Option<Instant>,
}

impl Progress {
    /// A tenant that could not be opened is tried again after a second, then after longer times.
    fn finish(&mut self, tenant: String, is_done: bool) {
        self.busy.remove(&tenant);
        if is_done {
            self.failed.remove(&tenant);
            return;
        }
        let attempts = self.failed.get(&tenant).map_or(0, |failure| failure.attempts) + 1;
        let pause = limits::SPREAD_LOOK * 2_u32.saturating_pow(attempts.min(6) - 1);
        let next = recount_world::moment() + pause.min(limits::SPREAD_REST);
        self.failed.insert(tenant, Failure { attempts, next });
    }
}

impl Load {
    fn begin(last_position: u64, now: Instant) -> Self {
        Load { last_position, at: now, rate: 0.0, moved: None }
    }

    fn see(&mut self, last_position: u64, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        if passed <= 0.0 {
            return;
        }
        let rate = last_position.saturating_sub(self.last_position) as f64 / passed;
        let weight = 1.0 - (-passed / limits::SPREAD_MEMORY.as_secs_f64()).exp();
        self.rate += (rate - self.rate) * weight;
        (self.last_position, self.at) = (last_position, now);
    }

    fn rests(&self, now: Instant) -> bool {
        self.moved.is_some_and(|moved| now.saturating_duration_since(moved) < limits::SPREAD_REST)
    }
}

/// What is done for one tenant, in a task of its own.
enum Step {
    /// It has no living server.
    Take,
    /// Its server does not serve it: opening it failed there, or giving it back did.
    Open(ForwardTarget),
    Move {
        /// `None`: from this server.
        from: Option<ForwardTarget>,
        /// `None`: to this server.
        to: Option<ForwardTarget>,
    },
}

impl Spread {
    /// Starts it, if the stores are in a database.
    pub(crate) fn start(
        tenants: &Arc<Tenants>,
        key: Option<&[u8; SEAL_KEY_BYTES]>,
        staying: BTreeSet<String>,
        needs_tls: bool,
    ) {
        let Some((key, stores)) = key.zip(tenants.stores().filter(|stores| stores.database().is_some()))
        else {
            return;
        };
        let world = tenants.world().clone();
        let spread = Arc::new(Spread {
            tenants: tenants.clone(),
            stores: stores.clone(),
            key: NodeKey::derive(key),
            world: world.clone(),
            staying,
            needs_tls,
            progress: Mutex::default(),
        });
        world.tasks.spawn(Kind::Service, move |shutdown| spread.run(shutdown));
    }

    /// Looks where the tenants are, takes those without a server, and moves others, until the server stops.
    async fn run(self: Arc<Self>, mut shutdown: Shutdown) {
        loop {
            // Not during the start of the server, which goes through all tenants and ends with the agents.
            if self.tenants.agents().is_some() {
                self.look_once().await;
            }
            tokio::select! {
                () = shutdown.requested() => return,
                () = tokio::time::sleep(limits::SPREAD_LOOK) => {}
            }
        }
    }

    async fn look_once(self: &Arc<Self>) {
        // The survey may be from before their last step.
        let changing: BTreeSet<String> = self.progress().busy.keys().cloned().collect();
        match self.stores.wait_for(&self.world, Stores::survey).await {
            Ok(survey) => {
                self.follow(&survey, &changing).await;
                self.balance(&survey);
            }
            Err(fault) => tracing::debug!(%fault, "cannot look for the stores of tenants"),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own_node(&self) -> &str {
        self.stores.node().unwrap_or_default()
    }

    fn target(&self, server: &NodeRow) -> ForwardTarget {
        ForwardTarget::of(&server.node, &server.address, &self.key)
    }

    /// Brings what this server knows in line with the database and with the other servers.
    async fn follow(self: &Arc<Self>, survey: &Survey, changing: &BTreeSet<String>) {
        let seen = self.look_at_servers(survey).await;
        for store in survey.stores.iter().filter(|store| is_other(&store.name)) {
            let is_busy = changing.contains(&store.name) || self.progress().busy.contains_key(&store.name);
            if is_busy || self.tenants.engine(&store.name).is_some() {
                continue;
            }
            let server = store.node.as_ref().and_then(|node| alive(survey, node));
            let Some(server) = server.filter(|server| server.node != self.own_node()) else {
                self.begin(&store.name, Step::Take);
                continue;
            };
            match seen.get(&server.node) {
                Some(Ok(seen)) if !seen.tenants.contains(&store.name) => {
                    // Otherwise it gives the store back.
                    if seen.check().is_ok() && self.is_encrypted_enough(server) {
                        self.begin(&store.name, Step::Open(self.target(server)));
                    }
                }
                _ => self.note_server(&store.name, server),
            }
        }
        for server in self.tenants.other_servers() {
            self.relay(server);
        }
    }

    /// What each other server with tenants reports. This also lets it know that it can be reached.
    async fn look_at_servers(&self, survey: &Survey) -> BTreeMap<String, std::io::Result<SeenServer>> {
        let owners: BTreeSet<&str> = survey
            .stores
            .iter()
            .filter(|store| is_other(&store.name))
            .filter_map(|store| store.node.as_deref())
            .collect();
        let servers = survey.nodes.iter().filter(|node| node.node != self.own_node());
        let servers = servers.filter(|node| owners.contains(&*node.node) && node.lease_left_ms > 0);
        let looks = servers
            .map(async |server| (server.node.clone(), look(&self.tenants, &self.target(server)).await));
        join_all(looks).await.into_iter().collect()
    }

    fn note_server(&self, tenant: &str, server: &NodeRow) {
        let known = self.tenants.elsewhere(tenant);
        if matches!(known, Some(Elsewhere::Server(known) | Elsewhere::Leaving(known)) if known.target.node == server.node)
        {
            return;
        }
        tracing::info!(tenant, server = server.address, "another server has the tenant");
        let server = TenantServer::new(self.target(server));
        self.tenants.set_elsewhere(tenant, Elsewhere::Server(Arc::new(server)));
    }

    /// Does one thing for a tenant; nothing else is done for it meanwhile. The task ends by itself, also while the server
    /// stops, because a tenant must not be lost halfway.
    fn begin(self: &Arc<Self>, tenant: &str, step: Step) {
        let is_move = matches!(step, Step::Move { .. });
        {
            let mut progress = self.progress();
            let now = recount_world::moment();
            let waits = !is_move && progress.failed.get(tenant).is_some_and(|failure| failure.next > now);
            if waits || progress.busy.contains_key(tenant) {
                return;
            }
            progress.busy.insert(tenant.to_owned(), is_move);
        }
        let (spread, tenant) = (self.clone(), tenant.to_owned());
        self.world.tasks.spawn(Kind::Service, |_| async move {
            let is_done = spread.carry_out(&tenant, step).await;
            spread.progress().finish(tenant, is_done);
        });
    }

    /// Returns whether the tenant has a server.
    async fn carry_out(&self, tenant: &str, step: Step) -> bool {
        match step {
            Step::Take => self.take(tenant).await,
            Step::Open(server) => {
                // Its requests wait.
                self.tenants.set_elsewhere(tenant, Elsewhere::Moving);
                self.hand_over(tenant, server).await
            }
            Step::Move { from, to } => self.carry_out_move(tenant, from, to).await,
        }
    }

    async fn take(&self, tenant: &str) -> bool {
        // Its former server has failed, so its requests end.
        self.tenants.set_elsewhere(tenant, Elsewhere::Moving);
        match self.tenants.take(tenant).await {
            Ok(()) => {
                tracing::info!(tenant, "serves the tenant");
                self.rest(tenant);
                true
            }
            Err(refusal) => {
                tracing::info!(tenant, detail = refusal.detail, "cannot serve the tenant yet");
                false
            }
        }
    }

    /// The tenant does not move for a while.
    fn rest(&self, tenant: &str) {
        if let Some(load) = self.progress().loads.get_mut(tenant) {
            load.moved = Some(recount_world::moment());
        }
    }

    async fn carry_out_move(
        &self,
        tenant: &str,
        from: Option<ForwardTarget>,
        to: Option<ForwardTarget>,
    ) -> bool {
        // Also if it fails: a tenant with an unfinished run is looked at again later.
        self.rest(tenant);
        if let Some(to) = &to
            && let Err(error) = look(&self.tenants, to).await.and_then(|seen| seen.check())
        {
            tracing::info!(server = to.address, %error, "a server takes no tenants; the next attempt is in a minute");
            let until = recount_world::moment() + limits::SPREAD_REST;
            self.progress().refusing.insert(to.node.clone(), until);
            return true;
        }
        let given_back = match &from {
            None => self.tenants.give_back(tenant).await.map_err(|error| error.to_string()),
            Some(from) => self.take_back(tenant, from).await.map_err(|error| error.to_string()),
        };
        match (given_back, to) {
            (Ok(true), Some(to)) => return self.hand_over(tenant, to).await,
            (Ok(true), None) => return self.take(tenant).await,
            (Ok(false), _) => tracing::debug!(tenant, "the tenant stays, because a move would interrupt it"),
            (Err(error), _) => tracing::info!(tenant, error, "cannot move the tenant"),
        }
        true
    }

    /// Requests wait while another server gives a tenant back.
    async fn take_back(&self, tenant: &str, from: &ForwardTarget) -> std::io::Result<bool> {
        let known = self.tenants.elsewhere(tenant);
        if let Some(Elsewhere::Server(server)) = &known {
            self.tenants.set_elsewhere(tenant, Elsewhere::Leaving(server.clone()));
        }
        let given_back = give_back(&self.tenants, from, tenant).await;
        match (&given_back, known) {
            (Ok(false), Some(known)) => self.tenants.set_elsewhere(tenant, known),
            // After an error the next look shows where it is.
            _ => self.tenants.set_elsewhere(tenant, Elsewhere::Moving),
        }
        given_back
    }

    async fn hand_over(&self, tenant: &str, server: ForwardTarget) -> bool {
        match hand_over(&self.tenants, &server, tenant).await {
            Ok(()) => {
                tracing::info!(tenant, server = server.address, "handed the tenant over");
                self.tenants.set_elsewhere(tenant, Elsewhere::Server(Arc::new(TenantServer::new(server))));
                true
            }
            // The next look shows where it is.
            Err(error) => {
                tracing::info!(tenant, server = server.address, %error, "a server cannot serve the tenant");
                false
            }
        }
    }

    /// Moves events of a server into the audit trail for as long as it responds; tried again at a later look.
    fn relay(self: &Arc<Self>, server: ForwardTarget) {
        let Some(audit) = self.tenants.audit().cloned() else { return };
        if !self.progress().relayed.insert(server.node.clone()) {
            return;
        }
        let spread = self.clone();
        self.world.tasks.spawn_until_shutdown(Kind::Service, async move {
            if let Err(error) = relay_audit(&spread.tenants, &server, &audit).await {
                tracing::info!(server = server.address, %error, "events of a server do not reach the audit trail now");
                tokio::time::sleep(limits::STANDBY_RETRY).await;
            }
            spread.progress().relayed.remove(&server.node);
        });
    }

    /// Moves at most one tenant at a time.
    fn balance(self: &Arc<Self>, survey: &Survey) {
        let now = recount_world::moment();
        {
            let mut progress = self.progress();
            progress.refusing.retain(|_, until| *until > now);
            for store in &survey.stores {
                let load = progress.loads.entry(store.name.clone());
                load.or_insert_with(|| Load::begin(store.last_position, now)).see(store.last_position, now);
            }
            if progress.busy.values().any(|is_move| *is_move) {
                return;
            }
        }
        let (mut fixed, mut movable): (BTreeMap<&str, f64>, Vec<TenantLoad>) = Default::default();
        for store in &survey.stores {
            let Some(node) = store.node.as_deref() else { continue };
            let load = self.load(store);
            if self.can_move(store, now) {
                let (name, node) = (store.name.clone(), node.to_owned());
                movable.push(TenantLoad { name, node, load });
            } else {
                *fixed.entry(node).or_default() += load;
            }
        }
        let servers = survey.nodes.iter().filter(|node| self.can_have_tenants(node));
        let servers = servers.map(|server| ServerLoad {
            node: server.node.clone(),
            fixed: fixed.get(&*server.node).copied().unwrap_or(0.0),
        });
        let Some(Move { tenant, from, to }) = next_move(&servers.collect::<Vec<_>>(), &movable) else {
            return;
        };
        let target = |node: &str| {
            let row = survey.nodes.iter().find(|row| row.node == node && node != self.own_node());
            row.map(|row| self.target(row))
        };
        self.begin(&tenant, Step::Move { from: target(&from), to: target(&to) });
    }

    /// Whether a server is alive, can be reached, and has not refused a tenant lately.
    fn can_have_tenants(&self, node: &NodeRow) -> bool {
        let is_own = node.node == self.own_node();
        let is_known = node.lease_left_ms > 0 && !node.address.is_empty();
        is_own
            || (is_known
                && self.is_encrypted_enough(node)
                && !self.progress().refusing.contains_key(&node.node))
    }

    fn is_encrypted_enough(&self, node: &NodeRow) -> bool {
        !self.needs_tls || self.target(node).is_encrypted
    }

    fn load(&self, store: &StoreRow) -> f64 {
        // The audit trail has hardly any.
        let idle = if store.name == crate::audit::TENANT { 0.0 } else { IDLE };
        idle + self.progress().loads.get(&store.name).map_or(0.0, |load| load.rate)
    }

    fn can_move(&self, store: &StoreRow, now: Instant) -> bool {
        let is_here = self.tenants.engine(&store.name).is_some();
        let is_there = matches!(self.tenants.elsewhere(&store.name), Some(Elsewhere::Server(_)));
        is_other(&store.name)
            && !self.staying.contains(&store.name)
            && !self.progress().busy.contains_key(&store.name)
            && !self.progress().loads.get(&store.name).is_some_and(|load| load.rests(now))
            && (is_here && store.node.as_deref() == Some(self.own_node()) || is_there)
    }
}

/// A node that has not been taken for dead.
fn alive<'a>(survey: &'a Survey, node: &str) -> Option<&'a NodeRow> {
    survey.nodes.iter().find(|row| row.node == node && row.lease_left_ms > 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_load_of_a_tenant_is_its_recent_rate() {
        let start = recount_world::moment();
        let mut load = Load::begin(100, start);
        for second in 1..=300_u64 {
            load.see(100 + second * 40, start + Duration::from_secs(second));
        }
        assert!((load.rate - 40.0).abs() < 0.5, "{}", load.rate);
        load.see(load.last_position, start + Duration::from_secs(900));
        assert!(load.rate < 0.5, "{}", load.rate);
    }
}
