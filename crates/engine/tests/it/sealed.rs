//! Sealed originals of masked data: encrypted, and deleted with their call.

use recount_event::{Code, ForeignId};
use recount_log::RowRange;

use crate::artifacts::{own_run, progress};
use crate::scene::{Scene, code, drafts};

async fn sealed(scene: &Scene) -> Vec<String> {
    let range = RowRange::first("record.sealed", "", 100);
    let rows = scene.disk.store().rows(range).await.unwrap();
    rows.into_iter().map(|row| format!("{} {}", row.key, String::from_utf8_lossy(&row.value))).collect()
}

#[tokio::test(start_paused = true)]
async fn an_original_is_stored_until_its_call_is_settled() {
    let scene = Scene::new().await;
    let run = own_run(&scene, None).await;
    let call = |name: &str| ForeignId::parse(name).unwrap();
    let original = r#"{"command":"curl -H 'token: hunter2-hunter2'"}"#;
    for name in ["a", "b", "c"] {
        scene.engine.write().seal(run, &call(name), original.as_bytes()).await.unwrap();
    }
    let rows = sealed(&scene).await;
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().all(|row| !row.contains("hunter2")));
    assert_ne!(
        rows[0][rows[0].find('{').unwrap()..],
        rows[1][rows[1].find('{').unwrap()..],
        "no nonce is used twice"
    );
    assert_eq!(scene.engine.write().unseal(run, &call("a")).await.unwrap().unwrap(), original.as_bytes());
    let named = |name: &str| format!(r#"{{"tool_call_id":"{name}","tool_name":"t"}}"#);
    progress(&scene, run, drafts(&[("tool.invoked", &named("a"))])).await;
    assert!(scene.engine.write().unseal(run, &call("a")).await.unwrap().is_some(), "it runs");
    progress(&scene, run, drafts(&[("tool.completed", &named("a"))])).await;
    assert_eq!(scene.engine.write().unseal(run, &call("a")).await.unwrap(), None);
    scene.engine.write().forget_sealed(run, &call("b")).await.unwrap();
    assert_eq!(scene.engine.write().unseal(run, &call("b")).await.unwrap(), None);
    assert_eq!(sealed(&scene).await.len(), 1);
    scene.check().await;
    // The remaining ones are deleted with the run.
    scene.cancel(run).await.unwrap();
    let large = vec![0; recount_engine::limits::SEALED_BYTES_MAX + 1];
    assert_eq!(code(scene.engine.write().seal(run, &call("d"), &large).await), Code::LimitReached);
}

#[tokio::test(start_paused = true)]
async fn originals_are_unreadable_with_another_key_or_under_another_run() {
    let mut scene = Scene::new().await;
    let (one, two) = (own_run(&scene, None).await, own_run(&scene, None).await);
    let call = ForeignId::parse("a").unwrap();
    scene.engine.write().seal(one, &call, b"one").await.unwrap();
    let range = RowRange::first("record.sealed", "", 1);
    let row = scene.disk.store().rows(range).await.unwrap().remove(0);
    let moved = recount_log::RowPut {
        space: "record.sealed".into(),
        key: format!("{two}/a").into(),
        guard: recount_log::Guard::Any,
        value: Some(row.value),
    };
    let append = recount_log::Append { rows: vec![moved], ..recount_log::Append::default() };
    scene.disk.store().append(append).await.unwrap();
    assert_eq!(code(scene.engine.write().unseal(two, &call).await), Code::StoreCorrupt);
    // A process without the key cannot read earlier originals.
    scene.key += 1;
    scene.reopen().await;
    assert_eq!(code(scene.engine.write().unseal(one, &call).await), Code::StoreCorrupt);
}

#[tokio::test(start_paused = true)]
async fn originals_are_deleted_with_their_task() {
    let scene = Scene::new().await;
    let task = scene.engine.write().create_task(None, None).await.unwrap().0.id;
    let run = own_run(&scene, Some(task)).await;
    scene.engine.write().seal(run, &ForeignId::parse("a").unwrap(), b"one").await.unwrap();
    scene.engine.admin().delete_task(task, "operator").await.unwrap();
    assert_eq!(sealed(&scene).await, [""; 0]);
}
