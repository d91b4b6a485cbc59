//! Serves the tenants that the main server hands over, at a standby. See [`Hosting`].

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, Method, StatusCode};
use recount_agent::model::Registry;
use recount_api::admin::{Checkup, SigningKeys};
use recount_engine::Redactor;
use recount_event::Code;
use recount_face_aep::{DryRun, Refusal};
use recount_log::MemoryStore;
use recount_world::{Kind, Shutdown, World};
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::ServiceExt as _;

use crate::agents::AgentPool;
use crate::assembly::HostedServer;
use crate::audit::{Relay, RelayRequest};
use crate::connection::{self, Ends, HeadLimits, ServerContext};
use crate::connection_limits::ConnectionLimits;
use crate::forwarding::{ForwardAcceptor, KnownOwner, NodeKey};
use crate::peer::Peer;
use crate::spread::client::{CLIENT, ClientHeader, DRY_RUN};
use crate::spread::peers::{AUDIT, CHECKS, KEYS, LOOK, METRICS, SeenServer, TENANTS, VERSION};
use crate::stores::Stores;
use crate::tls::ServerTls;
use crate::{Config, StartError, doctor, limits, metrics, signing_keys};

/// Tenants of the main server at this standby. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hosting(Arc<HostingState>);

struct HostingState {
    config: Config,
    registry: Registry,
    redactor: Arc<Redactor>,
    /// Ends on its own, because the process goes on when the tenants are given back.
    world: World,
    stores: Stores,
    acceptor: ForwardAcceptor,
    tls: Option<ServerTls>,
    connections: Arc<ConnectionLimits>,
    owner: KnownOwner,
    /// One change at a time. Whether none is allowed any more.
    ended: tokio::sync::Mutex<bool>,
    is_stopping: AtomicBool,
    hosted: RwLock<Option<Arc<Hosted>>>,
    /// Callers are revoked by the main server only.
    never: watch::Sender<bool>,
}

/// The server of these tenants.
struct Hosted {
    /// The main server that handed them over.
    main: String,
    server: HostedServer,
    relay: Arc<Relay>,
    /// When the main server looked.
    looked: Mutex<Instant>,
}

impl Hosting {
    pub(crate) fn new(
        config: &Config,
        registry: &Registry,
        redactor: &Arc<Redactor>,
        world: &World,
        stores: &Stores,
        owner: KnownOwner,
        (key, tls): (NodeKey, Option<ServerTls>),
    ) -> Self {
        let acceptor = ForwardAcceptor { key, entropy: world.entropy.clone(), allows_anonymous: false };
        Hosting(Arc::new(HostingState {
            config: config.clone(),
            registry: registry.clone(),
            redactor: redactor.clone(),
            world: world.clone(),
            stores: stores.clone(),
            acceptor,
            tls,
            connections: ConnectionLimits::new(crate::Files::now().connections_max()),
            owner,
            ended: tokio::sync::Mutex::default(),
            is_stopping: AtomicBool::default(),
            hosted: RwLock::default(),
            never: watch::channel(false).0,
        }))
    }

    /// Serves a connection of the main server.
    pub(crate) async fn serve(&self, stream: TcpStream, from: SocketAddr, shutdown: Shutdown) {
        let (node, stream) = match self.0.acceptor.accept_server(stream, self.0.tls.as_ref()).await {
            Ok(accepted) => accepted,
            Err(error) => {
                return tracing::debug!(%from, %error, "a connection of another server was closed");
            }
        };
        if !self.is_main(&node) {
            return tracing::info!(%from, node, "a connection was closed: this server does not own the stores");
        }
        let router = Router::new().fallback(receive).with_state((self.clone(), Arc::<str>::from(node)));
        // Encodes the refusals of this router; the main server passes them to clients.
        let router = recount_face_aep::identified(router, self.0.world.clone(), self.0.redactor.clone());
        let context = ServerContext {
            router,
            connections: self.0.connections.clone(),
            world: self.0.world.clone(),
            encryption: None,
            forwards: None,
            heads: HeadLimits::BETWEEN_SERVERS,
        };
        let ends = Ends { peer: Peer::Address(from), arrived_at: None, is_encrypted: false };
        connection::serve(stream, ends, Arc::new(context), shutdown).await;
    }

    fn is_main(&self, node: &str) -> bool {
        self.0.owner.borrow().as_ref().is_some_and(|owner| owner.node == node)
    }

    /// Gives all tenants back when the main server that handed them over no longer owns the stores, or when it does not look
    /// for this server any more: then clients cannot reach them.
    pub(crate) async fn follow(&self) -> Infallible {
        loop {
            if let Some(hosted) = self.hosted() {
                let looked = *hosted.looked.lock().unwrap_or_else(PoisonError::into_inner);
                let is_silent =
                    recount_world::moment().saturating_duration_since(looked) > limits::SPREAD_SILENCE;
                if is_silent || !self.is_main(&hosted.main) {
                    tracing::info!(
                        is_silent,
                        "the main server is another one or silent: giving the tenants back"
                    );
                    self.give_all_back().await;
                }
            }
            tokio::time::sleep(limits::SPREAD_LOOK).await;
        }
    }

    async fn give_all_back(&self) {
        let _one_at_a_time = self.0.ended.lock().await;
        self.end_hosted().await;
    }

    /// Gives all tenants back, and takes none any more. Call it again if it did not finish.
    pub(crate) async fn end(&self) {
        self.0.is_stopping.store(true, Ordering::SeqCst);
        let mut ended = self.0.ended.lock().await;
        *ended = true;
        self.end_hosted().await;
    }

    async fn end_hosted(&self) {
        if let Some(hosted) = self.hosted() {
            let left = hosted.server.running.end().await;
            if left > 0 {
                tracing::warn!(left, "tasks of tenants did not end before these were given back");
            }
            *self.0.hosted.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    fn hosted(&self) -> Option<Arc<Hosted>> {
        self.0.hosted.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the main server sees when it looks.
    fn seen(&self, main: &str) -> SeenServer {
        let hosted = self.hosted_of(main).ok();
        if let Some(hosted) = &hosted {
            *hosted.looked.lock().unwrap_or_else(PoisonError::into_inner) = recount_world::moment();
        }
        let served = hosted.iter().flat_map(|hosted| hosted.server.running.gate.tenants.all());
        SeenServer {
            version: VERSION.to_owned(),
            tenants: served.map(|(name, _)| name).collect(),
            is_stopping: self.0.is_stopping.load(Ordering::SeqCst),
        }
    }

    /// The server of the tenants of this main server.
    fn hosted_of(&self, main: &str) -> Result<Arc<Hosted>, Refusal> {
        self.hosted().filter(|hosted| hosted.main == main).ok_or_else(|| {
            Refusal::new(
                Code::StoreUnavailable,
                "this server has no tenant of the main server; try again shortly",
            )
        })
    }

    async fn take(&self, tenant: &str, main: &str) -> Result<(), Refusal> {
        let ended = self.0.ended.lock().await;
        if *ended || !self.is_main(main) {
            return Err(Refusal::new(Code::StoreUnavailable, "this server takes no tenants of that server"));
        }
        if self.hosted().is_some_and(|hosted| hosted.main != main) {
            self.end_hosted().await;
        }
        let hosted = match self.hosted() {
            Some(hosted) => hosted,
            None => {
                let failed = |why: StartError| Refusal::new(Code::StoreUnavailable, why.to_string());
                let hosted = Arc::new(self.start(main).await.map_err(failed)?);
                *self.0.hosted.write().unwrap_or_else(PoisonError::into_inner) = Some(hosted.clone());
                hosted
            }
        };
        tracing::info!(tenant, main, "serves a tenant");
        hosted.server.running.gate.tenants.take(tenant).await
    }

    async fn start(&self, main: &str) -> Result<Hosted, StartError> {
        let HostingState { config, registry, redactor, world, stores, .. } = &*self.0;
        let relay = Arc::new(Relay::new(world.entropy.draw() as u64));
        let pool = AgentPool::build(config, registry.clone()).await?;
        let server = HostedServer::start(
            config,
            world.separate(),
            (stores.clone(), Arc::new(MemoryStore::default())),
            pool,
            redactor.clone(),
            relay.clone(),
        )
        .await?;
        let looked = Mutex::new(recount_world::moment());
        Ok(Hosted { main: main.to_owned(), server, relay, looked })
    }
}

/// A request of the main server: of a client that it has identified, or its own.
async fn receive(State((hosting, main)): State<(Hosting, Arc<str>)>, mut request: Request) -> Response {
    let Some(client) = request.headers_mut().remove(CLIENT) else {
        return own(&hosting, &main, request)
            .await
            .unwrap_or_else(|refusal| (StatusCode::SERVICE_UNAVAILABLE, refusal.detail).into_response());
    };
    let hosted = match hosting.hosted_of(&main) {
        Ok(hosted) => hosted,
        Err(refusal) => {
            return Refusal { retry_after: Some(limits::STANDBY_RETRY), ..refusal }.into_response();
        }
    };
    let Some(client) = ClientHeader::read(&client) else {
        return (StatusCode::BAD_REQUEST, "the client of a request is unreadable").into_response();
    };
    client.add_to(&mut request, &hosting.0.never);
    let response = hosted.server.router.clone().oneshot(request).await;
    let mut response = response.unwrap_or_else(|never| match never {});
    if response.extensions().get::<DryRun>().is_some() {
        response.headers_mut().insert(DRY_RUN, HeaderValue::from_static("true"));
    }
    response
}

async fn own(hosting: &Hosting, main: &str, request: Request) -> Result<Response, Refusal> {
    let path = request.uri().path().to_owned();
    if path == LOOK {
        return Ok(json(&hosting.seen(main)));
    }
    if let Some(tenant) = path.strip_prefix(TENANTS) {
        let (hosting_too, main, tenant) = (hosting.clone(), main.to_owned(), tenant.to_owned());
        // They go on if the main server no longer waits.
        let changed = match *request.method() {
            Method::PUT => {
                let taking = async move { hosting_too.take(&tenant, &main).await.map(|()| true) };
                hosting.0.world.tasks.finish(Kind::Effect, taking).await
            }
            Method::DELETE => {
                let hosted = hosting.hosted_of(&main)?;
                let giving = async move { Ok(hosted.server.running.gate.tenants.give_back(&tenant).await?) };
                hosting.0.world.tasks.finish(Kind::Effect, giving).await
            }
            _ => return Ok(StatusCode::METHOD_NOT_ALLOWED.into_response()),
        };
        let panicked = |_| Refusal::new(Code::StoreUnavailable, "the change of a tenant did not finish");
        return changed.map_err(panicked)?.map(|changed| json(&changed));
    }
    let hosted = hosting.hosted_of(main)?;
    let sources = &hosted.server.running.sources;
    Ok(match &*path {
        AUDIT => {
            let body = axum::body::to_bytes(request.into_body(), limits::PEER_RESPONSE_BYTES_MAX).await;
            let request: RelayRequest = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
            json(&hosted.relay.next(&request).await)
        }
        KEYS => json(&SigningKeys { keys: signing_keys::of_tenants(&sources.tenants).await? }),
        CHECKS => {
            let full = request.uri().query() == Some("full=true");
            json(&Checkup { checks: doctor::of_hosted(&sources.tenants, full).await })
        }
        METRICS => Body::from(metrics::read(sources).await).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    })
}

fn json(value: &impl Serialize) -> Response {
    Body::from(serde_json::to_vec(value).expect("texts, numbers and lists of them are valid JSON"))
        .into_response()
}
