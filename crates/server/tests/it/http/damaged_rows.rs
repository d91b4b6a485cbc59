//! Damaged rows: those of the catalogue are made again from the log, by a start, a read and the scrub; a damaged record
//! costs itself and is named. Bits are flipped in the database file, before a start and under a running server.

use std::path::{Path, PathBuf};

use recount_engine::{NewSetup, Setup};
use recount_event::Code;
use serde_json::Value;

use recount_server::access::Book;

use crate::house::{House, STORY, check_problem, text};
use crate::http::access::{ask_as, closed_house, make_token, strict};
use crate::http::admin::at_home_with;
use crate::http::damage::change_text;

/// A row in the file: its space and the beginning of its key, and how many bytes of the key follow.
struct Place {
    begins: String,
    more: usize,
}

impl Place {
    fn exact(space: &str, key: &str) -> Place {
        Place { begins: format!("{space}{key}"), more: 0 }
    }

    /// A row whose key ends with the id of an event.
    fn of_event(space: &str, key: &str) -> Place {
        Place { begins: format!("{space}{key}evt_"), more: 26 }
    }
}

/// Which bit of a row is flipped.
#[derive(Debug, Clone, Copy)]
enum Bit {
    Value,
    /// The key stays text, and is another one.
    Key,
    /// The key is no text any more.
    KeyUnreadable,
}

fn flip(folder: &Path, place: &Place, bit: Bit) {
    let database = folder.join("recount.db");
    let bytes = std::fs::read(&database).unwrap();
    let found =
        (0..bytes.len() - place.begins.len()).filter(|at| bytes[*at..].starts_with(place.begins.as_bytes()));
    let key_ends: Vec<usize> = found.map(|at| at + place.begins.len() + place.more).collect();
    assert!(!key_ends.is_empty(), "{} is in the file", place.begins);
    // Written in place: another file under the name would not be the one that a running server has open.
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

/// A store in which every kind of row of the catalogue that a producer can make is there, and what lists say of it.
struct Scene {
    folder: tempfile::TempDir,
    task: String,
    session: String,
    run: String,
    whole: Vec<(String, Value)>,
}

impl Scene {
    async fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let house = House::sqlite(folder.path()).await;
        let made = house.post("/v1/tasks", r#"{"title":"one","kind":"external"}"#).await.data();
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
        house.tell(&run, 0, &events).await;
        let session = text(&house.post("/v1/sessions", r#"{"title":"talk"}"#).await.data()["id"]);
        for _ in 0..3 {
            let body = format!(r#"{{"kind":"external","session_id":"{session}"}}"#);
            let run = text(&house.post("/v1/runs", &body).await.data()["id"]);
            house.tell(&run, 0, STORY).await;
        }
        let mut scene = Scene { folder, task, session, run, whole: Vec::new() };
        scene.whole = scene.lists(&house).await;
        assert_eq!(house.running.stop().await, 0);
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

    async fn lists(&self, house: &House) -> Vec<(String, Value)> {
        let Scene { task, session, run, .. } = self;
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
            let reply = house.get(&target).await;
            assert_eq!(reply.status, 200, "{target}: {}", reply.text());
            lists.push((target, reply.json()));
        }
        lists
    }

    /// A row of each kind.
    fn places(&self) -> Vec<Place> {
        let Scene { task, session, run, .. } = self;
        vec![
            Place::exact("catalogue.runs", &format!("default/{run}")),
            Place::exact("catalogue.task_runs", &format!("default/{task}/{run}")),
            Place { begins: format!("catalogue.session_runsdefault/{session}/run_"), more: 26 },
            Place::exact("catalogue.deadlines", run),
            Place::exact("catalogue.approvals", "default/appr-1"),
            Place::of_event("catalogue.approvals_listed", "default/"),
            Place::of_event("catalogue.approvals_pending", "default/"),
            Place::of_event("catalogue.clarifications", "default/q-1/"),
            Place::of_event("catalogue.clarifications_listed", "default/"),
            Place::of_event("catalogue.clarifications_pending", "default/"),
            Place::of_event("catalogue.handoffs", "default/h-1/"),
            Place::of_event("catalogue.handoffs_listed", "default/"),
            Place::of_event("catalogue.handoffs_pending", "default/"),
            Place::of_event("catalogue.artifacts", "default/art-1/"),
            Place::of_event("catalogue.artifacts_listed", "default/"),
            Place::of_event("catalogue.run_artifacts", &format!("default/{run}/")),
            Place::of_event("catalogue.task_artifacts", &format!("default/{task}/")),
        ]
    }
}

/// How often damage was found, by the metrics.
pub(crate) async fn found(house: &House) -> f64 {
    let page = house.get("/metrics").await;
    let line = page.text().lines().find(|line| line.starts_with("recount_damage_found "));
    line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{}", page.text()))
}

async fn check_whole(folder: &Path) {
    let data = folder.to_owned();
    // It has a runtime of its own.
    let looking = tokio::task::spawn_blocking(move || recount_server::verify::offline(&data, &[]));
    for report in looking.await.unwrap().unwrap().reports {
        assert_eq!(report.problems, [""; 0], "{report:?}");
    }
}

#[tokio::test]
async fn a_catalogue_row_that_was_damaged_before_a_start_is_made_again() {
    let scene = Scene::new().await;
    for place in scene.places() {
        for bit in [Bit::Value, Bit::Key, Bit::KeyUnreadable] {
            let copy = scene.copy();
            flip(copy.path(), &place, bit);
            let house = House::sqlite(copy.path()).await;
            assert_eq!(scene.lists(&house).await, scene.whole, "{} {bit:?}", place.begins);
            assert!(found(&house).await >= 1.0, "{} {bit:?} is reported", place.begins);
            assert_eq!(house.running.stop().await, 0);
            check_whole(copy.path()).await;
        }
    }
}

#[tokio::test]
async fn a_catalogue_row_that_is_damaged_under_a_running_server_is_made_again() {
    let scene = Scene::new().await;
    for place in scene.places() {
        for bit in [Bit::Value, Bit::KeyUnreadable] {
            let copy = scene.copy();
            let house = House::sqlite(copy.path()).await;
            flip(copy.path(), &place, bit);
            // After a commit, what readers have in memory is read again from the file.
            assert_eq!(house.post("/v1/sessions", r#"{"title":"other"}"#).await.status, 201);
            assert_eq!(scene.lists(&house).await, scene.whole, "{} {bit:?}", place.begins);
            assert_eq!(house.running.stop().await, 0);
            check_whole(copy.path()).await;
        }
    }
}

/// A record is no fold: it is lost, and named where it is asked for; the others are listed and work goes on.
#[tokio::test]
async fn a_damaged_record_is_named_and_fails_no_list_of_others() {
    let scene = Scene::new().await;
    let copy = scene.copy();
    let house = House::sqlite(copy.path()).await;
    let other = text(&house.post("/v1/tasks", r#"{"title":"two"}"#).await.data()["id"]);
    assert_eq!(house.running.stop().await, 0);
    let name = format!("record.tasks/default/{}", scene.task);
    flip(copy.path(), &Place::exact("record.tasks", &format!("default/{}", scene.task)), Bit::Value);
    let house = House::sqlite(copy.path()).await;
    let page = house.get("/v1/tasks").await;
    assert_eq!(page.status, 200, "{}", page.text());
    let page = page.json();
    let ids: Vec<String> = page["data"].as_array().unwrap().iter().map(|task| text(&task["id"])).collect();
    assert_eq!(ids, [other]);
    assert_eq!(page["damaged"], serde_json::json!([name]));
    let refused = house.get(&format!("/v1/tasks/{}", scene.task)).await;
    let problem = check_problem(&refused, Code::StoreCorrupt, "a damaged record");
    assert!(problem["detail"].as_str().unwrap().contains(&name), "{problem}");
    assert_eq!(house.post("/v1/tasks", r#"{"title":"three"}"#).await.status, 201);
    assert_eq!(house.get("/v1/runs").await.json()["data"].as_array().unwrap().len(), 4);
    assert_eq!(house.running.stop().await, 0);
}

/// No whole record is between it and other lists, and none shows that its name was not changed.
#[tokio::test]
async fn a_damaged_record_that_is_alone_in_its_list_fails_no_other_list() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::sqlite(folder.path()).await;
    let made = house.post("/v1/tasks", r#"{"title":"one","kind":"external"}"#).await.data();
    let (task, run) = (text(&made["id"]), text(&made["latest_run_id"]));
    // Neither a producer nor an active run has a record beside it.
    assert_eq!(house.post(&format!("/v1/runs/{run}/cancel"), "").await.status, 200);
    assert_eq!(house.running.stop().await, 0);
    flip(folder.path(), &Place::exact("record.tasks", &format!("default/{task}")), Bit::Value);
    let house = House::sqlite(folder.path()).await;
    let runs = house.get("/v1/runs").await;
    assert_eq!((runs.status, &runs.json()["data"][0]["id"]), (200, &run.clone().into()), "{}", runs.text());
    assert_eq!(house.get(&format!("/v1/runs/{run}")).await.status, 200);
    let tasks = house.get("/v1/tasks").await.json();
    assert_eq!(tasks["damaged"], serde_json::json!([format!("record.tasks/default/{task}")]));
    assert_eq!(house.post("/v1/tasks", r#"{"title":"two"}"#).await.status, 201);
    assert_eq!(house.running.stop().await, 0);

    // Now it is not alone any more, so that it certainly is in no other list, and it can be deleted.
    let house = House::sqlite(folder.path()).await;
    let gone = ask_as(&house, None, "DELETE", &format!("/v1/tasks/{task}"), None).await;
    assert_eq!((gone.status, &gone.data()["runs"]), (200, &1.into()), "{}", gone.text());
    let missing = house.get(&format!("/v1/tasks/{task}")).await;
    check_problem(&missing, Code::TaskErased, "a deleted task");
    assert_eq!(house.get("/v1/tasks").await.json()["damaged"], Value::Null);
    assert_eq!(house.running.stop().await, 0);
    check_whole(folder.path()).await;
}

#[tokio::test]
async fn a_damaged_pin_still_keeps_its_run_fails_no_list_and_can_be_taken_away() {
    let scene = Scene::new().await;
    let copy = scene.copy();
    let house = House::sqlite(copy.path()).await;
    let ids = |runs: &Value| -> Vec<String> {
        let pinned = runs["data"].as_array().unwrap().iter().filter(|run| run["pinned"] == true);
        pinned.map(|run| text(&run["id"])).collect()
    };
    let runs = house.get("/v1/runs").await.json();
    let run = text(&runs["data"][1]["id"]);
    let pin = format!("/v1/runs/{run}/pin");
    assert_eq!(ask_as(&house, None, "PUT", &pin, None).await.status, 200);
    assert_eq!(house.running.stop().await, 0);
    flip(copy.path(), &Place::exact("record.pins", &run), Bit::Value);
    let house = House::sqlite(copy.path()).await;
    let runs = house.get("/v1/runs").await;
    assert_eq!(runs.status, 200, "{}", runs.text());
    assert_eq!((runs.json()["data"].as_array().unwrap().len(), ids(&runs.json())), (4, vec![run.clone()]));
    assert_eq!(ask_as(&house, None, "DELETE", &pin, None).await.status, 200);
    assert_eq!(ids(&house.get("/v1/runs").await.json()), [""; 0]);
    assert_eq!(house.running.stop().await, 0);
    check_whole(copy.path()).await;
}

/// Alone in its list, the damaged row may be one of the lists beside it; with another run it is not.
#[tokio::test]
async fn a_damaged_run_whose_row_is_damaged_too_stops_no_start_and_goes_with_its_task() {
    const WORDS: &str = "words that will be other ones";
    for others in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let house = House::sqlite(folder.path()).await;
        for _ in 0..others {
            house.told_run().await;
        }
        let made = house.post("/v1/tasks", r#"{"kind":"external"}"#).await.data();
        let (task, run) = (text(&made["id"]), text(&made["latest_run_id"]));
        let words = format!(r#"{{"text":"{WORDS}"}}"#);
        house.tell(&run, 0, &[STORY[0], ("ext.words.said", &words)]).await;
        assert_eq!(house.running.stop().await, 0);
        change_text(folder.path(), WORDS);
        let name = format!("default/{run}");
        flip(folder.path(), &Place::exact("catalogue.runs", &name), Bit::Value);
        let house = House::sqlite(folder.path()).await;
        let page = house.get("/v1/runs").await.json();
        assert_eq!(page["damaged"], serde_json::json!([format!("catalogue.runs/{name}")]));
        let gone = house.ask("DELETE", &format!("/v1/tasks/{task}"), &[], None).await;
        assert_eq!(gone.status, 200, "{}", gone.text());
        check_problem(&house.get(&format!("/v1/runs/{run}")).await, Code::RunErased, "a deleted run");
        let page = house.get("/v1/runs").await.json();
        assert_eq!((page["data"].as_array().unwrap().len(), page.get("damaged")), (others, None));
        assert_eq!(house.running.stop().await, 0);
    }
}

#[tokio::test]
async fn a_damaged_token_gives_nobody_access_and_stops_no_start() {
    let data = tempfile::tempdir().unwrap();
    let (house, admin) = closed_house(data.path()).await;
    let body = r#"{"name":"ci","scopes":["read"]}"#;
    let made = ask_as(&house, Some(&admin), "POST", "/admin/tokens", Some(body)).await.data();
    let (id, lost) = (text(&made["id"]), text(&made["secret"]));
    assert_eq!(ask_as(&house, Some(&lost), "GET", "/v1/runs", None).await.status, 200);
    assert_eq!(house.running.stop().await, 0);
    flip(data.path(), &Place::exact("record.tokens", &id), Bit::Value);
    let house = at_home_with(data.path(), strict()).await;
    let refused = ask_as(&house, Some(&lost), "GET", "/v1/runs", None).await;
    check_problem(&refused, Code::TokenInvalid, "a token whose record is damaged");
    let page = ask_as(&house, Some(&admin), "GET", "/admin/tokens", None).await.json();
    assert_eq!(page["damaged"], serde_json::json!([format!("record.tokens/{id}")]));
    let names: Vec<&Value> = page["data"].as_array().unwrap().iter().map(|token| &token["name"]).collect();
    assert_eq!(names, ["boss"]);
    let again = make_token(&house, Some(&admin), body).await;
    assert_eq!(ask_as(&house, Some(&again), "GET", "/v1/runs", None).await.status, 200);
    assert_eq!(house.running.stop().await, 0);
    // The same in a folder that no server uses.
    let book = Book::open(data.path()).unwrap();
    let page = book.list().await.unwrap();
    assert_eq!((page.data.len(), page.damaged.len()), (2, 1));
    book.close().await.unwrap();
    // The operator can take it back: of whom it was is not known.
    let house = House::sqlite(data.path()).await;
    let token = format!("/admin/tokens/{id}");
    assert_eq!(ask_as(&house, None, "DELETE", &token, None).await.status, 200);
    assert_eq!(ask_as(&house, None, "DELETE", &token, None).await.status, 404);
    assert_eq!(ask_as(&house, None, "GET", "/admin/tokens", None).await.json()["damaged"], Value::Null);
    assert_eq!(house.running.stop().await, 0);
    let book = Book::open(data.path()).unwrap();
    let page = book.list().await.unwrap();
    assert_eq!((page.data.len(), page.damaged.len()), (2, 0));
    book.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_session_of_an_application_fails_no_list_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::sqlite(folder.path()).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        let setup =
            NewSetup { setup: Setup { agent: "clerk".into(), ..Setup::default() }, ..NewSetup::default() };
        made.push(house.running.engine.write().create_setup(setup, None).await.unwrap().id.to_string());
    }
    assert_eq!(house.running.stop().await, 0);
    let row = |session: &str| format!("default/{session}");
    flip(folder.path(), &Place::exact("record.session_setups", &row(&made[0])), Bit::Value);
    flip(folder.path(), &Place::exact("record.sessions", &row(&made[1])), Bit::Value);
    let house = House::sqlite(folder.path()).await;
    let list = house.get("/aap/sessions").await;
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
    assert_eq!(house.running.stop().await, 0);
}
