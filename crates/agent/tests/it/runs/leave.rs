//! Permissions: given, denied, timed out, for several calls at once, and by several people at once.

use std::sync::Arc;

use recount_event::{Event, Payload};
use recount_world::ManualClock;

use crate::runs::scene::{Scene, Setup, asked_for, count, first, refusals, results, types};

/// Two calls that need leave, and one that does not.
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
async fn what_needs_leave_is_asked_for_together_behind_what_needs_none() {
    let scene = Scene::under(TWO, ASK_WRITES, 8).await;
    let run = scene.ask("write").await;
    let events = scene.until(run, "run.waiting").await;
    let asked = asked_for(&events);
    assert_eq!(asked.len(), 2);
    let types_so_far = types(&events);
    let at = |name: &str| types_so_far.iter().position(|found| *found == name).unwrap();
    assert!(at("tool.completed") < at("approval.requested"));
    assert_eq!(first!(events, RunWaiting).waits_for.len(), 2);
    // One is granted, and nothing runs before the other is answered, too.
    scene.resolve(run, &asked[1], true).await.unwrap();
    let between = scene.until(run, "approval.resolved").await;
    assert_eq!(count(&between, "run.continued"), 0);
    assert!(!made(&between, "b.txt"));
    scene.resolve(run, &asked[0], false).await.unwrap();
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
async fn the_first_of_two_answers_wins() {
    let scene = Scene::under(TWO, ASK_WRITES, 8).await;
    let run = scene.ask("write").await;
    let asked = asked_for(&scene.until(run, "run.waiting").await);
    let answers = tokio::join!(scene.resolve(run, &asked[0], true), scene.resolve(run, &asked[0], false));
    assert!(answers.0.is_ok() != answers.1.is_ok(), "{answers:?}");
    scene.resolve(run, &asked[1], true).await.unwrap();
    let events = scene.ended(run).await;
    assert_eq!(made(&events, "a.txt"), answers.0.is_ok());
    assert_eq!(count(&events, "approval.resolved"), 2);
    // It is over for who comes later, too.
    assert!(scene.resolve(run, &asked[1], false).await.is_err());
}

#[tokio::test]
async fn nobody_answers_in_time_and_the_safe_answer_holds() {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let (script, policy) = (TWO.to_owned(), ASK_WRITES.to_owned());
    let mut scene = Scene::of(Setup { script, policy, clock: Some(clock.clone()), ..Setup::default() }).await;
    let run = scene.ask("write").await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(first!(events, ApprovalRequested).expires_at.unwrap(), "2027-01-15T08:01:00.000Z");
    // The time passes while nobody is there.
    clock.set(1_800_000_060_000);
    scene.restart().await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "approval.timed_out"), 2);
    assert!(!made(&events, "a.txt") && !made(&events, "b.txt"));
    assert!(refusals(&events).iter().all(|(code, _)| code == "timed_out"), "{:?}", refusals(&events));
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

#[tokio::test]
async fn a_rule_may_say_that_silence_is_a_yes() {
    let policy =
        ASK_WRITES.replace("timeout_seconds = 60", "timeout_seconds = 1\ndefault_decision = \"approve\"");
    let scene = Scene::under(TWO, &policy, 8).await;
    let run = scene.ask("write").await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "approval.timed_out"), 2);
    assert!(made(&events, "a.txt") && made(&events, "b.txt"));
}

#[tokio::test]
async fn who_waits_for_leave_can_be_cancelled() {
    let scene = Scene::under(TWO, ASK_WRITES, 8).await;
    let run = scene.ask("write").await;
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
async fn a_rule_blocks_a_call_and_the_model_goes_on() {
    let policy = "[[rules]]\nid = \"no-b\"\ntool = \"write_file\"\npath = \"b.txt\"\naction = \"block\"\nreason = \"b is not ours\"\n";
    let scene = Scene::under(TWO, policy, 8).await;
    let run = scene.ask("write").await;
    let events = scene.ended(run).await;
    assert!(made(&events, "a.txt") && !made(&events, "b.txt"));
    let blocked = first!(events, PolicyToolBlocked);
    assert_eq!((blocked.policy_id.as_deref(), blocked.reason.as_str()), (Some("no-b"), "b is not ours"));
    assert_eq!(refusals(&events)[0].0, "blocked");
    assert!(results(&events)[2].0.contains("b is not ours"));
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

/// What no rule can allow without asking.
#[tokio::test]
async fn what_is_grave_is_asked_about_whatever_a_rule_says() {
    let script = r#"
[[turn]]
call = [{ name = "shell_exec", input = { command = "rm -rf ." } }]
[[turn]]
text = "Done."
"#;
    let policy = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"allow\"\n";
    let scene = Scene::under(script, policy, 8).await;
    let run = scene.ask("clean").await;
    let events = scene.until(run, "run.waiting").await;
    let asked = first!(events, ApprovalRequested);
    assert_eq!(asked.default_decision.unwrap().as_str(), "reject");
    scene.decide(run, &events, false).await;
    assert_eq!(refusals(&scene.ended(run).await)[0].0, "denied");
}

/// Who allows a change reads all of it, and not only the name of the file.
#[tokio::test]
async fn what_is_asked_about_is_shown_whole() {
    let scene = Scene::under(TWO, ASK_WRITES, 8).await;
    let run = scene.ask("write").await;
    let events = scene.until(run, "run.waiting").await;
    let asked = first!(events, ApprovalRequested);
    assert_eq!(asked.preview_kind.as_deref(), Some("diff"));
    let preview = asked.preview.clone().unwrap();
    assert!(preview.contains("a.txt") && preview.contains("\n+one\n"), "{preview}");
    assert_eq!((asked.preview_size_bytes, asked.preview_artifact_id.clone()), (None, None));
    assert!(asked.preview_digest.unwrap().starts_with("blake3:"));
}

/// What is too long for the log is shown in part, and says how much there is and where it is.
#[tokio::test]
async fn a_long_change_says_how_much_is_missing_and_where_it_is() {
    let line = format!("{}end", "x".repeat(100_000));
    let script = format!(
        "[[turn]]\ncall = [{{ name = \"write_file\", input = {{ path = \"a.txt\", content = \"{line}\" }} }}]\n\
         [[turn]]\ntext = \"Done.\"\n"
    );
    let scene = Scene::under(&script, ASK_WRITES, 8).await;
    let run = scene.ask("write").await;
    let events = scene.until(run, "run.waiting").await;
    let asked = first!(events, ApprovalRequested);
    let (preview, size) = (asked.preview.clone().unwrap(), asked.preview_size_bytes.unwrap());
    assert_eq!(preview.len(), recount_agent::limits::PREVIEW_BYTES_MAX);
    assert!(size > 100_000, "{size}");
    let kept = first!(events, ArtifactCreated);
    assert_eq!(
        (Some(kept.artifact_id), kept.kind.as_str()),
        (asked.preview_artifact_id.clone(), "approval_preview")
    );
    assert_eq!(kept.size_bytes, Some(size));
    scene.resolve(run, &asked.approval_id, true).await.unwrap();
    assert!(made(&scene.ended(run).await, "a.txt"));
}

/// A yes holds for what was shown: when the file has become another one, the call does something else.
#[tokio::test]
async fn what_changed_since_it_was_allowed_is_not_done() {
    let scene = Scene::under(TWO, ASK_WRITES, 8).await;
    let run = scene.ask("write").await;
    let events = scene.until(run, "run.waiting").await;
    let path = std::path::PathBuf::from(first!(events, RunQueued).workspace_path.unwrap()).join("a.txt");
    std::fs::write(&path, "precious\n").unwrap();
    for approval in asked_for(&events) {
        scene.resolve(run, &approval, true).await.unwrap();
    }
    let events = scene.ended(run).await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious\n");
    let failed = first!(events, ToolFailed);
    assert_eq!(failed.code.as_deref(), Some("changed_since_approval"));
    assert!(made(&events, "b.txt"), "the other call is what was allowed");
}
