//! Start and stop of a server: from the configuration to a running server and to its end. See [`serve`].

use std::convert::Infallible;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use recount_agent::model::{Registry, Secret};
use recount_engine::Redactor;
use recount_log::{Fault, FaultKind, MemoryStore, Retry, Store};
use recount_run::{CancelledBy, Command};
use recount_world::platform;
use recount_world::{Kind, World};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::level_filters::LevelFilter;

use crate::agents::{self, AgentPool};
use crate::assembly::{attach_agents, configure_tenants, export_settings, server_settings};
use crate::boxed;
use crate::config::{Access, Config, LogFormat, Options, TraceExport};
use crate::database_url::DatabaseUrl;
use crate::files::limit_text;
use crate::forwarding::{ForwardTarget, KnownOwner, NodeKey};
use crate::hosting::Hosting;
#[cfg(unix)]
use crate::passed_sockets::PassedSockets;
use crate::running::{Listeners, ServerSettings, ServerSockets, address_of};
use crate::settings::join_names;
use crate::stores::Stores;
use crate::tenant_folder::TENANT_DEFAULT;
use crate::tenants::ServedTenants;
use crate::tls::ServerTls;
use crate::{Files, Running, StartError, backup, limits, logging, standby};

/// The file of a data folder that notes the process and the address of the server that uses it.
const ADDRESS: &str = "address";

/// Opens the store of the default tenant in a data folder.
pub(crate) fn open_store(stores: &Stores) -> Result<Arc<dyn Store>, StartError> {
    let data = stores.data();
    stores.check_note()?;
    check_folder(data)?;
    let store = stores.open(TENANT_DEFAULT).map_err(|fault| StartError::failed(in_use(data, &fault)))?;
    // This process holds the folder now.
    backup::clear(data);
    Ok(store)
}

/// Why a store cannot be opened, with the address of the server that uses it.
fn in_use(data: &Path, fault: &Fault) -> String {
    let read = |name: &str| std::fs::read_to_string(data.join(name)).unwrap_or_default();
    let (holder, noted) = (read("lock"), read(ADDRESS));
    match noted.trim().split_once(' ') {
        Some((process, url)) if fault.kind == FaultKind::Locked && process == holder.trim() => {
            format!("{fault}; it is the server at {url}: to use it, add --url {url}")
        }
        _ => fault.to_string(),
    }
}

/// Notes where this process listens, for programs that find its data folder in use. Without the note nothing but that
/// is missing.
fn note_address(config: &Config, running: &Running) {
    let note = format!("{} {}\n", std::process::id(), url(config, running));
    if let Err(error) = std::fs::write(config.data.join(ADDRESS), note) {
        tracing::warn!(%error, "cannot note the address of this server in its data folder");
    }
}

/// The URL of this server, for programs of this machine.
fn url(config: &Config, running: &Running) -> String {
    match (running.gate.bound, &running.socket) {
        (None, Some(path)) => format!("unix:{}", path.display()),
        _ => config.url_of(running.address),
    }
}

/// Refuses an incomplete data folder, in cases that the store itself cannot detect.
fn check_folder(data: &Path) -> Result<(), StartError> {
    let shown = data.display();
    if backup::is_unfinished(data) {
        return Err(StartError::failed(format!(
            "{shown} is an unfinished backup, not a complete store; delete it and use another backup"
        )));
    }
    let rest = ["keys", "tenants"].into_iter().find(|rest| data.join(rest).is_dir());
    if let Some(rest) = rest.filter(|_| !data.join("recount.db").is_file()) {
        return Err(StartError::failed(format!(
            "{shown} has the folder {rest} of a store but no recount.db; restore a complete copy of the data \
             folder"
        )));
    }
    Ok(())
}

/// Whether `serve` would find a store: in its data folder, or in a database.
pub fn has_default_store() -> bool {
    let options = Options { without_sign_in: true, ..Options::default() };
    let config = Config::settle(options, |name| std::env::var(name).ok());
    config.is_ok_and(|config| config.store.is_some() || config.data.join("recount.db").is_file())
}

/// A warning for a data folder that other users can read; one created by the server is private.
fn permission_warning(data: &Path) -> Option<String> {
    let mode = platform::shared_mode(&std::fs::metadata(data).ok()?)?;
    let data = data.display();
    Some(format!("other users of this machine can access {data} (mode {mode:04o}); run chmod 700 on it"))
}

/// Runs the server until it gets a stop signal. Blocks. With a JSON log, standard error holds only JSON: an error is
/// then logged here, and the returned error has no message to print.
pub fn serve(options: Options) -> Result<(), StartError> {
    let json_flag = options.log_format.as_deref() == Some("json");
    let is_json = |config: &Config| config.log_format == LogFormat::Json;
    let config = match with_passed_sockets(options)
        .and_then(|options| Config::settle(options, |name| std::env::var(name).ok()))
    {
        Ok(config) => config,
        Err(error) if json_flag => {
            logging::start(LevelFilter::ERROR, LogFormat::Json, &Arc::new(Redactor::new(Vec::new(), true)));
            return Err(error.logged());
        }
        Err(error) => return Err(error),
    };
    serve_configured(&config).map_err(|error| if is_json(&config) { error.logged() } else { error })
}

/// Adds the sockets that the service manager opened.
fn with_passed_sockets(options: Options) -> Result<Options, StartError> {
    #[cfg(unix)]
    let options = Options { passed: PassedSockets::take()?, ..options };
    Ok(options)
}

fn serve_configured(config: &Config) -> Result<(), StartError> {
    let world = World::real();
    let registry = agents::registry(config, &world)?;
    let (redactor, notes) =
        config.redaction.redactor(std::env::vars_os(), &known_secrets(config, &registry)?)?;
    logging::start(config.log, config.log_format, &redactor);
    logging::log_panics();
    notes.iter().for_each(|words| tracing::warn!("{words}"));
    if config.bind.socket.is_none() && !config.access.unix_users.is_empty() {
        tracing::warn!(
            "access.unix_users has no effect, because the server listens on no Unix socket; add one to bind, such as \
             unix:/run/recount/recount.sock"
        );
    }
    tracing::info!(values = redactor.known(), shapes = config.redaction.detectors, "secrets are masked");
    let threads =
        std::thread::available_parallelism().map_or(2, usize::from).min(limits::SERVING_THREADS_MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("recount-serve")
        .enable_all()
        .build()
        .map_err(|why| StartError::failed(format!("cannot start the runtime: {why}")))?;
    let files = Files::raise();
    keep_pages_small();
    runtime.block_on(async {
        let mut stop = StopSignal::default();
        let (running, listeners, pool) = assemble(config, world, registry, redactor, Some(&mut stop)).await?;
        let unfinished = begin(&running, listeners, pool).await?;
        note_address(config, &running);
        announce(config, &running, &unfinished);
        report_limits(files);
        let is_owner = tokio::select! {
            signal = stop.received() => signal.map(|()| true)?,
            () = running.gate.tenants.lost() => false,
        };
        tracing::info!("stopping");
        let left = running.stop().await;
        if left > 0 {
            tracing::warn!(
                left,
                "some tasks did not end before the shutdown timeout; no acknowledged event is lost"
            );
        }
        if is_owner {
            return Ok(());
        }
        Err(StartError::failed(LEASE_LOST))
    })
}

/// Resumes unfinished runs and accepts connections. The agents come first: no client may see a server that refuses own
/// runs because it has just started.
pub(crate) async fn begin(
    running: &Running,
    listeners: Listeners,
    pool: Arc<AgentPool>,
) -> Result<Vec<Unfinished>, StartError> {
    let unfinished = unfinished(running).await?;
    for left in &unfinished {
        tracing::info!(
            run = left.run,
            status = left.status,
            tenant = left.tenant,
            "resuming an unfinished run"
        );
    }
    attach_agents(running, pool).await?;
    listeners.start();
    Ok(unfinished)
}

/// Secrets that the configuration holds or names, besides those of `[redaction]`.
fn known_secrets(config: &Config, registry: &Registry) -> Result<Vec<Secret>, StartError> {
    let runs = &config.runs;
    let of_runs = [runs.mcp.secrets().to_vec(), runs.hooks.secrets().to_vec(), runs.web.secrets()].concat();
    let of_database = config.store.iter().flat_map(DatabaseUrl::passwords).map(Secret::new).collect();
    let export = export_settings(config)?;
    let headers = export.iter().flat_map(|export| [&export.headers, &export.logs_headers]);
    let of_export = headers.flat_map(|headers| headers.secrets()).map(Secret::new).collect();
    let of_webhooks = config.webhooks.secrets();
    let of_sign_in = config.sign_in.iter().flat_map(|settings| settings.secrets()).collect();
    let of_config = [registry.secrets.clone(), config.agents.secrets()].concat();
    Ok([of_config, of_runs, of_database, of_webhooks, of_sign_in, of_export].concat())
}

/// A server that runs within another program.
pub struct EmbeddedServer {
    pub running: Running,
    /// The data folder or the database, for people.
    pub location: String,
    /// Runs that a previous process left unfinished, of all tenants.
    pub unfinished: Vec<Unfinished>,
    pool: Arc<AgentPool>,
}

/// A run that has not ended and has no worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    pub tenant: String,
    pub run: String,
    /// `queued`, `running` or `waiting`.
    pub status: String,
    /// The session that it belongs to.
    pub session: Option<String>,
    pub title: Option<String>,
    pub created_at: String,
}

impl EmbeddedServer {
    /// Starts executing the runs of this server, including unfinished ones.
    #[boxed]
    pub async fn work(&self) -> Result<(), StartError> {
        attach_agents(&self.running, self.pool.clone()).await
    }

    /// Why runs execute no commands on this machine.
    pub fn no_commands(&self) -> Option<&str> {
        self.pool.no_commands()
    }

    /// Serves requests about the workspaces of runs without executing any. Use it in place of [`EmbeddedServer::work`].
    pub fn attach(&self) -> Result<(), StartError> {
        for (tenant, engine) in self.running.gate.tenants.all() {
            let failed =
                |why| StartError::failed(format!("cannot attach an agent for workspace requests: {why}"));
            self.pool.attach_idle(&tenant, &engine).map_err(failed)?;
        }
        Ok(())
    }

    /// Cancels these runs of [`EmbeddedServer::unfinished`]. Call it before [`EmbeddedServer::work`], so that none of
    /// them is executed further.
    #[boxed]
    pub async fn abandon(&self, runs: &[Unfinished]) -> Result<(), StartError> {
        for (tenant, engine) in self.running.gate.tenants.all() {
            for left in runs.iter().filter(|left| *left.tenant == *tenant) {
                let Ok(run) = left.run.parse() else { continue };
                let reason = "abandoned: the process that executed it no longer exists".to_owned();
                let command = Command::Cancel { by: CancelledBy::Operator, reason };
                engine
                    .write()
                    .submit(run, command)
                    .await
                    .map_err(|why| StartError::failed(format!("cannot cancel {}: {why}", left.run)))?;
            }
        }
        Ok(())
    }
}

/// Starts a server within this program, configured as `serve` would be. No run is executed, and `/readyz` is 503, until
/// [`EmbeddedServer::work`] is called. The caller ends it with [`Running::stop`].
#[boxed]
pub async fn start_embedded(options: Options) -> Result<EmbeddedServer, StartError> {
    let config = Config::settle(options, |name| std::env::var(name).ok())?;
    let world = World::real();
    let registry = agents::registry(&config, &world)?;
    let (redactor, notes) =
        config.redaction.redactor(std::env::vars_os(), &known_secrets(&config, &registry)?)?;
    logging::start(config.log, config.log_format, &redactor);
    notes.iter().for_each(|words| tracing::warn!("{words}"));
    // The limits do not matter here: a server for one run has few connections.
    Files::raise();
    let (running, listeners, pool) = assemble(&config, world, registry, redactor, None).await?;
    listeners.start();
    let unfinished = unfinished(&running).await?;
    note_address(&config, &running);
    let location = config.store.map_or(config.data.display().to_string(), |url| url.to_string());
    Ok(EmbeddedServer { running, location, unfinished, pool })
}

/// Lists the runs that a previous process left unfinished.
async fn unfinished(running: &Running) -> Result<Vec<Unfinished>, StartError> {
    let mut found = Vec::new();
    for (tenant, engine) in running.gate.tenants.all() {
        let rows = engine.catalogue().unfinished().await;
        let rows = rows.map_err(|why| StartError::failed(format!("cannot read unfinished runs: {why}")))?;
        found.extend(rows.into_iter().map(|row| Unfinished {
            tenant: tenant.to_string(),
            run: row.id.to_string(),
            status: row.status,
            session: row.session_id.map(|session| session.to_string()),
            title: row.title,
            created_at: row.created_at,
        }));
    }
    Ok(found)
}

/// One line for operators that names the runs being resumed.
fn resumed_runs_line(unfinished: &[Unfinished]) -> Option<String> {
    let named: Vec<String> = unfinished
        .iter()
        .take(limits::UNFINISHED_NAMED_MAX)
        .map(|left| format!("{} ({})", left.run, left.status))
        .collect();
    let more = unfinished.len() - named.len();
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    (!named.is_empty()).then(|| format!("resuming unfinished runs: {}{more}", named.join(", ")))
}

/// Assembles everything that is configured. No connection is accepted and no agent executes runs yet. `standby`: a server whose
/// database is owned by another one waits until this signal comes; without it, that is an error.
#[boxed]
pub(crate) async fn assemble(
    config: &Config,
    world: World,
    registry: Registry,
    redactor: Arc<Redactor>,
    standby: Option<&mut StopSignal>,
) -> Result<(Running, Listeners, Arc<AgentPool>), StartError> {
    let tls = config.tls.clone().map(ServerTls::load).transpose()?;
    let sockets = ServerSockets::bind(config).await?;
    let hosting = (config.spread_tenants && standby.is_some()).then_some(&registry);
    let opened =
        open_stores(config, &world, sockets.tcp.as_ref(), &redactor, (standby, hosting), tls.clone()).await?;
    let stores = opened.0.clone();
    let assembled = assemble_on(config, world.clone(), registry, redactor, sockets, opened, tls).await;
    if assembled.is_err() {
        stores.wait_for(&world, Stores::disconnect).await;
    }
    assembled
}

const NO_PANIC: &str = "connecting to a database never panics";

/// Opens the store of the default tenant in a database. A standby waits for it, whatever happens to the database meanwhile,
/// until it is stopped.
async fn own(
    stores: &Stores,
    world: &World,
    standby: Option<&mut StopSignal>,
    owner: &KnownOwner,
) -> Result<Arc<dyn Store>, StartError> {
    let waiting = wait_to_own(stores, world, standby.is_some(), owner);
    let Some(stop) = standby else { return waiting.await };
    tokio::select! {
        opened = waiting => opened,
        () = stores.lost() => Err(StartError::failed(LEASE_LOST)),
        signal = stop.received() => {
            signal?;
            Err(StartError::failed("stopped before this server owned the stores"))
        }
    }
}

async fn wait_to_own(
    stores: &Stores,
    world: &World,
    may_stand_by: bool,
    owner: &KnownOwner,
) -> Result<Arc<dyn Store>, StartError> {
    let mut is_standby = false;
    loop {
        let mut opening = pin!(stores.wait_for(world, |stores| stores.open(TENANT_DEFAULT)));
        let opened = match tokio::time::timeout(limits::STANDBY_RETRY, &mut opening).await {
            Ok(opened) => opened,
            Err(_) => {
                if !is_standby {
                    tracing::info!(
                        "waiting for the stores: their owner is alive, or its lease has not expired yet"
                    );
                }
                opening.await
            }
        };
        let fault = match opened {
            Ok(store) => return Ok(store),
            Err(fault) => fault,
        };
        let is_owned = fault.kind == FaultKind::Locked;
        let has_owner = is_standby || owner.borrow().is_some();
        let waits = is_owned || (has_owner && fault.retry != Retry::Never);
        if !may_stand_by || !waits {
            return Err(StartError::failed(fault.to_string()));
        }
        if !is_owned || !is_standby {
            tracing::info!(%fault, "this server is a standby and waits for the stores");
        }
        is_standby = true;
        tokio::time::sleep(limits::STANDBY_RETRY).await;
    }
}

/// Why a server ends that has been taken for dead.
const LEASE_LOST: &str = "another server has ended the lease of this one, because it was not renewed in time; start it again \
                          as a standby";

/// Announces which server owns the store of the default tenant, for as long as it is not this one.
async fn watch_owner(
    stores: &Stores,
    world: &World,
    key: NodeKey,
    known: &watch::Sender<Option<ForwardTarget>>,
) -> Infallible {
    loop {
        match stores.wait_for(world, |stores| stores.owner(TENANT_DEFAULT)).await {
            Ok(owner) => {
                let target = owner.filter(|owner| !owner.address.is_empty());
                let target = target.map(|owner| ForwardTarget::of(&owner.node, &owner.address, &key));
                known.send_if_modified(|known| {
                    let is_new =
                        known.as_ref().map(|known| &known.node) != target.as_ref().map(|new| &new.node);
                    if is_new {
                        *known = target;
                    }
                    is_new
                });
            }
            Err(fault) => tracing::debug!(%fault, "cannot look for the owner of the stores"),
        }
        tokio::time::sleep(limits::STANDBY_RETRY).await;
    }
}

/// Connects to the configured stores, and opens that of the default tenant.
async fn open_stores(
    config: &Config,
    world: &World,
    listener: Option<&TcpListener>,
    redactor: &Arc<Redactor>,
    (standby, hosting): (Option<&mut StopSignal>, Option<&Registry>),
    tls: Option<ServerTls>,
) -> Result<(Stores, Arc<dyn Store>), StartError> {
    if config.store.is_some() {
        let (settings, config, of_folder) = (config, config.clone(), world.clone());
        let tls_of_tenants = tls.clone();
        let address = listener.map(address_of).transpose()?;
        let connect = move || {
            let stores = config.stores(address)?;
            let key = stores.prepare_folder(&of_folder).inspect_err(|_| stores.disconnect())?;
            Ok((stores, NodeKey::derive(&key)))
        };
        let (owner, known_owner) = watch::channel(None);
        let tenants = OnceLock::new();
        let opened = async {
            let (stores, key): (Stores, _) =
                world.tasks.block(Kind::Effect, connect).await.expect(NO_PANIC)?;
            let hosting = hosting.map(|registry| {
                tenants.get_or_init(|| {
                    let credentials = (key.clone(), tls_of_tenants);
                    let owner = owner.subscribe();
                    Hosting::new(settings, registry, redactor, world, &stores, owner, credentials)
                })
            });
            let follow = async {
                match hosting {
                    Some(hosting) => hosting.follow().await,
                    None => std::future::pending().await,
                }
            };
            let seen = owner.subscribe();
            let opened = tokio::select! {
                opened = own(&stores, world, standby, &seen) => opened,
                never = watch_owner(&stores, world, key.clone(), &owner) => match never {},
                never = follow => match never {},
            };
            if let Some(hosting) = hosting {
                // This server serves all of them, or ends.
                hosting.end().await;
            }
            match opened {
                Ok(store) => Ok((stores, store)),
                Err(error) => {
                    stores.wait_for(world, Stores::disconnect).await;
                    Err(error)
                }
            }
        };
        return match listener.zip(address) {
            Some((listener, address)) => {
                let shared = (known_owner, &tenants);
                standby::serve_until(listener, address, world, redactor, shared, tls, opened).await
            }
            // The Unix socket is served by the owner only.
            None => opened.await,
        };
    }
    let stores = config.stores(None)?;
    let store: Arc<dyn Store> = match config.in_memory {
        false => open_store(&stores)?,
        true => {
            let failed = |why| StartError::failed(format!("cannot create {}: {why}", config.data.display()));
            std::fs::create_dir_all(&config.data).map_err(failed)?;
            Arc::new(MemoryStore::default())
        }
    };
    Ok((stores, store))
}

#[boxed]
async fn assemble_on(
    config: &Config,
    world: World,
    registry: Registry,
    redactor: Arc<Redactor>,
    sockets: ServerSockets,
    (stores, store): (Stores, Arc<dyn Store>),
    tls: Option<ServerTls>,
) -> Result<(Running, Listeners, Arc<AgentPool>), StartError> {
    let pool = AgentPool::build(config, registry).await?;
    let entry = ServerSettings {
        tls,
        served: if config.spread_tenants { ServedTenants::Spread } else { ServedTenants::All },
        ..server_settings(config, &pool)
    };
    let (running, listeners) = Running::on(sockets, store, world, Some(stores), entry, redactor).await?;
    configure_tenants(config, &running).await?;
    tracing::info!("{}", pool.sandbox_summary(is_open_to_commands(&running)));
    Ok((running, listeners, pool))
}

/// Whether a command of a run that reaches this server may do everything, because it runs as the user of the server.
fn is_open_to_commands(running: &Running) -> bool {
    let gate = &running.gate;
    gate.allows_anonymous() || (running.socket.is_some() && !gate.access.require_token)
}

/// A warning for a socket that commands of runs can see.
fn socket_warning(config: &Config, running: &Running) -> Option<String> {
    let path = running.socket.as_ref().filter(|_| is_open_to_commands(running))?;
    let folder = config.runs.sandbox.readable.iter().find(|folder| path.starts_with(folder))?;
    let (path, folder) = (path.display(), folder.display());
    Some(format!(
        "commands of runs can see the socket {path}, because sandbox.readable has {folder}: they can connect and \
         answer prompts; choose another path for the socket, or set access.require_token to true"
    ))
}

/// Which programs need no token over the Unix socket.
fn socket_entry(running: &Running) -> Option<String> {
    running.socket.as_ref()?;
    let Access { require_token, unix_users, .. } = &*running.gate.access;
    let operator = "over the socket, root and the user of this server may do everything without a token";
    Some(match (require_token, unix_users.is_empty()) {
        (true, _) => "every request over the socket requires a token".to_owned(),
        (false, true) => operator.to_owned(),
        (false, false) => {
            let names: Vec<&String> = unix_users.keys().collect();
            format!("{operator}; access.unix_users has {}", join_names(&names))
        }
    })
}

/// Prints where the server listens, at every log level: programs that start a server read its address here.
fn announce(config: &Config, running: &Running, unfinished: &[Unfinished]) {
    let pool = running.gate.tenants.agents();
    let openness = permission_warning(&config.data);
    let entry = match running.gate.allows_anonymous() {
        true => "no token is required: anyone who can reach this address on this machine may do everything",
        false => "every request requires a token",
    };
    let held = pool.map(|pool| pool.sandbox_summary(is_open_to_commands(running)));
    let version = env!("CARGO_PKG_VERSION");
    let data = config.data.display();
    let url = url(config, running);
    let address = url.split_once("://").map_or(&*url, |(_, address)| address);
    let before = resumed_runs_line(unfinished);
    let [traces, logs] = config.otel.as_ref().map(TraceExport::lines).unwrap_or_default();
    let is_private = config.tls.is_some() || config.bind.is_local();
    let privacy =
        "connections are not encrypted: use a private network or a proxy, or set --tls-cert and --tls-key";
    let lines = [
        Some(match &config.store {
            Some(url) => {
                format!("recount {version} keeps its data in {url}, and files of this server in {data}")
            }
            None => format!("recount {version} keeps its data in {data}"),
        }),
        openness,
        running.gate.bound.map(|_| entry.to_owned()),
        socket_entry(running),
        socket_warning(config, running),
        (!is_private).then(|| privacy.to_owned()),
        held,
        traces,
        logs,
        before,
        running.room_address.map(|address| format!("a room is at the root of http://{address}")),
    ];
    let both = running.socket.as_ref().filter(|_| running.gate.bound.is_some());
    let both = both.map(|path| format!("also listening on unix:{}", path.display()));
    let lines = lines.into_iter().flatten().chain(both).chain([format!("listening on {url}")]);
    if config.log_format == LogFormat::Json {
        lines.for_each(|line| tracing::info!(target: logging::PROCESS, %address, "{line}"));
        return;
    }
    use std::io::Write as _;
    let words: String = lines.map(|line| line + "\n").collect();
    if let Err(error) = std::io::stderr().lock().write_all(words.as_bytes()) {
        tracing::debug!(%error, "standard error is closed");
    }
}

/// Uses small memory pages: with large ones, the remains of many short runs keep several times as much memory. See
/// `docs/decisions/0018`.
fn keep_pages_small() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "cannot disable transparent huge pages");
    }
}

/// Reports the limit of connections. A lower one than the server could serve is a warning only if ordinary use comes
/// near it.
fn report_limits(files: Files) {
    let (soft, most) = (limit_text(files.soft), files.connections_max());
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

/// The signals that stop a server. From the first call on they no longer end the process, so one that comes between two calls
/// is kept for the next.
#[derive(Default)]
pub(crate) struct StopSignal(Option<[platform::Signal; 2]>);

impl StopSignal {
    async fn received(&mut self) -> Result<(), StartError> {
        use platform::{SignalKind, signal};
        let failed =
            |why: std::io::Error| StartError::failed(format!("cannot install signal handlers: {why}"));
        let installed = match self.0.take() {
            Some(installed) => installed,
            None => [
                signal(SignalKind::interrupt()).map_err(failed)?,
                signal(SignalKind::terminate()).map_err(failed)?,
            ],
        };
        let [interrupt, terminate] = self.0.insert(installed);
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    fn options(data: &Path) -> Options {
        let data = Some(data.to_owned());
        Options { bind: Some("127.0.0.1:0".to_owned()), data, ..Options::default() }
    }

    async fn send(address: SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn reply(mut stream: TcpStream) -> String {
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        reply
    }

    #[tokio::test]
    async fn the_first_request_finds_the_agents_attached() {
        let data = tempfile::tempdir().unwrap();
        let config = Config::settle(options(data.path()), |_| None).unwrap();
        let world = World::real();
        let registry = agents::registry(&config, &world).unwrap();
        let redactor = Arc::new(Redactor::shapes());
        let (running, listeners, pool) = assemble(&config, world, registry, redactor, None).await.unwrap();
        let early = send(running.address, "/v1/policy/mcp/any/tool").await;
        begin(&running, listeners, pool).await.unwrap();
        let reply = reply(early).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        running.stop().await;
    }

    #[tokio::test]
    async fn a_failing_export_of_traces_is_measured_and_stops_no_run() {
        let data = tempfile::tempdir().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let file = data.path().join("c.toml");
        std::fs::write(&file, format!("[otel]\nendpoint = \"http://{closed}\"\nlogs = true\n")).unwrap();
        let options = Options { config: Some(file), ..options(&data.path().join("data")) };
        let inside = start_embedded(options).await.unwrap();
        let tenant = inside.running.gate.tenants.get_or_create("acme").await.unwrap();
        let run = recount_engine::NewRun {
            queued: recount_event::family::run::Queued::new(recount_event::family::run::RunKind::External),
            task: None,
            session: None,
            resumed_from: None,
        };
        let (run, _) = tenant.write().create_run(run).await.unwrap();
        let question = r#"{"clarification_id":"q1","question":"which one?"}"#;
        let events = [("run.started", "{}"), ("clarification.requested", question)];
        let events = events.map(|(name, data)| recount_event::door::draft(name, data).unwrap());
        let producer = recount_event::ForeignId::parse("p").unwrap();
        let batch = recount_engine::BatchId { producer, epoch: 1, seq: 0 };
        tenant.write().ingest(run, batch, events.into()).await.unwrap();
        let cancel = Command::Cancel { by: CancelledBy::Operator, reason: "test".to_owned() };
        tenant.write().submit(run, cancel).await.unwrap();
        let mut page = String::new();
        for _ in 0..1_000 {
            page = reply(send(inside.running.address, "/metrics").await).await;
            if page.contains("recount_otel_requests_failed_total 1") {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await; // tidy: looks again until it failed
        }
        for line in
            ["recount_otel_requests_failed_total 1", "recount_otel_runs_total 0", "recount_otel_lag_events"]
        {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(!page.contains("recount_otel_lag_events 0"), "{page}");
        let waited = "recount_human_wait_seconds_count{kind=\"clarification\",outcome=\"cancelled\"} 1";
        assert!(page.contains(waited), "{page}");
        check_dashboard(&page);
        inside.running.stop().await;
    }

    /// Every query of the Grafana dashboard names metrics and labels that the page has.
    fn check_dashboard(page: &str) {
        let dashboard = include_str!("../../../packaging/grafana/recount.json");
        let dashboard: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        let queries = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
        let queries: Vec<&str> = queries.map(|target| target["expr"].as_str().unwrap()).collect();
        assert!(queries.len() > 20, "{queries:?}");
        for query in queries {
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names = words.filter(|word| word.starts_with("recount_") || word.starts_with("process_"));
            for name in names {
                let has_label = |line: &str, label: &str| line.contains(&format!("{label}=\""));
                let is_sample =
                    |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
                let mut samples = page.lines().filter(is_sample).peekable();
                assert!(samples.peek().is_some(), "no metric {name}: {query}");
                let by = query.split_once(" by (").map_or("", |(_, rest)| rest.split(')').next().unwrap());
                for label in by.split(", ").filter(|label| !label.is_empty()) {
                    assert!(samples.clone().any(|line| has_label(line, label)), "no label {label}: {query}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_server_that_executes_no_runs_yet_is_not_ready() {
        let data = tempfile::tempdir().unwrap();
        let inside = start_embedded(options(data.path())).await.unwrap();
        let address = inside.running.address;
        let before = reply(send(address, "/readyz").await).await;
        assert!(
            before.starts_with("HTTP/1.1 503") && before.contains("no agent executes runs yet"),
            "{before}"
        );
        inside.work().await.unwrap();
        let after = reply(send(address, "/readyz").await).await;
        assert!(after.starts_with("HTTP/1.1 200"), "{after}");
        inside.running.stop().await;
    }
}
