//! Dispatch of own runs: a limited number of workers, one for each run, and another one if it is lost.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use recount_engine::{
    ListQuery, NewRun, NewTask, Overrides, Performer, RunOwner, Unacceptable, UserMessage, WorkerSession,
};
use recount_event::family::run::{Finished, Queued, RunKind, Started};
use recount_event::{Code, Payload, RunId};
use recount_faulty_store::AppendFault;
use recount_log::FaultKind;
use tokio::sync::Semaphore;

use crate::scene::{START_MS, Scene, code, drafts};

/// The behavior of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    /// Starts the run, waits for a permit, and finishes it.
    Finishes,
    /// Starts the run and panics.
    Panics,
    /// Starts the run and returns as after a failure.
    GivesUp,
    /// As `Finishes`, but waits until the start is confirmed.
    WaitsFirst,
}

struct TestPerformer {
    behaviour: Behaviour,
    /// Permits to continue after `run.started`.
    permits: Arc<Semaphore>,
    seen: Arc<Mutex<Vec<RunId>>>,
}

impl Performer for TestPerformer {
    fn accept(&self, new: &mut NewRun) -> Result<(), Unacceptable> {
        match new.queued.model.as_deref() {
            Some("none") => {
                Err(Unacceptable { code: Code::ModelUnknown, message: "there is no none".into() })
            }
            _ => {
                new.queued.model = Some("filled in".into());
                Ok(())
            }
        }
    }

    fn perform(&self, mut session: WorkerSession) -> BoxFuture<'static, Option<WorkerSession>> {
        let (behaviour, permits) = (self.behaviour, self.permits.clone());
        self.seen.lock().unwrap().push(session.run());
        Box::pin(async move {
            if behaviour == Behaviour::WaitsFirst && session.wait_until_started().await.is_err() {
                return Some(session);
            }
            if session.state().claim().is_none() {
                let mut started = Started::new();
                started.worker_id = Some(session.worker_id().to_owned());
                match session.report(vec![Payload::RunStarted(Box::new(started)).into()]).await {
                    Ok(_) => {}
                    Err(recount_engine::WorkerExit::Ended) => return Some(session),
                    Err(_) => return None,
                }
            }
            match behaviour {
                Behaviour::Panics => panic!("this worker fails on purpose"),
                Behaviour::GivesUp => return None,
                Behaviour::Finishes | Behaviour::WaitsFirst => permits.acquire().await.unwrap().forget(),
            }
            let finished = Payload::RunFinished(Box::new(Finished::new("completed".into())));
            let _reported = session.report(vec![finished.into()]).await;
            Some(session)
        })
    }

    fn forget(&self, _owner: RunOwner) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

struct Fixture {
    scene: Scene,
    permits: Arc<Semaphore>,
    seen: Arc<Mutex<Vec<RunId>>>,
}

async fn attach(
    scene: &Scene,
    behaviour: Behaviour,
    permits: &Arc<Semaphore>,
    seen: &Arc<Mutex<Vec<RunId>>>,
    at_once: usize,
) {
    let performer = TestPerformer { behaviour, permits: permits.clone(), seen: seen.clone() };
    scene.engine.work().attach_performer(Arc::new(performer), at_once).await.unwrap();
}

async fn fixture(behaviour: Behaviour, at_once: usize) -> Fixture {
    let (scene, permits) = (Scene::new().await, Arc::new(Semaphore::new(0)));
    let seen = Arc::default();
    attach(&scene, behaviour, &permits, &seen, at_once).await;
    Fixture { scene, permits, seen }
}

fn shell() -> NewRun {
    NewRun { queued: Queued::new(RunKind::Shell), task: None, session: None, resumed_from: None }
}

impl Fixture {
    async fn queue(&self) -> RunId {
        self.scene.engine.write().create_run(shell()).await.unwrap().0
    }

    /// Waits, in paused time, until the run has these event types.
    async fn wait_for_types(&self, run: RunId, types: &[&str]) {
        for _ in 0..1_000 {
            if self.scene.types(run).await == types {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(self.scene.types(run).await, types);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_run_is_not_queued_and_missing_options_are_filled_in() {
    let fixture = fixture(Behaviour::Finishes, 1).await;
    let mut new = shell();
    new.queued.model = Some("none".into());
    assert_eq!(code(fixture.scene.engine.write().create_run(new).await), Code::ModelUnknown);
    let run = fixture.queue().await;
    let queued = fixture.scene.engine.read().read_run(run, None, 1).await.unwrap().0;
    assert!(String::from_utf8_lossy(&queued[0].1).contains("filled in"));
}

#[tokio::test(start_paused = true)]
async fn runs_beyond_the_limit_wait_and_get_their_queue_position() {
    let fixture = fixture(Behaviour::Finishes, 2).await;
    let (one, two) = (fixture.queue().await, fixture.queue().await);
    for run in [one, two] {
        fixture.wait_for_types(run, &["run.queued", "run.started"]).await;
    }
    let (three, four) = (fixture.queue().await, fixture.queue().await);
    for run in [three, four] {
        fixture.wait_for_types(run, &["run.queued", "run.throttled"]).await;
    }
    let stats = fixture.scene.engine.admin().stats().await.unwrap();
    assert_eq!((stats.runs_at_work, stats.runs_in_line), (2, 2));
    fixture.permits.add_permits(4);
    let waited = ["run.queued", "run.throttled", "run.started", "run.finished"];
    fixture.wait_for_types(one, &["run.queued", "run.started", "run.finished"]).await;
    fixture.wait_for_types(three, &waited).await;
    fixture.wait_for_types(four, &waited).await;
    assert_eq!(*fixture.seen.lock().unwrap(), [one, two, three, four], "in the order of creation");
    let stats = fixture.scene.engine.admin().stats().await.unwrap();
    assert_eq!((stats.runs_at_work, stats.runs_in_line), (0, 0));
    fixture.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_loses_its_workers_repeatedly_fails() {
    for behaviour in [Behaviour::Panics, Behaviour::GivesUp] {
        let fixture = fixture(behaviour, 2).await;
        let run = fixture.queue().await;
        let again = ["gap.run_disconnected", "run.started"];
        let mut types = vec!["run.queued", "run.started"];
        types.extend(again);
        types.extend(again);
        types.extend(again);
        types.push("run.failed");
        fixture.wait_for_types(run, &types).await;
        assert_eq!(
            fixture.scene.engine.catalogue().run(run).await.unwrap().unwrap().ending.as_deref(),
            Some("worker_lost")
        );
        assert_eq!(fixture.scene.engine.admin().stats().await.unwrap().runs_at_work, 0);
    }
}

/// It would otherwise fail in each outage that is longer than three attempts.
#[tokio::test(start_paused = true)]
async fn workers_that_are_lost_while_the_store_does_not_respond_do_not_count() {
    let fixture = fixture(Behaviour::GivesUp, 1).await;
    let run = fixture.queue().await;
    fixture.scene.store.fail_reads(true);
    tokio::time::sleep(20 * recount_engine::limits::WORKER_RETRY).await;
    fixture.scene.store.fail_reads(false);
    // Afterwards it has as many attempts as any other run.
    let mut types = vec!["run.queued", "run.started"];
    types.extend(["gap.run_disconnected", "run.started"].repeat(3));
    types.push("run.failed");
    fixture.wait_for_types(run, &types).await;
}

/// A child run has its id before it is created, so it may be created twice if the outcome of the first attempt is
/// unknown. Its writer reads it before or after the outcome is known.
#[tokio::test(start_paused = true)]
async fn a_failed_start_of_a_run_leaves_no_events_in_it() {
    for (kind, is_early) in [(FaultKind::Io, false), (FaultKind::Full, false), (FaultKind::Io, true)] {
        let fixture = fixture(Behaviour::WaitsFirst, 1).await;
        let run: RunId = "run_01KQPNV3V8SPQPWY4YDAGVJSFM".parse().unwrap();
        let start = || async {
            let task = NewTask { title: None, budget_micros_usd: None, budget_tokens: None };
            fixture.scene.engine.write().start_child(run, task, Queued::new(RunKind::AgentLoop)).await
        };
        let (fail, failed) = tokio::sync::oneshot::channel();
        fixture.scene.store.next_appends([if is_early {
            AppendFault::FailLate(failed)
        } else {
            AppendFault::Refuse(kind)
        }]);
        let look = async {
            if is_early {
                // A refused command, so that nothing is written.
                let refused = fixture.scene.answer(run, "unknown", true, "ann").await;
                assert_eq!(code(refused), Code::ApprovalNotFound);
                fail.send(()).unwrap();
            }
        };
        let (started, ()) = tokio::join!(start(), look);
        started.unwrap_err();
        tokio::time::sleep(2 * recount_engine::limits::TIMER_RETRY).await;
        start().await.unwrap();
        fixture.permits.add_permits(1);
        fixture.wait_for_types(run, &["run.queued", "run.started", "run.finished"]).await;
        let events = fixture.scene.events(run).await;
        let of_one_task = events.iter().all(|event| event.task_id == events[0].task_id);
        assert!(of_one_task, "{kind:?}, {is_early}: {events:?}");
        fixture.scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_damaged_while_it_waits_is_not_retried_forever() {
    let mut fixture = fixture(Behaviour::Finishes, 1).await;
    let (active, waiting_run) = (fixture.queue().await, fixture.queue().await);
    fixture.wait_for_types(waiting_run, &["run.queued", "run.throttled"]).await;
    // The next process has an empty cache.
    fixture.scene.reopen().await;
    attach(&fixture.scene, Behaviour::Finishes, &fixture.permits, &fixture.seen, 1).await;
    let taken = ["run.queued", "run.started", "gap.run_disconnected", "run.started"];
    fixture.wait_for_types(active, &taken).await;
    fixture.scene.disk.damage_events(waiting_run, 0..=0);
    fixture.permits.add_permits(1);
    fixture.wait_for_types(active, &[&taken[..], &["run.finished"]].concat()).await;
    tokio::time::sleep(recount_engine::limits::WORKER_RETRY).await;
    let before = fixture.scene.store.reads();
    tokio::time::sleep(100 * recount_engine::limits::WORKER_RETRY).await;
    assert_eq!(fixture.scene.store.reads(), before);
    let stats = fixture.scene.engine.admin().stats().await.unwrap();
    assert_eq!((stats.runs_at_work, stats.runs_in_line), (0, 0), "its slot is free");
    assert_eq!(*fixture.seen.lock().unwrap(), [active, active]);
}

#[tokio::test(start_paused = true)]
async fn the_next_process_takes_over_active_runs_and_starts_waiting_runs() {
    let mut fixture = fixture(Behaviour::Finishes, 1).await;
    let active = fixture.queue().await;
    fixture.wait_for_types(active, &["run.queued", "run.started"]).await;
    let waiting_run = fixture.queue().await;
    fixture.wait_for_types(waiting_run, &["run.queued", "run.throttled"]).await;
    fixture.scene.reopen_at(START_MS + 60_000).await;
    fixture.permits.add_permits(2);
    attach(&fixture.scene, Behaviour::Finishes, &fixture.permits, &fixture.seen, 2).await;
    let taken = ["run.queued", "run.started", "gap.run_disconnected", "run.started", "run.finished"];
    fixture.wait_for_types(active, &taken).await;
    fixture
        .wait_for_types(waiting_run, &["run.queued", "run.throttled", "run.started", "run.finished"])
        .await;
    fixture.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_run_was_taken_over_cannot_report() {
    let fixture = fixture(Behaviour::Finishes, 1).await;
    let run = fixture.queue().await;
    fixture.wait_for_types(run, &["run.queued", "run.started"]).await;
    let command = recount_run::Command::TakeOver {
        worker_id: "another".into(),
        lease_until_ms: None,
        reason: "worker_lease_expired".into(),
    };
    fixture.scene.engine.write().submit(run, command).await.unwrap();
    fixture.permits.add_permits(1);
    let taken = ["run.queued", "run.started", "gap.run_disconnected", "run.started"];
    fixture.wait_for_types(run, &taken).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fixture.scene.types(run).await, taken, "the ending of the first worker was refused");
}

#[tokio::test(start_paused = true)]
async fn a_run_continued_by_a_timer_before_workers_start_is_not_lost() {
    let mut fixture =
        Fixture { scene: Scene::new().await, permits: Arc::new(Semaphore::new(0)), seen: Arc::default() };
    let run = fixture.queue().await;
    let waiting_events = [
        ("run.started", "{}"),
        (
            "approval.requested",
            r#"{"approval_id":"a1","tool_call_id":"c1","kind":"shell_exec","summary":"x","timeout_seconds":10,"default_decision":"approve"}"#,
        ),
        ("run.waiting", r#"{"for":[{"kind":"approval","id":"a1"}]}"#),
    ];
    let progress = recount_run::Command::Progress { drafts: drafts(&waiting_events) };
    fixture.scene.engine.write().submit(run, progress).await.unwrap();
    fixture.scene.reopen_at(START_MS + 60_000).await;
    let continued = [
        "run.queued",
        "run.started",
        "approval.requested",
        "run.waiting",
        "approval.timed_out",
        "run.continued",
    ];
    fixture.wait_for_types(run, &continued).await;
    attach(&fixture.scene, Behaviour::Finishes, &fixture.permits, &fixture.seen, 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*fixture.seen.lock().unwrap(), [run], "a worker takes it");
    fixture.wait_for_types(run, &continued).await;
}

#[tokio::test(start_paused = true)]
async fn starting_and_following_a_run_reads_nothing_from_the_store() {
    let fixture = fixture(Behaviour::Finishes, 2).await;
    let chat = crate::user_messages::create_session(&fixture.scene).await;
    let before = fixture.scene.engine.catalogue().setup(chat).await.unwrap();
    fixture.permits.add_permits(1);
    // Everything that is read at startup has been read by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (reads, appends) = (fixture.scene.store.reads(), fixture.scene.store.appends());
    let new = crate::user_messages::new_run("hello");
    let message =
        UserMessage { session: chat, new, before, overrides: Overrides::default(), supersedes: None };
    let (run, _) = fixture.scene.engine.write().send_message(message, None).await.unwrap();
    let mut events = fixture.scene.engine.read().follow_events(run, None).await.unwrap();
    let mut types = Vec::new();
    while let Some(page) = events.next().await.unwrap() {
        types.extend(page.iter().map(|event| event.type_name().to_owned()));
    }
    assert_eq!(types, ["run.queued", "run.started", "run.finished"]);
    assert_eq!(fixture.scene.store.appends() - appends, 3);
    // The start and the first page come from memory.
    assert_eq!(fixture.scene.store.reads() - reads, 0);
    fixture.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_sees_events_appended_before_it_started() {
    let fixture = fixture(Behaviour::Finishes, 1).await;
    let active = fixture.queue().await;
    fixture.wait_for_types(active, &["run.queued", "run.started"]).await;
    let waiting_run = fixture.queue().await;
    fixture.wait_for_types(waiting_run, &["run.queued", "run.throttled"]).await;
    let given_up = fixture.queue().await;
    fixture.wait_for_types(given_up, &["run.queued", "run.throttled"]).await;
    fixture.scene.cancel(given_up).await.unwrap();
    fixture.permits.add_permits(3);
    fixture
        .wait_for_types(waiting_run, &["run.queued", "run.throttled", "run.started", "run.finished"])
        .await;
    fixture.wait_for_types(given_up, &["run.queued", "run.throttled", "run.cancelled"]).await;
    assert_eq!(*fixture.seen.lock().unwrap(), [active, waiting_run], "an ended run has no worker");
    fixture.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_first_report_the_run_is_read_from_the_log() {
    for fault in [
        AppendFault::Refuse(recount_log::FaultKind::Io),
        AppendFault::LoseAnswer,
        AppendFault::Panic,
        AppendFault::PanicAfter,
    ] {
        let fixture = fixture(Behaviour::Finishes, 1).await;
        let run = fixture.queue().await;
        // The first report of the worker gets this fault.
        fixture.scene.store.next_appends([fault]);
        fixture.permits.add_permits(4);
        for _ in 0..1_000 {
            if fixture.scene.engine.catalogue().run(run).await.unwrap().unwrap().has_ended() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(fixture.scene.types(run).await.last().unwrap(), "run.finished");
        fixture.scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_executed_although_its_client_disconnected() {
    let fixture = fixture(Behaviour::Finishes, 1).await;
    fixture.permits.add_permits(1);
    let chat = crate::user_messages::create_session(&fixture.scene).await;
    let overrides = Overrides::default();
    let message = UserMessage {
        session: chat,
        new: crate::user_messages::new_run("hello"),
        before: None,
        overrides,
        supersedes: None,
    };
    fixture.scene.store.next_appends([AppendFault::NeverAnswer]);
    // Polled once, and dropped while the append is in progress.
    let sent = fixture.scene.engine.write().send_message(message, None).now_or_never();
    assert!(sent.is_none());
    let run = fixture.scene.engine.catalogue().active_run(chat).await.unwrap().unwrap();
    fixture.wait_for_types(run, &["run.queued", "run.started", "run.finished"]).await;
    fixture.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ended_before_its_start_was_confirmed_is_not_cached_as_new() {
    let fixture = fixture(Behaviour::Finishes, 1).await;
    let (go, wait) = tokio::sync::oneshot::channel();
    fixture.scene.store.next_appends([AppendFault::AnswerLate(wait)]);
    let ended = async {
        let open = fixture.scene.disk.rows_of("catalogue.own_open").await;
        let run: RunId = open[0].split(' ').next().unwrap().parse().unwrap();
        fixture.scene.cancel(run).await.unwrap();
        go.send(()).unwrap();
        run
    };
    let (created, run) = tokio::join!(fixture.scene.engine.write().create_run(shell()), ended);
    assert_eq!(created.unwrap().0, run);
    // By then its writer has stopped.
    tokio::time::sleep(recount_engine::limits::WRITER_IDLE * 2).await;
    assert_eq!(code(fixture.scene.cancel(run).await), Code::RunEnded);
    fixture.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_runs_are_cached_up_to_a_limit() {
    let fixture = fixture(Behaviour::Finishes, 1).await;
    let long = || {
        let mut new = shell();
        new.queued.request_text = Some("x".repeat(100_000));
        new
    };
    let many = recount_engine::limits::FRESH_BYTES_MAX / 100_000 + 8;
    let mut runs = Vec::new();
    for _ in 0..many {
        runs.push(fixture.scene.engine.write().create_run(long()).await.unwrap().0);
    }
    let reads = fixture.scene.store.reads();
    fixture.scene.cancel(runs[many - 1]).await.unwrap();
    let cached_reads = fixture.scene.store.reads() - reads;
    fixture.scene.cancel(runs[1]).await.unwrap();
    assert!(fixture.scene.store.reads() - reads > 2 * cached_reads, "the oldest were evicted");
    fixture.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_can_start_before_its_run_is_confirmed_or_wait() {
    for (behaviour, types_before) in [
        (Behaviour::Finishes, vec!["run.queued", "run.started"]),
        (Behaviour::WaitsFirst, vec!["run.queued"]),
    ] {
        let fixture = fixture(behaviour, 1).await;
        let (go, late) = tokio::sync::oneshot::channel();
        fixture.scene.store.next_appends([AppendFault::AnswerLate(late)]);
        let engine = fixture.scene.engine.clone();
        let created = async move { engine.write().create_run(shell()).await.unwrap().0 };
        tokio::pin!(created);
        tokio::select! {
            _ = &mut created => panic!("the call returned before the append"),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        let run = fixture.seen.lock().unwrap()[0];
        assert_eq!(fixture.scene.types(run).await, types_before, "{behaviour:?}");
        go.send(()).unwrap();
        assert_eq!(created.await, run);
        fixture.permits.add_permits(1);
        fixture.wait_for_types(run, &["run.queued", "run.started", "run.finished"]).await;
        fixture.scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn workers_leave_a_run_whose_start_was_refused() {
    for behaviour in [Behaviour::Finishes, Behaviour::WaitsFirst] {
        let fixture = fixture(behaviour, 1).await;
        let chat = crate::user_messages::create_session(&fixture.scene).await;
        let in_session = || NewRun { session: Some(chat), ..shell() };
        let first = fixture.scene.engine.write().create_run(in_session()).await.unwrap().0;
        fixture.wait_for_types(first, &["run.queued", "run.started"]).await;
        fixture.permits.add_permits(1);
        fixture.wait_for_types(first, &["run.queued", "run.started", "run.finished"]).await;

        // Refused by the disk, and by the rules of the session.
        fixture.scene.store.next_appends([AppendFault::Refuse(FaultKind::Full)]);
        assert_eq!(code(fixture.scene.engine.write().create_run(in_session()).await), Code::StoreFull);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let second = fixture.scene.engine.write().create_run(in_session()).await.unwrap().0;
        fixture.wait_for_types(second, &["run.queued", "run.started"]).await;
        assert_eq!(code(fixture.scene.engine.write().create_run(in_session()).await), Code::SessionBusy);
        fixture.permits.add_permits(1);
        fixture.wait_for_types(second, &["run.queued", "run.started", "run.finished"]).await;

        let third = fixture.scene.engine.write().create_run(in_session()).await.unwrap().0;
        fixture.permits.add_permits(1);
        fixture.wait_for_types(third, &["run.queued", "run.started", "run.finished"]).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let stats = fixture.scene.engine.admin().stats().await.unwrap();
        assert_eq!((stats.runs_at_work, stats.runs_in_line), (0, 0));
        let seen = fixture.seen.lock().unwrap().clone();
        for refused in seen.iter().filter(|run| ![first, second, third].contains(run)) {
            let read = fixture.scene.engine.read().read_run(*refused, None, 1).await;
            assert_eq!(code(read), Code::RunNotFound, "{refused} does not exist");
        }
        fixture.scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_executed_although_the_result_of_its_start_was_lost() {
    for fault in [AppendFault::LoseAnswer, AppendFault::Unobserved, AppendFault::NeverAnswer] {
        let fixture = fixture(Behaviour::Finishes, 1).await;
        fixture.permits.add_permits(1);
        fixture.scene.store.next_appends([fault]);
        let created =
            tokio::time::timeout(Duration::from_secs(1), fixture.scene.engine.write().create_run(shell()))
                .await;
        assert!(!matches!(created, Ok(Ok(_))));
        let listed = fixture
            .scene
            .engine
            .catalogue()
            .list_runs(&ListQuery { limit: 1, ..ListQuery::default() })
            .await
            .unwrap()
            .items;
        let run = listed[0].id;
        fixture.wait_for_types(run, &["run.queued", "run.started", "run.finished"]).await;
        fixture.scene.check().await;
    }
}
