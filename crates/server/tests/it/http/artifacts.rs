//! Artifacts over HTTP: upload, lists, downloads whole and in part, deletion with their run. And budgets of tasks.

use bytes::Bytes;
use recount_engine::{ArtifactInput, Engine, NewRun, PatchTarget};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, Draft, RunId, TaskId, door};
use recount_run::Command;
use serde_json::json;

use crate::http::access::{context_with_token, make_token, request_as};
use crate::http::contract::check_contract;
use crate::test_context::{TestContext, check_problem, text};
use crate::wire::Reply;

async fn append(engine: &Engine, run: RunId, drafts: Vec<Draft>) {
    engine.write().submit(run, Command::Progress { drafts }).await.unwrap();
}

/// A run of our own that has started.
async fn own(engine: &Engine, task: Option<TaskId>) -> RunId {
    let new = NewRun { queued: Queued::new(RunKind::AgentLoop), task, session: None, resumed_from: None };
    let (run, _) = engine.write().create_run(new).await.unwrap();
    append(engine, run, vec![door::draft("run.started", "{}").unwrap()]).await;
    run
}

fn draft_of(kind: &str, mime: &str, bytes: &[u8]) -> ArtifactInput {
    ArtifactInput {
        kind: kind.into(),
        mime: mime.into(),
        summary: None,
        name: None,
        bytes: Bytes::copy_from_slice(bytes),
        original_size_bytes: None,
        call: None,
        target: None,
    }
}

async fn keep(engine: &Engine, run: RunId, input: ArtifactInput) -> String {
    let stored = engine.write().store_artifact(run, input).await.unwrap();
    append(engine, run, vec![stored.created]).await;
    stored.id.to_string()
}

const DIFF: &str = "--- a/a.rs\n+++ b/a.rs\n@@ -1 +1 @@\n-old\n+new\n";

#[tokio::test]
async fn a_patch_is_shown_as_the_protocol_defines() {
    let context = TestContext::memory().await;
    let engine = &context.running.engine;
    let task = text(&context.post("/v1/tasks", "{}").await.data()["id"]);
    let run = own(engine, Some(task.parse().unwrap())).await;
    let target = PatchTarget {
        path: "a.rs".into(),
        base_revision: "sha256:00".into(),
        additions: 1,
        deletions: 1,
        hunks: 1,
    };
    let patch = ArtifactInput { target: Some(target), ..draft_of("patch", "text/x-diff", DIFF.as_bytes()) };
    let patch = keep(engine, run, patch).await;
    let output = keep(engine, run, draft_of("command_output", "text/plain", b"ok")).await;
    let shown = context.get(&format!("/v1/artifacts/{patch}")).await;
    check_contract("GET", "/v1/artifacts/{artifact}", &shown);
    let data = shown.data();
    assert_eq!(data["diff"], DIFF);
    assert_eq!(data["stats"], json!({ "additions": 1, "deletions": 1, "hunks": 1 }));
    assert_eq!((&data["status"], &data["target_path"]), (&json!("proposed"), &json!("a.rs")));
    assert_eq!((&data["applied_at"], &data["reverted_at"]), (&json!(null), &json!(null)));
    assert_eq!(data["produced_by_run_id"], run.to_string());
    let applied = format!(
        r#"{{"artifact_id":"{patch}","field":"status","old_value":"proposed","new_value":"applied"}}"#
    );
    append(engine, run, vec![door::draft("artifact.updated", &applied).unwrap()]).await;
    let data = context.get(&format!("/v1/artifacts/{patch}")).await.data();
    assert!(data["status"] == "applied" && data["applied_at"].is_string(), "{data}");
    for (query, wanted) in [
        (format!("run_id={run}"), vec![&output, &patch]),
        (format!("task_id={task}&kind=patch"), vec![&patch]),
        ("status=applied".to_owned(), vec![&patch]),
        ("status=rejected".to_owned(), vec![]),
    ] {
        let page = context.get(&format!("/v1/artifacts?{query}")).await;
        check_contract("GET", "/v1/artifacts", &page);
        let page = page.json();
        let mut found: Vec<&str> =
            page["data"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
        found.sort_unstable();
        let mut wanted: Vec<&str> = wanted.into_iter().map(String::as_str).collect();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{query}");
    }
    let of_run = context.get(&format!("/v1/runs/{run}/artifacts?limit=1")).await.json();
    assert!(of_run["data"].as_array().unwrap().len() == 1 && of_run["has_more"] == true);
    check_problem(&context.get("/v1/artifacts/art_1").await, Code::ArtifactNotFound, "unknown");
    check_problem(&context.get("/v1/artifacts?status=lost").await, Code::ParameterInvalid, "status");
}

#[tokio::test]
async fn artifact_bytes_are_served_whole_or_in_part_and_sandboxed() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let engine = &context.running.engine;
    let run = own(engine, None).await;
    let html = b"<script>alert(1)</script>";
    let page = keep(engine, run, draft_of("fetched_resource", "text/html", html)).await;
    let raw = format!("/v1/artifacts/{page}/raw");
    let get = async |headers: &[(&str, &str)]| context.request("GET", &raw, headers, None).await;
    let whole = get(&[]).await;
    assert_eq!((whole.status, whole.body.as_slice()), (200, html.as_slice()));
    assert_eq!(whole.header("content-type"), Some("text/html"));
    assert_eq!(whole.header("x-content-type-options"), Some("nosniff"));
    assert!(whole.header("content-security-policy").unwrap().starts_with("sandbox; default-src 'none'"));
    assert!(whole.header("content-disposition").unwrap().starts_with("attachment; "));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let tag = whole.header("etag").unwrap().to_owned();
    let hash = context.get(&format!("/v1/artifacts/{page}")).await.data()["hash"].clone();
    assert_eq!(tag, hash.to_string());
    let unchanged = get(&[("if-none-match", &tag)]).await;
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    for (range, content_range, wanted) in [
        ("bytes=0-7", "bytes 0-7/25", &html[..8]),
        ("bytes=-9", "bytes 16-24/25", &html[16..]),
        ("bytes=20-99", "bytes 20-24/25", &html[20..]),
    ] {
        let part = get(&[("range", range), ("if-range", &tag)]).await;
        assert_eq!((part.status, part.header("content-range")), (206, Some(content_range)), "{range}");
        assert_eq!(part.body, wanted, "{range}");
    }
    check_problem(&get(&[("range", "bytes=25-")]).await, Code::RangeNotSatisfiable, "beyond");
    for headers in
        [[("range", "bytes=0-1"), ("if-range", "\"other\"")], [("range", "bytes=0-1,3-4"), ("x-a", "b")]]
    {
        assert_eq!(get(&headers).await.status, 200, "{headers:?}");
    }
    let head = context.request("HEAD", &raw, &[], None).await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("25")));
    // Altered bytes are reported and not served.
    let name = text(&hash).replace("blake3:", "");
    std::fs::write(folder.path().join("blobs").join(&name[..2]).join(&name), b"other").unwrap();
    check_problem(&get(&[]).await, Code::ArtifactBytesLost, "damaged");
    context.running.stop().await;
}

async fn send(context: &TestContext, target: &str, mime: Option<&str>, body: &[u8]) -> Reply {
    let headers: Vec<(&str, &str)> = mime.map(|mime| ("content-type", mime)).into_iter().collect();
    context.request("POST", target, &headers, Some(body)).await
}

#[tokio::test]
async fn artifact_names_are_limited_as_published() {
    let context = TestContext::memory().await;
    for (letters, status) in [(255, 201), (256, 400)] {
        let target = format!("/v1/artifacts?name={}", "a".repeat(letters));
        let sent = send(&context, &target, Some("image/png"), b"picture").await;
        assert_eq!(sent.status, status, "{letters}: {}", sent.text());
    }
    context.running.stop().await;
}

#[tokio::test]
async fn uploads_are_kept_for_a_run() {
    let context = TestContext::memory().await;
    let picture = b"\x89PNG\0picture";
    let sent = send(&context, "/v1/artifacts?name=a%20b.png", Some("image/png"), picture).await;
    assert_eq!(sent.status, 201, "{}", sent.text());
    check_contract("POST", "/v1/artifacts", &sent);
    let data = sent.data();
    assert_eq!(
        (&data["kind"], &data["name"], &data["size_bytes"]),
        (&json!("image"), &json!("a b.png"), &json!(12))
    );
    assert!(data.get("produced_by_run_id").is_none());
    let raw = format!("{}/raw", sent.header("location").unwrap());
    let back = context.get(&raw).await;
    assert_eq!(back.body, picture);
    assert_eq!(
        back.header("content-disposition"),
        Some("inline; filename=\"a_b.png\"; filename*=UTF-8\'\'a%20b.png")
    );
    let secret = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let file = send(&context, "/v1/artifacts?kind=file", Some("text/plain"), secret.as_bytes()).await;
    assert_eq!(file.data()["kind"], "file_snapshot");
    let masked = context.get(&format!("{}/raw", file.header("location").unwrap())).await;
    assert!(masked.body.len() == secret.len() && !masked.text().contains(secret));
    for (target, mime, body, code) in [
        ("/v1/artifacts?kind=patch", Some("text/x-diff"), &b"x"[..], Code::ParameterInvalid),
        ("/v1/artifacts", Some("image/png"), b"", Code::BodyMalformed),
        ("/v1/artifacts", Some("nonsense"), b"x", Code::MediaTypeUnsupported),
    ] {
        check_problem(&send(&context, target, mime, body).await, code, target);
    }
}

#[tokio::test]
async fn artifacts_of_others_and_of_erased_runs_are_not_found() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let engine = &context.running.engine;
    let made = request_as(&context, Some(&admin), "POST", "/v1/tasks", Some("{}")).await;
    let task = text(&made.data()["id"]);
    let run = own(engine, Some(task.parse().unwrap())).await;
    let artifact = keep(engine, run, draft_of("command_output", "text/plain", b"ours")).await;
    let narrowed = r#"{"name":"n","scopes":["read","run"],"tasks":["task_01JZZZZZZZZZZZZZZZZZZZZZZZ"]}"#;
    let narrow = make_token(&context, Some(&admin), narrowed).await;
    let (path, raw) = (format!("/v1/artifacts/{artifact}"), format!("/v1/artifacts/{artifact}/raw"));
    for target in [&path, &raw] {
        let theirs = request_as(&context, Some(&narrow), "GET", target, None).await;
        check_problem(&theirs, Code::ArtifactNotFound, target);
        assert_eq!(request_as(&context, Some(&admin), "GET", target, None).await.status, 200);
    }
    let listed = request_as(&context, Some(&narrow), "GET", "/v1/artifacts", None).await.json();
    assert_eq!(listed["data"], json!([]));
    // An unused upload is visible to its sender.
    let sent = request_as(&context, Some(&admin), "POST", "/v1/artifacts", Some("{}")).await;
    let sent = sent.header("location").unwrap().to_owned();
    let theirs = request_as(&context, Some(&narrow), "GET", &sent, None).await;
    check_problem(&theirs, Code::ArtifactNotFound, "an upload");
    let mine = request_as(&context, Some(&narrow), "POST", "/v1/artifacts", Some("{}")).await;
    let mine = mine.header("location").unwrap().to_owned();
    assert_eq!(request_as(&context, Some(&narrow), "GET", &mine, None).await.status, 200);
    assert_eq!(
        request_as(&context, Some(&admin), "DELETE", &format!("/v1/tasks/{task}"), None).await.status,
        200
    );
    for target in [&path, &raw] {
        let erased = request_as(&context, Some(&admin), "GET", target, None).await;
        check_problem(&erased, Code::RunErased, target);
        let theirs = request_as(&context, Some(&narrow), "GET", target, None).await;
        check_problem(&theirs, Code::ArtifactNotFound, target);
    }
    let of_run = request_as(&context, Some(&admin), "GET", &format!("/v1/runs/{run}/artifacts"), None).await;
    check_problem(&of_run, Code::RunErased, "its run");
    context.running.stop().await;
}

#[tokio::test]
async fn bytes_that_a_producer_kept_elsewhere_are_reported_missing() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let hash = "ab".repeat(32);
    let created = format!(r#"{{"artifact_id":"a.1","kind":"patch","size_bytes":5,"hash":"blake3:{hash}"}}"#);
    context.report(&run, 0, &[("run.started", "{}"), ("artifact.created", &created)]).await;
    let shown = context.get("/v1/artifacts/a.1").await.data();
    assert!(shown.get("diff").is_none() && shown["status"] == "proposed", "{shown}");
    check_problem(&context.get("/v1/artifacts/a.1/raw").await, Code::ArtifactBytesMissing, "raw");
}

#[tokio::test]
async fn a_budget_is_shown_raised_and_never_lowered() {
    let context = TestContext::memory().await;
    let made = context.post("/v1/tasks", r#"{"budget_micros_usd":100}"#).await.data();
    assert_eq!(
        (&made["budget_micros_usd"], &made["budget_remaining_micros_usd"]),
        (&json!(100), &json!(100))
    );
    assert_eq!((&made["cost_micros_usd"], &made["input_tokens"]), (&json!(0), &json!(0)));
    assert!(made.get("budget_tokens").is_none());
    let target = format!("/v1/tasks/{}", text(&made["id"]));
    let patch = async |body: &str| context.request("PATCH", &target, &[], Some(body.as_bytes())).await;
    let raised = patch(r#"{"budget_micros_usd":150,"budget_tokens":9,"title":"more"}"#).await;
    check_contract("PATCH", "/v1/tasks/{task}", &raised);
    let data = raised.data();
    assert_eq!(
        (&data["budget_micros_usd"], &data["budget_tokens"], &data["title"]),
        (&json!(150), &json!(9), &json!("more"))
    );
    let lowered = check_problem(&patch(r#"{"budget_micros_usd":149}"#).await, Code::BudgetNotRaised, "lower");
    let detail = text(&lowered["detail"]);
    assert!(detail.contains("149") && detail.contains("150"), "{detail}");
    for (body, code) in [
        (r#"{"budget_micros_usd":null}"#, Code::BodyMalformed),
        (r#"{"budget_tokens":-1}"#, Code::BodyMalformed),
        (r#"{"budget_tokens":9007199254740992}"#, Code::BodyMalformed),
        ("{}", Code::BodyMalformed),
        (r#"{"budget":1}"#, Code::BodyMalformed),
    ] {
        check_problem(&patch(body).await, code, body);
    }
    let unknown = "/v1/tasks/task_01JZZZZZZZZZZZZZZZZZZZZZZZ";
    let reply = context.request("PATCH", unknown, &[], Some(br#"{"title":"t"}"#)).await;
    check_problem(&reply, Code::TaskNotFound, "unknown");
}

#[tokio::test]
async fn a_sealed_original_is_never_stored_in_plain_text() {
    let data = tempfile::tempdir().unwrap();
    let (context, _) = context_with_token(data.path()).await;
    let engine = &context.running.engine;
    let run = own(engine, None).await;
    let call = recount_event::ForeignId::parse("call_1").unwrap();
    let canary = "hunter2-is-no-shape-that-anybody-knows";
    engine.write().seal(run, &call, canary.as_bytes()).await.unwrap();
    assert_eq!(engine.write().unseal(run, &call).await.unwrap().unwrap(), canary.as_bytes());
    let (mut folders, mut files) = (vec![data.path().to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!found, "{} contains it", path.display());
        }
    }
    assert!(files >= 3 && data.path().join("keys/seal").is_file());
    context.running.stop().await;
    // The next process has the same key.
    let context =
        crate::http::admin::at_home_with(data.path(), recount_server::access::Access::default()).await;
    let again = context.running.engine.write().unseal(run, &call).await.unwrap();
    assert_eq!(again.unwrap(), canary.as_bytes());
    context.running.stop().await;
}
