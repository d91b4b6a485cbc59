//! Disk use of a long output: it grows linearly with the output.

use std::sync::Arc;

use recount_engine::{BatchId, Engine, Framing, NewRun};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Draft, ForeignId, RunId, door};
use recount_log::{ReadBound, Store as _};
use recount_log_sqlite::{SqliteOptions, SqliteStore};
use recount_world::World;

struct Bare;

impl Framing for Bare {
    fn frame(&self, _: u64, envelope: &[u8], out: &mut bytes::BytesMut) {
        out.extend_from_slice(envelope);
    }
}

const CHUNK: usize = 32 << 10;

fn draft(type_name: &str, data: &str) -> Draft {
    door::draft(type_name, data).unwrap()
}

async fn append(engine: &Engine, run: RunId, seq: u64, drafts: Vec<Draft>) {
    let triple = BatchId { producer: ForeignId::parse("p").unwrap(), epoch: 0, seq };
    engine.write().ingest(run, triple, drafts).await.unwrap();
}

/// Records a shell call with `chunks` pieces of output; returns the bytes of the folder afterwards.
async fn folder_bytes_after(chunks: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(SqliteOptions::new(folder.path())).unwrap());
    let engine = Engine::open(store.clone(), World::real(), Arc::new(Bare)).await.unwrap();
    let new =
        NewRun { queued: Queued::new(RunKind::External), task: None, session: None, resumed_from: None };
    let (run, _) = engine.write().create_run(new).await.unwrap();
    let call = r#""tool_call_id":"c","tool_name":"shell_exec""#;
    let begin = vec![
        draft("run.started", "{}"),
        draft("tool.invoked", &format!("{{{call}}}")),
        draft("tool.shell.command", r#"{"tool_call_id":"c","argv":["make"],"cwd":"/"}"#),
    ];
    append(&engine, run, 0, begin).await;
    let text = "x".repeat(CHUNK);
    for chunk in 0..chunks {
        let offset = chunk * CHUNK as u64;
        let data =
            format!(r#"{{"tool_call_id":"c","stream":"stdout","data":"{text}","byte_offset":{offset}}}"#);
        append(&engine, run, chunk + 1, vec![draft("tool.shell.output_chunk", &data)]).await;
    }
    let stored = store.read(&run.to_string().into(), 0, ReadBound { count: 10_000, bytes: usize::MAX });
    assert_eq!(stored.await.unwrap().len() as u64, chunks + 4);
    engine.shutdown().await;
    drop((engine, store));
    std::fs::metadata(folder.path().join("recount.db")).unwrap().len()
}

#[tokio::test]
async fn four_mebibytes_of_output_cost_little_more_than_four_mebibytes() {
    let (small, large) = (folder_bytes_after(32).await, folder_bytes_after(128).await);
    let payload = |chunks: u64| chunks * CHUNK as u64;
    println!("1 MiB of output: {small} bytes on disk; 4 MiB: {large}");
    assert!(large < payload(128) * 12 / 10, "{large} bytes for {} of output", payload(128));
    let (per_small, per_large) = (small / 32, large / 128);
    assert!(per_large <= per_small, "a chunk costs {per_small} bytes early and {per_large} late");
}
