//! Tests of the faulty link, in front of a server that sends back what it receives.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recount_faulty_link::{Cut, Direction, FaultCourse, Flow, Link, Trap};
use recount_world::thread;

/// A server that sends back what it receives, and remembers it.
struct Echo {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<u8>>>::default();
        let notes = received.clone();
        thread("echo", move || {
            for peer in listener.incoming() {
                let (mut peer, notes) = (peer.unwrap(), notes.clone());
                thread("echo-peer", move || {
                    let mut buffer = [0; 4096];
                    while let Ok(count @ 1..) = peer.read(&mut buffer) {
                        notes.lock().unwrap().extend_from_slice(&buffer[..count]);
                        if peer.write_all(&buffer[..count]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Echo { address, received }
    }

    fn wait_received(&self, text: &str) {
        let has_text = || String::from_utf8_lossy(&self.received.lock().unwrap()).contains(text);
        while !has_text() {
            std::thread::yield_now();
        }
    }

    fn received(&self) -> String {
        String::from_utf8(self.received.lock().unwrap().clone()).unwrap()
    }
}

struct Client(TcpStream);

impl Client {
    fn connect(link: &Link) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", link.port())).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }

    fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    #[track_caller]
    fn expect(&mut self, text: &str) {
        let mut bytes = vec![0; text.len()];
        self.0.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), text);
    }

    /// Reads to the end of the connection.
    fn end(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.0.read_to_string(&mut text).map(|_| text)
    }

    #[track_caller]
    fn expect_reset(&mut self) {
        assert_eq!(self.end().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    /// Whether nothing can be read now.
    fn is_silent(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let silent = matches!(self.0.read(&mut [0]), Err(why) if why.kind() == io::ErrorKind::WouldBlock);
        self.0.set_nonblocking(false).unwrap();
        silent
    }
}

fn start() -> (Echo, Link) {
    let echo = Echo::start();
    let link = Link::start(echo.address).unwrap();
    (echo, link)
}

#[test]
fn new_connections_go_to_another_target() {
    let (one, other) = (Echo::start(), Echo::start());
    let link = Link::start(one.address).unwrap();
    let mut first = Client::connect(&link);
    first.send("one");
    first.expect("one");
    link.set_target(other.address);
    let mut second = Client::connect(&link);
    second.send("other");
    second.expect("other");
    first.send("still");
    first.expect("still");
    assert_eq!((one.received(), other.received()), ("onestill".to_owned(), "other".to_owned()));
}

#[test]
fn bytes_pass_in_both_directions_until_the_end() {
    let (echo, link) = start();
    let mut client = Client::connect(&link);
    let large = "0123456789".repeat(100_000);
    let mut writer = Client(client.0.try_clone().unwrap());
    let text = large.clone();
    let writing = thread("writer", move || writer.send(&text));
    client.expect(&large);
    writing.join().unwrap();
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.end().unwrap(), "");
    let traffic = link.wait_for("the end", |traffic| traffic.open == 0);
    assert_eq!((traffic.connections, traffic.swallowed, traffic.faults.kinds()), (1, 0, 0));
    assert_eq!(echo.received().len(), large.len());
}

#[test]
fn a_connection_to_a_server_that_is_down_is_reset() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let link = Link::start(port).unwrap();
    Client::connect(&link).expect_reset();
}

#[test]
fn connections_are_cut_in_both_ways() {
    let (_echo, link) = start();
    for how in [Cut::Reset, Cut::Finish] {
        let mut clients = [Client::connect(&link), Client::connect(&link)];
        for client in &mut clients {
            client.send("a");
            client.expect("a");
        }
        link.cut(how);
        for client in &mut clients {
            match how {
                Cut::Reset => client.expect_reset(),
                Cut::Finish => assert_eq!(client.end().unwrap(), ""),
            }
        }
    }
    let mut client = Client::connect(&link);
    client.send("new");
    client.expect("new");
    drop(link);
    assert_eq!(client.end().unwrap(), "");
}

#[test]
fn a_half_open_link_accepts_and_forwards_nothing_until_it_heals() {
    let (echo, link) = start();
    let mut old = Client::connect(&link);
    old.send("a");
    old.expect("a");
    link.set_both(Flow::Stall);
    let mut new = Client::connect(&link);
    new.send("new");
    old.send("old");
    link.wait_for("both connections", |traffic| traffic.connections == 2);
    assert!(new.is_silent() && old.is_silent());
    assert_eq!(echo.received(), "a");
    link.heal();
    new.expect("new");
    old.expect("old");
}

#[test]
fn one_direction_stalls_and_the_other_passes() {
    let (echo, link) = start();
    let mut client = Client::connect(&link);
    link.set(Direction::ToClient, Flow::Stall);
    client.send("there");
    echo.wait_received("there");
    assert!(client.is_silent());
    link.set(Direction::ToServer, Flow::Stall);
    link.set(Direction::ToClient, Flow::Pass);
    client.expect("there");
    client.send(" back");
    assert!(client.is_silent());
    assert_eq!(echo.received(), "there");
    link.heal();
    client.expect(" back");
}

#[test]
fn delays_apply_to_each_direction() {
    let (_echo, link) = start();
    let mut client = Client::connect(&link);
    client.send("fast");
    client.expect("fast");
    let delay = Duration::from_millis(40);
    link.set_both(Flow::Delay(delay));
    let start = recount_world::moment();
    client.send("slow");
    client.expect("slow");
    assert!(start.elapsed() >= 2 * delay, "{:?}", start.elapsed());
}

#[test]
fn answers_are_swallowed_and_the_connection_is_reset_when_the_link_heals() {
    let (echo, link) = start();
    let mut client = Client::connect(&link);
    client.send("a");
    client.expect("a");
    link.set(Direction::ToClient, Flow::Swallow);
    client.send("lost");
    echo.wait_received("lost");
    link.wait_for("the loss", |traffic| traffic.swallowed == 4);
    assert!(client.is_silent());
    let mut untouched = Client::connect(&link);
    link.wait_for("another connection", |traffic| traffic.connections == 2);
    link.heal();
    client.expect_reset();
    untouched.send("whole");
    untouched.expect("whole");
}

#[test]
fn a_trap_swallows_the_answer_to_the_bytes_that_it_waits_for() {
    let (echo, link) = start();
    let mut clients = [Client::connect(&link), Client::connect(&link)];
    link.set_trap(b"commit 7", Trap::SwallowAnswer);
    for client in &mut clients {
        client.send("commit 6");
        client.expect("commit 6");
    }
    // In two chunks.
    clients[0].send(" comm");
    clients[0].expect(" comm");
    clients[0].send("it 7");
    link.wait_for("the trap", |traffic| traffic.sprung == 1);
    echo.wait_received("commit 7");
    link.wait_for("the loss", |traffic| traffic.swallowed == 4);
    assert!(clients[0].is_silent());
    clients[1].send("commit 7");
    clients[1].expect("commit 7");
    link.cut(Cut::Reset);
    clients[0].expect_reset();
}

#[test]
fn a_trap_resets_before_the_server_gets_the_bytes() {
    let (echo, link) = start();
    let mut client = Client::connect(&link);
    link.set_trap(b"commit 7", Trap::ResetBefore);
    client.send("begin");
    client.expect("begin");
    client.send("commit 7");
    client.expect_reset();
    assert_eq!(link.traffic().sprung, 1);
    let mut client = Client::connect(&link);
    client.send("commit 7");
    client.expect("commit 7");
    assert_eq!(echo.received(), "begincommit 7");
}

#[test]
fn a_trap_holds_bytes_back_even_if_the_client_has_closed_the_connection() {
    let (echo, link) = start();
    let mut clients = [Client::connect(&link), Client::connect(&link)];
    link.set_trap(b"commit 7", Trap::HoldBack);
    let [held, other] = &mut clients;
    held.send("commit 7");
    link.wait_for("the trap", |traffic| traffic.sprung == 1);
    held.0.shutdown(std::net::Shutdown::Both).unwrap();
    other.send("commit 8");
    other.expect("commit 8");
    assert_eq!(echo.received(), "commit 8");
    link.release();
    echo.wait_received("commit 7");
    link.wait_for("the end of the connection", |traffic| traffic.open == 1);
}

/// What a connection delivers is a prefix of what was sent, whatever the faults.
#[test]
fn drawn_faults_are_of_every_kind_and_never_change_bytes() {
    let (_echo, link) = start();
    let seed = 42;
    println!("seed {seed}");
    link.draw_faults(FaultCourse { seed, bytes: 100..3_000, pause_max: Duration::from_millis(2) });
    let text = "0123456789".repeat(300);
    let mut connections = 0;
    while link.traffic().faults.kinds() < 6 {
        connections += 1;
        assert!(connections < 1_000, "{:?}", link.traffic());
        let mut client = Client::connect(&link);
        // The connection may be cut at any time.
        client.0.write_all(text.as_bytes()).ok();
        client.0.shutdown(std::net::Shutdown::Write).ok();
        let mut received = Vec::new();
        client.0.read_to_end(&mut received).ok();
        assert!(text.as_bytes().starts_with(&received), "connection {connections}");
    }
    println!("{:?} in {connections} connections", link.traffic().faults);
    link.heal();
    let mut client = Client::connect(&link);
    client.send(&text);
    client.expect(&text);
}
