//! What is told of output: all of it, in order, masked, and not too often.

use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use recount_agent::sandbox::Mode;
use recount_agent::tool::{Cancel, Gone, Teller};
use recount_agent::tools::shell::ShellExec;
use recount_event::{Draft, Payload};
use recount_redact::Redactor;

use serde_json::json;

use crate::sandbox::ground::{Ground, Ran, Told, of_type};

#[tokio::test]
async fn long_output_is_told_whole_and_shown_in_part() {
    let ground = Ground::new(Mode::Off).await;
    let ran = ground.shell("seq 1 300000").await;
    let all: String = (1..=300_000).map(|n| format!("{n}\n")).collect();
    assert!(ran.text("stdout") == all, "it is not what was written");
    let mut offset = 0;
    let chunks = of_type(&ran.told.drafts, "tool.shell.output_chunk");
    for chunk in &chunks {
        assert_eq!(chunk["byte_offset"], offset);
        let length = chunk["data"].as_str().unwrap().len();
        assert!(length <= 64 << 10);
        offset += length;
    }
    assert!(chunks.len() <= 2 * all.len() / (64 << 10), "{} pieces", chunks.len());
    let output = &ran.outcome.output;
    assert!(output.len() < 32 << 10);
    assert!(output.starts_with("exit code 0\n--- stdout\n1\n2\n") && output.contains("299999\n300000\n"));
    assert!(output.contains(" bytes left out …]"), "{output}");
    let kept = ground.kept.0.lock().unwrap();
    // It is named, and not stored a second time: it begins with the command that was told first.
    assert_eq!((kept[0].size_bytes, kept[0].from_sequence), (all.len() as u64, 0));
    assert!(kept[0].mime.starts_with("text/plain"), "{}", kept[0].mime);
    assert_eq!(ran.outcome.artifact.as_deref(), Some("art_1"));
    let created = |draft: &&recount_event::Draft| matches!(draft.payload, Payload::ArtifactCreated(_));
    assert_eq!(ran.outcome.events.iter().filter(created).count(), 1);
}

#[tokio::test]
async fn text_stays_text_and_the_rest_is_whole() {
    let ground = Ground::new(Mode::Off).await;
    // 3 bytes each, so that pieces of 64 KiB end within one.
    let ran = ground.shell("perl -e 'print \"\\xe2\\x82\\xac\" x 100000'").await;
    assert_eq!(ran.text("stdout"), "€".repeat(100_000));
    assert!(
        of_type(&ran.told.drafts, "tool.shell.output_chunk")
            .iter()
            .all(|chunk| chunk.get("encoding").is_none())
    );

    let ran = ground
        .shell("perl -e '$| = 1; print \"\\xe2\"; select(undef, undef, undef, 0.03); print \"\\x82\\xac\"'")
        .await;
    let chunks = of_type(&ran.told.drafts, "tool.shell.output_chunk");
    assert_eq!(chunks.len(), 1, "{chunks:?}");
    assert_eq!(chunks[0]["data"], "€");

    let ran = ground.shell("perl -e 'print pack(\"C*\", 0..255) x 1000'").await;
    let all: Vec<u8> = (0..1000).flat_map(|_| 0..=255).collect();
    assert!(ran.bytes("stdout") == all);
    assert!(
        of_type(&ran.told.drafts, "tool.shell.output_chunk")
            .iter()
            .all(|chunk| chunk["encoding"] == "base64")
    );
    assert_eq!(ran.exited()["stdout_bytes"], all.len());

    // A character that never ends.
    let ran = ground.shell("printf 'ab\\342\\202'").await;
    assert_eq!(ran.bytes("stdout"), b"ab\xe2\x82");
    assert_eq!(of_type(&ran.told.drafts, "tool.shell.output_chunk")[0]["data"], "ab");
}

#[tokio::test]
async fn secrets_in_pieces_are_masked_before_anything_is_told() {
    let mut ground = Ground::new(Mode::Off).await;
    ground.redactor = Arc::new(Redactor::shapes());
    let secret = format!("sk-ant-{}", "api03-Qx7Zk2Rw9Lm4Vb8Nt1Yc6Hd3Jf5Gs0PaEuTi".repeat(2));
    let (one, two) = secret.split_at(20);
    let line = format!(
        "perl -e '$| = 1; print \"key {one}\"; select(undef, undef, undef, 0.25); print \"{two} end\\n\"; \
         print \"\\xff {secret}\\n\"'"
    );
    let ran = ground.shell(&line).await;
    let told = ran.bytes("stdout");
    let text = String::from_utf8_lossy(&told).into_owned();
    assert!(
        !text.contains(&secret[10..]) && text.contains("sk-ant-***") && text.contains(" end\n"),
        "{text}"
    );
    assert_eq!(told.len(), "key ".len() + secret.len() + " end\n".len() + 2 + secret.len() + 1);
    assert!(!ran.outcome.output.contains(&secret[10..]));
}

#[tokio::test]
async fn a_stream_that_another_process_holds_open_is_named() {
    let ground = Ground::new(Mode::Off).await;
    let at = ground.workspace.join("held");
    let mut held = None;
    // This process takes hold of the pipe while the command waits for that.
    let hold = move |said: &[u8]| {
        let said = String::from_utf8_lossy(said);
        if held.is_none()
            && let Some((pid, _)) = said.split_once('\n')
        {
            let pipe = std::fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/1"));
            held = Some(pipe.unwrap());
            std::fs::write(&at, "").unwrap();
        }
    };
    let mut told = Told { on_stdout: Some(Box::new(hold)), ..Told::default() };
    let (_stop, cancel) = Cancel::new();
    let line = "echo $$; while [ ! -e held ]; do sleep 0.01; done; seq 1 10000";
    let tool = ShellExec::new(ground.sandbox.clone());
    let outcome = ground.carry(&tool, json!({ "command": line }), &mut told, cancel).await;
    let ran = Ran { told, outcome };
    let exited = ran.exited();
    assert_eq!((&exited["left_open"], &exited["truncated"]), (&json!(["stdout"]), &json!(true)));
    assert_eq!(exited["stdout_bytes"], ran.bytes("stdout").len());
    assert!(ran.text("stdout").ends_with("\n9999\n10000\n"));
    assert!(ran.outcome.output.contains("another process still holds stdout open"), "{}", ran.outcome.output);
}

#[tokio::test]
async fn output_that_is_cut_after_the_time_is_up_is_told_as_cut() {
    let mut ground = Ground::new(Mode::Off).await;
    ground.terms.command_timeout = Duration::from_millis(200);
    ground.terms.output_bytes_max = 100_000;
    let ran = ground.shell("trap 'exec yes' TERM; while :; do sleep 0.02; done").await;
    assert_eq!(ran.how(), "wall_clock");
    // The shell says on stderr what became of its sleep.
    assert_eq!(ran.bytes("stdout").len() + ran.bytes("stderr").len(), 100_000);
    assert_eq!(ran.exited()["truncated"], true);
}

#[tokio::test]
async fn a_command_that_writes_as_much_as_it_may_is_not_cut() {
    let mut ground = Ground::new(Mode::Off).await;
    ground.terms.output_bytes_max = 100_000;
    for (bytes, how, truncated) in [(100_000, "completed", false), (100_001, "output_cap", true)] {
        let ran = ground.shell(&format!("head -c {bytes} /dev/zero")).await;
        assert_eq!(ran.how(), how, "{bytes}");
        let exited = ran.exited();
        assert_eq!((&exited["stdout_bytes"], &exited["truncated"]), (&json!(100_000), &json!(truncated)));
    }
}

/// Output that waits for a slow disk is told when the disk is done, and costs no processor until then.
#[tokio::test]
async fn a_command_waits_for_a_slow_disk_without_turning_over() {
    let ground = Ground::new(Mode::Off).await;
    let (_stop, cancel) = Cancel::new();
    let polls = Arc::new(AtomicUsize::new(0));
    let mut told = SlowTeller { told: Told::default(), polls: polls.clone() };
    let tool = ShellExec::new(ground.sandbox.clone());
    // The second line is due while the first is being told.
    let input = json!({ "command": "echo one; sleep 0.2; echo two; sleep 1; echo three" });
    let outcome = ground.carry_with(&tool, input, &mut told, cancel).await;
    let chunks = of_type(told.told.drafts.iter().chain(&outcome.events), "tool.shell.output_chunk");
    let data: String = chunks.iter().map(|chunk| chunk["data"].as_str().unwrap()).collect();
    assert_eq!(data, "one\ntwo\nthree\n");
    let polls = polls.load(Ordering::Relaxed);
    assert!(polls < 50, "the append was looked at {polls} times");
}

/// Takes a while for each report, and counts how often its caller looks whether it is done.
struct SlowTeller {
    told: Told,
    polls: Arc<AtomicUsize>,
}

impl Teller for SlowTeller {
    fn tell(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, Gone>> {
        let polls = self.polls.clone();
        let mut telling = Box::pin(async move {
            // tidy: stands for a disk that takes this long.
            tokio::time::sleep(Duration::from_millis(600)).await;
            self.told.tell(drafts).await
        });
        Box::pin(poll_fn(move |context| {
            polls.fetch_add(1, Ordering::Relaxed);
            telling.as_mut().poll(context)
        }))
    }
}
