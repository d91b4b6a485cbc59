//! Two servers on one PostgreSQL: the standby takes over from an owner that is killed, frozen or stopped, and nothing
//! that was acknowledged is lost, doubled or moved.

use std::path::PathBuf;
use std::time::Duration;

use recount_client::request::{AppendEvents, CreateRun, NewEvent, Producer};
use recount_client::{Client, Source, Tail, TailItem, Until};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::server::{CommandOutput, PATIENCE, Server, look_again, recount};

/// A lease, and a busy machine. Users are promised 10 seconds, which only a quiet machine can show.
const TAKE_OVER_MAX: Duration = Duration::from_secs(30);
/// Less than what remains of a lease that was renewed in time, so that the stores were given back. Users are promised one
/// second, which only a quiet machine can show.
const HAND_OVER_MAX: Duration = Duration::from_secs(5);

/// A database, and the data folders of its servers.
struct Place {
    url: String,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { url: recount_test_postgres::fresh_database(), folder: tempfile::tempdir().unwrap() }
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server and does not wait.
    fn spawn(&self, name: &str, bind: &str) -> Server {
        let mut command = recount();
        command.args(["serve", "--bind", bind, "--log", "warn", "--data"]).arg(self.data(name));
        Server::of(command.env("RECOUNT_STORE", &self.url))
    }

    /// Starts a standby that has the seal key of the owner. Returns when the database knows it.
    async fn standby(&self, name: &str, of: &str) -> Server {
        let key = |name: &str| self.data(name).join("keys/seal");
        std::fs::create_dir_all(key(name).parent().unwrap()).unwrap();
        std::fs::copy(key(of), key(name)).unwrap();
        let before = self.nodes();
        let mut server = self.spawn(name, "127.0.0.1:0");
        let until = recount_world::moment() + PATIENCE;
        server.address = loop {
            let new = self.nodes().into_iter().find(|address| !before.contains(address));
            if let Some(address) = new {
                break address.trim_start_matches("http://").to_owned();
            }
            assert!(recount_world::moment() < until, "no standby joins");
            look_again().await;
        };
        server
    }

    /// The addresses of all nodes.
    fn nodes(&self) -> Vec<String> {
        let listed = self.listed();
        listed.iter().filter_map(|line| line["address"].as_str().map(str::to_owned)).collect()
    }

    /// Nodes and stores.
    fn listed(&self) -> Vec<Value> {
        let mut command = recount();
        let listed = CommandOutput::of(command.args(["nodes", "--json", "--store", &self.url]));
        listed.data.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect()
    }

    /// Waits until the server owns the stores and serves them.
    async fn until_owner(&self, server: &Server) {
        let until = recount_world::moment() + PATIENCE;
        loop {
            let listed = self.listed();
            let of_server =
                listed.iter().find(|line| line["address"] == format!("http://{}", server.address));
            let node = of_server.map(|line| line["node"].clone());
            let owns = |line: &Value| line["store"] == "default" && Some(&line["owner"]) == node.as_ref();
            if listed.iter().any(owns) {
                break;
            }
            assert!(recount_world::moment() < until, "the server never owns the stores: {listed:?}");
            look_again().await;
        }
        until_ready(server).await;
    }
}

/// Events that were acknowledged, in order.
struct Account {
    run: String,
    acknowledged: Vec<String>,
}

impl Account {
    async fn begin(client: &Client) -> Self {
        let external = CreateRun { kind: "external".to_owned(), ..CreateRun::default() };
        let run = client.create_run(&external).await.unwrap().id;
        let started = NewEvent { event_type: "run.started".to_owned(), data: raw("{}") };
        let producer = Producer { id: "frame".to_owned(), epoch: 1, seq: 0 };
        let batch = AppendEvents { producer, events: vec![started] };
        client.append_run_events(&run, &batch).await.unwrap();
        Account { run, acknowledged: Vec::new() }
    }

    /// Appends a batch until it is acknowledged. Only refusals that a change of owners explains may come.
    async fn append(&mut self, client: &Client) {
        let seq = self.acknowledged.len() as u64;
        let text = format!("text {seq}");
        let data = raw(&serde_json::json!({ "text": text }).to_string());
        let events = vec![NewEvent { event_type: "user.message".to_owned(), data }];
        let producer = Producer { id: "one".to_owned(), epoch: 1, seq };
        let batch = AppendEvents { producer, events };
        let until = recount_world::moment() + PATIENCE;
        loop {
            match client.append_run_events(&self.run, &batch).await {
                Ok(_) => return self.acknowledged.push(text),
                Err(error) => assert!(error.may_pass(), "{error}"),
            }
            assert!(recount_world::moment() < until, "the batch is never acknowledged");
            look_again().await;
        }
    }

    /// Everything that was acknowledged is there once, in order and without a gap.
    async fn check(&self, server: &Server) {
        let client = Client::new(&server.url(), None).unwrap();
        let page = client.read_run_events(&self.run, None, Some(1000)).await.unwrap();
        let events: Vec<Value> =
            page.data.iter().map(|envelope| serde_json::from_str(envelope.get()).unwrap()).collect();
        for (place, event) in events.iter().enumerate() {
            assert_eq!(event["sequence"], place, "sequences have no gap");
        }
        let texts: Vec<&str> = events.iter().filter_map(|event| event["data"]["text"].as_str()).collect();
        assert_eq!(texts, self.acknowledged);
        let verified = server.ask(&["verify", &self.run]);
        assert_eq!(verified.status, 0, "{verified:?}");
    }
}

/// A client that follows a run through any number of connections.
struct Follower {
    tail: Tail,
    texts: Vec<String>,
}

impl Follower {
    fn begin(client: &Client, run: &str) -> Self {
        let tail = client.tail(Source::Run(run.to_owned()), None, Until::Ended);
        Follower { tail, texts: Vec::new() }
    }

    /// Waits until exactly these texts were received, in order.
    async fn until(&mut self, expected: &[String]) {
        while self.texts.len() < expected.len() {
            let item = tokio::time::timeout(PATIENCE, self.tail.next()).await;
            let Some(item) = item.expect("nothing more is received") else { panic!("the stream ended") };
            if let TailItem::Event { envelope, .. } = item.unwrap() {
                let event: Value = serde_json::from_str(&envelope).unwrap();
                self.texts.extend(event["data"]["text"].as_str().map(str::to_owned));
            }
        }
        assert_eq!(self.texts, expected);
    }
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

async fn until_ready(server: &Server) {
    let address = server.address.clone();
    let until = recount_world::moment() + PATIENCE;
    while status_of(&address, "/readyz").await != Some(200) {
        assert!(recount_world::moment() < until, "the server does not become ready");
        look_again().await;
    }
}

/// The status of a `GET`, if there is a response.
async fn status_of(address: &str, path: &str) -> Option<u16> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await.ok()?;
    response.split(' ').nth(1)?.parse().ok()
}

#[tokio::test]
async fn a_standby_takes_over_from_an_owner_that_is_killed_and_hands_over_when_it_is_stopped() {
    let place = Place::new();
    let mut first = place.spawn("first", "127.0.0.1:0").listening();
    let client = Client::new(&first.url(), None).unwrap();
    let mut account = Account::begin(&client).await;
    let mut second = place.standby("second", "first").await;
    assert_eq!(status_of(&second.address, "/healthz").await, Some(200));
    until_ready(&second).await;
    let standby = Client::new(&second.url(), None).unwrap();
    let mut follower = Follower::begin(&standby, &account.run);
    for _ in 0..10 {
        account.append(&client).await;
        account.append(&standby).await;
    }
    follower.until(&account.acknowledged).await;

    let killed = recount_world::moment();
    first.kill();
    account.append(&standby).await;
    println!("appended through the standby {:?} after the kill", killed.elapsed());
    place.until_owner(&second).await;
    println!("taken over after {:?}", killed.elapsed());
    assert!(killed.elapsed() < TAKE_OVER_MAX, "{:?}", killed.elapsed());
    account.check(&second).await;
    for _ in 0..20 {
        account.append(&standby).await;
    }
    follower.until(&account.acknowledged).await;

    let third = place.standby("third", "first").await;
    let stopped = recount_world::moment();
    second.interrupt();
    place.until_owner(&third).await;
    println!("handed over after {:?}", stopped.elapsed());
    assert!(stopped.elapsed() < HAND_OVER_MAX, "{:?}", stopped.elapsed());
    second.stop();
    let client = Client::new(&third.url(), None).unwrap();
    account.append(&client).await;
    account.check(&third).await;
}

/// It holds the connection of a client that waits for its receipt, and wakes up after another server has taken over.
#[tokio::test]
async fn an_owner_that_wakes_up_after_its_lease_changes_nothing_and_ends() {
    let place = Place::new();
    let mut first = place.spawn("first", "127.0.0.1:0").listening();
    let client = Client::new(&first.url(), None).unwrap();
    let mut account = Account::begin(&client).await;
    let second = place.standby("second", "first").await;
    account.append(&client).await;
    first.pause();
    let run = account.run.clone();
    let late = async {
        let producer = Producer { id: "late".to_owned(), epoch: 1, seq: 0 };
        let event = NewEvent { event_type: "user.message".to_owned(), data: raw(r#"{"text":"too late"}"#) };
        client.append_run_events(&run, &AppendEvents { producer, events: vec![event] }).await
    };
    let new_client = async {
        place.until_owner(&second).await;
        let client = Client::new(&second.url(), None).unwrap();
        account.append(&client).await;
        first.go_on();
        client
    };
    let (refused, client) = tokio::join!(late, new_client);
    assert!(refused.is_err(), "the former owner acknowledged an event");
    assert_ne!(first.wait().code(), Some(0), "the former owner ends with an error");
    account.append(&client).await;
    account.check(&second).await;
}

/// The tables of its store are locked, so it stays in the middle of opening it until it has the signal.
#[tokio::test]
async fn a_standby_that_is_stopped_while_it_takes_over_ends() {
    let place = Place::new();
    let mut first = place.spawn("first", "127.0.0.1:0").listening();
    let mut second = place.standby("second", "first").await;
    let (sql, connection) = tokio_postgres::connect(&place.url, tokio_postgres::NoTls).await.unwrap();
    let test = async {
        let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname LIKE 'recount\\_default%'";
        let tables: Vec<String> =
            sql.query(tables, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        sql.batch_execute(&format!("BEGIN; LOCK TABLE {}", tables.join(", "))).await.unwrap();
        first.kill();
        let blocked = "SELECT count(*) FROM recount.stores, pg_locks WHERE name = 'default' AND epoch = 2 AND NOT granted";
        let until = recount_world::moment() + PATIENCE;
        while sql.query_one(blocked, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            assert!(recount_world::moment() < until, "the standby does not open the store");
            look_again().await;
        }
        second.interrupt();
        sql.batch_execute("ROLLBACK").await.unwrap();
        let until = recount_world::moment() + PATIENCE;
        while !second.has_ended() {
            assert!(recount_world::moment() < until, "the standby does not end");
            look_again().await;
        }
    };
    tokio::select! {
        () = test => {}
        ended = connection => panic!("the connection of the test ended: {ended:?}"),
    }
}
