//! A server whose stores are in a real PostgreSQL.

use std::path::{Path, PathBuf};

use recount_event::Code;
use recount_server::access::OfflineTokens;
use recount_server::export::Folder;
use recount_server::migrate::{to_database, to_folder};
use recount_server::{Options, StartError, backup, doctor, salvage, start_embedded, verify};
use serde_json::Value;

use crate::http::access::{make_token, new_tenant_run, request_as};
use crate::http::orders::ended;
use crate::test_context::{STORY, TestContext, check_problem, text};

/// The password in URLs of these tests. The server trusts its users and does not check it.
const PASSWORD: &str = "hidden-from-all";

/// An agent's model that lists the files, and then ends.
const SCRIPT: &str = "[[turn]]\ntext = \"I look.\"\ncall = [{ name = \"glob\", input = { pattern = \"*\" } }]\n\
                      [[turn]]\ntext = \"Nothing.\"\n";

const RUN: &str = r#"{"kind":"agent_loop","request_text":"look","model":"demo/story"}"#;

/// A fresh database, and a folder with the configuration and the data folders of its servers.
struct Place {
    folder: tempfile::TempDir,
    url: String,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let config = "[models.providers.demo]\nkind = \"scripted\"\nscript = \"scripts\"\n";
        std::fs::write(folder.path().join("config.toml"), config).unwrap();
        std::fs::create_dir(folder.path().join("scripts")).unwrap();
        std::fs::write(folder.path().join("scripts/story.toml"), SCRIPT).unwrap();
        let url = recount_test_postgres::fresh_database();
        Place { folder, url: url.replacen('@', &format!(":{PASSWORD}@"), 1) }
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server with this data folder.
    async fn start(&self, data: &str) -> Result<TestContext, StartError> {
        self.start_on(data, Some(self.url.clone())).await
    }

    async fn start_on(&self, data: &str, store: Option<String>) -> Result<TestContext, StartError> {
        let inside = start_embedded(Options {
            bind: Some("127.0.0.1:0".to_owned()),
            data: Some(self.data(data)),
            config: Some(self.folder.path().join("config.toml")),
            store,
            ..Options::default()
        })
        .await?;
        inside.work().await?;
        Ok(TestContext { address: inside.running.address, running: inside.running })
    }

    /// Why a server does not start.
    async fn refusal(&self, data: &str) -> String {
        refusal(self.start(data).await)
    }
}

fn refusal(started: Result<impl Sized, StartError>) -> String {
    let why = started.err().expect("it is refused").to_string();
    assert!(!why.contains(PASSWORD), "{why}");
    why
}

async fn shown(context: &TestContext, target: &str) -> String {
    let reply = context.get(target).await;
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    assert!(!reply.text().contains(PASSWORD), "{target}: {}", reply.text());
    reply.text().to_owned()
}

/// Everything that a restart must keep: all events, the tokens, and the events of the tenant acme.
async fn content(context: &TestContext, acme: &str) -> (Vec<String>, Value, String) {
    let tokens = context.get("/admin/tokens").await.json()["data"].clone();
    let of_acme = request_as(context, Some(acme), "GET", "/v1/events?limit=1000", None).await;
    (context.envelopes("/v1/events").await, tokens, of_acme.text().to_owned())
}

#[tokio::test]
async fn a_restart_keeps_events_tokens_tenants_and_the_audit_trail() {
    let place = Place::new();
    let context = place.start("one").await.unwrap();
    let run = ended(&context, RUN).await;
    let events = context.envelopes(&format!("/v1/runs/{run}/events")).await.concat();
    assert!(events.contains("\"tool.completed\"") && events.contains("Nothing."), "{events}");
    context.run_with_story().await;
    let acme =
        make_token(&context, None, r#"{"name":"ci","scopes":["read","ingest"],"tenant":"acme"}"#).await;
    new_tenant_run(&context, &acme).await;
    let before = content(&context, &acme).await;
    assert_eq!(before.1.as_array().unwrap().len(), 1);
    assert!(before.2.contains("\"run.finished\""), "{}", before.2);
    let trail = context.envelopes("/audit/v1/events").await;
    assert!(trail.concat().contains("ext.recount.token_created") && !trail.concat().contains(PASSWORD));
    context.running.stop().await;
    assert!(!place.data("one").join("recount.db").exists());

    let context = place.start("one").await.unwrap();
    assert_eq!(content(&context, &acme).await, before);
    let after = context.envelopes("/audit/v1/events").await;
    assert_eq!(after[..trail.len()], trail, "the trail continues");
    let run = context.run_with_story().await;
    assert_eq!(context.envelopes(&format!("/v1/runs/{run}/events")).await.len(), STORY.len() + 1);

    let metrics = shown(&context, "/metrics").await;
    assert!(metrics.contains("postgresql=\"") && !metrics.contains("sqlite=\""), "{metrics}");
    let checks = shown(&context, "/admin/doctor?full=true").await;
    assert!(checks.contains("PostgreSQL ") && checks.contains(":***@"), "{checks}");
    assert!(!checks.contains("\"problem\"") && !checks.contains("SQLite"), "{checks}");
    let refused = context.post("/admin/backups", "{}").await;
    let problem = check_problem(&refused, Code::BackupUnsupported, "a backup");
    assert!(text(&problem["detail"]).contains("pg_basebackup") && !refused.text().contains(PASSWORD));
    context.running.stop().await;
}

#[tokio::test]
async fn stores_in_a_database_are_checked_without_a_server() {
    let place = Place::new();
    let url = place.url.clone();
    let unused = url.clone();
    let none =
        tokio::task::spawn_blocking(move || verify::offline_database(&unused, &[], None)).await.unwrap();
    assert!(refusal(none).contains("has no stores"));
    let tokens = OfflineTokens::in_database(&url).unwrap();
    let request = serde_json::from_str(r#"{"name":"first","scopes":["admin"],"tenant":"acme"}"#).unwrap();
    let added = tokens.add(request).await.unwrap();
    tokens.close().await.unwrap();

    let context = place.start("one").await.unwrap();
    let listed = context.get("/admin/tokens").await.json();
    assert_eq!(listed["data"][0]["id"], serde_json::json!(added.token.id), "{listed}");
    let run = context.run_with_story().await;
    let held = doctor::offline_database(&url, false).await.unwrap();
    let problem = held.iter().find(|check| check.name == "store").unwrap();
    assert!(problem.value.contains("is owned by node"), "{problem:?}");
    assert!(!held.iter().any(|check| check.name == "store of acme"), "reported once: {held:?}");
    context.running.stop().await;

    let checks = doctor::offline_database(&url, true).await.unwrap();
    let shown = format!("{checks:?}");
    assert!(shown.contains("PostgreSQL ") && !shown.contains(PASSWORD), "{shown}");
    let problems: Vec<_> =
        checks.iter().filter(|check| check.status == recount_api::admin::Status::Problem).collect();
    assert!(problems.is_empty(), "{problems:?}");
    for name in ["store", "integrity", "store of acme", "store of recount-audit"] {
        assert!(checks.iter().any(|check| check.name == name), "{name}: {shown}");
    }
    let noted = [verify::Noted::head(&run, &"0".repeat(64)).unwrap()];
    let look = move |noted: Vec<verify::Noted>| {
        let url = url.clone();
        tokio::task::spawn_blocking(move || verify::offline_database(&url, &noted, None).unwrap())
    };
    let found = look(Vec::new()).await.unwrap();
    assert!(found.reports.iter().all(|report| report.problems.is_empty()), "{found:?}");
    assert!(found.reports.iter().any(|report| report.run_id.as_deref() == Some(&run)), "{found:?}");
    let found = look(noted.to_vec()).await.unwrap();
    assert!(found.reports.iter().any(|report| !report.problems.is_empty()), "a wrong digest is noticed");
}

#[tokio::test]
async fn a_database_accepts_only_the_seal_key_that_it_was_first_used_with() {
    let place = Place::new();
    place.start("one").await.unwrap().running.stop().await;
    let key = |data: &str| place.data(data).join("keys/seal");
    let missing = place.refusal("two").await;
    assert!(missing.contains("is missing") && missing.contains("copy keys/seal"), "{missing}");
    assert!(!key("two").exists(), "a new key would be used nowhere");
    std::fs::create_dir_all(key("two").parent().unwrap()).unwrap();
    std::fs::write(key("two"), "07".repeat(32)).unwrap();
    let other = place.refusal("two").await;
    assert!(other.contains("has the fingerprint") && other.contains("replace the file"), "{other}");
    std::fs::copy(key("one"), key("two")).unwrap();
    place.start("two").await.unwrap().running.stop().await;
}

#[tokio::test]
async fn one_server_at_a_time_uses_a_database() {
    let place = Place::new();
    let first = place.start("one").await.unwrap();
    std::fs::create_dir_all(place.data("two").join("keys")).unwrap();
    std::fs::copy(place.data("one").join("keys/seal"), place.data("two").join("keys/seal")).unwrap();
    let second = place.refusal("two").await;
    assert!(second.contains("is owned by node"), "{second}");
    first.running.stop().await;
    place.start("two").await.unwrap().running.stop().await;
}

#[tokio::test]
async fn a_data_folder_moves_to_an_empty_database_with_every_byte() {
    let place = Place::new();
    let context = place.start_on("one", None).await.unwrap();
    ended(&context, RUN).await;
    context.run_with_story().await;
    let headers = [("content-type", "image/png")];
    let upload = context.request("POST", "/v1/artifacts", &headers, Some(b"picture")).await;
    let picture = format!("{}/raw", upload.header("location").unwrap());
    let acme =
        make_token(&context, None, r#"{"name":"ci","scopes":["read","ingest"],"tenant":"acme"}"#).await;
    new_tenant_run(&context, &acme).await;
    let before = content(&context, &acme).await;
    let trail = context.envelopes("/audit/v1/events").await;
    context.running.stop().await;

    let data = place.data("one");
    let copied = to_database(&data, &place.url).await.unwrap();
    let of = |name: &str| copied.iter().find(|store| store.name == name).unwrap();
    assert_eq!((of("default").runs, of("default").events), (2, before.0.len() as u64));
    assert!(of("default").rows > 0 && of("default").blobs > 0, "{copied:?}");
    assert_eq!((of("acme").runs, of("recount-audit").runs), (1, 1));

    let context = place.start("one").await.unwrap();
    assert_eq!(content(&context, &acme).await, before);
    assert_eq!(context.get(&picture).await.body, b"picture");
    assert_eq!(context.envelopes("/audit/v1/events").await[..trail.len()], trail);
    context.running.stop().await;
    let back = place.data("back");
    assert!(refusal(to_folder(&place.url, &back).await).contains("copy keys/seal"));
    std::fs::create_dir_all(back.join("keys")).unwrap();
    std::fs::copy(data.join("keys/seal"), back.join("keys/seal")).unwrap();
    assert!(to_folder(&place.url, &back).await.unwrap().iter().any(|store| store.name == "acme"));
    let context = place.start_on("back", None).await.unwrap();
    assert_eq!(content(&context, &acme).await, before);
    assert_eq!(context.get(&picture).await.body, b"picture");
    context.running.stop().await;
    assert!(refusal(to_folder(&place.url, &back).await).contains("already has a store"));
    let again = refusal(to_database(&data, &place.url).await);
    assert!(again.contains("already has stores"), "{again}");
    assert!(
        refusal(place.start_on("one", None).await).contains("--store"),
        "the old stores are not continued"
    );
}

#[tokio::test]
async fn a_folder_that_cannot_be_copied_whole_leaves_the_database_empty() {
    let place = Place::new();
    let context = place.start_on("one", None).await.unwrap();
    let run = context.run_with_story().await;
    assert_eq!(context.request("POST", &format!("/v1/runs/{run}/prune"), &[], None).await.status, 200);
    context.running.stop().await;
    let why = refusal(to_database(&place.data("one"), &place.url).await);
    assert!(why.contains("1 pruned or erased run") && why.contains("export --all"), "{why}");
    // The folder can still be served, and the database is still empty.
    place.start_on("one", None).await.unwrap().running.stop().await;
    place.start("two").await.unwrap().running.stop().await;
}

#[tokio::test]
async fn a_data_folder_remembers_that_its_stores_are_in_a_database() {
    let place = Place::new();
    place.start("one").await.unwrap().running.stop().await;
    let data = place.data("one");
    let named = |why: String| {
        assert!(why.contains("in the database postgres://") && why.contains(":***@"), "{why}");
        why
    };
    assert!(named(refusal(place.start_on("one", None).await)).contains("--store"));
    named(refusal(OfflineTokens::open(&data)));
    let to = place.data("copy");
    assert!(named(refusal(backup::offline(&data, &to))).contains("pg_dump"));
    assert!(named(refusal(backup::offline(Path::new(&place.url), &to))).contains("pg_dump"));
    assert!(named(refusal(salvage::salvage(&data, &to))).contains("point-in-time recovery"));
    assert!(named(refusal(verify::offline(&data, &[]))).contains("verify --store"));
    assert!(named(refusal(Folder::open(&data))).contains("--url"));
    assert!(named(refusal(Folder::open_or_create(&data))).contains("--url"));
    let checks = doctor::offline(&data, false);
    let store = checks.iter().find(|check| check.name == "store").unwrap();
    named(store.value.clone());
    assert!(!to.exists());
}

#[tokio::test]
async fn an_unreachable_database_is_named_without_its_password() {
    let place = Place::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("postgres://recount:{PASSWORD}@{closed}/recount");
    let why = refusal(place.start_on("one", Some(url.clone())).await);
    assert!(why.contains(&format!("postgres://recount:***@{closed}/recount")), "{why}");
    assert!(why.contains("check that PostgreSQL runs there") && why.contains("--store"), "{why}");
    let checks = doctor::offline_database(&url, false).await.unwrap();
    let database = checks.iter().find(|check| check.name == "database").unwrap();
    assert!(database.value.contains(&closed.to_string()) && !format!("{checks:?}").contains(PASSWORD));
}
