//! `/admin`: only what stands below the server's own folder can be asked for, and only where there is one.

use std::sync::Arc;

use recount_event::Code;
use recount_log_sqlite::{Durability, SqliteOptions, SqliteStore};
use recount_server::access::Access;
use recount_server::{Home, Running};
use recount_world::World;

use crate::house::{House, check_problem, check_reply};
use crate::http::contract::check_kept;

async fn at_home(data: &std::path::Path) -> House {
    at_home_with(data, Access::default()).await
}

/// The same with rules for who may come in.
pub(crate) async fn at_home_with(data: &std::path::Path, access: Access) -> House {
    let store = Arc::new(SqliteStore::open(SqliteOptions::new(data)).unwrap());
    let home = Home {
        data: data.to_owned(),
        durability: Durability::Relaxed,
        accept_loss_after: Vec::new(),
        hot_events_max: None,
    };
    let bind = "127.0.0.1:0".parse().unwrap();
    let running = Running::start_at_home(store, World::real(), bind, home, access).await.unwrap();
    House { address: running.address, running }
}

#[tokio::test]
async fn a_backup_has_a_plain_name_and_is_made_once() {
    let data = tempfile::tempdir().unwrap();
    let house = at_home(data.path()).await;
    house.told_run().await;
    let made = house.post("/admin/backups", r#"{"name":"first"}"#).await;
    assert_eq!((made.status, made.json()["object"].as_str()), (201, Some("backup")), "{}", made.text());
    check_reply(&made);
    check_kept("POST", "/admin/backups", &made);
    let path = data.path().join("backups/first");
    assert_eq!(made.data()["path"], path.to_str().unwrap());
    let copy = SqliteStore::open(SqliteOptions::new(&path)).unwrap();
    drop(copy);
    check_problem(&house.post("/admin/backups", r#"{"name":"first"}"#).await, Code::IdTaken, "twice");
    for bad in [r#"{"name":"../x"}"#, r#"{"name":"/tmp/x"}"#, r#"{"name":""}"#, r#"{"to":"x"}"#, "[]", "{"] {
        check_problem(&house.post("/admin/backups", bad).await, Code::BodyMalformed, bad);
    }
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(5000));
    check_problem(&house.post("/admin/backups", &long).await, Code::BodyTooLarge, "long");
    let plain = [("content-type", "text/plain")];
    let reply = house.ask("POST", "/admin/backups", &plain, Some(b"{}")).await;
    check_problem(&reply, Code::MediaTypeUnsupported, "a form of another page");
    let packed = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let reply = house.ask("POST", "/admin/backups", &packed, Some(b"{}")).await;
    check_problem(&reply, Code::MediaTypeUnsupported, "packed");
    let typo = house.post("/admin/backups?nmae=x", "{}").await;
    check_problem(&typo, Code::ParameterInvalid, "a query");
    check_problem(&house.get("/admin/backups").await, Code::MethodNotAllowed, "GET");
    // Without a body it is named by the time.
    let made = house.ask("POST", "/admin/backups", &[], None).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let names: Vec<_> = std::fs::read_dir(data.path().join("backups")).unwrap().collect();
    assert_eq!(names.len(), 2);
}

#[tokio::test]
async fn the_doctor_tells_what_is_configured() {
    let data = tempfile::tempdir().unwrap();
    let house = at_home(data.path()).await;
    let reply = house.get("/admin/doctor").await;
    assert_eq!((reply.status, reply.json()["object"].as_str()), (200, Some("checkup")));
    check_reply(&reply);
    check_kept("GET", "/admin/doctor", &reply);
    let checks = reply.data()["checks"].as_array().unwrap().clone();
    let durability = checks.iter().find(|check| check["name"] == "durability").unwrap();
    assert_eq!(durability["status"], "note", "{durability}");
    check_problem(&house.get("/admin/doctor?full=perhaps").await, Code::ParameterInvalid, "perhaps");
}

#[tokio::test]
async fn a_server_without_a_folder_has_no_such_routes() {
    let house = House::memory().await;
    check_problem(&house.post("/admin/backups", "{}").await, Code::RouteNotFound, "backups");
    check_problem(&house.get("/admin/doctor").await, Code::RouteNotFound, "doctor");
}
