//! Earlier runs that cannot be read: a run that needs their conversation fails with a message, or waits. It never
//! continues without them.

use recount_engine::RunConfig;
use recount_event::{RunId, SessionId};
use recount_faulty_store::{Crash, CrashAt};

use crate::runs::scene::{Scene, Setup, count, first, results, types};

const SCRIPT: &str = r#"
[[scene]]
when = "first"
[[scene.turn]]
call = [{ name = "write_file", input = { path = "a.txt", content = "one" } }]
[[scene.turn]]
text = "Written."
[[scene]]
when = "second"
[[scene.turn]]
text = "I go on."
"#;

/// A session with one ended run that is not in the server's cache.
async fn session() -> (Scene, SessionId, RunId) {
    let mut scene = Scene::with(SCRIPT).await;
    let session = scene.engine.write().create_session(None).await.unwrap().id;
    let run = scene.start_with("first", RunConfig::default(), None, Some(session)).await;
    scene.ended(run).await;
    scene.restart().await;
    (scene, session, run)
}

#[tokio::test]
async fn a_run_in_a_session_with_a_damaged_run_fails_and_names_it() {
    let (scene, session, earlier) = session().await;
    for damaged_from in [0, 5] {
        scene.disk.restore_events();
        scene.disk.damage_events(earlier, damaged_from..=1_000);
        let run = scene.start_with("second", RunConfig::default(), None, Some(session)).await;
        let events = scene.until(run, "no such type").await;
        let failed = first!(events, RunFailed);
        assert_eq!((failed.code.as_str(), failed.retriable), ("run_damaged", false));
        let parts =
            [earlier.to_string(), format!("events {damaged_from} to "), "start a new session".to_owned()];
        assert!(parts.iter().all(|parts| failed.message.contains(parts)), "{}", failed.message);
        assert_eq!(count(&events, "turn.started"), 0, "{:?}", types(&events));
    }
    // Once the events are readable again, the session continues with all of them.
    scene.disk.restore_events();
    let run = scene.start_with("second", RunConfig::default(), None, Some(session)).await;
    assert_eq!(first!(scene.ended(run).await, AssistantFinalAnswer).summary, "I go on.");
}

#[tokio::test]
async fn a_run_that_continues_a_damaged_one_fails() {
    let mut scene = Scene::with(SCRIPT).await;
    let earlier = scene.start("first").await;
    scene.ended(earlier).await;
    let past = scene.engine.write().ended_run(earlier).await.unwrap();
    let mut new = past.resumed(None).unwrap();
    past.set_predecessor(&mut new.queued);
    scene.restart().await;
    scene.disk.damage_events(earlier, 5..=1_000);
    let (run, _) = scene.engine.write().create_run(new).await.unwrap();
    let events = scene.until(run, "no such type").await;
    assert_eq!(first!(events, RunFailed).code, "run_damaged");
    assert_eq!(count(&events, "turn.started"), 0);
}

#[tokio::test]
async fn a_busy_store_delays_a_run_and_loses_nothing() {
    let (scene, session, earlier) = session().await;
    scene.disk.be_busy(earlier, 2);
    let run = scene.start_with("second", RunConfig::default(), None, Some(session)).await;
    let events = scene.until(run, "no such type").await;
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "I go on.");
    // It has retried, so the history was read.
    assert_eq!(scene.disk.busy_reads_left(), 0);
    let whole = first!(events, TurnStarted).input_tokens_estimate;
    let (scene, session, _) = self::session().await;
    let run = scene.start_with("second", RunConfig::default(), None, Some(session)).await;
    assert_eq!(first!(scene.ended(run).await, TurnStarted).input_tokens_estimate, whole);
}

#[tokio::test]
async fn a_damaged_child_run_is_not_treated_as_an_empty_result() {
    let script = r#"
[[scene]]
when = "the whole"
[[scene.turn]]
call = [{ name = "spawn_run", input = { prompt = "look at the part" } }]
[[scene.turn]]
text = "That is known now."
[[scene]]
when = "the part"
[[scene.turn]]
text = "The part is fine."
"#;
    let setup = Setup { script: script.to_owned(), child_runs: true, ..Setup::default() };
    let mut scene = Scene::with_setup(setup).await;
    let run = scene.start("the whole").await;
    scene.disk.crash_at(Crash { at: CrashAt::Type("tool.completed"), kept: false });
    scene.disk.crashed().await;
    let child: RunId = first!(scene.all(run).await, ChildRunStarted).child_run_id.parse().unwrap();
    scene.disk.damage_events(child, 0..=1_000);
    scene.restart().await;
    let events = scene.until(run, "no such type").await;
    let answers = results(&events);
    assert!(answers[0].0.contains(&format!("of {child} are damaged")), "{answers:?}");
}
