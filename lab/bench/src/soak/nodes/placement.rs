//! Watches which server has which tenant. It must not know the load. See [`Placement`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use super::Sequence;
use super::tenant::DEFAULT;

/// The interval at which the database is read.
const LOOK: Duration = Duration::from_millis(LOOK_MS);
const LOOK_MS: u64 = 300;

/// The servers of the tenants that can move.
#[derive(Default)]
pub(super) struct Placement {
    servers: RefCell<BTreeMap<String, usize>>,
    /// How often one of them changed its server.
    pub(super) moves: Cell<u64>,
}

impl Placement {
    fn note(&self, tenant: String, server: usize) {
        let before = self.servers.borrow_mut().insert(tenant, server);
        self.moves.set(self.moves.get() + u64::from(before.is_some_and(|before| before != server)));
    }
}

pub(super) async fn watch(sequence: &Sequence) -> Infallible {
    if sequence.tenants.len() == 1 {
        std::future::pending::<()>().await;
    }
    loop {
        for (tenant, server) in sequence.pair.owners().await {
            if sequence.tenants.iter().any(|there| there.name == tenant && there.can_move()) {
                sequence.placement.note(tenant, server);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The servers that a fault hits, and where the stores were before it.
pub(super) struct Hit {
    pub(super) servers: Vec<usize>,
    owners: BTreeMap<String, usize>,
}

impl Hit {
    pub(super) fn new(servers: Vec<usize>, owners: BTreeMap<String, usize>) -> Self {
        Hit { servers, owners }
    }

    /// The tenants at a server that is hit, while another one is the main server.
    pub(super) fn handed_over(&self) -> Vec<&str> {
        let main = self.owners.get(DEFAULT);
        let is_handed_over =
            |server: &usize| main.is_some_and(|main| main != server) && self.servers.contains(server);
        let tenants = self.owners.iter().filter(|(_, server)| is_handed_over(server));
        tenants.map(|(tenant, _)| tenant.as_str()).collect()
    }

    /// How a fault concerns a tenant.
    pub(super) fn role(&self, tenant: &str) -> &'static str {
        let is_hit = |name: &str| self.owners.get(name).is_some_and(|server| self.servers.contains(server));
        match (is_hit(tenant), is_hit(DEFAULT)) {
            (true, true) => "its server, main",
            (true, false) => "its server, not main",
            (false, true) => "main, not its server",
            (false, false) => "not its server",
        }
    }
}
