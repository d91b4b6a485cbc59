//! kill -9 while runs are pruned, tasks deleted and events appended: what was acknowledged stays, and what is
//! gone is named by a marker or a tombstone.

use std::collections::BTreeMap;

use recount_client::{Client, ClientError, request};
use serde_json::Value;

use crate::process::story;
use crate::server::{CommandOutput, Server, recount};

const ROUNDS: usize = 6;
const RUNS: usize = 12;
const NOTES: usize = 120;

/// What the server acknowledged to a client before it was killed.
#[derive(Default)]
struct Acknowledged {
    /// The acknowledged events of a run, and the first sequence that remains.
    runs: BTreeMap<String, (u64, u64)>,
    /// Runs of tasks that a client wanted deleted, and whether it was acknowledged.
    deleted: BTreeMap<String, (String, bool)>,
}

async fn ended(client: &Client, task: Option<&str>) -> (String, u64) {
    let new = request::CreateRun {
        kind: "external".into(),
        task_id: task.map(str::to_owned),
        ..request::CreateRun::default()
    };
    let run = client.create_run(&new).await.unwrap().id;
    let note = ("user.message", "{\"text\":\"a note of some length, so that there is something to take\"}");
    let mut events = vec![("run.started", "{}")];
    events.extend(vec![note; NOTES]);
    events.push(("run.finished", "{\"final_status\":\"done\"}"));
    story::append(client, &run, 0, &events).await;
    (run, events.len() as u64 + 1)
}

/// The remaining sequences of a run, and the end of the range that its markers name as pruned.
async fn left(client: &Client, run: &str) -> Result<(Vec<u64>, u64), ClientError> {
    let (mut left, mut pruned_until, mut after) = (Vec::new(), 0, None);
    loop {
        let page = client.read_run_events(run, after, None).await?;
        for envelope in &page.data {
            let event: Value = serde_json::from_str(envelope.get()).unwrap();
            left.push(event["sequence"].as_u64().unwrap());
            if event["type"] == "gap.events_pruned" {
                assert_eq!(event["data"]["first_pruned_sequence"], 0);
                pruned_until = event["data"]["last_pruned_sequence"].as_u64().unwrap() + 1;
            }
        }
        after = left.last().copied();
        if !page.has_more {
            return Ok((left, pruned_until));
        }
    }
}

/// Everything that holds after a death, whatever was under way.
async fn check(client: &Client, known: &Acknowledged) {
    for (run, (acknowledged, first)) in &known.runs {
        let (left, pruned_until) = left(client, run).await.unwrap();
        let begins = left[0];
        assert_eq!(begins, pruned_until, "{run}: the marker names exactly what is missing");
        assert!(begins >= *first, "{run}: what was pruned stays pruned");
        let end = begins + left.len() as u64;
        assert_eq!(left, (begins..end).collect::<Vec<_>>(), "{run}");
        assert!(end >= *acknowledged, "{run}: {acknowledged} events were acknowledged");
    }
    for (task, (run, acknowledged)) in &known.deleted {
        let pruned_until = |error: ClientError| error.code().map(str::to_owned);
        let task_error = client.get_task(task).await.map_err(pruned_until).err().flatten();
        let run_error = left(client, run).await.map_err(pruned_until).err().flatten();
        match task_error.as_deref() {
            Some("task_erased") => {
                // The server that started next finishes open deletions; asking again waits for that.
                let again = client.delete_task(task).await.map_err(pruned_until).err().flatten();
                assert!(again.is_none() || again.as_deref() == Some("task_erased"), "{again:?}");
                let run_error = left(client, run).await.map_err(pruned_until).err().flatten();
                assert_eq!(run_error.as_deref(), Some("run_erased"), "{run}");
            }
            code => {
                assert!(!acknowledged && code.is_none(), "{task}: {code:?}");
                assert_eq!(run_error, None, "{run}: nothing happened, or all of it");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_but_what_a_marker_names() {
    let data = tempfile::tempdir().unwrap();
    let mut known = Acknowledged::default();
    let (mut pruned, mut cut_short) = (0, 0);
    for round in 0..ROUNDS {
        let mut server = Server::start(data.path());
        let client = Client::new(&server.url(), None).unwrap();
        check(&client, &known).await;
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let (run, events) = ended(&client, None).await;
            known.runs.insert(run.clone(), (events, 0));
            runs.push(run);
        }
        let task = client.create_task(&request::CreateTask::default()).await.unwrap().id;
        let (run, _) = ended(&client, Some(&task)).await;
        known.deleted.insert(task.clone(), (run, false));
        // Later in each round, so that it dies at the beginning, in the middle and behind the end.
        let acknowledged_max = round * RUNS / 2;
        let mut acknowledged = 0;
        let working = async {
            for (at, before) in (0..).zip([Some(7), Some(60), None]) {
                for run in &runs {
                    let Ok(done) = client.prune_run(run, &request::PruneRun { before, dry_run: None }).await
                    else {
                        return;
                    };
                    let known = known.runs.get_mut(run).unwrap();
                    *known = (known.0 + 1, done.first_sequence);
                    acknowledged += 1;
                    if acknowledged > acknowledged_max {
                        return;
                    }
                }
                if at == 0 && client.delete_task(&task).await.is_ok() {
                    known.deleted.get_mut(&task).unwrap().1 = true;
                }
            }
        };
        working.await;
        pruned += acknowledged;
        // One more of each is under way when it dies.
        let (last, deletion) = (client.clone(), client.clone());
        let run = runs[acknowledged % RUNS].clone();
        let going = async move { last.prune_run(&run, &request::PruneRun::default()).await.is_err() };
        let deleting = async move { deletion.delete_task(&task).await.is_err() };
        let killing = async {
            crate::server::look_again().await;
            tokio::task::spawn_blocking(move || {
                server.kill();
                server
            })
            .await
            .unwrap()
        };
        let (going, _, _server) = tokio::join!(going, deleting, killing);
        cut_short += usize::from(going);
    }
    assert!(pruned > RUNS, "{pruned} prunes were acknowledged");
    let server = Server::start(data.path());
    check(&Client::new(&server.url(), None).unwrap(), &known).await;
    println!("{pruned} prunes acknowledged, {cut_short} of {ROUNDS} under way when the server was killed");
    drop(server);
    let folder = data.path().to_str().unwrap();
    CommandOutput::of(recount().args(["verify", "--data", folder])).good();
}
