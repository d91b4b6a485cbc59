//! A call of a run cannot answer what its own run asks: neither a command nor a request reaches the server that runs it.

use std::net::TcpListener;
use std::path::Path;

use recount_client::request::CreateRun;
use recount_client::{Client, Source, TailItem, Until};

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

/// All events of a run, up to its ending.
async fn whole(client: &Client, run: &str) -> String {
    let mut tail = client.tail(Source::Run(run.to_owned()), None, Until::Ended);
    let mut events_text = String::new();
    while let Some(item) = tail.next().await {
        if let TailItem::Event { envelope, .. } = item.unwrap() {
            assert!(!envelope.contains("approval.requested"), "nobody is here to be asked: {envelope}");
            events_text.push_str(&envelope);
            events_text.push('\n');
        }
    }
    events_text
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
        let events_text = whole(&client, &run).await;
        assert!(events_text.contains("it ended with 7"), "{layer}: {events_text}");
        // Nor is it given a network through which it would.
        let refused = client.create_run(&shell("true".to_owned(), Some(true))).await.unwrap_err();
        assert!(refused.to_string().contains("could answer prompts"), "{layer}: {refused}");
    }
}

#[tokio::test]
async fn a_request_of_a_run_does_not_reach_this_machine_while_no_token_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let address = silent.local_addr().unwrap();
    let config = "[models]\ndefault = 'here/script'\n[models.providers.here]\nkind = 'scripted'\nscript = 'script.toml'\n\
                  [policy]\nfile = 'policy.toml'\n[web]\nprivate_hosts = ['127.0.0.1']\n";
    let policy = "[[rules]]\nid = 'all'\nhost = '*'\naction = 'allow'\n";
    let script = format!(
        "[[turn]]\ncall = [{{ name = 'web_fetch', input = {{ url = 'http://{address}/' }} }}]\n[[turn]]\ntext = 'Done.'\n"
    );
    for (name, text) in [("config.toml", config), ("policy.toml", policy), ("script.toml", &script)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let mut command = recount();
    command.args(["serve", "--bind", "127.0.0.1:0", "--log", "warn", "--sandbox", "off", "--data"]);
    command.arg(folder.path().join("data")).arg("--config").arg(folder.path().join("config.toml"));
    let server = Server::of(&mut command).listening();
    let client = Client::new(&server.url(), None).unwrap();
    let new_run = CreateRun {
        kind: "agent_loop".to_owned(),
        request_text: Some("look".to_owned()),
        ..CreateRun::default()
    };
    let run = client.create_run(&new_run).await.unwrap().id;
    let events_text = whole(&client, &run).await;
    assert!(
        events_text.contains("\"code\":\"address_refused\"") && events_text.contains("could answer prompts"),
        "{events_text}"
    );
    assert!(silent.accept().is_err(), "no connection was made");
}
