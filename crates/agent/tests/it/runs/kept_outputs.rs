//! Artifacts of runs: outputs that are read from the log, and the absence of secrets.

use std::sync::Arc;

use recount_engine::{
    ArtifactContent, ArtifactFilter, ArtifactRow, Attachment, FoundArtifact, ListQuery, Narrowing, Redactor,
    RunConfig, Upload,
};
use recount_event::family::run::RunKind;
use recount_event::{Event, Payload};
use recount_redact::Secret;

use crate::runs::scene::{Scene, Setup, count};

async fn artifacts(scene: &Scene) -> Vec<ArtifactRow> {
    let query = ListQuery { limit: 200, ..ListQuery::default() };
    let read = scene.engine.read();
    let page = read.list_artifacts(&query, &ArtifactFilter::default(), &Narrowing::default()).await.unwrap();
    assert!(!page.end.has_more);
    page.items
}

/// All bytes of an artifact, and the size of the largest piece.
async fn bytes_of(scene: &Scene, row: ArtifactRow) -> (Vec<u8>, usize) {
    match scene.engine.read().artifact_content(&FoundArtifact::OfRun(Box::new(row))).await.unwrap() {
        ArtifactContent::Kept(bytes) => (bytes.to_vec(), bytes.len()),
        ArtifactContent::Logged(output) => {
            let (mut bytes, mut most) = (Vec::new(), 0);
            let mut pieces = output.part(0, output.size());
            while let Some(piece) = pieces.next().await.unwrap() {
                most = most.max(piece.len());
                bytes.extend_from_slice(&piece);
            }
            (bytes, most)
        }
    }
}

fn recorded_output(events: &[Event]) -> Vec<u8> {
    let chunks = events.iter().filter_map(|event| match event.payload() {
        Payload::ToolShellOutputChunk(chunk) => Some(chunk.bytes().unwrap()),
        _ => None,
    });
    chunks.flatten().collect()
}

#[tokio::test]
async fn an_output_artifact_is_created_once_and_read_from_the_log() {
    let mut scene = Scene::with("").await;
    for (command, mime, bytes) in [
        ("seq 1 20000; seq 1 20000 >&2", "text/plain; charset=utf-8", 2 * 108_894),
        ("head -c 100000 /dev/zero | tr '\\000' '\\377'", "application/octet-stream", 100_000),
    ] {
        let run = scene
            .call(RunKind::Shell, RunConfig { command: Some(command.into()), ..RunConfig::default() })
            .await;
        let events = scene.ended(run).await;
        let row = artifacts(&scene).await.remove(0);
        assert_eq!((row.run_id, row.kind.as_str(), row.mime.as_deref()), (run, "command_output", Some(mime)));
        assert_eq!((row.size_bytes, row.hash.as_deref(), row.truncated), (Some(bytes), None, None));
        let recorded = recorded_output(&events);
        assert_eq!(recorded.len() as u64, bytes);
        assert!(bytes_of(&scene, row.clone()).await.0 == recorded, "{command}");
        scene.restart().await;
        assert!(bytes_of(&scene, row).await.0 == recorded, "{command}, by the next process");
    }
    assert!(!scene.disk.has_blobs().await, "nothing is stored twice");
}

#[tokio::test]
async fn a_large_output_is_complete_and_never_fully_in_memory() {
    let scene = Scene::with("").await;
    let bytes = 32_u64 << 20;
    let command = format!("yes 0123456789abcde | head -c {bytes}");
    let order = RunConfig { command: Some(command), output_bytes_max: Some(bytes), ..RunConfig::default() };
    let run = scene.call(RunKind::Shell, order).await;
    scene.until(run, "run.finished").await;
    let row = artifacts(&scene).await.remove(0);
    assert_eq!(row.size_bytes, Some(bytes));
    let (all, most) = bytes_of(&scene, row).await;
    assert!(all.len() as u64 == bytes && all.chunks(16).all(|line| line == b"0123456789abcde\n"));
    assert!(most <= 64 << 10, "{most} bytes at once");
    assert!(!scene.disk.has_blobs().await);
}

/// One known secret, and two that are recognized by their form.
const CANARIES: [&str; 3] = [
    "canary-3c1f9b52d07e",
    "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "sk-ant-api03-Qx7Zk2Rw9Lm4Vb8Nt1Yc6Hd3Jf5Gs0PaEuTiQx7Zk2Rw9Lm4Vb8Nt1Yc6Hd3",
];

#[tokio::test]
async fn canaries_stay_out_of_every_artifact() {
    let all = CANARIES.join(" ");
    let script = format!(
        r#"
[[turn]]
call = [{{ name = "write_file", input = {{ path = "keys", content = "the keys are {all}\n" }} }}]
[[turn]]
call = [{{ name = "edit_file", input = {{ path = "keys", old_text = "the keys", new_text = "{all}: my keys" }} }}]
[[turn]]
call = [{{ name = "read_file", input = {{ path = "long" }} }}]
[[turn]]
call = [{{ name = "shell_exec", input = {{ command = "cat long long; cat keys >&2" }} }}]
[[turn]]
call = [{{ name = "grep", input = {{ pattern = "key" }} }}]
[[turn]]
text = "They are {all}."
"#
    );
    let redactor = Arc::new(Redactor::new(vec![Secret::new(CANARIES[0]).unwrap()], true));
    let scene = Scene::with_setup(Setup { script, redactor, ..Setup::default() }).await;
    scene.put("long", format!("a long line with a key {all} in it\n").repeat(2_000));
    let sent = Upload {
        kind: "file_snapshot".into(),
        mime: "text/plain".into(),
        name: Some(format!("{}.txt", CANARIES[0])),
        bytes: format!("sent in: {all}").into(),
        by: "operator".into(),
    };
    let sent = scene.engine.write().upload(sent).await.unwrap();
    let attached = Attachment { artifact_id: sent.id, mime: "text/plain".into(), name: sent.name };
    let order = RunConfig { attachments: vec![attached], ..RunConfig::default() };
    let run = scene.start_with(&format!("use {all}"), order, None, None).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "tool.completed"), 5, "{:#?}", scene.stored_lines(run).await);
    let rows = artifacts(&scene).await;
    let mut kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, ["command_output", "file_snapshot", "patch", "tool_result_blob"]);
    let mut masked = 0;
    for row in rows.clone() {
        let about = serde_json::to_string(&row).unwrap();
        let bytes = String::from_utf8(bytes_of(&scene, row).await.0).unwrap();
        masked += usize::from(bytes.contains("****"));
        for canary in CANARIES {
            assert!(!about.contains(canary), "{about}");
            assert!(!bytes.contains(canary), "{about}");
        }
    }
    assert!(masked >= 4, "the canaries were there to be masked: {masked} of {}", rows.len());
    for canary in CANARIES {
        assert!(!scene.disk.has_seen(canary), "{canary}");
    }
}
