//! The output of a command as an artifact whose bytes are the events of its run.

use base64::Engine as _;
use recount_engine::ArtifactContent;
use recount_event::{Code, ForeignId, RunId};

use crate::artifacts::{blobs, of_run, row};
use crate::scene::{Scene, code};

fn chunk(call: &str, stream: &str, offset: usize, bytes: &[u8]) -> String {
    let (data, encoding) = match std::str::from_utf8(bytes) {
        Ok(text) => (serde_json::to_string(text).unwrap(), ""),
        Err(_) => {
            let data = base64::engine::general_purpose::STANDARD.encode(bytes);
            (format!("{data:?}"), r#","encoding":"base64""#)
        }
    };
    format!(
        r#"{{"tool_call_id":"{call}","stream":"{stream}","data":{data},"byte_offset":{offset}{encoding}}}"#
    )
}

/// Two concurrent calls, and the output of the first: text, bytes and many pieces, on both streams.
async fn run_with_output(scene: &Scene, reported_size: Option<usize>) -> (RunId, ForeignId, Vec<u8>) {
    let run = scene.start().await;
    let call = |id: &str| format!(r#"{{"tool_call_id":"{id}","tool_name":"shell_exec","kind":"shell"}}"#);
    let (one, two) = (call("one"), call("two"));
    let command = |id: &str| format!(r#"{{"tool_call_id":"{id}","argv":["make"],"cwd":"/w"}}"#);
    let (first, second) = (command("one"), command("two"));
    let begin = [
        ("tool.invoked", one.as_str()),
        ("tool.invoked", two.as_str()),
        ("tool.started", one.as_str()),
        ("tool.started", two.as_str()),
        ("tool.shell.command", first.as_str()),
        ("tool.shell.command", second.as_str()),
    ];
    scene.report(run, 1, &begin).await.unwrap();
    let (mut all, mut offsets, mut seq) = (Vec::new(), [0, 0], 2);
    for number in 0..40_usize {
        let piece = match number % 3 {
            0 => format!("{number} ä€ {}\n", "x".repeat(20_000)).into_bytes(),
            1 => vec![0xff, 0, number as u8],
            _ => format!("{number}\n").into_bytes(),
        };
        let side = number % 2;
        let mine = chunk("one", ["stdout", "stderr"][side], offsets[side], &piece);
        let theirs = chunk("two", "stdout", number * 6, b"theirs");
        let both = [("tool.shell.output_chunk", mine.as_str()), ("tool.shell.output_chunk", theirs.as_str())];
        scene.report(run, seq, &both).await.unwrap();
        (seq, offsets[side]) = (seq + 1, offsets[side] + piece.len());
        all.extend(piece);
    }
    let size = reported_size.unwrap_or(all.len());
    let created = format!(
        r#"{{"artifact_id":"out","kind":"command_output","size_bytes":{size},"mime":"application/octet-stream","tool_call_id":"one","log_from_sequence":2}}"#
    );
    scene.report(run, seq, &[("artifact.created", &created)]).await.unwrap();
    (run, ForeignId::parse("out").unwrap(), all)
}

async fn part(scene: &Scene, id: &ForeignId, first: u64, count: u64) -> Result<Vec<u8>, Code> {
    let found = of_run(&row(scene, id).await);
    let output = match scene.engine.read().artifact_content(&found).await {
        Ok(ArtifactContent::Logged(output)) => output,
        Ok(ArtifactContent::Kept(_)) => panic!("it is stored separately"),
        Err(error) => return Err(error.code()),
    };
    let (mut bytes, mut pieces) = (Vec::new(), output.part(first, count));
    while let Some(piece) = pieces.next().await.map_err(|error| error.code())? {
        assert!(!piece.is_empty());
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

#[tokio::test(start_paused = true)]
async fn logged_output_consists_of_the_bytes_of_its_events_and_is_stored_once() {
    let mut scene = Scene::new().await;
    let (run, id, all) = run_with_output(&scene, None).await;
    let size = all.len() as u64;
    assert_eq!(blobs(&scene).await, 0);
    for _ in 0..2 {
        assert_eq!(scene.engine.read().artifact_bytes(&of_run(&row(&scene, &id).await)).await.unwrap(), all);
        for (first, count) in
            [(0, size), (0, 1), (1, 0), (size - 1, 1), (19_990, 40), (100, size), (size, 5), (40_000, 60_001)]
        {
            let (from, to) = (first as usize, (first + count).min(size) as usize);
            assert_eq!(part(&scene, &id, first, count).await.unwrap(), all[from..to], "{count} from {first}");
        }
        scene.check().await;
        scene.reopen().await;
    }
    // No blob was stored, so none can be deleted or lost.
    scene.cancel(run).await.unwrap();
    let found = of_run(&row(&scene, &id).await);
    assert_eq!(code(scene.engine.admin().delete_artifact(&found, "anna").await), Code::ArtifactInLog);
    assert_eq!(scene.engine.admin().missing_blobs().await.unwrap(), []);
    // Pruning some of its events removes its bytes; pruning all of them removes the artifact.
    scene.engine.admin().prune(run, Some(20), "test").await.unwrap();
    assert_eq!(part(&scene, &id, 0, size).await, Err(Code::ArtifactPruned));
    assert_eq!(code(scene.engine.read().artifact_bytes(&found).await), Code::ArtifactPruned);
    scene.engine.admin().prune(run, None, "test").await.unwrap();
    assert_eq!(scene.engine.read().missing_artifact(&id).await.code(), Code::ArtifactPruned);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn reading_an_output_fails_if_it_is_pruned_meanwhile() {
    let scene = Scene::new().await;
    let (run, id, all) = run_with_output(&scene, None).await;
    let found = of_run(&row(&scene, &id).await);
    let Ok(ArtifactContent::Logged(output)) = scene.engine.read().artifact_content(&found).await else {
        panic!("it is not read from the log")
    };
    let mut pieces = output.part(0, all.len() as u64);
    assert!(pieces.next().await.unwrap().is_some());
    scene.cancel(run).await.unwrap();
    scene.engine.admin().prune(run, None, "test").await.unwrap();
    // A reader in progress gets an error, and no wrong bytes.
    let ended = loop {
        match pieces.next().await {
            Ok(Some(_)) => {}
            other => break other.map_err(|error| error.code()),
        }
    };
    assert_eq!(ended, Err(Code::ArtifactPruned));
}

#[tokio::test(start_paused = true)]
async fn the_reported_size_of_an_output_is_compared_with_the_log() {
    let scene = Scene::new().await;
    let (_, id, all) = run_with_output(&scene, Some(1_000_000)).await;
    assert!(all.len() < 1_000_000);
    assert_eq!(part(&scene, &id, 0, 1_000_000).await, Err(Code::ArtifactBytesMissing));
    assert_eq!(part(&scene, &id, 5, 10).await.unwrap(), all[5..15], "the available part");
}
