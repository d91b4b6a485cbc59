//! From configuration to a running server, and to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recount_agent::model::{Registry, Secret};
use recount_engine::Redactor;
use recount_log::{Fault, MemoryStore, Store};
use recount_log_sqlite::SqliteStore;
use recount_world::World;
use serde_json::json;
use tracing::level_filters::LevelFilter;

use crate::agents::{self, Crew};
use crate::config::{Config, LogFormat, Options};
use crate::files::in_words;
use crate::running::{Entry, claim};
use crate::{Files, Home, Running, backup, limits, logging};

/// Why the server did not start, or did not run to a good end.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StartError {
    message: String,
    exit_code: u8,
}

impl StartError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        StartError { message: message.into(), exit_code: 2 }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        StartError { message: message.into(), exit_code: 1 }
    }

    /// What was asked for is not done, because the store is not as it should be.
    pub(crate) fn damaged(message: impl Into<String>) -> Self {
        StartError { message: message.into(), exit_code: 3 }
    }

    /// Logs the message; the exit code stays for the caller.
    fn logged(self) -> Self {
        tracing::error!("{}", self.message);
        StartError { message: String::new(), exit_code: self.exit_code }
    }

    /// 2 when something was asked for that cannot be, 3 when a store is not as it should be, 1 when the world failed.
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

/// Opens the store that the configuration names.
pub(crate) fn open_store(config: &Config) -> Result<SqliteStore, StartError> {
    check_folder(&config.data)?;
    let store = open_store_or_fault(config).map_err(|fault| StartError::failed(fault.to_string()))?;
    // The folder is ours now.
    backup::clear(&config.data);
    Ok(store)
}

/// Refuses a folder that is not a whole store, where the store itself cannot tell.
fn check_folder(data: &Path) -> Result<(), StartError> {
    let shown = data.display();
    if backup::is_unfinished(data) {
        return Err(StartError::failed(format!(
            "{shown} is a backup that was not finished and not a whole store; delete it and use another backup"
        )));
    }
    let rest = ["keys", "tenants"].into_iter().find(|rest| data.join(rest).is_dir());
    if let Some(rest) = rest.filter(|_| !data.join("recount.db").is_file()) {
        return Err(StartError::failed(format!(
            "{shown} has the folder {rest} of a store but no recount.db; put a whole copy of the data folder there"
        )));
    }
    Ok(())
}

/// The same, where it matters why it was refused.
pub(crate) fn open_store_or_fault(config: &Config) -> Result<SqliteStore, Fault> {
    SqliteStore::open(config.home().options(config.data.clone()))
}

impl Config {
    fn home(&self) -> Home {
        Home {
            data: self.data.clone(),
            durability: self.durability,
            accept_loss_after: self.accept_loss_after.clone(),
            hot_events_max: self.hot_events_max,
        }
    }
}

/// The data folder that `serve` would take without being told.
pub fn default_data() -> Result<PathBuf, StartError> {
    Ok(Config::settle(Options::default(), |name| std::env::var(name).ok())?.data)
}

/// Words for an operator whose data folder lets others in; one that we make does not.
fn openness(data: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(data).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        let data = data.display();
        format!("others on this machine can get into {data} (mode {mode:04o}); chmod 700 keeps them out")
    })
}

/// Runs the server until it is told to stop. Blocks. With the log in JSON, standard error holds nothing else: then an
/// error is logged here and has no message left for the caller to print.
pub fn serve(options: Options) -> Result<(), StartError> {
    let wants_json = options.log_format.as_deref() == Some("json");
    let is_json = |config: &Config| config.log_format == LogFormat::Json;
    let config = match Config::settle(options, |name| std::env::var(name).ok()) {
        Ok(config) => config,
        Err(error) if wants_json => {
            logging::start(LevelFilter::ERROR, LogFormat::Json, &Arc::new(Redactor::new(Vec::new(), true)));
            return Err(error.logged());
        }
        Err(error) => return Err(error),
    };
    serve_configured(&config).map_err(|error| if is_json(&config) { error.logged() } else { error })
}

fn serve_configured(config: &Config) -> Result<(), StartError> {
    let world = World::real();
    let registry = agents::registry(config, &world)?;
    let (redactor, passed) = config.redaction.redactor(std::env::vars_os(), &known(config, &registry))?;
    logging::start(config.log, config.log_format, &redactor);
    logging::log_panics();
    passed.iter().for_each(|words| tracing::warn!("{words}"));
    tracing::info!(values = redactor.known(), shapes = config.redaction.detectors, "secrets are masked");
    let threads =
        std::thread::available_parallelism().map_or(2, usize::from).min(limits::SERVING_THREADS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("recount-serve")
        .enable_all()
        .build()
        .map_err(|why| StartError::failed(format!("the runtime cannot start: {why}")))?;
    let files = Files::raise();
    keep_pages_small();
    runtime.block_on(async {
        let running = assemble(config, world, registry, redactor).await?;
        announce(config, &running);
        tell_limits(files);
        told_to_stop().await?;
        tracing::info!("stopping");
        let left = running.stop().await;
        if left > 0 {
            tracing::warn!(left, "some tasks did not end in time; nothing acknowledged is lost");
        }
        Ok(())
    })
}

/// Secrets that the configuration holds or names, beside those of `[redaction]`.
fn known(config: &Config, registry: &Registry) -> Vec<Secret> {
    [registry.secrets.clone(), config.agents.secrets()].concat()
}

/// A server within another program: what that program needs of it.
pub struct Inside {
    pub running: Running,
    pub data: PathBuf,
}

/// Starts a server within this program, configured as `serve` would be. The caller ends it with [`Running::stop`].
pub async fn start_inside(options: Options) -> Result<Inside, StartError> {
    let config = Config::settle(options, |name| std::env::var(name).ok())?;
    let world = World::real();
    let registry = agents::registry(&config, &world)?;
    let (redactor, passed) = config.redaction.redactor(std::env::vars_os(), &known(&config, &registry))?;
    logging::start(config.log, config.log_format, &redactor);
    passed.iter().for_each(|words| tracing::warn!("{words}"));
    // Nothing comes of the limits here: few connect to a server that serves one run.
    Files::raise();
    let running = assemble(&config, world, registry, redactor).await?;
    Ok(Inside { running, data: config.data })
}

/// All that the configuration asks for, put together and listening.
async fn assemble(
    config: &Config,
    world: World,
    registry: Registry,
    redactor: Arc<Redactor>,
) -> Result<Running, StartError> {
    let listener = claim(config.bind).await?;
    let store: Arc<dyn Store> = match config.in_memory {
        false => Arc::new(open_store(config)?),
        true => {
            let failed = |why| StartError::failed(format!("{} cannot be made: {why}", config.data.display()));
            std::fs::create_dir_all(&config.data).map_err(failed)?;
            Arc::new(MemoryStore::default())
        }
    };
    let crew = Crew::gather(config, registry).await?;
    let (home, access) = (config.home(), config.access.clone());
    let settings = config.settings.iter().map(
        |setting| json!({"key": setting.key, "value": setting.value, "source": setting.source.to_string()}),
    );
    let settings = settings.collect();
    let entry = Entry { access, aap: config.aap.clone(), profiles: crew.profiles().clone(), settings };
    let running = Running::on(listener, store, world, Some(home), entry, redactor).await?;
    running.gate.tenants.keep_to(config.retention, config.sweep_every);
    tracing::info!("{}", crew.in_words(running.gate.lets_anybody_in()));
    let failed = |why| StartError::failed(format!("nobody could be given our own runs: {why}"));
    running.gate.tenants.employ(crew).await.map_err(failed)?;
    Ok(running)
}

/// Says where the server listens, whatever the level of the log: programs that start a server read its address here.
fn announce(config: &Config, running: &Running) {
    let crew = running.gate.tenants.crew();
    let openness = openness(&config.data);
    let entry = match running.gate.lets_anybody_in() {
        true => "without a token, whoever can reach this address on this machine may do everything",
        false => "only who shows a token may come in",
    };
    let held = crew.map(|crew| crew.in_words(running.gate.lets_anybody_in()));
    let version = env!("CARGO_PKG_VERSION");
    let data = config.data.display();
    let address = running.address;
    let lines =
        [Some(format!("recount {version} keeps its data in {data}")), openness, Some(entry.to_owned()), held];
    let lines = lines.into_iter().flatten().chain([format!("listening on http://{address}")]);
    if config.log_format == LogFormat::Json {
        lines.for_each(|line| tracing::info!(target: logging::PROCESS, %address, "{line}"));
        return;
    }
    use std::io::Write as _;
    let words: String = lines.map(|line| line + "\n").collect();
    if let Err(error) = std::io::stderr().lock().write_all(words.as_bytes()) {
        tracing::debug!(%error, "nobody reads standard error");
    }
}

/// Memory comes in small pages: in large ones, what many short runs leave behind holds on to several times as much. See
/// `docs/decisions/0018`.
fn keep_pages_small() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "large pages cannot be switched off");
    }
}

/// How many may connect. Fewer than the server could serve are worth a warning only where ordinary use comes near that.
fn tell_limits(files: Files) {
    let (soft, most) = (in_words(files.soft), files.connections_max());
    if most < limits::CONNECTIONS_FEW {
        tracing::warn!(
            "at most {most} connections at a time, because this process may have {soft} files open; for {} raise \
             the hard limit of open files to {}",
            limits::CONNECTIONS_MAX,
            limits::CONNECTIONS_MAX + limits::FILES_KEPT
        );
    } else {
        tracing::info!("at most {most} connections at a time; this process may have {soft} files open");
    }
}

async fn told_to_stop() -> Result<(), StartError> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |why: std::io::Error| StartError::failed(format!("signals cannot be heard: {why}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
