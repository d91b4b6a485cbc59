//! One tenant of a sequence: its clients at both servers, and what was acknowledged to them. It must not know the faults. See
//! [`Tenant`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::Result;
use recount_client::Client;

use super::ledger::Ledger;
use super::{LOOK, PATIENCE_SECONDS};
use crate::clock;

/// The tenant that the main server keeps.
pub(super) const DEFAULT: &str = "default";
/// With several tenants, each changes the server after so many requests.
const REQUESTS_PER_SERVER: u64 = 50;

/// What all tenants of a sequence share: its course, and the guarantees that were broken.
pub(super) struct Course {
    pub(super) broken: RefCell<Vec<String>>,
    /// Nothing new is started.
    pub(super) stop: Cell<bool>,
    /// The database lost acknowledged events on purpose, so the store must refuse to work.
    pub(super) expects_loss: Cell<bool>,
    /// The disk of PostgreSQL is full, so `store_full` is a good response.
    pub(super) is_full: Cell<bool>,
    /// Seed and number of the sequence.
    pub(super) name: String,
}

impl Course {
    pub(super) fn new(name: String) -> Self {
        Course {
            broken: RefCell::default(),
            stop: Cell::new(false),
            expects_loss: Cell::new(false),
            is_full: Cell::new(false),
            name,
        }
    }

    pub(super) fn broke(&self, what: impl Into<String>) {
        let what = what.into();
        println!("broken: {}: {what}", self.name);
        self.broken.borrow_mut().push(what);
        self.stop.set(true);
    }

    /// Whether a guarantee was broken, after which nothing is waited for.
    pub(super) fn is_broken(&self) -> bool {
        !self.broken.borrow().is_empty()
    }

    /// Waits until a condition holds. `false`: it did not in time, or a guarantee was broken.
    pub(super) async fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) -> bool {
        let start = clock::now_ns();
        while !holds() {
            if self.is_broken() {
                return false;
            }
            if clock::seconds_since(start) > PATIENCE_SECONDS {
                self.broke(format!("{what} did not happen within {PATIENCE_SECONDS} s"));
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }
}

pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) clients: [Client; 2],
    /// The server that most recently responded.
    pub(super) preferred: Cell<usize>,
    requests: Cell<u64>,
    pub(super) ledger: RefCell<Ledger>,
    pub(super) course: Rc<Course>,
}

impl Tenant {
    pub(super) fn new(
        name: &str,
        token: Option<&str>,
        addresses: [&str; 2],
        course: &Rc<Course>,
    ) -> Result<Self> {
        let client = |slot: usize| Client::new(&format!("http://{}", addresses[slot]), token);
        Ok(Tenant {
            name: name.to_owned(),
            clients: [client(0)?, client(1)?],
            preferred: Cell::new(0),
            requests: Cell::new(0),
            ledger: RefCell::default(),
            course: course.clone(),
        })
    }

    /// Whether the main server may hand the tenant over.
    pub(super) fn can_move(&self) -> bool {
        self.name != DEFAULT
    }

    pub(super) fn broke(&self, what: impl Into<String>) {
        let what = what.into();
        self.course.broke(if self.can_move() { format!("tenant {}: {what}", self.name) } else { what });
    }

    /// A server has responded. The requests of a tenant that can move come through both.
    pub(super) fn prefer(&self, server: usize) {
        let requests = self.requests.get() + 1;
        self.requests.set(requests);
        if self.can_move() && requests.is_multiple_of(REQUESTS_PER_SERVER) {
            self.preferred.set(1 - server);
        }
    }
}
