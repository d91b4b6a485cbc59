//! Routes of `/admin`: they work only on the server's own data folder, and only if it has one.

use std::sync::Arc;

use recount_event::Code;
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_server::access::Access;
use recount_server::{Durability, Running, SqliteSettings, Stores};
use recount_world::World;

use crate::http::contract::check_contract;
use crate::test_context::{TestContext, check_problem, check_reply};

async fn at_home(data: &std::path::Path) -> TestContext {
    at_home_with(data, Access::default()).await
}

/// A server with a data folder and rules of access.
pub(crate) async fn at_home_with(data: &std::path::Path, access: Access) -> TestContext {
    let store = Arc::new(SqliteStore::open(SqliteOptions::new(data)).unwrap());
    let settings = SqliteSettings { durability: Durability::Relaxed, ..SqliteSettings::default() };
    let stores = Stores::in_folder(data, settings);
    let bind = "127.0.0.1:0".parse().unwrap();
    let running = Running::start_at_home(store, World::real(), bind, stores, access).await.unwrap();
    TestContext { address: running.address, running }
}

#[tokio::test]
async fn a_backup_has_a_plain_name_and_is_made_once() {
    let data = tempfile::tempdir().unwrap();
    let context = at_home(data.path()).await;
    context.run_with_story().await;
    let made = context.post("/admin/backups", r#"{"name":"first"}"#).await;
    assert_eq!((made.status, made.json()["object"].as_str()), (201, Some("backup")), "{}", made.text());
    check_reply(&made);
    check_contract("POST", "/admin/backups", &made);
    let path = data.path().join("backups/first");
    assert_eq!(made.data()["path"], path.to_str().unwrap());
    let copy = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    drop(copy);
    check_problem(&context.post("/admin/backups", r#"{"name":"first"}"#).await, Code::IdTaken, "twice");
    for bad in [r#"{"name":"../x"}"#, r#"{"name":"/tmp/x"}"#, r#"{"name":""}"#, r#"{"to":"x"}"#, "[]", "{"] {
        check_problem(&context.post("/admin/backups", bad).await, Code::BodyMalformed, bad);
    }
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(5000));
    check_problem(&context.post("/admin/backups", &long).await, Code::BodyTooLarge, "long");
    let plain = [("content-type", "text/plain")];
    let reply = context.request("POST", "/admin/backups", &plain, Some(b"{}")).await;
    check_problem(&reply, Code::MediaTypeUnsupported, "a form of another page");
    let packed = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let reply = context.request("POST", "/admin/backups", &packed, Some(b"{}")).await;
    check_problem(&reply, Code::MediaTypeUnsupported, "packed");
    let typo = context.post("/admin/backups?nmae=x", "{}").await;
    check_problem(&typo, Code::ParameterInvalid, "a query");
    check_problem(&context.get("/admin/backups").await, Code::MethodNotAllowed, "GET");
    // Without a body, the name is the time.
    let made = context.request("POST", "/admin/backups", &[], None).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let names: Vec<_> = std::fs::read_dir(data.path().join("backups")).unwrap().collect();
    assert_eq!(names.len(), 2);
}

#[tokio::test]
async fn the_doctor_reports_the_durability() {
    let data = tempfile::tempdir().unwrap();
    let context = at_home(data.path()).await;
    let reply = context.get("/admin/doctor").await;
    assert_eq!((reply.status, reply.json()["object"].as_str()), (200, Some("checkup")));
    check_reply(&reply);
    check_contract("GET", "/admin/doctor", &reply);
    let checks = reply.data()["checks"].as_array().unwrap().clone();
    let durability = checks.iter().find(|check| check["name"] == "durability").unwrap();
    assert_eq!(durability["status"], "note", "{durability}");
    check_problem(&context.get("/admin/doctor?full=perhaps").await, Code::ParameterInvalid, "perhaps");
}

#[tokio::test]
async fn a_server_without_a_folder_has_no_such_routes() {
    let context = TestContext::memory().await;
    check_problem(&context.post("/admin/backups", "{}").await, Code::RouteNotFound, "backups");
    check_problem(&context.get("/admin/doctor").await, Code::RouteNotFound, "doctor");
}
