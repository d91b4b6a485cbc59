//! Verbs that only read work on the data folder where no server answers, and name the server that uses it.

use std::process::Stdio;

use crate::process::scene::Scene;
use crate::process::{story, tamper};
use crate::server::{CommandOutput, Server, recount, the_usual_address_is_free};

/// A request that the scripted model of the scene knows.
const REQUEST: &str = "edit it";

fn alone(scene: &Scene, arguments: &[&str]) -> CommandOutput {
    CommandOutput::of(recount().args(arguments).envs(scene.alone()).current_dir(scene.work()))
}

#[test]
fn what_a_run_without_a_server_left_is_read_without_one() {
    the_usual_address_is_free();
    let scene = Scene::new();
    alone(&scene, &["ls"]).bad(3, "no response from");
    assert!(!scene.data().exists(), "reading makes no folder");
    alone(&scene, &["run", REQUEST]).good();
    let listed = alone(&scene, &["ls"]).good();
    let run = listed.split(' ').next().unwrap();
    assert!(alone(&scene, &["show", "last"]).good().contains("Edited."));
    for verb in ["verify", "digest", "tail"] {
        assert!(alone(&scene, &[verb, run, "--json"]).good().contains(run), "{verb}");
    }
}

#[test]
fn a_server_on_another_port_is_named() {
    the_usual_address_is_free();
    let scene = Scene::new();
    let server = scene.server();
    for arguments in [&["run", REQUEST][..], &["ls"], &["chat", "--message", REQUEST]] {
        alone(&scene, arguments).bad(5, &format!("add --url {}", server.url()));
    }
    let refused = scene.run(&server, &["--workspace", "/usr", REQUEST]).output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(words.contains("--allow-workspace"), "{words}");
}

#[tokio::test]
async fn a_closed_pipe_does_not_hide_what_failed() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let run = story::whole(&crate::process::scene::client(&server), "one").await;
    drop(server);
    tamper::change_first_event(data.path(), &run).await;
    let mut command = recount();
    command.args(["verify", "--data"]).arg(data.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
