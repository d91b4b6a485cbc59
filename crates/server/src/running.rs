//! A server that is up: for the command that runs it, and for tests that want one in process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use axum::{Router, middleware};
use recount_engine::Engine;
use recount_event::Code;
use recount_face_aep::{Places, Refusal, SseFraming};
use recount_log::Store;
use recount_log_sqlite::Durability;
use recount_world::World;
use tokio::net::TcpListener;

use crate::backup::Backups;
use crate::connection::House;
use crate::doors::Doors;
use crate::metrics::{Requests, Sources};
use crate::{Files, StartError, backup, doctor, guard, health, limits, listen, metrics, web};

/// Where a server keeps its data and how carefully, for what operators ask of it.
#[derive(Debug, Clone)]
pub struct Home {
    pub data: PathBuf,
    pub durability: Durability,
}

pub struct Running {
    pub address: SocketAddr,
    pub engine: Engine,
}

impl Running {
    /// Binds, then opens the engine on a store and listens.
    pub async fn start(store: Arc<dyn Store>, world: World, bind: SocketAddr) -> Result<Self, StartError> {
        Running::on(claim(bind).await?, store, world, None).await
    }

    /// The same with a home, so that operators can ask for backups and a check-up.
    pub async fn start_at_home(
        store: Arc<dyn Store>,
        world: World,
        bind: SocketAddr,
        home: Home,
    ) -> Result<Self, StartError> {
        Running::on(claim(bind).await?, store, world, Some(home)).await
    }

    /// The same on an address that is ours already; who connects before waits until the engine is open.
    pub(crate) async fn on(
        listener: TcpListener,
        store: Arc<dyn Store>,
        world: World,
        home: Option<Home>,
    ) -> Result<Self, StartError> {
        let engine = Engine::open(store, world.clone(), Arc::new(SseFraming))
            .await
            .map_err(|error| StartError::failed(format!("the store cannot be used: {error}")))?;
        let address = listener
            .local_addr()
            .map_err(|why| StartError::failed(format!("what was bound has no address: {why}")))?;
        let doors = Doors::new(Files::now().connections_max());
        let full = full(doors.places_max(), &world);
        let sources = Sources {
            engine: engine.clone(),
            doors: doors.clone(),
            requests: Requests::new(&OTHER_ROUTES),
            started: recount_world::moment(),
            started_ms: world.clock.now_ms(),
        };
        let house = House { router: router(sources, home, address), doors, clock: world.clock.clone() };
        listen::start(listener, house, full, &world);
        Ok(Running { address, engine })
    }

    /// Stops accepting, lets streams go, lets writers finish, closes the store.
    pub async fn stop(self) -> usize {
        self.engine.shutdown().await
    }
}

/// Takes an address, before anything else is done that would have to be undone.
pub(crate) async fn claim(bind: SocketAddr) -> Result<TcpListener, StartError> {
    let bound = listen::bind(bind).await;
    bound.map_err(|why| StartError::failed(format!("{bind} cannot be bound: {why}; choose another --bind")))
}

/// What is served beside the native face.
const OTHER_ROUTES: [&str; 6] = ["/", "/admin/backups", "/admin/doctor", "/healthz", "/metrics", "/readyz"];

fn router(sources: Sources, home: Option<Home>, address: SocketAddr) -> Router {
    let (engine, requests) = (sources.engine.clone(), sources.requests.clone());
    let router = recount_face_aep::router(Places::new(recount_face_aep::limits::STREAMS_MAX))
        .merge(health::router(engine.clone()))
        .merge(web::router())
        .merge(metrics::router(sources.clone()))
        .merge(home.map_or_else(Router::new, |home| admin(sources, home)))
        .method_not_allowed_fallback(recount_face_aep::method_not_allowed)
        .layer(middleware::from_fn_with_state(
            guard::Gate { bound: address, engine: engine.clone() },
            guard::guard,
        ))
        .layer(middleware::from_fn_with_state(requests, metrics::count));
    recount_face_aep::identified(router, engine.world().clone())
}

/// What operators ask of a server that has a data folder.
fn admin(sources: Sources, home: Home) -> Router {
    let backups = Backups::new(sources.engine.clone(), &home.data);
    let server = doctor::Server { sources, home };
    let look = Router::new().route("/admin/doctor", get(doctor::look)).with_state(server);
    Router::new().route("/admin/backups", post(backup::make)).with_state(backups).merge(look)
}

/// What is said to those for whom there is no place.
fn full(places_max: usize, world: &World) -> Router {
    let refuse = move || async move {
        let detail = format!("{places_max} connections are open already; try again shortly");
        let refusal = Refusal::new(Code::TooManyStreams, detail);
        Refusal { retry_after: Some(limits::CONNECTIONS_RETRY), ..refusal }.into_response()
    };
    recount_face_aep::identified(Router::new().fallback(refuse), world.clone())
}
