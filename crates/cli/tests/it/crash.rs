//! Servers under load are killed while they seal and prune; nothing that was acknowledged may be missing but what a
//! marker names. The change tier has one course of thirty kills, the full tier four of fifty.
//!
//! Several producers append to a few runs over HTTP and repeat what was not acknowledged; beside them short
//! runs come, end and are pruned (see `crash/passing.rs`). After each start: acknowledged events are at their
//! sequence, sequences have no gaps, the chain agrees with the digest, bytes are what they were. Readers that
//! resume by cursor see each event once and in order, and are told of what is gone. So little may be hot that
//! the store seals all the while.
//!
//! `RECOUNT_CRASH_SEED` chooses other courses, `RECOUNT_CRASH_KILLS` longer ones.

mod passing;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use recount_client::request::{AppendEvents, CreateRun, NewEvent, Producer};
use recount_client::{Client, ClientError, Source, Tail, TailItem, Until};
use recount_tier::times;
use recount_world::{Entropy, SeededEntropy};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;

use crate::server::{CommandOutput, PATIENCE, Server, recount};
use passing::Passing;

const RUNS: usize = 3;
const PRODUCERS_A_RUN: usize = 2;
/// Short runs at a time.
const PASSERS: usize = 3;
/// Of one course, in the change tier and at most.
const KILLS: u64 = 30;
const KILLS_MAX: u64 = 50;
/// After so many kills everything is read again from the start.
const WHOLE_EVERY: u64 = 25;

/// Records that may be hot; half as many are enough for sealing between commits.
const HOT_EVENTS_MAX: &str = "48";

/// The acknowledged state, and the signals to the tasks of this test.
struct Course {
    client: Client,
    random: SeededEntropy,
    runs: Vec<String>,
    /// Acknowledged and not yet looked for: run, sequence, text.
    promised: RefCell<Vec<(usize, u64, String)>>,
    /// Every text that was acknowledged, with its place.
    landed: RefCell<BTreeMap<String, (usize, u64)>>,
    passing: Passing,
    batches: watch::Sender<u64>,
    repeated: Cell<u64>,
    resumed: Cell<u64>,
    stop: Cell<bool>,
    /// Counts starts of the server.
    up: watch::Sender<u64>,
    /// Where the feed ends, when nothing more comes.
    end: watch::Sender<Option<u64>>,
}

impl Course {
    fn below(&self, bound: u64) -> u64 {
        u64::try_from(self.random.draw() % u128::from(bound)).unwrap()
    }

    /// A client without connections from before the last start, whose calls must all succeed.
    fn newcomer(&self) -> Client {
        Client::new(self.client.base_url(), None).unwrap()
    }

    /// Until the server is started again, or a little while.
    async fn server_up(&self) {
        let mut up = self.up.subscribe();
        drop(tokio::time::timeout(Duration::from_millis(20), up.changed()).await);
    }
}

/// One run as it was read so far.
#[derive(Default)]
struct Account {
    envelopes: Vec<String>,
    heads: Vec<blake3::Hash>,
}

impl Account {
    /// Reads what is new: in order, without a gap, each linked to all before it.
    async fn read_on(&mut self, client: &Client, run: &str) {
        let mut head = match self.heads.last() {
            Some(head) => *head,
            None => blake3::hash(&[b"recount.run.v1", run.as_bytes()].concat()),
        };
        loop {
            let after = self.envelopes.len().checked_sub(1).map(|last| last as u64);
            let page = client.read_run_events(run, after, Some(1000)).await.unwrap();
            for envelope in page.data {
                let text = envelope.get().to_owned();
                assert_eq!(parse(&text)["sequence"], self.envelopes.len(), "{run} has a gap");
                let length = u32::try_from(text.len()).unwrap().to_le_bytes();
                head = blake3::hash(&[&head.as_bytes()[..], &length, text.as_bytes()].concat());
                self.envelopes.push(text);
                self.heads.push(head);
            }
            if !page.has_more {
                return;
            }
        }
    }
}

fn parse(envelope: &str) -> Value {
    serde_json::from_str(envelope).expect("an envelope is JSON")
}

fn text_of(envelope: &str) -> Option<String> {
    Some(parse(envelope)["data"].get("text")?.as_str()?.to_owned())
}

fn event(event_type: &str, data: &Value) -> NewEvent {
    NewEvent { event_type: event_type.to_owned(), data: RawValue::from_string(data.to_string()).unwrap() }
}

/// Appends batch after batch; one that was not acknowledged is sent again as it was.
async fn produce(course: &Course, run: usize, number: usize) {
    let id = format!("producer-{number}");
    for seq in 0.. {
        if course.stop.get() {
            return;
        }
        let texts: Vec<String> =
            (0..1 + course.below(6)).map(|place| format!("{id} batch {seq} event {place}")).collect();
        let events = texts.iter().map(|text| event("user.message", &serde_json::json!({ "text": text })));
        let producer = Producer { id: id.clone(), epoch: 1, seq };
        let batch = AppendEvents { producer, events: events.collect() };
        let receipt = loop {
            match course.client.append_run_events(&course.runs[run], &batch).await {
                Ok(receipt) => break receipt,
                Err(why) if why.may_pass() => {
                    course.repeated.set(course.repeated.get() + 1);
                    course.server_up().await;
                }
                Err(why) => panic!("{id} batch {seq} is refused: {why}"),
            }
        };
        let places = receipt.first_sequence..=receipt.last_sequence;
        assert_eq!(places.clone().count(), texts.len(), "{receipt:?}");
        for (sequence, text) in places.zip(texts) {
            course.promised.borrow_mut().push((run, sequence, text.clone()));
            let twice = course.landed.borrow_mut().insert(text, (run, sequence));
            assert_eq!(twice, None);
        }
        course.batches.send_modify(|count| *count += 1);
    }
}

/// How a reader comes back.
#[derive(Clone, Copy)]
enum Resuming {
    /// One tail, which resumes by itself.
    Itself,
    /// A new tail behind the last event that was seen, at once.
    Anew,
}

/// Follows a run or the feed over all starts of the server; what it saw, in order.
async fn follow(course: &Course, source: Source, resuming: Resuming) -> Vec<String> {
    let mut seen = Vec::new();
    let mut cursor = None;
    let mut end = course.end.subscribe();
    let begin = |cursor| course.client.tail(source.clone(), cursor, Until::Ended);
    let mut tail: Tail = begin(None);
    let mut was_connected = false;
    loop {
        let at_the_end = |end: Option<u64>| end.is_some() && source == Source::Feed && cursor >= end;
        if at_the_end(*end.borrow_and_update()) {
            return seen;
        }
        let item = tokio::select! {
            item = tail.next() => item,
            changed = end.changed() => {
                changed.expect("the course lives on");
                continue;
            }
        };
        was_connected |= matches!(item, Some(Ok(_)));
        match item {
            None => return seen,
            Some(Ok(TailItem::Event { cursor: place, envelope })) => {
                assert!(cursor.is_none_or(|cursor| place > cursor), "{place} comes behind {cursor:?}");
                cursor = Some(place);
                seen.push(envelope);
            }
            Some(Ok(TailItem::Gap(gap))) => panic!("a run that is pinned lacks {gap:?}"),
            Some(Ok(TailItem::CaughtUp { .. })) => {}
            Some(Ok(TailItem::Disconnected { .. })) => {
                course.resumed.set(course.resumed.get() + 1);
                if matches!(resuming, Resuming::Anew) {
                    course.server_up().await;
                    tail = begin(cursor);
                }
            }
            // A tail reconnects by itself once it was connected; before that every failure is final.
            Some(Err(ClientError::Unreachable { .. }))
                if matches!(resuming, Resuming::Anew) || !was_connected =>
            {
                course.server_up().await;
                tail = begin(cursor);
            }
            Some(Err(why)) => panic!("a reader of {source:?} behind {cursor:?} is refused: {why}"),
        }
    }
}

/// What was acknowledged before the last start, against what is there now.
async fn check(course: &Course, accounts: &mut [Account]) {
    let client = course.newcomer();
    let promised = std::mem::take(&mut *course.promised.borrow_mut());
    for (run, account) in course.runs.iter().zip(accounts.iter_mut()) {
        let digest = client.get_run_digest(run).await.unwrap();
        account.read_on(&client, run).await;
        let covered = usize::try_from(digest.events).unwrap();
        assert!(account.heads.len() >= covered, "{run} has fewer events than its digest says");
        assert_eq!(account.heads[covered - 1].to_hex().as_str(), digest.head, "the chain of {run}");
    }
    for (run, sequence, text) in promised {
        let envelope = accounts[run].envelopes.get(usize::try_from(sequence).unwrap());
        let found = envelope.and_then(|envelope| text_of(envelope));
        assert_eq!(found.as_ref(), Some(&text), "acknowledged at {sequence} of {}", course.runs[run]);
    }
    course.passing.check(&client, false).await;
}

/// Everything once more from the start: the same bytes.
async fn check_whole(course: &Course, accounts: &[Account]) {
    let client = course.newcomer();
    for (run, account) in course.runs.iter().zip(accounts) {
        let mut again = Account::default();
        again.read_on(&client, run).await;
        assert!(again.envelopes.starts_with(&account.envelopes), "{run} has changed");
    }
    course.passing.check(&client, true).await;
}

/// A server that seals as soon as it can and prunes what has ended: when it starts, and each second.
fn spawn(data: &Path, bind: &str) -> Server {
    let mut command = recount();
    command.env("RECOUNT_STORE__HOT_EVENTS_MAX", HOT_EVENTS_MAX);
    command.args([
        "serve",
        "--bind",
        bind,
        "--log",
        "warn",
        "--max-age",
        "0s",
        "--sweep-every",
        "1s",
        "--data",
    ]);
    Server::of(command.arg(data))
}

/// Everything that is left, in the order of the feed.
async fn whole_feed(client: &Client) -> Vec<String> {
    let (mut envelopes, mut after) = (Vec::new(), None);
    loop {
        let page = client.read_feed(after, Some(1000)).await.unwrap();
        envelopes.extend(page.data.iter().map(|envelope| envelope.get().to_owned()));
        after = page.next.as_ref().and_then(Value::as_u64);
        if !page.has_more {
            return envelopes;
        }
    }
}

/// The number of sealed events, as reported by the server's own checks.
fn sealed(server: &Server) -> u64 {
    // Its status is about the machine, too.
    let output = server.ask(&["doctor"]).data;
    let count = output.split_once(" sealed with ").and_then(|(before, _)| before.rsplit(' ').next());
    count.and_then(|count| count.parse().ok()).expect("a number of sealed events")
}

/// Kills and starts, and looks each time.
async fn kill_and_check(
    course: &Course,
    mut server: Server,
    data: &Path,
    kills: u64,
    accounts: &mut [Account],
) -> Server {
    let mut batches = course.batches.subscribe();
    for kill in 1..=kills {
        let target = *batches.borrow() + 1 + course.below(24);
        let reached = tokio::time::timeout(PATIENCE, batches.wait_for(|count| *count >= target)).await;
        reached.expect("the producers get on").expect("the course lives on");
        // tidy: a random point of the load is what is wanted here, not a condition.
        tokio::time::sleep(Duration::from_micros(course.below(4_000))).await;
        let address = server.address.clone();
        server.kill();
        if kill % 8 == 0 {
            // Killed again while it comes up.
            let mut early = spawn(data, &address);
            // tidy: a random point of the start.
            tokio::time::sleep(Duration::from_millis(course.below(40))).await;
            early.kill();
        }
        server = spawn(data, &address).listening();
        course.up.send_modify(|starts| *starts += 1);
        check(course, accounts).await;
        if kill % WHOLE_EVERY == 0 {
            check_whole(course, accounts).await;
        }
    }
    server
}

fn external() -> CreateRun {
    CreateRun { kind: "external".to_owned(), ..CreateRun::default() }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a whole number"))
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_and_nothing_comes_twice() {
    take(1).await;
}

#[tokio::test]
#[ignore = "full: another course of kills"]
async fn nothing_acknowledged_is_lost_and_nothing_comes_twice_on_a_second_course() {
    take(2).await;
}

#[tokio::test]
#[ignore = "full: another course of kills"]
async fn nothing_acknowledged_is_lost_and_nothing_comes_twice_on_a_third_course() {
    take(3).await;
}

#[tokio::test]
#[ignore = "full: another course of kills"]
async fn nothing_acknowledged_is_lost_and_nothing_comes_twice_on_a_fourth_course() {
    take(4).await;
}

async fn take(course: u64) {
    let seed = from_environment("RECOUNT_CRASH_SEED", 20_260_502) + course;
    let kills = from_environment("RECOUNT_CRASH_KILLS", times(KILLS).min(KILLS_MAX));
    let data = tempfile::tempdir().unwrap();
    let server = spawn(data.path(), "127.0.0.1:0").listening();
    let client = Client::new(&server.url(), None).unwrap();
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let run = client.create_run(&external()).await.unwrap().id;
        let producer = Producer { id: "frame".to_owned(), epoch: 1, seq: 0 };
        let events = vec![event("run.started", &serde_json::json!({}))];
        client.append_run_events(&run, &AppendEvents { producer, events }).await.unwrap();
        client.pin_run(&run).await.unwrap();
        runs.push(run);
    }
    let course = Course {
        client: client.clone(),
        random: SeededEntropy::new(seed),
        runs: runs.clone(),
        promised: RefCell::default(),
        landed: RefCell::default(),
        passing: Passing::default(),
        batches: watch::Sender::new(0),
        repeated: Cell::default(),
        resumed: Cell::default(),
        stop: Cell::default(),
        up: watch::Sender::new(0),
        end: watch::Sender::new(None),
    };
    let mut accounts: Vec<Account> = runs.iter().map(|_| Account::default()).collect();

    let load = async {
        let producers = (0..RUNS * PRODUCERS_A_RUN).map(|number| produce(&course, number % RUNS, number));
        let killing = async {
            let server = kill_and_check(&course, server, data.path(), kills, &mut accounts).await;
            course.stop.set(true);
            server
        };
        let passers = (0..PASSERS).map(|number| passing::pass_by(&course, number));
        let (mut server, ..) = tokio::join!(killing, join_all(producers), join_all(passers));
        // From now on nothing is pruned, so that what is left can be compared with what was seen.
        let address = server.address.clone();
        server.kill();
        let server = Server::start_at(data.path(), &address);
        course.up.send_modify(|starts| *starts += 1);
        let client = course.newcomer();
        let mut position = 0;
        for run in &runs {
            let producer = Producer { id: "frame".to_owned(), epoch: 1, seq: 1 };
            let events = vec![event("run.finished", &serde_json::json!({ "final_status": "completed" }))];
            let batch = AppendEvents { producer, events };
            position = client.append_run_events(run, &batch).await.unwrap().position.max(position);
        }
        check(&course, &mut accounts).await;
        check_whole(&course, &accounts).await;
        course.end.send_replace(Some(position));
        server
    };
    let readers = [Resuming::Itself, Resuming::Anew].map(|resuming| {
        let of_runs = runs.iter().map(|run| Source::Run(run.clone()));
        join_all(
            of_runs.chain([Source::Feed]).map(|source| follow(&course, source, resuming)).collect::<Vec<_>>(),
        )
    });
    // Readers have as long as the load has, and then a while.
    let readers = async {
        let mut readers = pin!(join_all(readers));
        let mut end = course.end.subscribe();
        tokio::select! {
            seen = &mut readers => return seen,
            ended = end.wait_for(Option::is_some) => drop(ended.expect("the course lives on")),
        }
        tokio::time::timeout(PATIENCE, readers).await.expect("readers end")
    };
    let (mut server, seen) = tokio::join!(load, readers);

    let stored = whole_feed(&course.newcomer()).await;
    let whole: Vec<&String> = accounts.iter().flat_map(|account| &account.envelopes).collect();
    for seen in seen {
        let [of_runs @ .., of_feed] = &seen[..] else { panic!("there is a reader of the feed") };
        for (seen, account) in of_runs.iter().zip(&accounts) {
            assert!(*seen == account.envelopes, "a reader saw something else than what is stored");
        }
        course.passing.check_feed(&stored, of_feed);
    }
    let texts: Vec<String> = whole.iter().filter_map(|envelope| text_of(envelope)).collect();
    let once: BTreeSet<&String> = texts.iter().collect();
    assert_eq!(texts.len(), once.len(), "a batch that was sent again was appended again");
    let landed = course.landed.borrow();
    assert!(once == landed.keys().collect(), "what is stored is what was acknowledged");
    server.ask(&["verify", "--all"]).good();
    let sealed = sealed(&server);
    server.kill();
    CommandOutput::of(recount().args(["verify", "--data"]).arg(data.path())).good();
    let passed = course.passing.ending(&stored);
    assert!(sealed as usize > stored.len() / 2, "{sealed} of {} events are sealed", stored.len());
    assert!(
        passed.by_policy > 0 && passed.on_request > 0 && passed.gaps_reported > 0,
        "everything was tried"
    );
    print_counts(format_args!(
        "seed {seed}: {kills} kills under load and {} while starting; {} batches with {} events acknowledged, {} sent again; {} times a reader resumed",
        kills / 8,
        *course.batches.borrow(),
        landed.len(),
        course.repeated.get(),
        course.resumed.get(),
    ));
    print_counts(format_args!(
        "{} runs came and ended, {} were pruned ({} last by policy, {} prunes on request) of {} events; {} times a reader was told of a gap; {sealed} of {} events left are sealed",
        passed.runs,
        passed.pruned_runs,
        passed.by_policy,
        passed.on_request,
        passed.pruned_events,
        passed.gaps_reported,
        stored.len(),
    ));
}

/// Printed past the runner's capture: these counts are the result of the run.
fn print_counts(counts: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{counts}").expect("standard error takes a line");
}
