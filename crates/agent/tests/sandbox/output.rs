//! What is told of output: all of it, in order, masked, and not too often.

use std::sync::Arc;

use recount_agent::sandbox::Mode;
use recount_event::Payload;
use recount_redact::Redactor;

use crate::ground::{Ground, of_type};

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
    assert_eq!((kept[0].kind, kept[0].bytes.len()), ("command_output", all.len()));
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
