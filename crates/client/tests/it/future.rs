//! A server of a later release: what it adds is ignored, and nothing else is lost.
//!
//! `testdata/future/` defines what such a server may send. The test stands in for released clients.

use recount_client::admin::{MakeBackup, Status};
use recount_client::request::{
    AppendEvents, Cancel, CreateRun, CreateTask, Producer, Prune, PruneRun, ResolveApproval, Verdict,
};
use recount_client::{Client, ClientError, Listing, Source, TailItem, Until, reply};
use serde_json::Value;

use crate::scripted::{Answer, Scripted};

const REPLIES: &str = include_str!("../../../../testdata/future/replies.json");
const PROBLEM: &str = include_str!("../../../../testdata/future/problem.json");
const STREAM: &str = include_str!("../../../../testdata/future/stream.txt");
const EVENTS: &str = include_str!("../../../../testdata/future/events.jsonl");

/// A client whose next answers are these.
async fn client(names: &[&str]) -> (Scripted, Client) {
    let replies: Value = serde_json::from_str(REPLIES).unwrap();
    let answers = names.iter().map(|name| {
        assert!(!replies[name].is_null(), "{name} is in the corpus");
        Answer::json(replies[name].to_string())
    });
    let server = Scripted::start(answers).await;
    let client = Client::new(&server.url, None).unwrap();
    (server, client)
}

#[tokio::test]
async fn what_was_added_to_replies_is_ignored() {
    let (_server, client) = client(&[
        "create_task",
        "list_tasks",
        "get_task",
        "delete_task",
        "create_run",
        "list_runs",
        "get_run",
        "get_run",
        "get_run_digest",
        "prune_run",
        "prune",
        "append_run_events",
        "import_run",
        "read_run_events",
        "list_approvals",
        "get_approval",
        "get_approval",
        "make_backup",
        "doctor",
    ])
    .await;
    let listing = Listing::default();
    let kind = "external".to_owned();
    let new_run = CreateRun { kind, ..CreateRun::default() };
    assert_eq!(client.create_task(&CreateTask::default()).await.unwrap().status, "paused");
    assert_eq!(client.list_tasks(&listing).await.unwrap().data[0].runs, 2);
    assert_eq!(client.get_task("t").await.unwrap().title.as_deref(), Some("from a later release"));
    assert_eq!(client.delete_task("t").await.unwrap().runs, 2);
    assert_eq!(client.create_run(&new_run).await.unwrap().kind, "swarm");
    let runs = client.list_runs(&listing).await.unwrap();
    assert_eq!((runs.data[0].status.as_str(), runs.has_more), ("paused", false));
    assert!(runs.next.is_some(), "a cursor of any form can be given back");
    assert!(client.get_run("r").await.unwrap().needs_attention);
    assert_eq!(client.cancel_run("r", &Cancel::default()).await.unwrap().driver, "delegated");
    assert_eq!(client.get_run_digest("r").await.unwrap().algorithm, "recount.run.v2");
    assert_eq!(client.prune_run("r", &PruneRun::default()).await.unwrap().first_sequence, 3);
    assert_eq!(client.prune(&Prune::default()).await.unwrap().events, 2);
    let producer = Producer { id: "p".to_owned(), epoch: 1, seq: 0 };
    let batch = AppendEvents { producer, events: Vec::new() };
    assert_eq!(client.append_run_events("r", &batch).await.unwrap().position, 9);
    assert!(client.import_run(b"{}\n".to_vec()).await.unwrap().imported);
    let page = client.read_run_events("r", None, None).await.unwrap();
    assert_eq!(page.data.len(), EVENTS.lines().count());
    assert_eq!(page.gap.and_then(|gap| gap.pruned()).map(|(_, last)| last), Some(0));
    assert_eq!(client.list_prompts::<reply::Approval>(&listing).await.unwrap().data[0].status, "delegated");
    assert_eq!(client.get_prompt::<reply::Approval>("a").await.unwrap().decision.as_deref(), Some("defer"));
    let resolve =
        ResolveApproval { decision: Verdict::Approve, comment: None, remember: None, shown_digest: None };
    assert_eq!(client.answer_prompt("a", &resolve).await.unwrap().default_decision, "escalate");
    assert_eq!(client.make_backup(&MakeBackup::default()).await.unwrap().name, "n");
    let checkup = client.check_up(false).await.unwrap();
    assert_eq!((checkup.checks[0].status, checkup.checks[0].value.as_str()), (Status::Other, "9.81"));
}

#[tokio::test]
async fn an_unknown_error_code_is_still_a_problem() {
    let server = Scripted::start([Answer::Full {
        status: 409,
        media_type: "application/problem+json",
        body: PROBLEM.to_owned(),
    }])
    .await;
    let client = Client::new(&server.url, None).unwrap();
    match client.get_run("r").await {
        Err(ClientError::Problem(problem)) => {
            assert_eq!((problem.code.as_str(), problem.status), ("quorum_missing", 409));
            assert!(problem.retryable && problem.detail.contains("2 are wanted"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn unknown_frames_lose_no_event() {
    let server = Scripted::start([Answer::Stream(STREAM.to_owned())]).await;
    let client = Client::new(&server.url, None).unwrap();
    let mut tail = client.tail(Source::Run("r".to_owned()), None, Until::CaughtUp);
    let mut envelopes = Vec::new();
    while let Some(item) = tail.next().await {
        match item.unwrap() {
            TailItem::Event { cursor, envelope } => {
                assert_eq!(cursor, envelopes.len() as u64);
                envelopes.push(envelope);
            }
            TailItem::CaughtUp { cursor } => assert_eq!(cursor, Some(envelopes.len() as u64 - 1)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(envelopes, EVENTS.lines().collect::<Vec<_>>());
}
