//! Artifacts from the command line, by real processes: uploaded, pinned, deleted; and the output of a command that is
//! larger than what any process holds.

#[cfg(target_os = "linux")]
use std::io::BufRead as _;

use recount_client::request::CreateRun;
use recount_client::{Listing, Source, TailItem, Until};

use crate::process::scene::{Scene, client};
use crate::server::CommandOutput;
#[cfg(target_os = "linux")]
use crate::server::held_mib;

#[tokio::test]
async fn an_artifact_is_uploaded_pinned_and_deleted() {
    let scene = Scene::playing("end = \"Done.\"");
    let server = scene.server();
    let file = scene.work().join("a.txt");
    let file = file.to_str().unwrap();
    let added = server.ask(&["artifact", "add", file]).good();
    let id = added.split(' ').next().unwrap().to_owned();
    assert_eq!(added, format!("{id} uploaded from a.txt\n"));
    server.ask(&["artifacts", "pin", &id]).bad(1, "artifact_unused");
    server.ask(&["artifact", "delete", &id]).bad(2, "confirm with --yes");
    let deleted = server.ask(&["artifact", "delete", &id, "--yes"]).good();
    assert_eq!(deleted, format!("{id} deleted, with its bytes\n"));
    server.ask(&["artifact", "show", &id]).bad(1, "artifact_deleted");

    let output = CommandOutput::of(&mut scene.run(&server, &["look", "--attach", "a.txt"])).good();
    let id = output.split("attached: ").nth(1).unwrap_or_else(|| panic!("{output}"));
    let id = id.split(' ').next().unwrap().to_owned();
    assert_eq!(server.ask(&["artifact", "pin", &id]).good(), format!("{id} pinned\n"));
    let shown = server.ask(&["artifact", "show", &id]).good();
    assert!(shown.contains("pinned: yes\n"), "{shown}");
    server.ask(&["artifact", "delete", &id, "--yes"]).bad(1, "artifact_pinned");
    assert_eq!(server.ask(&["artifact", "unpin", &id]).good(), format!("{id} not pinned\n"));
    server.ask(&["artifact", "delete", &id, "--yes"]).good();
    let listed = server.ask(&["artifacts", "list"]).good();
    assert!(!listed.contains(&id), "{listed}");
}

/// A server that held the output would have it in its own memory. Files that it maps do not count: the kernel gives those
/// back when it needs to.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_large_output_is_saved_and_the_server_never_holds_it() {
    const GROWTH_MIB_MAX: u64 = 32;
    // `cargo xtask soak --output` sets it to 1 GiB.
    let largest = std::env::var("RECOUNT_OUTPUT_BYTES").map_or(48 << 20, |bytes| bytes.parse().unwrap());
    let scene = Scene::playing("end = \"Done.\"");
    let (server, saved) = (scene.server(), scene.work().join("saved"));
    let client = client(&server);
    // What every run costs is there before.
    for bytes in [4 << 20, largest] {
        let before = held_mib(server.pid());
        let request = CreateRun {
            kind: "shell".into(),
            command: Some(format!("yes 0123456789abcde | head -c {bytes}")),
            output_bytes_max: Some(bytes),
            ..CreateRun::default()
        };
        let run = client.create_run(&request).await.unwrap();
        let mut tail = client.tail(Source::Run(run.id.clone()), None, Until::Ended);
        let mut most = before;
        while let Some(item) = tail.next().await {
            assert!(matches!(item.unwrap(), TailItem::Event { .. } | TailItem::CaughtUp { .. }));
            most = most.max(held_mib(server.pid()));
        }
        let artifact = client.list_run_artifacts(&run.id, &Listing::default()).await.unwrap().data.remove(0);
        assert_eq!((artifact.kind.as_str(), artifact.size_bytes), ("command_output", Some(bytes)));
        let saved_message =
            server.ask(&["artifact", "get", &artifact.id, "-o", saved.to_str().unwrap()]).good();
        assert!(saved_message.starts_with(&format!("{bytes} bytes of ")), "{saved_message}");
        let mut stream = client.stream_artifact(&artifact.id).await.unwrap();
        while let Some(piece) = stream.next().await.unwrap() {
            assert!(!piece.is_empty());
            most = most.max(held_mib(server.pid()));
        }
        let mut file = std::io::BufReader::with_capacity(1 << 20, std::fs::File::open(&saved).unwrap());
        let (mut size, mut line) = (0, Vec::new());
        while file.read_until(b'\n', &mut line).unwrap() > 0 {
            let whole = line == b"0123456789abcde\n" || bytes - size < 16;
            assert!(whole, "at byte {size}: {line:?}");
            size += line.len() as u64;
            line.clear();
        }
        assert_eq!(size, bytes);
        std::fs::remove_file(&saved).unwrap();
        println!("{bytes} bytes: the server held {before} MiB before, and at most {most}");
        assert!(bytes != largest || most < before + GROWTH_MIB_MAX, "from {before} to {most} MiB");
    }
}
