//! Approvals: granted, denied and timed out, for several calls and by several people at once.

use std::sync::Arc;

use recount_event::{Event, Payload};
use recount_world::ManualClock;

use crate::runs::scene::{Scene, Setup, approval_ids, count, first, refusals, results, types};

/// Two calls that need approval, and one that does not.
const TWO: &str = r#"
[[turn]]
call = [
  { name = "write_file", input = { path = "a.txt", content = "one\n" } },
  { name = "glob", input = { pattern = "*" } },
  { name = "write_file", input = { path = "b.txt", content = "two\n" } },
]
[[turn]]
text = "Done."
"#;

const ASK_WRITES: &str =
    "[[rules]]\nid = \"writes\"\ntool = \"write_file\"\naction = \"ask\"\ntimeout_seconds = 60\n";

fn made(events: &[Event], name: &str) -> bool {
    let path = first!(events, RunQueued).workspace_path.unwrap();
    std::path::Path::new(&path).join(name).exists()
}

#[tokio::test]
async fn approvals_are_requested_together_after_calls_that_need_none() {
    let scene = Scene::with_policy(TWO, ASK_WRITES, 8).await;
    let run = scene.start("write").await;
    let events = scene.until(run, "run.waiting").await;
    let ids = approval_ids(&events);
    assert_eq!(ids.len(), 2);
    let types_so_far = types(&events);
    let at = |name: &str| types_so_far.iter().position(|found| *found == name).unwrap();
    assert!(at("tool.completed") < at("approval.requested"));
    assert_eq!(first!(events, RunWaiting).waits_for.len(), 2);
    // One is granted; nothing runs before the other is decided too.
    scene.resolve(run, &ids[1], true).await.unwrap();
    let between = scene.until(run, "approval.resolved").await;
    assert_eq!(count(&between, "run.continued"), 0);
    assert!(!made(&between, "b.txt"));
    scene.resolve(run, &ids[0], false).await.unwrap();
    let events = scene.ended(run).await;
    assert!(!made(&events, "a.txt") && made(&events, "b.txt"));
    assert_eq!(refusals(&events).len(), 1);
    assert_eq!(refusals(&events)[0].0, "denied");
    let results = results(&events);
    assert!(results[0].1 && results[0].0.contains("not today"), "{results:?}");
    assert!(!results[1].1 && !results[2].1, "{results:?}");
    assert_eq!(count(&events, "run.waiting"), 1);
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

#[tokio::test]
async fn the_first_of_two_decisions_wins() {
    let scene = Scene::with_policy(TWO, ASK_WRITES, 8).await;
    let run = scene.start("write").await;
    let ids = approval_ids(&scene.until(run, "run.waiting").await);
    let answers = tokio::join!(scene.resolve(run, &ids[0], true), scene.resolve(run, &ids[0], false));
    assert!(answers.0.is_ok() != answers.1.is_ok(), "{answers:?}");
    scene.resolve(run, &ids[1], true).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(made(&events, "a.txt"), answers.0.is_ok());
    assert_eq!(count(&events, "approval.resolved"), 2);
    // A later decision is refused too.
    assert!(scene.resolve(run, &ids[1], false).await.is_err());
}

#[tokio::test]
async fn an_approval_timeout_applies_the_safe_default() {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let (script, policy) = (TWO.to_owned(), ASK_WRITES.to_owned());
    let mut scene =
        Scene::with_setup(Setup { script, policy, clock: Some(clock.clone()), ..Setup::default() }).await;
    let run = scene.start("write").await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(first!(events, ApprovalRequested).expires_at.unwrap(), "2027-01-15T08:01:00.000Z");
    // The time passes while the server is down.
    clock.set(1_800_000_060_000);
    scene.restart().await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "approval.timed_out"), 2);
    assert!(!made(&events, "a.txt") && !made(&events, "b.txt"));
    assert!(refusals(&events).iter().all(|(code, _)| code == "timed_out"), "{:?}", refusals(&events));
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

#[tokio::test]
async fn a_rule_can_approve_on_timeout() {
    let policy =
        ASK_WRITES.replace("timeout_seconds = 60", "timeout_seconds = 1\ndefault_decision = \"approve\"");
    let scene = Scene::with_policy(TWO, &policy, 8).await;
    let run = scene.start("write").await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "approval.timed_out"), 2);
    assert!(made(&events, "a.txt") && made(&events, "b.txt"));
}

#[tokio::test]
async fn a_run_that_waits_for_approval_can_be_cancelled() {
    let scene = Scene::with_policy(TWO, ASK_WRITES, 8).await;
    let run = scene.start("write").await;
    scene.until(run, "run.waiting").await;
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    let decisions: Vec<&str> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::ApprovalResolved(resolved) => Some(resolved.decision.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(decisions, ["cancelled", "cancelled"]);
    assert!(refusals(&events).iter().all(|(code, _)| code == "cancelled"));
    assert_eq!(first!(events, RunCancelled).reason, "enough");
    assert!(!made(&events, "a.txt") && !made(&events, "b.txt"));
}

#[tokio::test]
async fn a_blocked_call_is_refused_and_the_model_continues() {
    let policy = "[[rules]]\nid = \"no-b\"\ntool = \"write_file\"\npath = \"b.txt\"\naction = \"block\"\nreason = \"b is not ours\"\n";
    let scene = Scene::with_policy(TWO, policy, 8).await;
    let run = scene.start("write").await;
    let events = scene.ended(run).await;
    assert!(made(&events, "a.txt") && !made(&events, "b.txt"));
    let blocked = first!(events, PolicyToolBlocked);
    assert_eq!((blocked.policy_id.as_deref(), blocked.reason.as_str()), (Some("no-b"), "b is not ours"));
    assert_eq!(refusals(&events)[0].0, "blocked");
    assert!(results(&events)[2].0.contains("b is not ours"));
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

/// Calls that no rule can allow without approval.
#[tokio::test]
async fn grave_calls_need_approval_under_any_rule() {
    let script = r#"
[[turn]]
call = [{ name = "shell_exec", input = { command = "git push" } }]
[[turn]]
text = "Done."
"#;
    let policy = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"allow\"\n";
    let scene = Scene::with_policy(script, policy, 8).await;
    let run = scene.start("clean").await;
    let events = scene.until(run, "run.waiting").await;
    let request = first!(events, ApprovalRequested);
    assert_eq!(request.default_decision.unwrap().as_str(), "reject");
    scene.decide(run, &events, false).await;
    assert_eq!(refusals(&scene.ended(run).await)[0].0, "denied");
}

/// The approver of a change sees all of it, not only the file name.
#[tokio::test]
async fn the_preview_shows_the_complete_call() {
    let scene = Scene::with_policy(TWO, ASK_WRITES, 8).await;
    let run = scene.start("write").await;
    let events = scene.until(run, "run.waiting").await;
    let request = first!(events, ApprovalRequested);
    assert_eq!(request.preview_kind.as_deref(), Some("diff"));
    let preview = request.preview.clone().unwrap();
    assert!(preview.contains("a.txt") && preview.contains("\n+one\n"), "{preview}");
    assert_eq!((request.preview_size_bytes, request.preview_artifact_id.clone()), (None, None));
    assert!(request.preview_digest.unwrap().starts_with("blake3:"));
}

/// A preview that is too long for the log is truncated, with its size and its artifact.
#[tokio::test]
async fn a_long_preview_is_truncated_and_names_its_artifact() {
    let line = format!("{}end", "x".repeat(100_000));
    let script = format!(
        "[[turn]]\ncall = [{{ name = \"write_file\", input = {{ path = \"a.txt\", content = \"{line}\" }} }}]\n\
         [[turn]]\ntext = \"Done.\"\n"
    );
    let scene = Scene::with_policy(&script, ASK_WRITES, 8).await;
    let run = scene.start("write").await;
    let events = scene.until(run, "run.waiting").await;
    let request = first!(events, ApprovalRequested);
    let (preview, size) = (request.preview.clone().unwrap(), request.preview_size_bytes.unwrap());
    assert_eq!(preview.len(), recount_agent::limits::PREVIEW_BYTES_MAX);
    assert!(size > 100_000, "{size}");
    let kept = first!(events, ArtifactCreated);
    assert_eq!(
        (Some(kept.artifact_id), kept.kind.as_str()),
        (request.preview_artifact_id.clone(), "approval_preview")
    );
    assert_eq!(kept.size_bytes, Some(size));
    scene.resolve(run, &request.approval_id, true).await.unwrap();
    assert!(made(&scene.ended(run).await, "a.txt"));
}

/// An approval holds for what was shown: if the file has changed, the effect differs.
#[tokio::test]
async fn a_call_that_changed_since_its_approval_does_not_run() {
    let scene = Scene::with_policy(TWO, ASK_WRITES, 8).await;
    let run = scene.start("write").await;
    let events = scene.until(run, "run.waiting").await;
    let path = std::path::PathBuf::from(first!(events, RunQueued).workspace_path.unwrap()).join("a.txt");
    std::fs::write(&path, "precious\n").unwrap();
    for approval in approval_ids(&events) {
        scene.resolve(run, &approval, true).await.unwrap();
    }
    let events = scene.ended(run).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious\n");
    let failed = first!(events, ToolFailed);
    assert_eq!(failed.code.as_deref(), Some("changed_since_approval"));
    assert!(made(&events, "b.txt"), "the other call is what was allowed");
}
