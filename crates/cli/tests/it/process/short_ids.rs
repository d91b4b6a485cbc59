//! Ids by their end or as `last`, and lists that are narrowed by time and outcome.

use serde_json::{Value, json};

use crate::process::scene::client;
use crate::process::story::{self, ASKING, BEGINNING};
use crate::server::{CommandOutput, Server, recount};

#[tokio::test]
async fn an_id_is_given_by_its_end_or_as_last() {
    let server = Server::fresh();
    let client = client(&server);
    let first = story::whole(&client, "first").await;
    let second = story::whole(&client, "second").await;
    let end = &first[first.len() - 8..];
    let short = format!("run_…{}", &first[first.len() - 6..]);
    for id in [end, &end.to_lowercase(), &short, &first] {
        for verb in ["show", "verify", "digest", "tail", "export"] {
            assert!(server.ask(&[verb, id, "--json"]).good().contains(&first), "{verb} {id}");
        }
    }
    assert!(server.ask(&["digest", "last"]).good().starts_with(&second));
    server.ask(&["show", "run_ZZZZZZ"]).bad(1, "run_not_found");
    // The beginning of both is the same, and no end.
    server.ask(&["show", &first[..10]]).bad(1, "run_not_found");

    let run = story::create(&client, "asking").await;
    story::append(&client, &run, 0, BEGINNING).await;
    story::append(&client, &run, 1, ASKING).await;
    assert_eq!(server.ask(&["deny", "last", "--yes"]).good(), "appr_1 rejected\n");
    server.ask(&["deny", "last", "--yes"]).bad(1, "there is none");
    server.ask(&["approve", "last", "--yes"]).bad(2, "cannot be confirmed with --yes");

    let session: Value = serde_json::from_str(&server.ask(&["session", "new", "--json"]).good()).unwrap();
    let id = session["id"].as_str().unwrap();
    assert!(server.ask(&["session", "show", &id[id.len() - 6..]]).good().starts_with(id));
    assert!(server.ask(&["session", "show", "last"]).good().starts_with(id));
}

#[tokio::test]
async fn runs_are_listed_with_age_duration_and_cost_by_time_and_outcome() {
    let server = Server::fresh();
    let client = client(&server);
    let good = story::whole(&client, "good").await;
    let bad = story::create(&client, "bad").await;
    story::append(&client, &bad, 0, &[("run.started", "{}")]).await;
    let failure = r#"{"code":"broken","message":"it broke","retriable":false}"#;
    story::append(&client, &bad, 1, &[("run.failed", failure)]).await;
    let listed = server.ask(&["ls"]).good();
    assert!(listed.lines().all(|line| line.contains("s ago  ")), "{listed}");
    assert!(listed.contains(&good) && listed.contains(&bad), "{listed}");
    let failed = server.ask(&["ls", "--failed"]).good();
    assert!(failed.starts_with(&bad) && failed.lines().count() == 1, "{failed}");
    assert_eq!(server.ask(&["ls", "--since", "1h"]).good().lines().count(), 2);
    let tomorrow = server.ask(&["ls", "--since", "2999-01-01"]);
    tomorrow.bad(2, "in the future");
    server.ask(&["ls", "--since", "soon"]).bad(2, "use a duration such as 12h");
    for more in [&[][..], &["--json"]] {
        let none = server.ask(&[&["ls", "--status", "cancelled"], more].concat());
        assert!(none.words.contains("no matching runs") && none.good().is_empty());
    }
}

#[tokio::test]
async fn shells_complete_ids_of_runs_and_prompts() {
    let server = Server::fresh();
    let client = client(&server);
    let run = story::create(&client, "asking").await;
    story::append(&client, &run, 0, BEGINNING).await;
    story::append(&client, &run, 1, ASKING).await;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("recount.bash");
    std::fs::write(&script, CommandOutput::of(recount().args(["completion", "bash"])).good()).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_recount"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let complete = |words: &str, count: usize| {
        let line = format!(
            "source {}; COMP_WORDS=({words} ''); COMP_CWORD={count}; _recount_with_ids recount '' x; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &line]).env("PATH", &path).env("RECOUNT_URL", server.url());
        CommandOutput::of(&mut bash).data
    };
    assert!(complete("recount show", 2).lines().any(|line| line == run));
    assert!(complete("recount approve", 2).lines().any(|line| line == "appr_1"));
    assert!(!complete("recount serve", 2).contains(&run));
    assert_eq!(json!(complete("recount", 1).contains("approve")), json!(true));
    for (shell, part) in
        [("zsh", ":_recount_runs'"), ("zsh", ":_recount_prompts'"), ("fish", "(__recount_ids prompts)")]
    {
        let script = CommandOutput::of(recount().args(["completion", shell])).good();
        assert!(script.contains(part), "{shell}: {part}");
    }
}
