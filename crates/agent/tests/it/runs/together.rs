//! Concurrent calls of one turn: only read-only ones.

use std::sync::atomic::Ordering;

use recount_event::{Event, Payload};

use crate::runs::scene::{Scene, Setup, count, results, types};

fn script(calls: &str) -> String {
    format!("[[turn]]\ncall = [{calls}]\n[[turn]]\ntext = 'Done.'\n")
}

fn outcomes(events: &[Event]) -> Vec<&str> {
    types(events).into_iter().filter(|name| name.starts_with("tool.")).collect()
}

#[tokio::test]
async fn read_only_calls_run_concurrently_and_are_returned_in_order() {
    // The first ends after the second has started, which would never happen if they ran one after the other.
    let calls = "{ name = 'meets', input = { wait_for = 2, say = 'first' } }, { name = 'meets', input = { say = 'second' } }";
    let scene = Scene::with(&script(calls)).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).last(), Some(&"run.finished"));
    assert_eq!(results(&events), [("first".to_owned(), false), ("second".to_owned(), false)]);
    assert_eq!(scene.toys.meeting.most.load(Ordering::SeqCst), 2);
    assert_eq!(
        outcomes(&events),
        ["tool.invoked", "tool.started", "tool.invoked", "tool.started", "tool.completed", "tool.completed"]
    );
}

#[tokio::test]
async fn a_changing_call_runs_alone_and_in_order() {
    let meets = "{ name = 'meets' }";
    let calls = format!("{meets}, {meets}, {{ name = 'alone' }}, {meets}, {meets}, {{ name = 'alone' }}");
    let scene = Scene::with(&script(&calls)).await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!((count(&events, "tool.completed"), types(&events).last()), (6, Some(&"run.finished")));
    assert_eq!(scene.toys.meeting.disturbed.load(Ordering::SeqCst), 0);
    let started: Vec<String> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::ToolInvoked(invoked) => Some(invoked.tool_name.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(started, ["meets", "meets", "alone", "meets", "meets", "alone"]);
}

#[tokio::test]
async fn concurrent_calls_stay_within_the_limit_and_the_free_places() {
    for (places, most) in [(64, 8), (3, 3), (1, 1)] {
        let calls = vec!["{ name = 'meets' }"; 20].join(", ");
        let setup = Setup { script: script(&calls), tools_at_once: places, ..Setup::default() };
        let scene = Scene::with_setup(setup).await;
        let run = scene.start("go").await;
        let events = scene.ended(run).await;
        assert_eq!(count(&events, "tool.completed"), 20);
        assert!(scene.toys.meeting.most.load(Ordering::SeqCst) <= most, "{places}");
    }
}

#[tokio::test]
async fn a_cancellation_settles_all_concurrent_calls() {
    let never = "{ name = 'meets', input = { wait_for = 1000 } }";
    let scene = Scene::with(&script(&[never; 3].join(", "))).await;
    let run = scene.start("go").await;
    scene.toys.meeting.came(3).await;
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    assert_eq!((count(&events, "tool.cancelled"), types(&events).last()), (3, Some(&"run.cancelled")));
    // The place is free again, and no call is still inside.
    let next = scene.start("go").await;
    scene.toys.meeting.came(6).await;
    assert!(scene.toys.meeting.inside.load(Ordering::SeqCst) <= 3);
    scene.cancel(next).await;
    scene.ended(next).await;
}

#[tokio::test]
async fn concurrent_calls_are_interrupted_by_a_restart() {
    let never = "{ name = 'meets', input = { wait_for = 1000 } }";
    let mut scene = Scene::with(&script(&[never; 2].join(", "))).await;
    let run = scene.start("go").await;
    scene.toys.meeting.came(2).await;
    scene.restart().await;
    let events = scene.ended(run).await;
    let interrupted =
        results(&events).into_iter().filter(|(outputs, _)| outputs.contains("interrupted")).count();
    assert_eq!((interrupted, types(&events).last()), (2, Some(&"run.finished")));
}

#[tokio::test]
async fn a_call_that_waits_for_approval_does_not_block_read_only_calls() {
    let policy = "[[rules]]\nid = \"ask\"\ntool = \"alone\"\naction = \"ask\"\n";
    let calls = "{ name = 'alone' }, { name = 'meets', input = { wait_for = 2 } }, { name = 'meets' }";
    let scene = Scene::with_policy(&script(calls), policy, 8).await;
    let run = scene.start("go").await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!((count(&events, "tool.completed"), count(&events, "approval.requested")), (2, 1));
    scene.decide(run, &events, true).await;
    let events = scene.ended(run).await;
    assert_eq!((count(&events, "tool.completed"), types(&events).last()), (3, Some(&"run.finished")));
    assert_eq!(scene.toys.meeting.disturbed.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn read_only_commands_report_their_output_concurrently() {
    let scene = Scene::with(&script(
        "{ name = 'git_status', input = {} }, { name = 'git_status', input = {} }, { name = 'git_diff', input = {} }",
    ))
    .await;
    crate::runs::tools::git(&scene, &["init", "--quiet"]);
    scene.put("new.txt", "one\n");
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!((count(&events, "tool.completed"), count(&events, "tool.shell.exited")), (3, 3));
    let outputs = results(&events);
    assert!(outputs[0].0.contains("new.txt") && outputs[1].0.contains("new.txt"), "{outputs:?}");
}
