//! How often a call waits for the disk: each append is a wait, and the appends of a run are sequential.

use recount_event::codec;

use crate::runs::scene::Scene;

/// The types of events of each append since the first turn began.
async fn appends(call: &str) -> Vec<Vec<String>> {
    let scene = Scene::with(&format!("[[turn]]\ncall = [{call}]\n[[turn]]\ntext = \"Done.\"")).await;
    let run = scene.start("go").await;
    scene.ended(run).await;
    let types = |records: Vec<bytes::Bytes>| -> Vec<String> {
        records.iter().map(|bytes| codec::decode(bytes).unwrap().type_name().to_owned()).collect()
    };
    let all = scene.disk.appends().into_iter().map(types);
    let all = all.skip_while(|types| !types.iter().any(|name| name == "turn.started"));
    // Output is appended while its command continues, so the call does not wait for it. How it is distributed to
    // appends depends on the speed of the command.
    let output = |name: &String| name == "tool.shell.output_chunk";
    all.filter(|types| !types.iter().all(output)).skip(1).collect()
}

fn place(appends: &[Vec<String>], type_name: &str) -> usize {
    let found = appends.iter().position(|types| types.iter().any(|name| name == type_name));
    found.unwrap_or_else(|| panic!("there is no {type_name}: {appends:#?}"))
}

#[tokio::test]
async fn a_call_waits_for_at_most_three_syncs() {
    let calls = [
        r#"{ name = "todo_write", input = { todos = [{ content = "This", status = "pending" }] } }"#,
        r#"{ name = "glob", input = { pattern = "*" } }"#,
        r#"{ name = "write_file", input = { path = "a.txt", content = "one" } }"#,
        r#"{ name = "shell_exec", input = { command = "echo one; echo two >&2" } }"#,
    ];
    for call in calls {
        let appends = appends(call).await;
        let waits = 1 + place(&appends, "tool.completed") - place(&appends, "tool.invoked");
        assert!(waits <= 3, "{call} waited {waits} times: {appends:#?}");
    }
}

#[tokio::test]
async fn a_turn_with_a_call_needs_three_syncs_until_the_next_request() {
    let appends =
        appends(r#"{ name = "todo_write", input = { todos = [{ content = "This", status = "pending" }] } }"#)
            .await;
    let waits = 1 + place(&appends, "turn.started") - place(&appends, "turn.completed");
    assert_eq!(waits, 3, "{appends:#?}");
}
