//! Signed heads of ended runs, on a store with faults.

use std::time::Duration;

use recount_event::RunId;
use recount_faulty_store::AppendFault;

use crate::scene::Scene;

/// The number, the previous digest and the own digest of the stored head of an ended run.
async fn signed(scene: &Scene, run: RunId) -> (u64, Option<String>, String) {
    for _ in 0..1_000 {
        if let Ok(Some(head)) = scene.engine.admin().signed_head(run).await {
            let statement = head.unchecked().unwrap();
            if let Some(number) = statement.number {
                return (number, statement.previous, head.digest());
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await; // tidy: between two looks at a condition
    }
    panic!("the head of {run} is never signed");
}

/// Two statements with one number would look like a forgery, and one of them could be removed unnoticed.
#[tokio::test(start_paused = true)]
async fn statements_have_one_number_each_also_after_a_lost_response() {
    for fault in [AppendFault::Pass, AppendFault::LoseAnswer] {
        let scene = Scene::new().await;
        scene.engine.admin().start_signing("default").await.unwrap();
        let (first, second) = (scene.start().await, scene.start().await);
        scene.store.next_appends([AppendFault::Pass, fault]);
        scene.cancel(first).await.unwrap();
        let (number, previous, digest) = signed(&scene, first).await;
        assert_eq!((number, previous), (1, None));
        scene.cancel(second).await.unwrap();
        let (number, previous, _) = signed(&scene, second).await;
        assert_eq!((number, previous), (2, Some(digest)));
    }
}

/// An auditor with the earlier keys could otherwise check nothing that follows.
#[tokio::test(start_paused = true)]
async fn a_key_outlives_a_restart_and_a_rotation_retires_it() {
    let mut scene = Scene::new().await;
    scene.engine.admin().start_signing("default").await.unwrap();
    let before = scene.engine.admin().signing_keys().await.unwrap();
    scene.reopen().await;
    scene.engine.admin().start_signing("default").await.unwrap();
    assert_eq!(scene.engine.admin().signing_keys().await.unwrap(), before);
    let new = scene.engine.admin().rotate_signing_key().await.unwrap();
    let keys = scene.engine.admin().signing_keys().await.unwrap();
    let retired: Vec<bool> =
        keys.iter().filter(|key| key.public != new.public).map(|key| key.retired_at.is_some()).collect();
    assert_eq!((keys.len(), retired), (2, vec![true]));
}
