//! The face over a store in memory, called without a connection.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use recount_engine::RequestContext;
use recount_engine::{Caller, Engine};
use recount_face_aep::{FaceState, SseFraming};
use recount_log::MemoryStore;
use recount_world::World;
use serde_json::Value;
use tower::ServiceExt as _;

pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<MemoryStore>,
    router: Router,
}

impl Stage {
    pub(crate) async fn set(places: FaceState) -> Stage {
        Stage::of(|| recount_face_aep::router(places)).await
    }

    /// The same with another router.
    pub(crate) async fn of(router: impl FnOnce() -> Router) -> Stage {
        let world = World::seeded(7, 1_800_000_000_000);
        let store = Arc::new(MemoryStore::new());
        let engine = Engine::open(store.clone(), world.clone(), Arc::new(SseFraming)).await.unwrap();
        let router = {
            let visitor = RequestContext { engine: engine.clone(), caller: Caller::operator() };
            let router = router().layer(axum::Extension(visitor));
            recount_face_aep::identified(router, world, engine.write().redactor().clone())
        };
        Stage { engine, store, router }
    }

    pub(crate) async fn ask(&self, method: Method, target: &str, accept: &str, body: Body) -> Response {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header("accept", accept)
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn new_run(&self) -> String {
        let body = Body::from(r#"{"kind":"external"}"#);
        let reply = self.ask(Method::POST, "/v1/runs", "*/*", body).await;
        json(reply).await["data"]["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn append(&self, run: &str, seq: u64, events: &str) {
        let body = format!(r#"{{"producer":{{"id":"p","epoch":0,"seq":{seq}}},"events":[{events}]}}"#);
        let target = format!("/v1/runs/{run}/events");
        let reply = self.ask(Method::POST, &target, "*/*", body.into()).await;
        assert_eq!(reply.status(), 200);
    }

    pub(crate) async fn stream(&self, target: &str) -> Response {
        self.ask(Method::GET, target, "text/event-stream", Body::empty()).await
    }
}

pub(crate) async fn json(reply: Response) -> Value {
    serde_json::from_slice(&reply.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

/// The next piece of a stream's body, as text; `None` at its end.
pub(crate) async fn piece(body: &mut Body) -> Option<String> {
    let frame = body.frame().await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}
