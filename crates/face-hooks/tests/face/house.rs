//! An engine with this face and the native one, and requests to them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use http_body_util::BodyExt as _;
use recount_engine::{Caller, Engine, Visitor};
use recount_event::Code;
use recount_face_aep::SseFraming;
use recount_face_hooks::FaceState;
use recount_log::MemoryStore;
use recount_world::World;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::wire::Reply;

#[derive(Clone)]
pub(crate) struct House {
    router: Router,
    pub(crate) running: Running,
}

#[derive(Clone)]
pub(crate) struct Running(Engine);

impl Running {
    pub(crate) async fn stop(self) {
        self.0.shutdown().await;
    }
}

/// Stores by folder, which outlive an engine.
static STORES: Mutex<Option<HashMap<PathBuf, Arc<MemoryStore>>>> = Mutex::new(None);

impl House {
    pub(crate) async fn memory() -> House {
        House::over(Arc::new(MemoryStore::new())).await
    }

    /// A store that is there again under the same folder.
    pub(crate) async fn sqlite(folder: &Path) -> House {
        let store = {
            let mut stores = STORES.lock().unwrap();
            let stores = stores.get_or_insert_default();
            stores.entry(folder.to_owned()).or_insert_with(|| Arc::new(MemoryStore::new())).clone()
        };
        House::over(store).await
    }

    async fn over(store: Arc<MemoryStore>) -> House {
        let engine = Engine::open(store, World::real(), Arc::new(SseFraming)).await.unwrap();
        let visitor = Visitor { engine: engine.clone(), caller: Caller::operator() };
        let router = recount_face_aep::router(recount_face_aep::FaceState::new(100))
            .merge(recount_face_hooks::router(FaceState::default()))
            .layer(middleware::from_fn(move |mut request: Request, next: Next| {
                request.extensions_mut().insert(visitor.clone());
                next.run(request)
            }));
        let router = recount_face_aep::identified(router, engine.world().clone(), engine.write().redactor().clone());
        House { router, running: Running(engine) }
    }

    pub(crate) async fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Reply {
        let mut request = http::Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.unwrap_or_default().to_vec())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Reply { status, body: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    pub(crate) async fn get(&self, target: &str) -> Reply {
        if target == "/healthz" {
            return Reply { status: 200, body: String::new() };
        }
        self.ask("GET", target, &[], None).await
    }

    pub(crate) async fn post(&self, target: &str, body: &str) -> Reply {
        self.ask("POST", target, &[("content-type", "application/json")], Some(body.as_bytes())).await
    }

    /// The envelopes of a run.
    pub(crate) async fn envelopes(&self, target: &str) -> Vec<String> {
        let page = self.get(&format!("{target}?limit=1000")).await.json();
        assert_eq!(page["has_more"], false, "{target}");
        page["data"].as_array().unwrap().iter().map(Value::to_string).collect()
    }
}

pub(crate) fn check_problem(reply: &Reply, code: Code, about: &str) -> Value {
    let problem = reply.json();
    assert_eq!((reply.status, problem["code"].as_str()), (code.row().status, Some(code.row().name)), "{about}: {problem}");
    problem
}
