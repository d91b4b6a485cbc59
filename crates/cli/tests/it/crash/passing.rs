//! Runs that pass while the server is killed: each is told in batches, ends and is pruned, on request or by
//! the server's own policy, and has a reader who goes away in the middle and comes back over the cut.
//!
//! What is there of such a run must be whole from where its newest marker says that it begins, and what was
//! acknowledged before that place is the only thing that may be missing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use recount_client::request::{AppendEvents, NewEvent, Producer, PruneRun};
use recount_client::{Client, ClientError, Source, TailItem, Until};
use serde_json::json;

use super::{Course, event, external, parse, text_of};

/// What was reported about one run.
#[derive(Default, Clone)]
struct Known {
    /// Texts that were acknowledged, by sequence.
    texts: BTreeMap<u64, String>,
    /// Events that were acknowledged.
    events: u64,
    /// The first remaining event that was reported to a client.
    first: u64,
    /// Nothing but the ending and its markers is left, and was seen behind a start.
    settled: bool,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Passing {
    known: RefCell<BTreeMap<String, Known>>,
    /// Everything that anybody read, by run and sequence.
    read: RefCell<BTreeMap<(String, u64), String>>,
    on_request: Cell<u64>,
    gaps_reported: Cell<u64>,
}

/// What there is in the end.
pub(crate) struct Ending {
    pub(crate) runs: usize,
    pub(crate) pruned_runs: usize,
    pub(crate) pruned_events: u64,
    /// Runs whose newest marker names the policy as the cause.
    pub(crate) by_policy: usize,
    pub(crate) on_request: u64,
    pub(crate) gaps_reported: u64,
}

fn counted(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

/// Asks until it is answered.
async fn until_answered<T>(course: &Course, ask: impl AsyncFn() -> Result<T, ClientError>) -> T {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(why) if why.may_pass() => {
                counted(&course.repeated);
                course.server_up().await;
            }
            Err(why) => panic!("something is refused: {why}"),
        }
    }
}

/// One run after another, until the course stops.
pub(crate) async fn pass_by(course: &Course, number: usize) {
    for turn in 0.. {
        if course.stop.get() {
            return;
        }
        let run = until_answered(course, async || course.client.create_run(&external()).await).await.id;
        course.passing.known.borrow_mut().insert(run.clone(), Known { events: 1, ..Known::default() });
        let is_appended = Cell::new(false);
        let appending = async {
            append_run(course, &run, &format!("passing-{number}-{turn}")).await;
            is_appended.set(true);
        };
        tokio::join!(appending, follow(course, &run, &is_appended));
    }
}

async fn append_run(course: &Course, run: &str, id: &str) {
    let batches = 2 + course.below(4);
    for seq in 0..=batches + 1 {
        let (texts, events) = if seq == 0 {
            (Vec::new(), vec![event("run.started", &json!({}))])
        } else if seq > batches {
            (Vec::new(), vec![event("run.finished", &json!({ "final_status": "done" }))])
        } else {
            let texts: Vec<String> =
                (0..1 + course.below(6)).map(|place| format!("{id} batch {seq} event {place}")).collect();
            let events: Vec<NewEvent> =
                texts.iter().map(|text| event("user.message", &json!({ "text": text }))).collect();
            (texts, events)
        };
        let producer = Producer { id: id.to_owned(), epoch: 1, seq };
        let batch = AppendEvents { producer, events };
        let receipt =
            until_answered(course, async || course.client.append_run_events(run, &batch).await).await;
        course.passing.note(run, |known| {
            known.events = receipt.last_sequence + 1;
            known.texts.extend((receipt.first_sequence..).zip(texts));
        });
        course.batches.send_modify(|count| *count += 1);
    }
    // A third is left to the policy.
    if course.below(3) == 0 {
        return;
    }
    for before in [Some(1 + course.below(6)), None] {
        let request = PruneRun { before, ..PruneRun::default() };
        let pruned = until_answered(course, async || course.client.prune_run(run, &request).await).await;
        counted(&course.passing.on_request);
        course.passing.note(run, |known| known.first = known.first.max(pruned.first_sequence));
    }
}

/// Reads a run to its end. In the middle it goes away until the run has ended and something may be pruned.
async fn follow(course: &Course, run: &str, is_appended: &Cell<bool>) {
    let tail = |next: u64| course.client.tail(Source::Run(run.to_owned()), next.checked_sub(1), Until::Ended);
    let (mut next, mut away, mut ended) = (0_u64, false, false);
    let leaves_at = 1 + course.below(10);
    let mut reading = tail(next);
    loop {
        match reading.next().await {
            None => break,
            Some(Ok(TailItem::Event { cursor, envelope })) => {
                assert_eq!(cursor, next, "a reader of {run} missed something that nobody said is gone");
                next += 1;
                ended |= is_ending(&envelope);
                course.passing.compare(run, cursor, &envelope);
                if next >= leaves_at && !away {
                    away = true;
                    drop(reading);
                    let starts = *course.up.borrow();
                    while !is_appended.get() || (*course.up.borrow() == starts && !course.stop.get()) {
                        course.server_up().await;
                    }
                    reading = tail(next);
                }
            }
            Some(Ok(TailItem::Gap(gap))) => {
                let (first, last) = gap.pruned().unwrap_or_else(|| panic!("{gap:?}"));
                assert!(first == next && last >= first && !ended, "{run}: a gap from {first} at {next}");
                next = last + 1;
                counted(&course.passing.gaps_reported);
                course.passing.note(run, |known| known.first = known.first.max(next));
            }
            Some(Ok(TailItem::CaughtUp { .. })) => {}
            Some(Ok(TailItem::Disconnected { .. }) | Err(ClientError::Unreachable { .. })) => {
                counted(&course.resumed);
                course.server_up().await;
                reading = tail(next);
            }
            Some(Err(why)) => panic!("a reader of {run} before {next} is refused: {why}"),
        }
    }
    assert!(ended, "a reader of {run} did not see how it ended");
}

fn is_ending(envelope: &str) -> bool {
    parse(envelope)["type"] == "run.finished"
}

impl Passing {
    fn note(&self, run: &str, change: impl FnOnce(&mut Known)) {
        change(self.known.borrow_mut().get_mut(run).expect("it is known since it was made"));
    }

    /// An event reads the same for every reader, at any time.
    fn compare(&self, run: &str, sequence: u64, envelope: &str) {
        let mut read = self.read.borrow_mut();
        let before = read.entry((run.to_owned(), sequence)).or_insert_with(|| envelope.to_owned());
        assert_eq!(before, envelope, "{sequence} of {run} has changed");
    }

    /// What was acknowledged of these runs against what is there; of all of them, or of those that were not
    /// seen pruned yet.
    pub(crate) async fn check(&self, client: &Client, all: bool) {
        let known = self.known.borrow().clone();
        for (run, known) in known.into_iter().filter(|(_, known)| all || !known.settled) {
            self.check_one(client, &run, &known).await;
        }
    }

    async fn check_one(&self, client: &Client, run: &str, known: &Known) {
        // The chain is compared where nobody appended or pruned between the two looks.
        let (page, digest) = loop {
            let before = client.get_run_digest(run).await.unwrap();
            let page = client.read_run_events(run, None, Some(1000)).await.unwrap();
            assert!(!page.has_more, "{run} is short");
            if client.get_run_digest(run).await.unwrap() == before {
                break (page, before);
            }
        };
        let envelopes: Vec<&str> = page.data.iter().map(|envelope| envelope.get()).collect();
        let begins = parse(envelopes[0])["sequence"].as_u64().unwrap();
        let mut named = 0;
        let mut head = match &digest.start {
            Some(start) => blake3::Hash::from_hex(start).unwrap(),
            None => blake3::hash(&[b"recount.run.v1", run.as_bytes()].concat()),
        };
        for (sequence, envelope) in (begins..).zip(&envelopes) {
            let event = parse(envelope);
            assert_eq!(event["sequence"], sequence, "{run} has a gap that no marker names");
            if event["type"] == "gap.events_pruned" {
                assert_eq!(event["data"]["first_pruned_sequence"], 0);
                named = event["data"]["last_pruned_sequence"].as_u64().unwrap() + 1;
            }
            self.compare(run, sequence, envelope);
            if let Some(text) = known.texts.get(&sequence) {
                assert_eq!(text_of(envelope).as_ref(), Some(text), "acknowledged at {sequence} of {run}");
            }
            let length = u32::try_from(envelope.len()).unwrap().to_le_bytes();
            head = blake3::hash(&[&head.as_bytes()[..], &length, envelope.as_bytes()].concat());
        }
        assert_eq!(begins, named, "the marker of {run} names exactly what is missing");
        assert_eq!(begins, digest.first_sequence, "{run}");
        assert!(begins >= known.first, "{run}: what was pruned stays pruned");
        let end = begins + envelopes.len() as u64;
        assert!(end >= known.events, "{run} has {end} events of {} acknowledged", known.events);
        assert_eq!((digest.events, digest.head.as_str()), (end, head.to_hex().as_str()), "{run}");
        let settled = begins > 0 && is_ending(envelopes[0]);
        self.note(run, |known| known.settled |= settled);
    }

    /// A reader of the feed has seen everything that is stored, once, and besides only what a marker names.
    pub(crate) fn check_feed(&self, stored: &[String], seen: &[String]) {
        let place = |envelope: &str| {
            let event = parse(envelope);
            (event["run_id"].as_str().unwrap().to_owned(), event["sequence"].as_u64().unwrap())
        };
        let mut left: BTreeMap<(String, u64), &String> = BTreeMap::new();
        let mut begins: BTreeMap<String, u64> = BTreeMap::new();
        for envelope in stored {
            let (run, sequence) = place(envelope);
            begins.entry(run.clone()).and_modify(|first| *first = sequence.min(*first)).or_insert(sequence);
            left.insert((run, sequence), envelope);
        }
        let mut once: BTreeMap<(String, u64), &String> = BTreeMap::new();
        for envelope in seen {
            let (run, sequence) = place(envelope);
            if sequence >= begins[&run] {
                assert_eq!(left.get(&(run.clone(), sequence)), Some(&envelope), "{run} {sequence}");
            } else {
                self.compare(&run, sequence, envelope);
            }
            let twice = once.insert((run, sequence), envelope);
            assert_eq!(twice, None, "a reader of the feed was given something twice");
        }
        for (place, envelope) in left {
            assert!(once.contains_key(&place), "a reader of the feed missed {place:?}: {envelope}");
        }
    }

    pub(crate) fn ending(&self, stored: &[String]) -> Ending {
        let mut newest: BTreeMap<String, (u64, bool)> = BTreeMap::new();
        for envelope in stored {
            let event = parse(envelope);
            if event["type"] == "gap.events_pruned" {
                let last = event["data"]["last_pruned_sequence"].as_u64().unwrap();
                let by_policy = event["data"]["reason"] == "max_age";
                newest.insert(event["run_id"].as_str().unwrap().to_owned(), (last + 1, by_policy));
            }
        }
        Ending {
            runs: self.known.borrow().len(),
            pruned_runs: newest.len(),
            pruned_events: newest.values().map(|(pruned_count, _)| pruned_count).sum(),
            by_policy: newest.values().filter(|(_, by_policy)| *by_policy).count(),
            on_request: self.on_request.get(),
            gaps_reported: self.gaps_reported.get(),
        }
    }
}
