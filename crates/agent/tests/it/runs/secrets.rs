//! Secrets on every path into the log: the store never contains any part of them.

use std::sync::Arc;

use recount_engine::{Redactor, RunConfig};
use recount_event::family::run::RunKind;
use recount_redact::Secret;

use crate::runs::scene::{Scene, Setup, count, first, results, types};

const CANARY: &str = "canary-3c1f9b52d07e";

/// A redactor with one known secret that has no recognizable form.
fn knowing() -> Arc<Redactor> {
    Arc::new(Redactor::new(vec![Secret::new(CANARY).unwrap()], true))
}

async fn scene(script: String) -> Scene {
    Scene::with_setup(Setup { script, redactor: knowing(), ..Setup::default() }).await
}

#[tokio::test]
async fn a_secret_in_inputs_and_patches_is_used_and_not_stored() {
    let script = format!(
        r#"
[[turn]]
call = [{{ name = "write_file", input = {{ path = "key", content = "the key is {CANARY}\n" }} }}]
[[turn]]
call = [{{ name = "edit_file", input = {{ path = "key", old_text = "{CANARY}", new_text = "{CANARY}2" }} }}]
[[turn]]
call = [{{ name = "multi_edit", input = {{ edits = [{{ path = "key", old_text = "{CANARY}2", new_text = "x{CANARY}" }}] }} }}]
[[turn]]
call = [{{ name = "read_file", input = {{ path = "key" }} }}]
[[turn]]
call = [{{ name = "grep", input = {{ pattern = "canary" }} }}]
[[turn]]
text = "It is {CANARY}, as I said."
"#
    );
    let scene = scene(script).await;
    let run = scene.start(&format!("write {CANARY} down")).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "tool.completed"), 5, "{:#?}", scene.stored_lines(run).await);
    let path = first!(events, RunQueued).workspace_path.unwrap();
    let written = std::fs::read_to_string(std::path::Path::new(&path).join("key")).unwrap();
    assert_eq!(written, format!("the key is x{CANARY}\n"));
    assert!(!scene.disk.has_seen(CANARY));
    // The search does find what is stored.
    assert!(scene.disk.has_seen("the key is"));
    assert!(scene.stored_lines(run).await.iter().any(|line| line.contains("redacted_paths")));
}

#[tokio::test]
async fn a_secret_in_streamed_pieces_is_masked_with_its_length() {
    for bytes in [1, 3, 7] {
        let script = format!("[pace]\nbytes = {bytes}\n[[turn]]\ntext = 'It is {CANARY}, as I said.'");
        let scene = scene(script).await;
        let run = scene.start("say it").await;
        let events = scene.ended(run).await;
        let answer = first!(events, AssistantTextComplete).text;
        assert_eq!(answer.len(), format!("It is {CANARY}, as I said.").len());
        assert!(answer.starts_with("It is ") && answer.ends_with(", as I said."), "{answer}");
        assert!(!scene.disk.has_seen(CANARY));
    }
}

/// `s` may start a secret, and nothing follows for a while.
#[tokio::test]
async fn a_character_that_may_start_a_secret_does_not_wait_for_the_next_one() {
    let scene = scene("[pace]\nbytes = 1\ntokens_per_second = 0.01\n[[turn]]\ntext = 'sun'".into()).await;
    let run = scene.start("say it").await;
    let events = scene.until(run, "assistant.text_delta").await;
    assert_eq!(first!(events, AssistantTextDelta).delta, "s");
    scene.cancel(run).await;
    scene.ended(run).await;

    let order = RunConfig { command: Some("printf s; sleep 600".into()), ..RunConfig::default() };
    let run = scene.call(RunKind::Shell, order).await;
    let events = scene.until(run, "tool.shell.output_chunk").await;
    assert_eq!(first!(events, ToolShellOutputChunk).data, "s");
    scene.cancel(run).await;
    scene.ended(run).await;
}

#[tokio::test]
async fn a_secret_in_chunked_output_is_masked() {
    let (head, tail) = CANARY.split_at(9);
    let scene = scene(String::new()).await;
    let commands = [
        format!("printf %s {head}; printf '%s\\n' {tail}"),
        format!("printf 'a%.0s' $(seq 65531); printf %s {head}; printf '%s\\n' {tail}"),
        format!("printf '%s%s\\n' {head} {tail} >&2; exit 1"),
    ];
    for command in commands {
        let order = RunConfig { command: Some(command), ..RunConfig::default() };
        let run = scene.call(RunKind::Shell, order).await;
        let events = scene.ended(run).await;
        assert!(count(&events, "tool.shell.output_chunk") > 0, "{:?}", types(&events));
        assert!(!scene.disk.has_seen(CANARY));
    }
}

/// A masked input is sealed until its call runs. If it cannot be unsealed, the call is refused; it never runs with the
/// masked input.
#[tokio::test]
async fn a_secret_input_waits_for_approval_across_a_restart() {
    for key in [Setup::default().key, None] {
        let script = format!(
            "[[turn]]\ncall = [{{ name = \"write_file\", input = {{ path = \"key\", content = \"{CANARY}\" }} }}]\n[[turn]]\ntext = \"Done.\""
        );
        let policy = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\n".to_owned();
        let mut scene =
            Scene::with_setup(Setup { script, policy, redactor: knowing(), key, ..Setup::default() }).await;
        let run = scene.start("write").await;
        let events = scene.until(run, "run.waiting").await;
        scene.restart().await;
        scene.decide(run, &events, true).await;
        let events = scene.ended(run).await;
        let path = first!(events, RunQueued).workspace_path.unwrap();
        let written = std::fs::read_to_string(std::path::Path::new(&path).join("key")).ok();
        assert_eq!(written.as_deref(), key.map(|_| CANARY));
        assert_eq!(results(&events)[0].1, key.is_none());
        assert!(!scene.disk.has_seen(CANARY));
        assert_eq!(types(&events).last(), Some(&"run.finished"));
    }
}
