//! An engine with this face and the native one, and requests to them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use http_body_util::BodyExt as _;
use recount_engine::{Caller, Engine, RequestContext};
use recount_event::Code;
use recount_face_aep::SseFraming;
use recount_face_hooks::FaceState;
use recount_faulty_store::{AppendFault, Disk, FaultyStore};
use recount_log::{
    Append, FaultKind, Guard, MemoryStore, ReadBound, Row, RowPut, RowRange, Store as _, StreamAppend,
};
use recount_world::World;
use serde_json::Value;
use tokio::sync::oneshot;
use tower::ServiceExt as _;

use crate::wire::Reply;

#[derive(Clone)]
pub(crate) struct TestContext {
    router: Router,
    pub(crate) running: Running,
    /// The store of the engine, whose appends can fail.
    faults: Arc<FaultyStore>,
}

#[derive(Clone)]
pub(crate) struct Running {
    engine: Engine,
    store: Arc<MemoryStore>,
    folder: Option<PathBuf>,
}

impl Running {
    /// Ends the engine. What it acknowledged is there again for the next one.
    pub(crate) async fn stop(self) {
        let copy = copied(&self.store).await;
        self.engine.shutdown().await;
        if let Some(folder) = self.folder {
            STORES.lock().unwrap().get_or_insert_default().insert(folder, Arc::new(copy));
        }
    }
}

/// The events and records of a store; lists are made of them again.
async fn copied(store: &MemoryStore) -> MemoryStore {
    let copy = MemoryStore::new();
    let everything = ReadBound { count: usize::MAX, bytes: usize::MAX };
    for found in store.read_feed(1, everything).await.unwrap() {
        let part = StreamAppend {
            stream: found.stream.clone(),
            expected_tail: found.record.sequence,
            records: vec![found.record.bytes.clone()],
        };
        copy.append(Append { streams: vec![part], ..Append::default() }).await.unwrap();
    }
    for space in ["record.sessions", "record.recorded_sessions", "record.producers", "record.once"] {
        let range = RowRange {
            space: space.into(),
            prefix: "".into(),
            after: None,
            backwards: false,
            limit: usize::MAX,
        };
        let rows = store.rows(range).await.unwrap().into_iter();
        let put = |row: Row| RowPut {
            space: space.into(),
            key: row.key,
            guard: Guard::Any,
            value: Some(row.value),
        };
        copy.append(Append { rows: rows.map(put).collect(), ..Append::default() }).await.unwrap();
    }
    copy
}

/// Stores by folder, as the last engine left them.
static STORES: Mutex<Option<HashMap<PathBuf, Arc<MemoryStore>>>> = Mutex::new(None);

impl TestContext {
    pub(crate) async fn memory() -> TestContext {
        TestContext::over(Arc::new(MemoryStore::new()), None).await
    }

    /// A store that is there again under the same folder.
    pub(crate) async fn sqlite(folder: &Path) -> TestContext {
        let left = STORES.lock().unwrap().get_or_insert_default().remove(folder);
        TestContext::over(left.unwrap_or_default(), Some(folder.to_owned())).await
    }

    async fn over(store: Arc<MemoryStore>, folder: Option<PathBuf>) -> TestContext {
        let faults = FaultyStore::new(&Disk::wrapping(store.clone()));
        let engine = Engine::open(faults.clone(), World::real(), Arc::new(SseFraming)).await.unwrap();
        let visitor = RequestContext { engine: engine.clone(), caller: Caller::operator() };
        let router = recount_face_aep::router(recount_face_aep::FaceState::new(100))
            .merge(recount_face_hooks::router(FaceState::default()))
            .layer(middleware::from_fn(move |mut request: Request, next: Next| {
                request.extensions_mut().insert(visitor.clone());
                next.run(request)
            }));
        let router =
            recount_face_aep::identified(router, engine.world().clone(), engine.write().redactor().clone());
        TestContext { router, running: Running { engine, store, folder }, faults }
    }

    /// Lets the store refuse the next appends.
    pub(crate) fn refuse(&self, times: usize) {
        self.faults.next_appends((0..times).map(|_| AppendFault::Refuse(FaultKind::Busy)));
    }

    /// Lets the next append of the store wait until the sender sends.
    pub(crate) fn hold_next_append(&self) -> oneshot::Sender<()> {
        let (release, held) = oneshot::channel();
        self.faults.next_appends([AppendFault::Hold(held)]);
        release
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Reply {
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
        self.request("GET", target, &[], None).await
    }

    pub(crate) async fn post(&self, target: &str, body: &str) -> Reply {
        self.request("POST", target, &[("content-type", "application/json")], Some(body.as_bytes())).await
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
    assert_eq!(
        (reply.status, problem["code"].as_str()),
        (code.row().status, Some(code.row().name)),
        "{about}: {problem}"
    );
    problem
}
