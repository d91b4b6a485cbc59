//! Two versions of the face side by side: another table with other handlers, and nothing of the first one changes.

use axum::body::Body;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use http_body_util::BodyExt as _;
use recount_api::scope::Scope;
use recount_api::terms::{self, Route, parameter};
use recount_event::Code;
use recount_face_aep::{FaceState, Refusal, mount};

use crate::stage::{Stage, json};

/// A second version in which runs are shown otherwise and there is something new.
#[derive(Debug, Clone, Copy)]
enum Second {
    ListRuns,
    ListPlaces,
    RefuseAll,
}

const TABLE: &[Route<Second>] = &[
    route(Second::ListRuns, "/runs", &[parameter::LIST_LIMIT]),
    route(Second::ListPlaces, "/places", &[]),
    route(Second::RefuseAll, "/refused", &[]),
];

const fn route(name: Second, path: &'static str, query: &'static [terms::Parameter]) -> Route<Second> {
    Route {
        name,
        method: "GET",
        path,
        scopes: &[Scope::Read],
        does: "Represents a later version.",
        query,
        body: terms::NOTHING,
        gives: &[],
        refuses: &[Code::TaskBusy],
    }
}

fn handler(name: Second, filter: MethodFilter) -> MethodRouter<()> {
    match name {
        Second::ListRuns => on(filter, async || r#"{"runs":{"by_id":{}}}"#),
        Second::ListPlaces => on(filter, async || r#"{"places":[]}"#),
        Second::RefuseAll => on(filter, async || Refusal::new(Code::TaskBusy, "the second version refuses")),
    }
}

async fn text(stage: &Stage, target: &str) -> (u16, String) {
    let reply = stage.ask(Method::GET, target, "*/*", Body::empty()).await;
    let status = reply.status().as_u16();
    let bytes = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_second_version_is_served_beside_the_first() {
    let places = FaceState::new(4);
    let stage = Stage::of(|| recount_face_aep::router(places).nest("/v2", mount(TABLE, handler))).await;
    let run = stage.new_run().await;
    for prefix in ["/v1", "/hecate/v1"] {
        let page = json(stage.ask(Method::GET, &format!("{prefix}/runs"), "*/*", Body::empty()).await).await;
        assert_eq!(page["data"][0]["id"], run, "the first is as it was");
    }
    assert_eq!(text(&stage, "/v2/runs").await, (200, r#"{"runs":{"by_id":{}}}"#.to_owned()));
    assert_eq!(text(&stage, "/v2/places").await, (200, r#"{"places":[]}"#.to_owned()));
    // Routes of one version do not exist in the other, and both refuse with the same message.
    for (target, status, code) in [
        ("/v1/places", 404, "route_not_found"),
        ("/v2/tasks", 404, "route_not_found"),
        ("/v2/refused", 409, "task_busy"),
        ("/v2/runs?after=x", 400, "parameter_invalid"),
        ("/v1/runs?after=x", 400, "cursor_foreign"),
    ] {
        let (was, body) = text(&stage, target).await;
        assert_eq!(was, status, "{target}: {body}");
        assert!(body.contains(&format!("\"code\":\"{code}\"")), "{target}: {body}");
    }
}
