//! Tests of the PostgreSQL for tests: it starts, is killed, freezes, starts again, and ends with its process.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use recount_test_postgres::{Server, Signal, fresh_database, shared};

/// Set in the process that is killed.
const CHILD: &str = "RECOUNT_TEST_POSTGRES_CHILD";

/// The request of a client that wants TLS, and the response of a server without it.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
const NO_TLS: u8 = b'N';

/// Whether a process of PostgreSQL answers on the port. `false`: the connection is refused.
fn answers(port: u16) -> bool {
    let Ok(mut connection) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut response = [0];
    let exchange = connection.write_all(&TLS_REQUEST).and_then(|()| connection.read_exact(&mut response));
    exchange.is_ok() && response == [NO_TLS]
}

#[test]
fn each_test_gets_a_database_of_its_own() {
    let (one, other) = (fresh_database(), fresh_database());
    assert_ne!(one, other);
    let address = format!("postgres://recount@127.0.0.1:{}/", shared().port());
    assert!(one.starts_with(&address) && other.starts_with(&address), "{one} {other}");
    assert!(answers(shared().port()));
}

#[test]
fn a_server_starts_again_on_its_port_and_files_after_any_signal() {
    let server = Server::start(&[("fsync", "on"), ("log_line_prefix", "ours ")]).unwrap();
    let (port, data) = (server.port(), server.data());
    assert!(server.log().iter().all(|line| line.contains("ours ")), "{:?}", server.log());
    let mut systems = vec![];
    for signal in [Signal::KILL, Signal::QUIT, Signal::INT] {
        systems.push(std::fs::read(data.join("global/pg_control")).unwrap()[..8].to_vec());
        server.end(signal).unwrap();
        assert!(!answers(port));
        server.end(signal).unwrap_err();
        server.restart().unwrap();
        assert!(answers(port));
        server.restart().unwrap_err();
    }
    assert!(systems.windows(2).all(|pair| pair[0] == pair[1]), "it is the same cluster");
    drop(server);
    assert!(!answers(port));
    assert!(!data.exists());
}

#[test]
fn a_standby_replicates_and_becomes_the_primary() {
    let primary = Server::start(&[]).unwrap();
    let standby = primary.start_standby(primary.port()).unwrap();
    assert!(standby.data().join("standby.signal").exists());
    standby.promote().unwrap();
    assert!(!standby.data().join("standby.signal").exists());
    primary.end(Signal::QUIT).unwrap();
    standby.fresh_database().unwrap();
}

#[test]
fn a_frozen_server_answers_after_it_continues() {
    let server = Server::start(&[]).unwrap();
    let frozen = server.freeze().unwrap();
    // The operating system accepts the connection.
    let mut connection = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    connection.write_all(&TLS_REQUEST).unwrap();
    connection.set_nonblocking(true).unwrap();
    let mut response = [0];
    let refused = connection.read(&mut response).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    drop(frozen);
    connection.set_nonblocking(false).unwrap();
    connection.read_exact(&mut response).unwrap();
    assert_eq!(response, [NO_TLS]);
}

#[test]
fn a_wrong_setting_fails_with_the_log() {
    let failure = Server::start(&[("shared_buffers", "no number")]).err().unwrap();
    assert!(failure.to_string().contains("no number"), "{failure}");
}

#[test]
fn a_server_ends_when_its_process_is_killed() {
    if std::env::var_os(CHILD).is_some() {
        let server = Server::start(&[]).unwrap();
        let _frozen = server.freeze().unwrap();
        println!("started {} {}", server.port(), server.data().display());
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        unreachable!("the process is killed before its input ends");
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_server_ends_when_its_process_is_killed", "--nocapture"]).env(CHILD, "1");
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let started =
        lines.filter_map(|line| line.split_once("started ").map(|(_, rest)| rest.to_owned())).next();
    let started = started.expect("the child starts a server");
    let (port, data) = started.split_once(' ').unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let folder = PathBuf::from(data).parent().unwrap().to_owned();
    while folder.exists() {
        std::thread::yield_now();
    }
    assert!(!answers(port.parse().unwrap()));
}
