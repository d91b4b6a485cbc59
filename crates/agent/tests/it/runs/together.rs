//! Calls of one turn side by side: those that only read, and no others.

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
async fn calls_that_only_read_run_side_by_side_and_are_told_in_order() {
    // The first ends after the second has come in, which it never would if they ran one after the other.
    let calls = "{ name = 'meets', input = { wait_for = 2, say = 'first' } }, { name = 'meets', input = { say = 'second' } }";
    let scene = Scene::with(&script(calls)).await;
    let run = scene.ask("go").await;
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
async fn a_call_that_changes_something_is_alone_and_keeps_its_place() {
    let meets = "{ name = 'meets' }";
    let calls = format!("{meets}, {meets}, {{ name = 'alone' }}, {meets}, {meets}, {{ name = 'alone' }}");
    let scene = Scene::with(&script(&calls)).await;
    let run = scene.ask("go").await;
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
async fn no_more_calls_run_side_by_side_than_the_limit_and_the_places_allow() {
    for (places, most) in [(64, 8), (3, 3), (1, 1)] {
        let calls = vec!["{ name = 'meets' }"; 20].join(", ");
        let setup = Setup { script: script(&calls), tools_at_once: places, ..Setup::default() };
        let scene = Scene::of(setup).await;
        let run = scene.ask("go").await;
        let events = scene.ended(run).await;
        assert_eq!(count(&events, "tool.completed"), 20);
        assert!(scene.toys.meeting.most.load(Ordering::SeqCst) <= most, "{places}");
    }
}

#[tokio::test]
async fn a_cancellation_settles_all_calls_that_run_side_by_side() {
    let never = "{ name = 'meets', input = { wait_for = 1000 } }";
    let scene = Scene::with(&script(&[never; 3].join(", "))).await;
    let run = scene.ask("go").await;
    scene.toys.meeting.came(3).await;
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    assert_eq!((count(&events, "tool.cancelled"), types(&events).last()), (3, Some(&"run.cancelled")));
    // The place is free again, and nothing is left inside.
    let next = scene.ask("go").await;
    scene.toys.meeting.came(6).await;
    assert!(scene.toys.meeting.inside.load(Ordering::SeqCst) <= 3);
    scene.cancel(next).await;
    scene.ended(next).await;
}

#[tokio::test]
async fn calls_that_were_under_way_side_by_side_are_interrupted_by_a_restart() {
    let never = "{ name = 'meets', input = { wait_for = 1000 } }";
    let mut scene = Scene::with(&script(&[never; 2].join(", "))).await;
    let run = scene.ask("go").await;
    scene.toys.meeting.came(2).await;
    scene.restart().await;
    let events = scene.ended(run).await;
    let interrupted = results(&events).into_iter().filter(|(told, _)| told.contains("interrupted")).count();
    assert_eq!((interrupted, types(&events).last()), (2, Some(&"run.finished")));
}

#[tokio::test]
async fn a_call_that_waits_for_leave_holds_no_reading_up() {
    let policy = "[[rules]]\nid = \"ask\"\ntool = \"alone\"\naction = \"ask\"\n";
    let calls = "{ name = 'alone' }, { name = 'meets', input = { wait_for = 2 } }, { name = 'meets' }";
    let scene = Scene::under(&script(calls), policy, 8).await;
    let run = scene.ask("go").await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!((count(&events, "tool.completed"), count(&events, "approval.requested")), (2, 1));
    scene.decide(run, &events, true).await;
    let events = scene.ended(run).await;
    assert_eq!((count(&events, "tool.completed"), types(&events).last()), (3, Some(&"run.finished")));
    assert_eq!(scene.toys.meeting.disturbed.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn commands_that_only_read_tell_their_output_side_by_side() {
    let scene = Scene::with(&script(
        "{ name = 'git_status', input = {} }, { name = 'git_status', input = {} }, { name = 'git_diff', input = {} }",
    ))
    .await;
    crate::runs::tools::git(&scene, &["init", "--quiet"]);
    scene.put("new.txt", "one\n");
    let run = scene.ask("go").await;
    let events = scene.ended(run).await;
    assert_eq!((count(&events, "tool.completed"), count(&events, "tool.shell.exited")), (3, 3));
    let told = results(&events);
    assert!(told[0].0.contains("new.txt") && told[1].0.contains("new.txt"), "{told:?}");
}
