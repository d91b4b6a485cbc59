//! Rows of a run as they were after an earlier event equal the rows of a store in which that event is the last.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use recount_engine::Engine;
use recount_event::{Event, Payload, PromptEvent, codec};
use recount_log::{Append, MemoryStore, Store, StreamAppend};
use recount_run_generator::own_run;
use recount_world::World;

use crate::scene::Bare;

/// An engine on a store with these events. Opening it rebuilds the catalogue.
async fn engine_with(events: &[Event]) -> Engine {
    let store = Arc::new(MemoryStore::new());
    let stream = StreamAppend {
        stream: events[0].run_id.to_string().into(),
        expected_tail: 0,
        records: events.iter().map(|event| codec::encode(event).into()).collect(),
    };
    store.append(Append { streams: vec![stream], ..Append::default() }).await.unwrap();
    Engine::open(store, World::seeded(1, 1_900_000_000_000), Arc::new(Bare)).await.unwrap()
}

async fn check(events: &[Event], last: usize) {
    let (whole, then) = (engine_with(events).await, engine_with(&events[..=last]).await);
    let (run, sequence) = (events[0].run_id, events[last].sequence);
    let expected = then.catalogue().run(run).await.unwrap();
    assert!(expected.is_some());
    assert_eq!(whole.catalogue().run_at(run, sequence).await.unwrap(), expected, "{sequence}");
    if matches!(events[last].payload(), Payload::RunQueued(_)) {
        assert_eq!(whole.catalogue().queued_run(run).await.unwrap(), expected);
    }
    for event in events {
        let Some(PromptEvent { kind, id, .. }) = PromptEvent::of(event.payload()) else { continue };
        let row = then.read().prompt(kind, id).await.unwrap();
        assert_eq!(whole.catalogue().prompt_at(kind, run, sequence, id).await.unwrap(), row, "{sequence}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn rows_at_an_event_are_those_of_that_time(
        numbers in prop::collection::vec(any::<u16>(), 0..400),
        places in prop::collection::vec(any::<Index>(), 4),
    ) {
        let events = own_run(&numbers);
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            check(&events, 0).await;
            for place in places {
                check(&events, place.index(events.len())).await;
            }
        });
    }
}
