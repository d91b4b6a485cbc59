//! Bytes of artifacts: compression, output from the log, form uploads, idempotent uploads, pinning and deleting.

use std::io::Read as _;

use recount_event::Code;
use serde_json::json;

use crate::http::access::{context_with_token, make_token, request_as};
use crate::http::contract::check_contract;
use crate::test_context::{TestContext, check_problem, text};
use crate::wire::Reply;

async fn sent(context: &TestContext, kind: &str, mime: &str, bytes: &[u8]) -> String {
    let target = format!("/v1/artifacts?kind={kind}");
    let reply = context.request("POST", &target, &[("content-type", mime)], Some(bytes)).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.header("location").unwrap().to_owned()
}

fn unpacked(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*reply.body).read_to_end(&mut bytes).unwrap();
    bytes
}

#[tokio::test]
async fn text_is_compressed_on_request_and_parts_of_it_never() {
    let context = TestContext::memory().await;
    let plain = "a line that comes again and again\n".repeat(20_000).into_bytes();
    let raw = format!("{}/raw", sent(&context, "file", "text/plain", &plain).await);
    let get = async |headers: &[(&str, &str)]| context.request("GET", &raw, headers, None).await;
    let whole = get(&[]).await;
    assert!(whole.body == plain && whole.header("content-encoding").is_none());
    assert_eq!(whole.header("vary"), Some("accept-encoding"));
    let tag = whole.header("etag").unwrap().to_owned();

    let packed = get(&[("accept-encoding", "br, gzip")]).await;
    assert_eq!((packed.status, packed.header("content-encoding")), (200, Some("gzip")));
    assert!(packed.body.len() < plain.len() / 20 && unpacked(&packed) == plain);
    assert_eq!(
        (packed.header("vary"), packed.header("content-type")),
        (Some("accept-encoding"), Some("text/plain"))
    );
    let packed_tag = packed.header("etag").unwrap().to_owned();
    assert!(
        packed_tag.starts_with("W/\"") && packed_tag != tag && packed_tag != format!("W/{tag}"),
        "{packed_tag}"
    );

    // Each encoding has its own tag.
    for (encoding, held, status) in [
        ("gzip", &packed_tag, 304),
        ("identity", &tag, 304),
        ("gzip", &tag, 200),
        ("identity", &packed_tag, 200),
    ] {
        let reply = get(&[("accept-encoding", encoding), ("if-none-match", held)]).await;
        assert_eq!(reply.status, status, "{encoding} {held}");
        assert_eq!(reply.header("vary"), Some("accept-encoding"));
        assert_eq!(reply.header("etag"), Some(if encoding == "gzip" { &*packed_tag } else { &*tag }));
    }
    // A part is never compressed, and a compressed copy cannot be completed.
    let part = get(&[("accept-encoding", "gzip"), ("range", "bytes=5-9"), ("if-range", &tag)]).await;
    assert_eq!((part.status, part.header("content-encoding"), &*part.body), (206, None, &plain[5..10]));
    assert_eq!(part.header("etag"), Some(&*tag));
    let part = get(&[("accept-encoding", "gzip"), ("range", "bytes=5-9"), ("if-range", &packed_tag)]).await;
    assert_eq!((part.status, part.header("content-encoding")), (200, Some("gzip")));
    assert!(unpacked(&part) == plain);
    for none in ["gzip;q=0", "identity", "gzip;q=0.1, identity;q=0.2", "br"] {
        assert!(get(&[("accept-encoding", none)]).await.body == plain, "{none}");
    }
    let head = context.request("HEAD", &raw, &[("accept-encoding", "gzip")], None).await;
    assert_eq!((head.status, head.header("content-encoding"), head.body.len()), (200, Some("gzip"), 0));

    for (mime, bytes) in [("image/png", plain.as_slice()), ("text/plain", &plain[..1_000])] {
        let kind = if mime == "image/png" { "image" } else { "file" };
        let raw = format!("{}/raw", sent(&context, kind, mime, bytes).await);
        let reply = context.request("GET", &raw, &[("accept-encoding", "gzip")], None).await;
        assert!(reply.header("content-encoding").is_none() && reply.body == bytes, "{mime}");
    }
    context.running.stop().await;
}

/// Reports a command whose output is in its events.
async fn reported_output(context: &TestContext) -> (String, Vec<u8>) {
    let run = context.new_run().await;
    let call = r#"{"tool_call_id":"c1","tool_name":"shell_exec","kind":"shell"}"#;
    let command = r#"{"tool_call_id":"c1","argv":["make"],"cwd":"/w"}"#;
    let begin = [
        ("run.started", "{}"),
        ("tool.invoked", call),
        ("tool.started", call),
        ("tool.shell.command", command),
    ];
    context.report(&run, 0, &begin).await;
    let (mut all, mut seq) = (String::new(), 1);
    for number in 0..50 {
        let piece = format!("{number}: {}\n", "compiled ".repeat(2_000));
        let data = serde_json::to_string(&piece).unwrap();
        let offset = all.len();
        let chunk =
            format!(r#"{{"tool_call_id":"c1","stream":"stdout","data":{data},"byte_offset":{offset}}}"#);
        context.report(&run, seq, &[("tool.shell.output_chunk", &chunk)]).await;
        all += &piece;
        seq += 1;
    }
    let size = all.len();
    let created = format!(
        r#"{{"artifact_id":"out","kind":"command_output","size_bytes":{size},"mime":"text/plain","tool_call_id":"c1","log_from_sequence":4}}"#
    );
    context.report(&run, seq, &[("artifact.created", &created)]).await;
    (run, all.into_bytes())
}

#[tokio::test]
async fn an_output_is_served_from_the_log_also_when_it_is_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let (run, all) = reported_output(&context).await;
    check_output(&context, &all).await;
    let refused = context.request("DELETE", "/v1/artifacts/out", &[], None).await;
    let problem = check_problem(&refused, Code::ArtifactInLog, "in the log");
    assert!(text(&problem["detail"]).contains(&run), "{problem}");
    context.running.stop().await;
    recount_server::verify::seal(folder.path()).await.unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    check_output(&context, &all).await;
    assert_eq!(context.post(&format!("/v1/runs/{run}/cancel"), "{}").await.status, 200);
    let pruned = context.post(&format!("/v1/runs/{run}/prune"), r#"{"before":20}"#).await;
    assert_eq!(pruned.status, 200, "{}", pruned.text());
    // The error precedes any byte.
    check_problem(
        &context.get("/v1/artifacts/out/raw").await,
        Code::ArtifactPruned,
        "its beginning was pruned",
    );
    context.running.stop().await;
}

async fn check_output(context: &TestContext, all: &[u8]) {
    let get =
        async |headers: &[(&str, &str)]| context.request("GET", "/v1/artifacts/out/raw", headers, None).await;
    let whole = get(&[]).await;
    assert!(whole.body == all, "{} of {} bytes", whole.body.len(), all.len());
    assert_eq!(whole.header("content-length"), Some(&*all.len().to_string()));
    let tag = whole.header("etag").unwrap().to_owned();
    assert!(tag.starts_with("\"evt_"), "{tag}");
    assert_eq!(get(&[("if-none-match", &tag)]).await.status, 304);
    let part = get(&[("range", "bytes=100000-200000"), ("if-range", &tag)]).await;
    assert!(part.status == 206 && part.body == all[100_000..=200_000]);
    let end = get(&[("range", "bytes=-7")]).await;
    assert!(end.status == 206 && end.body == all[all.len() - 7..]);
    check_problem(&get(&[("range", "bytes=99999999-")]).await, Code::RangeNotSatisfiable, "beyond");
    let packed = get(&[("accept-encoding", "gzip")]).await;
    assert!(packed.header("content-encoding") == Some("gzip") && unpacked(&packed) == all);
    let shown = context.get("/v1/artifacts/out").await;
    check_contract("GET", "/v1/artifacts/{artifact}", &shown);
    assert_eq!((&shown.data()["size_bytes"], shown.data().get("hash")), (&json!(all.len()), None));
}

fn form(boundary: &str, parts: &[(&str, &str)]) -> Vec<u8> {
    let mut body = String::new();
    for (headers, content) in parts {
        body += &format!("--{boundary}\r\nContent-Disposition: form-data; {headers}\r\n\r\n{content}\r\n");
    }
    (body + &format!("--{boundary}--\r\n")).into_bytes()
}

async fn post_form(
    context: &TestContext,
    boundary: &str,
    key: Option<&str>,
    parts: &[(&str, &str)],
) -> Reply {
    let content_type = format!("multipart/form-data; boundary={boundary}");
    let mut headers = vec![("content-type", content_type.as_str())];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    context.request("POST", "/v1/artifacts", &headers, Some(&form(boundary, parts))).await
}

const FILE: &str = "name=\"file\"; filename=\"notes.txt\"\r\nContent-Type: text/plain";

#[tokio::test]
async fn a_form_is_kept_like_the_bytes_in_it() {
    let context = TestContext::memory().await;
    let reply = post_form(&context, "Aa0", None, &[(FILE, "hello"), ("name=\"kind\"", "file")]).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    check_contract("POST", "/v1/artifacts", &reply);
    let data = reply.data();
    let shown = (&data["kind"], &data["name"], &data["mime"], &data["size_bytes"]);
    assert_eq!(shown, (&json!("file_snapshot"), &json!("notes.txt"), &json!("text/plain"), &json!(5)));
    let raw = context.get(&format!("{}/raw", reply.header("location").unwrap())).await;
    assert_eq!(raw.text(), "hello");
    let named = post_form(&context, "Aa0", None, &[(FILE, "x"), ("name=\"name\"", "other.md")]).await;
    assert_eq!(named.data()["name"], "other.md");
    for (parts, words) in [
        (vec![(FILE, "")], "the body is empty"),
        (vec![("name=\"kind\"", "file")], "no field file"),
        (vec![(FILE, "a"), (FILE, "b")], "the field file twice"),
        (vec![(FILE, "a"), ("name=\"task_id\"", "t")], "task_id"),
    ] {
        let problem =
            check_problem(&post_form(&context, "Aa0", None, &parts).await, Code::BodyMalformed, words);
        assert!(text(&problem["detail"]).contains(words), "{problem}");
    }
    let kind = post_form(&context, "Aa0", None, &[(FILE, "a"), ("name=\"kind\"", "patch")]).await;
    check_problem(&kind, Code::ParameterInvalid, "a patch");
    let large = "x".repeat(recount_engine::limits::ARTIFACT_BYTES_MAX + 1);
    check_problem(
        &post_form(&context, "Aa0", None, &[(FILE, &large)]).await,
        Code::LimitReached,
        "too large",
    );
    context.running.stop().await;
}

#[tokio::test]
async fn an_upload_with_a_key_is_created_once() {
    let context = TestContext::memory().await;
    let first = post_form(&context, "Aa0", Some("k1"), &[(FILE, "hello")]).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, None), "{}", first.text());
    // A retry has another boundary.
    let again = post_form(&context, "Bb1", Some("k1"), &[(FILE, "hello")]).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")));
    assert_eq!((again.data(), again.header("location")), (first.data(), first.header("location")));
    let other = post_form(&context, "Aa0", Some("k1"), &[(FILE, "something else")]).await;
    check_problem(&other, Code::IdempotencyKeyReused, "another file");
    let next = post_form(&context, "Aa0", Some("k2"), &[(FILE, "hello")]).await;
    assert_ne!(next.data()["id"], first.data()["id"]);
    // For raw bytes, the query counts too.
    let keyed = [("content-type", "text/plain"), ("idempotency-key", "k3")];
    let send = async |target: &str| context.request("POST", target, &keyed, Some(b"raw")).await;
    let raw = send("/v1/artifacts?kind=file&name=a").await;
    assert_eq!(send("/v1/artifacts?name=a&kind=file").await.data(), raw.data());
    check_problem(&send("/v1/artifacts?kind=file&name=b").await, Code::IdempotencyKeyReused, "another name");
    context.running.stop().await;
}

#[tokio::test]
async fn one_artifact_is_pinned_and_deleted() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let send_as_admin = async |method: &str, target: &str, body: Option<&str>| {
        request_as(&context, Some(&admin), method, target, body).await
    };
    let upload = send_as_admin("POST", "/v1/artifacts?kind=file", Some(r#"{"some":"bytes"}"#)).await.data();
    let run = text(&send_as_admin("POST", "/v1/runs", Some(r#"{"kind":"external"}"#)).await.data()["id"]);
    let created =
        format!(r#"{{"artifact_id":"a1","kind":"note","size_bytes":16,"hash":{}}}"#, upload["hash"]);
    let events =
        crate::test_context::batch("p", 1, 0, &[("run.started", "{}"), ("artifact.created", &created)]);
    assert_eq!(send_as_admin("POST", &format!("/v1/runs/{run}/events"), Some(&events)).await.status, 200);
    // An unused upload is deleted like a used one; its bytes also belong to the run.
    let waiting = format!("/v1/artifacts/{}", text(&upload["id"]));
    check_problem(
        &send_as_admin("PUT", &format!("{waiting}/pin"), None).await,
        Code::ArtifactUnused,
        "an upload",
    );
    let deleted = send_as_admin("DELETE", &waiting, None).await;
    check_contract("DELETE", "/v1/artifacts/{artifact}", &deleted);
    assert_eq!((deleted.status, &deleted.data()["bytes_removed"]), (200, &json!(false)));
    check_problem(&send_as_admin("GET", &waiting, None).await, Code::ArtifactDeleted, "the upload");

    check_problem(
        &send_as_admin("DELETE", "/v1/artifacts/a1", None).await,
        Code::RunActive,
        "its run goes on",
    );
    assert_eq!(send_as_admin("POST", &format!("/v1/runs/{run}/cancel"), None).await.status, 200);
    let pinned = send_as_admin("PUT", "/v1/artifacts/a1/pin", None).await;
    check_contract("PUT", "/v1/artifacts/{artifact}/pin", &pinned);
    assert_eq!(pinned.data()["pinned"], true);
    check_problem(&send_as_admin("DELETE", "/v1/artifacts/a1", None).await, Code::ArtifactPinned, "pinned");
    let problem = check_problem(
        &send_as_admin("POST", &format!("/v1/runs/{run}/prune"), None).await,
        Code::RunPinned,
        "its run",
    );
    assert!(text(&problem["detail"]).contains("a1"), "{problem}");
    let unpinned = send_as_admin("DELETE", "/v1/artifacts/a1/pin", None).await;
    check_contract("DELETE", "/v1/artifacts/{artifact}/pin", &unpinned);
    assert!(unpinned.data().get("pinned").is_none());
    let listed = send_as_admin("GET", &format!("/v1/artifacts?run_id={run}"), None).await.json();
    assert_eq!(listed["data"][0]["id"], "a1");

    let before = send_as_admin("GET", &format!("/v1/runs/{run}/digest"), None).await.data();
    let deleted = send_as_admin("DELETE", "/v1/artifacts/a1", None).await.data();
    assert_eq!(deleted, json!({ "artifact_id": "a1", "run_id": run, "bytes_removed": true }));
    for (method, target) in [
        ("GET", "/v1/artifacts/a1"),
        ("GET", "/v1/artifacts/a1/raw"),
        ("DELETE", "/v1/artifacts/a1"),
        ("PUT", "/v1/artifacts/a1/pin"),
    ] {
        check_problem(&send_as_admin(method, target, None).await, Code::ArtifactDeleted, target);
    }
    let listed = send_as_admin("GET", &format!("/v1/artifacts?run_id={run}"), None).await.json();
    assert_eq!(listed["data"], json!([]));
    assert_eq!(
        send_as_admin("GET", &format!("/v1/runs/{run}/digest"), None).await.data(),
        before,
        "the log is as it was"
    );
    // A client that could not see the run learns nothing.
    let narrowed = r#"{"name":"n","scopes":["read","run"],"tasks":["task_01JZZZZZZZZZZZZZZZZZZZZZZZ"]}"#;
    let made = make_token(&context, Some(&admin), narrowed).await;
    check_problem(
        &request_as(&context, Some(&made), "GET", "/v1/artifacts/a1", None).await,
        Code::ArtifactNotFound,
        "narrowed",
    );
    context.running.stop().await;
}
