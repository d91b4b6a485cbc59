//! Tests of reported output: complete, in order, masked, and not too often.

use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use recount_agent::sandbox::Mode;
use recount_agent::tool::{Cancel, EventReporter, RunLost};
use recount_agent::tools::shell::ShellExec;
use recount_event::{Draft, Payload};
use recount_redact::Redactor;

use serde_json::json;

use crate::sandbox::fixture::{CommandRun, Fixture, RecordingReporter, of_type};

#[tokio::test]
async fn long_output_is_reported_completely_and_shown_in_part() {
    let fixture = Fixture::new(Mode::Off).await;
    let ran = fixture.shell("seq 1 300000").await;
    let all: String = (1..=300_000).map(|n| format!("{n}\n")).collect();
    assert!(ran.text("stdout") == all, "it is not what was written");
    let mut offset = 0;
    let chunks = of_type(&ran.reporter.drafts, "tool.shell.output_chunk");
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
    assert!(output.contains(" bytes omitted …]"), "{output}");
    let artifacts = fixture.artifacts.0.lock().unwrap();
    // The artifact refers to the logged output instead of storing it again: it begins with the first event of the
    // command.
    assert_eq!((artifacts[0].size_bytes, artifacts[0].from_sequence), (all.len() as u64, 0));
    assert!(artifacts[0].mime.starts_with("text/plain"), "{}", artifacts[0].mime);
    assert_eq!(ran.outcome.artifact.as_deref(), Some("art_1"));
    let created = |draft: &&recount_event::Draft| matches!(draft.payload, Payload::ArtifactCreated(_));
    assert_eq!(ran.outcome.events.iter().filter(created).count(), 1);
}

#[tokio::test]
async fn text_stays_text_and_the_rest_is_whole() {
    let fixture = Fixture::new(Mode::Off).await;
    // 3 bytes each, so that pieces of 64 KiB end within a character.
    let ran = fixture.shell("perl -e 'print \"\\xe2\\x82\\xac\" x 100000'").await;
    assert_eq!(ran.text("stdout"), "€".repeat(100_000));
    assert!(
        of_type(&ran.reporter.drafts, "tool.shell.output_chunk")
            .iter()
            .all(|chunk| chunk.get("encoding").is_none())
    );

    let ran = fixture
        .shell("perl -e '$| = 1; print \"\\xe2\"; select(undef, undef, undef, 0.03); print \"\\x82\\xac\"'")
        .await;
    let chunks = of_type(&ran.reporter.drafts, "tool.shell.output_chunk");
    assert_eq!(chunks.len(), 1, "{chunks:?}");
    assert_eq!(chunks[0]["data"], "€");

    let ran = fixture.shell("perl -e 'print pack(\"C*\", 0..255) x 1000'").await;
    let all: Vec<u8> = (0..1000).flat_map(|_| 0..=255).collect();
    assert!(ran.bytes("stdout") == all);
    assert!(
        of_type(&ran.reporter.drafts, "tool.shell.output_chunk")
            .iter()
            .all(|chunk| chunk["encoding"] == "base64")
    );
    assert_eq!(ran.exited()["stdout_bytes"], all.len());

    // An incomplete character.
    let ran = fixture.shell("printf 'ab\\342\\202'").await;
    assert_eq!(ran.bytes("stdout"), b"ab\xe2\x82");
    assert_eq!(of_type(&ran.reporter.drafts, "tool.shell.output_chunk")[0]["data"], "ab");
}

#[tokio::test]
async fn secrets_in_pieces_are_masked_before_output_is_reported() {
    let mut fixture = Fixture::new(Mode::Off).await;
    fixture.redactor = Arc::new(Redactor::shapes());
    let secret = format!("sk-ant-{}", "api03-Qx7Zk2Rw9Lm4Vb8Nt1Yc6Hd3Jf5Gs0PaEuTi".repeat(2));
    let (one, two) = secret.split_at(20);
    let line = format!(
        "perl -e '$| = 1; print \"key {one}\"; select(undef, undef, undef, 0.25); print \"{two} end\\n\"; \
         print \"\\xff {secret}\\n\"'"
    );
    let ran = fixture.shell(&line).await;
    let reporter = ran.bytes("stdout");
    let text = String::from_utf8_lossy(&reporter).into_owned();
    assert!(
        !text.contains(&secret[10..]) && text.contains("sk-ant-***") && text.contains(" end\n"),
        "{text}"
    );
    assert_eq!(reporter.len(), "key ".len() + secret.len() + " end\n".len() + 2 + secret.len() + 1);
    assert!(!ran.outcome.output.contains(&secret[10..]));
}

#[tokio::test]
async fn a_stream_that_another_process_holds_open_is_named() {
    let fixture = Fixture::new(Mode::Off).await;
    let at = fixture.workspace.join("held");
    let mut held = None;
    // This process opens the pipe while the command waits for that.
    let hold = move |output: &[u8]| {
        let output = String::from_utf8_lossy(output);
        if held.is_none()
            && let Some((pid, _)) = output.split_once('\n')
        {
            let pipe = std::fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/1"));
            held = Some(pipe.unwrap());
            std::fs::write(&at, "").unwrap();
        }
    };
    let mut reporter = RecordingReporter { on_stdout: Some(Box::new(hold)), ..RecordingReporter::default() };
    let (_stop, cancel) = Cancel::new();
    let line = "echo $$; while [ ! -e held ]; do sleep 0.01; done; seq 1 10000";
    let tool = ShellExec::new(fixture.sandbox.clone());
    let outcome = fixture.run_tool(&tool, json!({ "command": line }), &mut reporter, cancel).await;
    let ran = CommandRun { reporter, outcome };
    let exited = ran.exited();
    assert_eq!((&exited["left_open"], &exited["truncated"]), (&json!(["stdout"]), &json!(true)));
    assert_eq!(exited["stdout_bytes"], ran.bytes("stdout").len());
    assert!(ran.text("stdout").ends_with("\n9999\n10000\n"));
    assert!(ran.outcome.output.contains("another process still has stdout open"), "{}", ran.outcome.output);
}

#[tokio::test]
async fn output_that_is_cut_after_the_timeout_is_reported_as_cut() {
    let mut fixture = Fixture::new(Mode::Off).await;
    fixture.terms.command_timeout = Duration::from_millis(200);
    fixture.terms.output_bytes_max = 100_000;
    let ran = fixture.shell("trap 'exec yes' TERM; while :; do sleep 0.02; done").await;
    assert_eq!(ran.status(), "wall_clock");
    // The shell reports on stderr how its sleep ended.
    assert_eq!(ran.bytes("stdout").len() + ran.bytes("stderr").len(), 100_000);
    assert_eq!(ran.exited()["truncated"], true);
}

#[tokio::test]
async fn a_command_that_writes_up_to_the_limit_is_not_cut() {
    let mut fixture = Fixture::new(Mode::Off).await;
    fixture.terms.output_bytes_max = 100_000;
    for (bytes, status, truncated) in [(100_000, "completed", false), (100_001, "output_cap", true)] {
        let ran = fixture.shell(&format!("head -c {bytes} /dev/zero")).await;
        assert_eq!(ran.status(), status, "{bytes}");
        let exited = ran.exited();
        assert_eq!((&exited["stdout_bytes"], &exited["truncated"]), (&json!(100_000), &json!(truncated)));
    }
}

/// Output that waits for a slow disk is reported when the disk is done, and waiting uses no CPU.
#[tokio::test]
async fn a_command_waits_for_a_slow_disk_without_using_the_processor() {
    let fixture = Fixture::new(Mode::Off).await;
    let (_stop, cancel) = Cancel::new();
    let polls = Arc::new(AtomicUsize::new(0));
    let mut reporter = SlowReporter { reporter: RecordingReporter::default(), polls: polls.clone() };
    let tool = ShellExec::new(fixture.sandbox.clone());
    // The second line is due while the first is being reported.
    let input = json!({ "command": "echo one; sleep 0.2; echo two; sleep 1; echo three" });
    let outcome = fixture.run_tool_with(&tool, input, &mut reporter, cancel).await;
    let chunks = of_type(reporter.reporter.drafts.iter().chain(&outcome.events), "tool.shell.output_chunk");
    let data: String = chunks.iter().map(|chunk| chunk["data"].as_str().unwrap()).collect();
    assert_eq!(data, "one\ntwo\nthree\n");
    let polls = polls.load(Ordering::Relaxed);
    assert!(polls < 50, "the append was looked at {polls} times");
}

/// Delays each report, and counts how often it is polled.
struct SlowReporter {
    reporter: RecordingReporter,
    polls: Arc<AtomicUsize>,
}

impl EventReporter for SlowReporter {
    fn report(&mut self, drafts: Vec<Draft>) -> BoxFuture<'_, Result<u64, RunLost>> {
        let polls = self.polls.clone();
        let mut report = Box::pin(async move {
            // tidy: simulates a disk that takes this long.
            tokio::time::sleep(Duration::from_millis(600)).await;
            self.reporter.report(drafts).await
        });
        Box::pin(poll_fn(move |context| {
            polls.fetch_add(1, Ordering::Relaxed);
            report.as_mut().poll(context)
        }))
    }
}
