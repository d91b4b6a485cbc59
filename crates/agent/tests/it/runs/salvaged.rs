//! A run whose store was damaged while it was active: its readable part is closed with a list of what is lost, and it
//! does not continue.

use std::sync::Arc;

use recount_engine::salvage::{self, Closing, Damage, Reason};
use recount_event::Stamp;
use recount_faulty_store::{Disk, FaultyStore};
use recount_log::{Append, Store, StreamAppend};

use crate::runs::scene::{Scene, count, first, types};

const SCRIPT: &str = r#"
[[turn]]
call = [{ name = "ask_user", input = { question = "Which one?" } }]
[[turn]]
text = "Done."
"#;

#[tokio::test]
async fn a_run_with_damaged_events_is_closed_and_lists_the_lost_ones() {
    let mut scene = Scene::with(SCRIPT).await;
    let run = scene.start("choose").await;
    scene.until(run, "run.waiting").await;
    let lines = scene.stored_lines(run).await;
    let (lost, kept) = (lines.len() as u64 - 1, &lines[..lines.len() - 1]);
    let disk = Disk::recording();
    let store = FaultyStore::new(&disk);
    let mut closing = Closing::default();
    kept.iter().for_each(|line| closing.event(line.as_bytes()));
    let records = kept.iter().map(|line| line.clone().into()).collect();
    let stream = StreamAppend { stream: run.to_string().into(), expected_tail: 0, records };
    store.append(Append { streams: vec![stream], ..Append::default() }).await.unwrap();
    let damage = Damage { first: lost, last: Some(lost), reason: Reason::Damaged, readable: 0 };
    let world = scene.engine.world();
    let stamp = Stamp { now_ms: world.clock.now_ms(), entropy: world.entropy.draw() };
    let closed = closing.finish(&damage, stamp).unwrap();
    salvage::append(&*store, run, lost, closed).await.unwrap();
    salvage::finish(&*store).await.unwrap();
    scene.disk = Arc::clone(&disk);
    scene.restart().await;
    let events = scene.ended(run).await;
    let gap = first!(events, GapEventsDamaged);
    assert_eq!((gap.first_damaged_sequence, gap.last_damaged_sequence), (lost, Some(lost)));
    assert_eq!(gap.reason, "damaged");
    assert!(first!(events, RunCancelled).reason.contains("were lost"));
    assert_eq!(types(&events).last(), Some(&"gap.events_damaged"));
    assert_eq!(count(&events, "run.continued"), 0);
}
