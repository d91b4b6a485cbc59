//! `recount apply`, `reject` and `revert` of one patch, with real processes: a run writes a file, and the file follows what
//! becomes of its patch.

use std::path::PathBuf;

use recount_client::reply::Artifact;
use recount_client::{Client, Listing};

use crate::process::scene::Scene;
use crate::server::{CommandOutput, Server};

const SCRIPT: &str = r#"
[[turn]]
text = "I write."
call = [{ name = "write_file", input = { path = "note.txt", content = "one\ntwo\n" } }]
[[turn]]
text = "Done."
"#;

struct Written {
    scene: Scene,
    server: Server,
    client: Client,
    file: PathBuf,
    patch: Artifact,
}

impl Written {
    async fn new() -> Self {
        let scene = Scene::playing(SCRIPT);
        let server = scene.server();
        let client = Client::new(&server.url(), None).unwrap();
        CommandOutput::of(&mut scene.run(&server, &["write it"])).good();
        let run = client.list_runs(&Listing::default()).await.unwrap().data.remove(0);
        let patch = client.list_artifacts(&Listing::default(), Some(&run.id), None).await.unwrap();
        let patch = patch.data.into_iter().find(|artifact| artifact.kind == "patch").unwrap();
        let file = PathBuf::from(run.workspace_path.unwrap()).join("note.txt");
        assert_eq!((patch.status.as_str(), text(&file).as_deref()), ("applied", Some("one\ntwo\n")));
        Written { scene, server, client, file, patch }
    }

    fn verb(&self, words: &[&str]) -> CommandOutput {
        self.scene.ask(&self.server, words)
    }
}

fn text(file: &PathBuf) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

#[tokio::test]
async fn a_patch_is_reverted_and_what_reverts_it_is_reverted_again() {
    let written = Written::new().await;
    let id = written.patch.id.as_str();
    let output = written.verb(&["revert", id, "--diff"]).good();
    assert!(output.contains("+one") && text(&written.file).is_some(), "only shown: {output}");
    let output = written.verb(&["revert", id, "--reason", "not wanted"]).good();
    assert!(output.contains("-one") && output.contains("-two"), "the diff that was applied: {output}");
    assert_eq!(text(&written.file), None);
    let patch = written.client.get_artifact(id).await.unwrap();
    assert_eq!((patch.status.as_str(), patch.reverted_at.is_some()), ("applied", true));
    // A second request is refused with the status.
    let again = written.verb(&["revert", id]);
    assert!(again.status != 0 && again.words.contains("was reverted at"), "{again:?}");
    let run = written.client.list_runs(&Listing::default()).await.unwrap().data.remove(0);
    assert_eq!((run.kind.as_str(), run.status.as_str()), ("file", "finished"));
    let inverse = written.client.list_artifacts(&Listing::default(), Some(&run.id), None).await.unwrap();
    let inverse = inverse.data.first().unwrap().id.clone();
    written.verb(&["revert", &inverse]).good();
    assert_eq!(text(&written.file).as_deref(), Some("one\ntwo\n"));
}

#[tokio::test]
async fn a_file_that_has_changed_since_stays_as_it_is() {
    let written = Written::new().await;
    let id = written.patch.id.as_str();
    std::fs::write(&written.file, "one\ntwo\nthree\n").unwrap();
    let output = written.verb(&["revert", id]);
    assert!(output.status != 0 && output.words.contains("note.txt has changed"), "{output:?}");
    assert_eq!(text(&written.file).as_deref(), Some("one\ntwo\nthree\n"), "nothing was written");
    assert_eq!(written.client.get_artifact(id).await.unwrap().reverted_at, None);
    for verb in ["apply", "reject"] {
        let output = written.verb(&[verb, id]);
        assert!(
            output.status != 0 && output.words.contains("its status must be proposed"),
            "{verb}: {output:?}"
        );
    }
}
