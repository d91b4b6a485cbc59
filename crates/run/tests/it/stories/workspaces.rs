//! Runs whose workspace comes and goes, and what they keep.

use recount_run::Status;

use super::teller::Story;

pub(crate) fn all() -> Vec<(Story, Status)> {
    vec![(artifacts(), Status::Finished), (workspace_failed(), Status::Failed)]
}

/// A command whose output is kept in part, a patch with all that is known of it, and a workspace that goes
/// after the ending.
fn artifacts() -> Story {
    let mut story = Story::of_task("artifacts");
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"agent_loop","title":"Key the budget","requested_by":"operator","request_text":"Key the budget.","model":"claude-sonnet-4-5","provider":"anthropic","workspace_path":"/srv/recount/workspaces/budget","workspace_mode":"clone"}"#,
    );
    story.emit(3, "run.started", r#"{"worker_id":"worker-1"}"#);
    story.emit(99, "workspace.provisioned", r#"{"mode":"clone","path":"/srv/recount/workspaces/budget","files":412,"bytes":1843200,"duration_ms":96,"source":"/home/ann/budget"}"#);
    story.emit(99, "artifact.created", r#"{"artifact_id":"@art.picture","kind":"image","size_bytes":20311,"mime":"image/png","hash":"blake3:5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c","name":"budget.png"}"#);
    story.emit(99, "user.attachment", r#"{"kind":"image","mime":"image/png","artifact_id":"@art.picture"}"#);
    story.turn(100, 0);
    story.propose(500, "tests", "shell_exec", r#"{"command":"go test -v ./..."}"#);
    story.propose(
        700,
        "edit",
        "edit_file",
        r#"{"path":"governor.go","old_text":"scope)","new_text":"scope, key)"}"#,
    );
    story.turn_done(710, "tool_use", [903, 101, 4224]);
    story.tool(712, "tool.invoked", "tests", r#""kind":"shell","executor":"server","risk_level":"medium","irreversible":false,"args_summary":"go test -v ./...""#);
    story.process(713, "tests", r#"["sh","-c","go test -v ./..."]"#, &[(900, 'o', b"=== RUN\n")], (990, 0));
    story.emit(991, "artifact.created", r#"{"artifact_id":"@art.output","kind":"command_output","size_bytes":10485760,"summary":"go test -v ./...","mime":"text/plain","hash":"blake3:7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d7d","tool_call_id":"@call.tests","truncated":true,"original_size_bytes":31457280}"#);
    story.tool(991, "tool.completed", "tests", r#""kind":"shell","duration_ms":279,"summary":"exited with status 0","output":"=== RUN\n","result_artifact_id":"@art.output""#);
    story.tool(992, "tool.invoked", "edit", r#""kind":"file","executor":"server","risk_level":"medium","irreversible":false,"args_summary":"governor.go""#);
    story.emit(993, "artifact.created", r#"{"artifact_id":"@art.edit","kind":"patch","size_bytes":211,"summary":"governor.go: 1 hunk, +1/-1 line","mime":"text/x-diff","hash":"blake3:3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b3b","tool_call_id":"@call.edit","path":"governor.go","base_revision":"sha256:8a4f8a4f8a4f8a4f8a4f8a4f8a4f8a4f8a4f8a4f8a4f8a4f8a4f8a4f8a4f8a4f","additions":1,"deletions":1,"hunks":1}"#);
    story.tool_event(993, "tool.edit.proposed", "edit", r#""path":"governor.go","patch_artifact_id":"@art.edit","summary":"1 hunk, +1/-1 line","auto_apply":true"#);
    story.tool_event(
        995,
        "tool.edit.applied",
        "edit",
        r#""patch_artifact_id":"@art.edit","applied_at":"@at.995","path":"governor.go""#,
    );
    story.emit(
        995,
        "artifact.updated",
        r#"{"artifact_id":"@art.edit","field":"status","old_value":"proposed","new_value":"applied"}"#,
    );
    story.tool(
        995,
        "tool.completed",
        "edit",
        r#""kind":"file","duration_ms":3,"summary":"1 hunk, +1/-1 line","output":"done""#,
    );
    story.turn(997, 1);
    story.text_block(1400, 0, &["The budget has ", "its key."]);
    story.answer(1500, "The budget has its key.");
    story.turn_done(1500, "end_turn", [1103, 9, 3444]);
    story.finished(1503);
    story.emit(90_000_000, "gap.workspace_removed", r#"{"path":"/srv/recount/workspaces/budget","reason":"its task was deleted","removed_at":"@at.89999990"}"#);
    story
}

fn workspace_failed() -> Story {
    let mut story = Story::of_task("workspace-failed");
    story.emit(
        0,
        "run.queued",
        r#"{"kind":"shell","title":"make check","requested_by":"operator","request_text":"make check","workspace_mode":"clone"}"#,
    );
    story.emit(4, "run.started", r#"{"worker_id":"worker-1"}"#);
    story.emit(9, "workspace.failed", r#"{"mode":"clone","code":"source_missing","message":"the folder /home/ann/budget is missing","path":"/srv/recount/workspaces/check","source":"/home/ann/budget"}"#);
    story.failed(
        9,
        "workspace_failed",
        "the workspace could not be made: the folder /home/ann/budget is missing",
        false,
    );
    story
}
