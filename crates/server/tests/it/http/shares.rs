//! Fair shares: an owner of all shared slots does not block others.

use recount_event::Code;
use recount_face_aep::limits::{ARTIFACT_BYTES_AT_ONCE, UPLOAD_BODY_BYTES_MAX};

use crate::http::access::{context_with_token, make_token, request_as};
use crate::test_context::{TestContext, check_problem, text};
use crate::wire::{Reply, Wire, request};

/// Uploads an artifact and returns its id.
async fn upload(context: &TestContext, token: &str, bytes: &[u8]) -> String {
    let reply = try_upload(context, token, bytes).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    text(&reply.data()["id"])
}

async fn try_upload(context: &TestContext, token: &str, bytes: &[u8]) -> Reply {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/octet-stream")];
    context.request("POST", "/v1/artifacts", &headers, Some(bytes)).await
}

/// Requests an artifact and reads only the head of the response.
async fn read_slowly(context: &TestContext, token: &str, artifact: &str) -> (Wire, u16) {
    let bearer = format!("Bearer {token}");
    let target = format!("/v1/artifacts/{artifact}/raw");
    let mut wire = Wire::connect(context.address).await;
    wire.send(&request(context.address, "GET", &target, &[("authorization", &bearer)], None)).await;
    let status = wire.head().await.unwrap().status;
    (wire, status)
}

#[tokio::test]
async fn slow_readers_of_one_tenant_keep_no_other_from_its_artifacts() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let all = r#""scopes":["read","run"]"#;
    let slow = make_token(&context, Some(&admin), &format!(r#"{{"name":"a","tenant":"slow",{all}}}"#)).await;
    let quick =
        make_token(&context, Some(&admin), &format!(r#"{{"name":"b","tenant":"quick",{all}}}"#)).await;
    // Bytes that no mask matches, and far more than sockets buffer.
    let large: Vec<u8> = (0..UPLOAD_BODY_BYTES_MAX).map(|at| (at % 251) as u8 | 0x80).collect();
    let theirs = upload(&context, &slow, &large).await;
    let ours = upload(&context, &quick, &large).await;

    let mut readers = Vec::new();
    let full = loop {
        let (wire, status) = read_slowly(&context, &slow, &theirs).await;
        if status != 200 {
            break status;
        }
        readers.push(wire);
        let held = readers.len() * UPLOAD_BODY_BYTES_MAX;
        assert!(held <= ARTIFACT_BYTES_AT_ONCE, "{} readers hold more than there is", readers.len());
    };
    assert_eq!(full, 503);
    let target = format!("/v1/artifacts/{theirs}/raw");
    let refused = request_as(&context, Some(&slow), "GET", &target, None).await;
    check_problem(&refused, Code::StoreBusy, "one more of the same");
    assert!(refused.header("retry-after").is_some());

    let target = format!("/v1/artifacts/{ours}/raw");
    for round in 0..10 {
        let reply = request_as(&context, Some(&quick), "GET", &target, None).await;
        assert_eq!((reply.status, reply.body.len()), (200, large.len()), "round {round}");
        assert_eq!(try_upload(&context, &quick, b"\xffsmall").await.status, 201, "round {round}");
    }
    let page = request_as(&context, Some(&admin), "GET", "/metrics", None).await;
    assert!(page.text().contains("recount_artifacts_refused_total 2"), "{}", page.text());
    // Released bytes can be used again.
    readers.clear();
    let target = format!("/v1/artifacts/{theirs}/raw");
    let began = recount_world::moment();
    while request_as(&context, Some(&slow), "GET", &target, None).await.status != 200 {
        assert!(began.elapsed().as_secs() < 60, "nothing is released");
        tokio::task::yield_now().await;
    }
}
