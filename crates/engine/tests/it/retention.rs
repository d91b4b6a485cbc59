//! Pruning: what is removed, what stays, and what readers get.

use std::time::Duration;

use recount_engine::{ListQuery, NewRun, Policy, SweepReport, limits};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, PromptKind, RunId};
use recount_faulty_store::AppendFault;

use crate::scene::{APPROVAL, End, START_MS, Scene, code, read};

const NOTE: (&str, &str) = ("ext.test.note", "{}");

/// An ended run with this many events.
async fn ended(scene: &Scene, events: usize) -> RunId {
    let run = scene.start().await;
    if events > 3 {
        scene.report(run, 1, &vec![NOTE; events - 3]).await.unwrap();
    }
    scene.cancel(run).await.unwrap();
    run
}

fn tail(run: RunId) -> recount_log::StreamKey {
    run.to_string().into()
}

#[tokio::test(start_paused = true)]
async fn a_prune_removes_the_events_before_the_ending_and_appends_a_marker() {
    let mut scene = Scene::new().await;
    let run = ended(&scene, 10).await;
    let before = scene.engine.catalogue().run(run).await.unwrap().unwrap();
    let digest = scene.engine.read().digest(run).await.unwrap();
    let pruned = scene.engine.admin().prune(run, None, "operator").await.unwrap();
    assert_eq!((pruned.first_sequence, pruned.events), (9, 9));
    assert_eq!(scene.types(run).await, ["run.cancelled", "gap.events_pruned"]);
    let after = scene.engine.catalogue().run(run).await.unwrap().unwrap();
    assert_eq!((after.first_sequence, after.only_ending_left), (9, true));
    let unpruned = recount_engine::RunRow { first_sequence: 0, only_ending_left: false, ..after };
    assert_eq!(unpruned, before, "the lists are unchanged");
    let now = scene.engine.read().digest(run).await.unwrap();
    assert_eq!((now.events, now.first_sequence), (11, 9));
    assert_ne!(now.start, digest.start);
    assert_eq!(scene.engine.admin().prune(run, None, "operator").await.unwrap().receipt, None);
    scene.check().await;
    scene.reopen().await;
    scene.check().await;
    assert_eq!(scene.engine.admin().prune(run, None, "operator").await.unwrap().receipt, None);
    assert!(scene.disk.store().integrity().await.unwrap().problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_is_pruned_in_steps_over_restarts() {
    let mut scene = Scene::new().await;
    let run = scene.start().await;
    scene.report(run, 1, &[APPROVAL]).await.unwrap();
    scene.answer(run, "a1", true, "ann").await.unwrap();
    scene.report(run, 2, &[NOTE; 4]).await.unwrap();
    scene.cancel(run).await.unwrap();
    let before = scene.engine.catalogue().run(run).await.unwrap().unwrap();
    for (keep_from, listed) in [(1, 1), (2, 1), (3, 0), (4, 0), (6, 0), (99, 0)] {
        let pruned = scene.engine.admin().prune(run, Some(keep_from), "operator").await.unwrap();
        assert_eq!(pruned.first_sequence, keep_from.min(8), "{keep_from}");
        let query = ListQuery { limit: 9, ..ListQuery::default() };
        let approvals = scene.engine.read().list_prompts(PromptKind::Approval, &query).await.unwrap().items;
        assert_eq!(approvals.len(), listed, "a request is listed for as long as it can be read");
        scene.check().await;
        scene.reopen().await;
        scene.check().await;
        let row = scene.engine.catalogue().run(run).await.unwrap().unwrap();
        assert_eq!(
            (row.title, row.created_at, row.started_at),
            (before.title.clone(), before.created_at.clone(), before.started_at.clone())
        );
    }
    let id = ForeignId::parse("a1").unwrap();
    assert_eq!(scene.engine.read().prompt(PromptKind::Approval, &id).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_batch_that_was_pruned_gets_its_receipt() {
    let mut scene = Scene::new().await;
    let run = scene.start().await;
    let first = scene.report(run, 1, &[NOTE; 4]).await.unwrap();
    scene.cancel(run).await.unwrap();
    let ending =
        scene.engine.read().read_run(run, Some(first.last_sequence), 1).await.unwrap().0[0].1.clone();
    scene.engine.admin().prune(run, None, "operator").await.unwrap();
    for _ in 0..2 {
        let again = scene.report(run, 1, &[NOTE; 4]).await.unwrap();
        assert_eq!(
            (again.first_sequence, again.last_sequence),
            (first.first_sequence, first.last_sequence),
            "the same receipt as before"
        );
        let (rest, _) = scene.engine.read().read_feed(Some(again.position), 9).await.unwrap();
        assert_eq!(rest[0].1, ending, "the rest of the run follows the named position");
        scene.reopen().await;
    }
}

#[tokio::test(start_paused = true)]
async fn active_pinned_and_session_runs_are_not_pruned() {
    let scene = Scene::new().await;
    let running = scene.start().await;
    assert_eq!(code(scene.engine.admin().prune(running, None, "x").await), Code::RunActive);
    let pinned = ended(&scene, 5).await;
    let pin = scene.engine.admin().pin(pinned, "ann").await.unwrap();
    assert_eq!(scene.engine.admin().pin(pinned, "bob").await.unwrap(), pin, "the first pin is stored");
    assert_eq!(code(scene.engine.admin().prune(pinned, None, "x").await), Code::RunPinned);
    let queued = Queued::new(RunKind::External);
    let session = Some(scene.engine.write().create_session(None).await.unwrap().id);
    let (talk, _) = scene
        .engine
        .write()
        .create_run(NewRun { queued, task: None, session, resumed_from: None })
        .await
        .unwrap();
    scene.cancel(talk).await.unwrap();
    assert_eq!(code(scene.engine.admin().prune(talk, None, "x").await), Code::RunInSession);
    let unknown: RunId = "run_01HZX3Q0M0000000000000000C".parse().unwrap();
    assert_eq!(code(scene.engine.admin().prune(unknown, None, "x").await), Code::RunNotFound);
    assert_eq!(code(scene.engine.admin().pin(unknown, "x").await), Code::RunNotFound);

    let all = Policy { max_age: Some(Duration::ZERO), max_events: Some(0), max_bytes: Some(0) };
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.engine.admin().sweep(&all).await.unwrap(), SweepReport::default());
    scene.engine.admin().unpin(pinned).await.unwrap();
    assert_eq!(
        scene.engine.admin().sweep(&all).await.unwrap(),
        SweepReport { runs: 1, events: 4, ..SweepReport::default() }
    );
    assert_eq!(scene.engine.admin().sweep(&all).await.unwrap(), SweepReport::default());
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn runs_that_ended_first_are_pruned_first_until_the_limit_is_met() {
    let scene = Scene::new().await;
    let (first, second) = (scene.start().await, scene.start().await);
    scene.report(second, 1, &[NOTE; 10]).await.unwrap();
    // The younger run ends first.
    for run in [second, first] {
        scene.cancel(run).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let first_sequence = async |run| scene.engine.catalogue().run(run).await.unwrap().unwrap().first_sequence;
    let policy = Policy { max_events: Some(15), ..Policy::default() };
    assert_eq!(scene.engine.admin().sweep(&policy).await.unwrap().events, 12);
    assert_eq!((first_sequence(first).await, first_sequence(second).await), (0, 12));
    assert_eq!(scene.engine.admin().sweep(&policy).await.unwrap().events, 0);
    let policy = Policy { max_age: Some(Duration::from_secs(90)), ..Policy::default() };
    assert_eq!(scene.engine.admin().sweep(&policy).await.unwrap().events, 0, "it ended a minute ago");
    scene.engine.admin().start_sweeps(policy, Duration::from_secs(10));
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(first_sequence(first).await, 0);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(first_sequence(first).await, 2);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn readers_of_a_pruned_run_get_the_gap_from_any_cursor() {
    let scene = Scene::new().await;
    let run = ended(&scene, 10).await;
    scene.engine.admin().prune(run, Some(6), "operator").await.unwrap();
    for after in [None, Some(0), Some(4), Some(5), Some(6), Some(9), Some(10)] {
        let next = after.map_or(0, |after: u64| after + 1);
        let mut reader = scene.engine.read().follow_run(run, after).await.unwrap();
        let reading = read(&mut reader).await;
        let gaps = if next < 6 { vec![(next, 5)] } else { vec![] };
        let cursors: Vec<u64> = (next.max(6)..11).collect();
        assert_eq!((reading.gaps, reading.cursors, reading.end), (gaps, cursors, End::CaughtUp), "{after:?}");
        assert_eq!(read(&mut reader).await.end, End::Closed);
        let (page, _) = scene.engine.read().read_run(run, after, 2).await.unwrap();
        assert_eq!(page.first().map(|(sequence, _)| *sequence), (next < 11).then_some(next.max(6)));
    }
    for ahead in [11, 99] {
        assert_eq!(code(scene.engine.read().read_run(run, Some(ahead), 2).await), Code::CursorAhead);
    }
}

/// A reader in the middle of history or of the live list while the run is pruned.
#[tokio::test(start_paused = true)]
async fn a_reader_in_progress_gets_the_gap() {
    for padding in [0, 1 << 14] {
        let scene = Scene::padded(padding).await;
        let run = scene.start().await;
        let mut early = scene.engine.read().follow_run(run, None).await.unwrap();
        // Several pages: one is delivered before the prune, and one may be read ahead.
        for seq in 1..200 {
            scene.report(run, seq, &[NOTE; 30]).await.unwrap();
        }
        scene.cancel(run).await.unwrap();
        let mut late = scene.engine.read().follow_run(run, None).await.unwrap();
        let mut starts = Vec::new();
        for reader in [&mut early, &mut late] {
            let recount_engine::Delivery::Frames { last, .. } = reader.next().await.unwrap() else {
                panic!("there are events to read")
            };
            starts.push(last + 1);
        }
        let end = scene.engine.read().tail(run).await.unwrap().unwrap();
        scene.engine.admin().prune(run, None, "operator").await.unwrap();
        for (reader, next) in [&mut early, &mut late].into_iter().zip(starts) {
            let reading = read(reader).await;
            let [(first, last)] = reading.gaps[..] else { panic!("{:?}, padding {padding}", reading.gaps) };
            assert_eq!(last, end - 2, "padding {padding}");
            assert_eq!(reading.cursors, (next..first).chain([end - 1, end]).collect::<Vec<_>>());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_feed_skips_pruned_events() {
    let scene = Scene::new().await;
    let run = ended(&scene, 10).await;
    scene.engine.admin().prune(run, None, "operator").await.unwrap();
    let mut reader = scene.engine.read().follow_feed(None).await.unwrap();
    let reading = read(&mut reader).await;
    assert_eq!((reading.cursors, reading.gaps, reading.end), (vec![10, 11], vec![], End::CaughtUp));
    assert_eq!(scene.engine.read().read_feed(Some(0), 1).await.unwrap().0[0].0, 10);
    for below in [1, 8] {
        assert_eq!(code(scene.engine.read().read_feed(Some(below), 5).await), Code::CursorPruned, "{below}");
        assert_eq!(code(scene.engine.read().follow_feed(Some(below)).await.map(|_| ())), Code::CursorPruned);
    }
    for (at, first) in [(9, Some(10)), (10, Some(11)), (11, None)] {
        let (page, more) = scene.engine.read().read_feed(Some(at), 5).await.unwrap();
        assert_eq!((page.first().map(|(position, _)| *position), more), (first, false), "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prune_that_fails_or_has_an_unknown_outcome_is_complete_or_absent() {
    for (fault, first_kept) in [
        (AppendFault::Refuse(recount_log::FaultKind::Io), 0),
        (AppendFault::LoseAnswer, 9),
        (AppendFault::Unobserved, 9),
        (AppendFault::PanicAfter, 9),
    ] {
        let mut scene = Scene::new().await;
        let run = ended(&scene, 10).await;
        scene.store.next_appends([fault]);
        assert!(scene.engine.admin().prune(run, None, "operator").await.is_err());
        let tail = scene.disk.store().tail(&tail(run)).await.unwrap().unwrap();
        assert_eq!(tail.first_sequence, first_kept);
        scene.check().await;
        assert_eq!(scene.engine.admin().prune(run, None, "operator").await.unwrap().first_sequence, 9);
        scene.check().await;
        scene.reopen_at(START_MS + 60_000).await;
        scene.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_run_does_not_block_pruning_of_others() {
    for restarted in [false, true] {
        let mut scene = Scene::new().await;
        let (damaged, unlisted) = (ended(&scene, 5).await, ended(&scene, 5).await);
        let others = [ended(&scene, 5).await, ended(&scene, 6).await];
        for run in [damaged, unlisted] {
            scene.disk.damage_events(run, 1..=2);
        }
        if restarted {
            scene.reopen().await;
        }
        scene.disk.damage("catalogue.runs", &format!("default/{unlisted}"));
        let all = Policy { max_events: Some(0), ..Policy::default() };
        let swept = scene.engine.admin().sweep(&all).await.unwrap();
        assert_eq!(swept, SweepReport { runs: 2, events: 4 + 5, damaged: 1, has_more: false });
        for run in others {
            assert_eq!(scene.types(run).await, ["run.cancelled", "gap.events_pruned"]);
        }
        assert_eq!(code(scene.engine.admin().prune(damaged, None, "x").await), Code::RunDamaged);
        let again = scene.engine.admin().sweep(&all).await.unwrap();
        assert_eq!(again, SweepReport { damaged: 1, ..SweepReport::default() });
    }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_continues_after_a_full_page_of_damaged_runs() {
    let scene = Scene::new().await;
    let mut runs = Vec::new();
    for _ in 0..=limits::SWEEP_RUNS_MAX {
        runs.push(ended(&scene, 5).await);
    }
    let whole = runs.pop().unwrap();
    for run in &runs {
        scene.disk.damage_events(*run, 1..=2);
    }
    let all = Policy { max_events: Some(0), ..Policy::default() };
    let swept = scene.engine.admin().sweep(&all).await.unwrap();
    assert_eq!(swept, SweepReport { runs: 1, events: 4, damaged: runs.len() as u64, has_more: false });
    assert_eq!(scene.types(whole).await, ["run.cancelled", "gap.events_pruned"]);
}
