//! Damaged rows: catalogue rows are rebuilt from the log by a start, a read and the scrub; a damaged record is lost and
//! named. Tests flip bits in the database file, before a start and under a running server.

use std::path::{Path, PathBuf};

use recount_engine::{NewSetup, Setup};
use recount_event::Code;
use serde_json::Value;

use recount_server::access::OfflineTokens;

use crate::http::access::{context_with_token, make_token, request_as, strict};
use crate::http::admin::at_home_with;
use crate::http::damage::change_text;
use crate::test_context::{STORY, TestContext, check_problem, text};

/// A row in the file: its space and the beginning of its key, and how many bytes of the key follow.
struct RowPlace {
    begins: String,
    more: usize,
}

impl RowPlace {
    fn exact(space: &str, key: &str) -> RowPlace {
        RowPlace { begins: format!("{space}{key}"), more: 0 }
    }

    /// A row whose key ends with the id of an event.
    fn of_event(space: &str, key: &str) -> RowPlace {
        RowPlace { begins: format!("{space}{key}evt_"), more: 26 }
    }
}

/// The bit of a row to flip.
#[derive(Debug, Clone, Copy)]
enum Bit {
    Value,
    /// The key becomes another text.
    Key,
    /// The key becomes invalid text.
    KeyUnreadable,
}

fn flip(folder: &Path, place: &RowPlace, bit: Bit) {
    let database = folder.join("recount.db");
    let bytes = std::fs::read(&database).unwrap();
    let found =
        (0..bytes.len() - place.begins.len()).filter(|at| bytes[*at..].starts_with(place.begins.as_bytes()));
    let key_ends: Vec<usize> = found.map(|at| at + place.begins.len() + place.more).collect();
    assert!(!key_ends.is_empty(), "{} is in the file", place.begins);
    // Written in place: a running server has this file open.
    let file = std::fs::OpenOptions::new().write(true).open(database).unwrap();
    for end in key_ends {
        let (at, mask) = match bit {
            Bit::Value => (end + 2, 1),
            Bit::Key => (end - 1, 1),
            Bit::KeyUnreadable => (end - 1, 0x80),
        };
        std::os::unix::fs::FileExt::write_all_at(&file, &[bytes[at] ^ mask], at as u64).unwrap();
    }
}

/// A store with every kind of catalogue row that a producer can create, and the content of its lists.
struct CatalogueStore {
    folder: tempfile::TempDir,
    task: String,
    session: String,
    run: String,
    whole: Vec<(String, Value)>,
}

impl CatalogueStore {
    async fn new() -> CatalogueStore {
        let folder = tempfile::tempdir().unwrap();
        let context = TestContext::sqlite(folder.path()).await;
        let made = context.post("/v1/tasks", r#"{"title":"one","kind":"external"}"#).await.data();
        let (task, run) = (text(&made["id"]), text(&made["latest_run_id"]));
        let events = [
            ("run.started", "{}"),
            ("artifact.created", r#"{"artifact_id":"art-1","kind":"file"}"#),
            (
                "approval.requested",
                r#"{"approval_id":"appr-1","tool_call_id":"c1","kind":"shell","summary":"rm a file"}"#,
            ),
            (
                "clarification.requested",
                r#"{"clarification_id":"q-1","question":"which?","default_response":"a","timeout_seconds":6000}"#,
            ),
            (
                "handoff.requested",
                r#"{"handoff_id":"h-1","reason":"hard","target_kind":"human","target_uri":"queue:x","summary_terse":"help"}"#,
            ),
        ];
        context.report(&run, 0, &events).await;
        let session = text(&context.post("/v1/sessions", r#"{"title":"talk"}"#).await.data()["id"]);
        for _ in 0..3 {
            let body = format!(r#"{{"kind":"external","session_id":"{session}"}}"#);
            let run = text(&context.post("/v1/runs", &body).await.data()["id"]);
            context.report(&run, 0, STORY).await;
        }
        let mut scene = CatalogueStore { folder, task, session, run, whole: Vec::new() };
        scene.whole = scene.lists(&context).await;
        assert_eq!(context.running.stop().await, 0);
        scene
    }

    fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// A copy to be damaged.
    fn copy(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        let mut folders = vec![PathBuf::new()];
        while let Some(within) = folders.pop() {
            for entry in std::fs::read_dir(self.path().join(&within)).unwrap() {
                let entry = entry.unwrap();
                let name = within.join(entry.file_name());
                if entry.file_type().unwrap().is_dir() {
                    std::fs::create_dir_all(copy.path().join(&name)).unwrap();
                    folders.push(name);
                } else {
                    std::fs::copy(entry.path(), copy.path().join(name)).unwrap();
                }
            }
        }
        copy
    }

    async fn lists(&self, context: &TestContext) -> Vec<(String, Value)> {
        let CatalogueStore { task, session, run, .. } = self;
        let mut lists = Vec::new();
        for target in [
            "/v1/runs".to_owned(),
            format!("/v1/runs/{run}"),
            "/v1/tasks".into(),
            format!("/v1/tasks/{task}"),
            format!("/v1/tasks/{task}/runs"),
            format!("/v1/sessions/{session}"),
            format!("/v1/runs?session_id={session}"),
            "/v1/approvals".into(),
            "/v1/approvals?status=pending".into(),
            "/v1/approvals/appr-1".into(),
            "/v1/clarifications".into(),
            "/v1/clarifications?status=pending".into(),
            "/v1/clarifications/q-1".into(),
            "/v1/handoffs".into(),
            "/v1/handoffs?status=pending".into(),
            "/v1/handoffs/h-1".into(),
            "/v1/artifacts".into(),
            format!("/v1/runs/{run}/artifacts"),
            "/v1/artifacts/art-1".into(),
        ] {
            let reply = context.get(&target).await;
            assert_eq!(reply.status, 200, "{target}: {}", reply.text());
            lists.push((target, reply.json()));
        }
        lists
    }

    /// A row of each kind.
    fn places(&self) -> Vec<RowPlace> {
        let CatalogueStore { task, session, run, .. } = self;
        vec![
            RowPlace::exact("catalogue.runs", &format!("default/{run}")),
            RowPlace::exact("catalogue.task_runs", &format!("default/{task}/{run}")),
            RowPlace { begins: format!("catalogue.session_runsdefault/{session}/run_"), more: 26 },
            RowPlace::exact("catalogue.deadlines", run),
            RowPlace::exact("catalogue.approvals", "default/appr-1"),
            RowPlace::of_event("catalogue.approvals_listed", "default/"),
            RowPlace::of_event("catalogue.approvals_pending", "default/"),
            RowPlace::of_event("catalogue.clarifications", "default/q-1/"),
            RowPlace::of_event("catalogue.clarifications_listed", "default/"),
            RowPlace::of_event("catalogue.clarifications_pending", "default/"),
            RowPlace::of_event("catalogue.handoffs", "default/h-1/"),
            RowPlace::of_event("catalogue.handoffs_listed", "default/"),
            RowPlace::of_event("catalogue.handoffs_pending", "default/"),
            RowPlace::of_event("catalogue.artifacts", "default/art-1/"),
            RowPlace::of_event("catalogue.artifacts_listed", "default/"),
            RowPlace::of_event("catalogue.run_artifacts", &format!("default/{run}/")),
            RowPlace::of_event("catalogue.task_artifacts", &format!("default/{task}/")),
        ]
    }
}

/// The number of findings of damage in the metrics.
pub(crate) async fn found(context: &TestContext) -> f64 {
    let page = context.get("/metrics").await;
    let line = page.text().lines().find(|line| line.starts_with("recount_damage_found "));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{}", page.text()))
}

async fn check_whole(folder: &Path) {
    let data = folder.to_owned();
    // `verify::offline` has a runtime of its own.
    let looking = tokio::task::spawn_blocking(move || recount_server::verify::offline(&data, &[]));
    for report in looking.await.unwrap().unwrap().reports {
        assert_eq!(report.problems, [""; 0], "{report:?}");
    }
}

#[tokio::test]
async fn a_catalogue_row_that_was_damaged_before_a_start_is_rebuilt() {
    let scene = CatalogueStore::new().await;
    for place in scene.places() {
        for bit in [Bit::Value, Bit::Key, Bit::KeyUnreadable] {
            let copy = scene.copy();
            flip(copy.path(), &place, bit);
            let context = TestContext::sqlite(copy.path()).await;
            assert_eq!(scene.lists(&context).await, scene.whole, "{} {bit:?}", place.begins);
            assert!(found(&context).await >= 1.0, "{} {bit:?} is reported", place.begins);
            assert_eq!(context.running.stop().await, 0);
            check_whole(copy.path()).await;
        }
    }
}

#[tokio::test]
async fn a_catalogue_row_that_is_damaged_under_a_running_server_is_rebuilt() {
    let scene = CatalogueStore::new().await;
    for place in scene.places() {
        for bit in [Bit::Value, Bit::KeyUnreadable] {
            let copy = scene.copy();
            let context = TestContext::sqlite(copy.path()).await;
            flip(copy.path(), &place, bit);
            // After a commit, readers read the file again.
            assert_eq!(context.post("/v1/sessions", r#"{"title":"other"}"#).await.status, 201);
            assert_eq!(scene.lists(&context).await, scene.whole, "{} {bit:?}", place.begins);
            assert_eq!(context.running.stop().await, 0);
            check_whole(copy.path()).await;
        }
    }
}

/// A record cannot be rebuilt: it is lost and named; others are listed, and the server continues.
#[tokio::test]
async fn a_damaged_record_is_named_and_fails_no_list_of_others() {
    let scene = CatalogueStore::new().await;
    let copy = scene.copy();
    let context = TestContext::sqlite(copy.path()).await;
    let other = text(&context.post("/v1/tasks", r#"{"title":"two"}"#).await.data()["id"]);
    assert_eq!(context.running.stop().await, 0);
    let name = format!("record.tasks/default/{}", scene.task);
    flip(copy.path(), &RowPlace::exact("record.tasks", &format!("default/{}", scene.task)), Bit::Value);
    let context = TestContext::sqlite(copy.path()).await;
    let page = context.get("/v1/tasks").await;
    assert_eq!(page.status, 200, "{}", page.text());
    let page = page.json();
    let ids: Vec<String> = page["data"].as_array().unwrap().iter().map(|task| text(&task["id"])).collect();
    assert_eq!(ids, [other]);
    assert_eq!(page["damaged"], serde_json::json!([name]));
    let refused = context.get(&format!("/v1/tasks/{}", scene.task)).await;
    let problem = check_problem(&refused, Code::StoreCorrupt, "a damaged record");
    assert!(problem["detail"].as_str().unwrap().contains(&name), "{problem}");
    assert_eq!(context.post("/v1/tasks", r#"{"title":"three"}"#).await.status, 201);
    assert_eq!(context.get("/v1/runs").await.json()["data"].as_array().unwrap().len(), 4);
    assert_eq!(context.running.stop().await, 0);
}

/// No whole record separates it from other lists, so its name may have been changed.
#[tokio::test]
async fn a_damaged_record_that_is_alone_in_its_list_fails_no_other_list() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let made = context.post("/v1/tasks", r#"{"title":"one","kind":"external"}"#).await.data();
    let (task, run) = (text(&made["id"]), text(&made["latest_run_id"]));
    // Neither a producer nor an active run has a record beside it.
    assert_eq!(context.post(&format!("/v1/runs/{run}/cancel"), "").await.status, 200);
    assert_eq!(context.running.stop().await, 0);
    flip(folder.path(), &RowPlace::exact("record.tasks", &format!("default/{task}")), Bit::Value);
    let context = TestContext::sqlite(folder.path()).await;
    let runs = context.get("/v1/runs").await;
    assert_eq!((runs.status, &runs.json()["data"][0]["id"]), (200, &run.clone().into()), "{}", runs.text());
    assert_eq!(context.get(&format!("/v1/runs/{run}")).await.status, 200);
    let tasks = context.get("/v1/tasks").await.json();
    assert_eq!(tasks["damaged"], serde_json::json!([format!("record.tasks/default/{task}")]));
    assert_eq!(context.post("/v1/tasks", r#"{"title":"two"}"#).await.status, 201);
    assert_eq!(context.running.stop().await, 0);

    // With another record in its list it is certainly in no other list, and it can be deleted.
    let context = TestContext::sqlite(folder.path()).await;
    let deleted = request_as(&context, None, "DELETE", &format!("/v1/tasks/{task}"), None).await;
    assert_eq!((deleted.status, &deleted.data()["runs"]), (200, &1.into()), "{}", deleted.text());
    let missing = context.get(&format!("/v1/tasks/{task}")).await;
    check_problem(&missing, Code::TaskErased, "a deleted task");
    assert_eq!(context.get("/v1/tasks").await.json()["damaged"], Value::Null);
    assert_eq!(context.running.stop().await, 0);
    check_whole(folder.path()).await;
}

#[tokio::test]
async fn a_damaged_pin_still_keeps_its_run_fails_no_list_and_can_be_removed() {
    let scene = CatalogueStore::new().await;
    let copy = scene.copy();
    let context = TestContext::sqlite(copy.path()).await;
    let ids = |runs: &Value| -> Vec<String> {
        let pinned = runs["data"].as_array().unwrap().iter().filter(|run| run["pinned"] == true);
        pinned.map(|run| text(&run["id"])).collect()
    };
    let runs = context.get("/v1/runs").await.json();
    let run = text(&runs["data"][1]["id"]);
    let pin = format!("/v1/runs/{run}/pin");
    assert_eq!(request_as(&context, None, "PUT", &pin, None).await.status, 200);
    assert_eq!(context.running.stop().await, 0);
    flip(copy.path(), &RowPlace::exact("record.pins", &run), Bit::Value);
    let context = TestContext::sqlite(copy.path()).await;
    let runs = context.get("/v1/runs").await;
    assert_eq!(runs.status, 200, "{}", runs.text());
    assert_eq!((runs.json()["data"].as_array().unwrap().len(), ids(&runs.json())), (4, vec![run.clone()]));
    assert_eq!(request_as(&context, None, "DELETE", &pin, None).await.status, 200);
    assert_eq!(ids(&context.get("/v1/runs").await.json()), [""; 0]);
    assert_eq!(context.running.stop().await, 0);
    check_whole(copy.path()).await;
}

/// A damaged row alone in its list may belong to a neighbouring list; with another run it does not.
#[tokio::test]
async fn a_damaged_run_whose_row_is_damaged_too_stops_no_start_and_is_deleted_with_its_task() {
    const WORDS: &str = "words that will be other ones";
    for others in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let context = TestContext::sqlite(folder.path()).await;
        for _ in 0..others {
            context.run_with_story().await;
        }
        let made = context.post("/v1/tasks", r#"{"kind":"external"}"#).await.data();
        let (task, run) = (text(&made["id"]), text(&made["latest_run_id"]));
        let words = format!(r#"{{"text":"{WORDS}"}}"#);
        context.report(&run, 0, &[STORY[0], ("ext.words.sent", &words)]).await;
        assert_eq!(context.running.stop().await, 0);
        change_text(folder.path(), WORDS);
        let name = format!("default/{run}");
        flip(folder.path(), &RowPlace::exact("catalogue.runs", &name), Bit::Value);
        let context = TestContext::sqlite(folder.path()).await;
        let page = context.get("/v1/runs").await.json();
        assert_eq!(page["damaged"], serde_json::json!([format!("catalogue.runs/{name}")]));
        let deleted = context.request("DELETE", &format!("/v1/tasks/{task}"), &[], None).await;
        assert_eq!(deleted.status, 200, "{}", deleted.text());
        check_problem(&context.get(&format!("/v1/runs/{run}")).await, Code::RunErased, "a deleted run");
        let page = context.get("/v1/runs").await.json();
        assert_eq!((page["data"].as_array().unwrap().len(), page.get("damaged")), (others, None));
        assert_eq!(context.running.stop().await, 0);
    }
}

#[tokio::test]
async fn a_damaged_token_grants_no_access_and_stops_no_start() {
    let data = tempfile::tempdir().unwrap();
    let (context, admin) = context_with_token(data.path()).await;
    let body = r#"{"name":"ci","scopes":["read"]}"#;
    let made = request_as(&context, Some(&admin), "POST", "/admin/tokens", Some(body)).await.data();
    let (id, lost) = (text(&made["id"]), text(&made["secret"]));
    assert_eq!(request_as(&context, Some(&lost), "GET", "/v1/runs", None).await.status, 200);
    assert_eq!(context.running.stop().await, 0);
    flip(data.path(), &RowPlace::exact("record.tokens", &id), Bit::Value);
    let context = at_home_with(data.path(), strict()).await;
    let refused = request_as(&context, Some(&lost), "GET", "/v1/runs", None).await;
    check_problem(&refused, Code::TokenInvalid, "a token whose record is damaged");
    let page = request_as(&context, Some(&admin), "GET", "/admin/tokens", None).await.json();
    assert_eq!(page["damaged"], serde_json::json!([format!("record.tokens/{id}")]));
    let names: Vec<&Value> = page["data"].as_array().unwrap().iter().map(|token| &token["name"]).collect();
    assert_eq!(names, ["boss"]);
    let again = make_token(&context, Some(&admin), body).await;
    assert_eq!(request_as(&context, Some(&again), "GET", "/v1/runs", None).await.status, 200);
    assert_eq!(context.running.stop().await, 0);
    // The same without a server.
    let tokens = OfflineTokens::open(data.path()).unwrap();
    let page = tokens.list().await.unwrap();
    assert_eq!((page.data.len(), page.damaged.len()), (2, 1));
    tokens.close().await.unwrap();
    // Its tenant is unknown, so only the operator can revoke it.
    let context = TestContext::sqlite(data.path()).await;
    let token = format!("/admin/tokens/{id}");
    assert_eq!(request_as(&context, None, "DELETE", &token, None).await.status, 200);
    assert_eq!(request_as(&context, None, "DELETE", &token, None).await.status, 404);
    assert_eq!(request_as(&context, None, "GET", "/admin/tokens", None).await.json()["damaged"], Value::Null);
    assert_eq!(context.running.stop().await, 0);
    let tokens = OfflineTokens::open(data.path()).unwrap();
    let page = tokens.list().await.unwrap();
    assert_eq!((page.data.len(), page.damaged.len()), (2, 0));
    tokens.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_session_of_an_application_fails_no_list_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        let setup =
            NewSetup { setup: Setup { agent: "clerk".into(), ..Setup::default() }, ..NewSetup::default() };
        made.push(context.running.engine.write().create_setup(setup, None).await.unwrap().id.to_string());
    }
    assert_eq!(context.running.stop().await, 0);
    let row = |session: &str| format!("default/{session}");
    flip(folder.path(), &RowPlace::exact("record.session_setups", &row(&made[0])), Bit::Value);
    flip(folder.path(), &RowPlace::exact("record.sessions", &row(&made[1])), Bit::Value);
    let context = TestContext::sqlite(folder.path()).await;
    let list = context.get("/aap/sessions").await;
    assert_eq!(list.status, 200, "{}", list.text());
    let list = list.json();
    let listed: Vec<String> =
        list["sessions"].as_array().unwrap().iter().map(|session| text(&session["sessionId"])).collect();
    assert_eq!(listed, [made[2].as_str()], "{list}");
    let named: Vec<String> = list["damaged"].as_array().unwrap().iter().map(text).collect();
    for row in
        [format!("record.sessions/{}", row(&made[1])), format!("record.session_setups/{}", row(&made[0]))]
    {
        assert!(named.contains(&row), "{row}: {named:?}");
    }
    assert_eq!(context.running.stop().await, 0);
}
