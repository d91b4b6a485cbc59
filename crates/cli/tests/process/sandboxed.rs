//! A command of a run cannot answer what its own run asks: it does not reach the server that runs it.

use std::path::Path;

use recount_client::request::CreateRun;
use recount_client::{Client, Source, Told, Until};

use crate::server::{Server, recount};

/// A server whose commands run on one layer.
fn serve(data: &Path, layer: &str) -> Server {
    let mut command = recount();
    command.args(["serve", "--bind", "127.0.0.1:0", "--log", "warn", "--sandbox", layer, "--data"]);
    Server::of(command.arg(data)).listening()
}

fn shell(command: String, network: Option<bool>) -> CreateRun {
    CreateRun { kind: "shell".to_owned(), command: Some(command), network, ..CreateRun::default() }
}

/// Everything that a run says, up to its ending.
async fn whole(client: &Client, run: &str) -> String {
    let mut tail = client.tail(Source::Run(run.to_owned()), None, Until::Ended);
    let mut said = String::new();
    while let Some(told) = tail.next().await {
        if let Told::Event { envelope, .. } = told.unwrap() {
            assert!(!envelope.contains("approval.requested"), "nobody is here to be asked: {envelope}");
            said.push_str(&envelope);
            said.push('\n');
        }
    }
    said
}

#[tokio::test]
async fn a_command_cannot_approve_its_own_request() {
    for layer in ["bubblewrap", "landlock"] {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(folder.path(), layer);
        let client = Client::new(&server.url(), None).unwrap();
        let (_, port) = server.address.rsplit_once(':').unwrap();
        let reach = format!(
            "perl -MIO::Socket::INET -e 'exit(IO::Socket::INET->new(q(127.0.0.1:{port})) ? 0 : 7)'; echo \"it ended \
             with $?\""
        );
        let run = client.create_run(&shell(reach, None)).await.unwrap().id;
        let said = whole(&client, &run).await;
        assert!(said.contains("it ended with 7"), "{layer}: {said}");
        // Nor is it given a network through which it would.
        let refused = client.create_run(&shell("true".to_owned(), Some(true))).await.unwrap_err();
        assert!(refused.to_string().contains("could answer for a person"), "{layer}: {refused}");
    }
}
