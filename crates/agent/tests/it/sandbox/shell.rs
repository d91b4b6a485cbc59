//! Tests of the events of a command, on every layer and without a sandbox.

use recount_agent::sandbox::Mode;

use crate::sandbox::fixture::{Fixture, LAYERS, of_type};

#[tokio::test]
async fn a_command_is_reported_from_start_to_end() {
    for mode in LAYERS.into_iter().chain([Mode::Off]) {
        let fixture = Fixture::new(mode).await;
        let ran = fixture.shell("echo out; echo err >&2; echo kept > file; exit 3").await;
        assert_eq!(ran.outcome.output, "exit code 3\n--- stdout\nout\n--- stderr\nerr\n");
        assert_eq!((ran.text("stdout").as_str(), ran.text("stderr").as_str()), ("out\n", "err\n"));
        assert_eq!(ran.status(), "completed");
        let command = of_type(&ran.reporter.drafts, "tool.shell.command").remove(0);
        assert_eq!(command["sandbox_layer"], fixture.sandbox.label(false));
        assert_eq!(command["argv"][2], "echo out; echo err >&2; echo kept > file; exit 3");
        assert_eq!(command["kind"], "shell");
        let exited = ran.exited();
        assert_eq!(exited["exit_code"], 3);
        assert_eq!(exited["stdout_bytes"], 4);
        assert_eq!(exited["truncated"], false);
        assert_eq!(std::fs::read_to_string(fixture.workspace.join("file")).unwrap(), "kept\n");
    }
}
