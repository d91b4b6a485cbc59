//! What is shared: an owner of all shared places does not keep others from being served.

use recount_event::Code;
use recount_face_aep::limits::{ARTIFACT_BYTES_AT_ONCE, UPLOAD_BODY_BYTES_MAX};

use crate::house::{House, check_problem, text};
use crate::http::access::{ask_as, closed_house, make_token};
use crate::wire::{Reply, Wire, request};

/// Sends an artifact in and answers its id.
async fn upload(house: &House, token: &str, bytes: &[u8]) -> String {
    let reply = try_upload(house, token, bytes).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    text(&reply.data()["id"])
}

async fn try_upload(house: &House, token: &str, bytes: &[u8]) -> Reply {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/octet-stream")];
    house.ask("POST", "/v1/artifacts", &headers, Some(bytes)).await
}

/// Asks for an artifact and takes no more than the head of the answer.
async fn read_slowly(house: &House, token: &str, artifact: &str) -> (Wire, u16) {
    let bearer = format!("Bearer {token}");
    let target = format!("/v1/artifacts/{artifact}/raw");
    let mut wire = Wire::connect(house.address).await;
    wire.send(&request(house.address, "GET", &target, &[("authorization", &bearer)], None)).await;
    let status = wire.head().await.unwrap().status;
    (wire, status)
}

#[tokio::test]
async fn slow_readers_of_one_tenant_keep_no_other_from_its_artifacts() {
    let data = tempfile::tempdir().unwrap();
    let (house, admin) = closed_house(data.path()).await;
    let all = r#""scopes":["read","run"]"#;
    let slow = make_token(&house, Some(&admin), &format!(r#"{{"name":"a","tenant":"slow",{all}}}"#)).await;
    let quick = make_token(&house, Some(&admin), &format!(r#"{{"name":"b","tenant":"quick",{all}}}"#)).await;
    // Such as no mask could match, and far more than sockets hold.
    let large: Vec<u8> = (0..UPLOAD_BODY_BYTES_MAX).map(|at| (at % 251) as u8 | 0x80).collect();
    let theirs = upload(&house, &slow, &large).await;
    let ours = upload(&house, &quick, &large).await;

    let mut readers = Vec::new();
    let full = loop {
        let (wire, status) = read_slowly(&house, &slow, &theirs).await;
        if status != 200 {
            break status;
        }
        readers.push(wire);
        let held = readers.len() * UPLOAD_BODY_BYTES_MAX;
        assert!(held <= ARTIFACT_BYTES_AT_ONCE, "{} readers hold more than there is", readers.len());
    };
    assert_eq!(full, 503);
    let target = format!("/v1/artifacts/{theirs}/raw");
    let refused = ask_as(&house, Some(&slow), "GET", &target, None).await;
    check_problem(&refused, Code::StoreBusy, "one more of the same");
    assert!(refused.header("retry-after").is_some());

    let target = format!("/v1/artifacts/{ours}/raw");
    for round in 0..10 {
        let reply = ask_as(&house, Some(&quick), "GET", &target, None).await;
        assert_eq!((reply.status, reply.body.len()), (200, large.len()), "round {round}");
        assert_eq!(try_upload(&house, &quick, b"\xffsmall").await.status, 201, "round {round}");
    }
    let page = ask_as(&house, Some(&admin), "GET", "/metrics", None).await;
    assert!(page.text().contains("recount_artifacts_refused_total 2"), "{}", page.text());
    // What is given back can be taken again.
    readers.clear();
    let target = format!("/v1/artifacts/{theirs}/raw");
    let began = recount_world::moment();
    while ask_as(&house, Some(&slow), "GET", &target, None).await.status != 200 {
        assert!(began.elapsed().as_secs() < 60, "nothing is given back");
        tokio::task::yield_now().await;
    }
}
