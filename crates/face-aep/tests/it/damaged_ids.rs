//! Tests that rows with unreadable ids are reported as damage of the store by every route.

use axum::body::Body;
use bytes::Bytes;
use http::Method;
use recount_face_aep::{FaceState, limits};
use recount_log::{Append, Guard, RowPut, Store as _};

use crate::stage::{Stage, json};

const ASK: &str = r#"{"type":"run.started","data":{}},{"type":"approval.requested","data":{"approval_id":"a1","tool_call_id":"c1","kind":"bash","summary":"rm -rf","timeout_seconds":60}}"#;

/// Writes another id into a row, beneath the engine.
async fn rewrite(stage: &Stage, space: &str, key: &str, place: &str) {
    let row = stage.store.row(space, key).await.unwrap().unwrap();
    let mut value: serde_json::Value = serde_json::from_slice(&row.value).unwrap();
    value[place] = "no id".into();
    let value = Some(Bytes::from(value.to_string()));
    let put = RowPut { space: space.into(), key: key.into(), guard: Guard::Any, value };
    stage.store.append(Append { rows: vec![put], ..Append::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_damaged_run_id_in_a_row_is_reported_as_damage() {
    let stage = Stage::set(FaceState::new(limits::STREAMS_MAX)).await;
    let run = stage.new_run().await;
    stage.append(&run, 0, ASK).await;
    let whole = stage.ask(Method::GET, "/v1/approvals/a1", "*/*", Body::empty()).await;
    assert_eq!(whole.status(), 200);
    rewrite(&stage, "catalogue.approvals", "default/a1", "run_id").await;
    let answer = Body::from(r#"{"decision":"approve"}"#);
    for (method, target, body) in
        [(Method::GET, "/v1/approvals/a1", Body::empty()), (Method::POST, "/v1/approvals/a1/resolve", answer)]
    {
        let reply = stage.ask(method, target, "*/*", body).await;
        let status = reply.status();
        let problem = json(reply).await;
        assert_eq!(
            (status.as_u16(), &problem["code"]),
            (500, &"store_corrupt".into()),
            "{target}: {problem}"
        );
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("catalogue.approvals/default/a1"), "{detail}");
    }
    // Lists go on without it, and name it.
    let list = json(stage.ask(Method::GET, "/v1/approvals", "*/*", Body::empty()).await).await;
    assert_eq!(list["data"], serde_json::json!([]), "{list}");
    assert!(list.to_string().contains("catalogue.approvals/default/a1"), "{list}");
}
