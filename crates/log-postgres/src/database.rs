//! [`Database`]: opens the stores of a database. The connection and the lease are those of a [`Node`].

use std::sync::Arc;

use recount_log::{Fault, FaultKind, Retry};
use tokio::sync::watch;

use crate::connect::{Link, Session, Target};
use crate::core::Core;
use crate::group::Known;
use crate::node::{Node, wait_for};
use crate::options::PostgresOptions;
use crate::shared::{StoreOwner, Survey};
use crate::sql::Sql;
use crate::store::PostgresStore;
use crate::writer::Writer;
use crate::{partitions, schema, shared};

/// A database with stores, in which this process is a node. Cheap to clone.
///
/// Its functions block and need no runtime; they may be called on a thread of one.
#[derive(Clone)]
pub struct Database(Arc<Node>);

impl Database {
    /// Connects, prepares the shared tables, and registers this process as a node.
    pub fn open(options: PostgresOptions) -> Result<Self, Fault> {
        Node::join(options).map(|node| Database(Arc::new(node)))
    }

    /// Names of the stores in this database.
    pub fn stores(&self) -> Result<Vec<String>, Fault> {
        self.with_session(|session| async move { shared::store_names(&session).await })
    }

    /// Opens a store, creating it if it is missing. Waits until the lease of an owner that has died expires; an owner that is
    /// alive is a fault.
    pub fn open_store(&self, name: &str) -> Result<PostgresStore, Fault> {
        if !self.0.open_names().insert(name.to_owned()) {
            let message = format!("store {name:?} is already open in this process");
            return Err(Fault::new(FaultKind::Locked, Retry::Never, message));
        }
        let (owned, this) = (name.to_owned(), self.clone());
        let opened = self.with_session(|session| async move { this.take_store(session, &owned).await });
        if opened.is_err() {
            self.0.open_names().remove(name);
        }
        opened
    }

    async fn take_store(&self, session: Arc<Session>, name: &str) -> Result<PostgresStore, Fault> {
        let schema = shared::find_or_create(&session, name).await?;
        let owned = shared::take_over(&session, name, &self.0.name).await?;
        let sql = Sql::new(&schema, &self.0.name);
        schema::migrate(&session, name, &sql.schema, owned.version).await?;
        let counters = owned.counters;
        let core = Arc::new(Core::new(
            name,
            sql,
            self.0.clone(),
            counters.epoch,
            counters.last_position,
            self.0.options.partition_records,
        ));
        let (ending, ended) = watch::channel(());
        let writer = Writer {
            core: core.clone(),
            link: Link::new(self.0.target.clone()),
            counters,
            covered_to: owned.covered_to,
            known: Known::default(),
            unsettled: None,
            gives_back: true,
            ending,
        };
        self.0.spawn(writer.run());
        let pause = self.0.options.partition_sweep_pause;
        self.0.spawn(partitions::drop_empty(core.clone(), pause, ended.clone()));
        tracing::info!(
            store = name,
            epoch = counters.epoch,
            position = counters.last_position,
            "owns the store"
        );
        Ok(PostgresStore::new(core, ended))
    }

    /// The node that owns a store, whether or not it is alive; `None` between two owners.
    pub fn owner(&self, name: &str) -> Result<Option<StoreOwner>, Fault> {
        let (node, name) = (self.0.clone(), name.to_owned());
        wait_for(&self.0.handle, async move { shared::owner(node.readers(), &name).await })
    }

    /// The name of this node, which no other process ever has.
    pub fn node(&self) -> &str {
        &self.0.name
    }

    /// The nodes and stores as they are now.
    pub fn survey_now(&self) -> Result<Survey, Fault> {
        let node = self.0.clone();
        wait_for(&self.0.handle, async move { shared::survey_again(node.readers()).await })
    }

    /// Notes a value for the whole database unless one is noted, and returns the noted one.
    pub fn note_once(&self, key: &str, value: &str) -> Result<String, Fault> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.with_session(|session| async move { shared::note_once(&session, &key, &value).await })
    }

    /// The version of PostgreSQL.
    pub fn server_version(&self) -> Result<String, Fault> {
        self.with_session(|session| async move { shared::setting(&session, "server_version").await })
    }

    /// What an operator should know about the durability of this database; empty if nothing.
    pub fn advice(&self) -> Result<Vec<String>, Fault> {
        self.with_session(|session| async move { shared::advice(&session).await })
    }

    /// Waits until another node has ended the lease of this one, so that this process owns no store any more.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.lease().watch_loss()
    }

    /// The nodes and stores of a database as they are now, without joining it. Blocks.
    pub fn survey(url: &str) -> Result<Survey, Fault> {
        let target = Target::parse(url)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|why| {
            Fault::new(FaultKind::Io, Retry::Maybe, format!("cannot start a runtime: {why}"))
        })?;
        runtime.block_on(async {
            let session = Session::connect(&target).await?;
            shared::survey(&session).await
        })
    }

    /// Host, port and name of the database, without user and password.
    pub fn shown(&self) -> &str {
        self.0.target.shown()
    }

    /// Ends the lease of this node at once, so that other nodes can take its stores over. Close the stores first: one that is
    /// open gets [`FaultKind::Fenced`] when another node has taken it.
    pub fn close(&self) {
        self.0.leave();
    }

    fn with_session<T, F>(&self, work: impl FnOnce(Arc<Session>) -> F + Send + 'static) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let target = self.0.target.clone();
        wait_for(&self.0.handle, async move { work(Arc::new(Session::connect(&target).await?)).await })
    }
}
