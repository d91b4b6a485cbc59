//! Spreads tenants over the servers of a database: the main server, which owns the store of the default tenant, hands others over
//! to standbys, and sends their requests there.
//!
//! The database says which server has a store, so nothing about that is stored elsewhere. The main server identifies all
//! clients; standbys trust it. See `docs/decisions/0155`. Start at [`Spread::run`]; `hosting.rs` is the other side.

mod balance;
mod client;
mod forward;
mod hosting;
mod peers;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use recount_log_postgres::{NodeRow, StoreRow, Survey};
use recount_world::{Kind, World};
use tokio::time::Instant;

use self::balance::{IDLE, Move, ServerLoad, TenantLoad, next_move};
pub(crate) use self::client::VouchedClient;
pub(crate) use self::forward::{ForwardedRequest, forward};
pub(crate) use self::hosting::Hosting;
pub(crate) use self::peers::{add_checks, add_keys, add_metrics};
use self::peers::{check_ready, give_back, hand_over, relay_audit};
use crate::audit::Audit;
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
    loads: BTreeMap<String, Load>,
    /// Servers that refused a tenant, and until when none is handed over to them.
    refusing: BTreeMap<String, Instant>,
    /// Servers whose events get into the audit trail.
    relayed: BTreeMap<String, Arc<()>>,
}

/// The load of a tenant, from the positions of its store.
struct Load {
    last_position: u64,
    at: Instant,
    /// Events per second, smoothed.
    rate: f64,
    moved: Option<Instant>,
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

impl Spread {
    pub(crate) fn new(
        tenants: Arc<Tenants>,
        stores: Stores,
        key: NodeKey,
        world: World,
        staying: BTreeSet<String>,
        needs_tls: bool,
    ) -> Self {
        let (loads, refusing, relayed) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Spread { tenants, stores, key, world, staying, needs_tls, loads, refusing, relayed }
    }

    /// Looks where the tenants are, takes those without a server, and moves others, until the server stops.
    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            // Not during the start of the server, which goes through all tenants and ends with the agents.
            if self.tenants.agents().is_some() {
                match self.stores.wait_for(&self.world, Stores::survey).await {
                    Ok(survey) => {
                        self.follow(&survey).await;
                        self.balance(&survey).await;
                    }
                    Err(fault) => tracing::debug!(%fault, "cannot look for the stores of tenants"),
                }
            }
            tokio::time::sleep(limits::SPREAD_LOOK).await;
        }
    }

    fn own_node(&self) -> &str {
        self.stores.node().unwrap_or_default()
    }

    /// Brings what this server knows in line with the database.
    async fn follow(&mut self, survey: &Survey) {
        for store in survey.stores.iter().filter(|store| is_other(&store.name)) {
            if self.tenants.engine(&store.name).is_some() {
                continue;
            }
            let server = store.node.as_ref().and_then(|node| alive(survey, node));
            match server.filter(|server| server.node != self.own_node()) {
                Some(server) => self.note_server(&store.name, server),
                None => self.take(&store.name).await,
            }
        }
        let servers = self.tenants.other_servers();
        self.relayed.retain(|node, running| {
            Arc::strong_count(running) > 1 && servers.iter().any(|server| server.node == *node)
        });
        for server in servers {
            self.relay(server);
        }
    }

    fn note_server(&self, tenant: &str, server: &NodeRow) {
        let known = self.tenants.elsewhere(tenant);
        if matches!(known, Some(Elsewhere::Server(known)) if known.target.node == server.node) {
            return;
        }
        tracing::info!(tenant, server = server.address, "another server has the tenant");
        let server = TenantServer::new(self.target(server));
        self.tenants.set_elsewhere(tenant, Elsewhere::Server(Arc::new(server)));
    }

    fn target(&self, server: &NodeRow) -> ForwardTarget {
        ForwardTarget::of(&server.node, &server.address, &self.key)
    }

    async fn take(&self, tenant: &str) {
        // Its former server has failed, so its requests end.
        self.tenants.set_elsewhere(tenant, Elsewhere::Moving);
        match self.tenants.take(tenant).await {
            Ok(()) => tracing::info!(tenant, "serves the tenant"),
            Err(refusal) => tracing::info!(tenant, detail = refusal.detail, "cannot serve the tenant yet"),
        }
    }

    /// Moves events of a server into the audit trail for as long as it responds; tried again at a later look.
    fn relay(&mut self, server: ForwardTarget) {
        let Some(audit) = self.tenants.audit().cloned() else { return };
        if self.relayed.contains_key(&server.node) {
            return;
        }
        let running = Arc::new(());
        self.relayed.insert(server.node.clone(), running.clone());
        let tenants = self.tenants.clone();
        self.world.tasks.spawn_until_shutdown(Kind::Service, relay(tenants, server, audit, running));
    }

    /// Moves at most one tenant.
    async fn balance(&mut self, survey: &Survey) {
        let now = recount_world::moment();
        self.refusing.retain(|_, until| *until > now);
        for store in &survey.stores {
            let load = self.loads.entry(store.name.clone());
            load.or_insert_with(|| Load::begin(store.last_position, now)).see(store.last_position, now);
        }
        let own = self.own_node().to_owned();
        let servers: Vec<&NodeRow> = survey.nodes.iter().filter(|node| self.can_have_tenants(node)).collect();
        let (mut fixed, mut movable): (BTreeMap<&str, f64>, Vec<TenantLoad>) = Default::default();
        for store in &survey.stores {
            let Some(node) = store.node.as_deref() else { continue };
            let load = self.load(store);
            if self.can_move(store, &own, now) {
                let (name, node) = (store.name.clone(), node.to_owned());
                movable.push(TenantLoad { name, node, load });
            } else {
                *fixed.entry(node).or_default() += load;
            }
        }
        let servers = servers.iter().map(|server| ServerLoad {
            node: server.node.clone(),
            fixed: fixed.get(&*server.node).copied().unwrap_or(0.0),
        });
        if let Some(next) = next_move(&servers.collect::<Vec<_>>(), &movable) {
            self.carry_out(&next, survey).await;
        }
    }

    /// Whether a server is alive, can be reached, and has not refused a tenant lately.
    fn can_have_tenants(&self, node: &NodeRow) -> bool {
        let is_own = node.node == self.own_node();
        let is_known = node.lease_left_ms > 0 && !node.address.is_empty();
        let is_known = is_known && (!self.needs_tls || self.target(node).is_encrypted);
        is_own || (is_known && !self.refusing.contains_key(&node.node))
    }

    fn load(&self, store: &StoreRow) -> f64 {
        // The audit trail has hardly any.
        let idle = if store.name == crate::audit::TENANT { 0.0 } else { IDLE };
        idle + self.loads.get(&store.name).map_or(0.0, |load| load.rate)
    }

    fn can_move(&self, store: &StoreRow, own: &str, now: Instant) -> bool {
        let is_here = self.tenants.engine(&store.name).is_some();
        let is_there = matches!(self.tenants.elsewhere(&store.name), Some(Elsewhere::Server(_)));
        is_other(&store.name)
            && !self.staying.contains(&store.name)
            && !self.loads.get(&store.name).is_some_and(|load| load.rests(now))
            && (is_here && store.node.as_deref() == Some(own) || is_there)
    }

    async fn carry_out(&mut self, next: &Move, survey: &Survey) {
        let Move { tenant, from, to } = next;
        let server =
            |node: &str| survey.nodes.iter().find(|there| there.node == node).map(|row| self.target(row));
        let (Some(source), Some(target)) = (server(from), server(to)) else { return };
        if *to != self.own_node()
            && let Err(error) = check_ready(&self.tenants, &target).await
        {
            return self.refused(&target, &error);
        }
        // Also if it fails: a tenant with an unfinished run is looked at again later.
        if let Some(load) = self.loads.get_mut(tenant) {
            load.moved = Some(recount_world::moment());
        }
        let given_back = match from == self.own_node() {
            true => self.tenants.give_back(tenant).await.map_err(|error| error.to_string()),
            false => {
                let given_back = give_back(&self.tenants, &source, tenant).await;
                if matches!(given_back, Ok(true)) {
                    self.tenants.set_elsewhere(tenant, Elsewhere::Moving);
                }
                given_back.map_err(|error| error.to_string())
            }
        };
        match given_back {
            Ok(true) => {}
            Ok(false) => {
                return tracing::debug!(
                    tenant,
                    "the tenant stays for now, because one of its runs is unfinished"
                );
            }
            Err(error) => return tracing::info!(tenant, error, "cannot move the tenant"),
        }
        if to == self.own_node() {
            return self.take(tenant).await;
        }
        match hand_over(&self.tenants, &target, tenant).await {
            Ok(()) => {
                tracing::info!(tenant, server = target.address, "handed the tenant over");
                let server = TenantServer::new(target);
                self.tenants.set_elsewhere(tenant, Elsewhere::Server(Arc::new(server)));
            }
            Err(error) => self.refused(&target, &error),
        }
    }

    fn refused(&mut self, target: &ForwardTarget, error: &std::io::Error) {
        tracing::info!(server = target.address, %error, "a server takes no tenant; the next attempt is in a minute");
        self.refusing.insert(target.node.clone(), recount_world::moment() + limits::SPREAD_REST);
    }
}

async fn relay(tenants: Arc<Tenants>, server: ForwardTarget, audit: Audit, running: Arc<()>) {
    if let Err(error) = relay_audit(&tenants, &server, &audit).await {
        tracing::info!(server = server.address, %error, "events of a server do not get into the audit trail now");
        tokio::time::sleep(limits::STANDBY_RETRY).await;
    }
    drop(running);
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
