//! An engine with the native face and this one, clients with scopes, and requests to both.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{self, Next};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use recount_engine::{Caller, Engine, Narrowing, RequestContext, Scope, watch_of};
use recount_face_aep::{FaceState, SseFraming};
use recount_log::MemoryStore;
use recount_world::World;
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub(crate) struct TestContext {
    engine: Engine,
    faces: Router,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        let shown = || String::from_utf8_lossy(&self.body).into_owned();
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {}", shown()))
    }
}
