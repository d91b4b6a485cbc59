//! Calls: executed, refused and masked.

use crate::runs::scene::{Scene, course, first};

#[tokio::test]
async fn a_file_is_written_and_read() {
    let script = r#"
[[turn]]
text = "I write."
call = [{ name = "write_file", input = { path = "a.txt", content = "one\n" } }]
[[turn]]
call = [{ name = "read_file", input = { path = "a.txt" } }]
[[turn]]
text = "Done."
"#;
    let scene = Scene::with(script).await;
    let run = scene.start("write").await;
    let events = scene.ended(run).await;
    assert_eq!(
        course(&events),
        [
            "assistant.tool_call_proposed",
            "turn.completed",
            "tool.invoked",
            "tool.started",
            "artifact.created",
            "tool.file_write.proposed",
            "tool.file_write.applied",
            "artifact.updated",
            "tool.completed",
            "assistant.tool_call_proposed",
            "turn.completed",
            "tool.invoked",
            "tool.started",
            "tool.file_read.completed",
            "tool.completed",
            "assistant.final_answer",
            "turn.completed",
            "run.finished",
        ]
    );
    let path = first!(events, RunQueued).workspace_path.unwrap();
    assert_eq!(std::fs::read_to_string(format!("{path}/a.txt")).unwrap(), "one\n");
}

#[tokio::test]
async fn invalid_calls_are_refused_and_the_model_continues() {
    let script = r#"
[[turn]]
call = [
  { name = "fly_to_moon", input = {} },
  { name = "read_file", raw = "{\"path\": " },
  { name = "read_file", input = { nothing = 1 } },
]
[[turn]]
text = "I see."
"#;
    let scene = Scene::with(script).await;
    let run = scene.start("try").await;
    let events = scene.ended(run).await;
    let refused: Vec<(String, String)> = events
        .iter()
        .filter_map(|event| match event.payload() {
            recount_event::Payload::ToolRefused(refused) => {
                Some((refused.code.as_str().to_owned(), refused.message.clone()))
            }
            _ => None,
        })
        .collect();
    let codes: Vec<&str> = refused.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!(codes, ["unknown_tool", "invalid_input", "invalid_input"], "{refused:?}");
    assert_eq!(first!(events, ErrorToolUnavailable).tool_name, "fly_to_moon");
    assert_eq!(events.last().unwrap().type_name(), "run.finished");
}

#[tokio::test]
async fn a_secret_in_an_input_is_used_and_not_recorded() {
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let script = format!(
        "[[turn]]\ncall = [{{ name = \"write_file\", input = {{ path = \"key\", content = \"{secret}\" }} }}]\n[[turn]]\ntext = \"Done.\""
    );
    let scene = Scene::with(&script).await;
    let run = scene.start("write").await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, ToolCompleted).tool_name, "write_file");
    let path = first!(events, RunQueued).workspace_path.unwrap();
    assert_eq!(std::fs::read_to_string(format!("{path}/key")).unwrap(), secret);
    let log = scene.stored_lines(run).await.join("\n");
    assert!(!log.contains(&secret) && log.contains("redacted_paths"), "{log}");
}
