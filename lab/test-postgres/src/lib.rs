//! A real PostgreSQL for tests: a cluster in a temporary folder, on a free port of the loopback interface.
//!
//! Most tests share one server and take a [`fresh_database`] of their own. A test that kills, freezes or restarts
//! PostgreSQL starts a [`Server`]. Every server ends with the process that started it, also if that is killed. The crate must
//! not depend on what is stored.

mod installation;
mod limits;
mod process;

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context as _, Result};
pub use rustix::process::Signal;

use installation::{Installation, SUPERUSER};
pub use process::Frozen;
use process::{Process, StartError};

/// Creates a database on the server that all tests of this process share. Returns its URL.
///
/// # Panics
///
/// When PostgreSQL is missing or does not start.
pub fn fresh_database() -> String {
    shared().fresh_database().expect("PostgreSQL creates a database")
}

/// The server that all tests of this process share.
///
/// # Panics
///
/// When PostgreSQL is missing or does not start.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::start(&[]).expect("PostgreSQL starts"))
}

/// What every server is started with, unless a test has other settings.
///
/// Without syncs a commit survives whatever happens to the processes of PostgreSQL, because the operating system has the
/// bytes. Only a power cut would lose it, and these tests cut no power. So `fsync` is off, and with it what protects from
/// pages that a power cut tears.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("max_connections", "200"),
    ("shared_buffers", "32MB"),
];

/// One PostgreSQL with its own cluster.
pub struct Server {
    installation: Installation,
    folder: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
    process: Mutex<Option<Process>>,
    databases: AtomicU32,
}

impl Server {
    /// Starts a server with settings of `postgresql.conf`, and waits until it accepts connections.
    pub fn start(settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_below(&std::env::temp_dir(), settings)
    }

    /// The same with the cluster in a new folder below another one, such as a small disk.
    pub fn start_below(parent: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let installation = Installation::find()?;
        let folder = installation.folder(parent)?;
        installation.create_cluster(&folder.path().join("data"))?;
        let settings = SETTINGS.iter().chain(settings);
        let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::start_in(installation, folder, settings)
    }

    fn start_in(
        installation: Installation,
        folder: tempfile::TempDir,
        settings: Vec<(String, String)>,
    ) -> Result<Self> {
        for _ in 1..limits::PORTS_TRIED_MAX {
            let port = free_port()?;
            match Process::start(&installation, folder.path(), port, &settings) {
                // Another process was faster.
                Err(StartError::PortInUse) => {}
                Err(StartError::Other(why)) => return Err(why),
                Ok(process) => {
                    let (process, databases) = (Mutex::new(Some(process)), AtomicU32::new(0));
                    return Ok(Server {
                        installation,
                        folder: folder.keep(),
                        port,
                        settings,
                        process,
                        databases,
                    });
                }
            }
        }
        anyhow::bail!("no port stayed free for PostgreSQL, {} times", limits::PORTS_TRIED_MAX)
    }

    /// Starts a hot standby of this server, which replicates through a port of 127.0.0.1: that of this server, or of a proxy in
    /// front of it.
    pub fn start_standby(&self, through: u16) -> Result<Self> {
        let folder = self.installation.folder(&std::env::temp_dir())?;
        let mut backup = self.installation.command(self.installation.program("pg_basebackup"));
        backup.arg("--pgdata").arg(folder.path().join("data"));
        backup.args(["--host=127.0.0.1", &format!("--port={through}"), "--username", SUPERUSER]);
        backup.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        installation::run(backup)?;
        Self::start_in(self.installation.clone(), folder, self.settings.clone())
    }

    /// Makes a standby a primary.
    pub fn promote(&self) -> Result<()> {
        let mut promote = self.installation.command(self.installation.program("pg_ctl"));
        promote.args(["promote", "--silent", "--pgdata"]).arg(self.data());
        installation::run(promote)
    }

    /// The port on 127.0.0.1. It stays the same when the server is restarted.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the cluster.
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The URL of a database, as its superuser.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{SUPERUSER}@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates a database. Returns its URL.
    pub fn fresh_database(&self) -> Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut createdb = self.installation.command(self.installation.program("createdb"));
        createdb.args(["--host=127.0.0.1", &format!("--port={}", self.port), "--username", SUPERUSER, &name]);
        installation::run(createdb)?;
        Ok(self.url(&name))
    }

    /// Sends a signal that ends PostgreSQL, such as [`Signal::KILL`], [`Signal::QUIT`] or [`Signal::INT`], and waits until
    /// all of its processes have ended. Its files remain.
    pub fn end(&self, signal: Signal) -> Result<()> {
        let process = self.process().take().context("PostgreSQL is not running")?;
        process.end(signal)
    }

    /// Starts PostgreSQL again after [`Server::end`], with the same files, port and settings.
    pub fn restart(&self) -> Result<()> {
        let mut process = self.process();
        anyhow::ensure!(process.is_none(), "PostgreSQL is running");
        let started = Process::start(&self.installation, &self.folder, self.port, &self.settings);
        *process = Some(started?);
        Ok(())
    }

    /// Stops every process of PostgreSQL with [`Signal::STOP`] until the returned guard is dropped.
    pub fn freeze(&self) -> Result<Frozen> {
        self.process().as_ref().context("PostgreSQL is not running")?.freeze()
    }

    /// The last lines that PostgreSQL has written to its log, for messages of tests.
    pub fn log(&self) -> Vec<String> {
        self.process().as_ref().map(Process::log).unwrap_or_default()
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A running PostgreSQL ends, and its folder is removed, when its process is dropped.
        if self.process().take().is_none() {
            remove(&self.folder);
        }
    }
}

/// Removes a folder. What remains is a temporary folder that no test uses.
fn remove(folder: &Path) {
    std::fs::remove_dir_all(folder).ok();
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port is free")?;
    Ok(listener.local_addr()?.port())
}
