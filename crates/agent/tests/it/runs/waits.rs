//! How often a call waits for the disk: each append is a wait, and of a run they come one after the other.

use recount_event::codec;

use crate::runs::scene::Scene;

/// The types of events of each append since the first turn began.
async fn appends(call: &str) -> Vec<Vec<String>> {
    let scene = Scene::with(&format!("[[turn]]\ncall = [{call}]\n[[turn]]\ntext = \"Done.\"")).await;
    let run = scene.ask("go").await;
    scene.ended(run).await;
    let types = |records: Vec<bytes::Bytes>| -> Vec<String> {
        records.iter().map(|bytes| codec::decode(bytes).unwrap().type_name().to_owned()).collect()
    };
    let all = scene.disk.appends().into_iter().map(types);
    let all = all.skip_while(|types| !types.iter().any(|name| name == "turn.started"));
    // Output is appended while its command goes on: the call does not wait for it. How much of it shares an append with
    // what comes before or after depends on how fast the command is.
    let output = |name: &String| name == "tool.shell.output_chunk";
    all.filter(|types| !types.iter().all(output)).skip(1).collect()
}

fn place(appends: &[Vec<String>], type_name: &str) -> usize {
    let found = appends.iter().position(|types| types.iter().any(|name| name == type_name));
    found.unwrap_or_else(|| panic!("there is no {type_name}: {appends:#?}"))
}

#[tokio::test]
async fn a_call_waits_for_the_disk_three_times_at_most() {
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
async fn from_an_answer_with_a_call_to_the_next_question_there_are_three_waits() {
    let appends =
        appends(r#"{ name = "todo_write", input = { todos = [{ content = "This", status = "pending" }] } }"#)
            .await;
    let waits = 1 + place(&appends, "turn.started") - place(&appends, "turn.completed");
    assert_eq!(waits, 3, "{appends:#?}");
}
