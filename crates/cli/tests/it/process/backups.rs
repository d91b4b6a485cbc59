//! Backups: created while events come, moved to the requested path, complete, and usable as a data folder.

use std::cell::Cell;
use std::path::Path;

use futures_util::future::join_all;

use crate::process::scene::client;
use crate::process::story;
use crate::server::{CommandOutput, Server, recount};

/// Whether every run of a copy is a beginning of the same run on the server it was copied from. Answers how many.
fn check_copy(server: &Server, copy: &Path) -> usize {
    let verified = CommandOutput::of(recount().args(["verify", "--data"]).arg(copy)).good();
    let restored = Server::start(copy);
    let mut digests = Vec::new();
    for line in verified.lines() {
        let run = line.split_whitespace().next().unwrap();
        let digest = restored.ask(&["digest", run]).good();
        let head = digest.split_whitespace().last().unwrap().to_owned();
        assert!(line.ends_with(&head), "{line} is not {digest}");
        server.ask(&["verify", run, "--expect", &head]).good();
        digests.push(digest);
    }
    // It is a store like any other, and goes on by itself.
    let own = recount_client::request::CreateRun {
        kind: "external".to_owned(),
        ..recount_client::request::CreateRun::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(client(&restored).create_run(&own)).unwrap();
    digests.len()
}

#[test]
fn a_backup_under_load_is_every_run_as_it_was_at_one_moment() {
    let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path());
    let copies: Vec<_> = ["one", "two", "three"].map(|name| place.path().join(name)).into();
    let appended = Cell::new(0_u64);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client(&server);
        for name in ["old", "older"] {
            story::whole(&client, name).await;
        }
        let stop = Cell::new(false);
        let producers = (0..4).map(|number| {
            let (client, stop, appended) = (&client, &stop, &appended);
            async move {
                let run = story::create(client, &format!("producer {number}")).await;
                story::append(client, &run, 0, story::BEGINNING).await;
                let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(2000));
                let text: &'static str = Box::leak(text.into_boxed_str());
                for seq in 1.. {
                    if stop.get() {
                        return;
                    }
                    story::append(client, &run, seq, &[("user.message", text); 5]).await;
                    appended.set(appended.get() + 1);
                }
            }
        });
        let backups = async {
            for copy in &copies {
                // Each begins while events come, and ends while they do.
                let before = appended.get();
                while appended.get() < before + 20 {
                    crate::server::look_again().await;
                }
                let mut child = tokio_child(&server, copy);
                let status = loop {
                    if let Some(status) = child.try_wait().unwrap() {
                        break status;
                    }
                    crate::server::look_again().await;
                };
                assert!(status.success(), "{status}");
                assert!(appended.get() > before + 20, "nothing was told meanwhile");
            }
            stop.set(true);
        };
        tokio::join!(join_all(producers), backups);
    });
    for copy in &copies {
        assert_eq!(check_copy(&server, copy), 6);
    }
    let left = std::fs::read_dir(data.path().join("backups")).unwrap().count();
    assert_eq!(left, 0, "they were moved, not copied");
}

fn tokio_child(server: &Server, copy: &Path) -> std::process::Child {
    recount()
        .args(["--url", &server.url(), "backup"])
        .arg(copy)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the binary starts")
}

#[tokio::test]
async fn without_a_place_it_stays_below_the_data_folder() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    story::whole(&client(&server), "one").await;
    let answer = server.ask(&["backup", "--verify", "--json"]).good();
    let lines: Vec<serde_json::Value> =
        answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let path = Path::new(lines[0]["path"].as_str().unwrap());
    assert_eq!(path.parent(), Some(data.path().canonicalize().unwrap().join("backups").as_path()));
    assert_eq!((lines.len(), &lines[1]["ok"]), (2, &serde_json::json!(true)), "{answer}");
    assert!(path.join("recount.db").is_file());
}

#[tokio::test]
async fn without_a_server_a_folder_is_copied_as_it_is() {
    let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copy = place.path().join("copy");
    let run = {
        let server = Server::start(data.path());
        story::whole(&client(&server), "one").await
    };
    let backup = || CommandOutput::of(recount().arg("backup").arg(&copy).arg("--data").arg(data.path()));
    let output =
        CommandOutput::of(recount().args(["backup", "--verify", "--data"]).arg(data.path()).arg(&copy))
            .good();
    assert!(output.contains("backup written to") && output.contains(&format!("{run} ok")), "{output}");
    backup().bad(2, "already exists");
    std::fs::remove_dir_all(&copy).unwrap();
    let server = Server::start(data.path());
    backup().bad(5, "in use by process");
    drop(server);
    backup().good();
    CommandOutput::of(recount().args(["backup", "--data"]).arg(place.path()).arg(place.path().join("x")))
        .bad(2, "contains no store");
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_leaves_nothing() {
    let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(data.path());
    let there = place.path().join("there");
    std::fs::write(&there, "mine").unwrap();
    let there = there.to_str().unwrap();
    server.ask(&["backup", there]).bad(2, "already exists; name a new folder");
    server.ask(&["backup", place.path().to_str().unwrap()]).bad(2, "already exists");
    server.ask(&["backup", &format!("{there}/below")]).bad(2, "is not a folder");
    assert_eq!(std::fs::read_to_string(there).unwrap(), "mine");
    assert!(!data.path().join("backups").exists(), "nothing was started");
    // The folder for backups is in the way.
    std::fs::write(data.path().join("backups"), "a file").unwrap();
    let elsewhere = place.path().join("elsewhere");
    server.ask(&["backup", elsewhere.to_str().unwrap()]).bad(1, "backups");
    assert!(!elsewhere.exists());
    CommandOutput::of(recount().args(["backup", "--url", "http://127.0.0.1:1"]).arg(&elsewhere)).bad(3, "");
}

/// A store with a run and blobs enough that copying them takes some steps.
async fn with_blobs(data: &Path) {
    let mut server = Server::start(data);
    story::whole(&client(&server), "one").await;
    server.stop();
    for n in 0..BLOBS {
        let bytes = vec![n; 20_000];
        let hash = blake3::hash(&bytes).to_hex().to_string();
        let folder = data.join("blobs").join(&hash[..2]);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(&hash), bytes).unwrap();
    }
}

const BLOBS: u8 = 60;

/// Whether a copy has come so far, as can be seen from outside.
type Step = Box<dyn Fn(&Path) -> bool>;

/// What can be seen of a copy while it is made, in order.
fn steps() -> Vec<Step> {
    let is_there = |name: &'static str| -> Step { Box::new(move |copy: &Path| copy.join(name).exists()) };
    let mut steps = vec![is_there(""), is_there("backup"), is_there("recount.db"), is_there("blobs")];
    for count in [1, 9, 30, usize::from(BLOBS) - 1] {
        steps.push(Box::new(move |copy: &Path| {
            let folders = std::fs::read_dir(copy.join("blobs")).into_iter().flatten().flatten();
            folders.filter(|folder| folder.path().is_dir()).count() >= count.min(40)
        }));
    }
    steps
}

#[tokio::test]
async fn a_backup_killed_at_any_step_is_never_taken_for_a_store() {
    let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    with_blobs(data.path()).await;
    let mut broken = 0;
    for (number, step) in steps().into_iter().enumerate() {
        let to = place.path().join(format!("copy{number}"));
        let half = place.path().join(format!(".unfinished-copy{number}"));
        let mut child = recount().args(["backup", "--data"]).arg(data.path()).arg(&to).spawn().unwrap();
        while !step(&half) && child.try_wait().unwrap().is_none() {
            crate::server::wait_to_look();
        }
        // It may have come to its end meanwhile.
        drop(child.kill());
        child.wait().unwrap();
        if to.exists() {
            CommandOutput::of(recount().args(["verify", "--data"]).arg(&to)).good();
            continue;
        }
        broken += 1;
        let serve =
            CommandOutput::of(recount().args(["serve", "--bind", "127.0.0.1:0", "--data"]).arg(&half));
        serve.bad(5, "is an unfinished backup");
        let again = || CommandOutput::of(recount().args(["backup", "--data"]).arg(data.path()).arg(&to));
        again().bad(2, "is an unfinished backup; delete it");
        std::fs::remove_dir_all(&half).unwrap();
        again().good();
        drop(Server::start(&to));
    }
    assert!(broken >= 4, "{broken} were killed before their end");
}

#[tokio::test]
async fn a_server_killed_while_it_makes_a_backup_clears_away_what_is_left() {
    let data = tempfile::tempdir().unwrap();
    with_blobs(data.path()).await;
    let backups = data.path().join("backups");
    for step in steps() {
        let mut server = Server::start(data.path());
        let left = || -> Vec<std::path::PathBuf> {
            let entries = std::fs::read_dir(&backups).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        assert!(left().iter().all(|path| !path.to_string_lossy().contains(".unfinished")), "{:?}", left());
        let mut asking = recount().args(["--url", &server.url(), "backup"]).spawn().unwrap();
        let half = || left().into_iter().find(|path| path.to_string_lossy().contains(".unfinished"));
        while !half().is_some_and(|half| step(&half)) && asking.try_wait().unwrap().is_none() {
            crate::server::wait_to_look();
        }
        server.kill();
        asking.wait().unwrap();
        if let Some(half) = half() {
            let doctor = CommandOutput::of(recount().args(["doctor", "--data"]).arg(data.path()));
            assert!(doctor.data.contains(&format!("{} is unfinished", half.display())), "{doctor:?}");
        }
        for whole in left().into_iter().filter(|path| !path.to_string_lossy().contains(".unfinished")) {
            CommandOutput::of(recount().args(["verify", "--data"]).arg(&whole)).good();
            std::fs::remove_dir_all(&whole).unwrap();
        }
    }
    drop(Server::start(data.path()));
    assert_eq!(std::fs::read_dir(&backups).unwrap().count(), 0);
}

#[tokio::test]
async fn a_folder_that_is_not_a_whole_store_is_refused() {
    let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    with_blobs(data.path()).await;
    let copy = place.path().join("copy");
    CommandOutput::of(recount().args(["backup", "--verify", "--data"]).arg(data.path()).arg(&copy)).good();
    let blob = std::fs::read_dir(copy.join("blobs")).unwrap().next().unwrap().unwrap().path();
    let count = std::fs::read_dir(&blob).unwrap().count();
    std::fs::remove_dir_all(&blob).unwrap();
    let message = format!("should have {BLOBS} blobs, but it has {}", usize::from(BLOBS) - count);
    let verified = CommandOutput::of(recount().args(["verify", "--data"]).arg(&copy));
    assert!(verified.status == 1 && verified.data.contains(&message), "{verified:?}");
    let serve = |folder: &Path| {
        CommandOutput::of(recount().args(["serve", "--bind", "127.0.0.1:0", "--data"]).arg(folder))
    };
    serve(&copy).bad(5, &message);
    for rest in ["blobs", "keys", "tenants"] {
        let part = place.path().join(rest);
        std::fs::create_dir_all(part.join(rest)).unwrap();
        serve(&part).bad(5, "recount.db");
        assert!(!part.join("recount.db").exists(), "{rest}: nothing was made");
    }
}

/// The audit trail is a tenant like others: it has a store of its own, which the marker of no other store counts.
#[tokio::test]
async fn a_backup_that_lost_the_store_of_a_tenant_is_refused_and_named() {
    let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let of_server = place.path().join("of-server");
    {
        let mut server = Server::start(data.path());
        CommandOutput::of(recount().args(["--url", &server.url(), "backup"]).arg(&of_server)).good();
        server.stop();
    }
    let of_folder = place.path().join("of-folder");
    CommandOutput::of(recount().args(["backup", "--verify", "--data"]).arg(data.path()).arg(&of_folder))
        .good();
    for copy in [of_server, of_folder] {
        std::fs::remove_dir_all(copy.join("tenants/recount-audit")).unwrap();
        let message = "has no stores for its tenants recount-audit";
        let verified = CommandOutput::of(recount().args(["verify", "--data"]).arg(&copy));
        assert!(verified.status == 1 && verified.data.contains(message), "{verified:?}");
        let healed = CommandOutput::of(recount().args(["doctor", "--data"]).arg(&copy));
        assert!(healed.status == 1 && healed.data.contains(message), "{healed:?}");
        let again = place.path().join("again");
        CommandOutput::of(recount().args(["backup", "--data"]).arg(&copy).arg(&again)).bad(1, message);
        let served =
            || CommandOutput::of(recount().args(["serve", "--bind", "127.0.0.1:0", "--data"]).arg(&copy));
        served().bad(1, message);
        assert!(!copy.join("tenants/recount-audit").exists(), "nothing was made in its place");
    }
}

#[tokio::test]
async fn a_damaged_store_is_not_backed_up_without_a_word() {
    let (data, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = {
        let mut server = Server::start(data.path());
        let run = story::whole(&client(&server), "one").await;
        server.stop();
        run
    };
    crate::process::tamper::change_first_event(data.path(), &run).await;
    let copy = place.path().join("copy");
    CommandOutput::of(recount().args(["backup", "--data"]).arg(data.path()).arg(&copy))
        .bad(1, "the store is damaged, so no backup was created");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}
