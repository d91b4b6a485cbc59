//! A running server: its routes, its listener and its shutdown. For the command, and for tests in process. See
//! [`Running`].

use std::net::{Ipv4Addr, SocketAddr};
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use axum::response::IntoResponse as _;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Router, middleware};
use http::Method;
use recount_api::routes::{SERVER_ROUTES, ServerRouteName};
use recount_engine::{Engine, Profiles, Redactor};
use recount_event::Code;
use recount_face_aep::{FaceState, Refusal, SseFraming, check_query};
use recount_log::Store;
use recount_world::World;
use serde_json::json;
use tokio::net::TcpListener;

use crate::access::{Access, ActiveTokens, Gate};
use crate::audit::{Audit, Relay};
use crate::backup::Backups;
use crate::boxed;
use crate::config::{Aaep, Aap, Config, RoomAccess, SignInSettings, Webhooks};
use crate::connection::{HeadLimits, ServerContext};
use crate::connection_limits::ConnectionLimits;
use crate::decide::{DecisionLinks, Decisions};
use crate::encryption::Encryption;
use crate::forwarding::{ForwardAcceptor, NodeKey};
use crate::metrics::{Requests, Sources};
use crate::sign_in::SignInService;
use crate::spread::Spread;
use crate::stores::Stores;
use crate::tenants::{ServedTenants, Tenants};
use crate::tls::ServerTls;
#[cfg(unix)]
use crate::unix_socket::{self, BoundSocket};
use crate::webhooks::WebhookService;
use crate::webhooks::requests::{self, WebhookRequests};
use crate::{
    Files, StartError, applications, audit, backup, contract, decide, doctor, guard, health, limits, listen,
    listeners, metrics, ownership, removals, sign_in, signing_keys, spread, tokens, web,
};

/// The settings of access and of the faces.
#[derive(Clone, Default)]
pub(crate) struct ServerSettings {
    pub(crate) access: Access,
    pub(crate) aap: Aap,
    pub(crate) aaep: Aaep,
    pub(crate) profiles: Arc<Profiles>,
    /// Encrypts connections, if they are to be encrypted.
    pub(crate) tls: Option<ServerTls>,
    /// Where events are sent, and the URL of links in messages.
    pub(crate) webhooks: Webhooks,
    pub(crate) public_url: Option<String>,
    /// How people sign in, if they can.
    pub(crate) sign_in: Option<Arc<SignInSettings>>,
    /// Each configured value with its source, for the audit trail.
    pub(crate) settings: serde_json::Value,
    pub(crate) served: ServedTenants,
    /// Takes the events of the audit trail, where another server has it.
    pub(crate) relay: Option<Arc<Relay>>,
}

pub struct Running {
    /// The bound TCP address. Its port is 0 if the server listens on a Unix socket only.
    pub address: SocketAddr,
    /// The file of the Unix socket, if there is one.
    pub socket: Option<PathBuf>,
    /// The further address whose root is a room, if there is one.
    pub room_address: Option<SocketAddr>,
    /// The engine of the default tenant.
    pub engine: Engine,
    pub(crate) gate: Gate,
    pub(crate) sources: Sources,
    #[cfg(test)]
    pub(crate) webhooks: Arc<WebhookService>,
}

/// The sockets of a server: what is bound before the store is opened, and what is bound with it.
#[derive(Default)]
pub(crate) struct ServerSockets {
    pub(crate) tcp: Option<TcpListener>,
    #[cfg(unix)]
    pub(crate) unix: Option<UnixSource>,
}

/// The Unix socket of a server. Its file is created by the owner of the stores only, so a standby has none.
#[cfg(unix)]
pub(crate) enum UnixSource {
    Path(PathBuf),
    /// A socket that the service manager opened.
    Passed {
        listener: UnixListener,
        path: PathBuf,
    },
}

impl From<TcpListener> for ServerSockets {
    fn from(listener: TcpListener) -> Self {
        ServerSockets { tcp: Some(listener), ..ServerSockets::default() }
    }
}

impl ServerSockets {
    pub(crate) async fn bind(config: &Config) -> Result<Self, StartError> {
        #[cfg(unix)]
        {
            let failed =
                |why| StartError::failed(format!("cannot use a socket of the service manager: {why}"));
            let tcp = match (config.passed.tcp(), config.bind.address) {
                (Some(listener), _) => {
                    let listener = listener.try_clone().map_err(failed)?;
                    listener.set_nonblocking(true).map_err(failed)?;
                    Some(TcpListener::from_std(listener).map_err(failed)?)
                }
                (None, Some(address)) => Some(bind_server(address).await?),
                (None, None) => None,
            };
            let unix = match (config.passed.unix(), &config.bind.socket) {
                (Some(listener), Some(path)) => {
                    let listener = listener.try_clone().map_err(failed)?;
                    Some(UnixSource::Passed { listener, path: path.clone() })
                }
                (_, path) => path.clone().map(UnixSource::Path),
            };
            Ok(ServerSockets { tcp, unix })
        }
        #[cfg(not(unix))]
        match config.bind.address {
            Some(address) => Ok(bind_server(address).await?.into()),
            None => Err(StartError::usage("this operating system has no Unix sockets; bind an address")),
        }
    }

    pub(crate) fn address(&self) -> Result<Option<SocketAddr>, StartError> {
        self.tcp.as_ref().map(address_of).transpose()
    }

    fn path(&self) -> Option<PathBuf> {
        #[cfg(unix)]
        match &self.unix {
            Some(UnixSource::Path(path) | UnixSource::Passed { path, .. }) => return Some(path.clone()),
            None => {}
        }
        None
    }
}

/// The Unix socket of the owner of the stores.
#[cfg(unix)]
enum OwnSocket {
    Bound(BoundSocket),
    /// The former owner of the database still listens on it.
    Awaited(PathBuf),
}

#[cfg(unix)]
impl UnixSource {
    /// With `may_wait`, the server starts also while another one listens on the socket: it has an address, too.
    async fn bind(self, may_wait: bool) -> Result<OwnSocket, StartError> {
        match self {
            UnixSource::Path(path) if may_wait => match BoundSocket::try_bind(&path).await? {
                Some(socket) => Ok(OwnSocket::Bound(socket)),
                None => {
                    tracing::warn!(
                        path = %path.display(),
                        "another server listens on the socket; this one does as soon as the other has ended"
                    );
                    Ok(OwnSocket::Awaited(path))
                }
            },
            UnixSource::Path(path) => Ok(OwnSocket::Bound(BoundSocket::bind(&path).await?)),
            UnixSource::Passed { listener, path } => BoundSocket::passed(listener)
                .map(OwnSocket::Bound)
                .map_err(|why| StartError::failed(format!("cannot use {}: {why}", path.display()))),
        }
    }
}

/// Bound addresses of a server that accepts no connection yet.
pub(crate) struct Listeners {
    bound: Vec<(TcpListener, ServerContext)>,
    #[cfg(unix)]
    socket: Option<(OwnSocket, ServerContext)>,
    router: Router,
    full: Router,
    world: World,
}

impl Listeners {
    /// What serves requests, for a server without a listener.
    pub(crate) fn router(self) -> Router {
        self.router
    }

    /// Accepts connections, including those that were opened before.
    pub(crate) fn start(self) {
        for (listener, context) in self.bound {
            listen::start(listener, context, self.full.clone(), &self.world);
        }
        #[cfg(unix)]
        match self.socket {
            Some((OwnSocket::Bound(socket), context)) => {
                listen::start(socket, context, self.full, &self.world);
            }
            Some((OwnSocket::Awaited(path), context)) => {
                unix_socket::start_when_free(path, context, self.full, &self.world);
            }
            None => {}
        }
    }
}

impl Running {
    /// Binds an address, opens the engine on a store, and listens.
    #[boxed]
    pub async fn start(store: Arc<dyn Store>, world: World, bind: SocketAddr) -> Result<Self, StartError> {
        let (running, listeners) = Running::on(
            bind_server(bind).await?.into(),
            store,
            world,
            None,
            ServerSettings::default(),
            shapes(),
        )
        .await?;
        listeners.start();
        Ok(running)
    }

    /// The same with a data folder, so that operators can request backups and health checks, and with rules of
    /// access.
    #[boxed]
    pub async fn start_at_home(
        store: Arc<dyn Store>,
        world: World,
        bind: SocketAddr,
        stores: Stores,
        access: Access,
    ) -> Result<Self, StartError> {
        let entry = ServerSettings { access, ..ServerSettings::default() };
        let (running, listeners) =
            Running::on(bind_server(bind).await?.into(), store, world, Some(stores), entry, shapes()).await?;
        listeners.start();
        Ok(running)
    }

    /// The same on a bound address; connections wait for [`Listeners::start`].
    #[boxed]
    pub(crate) async fn on(
        sockets: ServerSockets,
        store: Arc<dyn Store>,
        world: World,
        stores: Option<Stores>,
        entry: ServerSettings,
        redactor: Arc<Redactor>,
    ) -> Result<(Self, Listeners), StartError> {
        let (bound_address, socket_path) = (sockets.address()?, sockets.path());
        let is_near = bound_address.is_some_and(|bound| bound.ip().to_canonical().is_loopback());
        let is_in_database = stores.as_ref().is_some_and(|stores| stores.database().is_some());
        let room_listener = bind_room(&entry, is_near).await?;
        let key = match &stores {
            Some(stores) => {
                let of_key = world.clone();
                Some(stores.wait_for(&world, move |stores| stores.key(&of_key)).await?)
            }
            None => None,
        };
        let engine = Engine::open_with_key(store, world.clone(), Arc::new(SseFraming), redactor, key)
            .await
            .map_err(|error| StartError::failed(format!("cannot use the store: {error}")))?;
        #[cfg(unix)]
        let unix_socket = match sockets.unix {
            Some(source) => Some(source.bind(is_in_database && bound_address.is_some()).await?),
            None => None,
        };
        let address = bound_address.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into());
        let tokens = ActiveTokens::load(engine.clone()).await;
        let tokens =
            tokens.map_err(|error| StartError::failed(format!("cannot read the tokens: {error}")))?;
        let tenants = Tenants::open(engine.clone(), stores.clone().zip(key), entry.served).await?;
        sign_heads(&tenants, key.is_some()).await?;
        let facts = json!({
            "version": env!("CARGO_PKG_VERSION"), "address": bound_address.map(|address| address.to_string()),
            "socket": socket_path, "settings": entry.settings,
        });
        record_start(&tenants, stores.as_ref(), &engine, entry.relay, facts).await?;
        let ServerSettings {
            access, aap, aaep, profiles, tls, webhooks, public_url, sign_in, served, ..
        } = entry;
        let gate = Gate::new(bound_address, access, aap, tenants, tokens, &world);
        if served != ServedTenants::HandedOver {
            create_tenants_of_users(&gate).await?;
        }
        if bound_address.is_some() && !is_near && gate.tokens.is_empty() && sign_in.is_none() {
            let place = if is_in_database { "--store URL" } else { "--data FOLDER" };
            return Err(StartError::usage(format!(
                "{address} is not a loopback address and no token exists; create a token with `recount token \
                 add {place}`, or bind a loopback address"
            )));
        }
        let connections = ConnectionLimits::new(places_max(served));
        let full = full(connections.places_max(), &engine);
        let links = key.as_ref().zip(public_url).map(|(key, url)| DecisionLinks::new(key, &url));
        let (staying, tenants) = (webhooks.tenants(), gate.tenants.clone());
        let service = WebhookService::start(&webhooks, &gate.tenants, links.as_ref(), &world);
        let sources = Sources {
            webhooks: service.clone(),
            tenants: gate.tenants.clone(),
            connections: connections.clone(),
            places: FaceState::new(recount_face_aep::limits::STREAMS_MAX),
            turns: recount_face_aap::FaceState::new(profiles, recount_face_aap::limits::STREAMS_MAX),
            listeners: listeners::face(&world, key.as_ref(), &engine, aaep, gate.tenants.audit().cloned())
                .await?,
            recorders: recount_face_hooks::FaceState::default(),
            requests: Requests::new(&gate.aap.base_paths),
            started: recount_world::moment(),
            started_ms: world.clock.now_ms(),
        };
        let decisions = links.map(|links| Decisions { links, webhooks, tenants });
        let sign_in = sign_in
            .zip(key.as_ref())
            .map(|(settings, key)| Arc::new(SignInService::new(settings, gate.clone(), key, world.clone())));
        let router = router(sources.clone(), stores, &gate, aaep.rooms.access, decisions, sign_in);
        let forwards = key.filter(|_| is_in_database).map(|key| {
            let (key, entropy) = (NodeKey::derive(&key), world.entropy.clone());
            Arc::new(ForwardAcceptor { key, entropy, allows_anonymous: gate.allows_anonymous() })
        });
        if served == ServedTenants::Spread {
            Spread::start(&gate.tenants, key.as_ref(), staying, tls.is_some());
        }
        let mut bound = Vec::new();
        let mut room_address = None;
        if let Some(listener) = room_listener {
            let address = address_of(&listener)?;
            let router = listeners::at_root(router.clone(), aaep.rooms.at_root(), address);
            bound.push((listener, unencrypted(router, &connections, &world)));
            room_address = Some(address);
        }
        if let Some(tls) = &tls {
            tls.keep_current(&world);
        }
        #[cfg(unix)]
        let socket = unix_socket.map(|socket| (socket, unencrypted(router.clone(), &connections, &world)));
        let encryption = tls.map(|tls| Encryption::new(tls, &world, engine.write().redactor()));
        let plain = unencrypted(router.clone(), &connections, &world);
        let context = ServerContext { encryption, forwards, ..plain };
        bound.extend(sockets.tcp.map(|listener| (listener, context)));
        let running = Running {
            address,
            socket: socket_path,
            room_address,
            engine,
            gate,
            sources,
            #[cfg(test)]
            webhooks: service,
        };
        let listeners = Listeners {
            bound,
            #[cfg(unix)]
            socket,
            router,
            full,
            world,
        };
        Ok((running, listeners))
    }

    /// Stops accepting, ends streams, lets writers finish, closes all stores, and disconnects from a database.
    #[boxed]
    pub async fn stop(self) -> usize {
        let left = self.end().await;
        self.gate.tenants.disconnect().await;
        left
    }

    /// The same without disconnecting, for a part of a process that goes on.
    #[boxed]
    pub(crate) async fn end(&self) -> usize {
        let audit = self.gate.tenants.audit().filter(|audit| !audit.is_relayed());
        // Before the writers end. Later removals are in the log only.
        if let Some(audit) = audit {
            audit.end().await;
        }
        let left = self.gate.tenants.shutdown().await;
        if let Some(audit) = audit {
            audit.engine().shutdown().await;
        }
        left
    }
}

/// Binds the further address whose root is a room, if there is one.
async fn bind_room(entry: &ServerSettings, is_near: bool) -> Result<Option<TcpListener>, StartError> {
    let Some(bind) = entry.aaep.rooms.bind else { return Ok(None) };
    entry.aaep.rooms.check(is_near && !entry.access.require_token)?;
    Ok(Some(bind_for("aaep.room_bind", bind).await?))
}

/// How many connections of clients are served. Where tenants are spread, each may need one to another server.
fn places_max(served: ServedTenants) -> usize {
    let most = Files::now().connections_max();
    if served == ServedTenants::Spread { (most / 2).max(1) } else { most }
}

/// With a key, heads of runs are signed from now on.
async fn sign_heads(tenants: &Tenants, has_key: bool) -> Result<(), StartError> {
    if has_key {
        let failed = |error| StartError::failed(format!("cannot sign heads of runs: {error}"));
        tenants.sign_heads().await.map_err(failed)?;
    }
    Ok(())
}

/// Opens the audit trail, which begins with these facts about the server.
async fn record_start(
    tenants: &Tenants,
    stores: Option<&Stores>,
    engine: &Engine,
    relay: Option<Arc<Relay>>,
    facts: serde_json::Value,
) -> Result<(), StartError> {
    if let Some(relay) = relay {
        tenants.record_in(Audit::of_another_server(engine.clone(), relay));
        return Ok(());
    }
    let Some(stores) = stores else { return Ok(()) };
    let redactor = engine.write().redactor().clone();
    tenants.record_in(Audit::open(stores, engine.world().clone(), redactor, facts).await?);
    tenants.record_dropped_ends().await;
    Ok(())
}

/// What the connections of a further listener share.
fn unencrypted(router: Router, connections: &Arc<ConnectionLimits>, world: &World) -> ServerContext {
    let (connections, world) = (connections.clone(), world.clone());
    ServerContext {
        router,
        connections,
        world,
        encryption: None,
        forwards: None,
        heads: HeadLimits::OF_CLIENTS,
    }
}

/// Creates the missing tenants of configured users.
async fn create_tenants_of_users(gate: &Gate) -> Result<(), StartError> {
    for (name, user) in &gate.access.unix_users {
        let refused = |why: &str| {
            StartError::usage(format!("access.unix_users.{name}.tenant {:?}: {why}", user.tenant))
        };
        if user.tenant == audit::TENANT {
            return Err(refused("it is reserved for the audit trail; choose another name"));
        }
        gate.tenants.ensure(&user.tenant).await.map_err(|refusal| refused(&refusal.detail))?;
    }
    Ok(())
}

pub(crate) fn address_of(listener: &TcpListener) -> Result<SocketAddr, StartError> {
    let failed = |why| StartError::failed(format!("cannot read the address of the listener: {why}"));
    listener.local_addr().map_err(failed)
}

fn shapes() -> Arc<Redactor> {
    Arc::new(Redactor::shapes())
}

/// Binds an address first, because everything later would have to be undone.
pub(crate) async fn bind_server(bind: SocketAddr) -> Result<TcpListener, StartError> {
    bind_for("--bind", bind).await
}

async fn bind_for(setting: &str, bind: SocketAddr) -> Result<TcpListener, StartError> {
    let bound = listen::bind(bind).await;
    bound.map_err(|why| StartError::failed(format!("cannot bind {bind}: {why}; choose another {setting}")))
}

fn router(
    sources: Sources,
    stores: Option<Stores>,
    gate: &Gate,
    rooms: RoomAccess,
    decisions: Option<Decisions>,
    sign_in: Option<Arc<SignInService>>,
) -> Router {
    let (engine, requests) = (gate.tenants.default_engine(), sources.requests.clone());
    let refusal_state = (gate.aap.clone(), engine.write().redactor().clone());
    let native = recount_face_aep::router(sources.places.clone());
    // Refusals to one that calls it in process are recorded like those to other clients.
    let watched = native.clone().layer(middleware::from_fn_with_state(gate.clone(), removals::watch));
    let in_process =
        recount_face_aep::identified(watched, engine.world().clone(), engine.write().redactor().clone());
    let router = native
        .clone()
        .nest(audit::PREFIX, native)
        .merge(web::router())
        .merge(decide::router(decisions))
        .merge(sign_in::pages(sign_in.clone()))
        .merge(server_router(&sources, stores.as_ref(), gate, sign_in.as_ref()));
    let router = applications::mount(router, &gate.aap, sources.turns.clone())
        .merge(recount_face_aaep::router(sources.listeners.clone()))
        .merge(recount_face_hooks::router(sources.recorders.clone()))
        .merge(recount_face_mcp::router(in_process))
        .method_not_allowed_fallback(recount_face_aep::method_not_allowed)
        .layer(middleware::from_fn(ownership::doubt_old_state))
        .layer(middleware::from_fn_with_state(gate.clone(), spread::forward));
    let router = match gate.tenants.served() {
        // The main server watches these requests.
        ServedTenants::HandedOver => router,
        ServedTenants::All | ServedTenants::Spread => {
            router.layer(middleware::from_fn_with_state(gate.clone(), removals::watch))
        }
    };
    let router = router
        .layer(middleware::from_fn_with_state(rooms, listeners::rooms))
        .layer(middleware::from_fn_with_state(gate.clone(), guard::guard))
        .layer(middleware::map_response(guard::forbid_sniffing_and_embedding))
        .layer(middleware::from_fn_with_state(refusal_state, applications::format_refusals))
        .layer(middleware::from_fn_with_state(engine.write().redactor().clone(), listeners::format_refusals))
        .layer(middleware::from_fn_with_state(requests, metrics::count));
    recount_face_aep::identified(router, engine.world().clone(), engine.write().redactor().clone())
}

/// The router of [`SERVER_ROUTES`].
fn server_router(
    sources: &Sources,
    stores: Option<&Stores>,
    gate: &Gate,
    sign_in: Option<&Arc<SignInService>>,
) -> Router {
    let mut router = Router::new();
    for route in SERVER_ROUTES {
        let method = Method::from_bytes(route.method.as_bytes()).ok();
        let filter =
            method.and_then(|method| MethodFilter::try_from(method).ok()).unwrap_or(MethodFilter::GET);
        if let Some(answers) = server_route(route.name, filter, sources, stores, gate, sign_in) {
            let answers = match (route.name, route.scopes) {
                // Monitoring may add query parameters that a proxy or a cache needs.
                (_, []) | (ServerRouteName::Measure, _) => answers,
                _ => answers.layer(middleware::from_fn_with_state(*route, check_query)),
            };
            router = router.route(route.path, answers);
        }
    }
    router
}

/// One handler per route; the compiler checks that all are present. Without a data folder some are missing.
fn server_route(
    name: ServerRouteName,
    filter: MethodFilter,
    sources: &Sources,
    stores: Option<&Stores>,
    gate: &Gate,
    sign_in: Option<&Arc<SignInService>>,
) -> Option<MethodRouter> {
    let tenants = || gate.tenants.clone();
    let webhooks = || WebhookRequests::new(&sources.webhooks, gate);
    let for_default_admin =
        |answers: MethodRouter| answers.layer(middleware::from_fn(tokens::default_admin_only));
    let of_a_tenant = |answers: MethodRouter| answers.layer(middleware::from_fn(tokens::admin_only));
    Some(match name {
        ServerRouteName::AddToken => of_a_tenant(on(filter, tokens::add).with_state(gate.clone())),
        ServerRouteName::ListTokens => of_a_tenant(on(filter, tokens::list).with_state(gate.clone())),
        ServerRouteName::RemoveToken => of_a_tenant(on(filter, tokens::remove).with_state(gate.clone())),
        ServerRouteName::MakeTicket | ServerRouteName::MakeTicketToo => {
            on(filter, tokens::ticket).with_state(gate.clone())
        }
        ServerRouteName::MakeBackup => {
            for_default_admin(on(filter, backup::make).with_state(Backups::new(tenants(), stores?)))
        }
        ServerRouteName::ListSigningKeys => on(filter, signing_keys::list).with_state(tenants()),
        ServerRouteName::RotateSigningKey => {
            of_a_tenant(on(filter, signing_keys::rotate).with_state(gate.clone()))
        }
        ServerRouteName::ListWebhooks => of_a_tenant(on(filter, requests::list).with_state(webhooks())),
        ServerRouteName::ListDeadLetters => {
            of_a_tenant(on(filter, requests::dead_letters).with_state(webhooks()))
        }
        ServerRouteName::RequestDelivery => of_a_tenant(on(filter, requests::deliver).with_state(webhooks())),
        ServerRouteName::LookAtHealth => {
            let server = doctor::Server { sources: sources.clone(), stores: stores?.clone() };
            for_default_admin(on(filter, doctor::checkup).with_state(server))
        }
        ServerRouteName::DescribeSignIn => on(filter, sign_in::about).with_state(sign_in.cloned()),
        ServerRouteName::FinishSignIn => on(filter, sign_in::finish).with_state(sign_in.cloned()?),
        ServerRouteName::StartDeviceSignIn => on(filter, sign_in::start_device).with_state(sign_in.cloned()?),
        ServerRouteName::FinishDeviceSignIn => {
            on(filter, sign_in::finish_device).with_state(sign_in.cloned()?)
        }
        ServerRouteName::EndSignIn => on(filter, sign_in::end).with_state(gate.clone()),
        ServerRouteName::IsAlive => on(filter, health::alive),
        ServerRouteName::IsReady => on(filter, health::ready).with_state(tenants()),
        ServerRouteName::Measure => {
            for_default_admin(on(filter, metrics::metrics).with_state(sources.clone()))
        }
        ServerRouteName::Describe => on(filter, contract::describe),
        ServerRouteName::Explain => on(filter, contract::explain),
    })
}

/// The response to connections beyond the limit.
fn full(places_max: usize, engine: &Engine) -> Router {
    let refuse = move || async move {
        let detail = format!(
            "the limit of {places_max} connections is reached, except for connections reserved for other \
             addresses; try again shortly"
        );
        let refusal = Refusal::new(Code::TooManyStreams, detail);
        Refusal { retry_after: Some(limits::CONNECTIONS_RETRY), ..refusal }.into_response()
    };
    let router = Router::new().fallback(refuse);
    recount_face_aep::identified(router, engine.world().clone(), engine.write().redactor().clone())
}
