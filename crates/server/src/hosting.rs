//! Serves the tenants that the main server hands over, at a standby. See [`Hosting`].

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

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
use recount_world::{Shutdown, World};
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::agents::AgentPool;
use crate::assembly::HostedServer;
use crate::audit::{Relay, RelayRequest};
use crate::connection::{self, Ends, ServerContext};
use crate::connection_limits::ConnectionLimits;
use crate::forwarding::{ForwardAcceptor, KnownOwner, NodeKey};
use crate::peer::Peer;
use crate::spread::client::{CLIENT, ClientHeader, DRY_RUN};
use crate::spread::peers::{AUDIT, CHECKS, KEYS, METRICS, READY, TENANTS, VERSION};
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
    /// One change at a time.
    change: tokio::sync::Mutex<()>,
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
}

impl Hosting {
    pub(crate) fn new(
        config: &Config,
        registry: &Registry,
        redactor: &Arc<Redactor>,
        world: &World,
        stores: &Stores,
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
            change: tokio::sync::Mutex::default(),
            hosted: RwLock::default(),
            never: watch::channel(false).0,
        }))
    }

    /// Serves a connection of the main server.
    pub(crate) async fn serve(
        &self,
        stream: TcpStream,
        from: SocketAddr,
        owner: &KnownOwner,
        shutdown: Shutdown,
    ) {
        let (node, stream) = match self.0.acceptor.accept_server(stream, self.0.tls.as_ref()).await {
            Ok(accepted) => accepted,
            Err(error) => {
                return tracing::info!(%from, %error, "a connection of another server was closed");
            }
        };
        let is_main = owner.borrow().as_ref().is_some_and(|owner| owner.node == node);
        if !is_main {
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
        };
        let ends = Ends { peer: Peer::Address(from), arrived_at: None, is_encrypted: false };
        connection::serve(stream, ends, Arc::new(context), shutdown).await;
    }

    /// Gives all tenants back when the main server that handed them over no longer owns the stores.
    pub(crate) async fn follow(&self, mut owner: KnownOwner) -> Infallible {
        loop {
            let now = owner.borrow_and_update().as_ref().map(|owner| owner.node.clone());
            if self.hosted().is_some_and(|hosted| Some(&hosted.main) != now.as_ref()) {
                tracing::info!("another server owns the stores: giving the tenants back");
                self.give_all_back().await;
            }
            if owner.changed().await.is_err() {
                std::future::pending::<Infallible>().await;
            }
        }
    }

    /// Ends all engines and gives their stores back. Call it again if it did not finish.
    pub(crate) async fn give_all_back(&self) {
        let _one_at_a_time = self.0.change.lock().await;
        self.end_hosted().await;
    }

    async fn end_hosted(&self) {
        if let Some(hosted) = self.hosted() {
            hosted.server.running.end().await;
            *self.0.hosted.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    fn hosted(&self) -> Option<Arc<Hosted>> {
        self.0.hosted.read().unwrap_or_else(PoisonError::into_inner).clone()
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
        let _one_at_a_time = self.0.change.lock().await;
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
        let relay = Arc::<Relay>::default();
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
        Ok(Hosted { main: main.to_owned(), server, relay })
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
    if path == READY {
        return Ok(json(&VERSION));
    }
    if let Some(tenant) = path.strip_prefix(TENANTS) {
        return match *request.method() {
            Method::PUT => hosting.take(tenant, main).await.map(|()| json(&true)),
            Method::DELETE => {
                let hosted = hosting.hosted_of(main)?;
                Ok(json(&hosted.server.running.gate.tenants.give_back(tenant).await?))
            }
            _ => Ok(StatusCode::METHOD_NOT_ALLOWED.into_response()),
        };
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
