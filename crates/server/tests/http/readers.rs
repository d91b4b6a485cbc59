//! Many readers at once.

use futures_util::future::join_all;

use crate::house::{House, STORY};
use crate::wire::{End, Listener, events};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_readers_of_one_run_each_hear_every_event_once() {
    let house = House::memory().await;
    let run = house.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let early = join_all((0..500).map(|_| house.listen(&path))).await;
    let rounds = 20;
    let tell = async |from: u64, to: u64| {
        for seq in from..to {
            let said = format!(r#"{{"text":"{seq}"}}"#);
            house.tell(&run, seq, &[("user.message", said.as_str()); 3]).await;
        }
    };
    let hear = |listeners: Vec<Listener>| {
        join_all(listeners.into_iter().map(|mut listener| async move { listener.all().await }))
    };
    let later = async {
        tell(0, rounds / 2).await;
        // These come in the middle, while it goes on.
        let (late, ()) =
            tokio::join!(join_all((0..500).map(|_| house.listen(&path))), tell(rounds / 2, rounds));
        house.tell(&run, rounds, &[STORY[0], STORY[13]]).await;
        hear(late).await
    };
    let (early, late) = tokio::join!(hear(early), later);
    let expected: Vec<(u64, String)> = (0..).zip(house.envelopes(&path).await).collect();
    assert_eq!(expected.len() as u64, 1 + rounds * 3 + 2);
    for (frames, end) in early.iter().chain(&late) {
        assert_eq!(*end, End::Good);
        assert_eq!(events(frames), expected);
    }
}
