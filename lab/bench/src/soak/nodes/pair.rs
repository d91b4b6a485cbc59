//! Two servers on one PostgreSQL, each behind a faulty link to it, and their supervisor.
//!
//! It must not know the load. Start at [`NodePair::start`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use recount_faulty_link::Link;
use recount_log_postgres::{Database, StoreRow};
use recount_test_postgres::Server as Postgres;
use rustix::process::{Pid, Signal, kill_process};

use super::surroundings::SmallDisk;
use super::tenant::DEFAULT;
use super::{LOOK, Sequence, poll};
use crate::soak::salvage::on_thread;

/// Ports of servers are chosen below those that the system gives to connections, so that a server that is started again finds
/// its port free.
const PORTS: std::ops::Range<u16> = 20_000..30_000;
/// A supervisor waits before it starts a server again.
const RESTART_PAUSE: Duration = Duration::from_millis(RESTART_PAUSE_MS);
const RESTART_PAUSE_MS: u64 = 300;
/// Exit status after a panic.
const PANICKED: i32 = 101;

/// The command of each turn adds its name to a file of the workspace. The second needs an approval.
pub(super) const COMMANDS: [&str; 4] = ["first", "second", "third", "fourth"];

fn script() -> String {
    let mut script = String::from("end = 'All is done.'\n[pace]\nwords = 1\ntokens_per_second = 200\n");
    for (index, name) in COMMANDS.iter().enumerate() {
        let then = if index == 1 { "; rm -rf /nowhere/at/all" } else { "; sleep 0.2" };
        script.push_str(&format!(
            "[[turn]]\ntext = 'Now the {name} command.'\ncall = [{{ name = 'shell_exec', input = {{ command = 'echo {name} \
             >> happened{then}' }} }}]\n"
        ));
    }
    script
}

const CONFIGURATION: &str = "[models]\ndefault = 'play/it'\n[models.providers.play]\nkind = 'scripted'\nscript = \
                             'play.toml'\n[runs]\nat_once = 4\n";

pub(super) struct NodePair {
    postgres: RefCell<Arc<Postgres>>,
    database: String,
    pub(super) slots: [NodeSlot; 2],
    is_stopping: Cell<bool>,
    /// After PostgreSQL, so that it is unmounted last.
    pub(super) disk: Option<SmallDisk>,
}

/// One server, started again whenever its process ends.
pub(super) struct NodeSlot {
    pub(super) address: String,
    pub(super) data: PathBuf,
    log: PathBuf,
    config: PathBuf,
    pub(super) link: Link,
    store: String,
    spreads: bool,
    process: RefCell<Option<Child>>,
    /// When the present process was started, in milliseconds since 1970.
    started_ms: Cell<u64>,
    /// Processes that have ended, in whatever manner.
    pub(super) ends: Cell<u64>,
    /// A signal that ends the process was sent to it.
    is_signalled: Cell<bool>,
}

impl NodePair {
    /// Starts PostgreSQL, the owner, and the standby with the seal key of the owner.
    pub(super) async fn start(folder: &Path, disk: Option<SmallDisk>, spreads: bool) -> Result<Self> {
        let disk_folder = disk.as_ref().map(|disk| disk.folder().to_owned());
        let (postgres, url) = on_thread(move || {
            let postgres = match disk_folder {
                Some(folder) => Postgres::start_below(&folder, SmallDisk::SETTINGS)?,
                None => Postgres::start(&[])?,
            };
            let url = postgres.fresh_database()?;
            anyhow::Ok((postgres, url))
        })
        .await??;
        let database = url.rsplit('/').next().unwrap_or_default().to_owned();
        std::fs::write(folder.join("play.toml"), script())?;
        std::fs::write(folder.join("recount.toml"), CONFIGURATION)?;
        let slot = |name: &str| {
            let link = Link::start(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())))?;
            let direct = format!(":{}/", postgres.port());
            anyhow::Ok(NodeSlot {
                address: format!("127.0.0.1:{}", free_port()?),
                data: folder.join(name),
                log: folder.join(format!("{name}.log")),
                config: folder.join("recount.toml"),
                store: url.replace(&direct, &format!(":{}/", link.port())),
                spreads,
                link,
                process: RefCell::default(),
                started_ms: Cell::new(0),
                ends: Cell::new(0),
                is_signalled: Cell::new(false),
            })
        };
        let slots = [slot("one")?, slot("two")?];
        let postgres = RefCell::new(Arc::new(postgres));
        let pair = NodePair { postgres, database, slots, is_stopping: Cell::new(false), disk };
        pair.slots[0].start()?;
        poll("the first server", async || pair.owner().await).await?;
        let key = |slot: usize| pair.slots[slot].data.join("keys/seal");
        std::fs::create_dir_all(key(1).parent().context("a key is in a folder")?)?;
        std::fs::copy(key(0), key(1))?;
        pair.slots[1].start()?;
        Ok(pair)
    }

    pub(super) fn postgres(&self) -> Arc<Postgres> {
        self.postgres.borrow().clone()
    }

    /// Uses another PostgreSQL from now on. New connections of both servers go there.
    pub(super) fn switch_to(&self, postgres: Postgres) {
        for slot in &self.slots {
            slot.link.set_target(SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port())));
        }
        self.postgres.replace(Arc::new(postgres));
    }

    /// The URL of the database, past the links.
    pub(super) fn url(&self) -> String {
        self.postgres.borrow().url(&self.database)
    }

    /// The server that owns each store, according to the database.
    pub(super) async fn owners(&self) -> BTreeMap<String, usize> {
        let url = self.url();
        let Ok(Ok(survey)) = on_thread(move || Database::survey(&url)).await else { return BTreeMap::new() };
        let owner = |store: StoreRow| {
            let node = survey.nodes.iter().find(|node| Some(&node.node) == store.node.as_ref())?;
            let slot = self.slots.iter().position(|slot| {
                node.address == format!("http://{}", slot.address) && node.since_ms >= slot.started_ms.get()
            });
            Some((store.name, slot?))
        };
        survey.stores.into_iter().filter_map(owner).collect()
    }

    /// The main server, which owns the store of the default tenant.
    pub(super) async fn owner(&self) -> Option<usize> {
        self.owners().await.remove(DEFAULT)
    }

    /// Starts servers again that have ended, until one cannot be started.
    pub(super) async fn supervise(&self, sequence: &Sequence) -> Result<Infallible> {
        loop {
            for (number, slot) in self.slots.iter().enumerate() {
                if let Some(status) = slot.ended()? {
                    self.judge(sequence, number, status);
                }
                if !slot.is_running() && !self.is_stopping.get() {
                    tokio::time::sleep(RESTART_PAUSE).await;
                    slot.start()?;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A server that ends by itself does so with an error, and never by a panic.
    fn judge(&self, sequence: &Sequence, number: usize, status: ExitStatus) {
        let was_signalled = self.slots[number].is_signalled.get();
        match status.code() {
            Some(PANICKED) => sequence.course.broke(format!("server {number} panicked")),
            Some(_) if was_signalled => {}
            Some(0) => sequence.course.broke(format!("server {number} ended by itself, without an error")),
            Some(_) => sequence.tenants[0].ledger.borrow_mut().ended_by_themselves += 1,
            // Killed by a fault: the process was reaped there.
            None => sequence.course.broke(format!("server {number} ended with {status}")),
        }
    }

    /// Stops both servers and waits for their ends.
    pub(super) async fn stop(&self, sequence: &Sequence) -> Result<()> {
        self.is_stopping.set(true);
        for (number, slot) in self.slots.iter().enumerate().rev() {
            slot.signal(Signal::TERM)?;
            let has_ended = || !slot.is_running() || !matches!(slot.ended(), Ok(None));
            let what = format!("the end of server {number} after SIGTERM");
            sequence.course.wait_until(&what, has_ended).await;
        }
        Ok(())
    }
}

impl NodeSlot {
    pub(super) fn start(&self) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.started_ms.set(u64::try_from(now.as_millis()).unwrap_or_default());
        self.is_signalled.set(false);
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = self.command(Command::new(std::env::current_exe()?), &self.data, &self.address);
        let child = command.stderr(log).spawn().context("a server cannot be started")?;
        self.process.replace(Some(child));
        Ok(())
    }

    /// Adds the arguments of a server like this one.
    pub(super) fn command(&self, mut program: Command, data: &Path, address: &str) -> Command {
        program.args(["serve", "--bind", address, "--log", "info", "--store", &self.store, "--data"]);
        program.arg(data).arg("--config").arg(&self.config);
        if self.spreads {
            program.args(["--spread-tenants", "yes"]);
        }
        program.stdin(Stdio::null()).stdout(Stdio::null());
        program
    }

    pub(super) fn is_running(&self) -> bool {
        self.process.borrow().is_some()
    }

    /// Takes the status of a process that has ended.
    fn ended(&self) -> Result<Option<ExitStatus>> {
        let mut process = self.process.borrow_mut();
        let Some(child) = process.as_mut() else { return Ok(None) };
        let status = child.try_wait()?;
        if status.is_some() {
            *process = None;
            self.ends.set(self.ends.get() + 1);
        }
        Ok(status)
    }

    /// Kills the process, if there is one.
    pub(super) fn kill(&self) -> Result<()> {
        if let Some(mut child) = self.process.take() {
            child.kill()?;
            child.wait()?;
            self.ends.set(self.ends.get() + 1);
        }
        Ok(())
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.process.borrow();
        let Some(child) = process.as_ref() else { return Ok(()) };
        if signal == Signal::TERM {
            self.is_signalled.set(true);
        }
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            bail!("{} is no id of a process", child.id());
        };
        Ok(kill_process(pid, signal)?)
    }

    /// What the server has logged.
    pub(super) fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(&self.log)?)
    }
}

impl Drop for NodeSlot {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("a server could not be ended: {error:#}");
        }
    }
}

/// Each port is returned once by this process. Another process may take it before the server does; then the server does not start.
fn free_port() -> Result<u16> {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    for _ in 0..count {
        let offset = std::process::id().wrapping_mul(37).wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = PORTS.start + u16::try_from(offset % count)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port in {PORTS:?} is free")
}
