//! Rows with intact bytes and an invalid id: a store fault that names the row, on every read path, and never a client
//! error.

use bytes::Bytes;
use recount_engine::{ArtifactFilter, Error, IdempotencyKey, ListQuery, Narrowing, NewRun, Setup, Upload};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, PromptKind, RunId, SessionId, TaskId};
use recount_log::{Append, Guard, RowPut, RowRange, Store as _};
use serde_json::Value;

use crate::prompts::{HANDOFF, QUESTION};
use crate::scene::{APPROVAL, Scene};

fn id(text: &str) -> ForeignId {
    ForeignId::parse(text).unwrap()
}

fn query() -> ListQuery {
    ListQuery { limit: 10, ..ListQuery::default() }
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Debug>>(id: impl ToString) -> T {
    id.to_string().parse().unwrap()
}

/// One item of each kind that has a row with an id.
struct Fixture {
    scene: Scene,
    task: TaskId,
    session: SessionId,
    run: RunId,
    /// Erased with its task.
    erased_run: RunId,
    erased_artifact: ForeignId,
    upload: ForeignId,
    idempotency: IdempotencyKey,
}

impl Fixture {
    async fn new() -> Self {
        let scene = Scene::new().await;
        let write = scene.engine.write();
        let task: TaskId = parsed(write.create_task(None, None).await.unwrap().0.id);
        let setup = recount_engine::NewSetup {
            setup: Setup { agent: "clerk".into(), ..Setup::default() },
            ..recount_engine::NewSetup::default()
        };
        let session: SessionId = parsed(write.create_setup(setup, None).await.unwrap().id);
        let new = |task, session| NewRun {
            queued: Queued::new(RunKind::External),
            task,
            session,
            resumed_from: None,
        };
        let lost: TaskId = parsed(write.create_task(None, None).await.unwrap().0.id);
        let (erased_run, _) = write.create_run(new(Some(lost), None)).await.unwrap();
        let artifact = ("artifact.created", r#"{"artifact_id":"lost","kind":"file_snapshot"}"#);
        scene.report(erased_run, 0, &[("run.started", "{}"), artifact]).await.unwrap();
        scene.cancel(erased_run).await.unwrap();
        scene.engine.admin().delete_task(lost, "ann").await.unwrap();
        let idempotency = IdempotencyKey { key: "k".into(), body: "b".into() };
        let (run, _) =
            write.create_run_keyed(new(Some(task), Some(session)), Some(&idempotency)).await.unwrap();
        let artifact = ("artifact.created", r#"{"artifact_id":"kept","kind":"file_snapshot"}"#);
        scene.report(run, 0, &[("run.started", "{}"), artifact, APPROVAL, QUESTION, HANDOFF]).await.unwrap();
        let upload = Upload {
            kind: "image".into(),
            mime: "image/png".into(),
            name: None,
            bytes: Bytes::from_static(b"\x89PNG\0"),
            by: "ann".into(),
        };
        let upload = id(&write.upload(upload).await.unwrap().id.to_string());
        Fixture { scene, task, session, run, erased_run, erased_artifact: id("lost"), upload, idempotency }
    }

    /// Reads the rows of a space through the engine.
    async fn read(&self, space: &str) -> Result<(), Error> {
        let engine = &self.scene.engine;
        let (catalogue, read) = (engine.catalogue(), engine.read());
        let filter = |run, task| ArtifactFilter { run, task, ..ArtifactFilter::default() };
        let all = Narrowing::default();
        match space {
            "catalogue.runs" => catalogue.run(self.run).await.map(drop),
            "record.tasks" => catalogue.task(self.task).await.map(drop),
            "record.sessions" => catalogue.session(self.session).await.map(drop),
            "record.task_active" => catalogue.active_run(self.task).await.map(drop),
            "catalogue.approvals" => read.prompt(PromptKind::Approval, &id("a1")).await.map(drop),
            "catalogue.clarifications" => read.prompt(PromptKind::Clarification, &id("q1")).await.map(drop),
            "catalogue.handoffs" => read.prompt(PromptKind::Handoff, &id("h1")).await.map(drop),
            "catalogue.artifacts" => read.find_artifacts(&id("kept")).await.map(drop),
            "record.uploads" => catalogue.uploaded(&self.upload).await.map(drop),
            "record.erased" => catalogue.tombstone(self.erased_run).await.map(drop),
            "record.artifacts_gone" => match read.missing_artifact(&self.erased_artifact).await {
                Error::Rejected(_) => Ok(()),
                failed => Err(failed),
            },
            "record.once" => engine.write().claim_request(&self.idempotency).await.map(drop),
            "catalogue.artifacts_listed" => {
                named(read.list_artifacts(&query(), &filter(None, None), &all).await?.end.damaged)
            }
            "catalogue.run_artifacts" => {
                named(read.list_artifacts(&query(), &filter(Some(self.run), None), &all).await?.end.damaged)
            }
            "catalogue.task_artifacts" => {
                named(read.list_artifacts(&query(), &filter(None, Some(self.task)), &all).await?.end.damaged)
            }
            "catalogue.approvals_listed" => {
                named(read.list_prompts(PromptKind::Approval, &query()).await?.end.damaged)
            }
            "catalogue.clarifications_listed" => {
                named(read.list_prompts(PromptKind::Clarification, &query()).await?.end.damaged)
            }
            "catalogue.handoffs_listed" => {
                named(read.list_prompts(PromptKind::Handoff, &query()).await?.end.damaged)
            }
            other => panic!("no reader for {other}"),
        }
    }

    /// Rewrites each row of a space, without the engine.
    async fn rewrite(&self, space: &str, change: impl Fn(&str, Value) -> Value) -> Vec<(String, Bytes)> {
        let range = RowRange::first(space, "", usize::MAX);
        let before = self.scene.store.rows(range).await.unwrap();
        assert!(!before.is_empty(), "{space} has no row");
        for row in &before {
            let value = change(&row.key, serde_json::from_slice(&row.value).unwrap());
            self.put(space, &row.key, Bytes::from(value.to_string())).await;
        }
        before.into_iter().map(|row| (row.key.to_string(), row.value)).collect()
    }

    async fn put(&self, space: &str, key: &str, value: Bytes) {
        let put = RowPut { space: space.into(), key: key.into(), guard: Guard::Any, value: Some(value) };
        self.scene.store.append(Append { rows: vec![put], ..Append::default() }).await.unwrap();
    }
}

/// Turns the damaged rows of a list into an [`Error`].
fn named(damaged: Vec<String>) -> Result<(), Error> {
    match damaged.is_empty() {
        true => Ok(()),
        false => Err(Error::Failed(recount_engine::Failure {
            code: Code::StoreCorrupt,
            message: damaged.join(", "),
            retry_after: None,
            damage: None,
        })),
    }
}

/// The spaces, and the paths of the ids in their values.
const IDS: &[(&str, &[&str])] = &[
    ("catalogue.runs", &["/id", "/task_id", "/session_id", "/pending/0", "/pending_approvals/0"]),
    ("record.tasks", &["/id"]),
    ("record.sessions", &["/id"]),
    ("record.task_active", &[""]),
    ("catalogue.approvals", &["/id", "/event_id", "/run_id", "/task_id", "/tool_call_id"]),
    ("catalogue.clarifications", &["/id", "/event_id", "/run_id", "/task_id"]),
    ("catalogue.handoffs", &["/id", "/event_id", "/run_id", "/task_id"]),
    ("catalogue.artifacts", &["/id", "/event_id", "/run_id", "/task_id", "/session_id"]),
    ("record.uploads", &["/id"]),
    ("record.erased", &["/run_id", "/task_id"]),
    ("record.artifacts_gone", &["/run_id"]),
    ("record.once", &["/made"]),
    ("catalogue.artifacts_listed", &["/0"]),
    ("catalogue.run_artifacts", &["/0"]),
    ("catalogue.task_artifacts", &["/0"]),
    ("catalogue.approvals_listed", &[""]),
    ("catalogue.clarifications_listed", &[""]),
    ("catalogue.handoffs_listed", &[""]),
];

#[tokio::test(start_paused = true)]
async fn an_invalid_id_in_a_row_is_a_store_fault() {
    let mut fixture = Fixture::new().await;
    let mut wrong = Vec::new();
    for (space, places) in IDS {
        for place in *places {
            let before = fixture
                .rewrite(space, |key, mut value| {
                    let id = value.pointer_mut(place);
                    *id.unwrap_or_else(|| panic!("{space}/{key} has no {place}")) = "no id".into();
                    value
                })
                .await;
            fixture.scene.reopen().await;
            match fixture.read(space).await {
                Err(Error::Failed(failure))
                    if failure.code == Code::StoreCorrupt
                        && before
                            .iter()
                            .any(|(key, _)| failure.message.contains(&format!("{space}/{key}"))) => {}
                other => wrong.push(format!("{space} {place}: {other:?}")),
            }
            for (key, value) in before {
                fixture.put(space, &key, value).await;
            }
            fixture.scene.reopen().await;
            assert!(fixture.read(space).await.is_ok(), "{space} is unchanged");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_names_an_unreadable_row_and_continues() {
    let mut fixture = Fixture::new().await;
    let other = fixture.scene.queue().await;
    let key = format!("default/{}", fixture.run);
    fixture
        .rewrite("catalogue.runs", |at, mut value| {
            if at == key {
                value["task_id"] = "no id".into();
            }
            value
        })
        .await;
    fixture.scene.reopen().await;
    let page = fixture.scene.engine.catalogue().list_runs(&query()).await.unwrap();
    assert_eq!(page.items.iter().map(|row| row.id.to_string()).collect::<Vec<_>>(), [other.to_string()]);
    assert_eq!(page.end.damaged, [format!("catalogue.runs/{key}")]);
}
