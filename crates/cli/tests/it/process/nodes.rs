//! Two servers on one PostgreSQL: the standby takes over from an owner that is killed, frozen or stopped, and nothing
//! that was acknowledged is lost, doubled or moved.

use std::path::PathBuf;
use std::time::Duration;

use recount_client::request::{AppendEvents, CreateRun, NewEvent, Producer};
use recount_client::{Client, Source, Tail, TailItem, Until};
use serde_json::Value;
use serde_json::value::RawValue;

use super::certificates::Authority;
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
    /// Whether its servers spread tenants.
    spreads: bool,
    /// The authority of their certificates, if they have one.
    authority: Option<Authority>,
}

impl Place {
    fn new() -> Self {
        let (url, folder) = (recount_test_postgres::fresh_database(), tempfile::tempdir().unwrap());
        Place { url, folder, spreads: false, authority: None }
    }

    fn data(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server and does not wait.
    fn spawn(&self, name: &str, bind: &str) -> Server {
        let mut command = recount();
        command.args(["serve", "--bind", bind, "--log", "warn", "--data"]).arg(self.data(name));
        if self.spreads {
            command.arg("--spread-tenants");
        }
        if let Some(authority) = &self.authority {
            let (cert, key) = (self.data("cert.pem"), self.data("key.pem"));
            authority.issue_files(&cert, &key);
            command.arg("--tls-cert").arg(cert).arg("--tls-key").arg(key);
            command.arg("--allow-workspace").arg(self.folder.path());
        }
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
                break without_scheme(&address);
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
        self.until_owner_of("default", server).await;
        until_ready(server).await;
    }

    /// Waits until the server owns a store.
    async fn until_owner_of(&self, store: &str, server: &Server) {
        let until = recount_world::moment() + PATIENCE;
        while self.owner_of(store).as_deref() != Some(&*server.address) {
            let listed = self.listed();
            assert!(recount_world::moment() < until, "the server never owns {store}: {listed:?}");
            look_again().await;
        }
    }

    /// The address of the server that owns a store.
    fn owner_of(&self, store: &str) -> Option<String> {
        let listed = self.listed();
        let owner = &listed.iter().find(|line| line["store"] == store)?["owner"];
        let node = listed.iter().find(|line| !owner.is_null() && &line["node"] == owner)?;
        Some(without_scheme(node["address"].as_str()?))
    }
}

fn without_scheme(url: &str) -> String {
    url.split_once("://").map_or(url, |(_, address)| address).to_owned()
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
        self.check_with(&Client::new(&server.url(), None).unwrap()).await;
        let verified = server.ask(&["verify", &self.run]);
        assert_eq!(verified.status, 0, "{verified:?}");
    }

    async fn check_with(&self, client: &Client) {
        let page = client.read_run_events(&self.run, None, Some(1000)).await.unwrap();
        let events: Vec<Value> =
            page.data.iter().map(|envelope| serde_json::from_str(envelope.get()).unwrap()).collect();
        for (place, event) in events.iter().enumerate() {
            assert_eq!(event["sequence"], place, "sequences have no gap");
        }
        let texts: Vec<&str> = events.iter().filter_map(|event| event["data"]["text"].as_str()).collect();
        assert_eq!(texts, self.acknowledged);
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

/// A tenant, its token, and clients of it at two servers.
struct Tenant {
    token: String,
    account: Account,
    followers: [Follower; 2],
}

impl Tenant {
    fn token(name: &str, server: &Server) -> String {
        let scopes = "read,run,ingest,admin,approve";
        let added = server.ask(&["token", "add", name, "--tenant", name, "--scope", scopes]).good();
        added.trim().to_owned()
    }

    async fn begin(token: String, servers: [&Server; 2]) -> Self {
        let clients = servers.map(|server| Client::new(&server.url(), Some(&token)).unwrap());
        let account = Account::begin(&clients[0]).await;
        let followers = [0, 1].map(|at| Follower::begin(&clients[at], &account.run));
        Tenant { token, account, followers }
    }

    fn client(&self, server: &Server) -> Client {
        Client::new(&server.url(), Some(&self.token)).unwrap()
    }

    /// Appends through a server; both followers receive it.
    async fn append(&mut self, server: &Server) {
        self.account.append(&self.client(server)).await;
        for follower in &mut self.followers {
            follower.until(&self.account.acknowledged).await;
        }
    }

    /// A command of a run of this tenant writes the name of its server's data folder.
    async fn until_a_run_ends(&self, server: &Server) -> String {
        let client = self.client(server);
        let command = CreateRun {
            kind: "shell".to_owned(),
            command: Some("echo done".to_owned()),
            ..CreateRun::default()
        };
        let run = client.create_run(&command).await.unwrap().id;
        let mut tail = client.tail(Source::Run(run), None, Until::Ended);
        let mut last = String::new();
        while let Some(item) = tokio::time::timeout(PATIENCE, tail.next()).await.expect("the run ends") {
            if let TailItem::Event { envelope, .. } = item.unwrap() {
                last = serde_json::from_str::<Value>(&envelope).unwrap()["type"].to_string();
            }
        }
        last
    }
}

#[tokio::test]
async fn tenants_are_spread_over_servers_and_work_at_each_of_them() {
    let place = Place { spreads: true, ..Place::new() };
    let mut first = place.spawn("first", "127.0.0.1:0").listening();
    let tokens = ["acme", "zeta"].map(|name| Tenant::token(name, &first));
    let mut second = place.standby("second", "first").await;
    until_ready(&second).await;
    let [acme, zeta] = tokens;
    // One of them has moved, and the other one stays beside the default tenant.
    place.until_owner_of("acme", &second).await;
    assert_eq!(place.owner_of("zeta").as_deref(), Some(&*first.address));
    let mut acme = Tenant::begin(acme, [&first, &second]).await;
    let mut zeta = Tenant::begin(zeta, [&first, &second]).await;
    for server in [&first, &second] {
        for tenant in [&mut acme, &mut zeta] {
            tenant.append(server).await;
            tenant.account.check_with(&tenant.client(server)).await;
        }
        assert_eq!(acme.until_a_run_ends(server).await, "\"run.finished\"");
    }

    // The server of a tenant hangs: no other tenant notices, and its own continues at the main server.
    second.pause();
    let elsewhere = Client::new(&first.url(), Some(&zeta.token)).unwrap();
    zeta.account.append(&elsewhere).await;
    zeta.followers[0].until(&zeta.account.acknowledged).await;
    acme.account.append(&acme.client(&first)).await;
    acme.followers[0].until(&acme.account.acknowledged).await;
    place.until_owner_of("acme", &first).await;
    acme.account.check_with(&acme.client(&first)).await;
    second.go_on();
    assert_ne!(second.wait().code(), Some(0), "it ends with an error, because it has lost its lease");

    // The main server is killed while another one has a tenant.
    let third = place.standby("third", "first").await;
    place.until_owner_of("zeta", &third).await;
    zeta.account.append(&elsewhere).await;
    first.kill();
    place.until_owner(&third).await;
    for tenant in [&mut acme, &mut zeta] {
        tenant.account.append(&tenant.client(&third)).await;
        tenant.account.check_with(&tenant.client(&third)).await;
    }
    for store in ["acme", "zeta"] {
        place.until_owner_of(store, &third).await;
    }
}

#[tokio::test]
async fn servers_with_certificates_spread_tenants_too() {
    let place = Place { spreads: true, authority: Some(Authority::new()), ..Place::new() };
    let first = place.spawn("first", "127.0.0.1:0").listening();
    let trusted = place.authority.as_ref().unwrap().write(place.folder.path());
    let ask = |server: &Server, arguments: &[&str]| {
        let mut command = recount();
        let url = format!("https://{}", server.address);
        command.env("SSL_CERT_FILE", &trusted).args(["--url", &url]).args(arguments);
        CommandOutput::of(&mut command).good()
    };
    let scopes = "read,run,ingest";
    let token = ask(&first, &["token", "add", "acme", "--tenant", "acme", "--scope", scopes]);
    let second = place.standby("second", "first").await;
    place.until_owner_of("acme", &second).await;
    for server in [&first, &second] {
        let token = ["--token", token.trim()];
        let work = place.data("work");
        std::fs::create_dir_all(&work).unwrap();
        let run = ["run", "--workspace", work.to_str().unwrap(), "--kind", "shell", "--", "echo encrypted"];
        let ran = ask(server, &[&token[..], &run].concat());
        assert!(ran.contains("encrypted"), "{ran}");
        assert_eq!(place.owner_of("acme").as_deref(), Some(&*second.address));
    }
}

/// Less than open requests may take at shutdown.
const STOP_MAX: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_main_server_that_is_stopped_does_not_wait_for_the_streams_of_tenants() {
    let place = Place { spreads: true, ..Place::new() };
    let mut first = place.spawn("first", "127.0.0.1:0").listening();
    let token = Tenant::token("acme", &first);
    let mut acme = Tenant::begin(token, [&first, &first]).await;
    acme.append(&first).await;
    let stopped = recount_world::moment();
    first.interrupt();
    assert_eq!(first.wait().code(), Some(0));
    println!("ended after {:?}", stopped.elapsed());
    assert!(stopped.elapsed() < STOP_MAX, "{:?}", stopped.elapsed());
}

/// The head of a response, and the connection after it.
async fn exchange(address: &str, request: &str) -> (String, tokio::net::TcpStream) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (String::from_utf8(head).unwrap(), stream)
}

#[tokio::test]
async fn a_tenant_at_another_server_has_everything_that_a_tenant_has() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let place = Place { spreads: true, ..Place::new() };
    let first = place.spawn("first", "127.0.0.1:0").listening();
    let token = Tenant::token("acme", &first);
    let second = place.standby("second", "first").await;
    place.until_owner_of("acme", &second).await;
    let mut acme = Tenant::begin(token.clone(), [&first, &second]).await;
    acme.append(&second).await;
    let with_token = |server: &Server, arguments: &[&str]| {
        let mut command = recount();
        command.env("RECOUNT_URL", server.url()).env("RECOUNT_TOKEN", &token).args(arguments);
        CommandOutput::of(&mut command)
    };
    for server in [&first, &second] {
        let head = format!("Host: {}\r\nAuthorization: Bearer {token}\r\n", server.address);
        // WebSockets.
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: aaep.v1\r\n";
        let request = format!("GET /aaep/v1/ws HTTP/1.1\r\n{head}{upgrade}\r\n");
        let (answer, mut socket) = exchange(&server.address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        socket.write_all(&[0x89, 0x81, 0, 0, 0, 0, b'x']).await.unwrap();
        let mut pong = [0; 3];
        tokio::time::timeout(PATIENCE, socket.read_exact(&mut pong)).await.unwrap().unwrap();
        assert_eq!(pong, [0x8a, 1, b'x']);
        // A client that claims to be another one, and the tokens of the tenant, which the main server has.
        let forged = "Recount-Vouched-Client: {\"tenant\":\"default\"}\r\n";
        let request = format!("GET /admin/tokens HTTP/1.1\r\n{head}{forged}Connection: close\r\n\r\n");
        let (answer, mut body) = exchange(&server.address, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let mut text = String::new();
        body.read_to_string(&mut text).await.unwrap();
        assert!(text.contains("\"tenant\":\"acme\"") && !text.contains("\"tenant\":\"default\""), "{text}");
    }

    // What the main server reports of all of them.
    let rotated = format!(
        "POST /admin/signing-keys HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n",
        first.address
    );
    let (answer, _) = exchange(&first.address, &rotated).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let keys = reqwest::get(format!("{}/.well-known/recount-keys", first.url())).await.unwrap();
    let keys: Value = serde_json::from_str(&keys.text().await.unwrap()).unwrap();
    // That of the default tenant, and two of acme: the new one and the one before.
    assert_eq!(keys["keys"].as_array().unwrap().len(), 3, "{keys}");
    let metrics = reqwest::get(format!("{}/metrics", first.url())).await.unwrap().text().await.unwrap();
    assert!(metrics.contains(&format!("recount_runs{{server=\"{}\"}} ", second.address)), "{metrics}");
    let doctor = first.ask(&["doctor"]).data;
    for line in ["store of acme", &format!("server {}", second.address)] {
        assert!(doctor.contains(line), "{doctor}");
    }
    with_token(&second, &["verify", &acme.account.run]).good();

    // The audit trail, which the main server has.
    with_token(&second, &["delete", "--yes", &acme.account.run]).good();
    let trail = format!("{}/audit/v1/events", first.url());
    let trail = reqwest::get(trail).await.unwrap().text().await.unwrap();
    for words in [
        "ext.recount.removed",
        "ext.recount.signing_key_rotated",
        &*format!("\"server\":\"{}\"", second.address),
    ] {
        assert!(trail.contains(words), "{words}: {trail}");
    }
    assert_eq!(trail.matches("\"type\":\"ext.recount.removed\"").count(), 1, "{trail}");

    // A revoked token ends a stream at the other server.
    let client = acme.client(&second);
    let mut tail = client.tail(Source::Feed, None, Until::Ended);
    let stream = async { while let Some(Ok(_)) = tail.next().await {} };
    let revoked = async {
        look_again().await;
        let listed = first.ask(&["token", "ls", "--json"]).data;
        let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let id = listed.iter().find(|token| token["tenant"] == "acme").unwrap()["id"].as_str().unwrap();
        first.ask(&["token", "rm", id]).good();
    };
    let both = tokio::time::timeout(PATIENCE, async { tokio::join!(stream, revoked) });
    both.await.expect("the stream ends with the token");
}
