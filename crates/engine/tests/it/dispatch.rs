//! Who works at our own runs: so many at a time, each by one worker, and by another when that one is lost.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use recount_engine::{Desk, ListQuery, NewRun, NewTask, Overrides, Performer, Saying, Unacceptable, Whose};
use recount_event::family::run::{Finished, Queued, RunKind, Started};
use recount_event::{Code, Payload, RunId};
use recount_faulty_store::AppendFault;
use recount_log::FaultKind;
use tokio::sync::Semaphore;

use crate::scene::{START_MS, Scene, code, drafts};

/// What a worker does with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Starts it, waits for leave, ends it.
    Well,
    /// Starts it and panics.
    Dies,
    /// Starts it and leaves as if the world had failed.
    GivesUp,
    /// As `Well`, but only when it is certain that the run began.
    WaitsFirst,
}

struct Hand {
    how: How,
    /// Leave to go on behind `run.started`.
    leave: Arc<Semaphore>,
    seen: Arc<Mutex<Vec<RunId>>>,
}

impl Performer for Hand {
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

    fn perform(&self, mut desk: Desk) -> BoxFuture<'static, Option<Desk>> {
        let (how, leave) = (self.how, self.leave.clone());
        self.seen.lock().unwrap().push(desk.run());
        Box::pin(async move {
            if how == How::WaitsFirst && desk.settled().await.is_err() {
                return Some(desk);
            }
            if desk.state().claim().is_none() {
                let mut started = Started::new();
                started.worker_id = Some(desk.worker_id().to_owned());
                match desk.report(vec![Payload::RunStarted(Box::new(started)).into()]).await {
                    Ok(_) => {}
                    Err(recount_engine::Left::Ended) => return Some(desk),
                    Err(_) => return None,
                }
            }
            match how {
                How::Dies => panic!("this worker dies on purpose"),
                How::GivesUp => return None,
                How::Well | How::WaitsFirst => leave.acquire().await.unwrap().forget(),
            }
            let finished = Payload::RunFinished(Box::new(Finished::new("completed".into())));
            let _told = desk.report(vec![finished.into()]).await;
            Some(desk)
        })
    }

    fn forget(&self, _whose: Whose) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

struct House {
    scene: Scene,
    leave: Arc<Semaphore>,
    seen: Arc<Mutex<Vec<RunId>>>,
}

async fn employ(
    scene: &Scene,
    how: How,
    leave: &Arc<Semaphore>,
    seen: &Arc<Mutex<Vec<RunId>>>,
    at_once: usize,
) {
    let hand = Hand { how, leave: leave.clone(), seen: seen.clone() };
    scene.engine.work().employ(Arc::new(hand), at_once).await.unwrap();
}

async fn house(how: How, at_once: usize) -> House {
    let (scene, leave) = (Scene::new().await, Arc::new(Semaphore::new(0)));
    let seen = Arc::default();
    employ(&scene, how, &leave, &seen, at_once).await;
    House { scene, leave, seen }
}

fn shell() -> NewRun {
    NewRun { queued: Queued::new(RunKind::Shell), task: None, session: None, resumed_from: None }
}

impl House {
    async fn queue(&self) -> RunId {
        self.scene.engine.write().create_run(shell()).await.unwrap().0
    }

    /// Waits, in paused time, until a run's types are these.
    async fn becomes(&self, run: RunId, types: &[&str]) {
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
async fn what_is_refused_is_not_queued_and_what_is_missing_is_filled_in() {
    let house = house(How::Well, 1).await;
    let mut new = shell();
    new.queued.model = Some("none".into());
    assert_eq!(code(house.scene.engine.write().create_run(new).await), Code::ModelUnknown);
    let run = house.queue().await;
    let queued = house.scene.engine.read().read_run(run, None, 1).await.unwrap().0;
    assert!(String::from_utf8_lossy(&queued[0].1).contains("filled in"));
}

#[tokio::test(start_paused = true)]
async fn so_many_at_a_time_and_the_others_are_told_their_place() {
    let house = house(How::Well, 2).await;
    let (one, two) = (house.queue().await, house.queue().await);
    for run in [one, two] {
        house.becomes(run, &["run.queued", "run.started"]).await;
    }
    let (three, four) = (house.queue().await, house.queue().await);
    for run in [three, four] {
        house.becomes(run, &["run.queued", "run.throttled"]).await;
    }
    let stats = house.scene.engine.admin().stats().await.unwrap();
    assert_eq!((stats.runs_at_work, stats.runs_in_line), (2, 2));
    house.leave.add_permits(4);
    let waited = ["run.queued", "run.throttled", "run.started", "run.finished"];
    house.becomes(one, &["run.queued", "run.started", "run.finished"]).await;
    house.becomes(three, &waited).await;
    house.becomes(four, &waited).await;
    assert_eq!(*house.seen.lock().unwrap(), [one, two, three, four], "in the order in which they came");
    let stats = house.scene.engine.admin().stats().await.unwrap();
    assert_eq!((stats.runs_at_work, stats.runs_in_line), (0, 0));
    house.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_kills_its_workers_fails_in_the_end() {
    for how in [How::Dies, How::GivesUp] {
        let house = house(how, 2).await;
        let run = house.queue().await;
        let again = ["gap.run_disconnected", "run.started"];
        let mut types = vec!["run.queued", "run.started"];
        types.extend(again);
        types.extend(again);
        types.extend(again);
        types.push("run.failed");
        house.becomes(run, &types).await;
        assert_eq!(
            house.scene.engine.catalogue().run(run).await.unwrap().unwrap().ending.as_deref(),
            Some("worker_lost")
        );
        assert_eq!(house.scene.engine.admin().stats().await.unwrap().runs_at_work, 0);
    }
}

/// A run that another one starts has its id before it is made, so it may be made twice: when it is unknown
/// whether it was made the first time. Its writer looks at it before that is known, or after.
#[tokio::test(start_paused = true)]
async fn what_was_to_begin_a_run_in_vain_is_no_part_of_it() {
    for (kind, is_early) in [(FaultKind::Io, false), (FaultKind::Full, false), (FaultKind::Io, true)] {
        let house = house(How::WaitsFirst, 1).await;
        let run: RunId = "run_01KQPNV3V8SPQPWY4YDAGVJSFM".parse().unwrap();
        let start = || async {
            let task = NewTask { title: None, budget_micros_usd: None, budget_tokens: None };
            house.scene.engine.write().start_child(run, task, Queued::new(RunKind::AgentLoop)).await
        };
        let (fail, failed) = tokio::sync::oneshot::channel();
        house.scene.store.next_appends([if is_early {
            AppendFault::FailLate(failed)
        } else {
            AppendFault::Refuse(kind)
        }]);
        let look = async {
            if is_early {
                // A command that is refused, so that nothing is written.
                let refused = house.scene.answer(run, "nobody", true, "ann").await;
                assert_eq!(code(refused), Code::ApprovalNotFound);
                fail.send(()).unwrap();
            }
        };
        let (started, ()) = tokio::join!(start(), look);
        started.unwrap_err();
        tokio::time::sleep(2 * recount_engine::limits::TIMER_RETRY).await;
        start().await.unwrap();
        house.leave.add_permits(1);
        house.becomes(run, &["run.queued", "run.started", "run.finished"]).await;
        let events = house.scene.events(run).await;
        let of_one_task = events.iter().all(|event| event.task_id == events[0].task_id);
        assert!(of_one_task, "{kind:?}, {is_early}: {events:?}");
        house.scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_damaged_while_it_waits_is_not_tried_for_ever() {
    let mut house = house(How::Well, 1).await;
    let (at_work, in_line) = (house.queue().await, house.queue().await);
    house.becomes(in_line, &["run.queued", "run.throttled"]).await;
    // The next process remembers nothing of them.
    house.scene.reopen().await;
    employ(&house.scene, How::Well, &house.leave, &house.seen, 1).await;
    let taken = ["run.queued", "run.started", "gap.run_disconnected", "run.started"];
    house.becomes(at_work, &taken).await;
    house.scene.disk.damage_events(in_line, 0..=0);
    house.leave.add_permits(1);
    house.becomes(at_work, &[&taken[..], &["run.finished"]].concat()).await;
    tokio::time::sleep(recount_engine::limits::WORKER_RETRY).await;
    let before = house.scene.store.reads();
    tokio::time::sleep(100 * recount_engine::limits::WORKER_RETRY).await;
    assert_eq!(house.scene.store.reads(), before);
    let stats = house.scene.engine.admin().stats().await.unwrap();
    assert_eq!((stats.runs_at_work, stats.runs_in_line), (0, 0), "its place is free");
    assert_eq!(*house.seen.lock().unwrap(), [at_work, at_work]);
}

#[tokio::test(start_paused = true)]
async fn the_next_process_takes_over_what_was_at_work_and_begins_what_was_in_line() {
    let mut house = house(How::Well, 1).await;
    let at_work = house.queue().await;
    house.becomes(at_work, &["run.queued", "run.started"]).await;
    let in_line = house.queue().await;
    house.becomes(in_line, &["run.queued", "run.throttled"]).await;
    house.scene.reopen_at(START_MS + 60_000).await;
    house.leave.add_permits(2);
    employ(&house.scene, How::Well, &house.leave, &house.seen, 2).await;
    let taken = ["run.queued", "run.started", "gap.run_disconnected", "run.started", "run.finished"];
    house.becomes(at_work, &taken).await;
    house.becomes(in_line, &["run.queued", "run.throttled", "run.started", "run.finished"]).await;
    house.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn who_lost_a_run_to_another_worker_can_report_nothing_more() {
    let house = house(How::Well, 1).await;
    let run = house.queue().await;
    house.becomes(run, &["run.queued", "run.started"]).await;
    let command = recount_run::Command::TakeOver {
        worker_id: "another".into(),
        lease_until_ms: None,
        reason: "worker_lease_expired".into(),
    };
    house.scene.engine.write().submit(run, command).await.unwrap();
    house.leave.add_permits(1);
    let taken = ["run.queued", "run.started", "gap.run_disconnected", "run.started"];
    house.becomes(run, &taken).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(house.scene.types(run).await, taken, "the first worker's ending was not taken");
}

#[tokio::test(start_paused = true)]
async fn what_a_timer_let_go_on_before_anybody_works_is_not_taken_for_lost() {
    let mut house =
        House { scene: Scene::new().await, leave: Arc::new(Semaphore::new(0)), seen: Arc::default() };
    let run = house.queue().await;
    let asked = [
        ("run.started", "{}"),
        (
            "approval.requested",
            r#"{"approval_id":"a1","tool_call_id":"c1","kind":"shell_exec","summary":"x","timeout_seconds":10,"default_decision":"approve"}"#,
        ),
        ("run.waiting", r#"{"for":[{"kind":"approval","id":"a1"}]}"#),
    ];
    let progress = recount_run::Command::Progress { drafts: drafts(&asked) };
    house.scene.engine.write().submit(run, progress).await.unwrap();
    house.scene.reopen_at(START_MS + 60_000).await;
    let granted = [
        "run.queued",
        "run.started",
        "approval.requested",
        "run.waiting",
        "approval.timed_out",
        "run.continued",
    ];
    house.becomes(run, &granted).await;
    employ(&house.scene, How::Well, &house.leave, &house.seen, 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*house.seen.lock().unwrap(), [run], "a worker takes it");
    house.becomes(run, &granted).await;
}

#[tokio::test(start_paused = true)]
async fn beginning_a_run_and_following_it_to_its_end_reads_nothing_back() {
    let house = house(How::Well, 2).await;
    let session = crate::say::begin(&house.scene).await;
    let before = house.scene.engine.catalogue().setup(session).await.unwrap();
    house.leave.add_permits(1);
    // Whatever an engine looks at when it opens has been looked at then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (reads, appends) = (house.scene.store.reads(), house.scene.store.appends());
    let new = crate::say::message("hello");
    let saying = Saying { session, new, before, overrides: Overrides::default(), supersedes: None };
    let (run, _) = house.scene.engine.write().say(saying, None).await.unwrap();
    let mut events = house.scene.engine.read().follow_events(run, None).await.unwrap();
    let mut types = Vec::new();
    while let Some(page) = events.next().await.unwrap() {
        types.extend(page.iter().map(|event| event.type_name().to_owned()));
    }
    assert_eq!(types, ["run.queued", "run.started", "run.finished"]);
    assert_eq!(house.scene.store.appends() - appends, 3);
    // It took eleven when each part read for itself what another had just written.
    assert_eq!(house.scene.store.reads() - reads, 0);
    house.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_written_to_before_anybody_sat_down_at_it_is_caught_up_with() {
    let house = house(How::Well, 1).await;
    let at_work = house.queue().await;
    house.becomes(at_work, &["run.queued", "run.started"]).await;
    let in_line = house.queue().await;
    house.becomes(in_line, &["run.queued", "run.throttled"]).await;
    let given_up = house.queue().await;
    house.becomes(given_up, &["run.queued", "run.throttled"]).await;
    house.scene.cancel(given_up).await.unwrap();
    house.leave.add_permits(3);
    house.becomes(in_line, &["run.queued", "run.throttled", "run.started", "run.finished"]).await;
    house.becomes(given_up, &["run.queued", "run.throttled", "run.cancelled"]).await;
    assert_eq!(*house.seen.lock().unwrap(), [at_work, in_line], "nobody works at what has ended");
    house.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_first_append_that_fails_has_the_run_read_from_the_log() {
    for fate in [
        AppendFault::Refuse(recount_log::FaultKind::Io),
        AppendFault::LoseAnswer,
        AppendFault::Panic,
        AppendFault::PanicAfter,
    ] {
        let house = house(How::Well, 1).await;
        let run = house.queue().await;
        // The worker says that it starts, and this becomes of it.
        house.scene.store.next_appends([fate]);
        house.leave.add_permits(4);
        for _ in 0..1_000 {
            if house.scene.engine.catalogue().run(run).await.unwrap().unwrap().has_ended() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(house.scene.types(run).await.last().unwrap(), "run.finished");
        house.scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_while_a_run_begins_leaves_it_to_be_worked_at() {
    let house = house(How::Well, 1).await;
    house.leave.add_permits(1);
    let session = crate::say::begin(&house.scene).await;
    let overrides = Overrides::default();
    let saying =
        Saying { session, new: crate::say::message("hello"), before: None, overrides, supersedes: None };
    house.scene.store.next_appends([AppendFault::NeverAnswer]);
    // Asked once, and given up while the store is at it.
    let said = house.scene.engine.write().say(saying, None).now_or_never();
    assert!(said.is_none());
    let run = house.scene.engine.catalogue().active_run(session).await.unwrap().unwrap();
    house.becomes(run, &["run.queued", "run.started", "run.finished"]).await;
    house.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_over_before_its_maker_heard_of_it_is_not_taken_for_new() {
    let house = house(How::Well, 1).await;
    let (go, wait) = tokio::sync::oneshot::channel();
    house.scene.store.next_appends([AppendFault::AnswerLate(wait)]);
    let ended = async {
        let open = house.scene.disk.rows_of("catalogue.own_open").await;
        let run: RunId = open[0].split(' ').next().unwrap().parse().unwrap();
        house.scene.cancel(run).await.unwrap();
        go.send(()).unwrap();
        run
    };
    let (made, run) = tokio::join!(house.scene.engine.write().create_run(shell()), ended);
    assert_eq!(made.unwrap().0, run);
    // By then its writer sleeps.
    tokio::time::sleep(recount_engine::limits::WRITER_IDLE * 2).await;
    assert_eq!(code(house.scene.cancel(run).await), Code::RunEnded);
    house.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn runs_that_wait_in_line_are_kept_at_hand_up_to_a_bound() {
    let house = house(How::Well, 1).await;
    let long = || {
        let mut new = shell();
        new.queued.request_text = Some("x".repeat(100_000));
        new
    };
    let many = recount_engine::limits::FRESH_BYTES_MAX / 100_000 + 8;
    let mut runs = Vec::new();
    for _ in 0..many {
        runs.push(house.scene.engine.write().create_run(long()).await.unwrap().0);
    }
    let reads = house.scene.store.reads();
    house.scene.cancel(runs[many - 1]).await.unwrap();
    let at_hand = house.scene.store.reads() - reads;
    house.scene.cancel(runs[1]).await.unwrap();
    assert!(house.scene.store.reads() - reads > 2 * at_hand, "the oldest were let go");
    house.scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn who_works_at_a_new_run_need_not_wait_for_it_to_be_confirmed_and_may() {
    for (how, while_unsaid) in
        [(How::Well, vec!["run.queued", "run.started"]), (How::WaitsFirst, vec!["run.queued"])]
    {
        let house = house(how, 1).await;
        let (go, late) = tokio::sync::oneshot::channel();
        house.scene.store.next_appends([AppendFault::AnswerLate(late)]);
        let engine = house.scene.engine.clone();
        let asked = async move { engine.write().create_run(shell()).await.unwrap().0 };
        tokio::pin!(asked);
        tokio::select! {
            _ = &mut asked => panic!("it was answered before the store said so"),
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        let run = house.seen.lock().unwrap()[0];
        assert_eq!(house.scene.types(run).await, while_unsaid, "{how:?}");
        go.send(()).unwrap();
        assert_eq!(asked.await, run);
        house.leave.add_permits(1);
        house.becomes(run, &["run.queued", "run.started", "run.finished"]).await;
        house.scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_stays_at_a_run_whose_beginning_was_refused() {
    for how in [How::Well, How::WaitsFirst] {
        let house = house(how, 1).await;
        let session = crate::say::begin(&house.scene).await;
        let in_session = || NewRun { session: Some(session), ..shell() };
        let first = house.scene.engine.write().create_run(in_session()).await.unwrap().0;
        house.becomes(first, &["run.queued", "run.started"]).await;
        house.leave.add_permits(1);
        house.becomes(first, &["run.queued", "run.started", "run.finished"]).await;

        // By the disk, and by the rules of the session.
        house.scene.store.next_appends([AppendFault::Refuse(FaultKind::Full)]);
        assert_eq!(code(house.scene.engine.write().create_run(in_session()).await), Code::StoreFull);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let second = house.scene.engine.write().create_run(in_session()).await.unwrap().0;
        house.becomes(second, &["run.queued", "run.started"]).await;
        assert_eq!(code(house.scene.engine.write().create_run(in_session()).await), Code::SessionBusy);
        house.leave.add_permits(1);
        house.becomes(second, &["run.queued", "run.started", "run.finished"]).await;

        let third = house.scene.engine.write().create_run(in_session()).await.unwrap().0;
        house.leave.add_permits(1);
        house.becomes(third, &["run.queued", "run.started", "run.finished"]).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let stats = house.scene.engine.admin().stats().await.unwrap();
        assert_eq!((stats.runs_at_work, stats.runs_in_line), (0, 0));
        let seen = house.seen.lock().unwrap().clone();
        for refused in seen.iter().filter(|run| ![first, second, third].contains(run)) {
            let read = house.scene.engine.read().read_run(*refused, None, 1).await;
            assert_eq!(code(read), Code::RunNotFound, "{refused} stands nowhere");
        }
        house.scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_worked_at_whose_beginning_nobody_was_told_of() {
    for fate in [AppendFault::LoseAnswer, AppendFault::Unobserved, AppendFault::NeverAnswer] {
        let house = house(How::Well, 1).await;
        house.leave.add_permits(1);
        house.scene.store.next_appends([fate]);
        let asked =
            tokio::time::timeout(Duration::from_secs(1), house.scene.engine.write().create_run(shell()))
                .await;
        assert!(!matches!(asked, Ok(Ok(_))));
        let listed = house
            .scene
            .engine
            .catalogue()
            .list_runs(&ListQuery { limit: 1, ..ListQuery::default() })
            .await
            .unwrap()
            .items;
        let run = listed[0].id;
        house.becomes(run, &["run.queued", "run.started", "run.finished"]).await;
        house.scene.check().await;
    }
}
