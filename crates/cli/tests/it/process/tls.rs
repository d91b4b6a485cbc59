//! The server with TLS: what clients see of it, HTTP/2, and a certificate that is replaced while it runs.

use std::path::PathBuf;
use std::process::Command;

use super::certificates::Authority;
use crate::server::{CommandOutput, PATIENCE, Server, look_again, recount};

/// A server with TLS, and the authority that its clients trust.
struct Place {
    folder: tempfile::TempDir,
    authority: PathBuf,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        authority.issue_files(&cert, &key);
        let mut command = recount();
        command
            .args(["serve", "--bind", "127.0.0.1:0", "--log", "warn", "--data"])
            .arg(folder.path().join("data"));
        command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key);
        command.arg("--allow-workspace").arg(folder.path());
        let server = Server::of(&mut command).listening();
        Place { authority: authority.write(folder.path()), folder, server }
    }

    /// The output of curl, which trusts an authority.
    fn curl(&self, authority: &PathBuf, arguments: &[&str]) -> Option<String> {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "30", "--cacert"])
            .arg(authority)
            .args(arguments)
            .output()
            .unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }
}

#[test]
fn a_server_with_tls_serves_verbs_and_refuses_unencrypted_requests() {
    let place = Place::new();
    let url = place.server.url();
    assert!(url.starts_with("https://"), "{url}");
    let ask = |arguments: &[&str]| {
        let mut command = recount();
        command.env("SSL_CERT_FILE", &place.authority).args(["--url", &url]).args(arguments);
        CommandOutput::of(&mut command)
    };
    let work = place.folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let started = ask(&["run", "--kind", "shell", "--workspace", work.to_str().unwrap(), "echo encrypted"]);
    assert_eq!(started.status, 0, "{started:?}");
    assert!(started.data.contains("encrypted"), "{started:?}");

    let mut distrusting = recount();
    let refused = CommandOutput::of(distrusting.args(["--url", &url, "ls"]));
    assert_ne!(refused.status, 0, "a certificate of an unknown authority is refused");

    let plain = format!("http://{}/healthz", place.server.address);
    let refused = place.curl(&place.authority, &["--write-out", " %{http_code}", &plain]).unwrap();
    assert!(refused.contains("\"tls_required\"") && refused.ends_with(" 400"), "{refused}");
}

#[test]
fn a_stream_has_the_same_bytes_over_http_1_and_http_2() {
    let place = Place::new();
    let url = place.server.url();
    let body = r#"{"kind":"shell","command":"for i in 1 2 3 4 5; do echo line $i; done"}"#;
    let post = ["--header", "content-type: application/json", "--data", body, &format!("{url}/v1/runs")];
    let created: serde_json::Value =
        serde_json::from_str(&place.curl(&place.authority, &post).unwrap()).unwrap();
    let run = created["data"]["id"].as_str().expect("the run has an id");
    // A stream ends after the end of its run.
    let path = format!("{url}/v1/runs/{run}/events");
    let read = |version: &str| {
        let arguments = [
            version,
            "--no-buffer",
            "--header",
            "accept: text/event-stream",
            "--write-out",
            "\n%{http_version}",
            &path,
        ];
        let output = place.curl(&place.authority, &arguments).unwrap();
        let (body, version) = output.rsplit_once('\n').unwrap();
        (body.to_owned(), version.to_owned())
    };
    let (one, version) = read("--http1.1");
    assert_eq!(version, "1.1");
    let (two, version) = read("--http2");
    assert_eq!(version, "2");
    assert!(one.contains("run.finished"), "{one}");
    let (one, _) = read("--http1.1");
    assert_eq!(one, two);
}

#[tokio::test]
async fn a_replaced_certificate_is_used_without_a_restart_and_an_unusable_one_is_not() {
    let place = Place::new();
    let health = format!("{}/healthz", place.server.url());
    let (cert, key) = (place.folder.path().join("cert.pem"), place.folder.path().join("key.pem"));
    std::fs::write(&cert, "no certificate").unwrap();
    assert!(place.curl(&place.authority, &[&health]).is_some());
    let next = Authority::new();
    next.issue_files(&cert, &key);
    let folder = tempfile::tempdir().unwrap();
    let trusted = next.write(folder.path());
    let until = recount_world::moment() + PATIENCE;
    while place.curl(&trusted, &[&health]).is_none() {
        assert!(recount_world::moment() < until, "the new certificate is never used");
        look_again().await;
    }
    assert!(
        place.curl(&place.authority, &[&health]).is_none(),
        "the previous authority is not used any more"
    );
}

#[test]
fn a_key_that_does_not_belong_to_the_certificate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let authority = Authority::new();
    authority.issue_files(&path("cert.pem"), &path("other.key"));
    authority.issue_files(&path("other.pem"), &path("key.pem"));
    for (cert, key, words) in [
        ("cert.pem", "key.pem", "does not belong to the certificate"),
        ("key.pem", "key.pem", "has no certificate"),
        ("cert.pem", "cert.pem", "cannot use the private key"),
        ("missing.pem", "key.pem", "missing.pem"),
    ] {
        let mut command = recount();
        command.args(["serve", "--bind", "127.0.0.1:0", "--data"]).arg(path("data"));
        command.arg("--tls-cert").arg(path(cert)).arg("--tls-key").arg(path(key));
        let refused = CommandOutput::of(&mut command);
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.words.contains(words), "{refused:?}");
    }
}
