//! Property: for any interleaving of appends, joins, lags, leaves and restarts, a reader that continues by cursor
//! gets each event once, in order, with the stored bytes.

use proptest::prelude::*;
use recount_engine::{Delivery, Subscription};
use recount_event::RunId;

use crate::scene::{Scene, frames};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Appends events in one batch of a run.
    Append {
        run: usize,
        events: usize,
    },
    /// Joins again at its cursor, if it has left.
    Join {
        reader: usize,
    },
    /// Takes at most this many deliveries.
    Take {
        reader: usize,
        deliveries: usize,
    },
    Leave {
        reader: usize,
    },
    /// Lets waiting tasks run.
    Pause,
    End {
        run: usize,
    },
    Restart,
}

const RUNS: usize = 3;
/// Two readers of each run, and two of the feed.
const READERS: usize = RUNS * 2 + 2;

fn step() -> impl Strategy<Value = Step> {
    let (run, reader) = (0..RUNS, 0..READERS);
    prop_oneof![
        8 => (run.clone(), 1..30_usize).prop_map(|(run, events)| Step::Append { run, events }),
        5 => reader.clone().prop_map(|reader| Step::Join { reader }),
        8 => (reader.clone(), 1..4_usize)
            .prop_map(|(reader, deliveries)| Step::Take { reader, deliveries }),
        2 => reader.prop_map(|reader| Step::Leave { reader }),
        2 => Just(Step::Pause),
        1 => run.prop_map(|run| Step::End { run }),
        1 => Just(Step::Restart),
    ]
}

#[derive(Default)]
struct Reader {
    subscription: Option<Subscription>,
    /// Cursors and bytes of all delivered events, over all its subscriptions.
    got: Vec<(u64, Vec<u8>)>,
    caught_up: bool,
    closed: bool,
}

impl Reader {
    async fn take(&mut self, deliveries: usize) {
        for _ in 0..deliveries {
            let Some(subscription) = &mut self.subscription else { return };
            let wait = std::time::Duration::from_millis(2);
            match tokio::time::timeout(wait, subscription.next()).await {
                Err(_) => return,
                Ok(Ok(Delivery::Frames { bytes, .. })) => self.got.extend(frames(&bytes)),
                Ok(Ok(Delivery::Gap { .. })) => panic!("nothing was pruned"),
                Ok(Ok(Delivery::Damaged(damage))) => panic!("{damage}"),
                Ok(Ok(Delivery::Passed { .. })) => panic!("nothing is filtered"),
                Ok(Ok(Delivery::CaughtUp)) => {
                    assert!(!self.caught_up, "each request reports the end once");
                    self.caught_up = true;
                }
                Ok(Ok(Delivery::Closed)) => {
                    self.closed = true;
                    self.subscription = None;
                }
                Ok(Err(error)) => panic!("{error}"),
            }
        }
    }

    async fn join(&mut self, scene: &Scene, run: Option<RunId>) {
        if self.subscription.is_some() {
            return;
        }
        let after = self.got.last().map(|(cursor, _)| *cursor);
        self.caught_up = false;
        self.subscription = Some(match run {
            Some(run) => scene.engine.read().follow_run(run, after).await.unwrap(),
            None => scene.engine.read().follow_feed(after).await.unwrap(),
        });
    }
}

async fn play(padding: usize, steps: Vec<Step>) {
    let mut scene = Scene::padded(padding).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push((scene.start().await, 1_u64, false));
    }
    let mut readers: Vec<Reader> = (0..READERS).map(|_| Reader::default()).collect();
    for step in steps {
        match step {
            Step::Append { run, events } => {
                let (id, seq, ended) = &mut runs[run];
                if !*ended {
                    let batch = vec![("ext.test.note", "{}"); events];
                    scene.report(*id, *seq, &batch).await.unwrap();
                    *seq += 1;
                }
            }
            Step::Join { reader } => {
                readers[reader].join(&scene, runs.get(reader / 2).map(|run| run.0)).await
            }
            Step::Take { reader, deliveries } => readers[reader].take(deliveries).await,
            Step::Leave { reader } => readers[reader].subscription = None,
            // tidy: the runtime's time is paused; this lets others have their turn
            Step::Pause => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
            Step::End { run } => {
                let (id, _, ended) = &mut runs[run];
                if !std::mem::replace(ended, true) {
                    scene.cancel(*id).await.unwrap();
                }
            }
            Step::Restart => {
                readers.iter_mut().for_each(|reader| reader.subscription = None);
                scene.reopen().await;
            }
        }
    }
    for (n, reader) in readers.iter_mut().enumerate() {
        let run = runs.get(n / 2);
        reader.join(&scene, run.map(|run| run.0)).await;
        reader.take(usize::MAX).await;
        let (stored, _) = match run {
            Some((run, ..)) => scene.engine.read().read_run(*run, None, 100_000).await.unwrap(),
            None => scene.engine.read().read_feed(None, 100_000).await.unwrap(),
        };
        let stored: Vec<(u64, Vec<u8>)> =
            stored.into_iter().map(|(at, bytes)| (at, bytes.to_vec())).collect();
        assert!(
            reader.got == stored,
            "reader {n} got {:?}",
            reader.got.iter().map(|got| got.0).collect::<Vec<_>>()
        );
        assert_eq!(reader.closed, run.is_some_and(|run| run.2), "reader {n}");
    }
    scene.check().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn each_event_once_in_order(
        // Without padding everything fits the lists; with the largest, only one or two batches do.
        padding in prop_oneof![Just(0), Just(20 << 10), Just(80 << 10)],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(padding, steps));
    }
}
