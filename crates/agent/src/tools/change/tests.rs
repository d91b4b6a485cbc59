//! Tests of the tools that change files: results, events and refusals.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::approved::FileRevisions;
use crate::tool::{ApprovedCall, OutcomeStatus};
use crate::tools::Tools;
use crate::tools::scene::{Scene, code, refused};
use recount_event::digest::call_digest;
use serde_json::{Value, json};

fn types(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

#[tokio::test]
async fn a_new_file_is_proposed_before_and_applied_after() {
    let mut scene = Scene::new();
    let at = scene.at("src/deep/new.rs");
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let look = at.clone();
    scene.recorder.on_report = Some(Box::new(move || sender.send(look.exists()).unwrap()));
    let outcome = scene.run("write_file", json!({ "path": "src/deep/new.rs", "content": "a\nb" })).await;
    assert!(!receiver.recv().unwrap(), "the file is not touched before the proposal is durable");
    assert_eq!(outcome.status, OutcomeStatus::Completed);
    assert_eq!(outcome.output, "Created src/deep/new.rs: new file, 2 lines.");
    assert_eq!(std::fs::read(at).unwrap(), b"a\nb");
    assert_eq!(
        types(
            &scene
                .recorder
                .drafts
                .iter()
                .map(|draft| (draft.payload.type_name().to_owned(), Value::Null))
                .collect::<Vec<_>>()
        ),
        ["artifact.created", "tool.file_write.proposed"]
    );
    let events = scene.events(&outcome);
    assert_eq!(
        events[1].1,
        json!({
            "tool_call_id": "call_1", "path": "src/deep/new.rs", "patch_artifact_id": "art_1",
            "summary": "new file, 2 lines", "auto_apply": true
        })
    );
    assert_eq!(
        events[2],
        (
            "tool.file_write.applied".to_owned(),
            json!({
                "patch_artifact_id": "art_1", "tool_call_id": "call_1", "applied_at": "1970-01-01T00:00:01.000Z",
                "path": "src/deep/new.rs"
            })
        )
    );
    assert_eq!(
        events[3],
        (
            "artifact.updated".to_owned(),
            json!({ "artifact_id": "art_1", "field": "status", "old_value": "proposed", "new_value": "applied" })
        )
    );
    let artifacts = scene.stored.artifacts.lock().unwrap();
    assert_eq!(artifacts[0].mime, "text/x-diff");
    assert_eq!(
        artifacts[0].bytes,
        &b"--- /dev/null\n+++ b/src/deep/new.rs\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"[..]
    );
    let target = artifacts[0].target.clone().unwrap();
    assert_eq!((target.base_revision.as_str(), target.additions, target.hunks), ("absent", 2, 1));
}

#[tokio::test]
async fn writing_over_a_file_is_an_edit_that_keeps_its_mode() {
    let mut scene = Scene::with(&[("run.sh", "#!/bin/sh\n")]);
    std::fs::set_permissions(scene.at("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let outcome = scene.run("write_file", json!({ "path": "run.sh", "content": "\u{FEFF}x\r\ny" })).await;
    assert_eq!(outcome.summary, "run.sh: 1 hunk, +2/-1 lines");
    assert_eq!(scene.get("run.sh"), "\u{FEFF}x\r\ny");
    assert_eq!(std::fs::metadata(scene.at("run.sh")).unwrap().permissions().mode() & 0o777, 0o755);
    let events = scene.events(&outcome);
    assert_eq!(
        types(&events),
        ["artifact.created", "tool.edit.proposed", "tool.edit.applied", "artifact.updated"]
    );
    let target = scene.stored.artifacts.lock().unwrap()[0].target.clone().unwrap();
    assert_eq!(target.base_revision, revision(b"#!/bin/sh\n"));
}

#[tokio::test]
async fn an_edit_preserves_the_rest_of_the_file() {
    for (before, old, new, after) in [
        ("one\r\ntwo\r\nthree", "two", "2", "one\r\n2\r\nthree"),
        ("one\r\ntwo\r\n", "one\ntwo\n", "1\n", "1\r\n"),
        ("\u{FEFF}one\n", "one", "1", "\u{FEFF}1\n"),
        ("one", "one", "", ""),
    ] {
        let mut scene = Scene::with(&[("f", before)]);
        let outcome = scene.run("edit_file", json!({ "path": "f", "old_text": old, "new_text": new })).await;
        assert_eq!(
            (outcome.status, scene.get("f").as_str()),
            (OutcomeStatus::Completed, after),
            "{before:?}"
        );
    }
    let mut scene = Scene::new();
    scene.put("latin", b"gr\xFC\xDFe a b a\n");
    let outcome = scene
        .run("edit_file", json!({ "path": "latin", "old_text": "a", "new_text": "c", "replace_all": true }))
        .await;
    assert_eq!(outcome.output, "Edited latin: 1 hunk, +1/-1 line (2 replacements).");
    assert_eq!(std::fs::read(scene.at("latin")).unwrap(), b"gr\xFC\xDFe c b c\n");
}

#[tokio::test]
async fn files_that_cannot_be_changed_are_refused_without_events() {
    let mut scene = Scene::with(&[("f", "x x\n"), (".git/config", "[core]\n"), ("dir/a", "a")]);
    scene.put("bin", b"a\0b");
    let large = std::fs::File::create(scene.at("large")).unwrap();
    large.set_len(limits::EDIT_FILE_BYTES_MAX as u64 + 1).unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), scene.at("out")).unwrap();
    symlink("f", scene.at("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.at("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let files = scene.files();
    for (path, edit_code, write_code) in [
        ("f", "text_not_unique", "no_change"),
        ("none", "not_found", ""),
        (".git/config", "protected_path", "protected_path"),
        ("dir", "is_a_folder", "is_a_folder"),
        ("bin", "binary_file", "binary_file"),
        ("large", "file_too_large", "file_too_large"),
        ("out/x", "symbolic_link", "symbolic_link"),
        ("link", "symbolic_link", "symbolic_link"),
        ("pipe", "not_a_file", "not_a_file"),
        ("../x", "outside_workspace", "outside_workspace"),
        ("/etc/passwd", "outside_workspace", "outside_workspace"),
        ("f/x", "not_found", "not_found"),
    ] {
        let input = json!({ "path": path, "old_text": "x", "new_text": "y" });
        let outcome = scene.run("edit_file", input).await;
        assert_eq!(code(&outcome), edit_code, "{path}: {outcome:?}");
        if !write_code.is_empty() {
            let outcome = scene.run("write_file", json!({ "path": path, "content": "x x\n" })).await;
            assert_eq!(code(&outcome), write_code, "{path}: {outcome:?}");
        }
        if path == "f/x" {
            // That a file is in the way is noticed only when writing; the patch is rejected.
            assert_eq!(
                types(
                    &scene
                        .recorder
                        .drafts
                        .drain(..)
                        .map(|draft| (draft.payload.type_name().to_owned(), Value::Null))
                        .collect::<Vec<_>>()
                ),
                ["artifact.created", "tool.file_write.proposed"]
            );
        }
        assert!(scene.recorder.drafts.is_empty(), "{path}");
    }
    assert_eq!(scene.files(), files);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_changed_meanwhile_is_not_written_and_its_patch_is_rejected() {
    let mut scene = Scene::with(&[("f", "old\n")]);
    let at = scene.at("f");
    scene.recorder.on_report = Some(Box::new(move || std::fs::write(&at, "another's\n").unwrap()));
    let outcome = scene.run("edit_file", json!({ "path": "f", "old_text": "old", "new_text": "new" })).await;
    refused(&outcome, "file_changed");
    assert_eq!(scene.get("f"), "another's\n");
    let events = scene.events(&outcome);
    assert_eq!(types(&events), ["artifact.created", "tool.edit.proposed", "artifact.updated"]);
    assert_eq!(events[2].1["new_value"], "rejected");

    let at = scene.at("new");
    scene.recorder.on_report = Some(Box::new(move || std::fs::write(&at, "first").unwrap()));
    let outcome = scene.run("write_file", json!({ "path": "new", "content": "second" })).await;
    refused(&outcome, "file_changed");
    assert_eq!(scene.get("new"), "first");
}

#[tokio::test]
async fn nothing_is_changed_without_a_stored_patch_a_run_or_a_workspace() {
    let input = json!({ "path": "f", "old_text": "a", "new_text": "b" });
    let mut scene = Scene::with(&[("f", "a")]);
    scene.stored.is_full = true;
    assert!(refused(&scene.run("edit_file", input.clone()).await, "not_kept").ends_with("the disk is full"));
    scene.stored.is_full = false;
    scene.recorder.is_lost = true;
    let outcome = scene.run("edit_file", input.clone()).await;
    assert_eq!((outcome.status, outcome.events), (OutcomeStatus::Cancelled, Vec::new()));
    scene.recorder.is_lost = false;

    // Cancelled after the proposal.
    let stop = scene.stop.clone();
    scene.recorder.on_report = Some(Box::new(move || assert!(!stop.send_replace(true))));
    let outcome = scene.run("edit_file", input.clone()).await;
    assert_eq!(outcome.status, OutcomeStatus::Cancelled);
    let events = scene.events(&outcome);
    assert_eq!(events[2].1["new_value"], "rejected");
    assert_eq!(scene.get("f"), "a");
    // Cancelled before the proposal.
    let outcome = scene.run("edit_file", input.clone()).await;
    assert_eq!(
        (outcome.status, outcome.events.len(), scene.recorder.drafts.len()),
        (OutcomeStatus::Cancelled, 0, 0)
    );

    let mut scene = Scene::with(&[("f", "a")]);
    let root = scene.root().to_owned();
    scene.recorder.on_report = Some(Box::new(move || std::fs::remove_dir_all(&root).unwrap()));
    refused(&scene.run("edit_file", input).await, "workspace_gone");
}

#[tokio::test]
async fn several_edits_are_reported_together() {
    let mut scene = Scene::with(&[("a", "1 2\n"), ("b", "x\n")]);
    let outcome = scene
        .run(
            "multi_edit",
            json!({ "edits": [
                { "path": "a", "old_text": "1", "new_text": "one" },
                { "path": "b", "old_text": "x", "new_text": "y" },
                { "path": "./a", "old_text": "one 2", "new_text": "three" },
            ] }),
        )
        .await;
    assert_eq!(outcome.output, "Edited\na: 1 hunk, +1/-1 line\nb: 1 hunk, +1/-1 line");
    assert_eq!((scene.get("a").as_str(), scene.get("b").as_str()), ("three\n", "y\n"));
    let events = scene.events(&outcome);
    assert_eq!(
        types(&events),
        [
            "artifact.created",
            "artifact.created",
            "tool.multi_edit.proposed",
            "tool.multi_edit.applied",
            "artifact.updated",
            "artifact.updated"
        ]
    );
    assert_eq!(
        events[2].1,
        json!({
            "tool_call_id": "call_1", "patch_artifact_ids": ["art_1", "art_2"], "paths": ["a", "b"],
            "summary": "2 files, +2/-2 lines", "auto_apply": true
        })
    );
    assert_eq!(events[3].1["patch_artifact_ids"], json!(["art_1", "art_2"]));
}

#[tokio::test]
async fn several_edits_are_all_applied_or_none() {
    let edits = json!({ "edits": [
        { "path": "a", "old_text": "1", "new_text": "2" },
        { "path": "d/b", "old_text": "1", "new_text": "2" },
        { "path": "c", "old_text": "1", "new_text": "2" },
    ] });
    // One cannot be planned: nothing is proposed.
    let mut scene = Scene::with(&[("a", "1"), ("d/b", "1"), ("c", "3")]);
    let before = scene.files();
    let message = refused(&scene.run("multi_edit", edits.clone()).await, "text_not_found");
    assert!(message.ends_with("; in edits[2] (c); nothing was changed"), "{message}");
    assert_eq!((scene.files(), scene.recorder.drafts.len()), (before, 0));

    // One cannot be written: the earlier ones are restored.
    scene.put("c", b"1");
    let at = scene.at("c");
    scene.recorder.on_report = Some(Box::new(move || std::fs::write(&at, "other").unwrap()));
    let outcome = scene.run("multi_edit", edits.clone()).await;
    let message = refused(&outcome, "file_changed");
    assert!(message.ends_with("; `d/b` was restored; `a` was restored"), "{message}");
    assert_eq!((scene.get("a"), scene.get("d/b"), scene.get("c")), ("1".into(), "1".into(), "other".into()));
    let events = scene.events(&outcome);
    assert_eq!(types(&events)[4..], ["artifact.updated"; 3]);
    assert!(events[4..].iter().all(|(_, data)| data["new_value"] == "rejected"));
}

/// Too many edits or bytes: nothing is changed.
#[tokio::test]
async fn edits_beyond_the_limits_are_refused() {
    let tool = Tools::standard().get("multi_edit").unwrap().clone();
    let edits = |count: usize| {
        let edit = json!({ "path": "a", "old_text": "1", "new_text": "2" });
        json!({ "edits": vec![edit; count] })
    };
    assert!(crate::schema::check(&tool.schema(), &edits(limits::EDITS_MAX)).is_ok());
    assert!(crate::schema::check(&tool.schema(), &edits(limits::EDITS_MAX + 1)).is_err());

    let large = format!("x{}", " ".repeat(limits::EDIT_FILE_BYTES_MAX - 1));
    let names: Vec<String> = (0..=limits::EDITS_BYTES_MAX / large.len()).map(|at| at.to_string()).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), large.as_str())).collect();
    let mut scene = Scene::with(&files);
    let edit = |name: &String| json!({ "path": name, "old_text": "x", "new_text": "y" });
    let edits: Vec<Value> = names.iter().map(edit).collect();
    let message = refused(&scene.run("multi_edit", json!({ "edits": edits })).await, "file_too_large");
    assert!(message.contains("in total; edit fewer files per call"), "{message}");
    assert!(names.iter().all(|name| scene.get(name).starts_with('x')));
}

#[test]
fn names_with_newlines_are_quoted_in_patches() {
    let place = WorkspacePath::parse(std::path::Path::new("/"), "a\nb").unwrap();
    let plan = ChangePlan::new(place, None, b"x\n".to_vec()).unwrap();
    let text = String::from_utf8(plan.patch.text).unwrap();
    assert_eq!(text, "--- /dev/null\n+++ \"b/a\\nb\"\n@@ -0,0 +1 @@\n+x\n");
}

/// An edit that a rule allows changes the file without an approval. The approval of a later edit still holds.
#[tokio::test]
async fn an_edit_without_approval_keeps_a_later_approval_valid() {
    let mut scene = Scene::with(&[("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n")]);
    let edit = |old: &str, new: &str| json!({ "path": "f", "old_text": old, "new_text": new });
    let approved_edit = edit("12\n", "twelve\n");
    let preview = Tools::standard().get("edit_file").unwrap().preview(&approved_edit, scene.root());
    let digest = call_digest(preview.kind, &preview.binding());
    assert_eq!(scene.run("edit_file", edit("1\n2\n", "one\n2\n")).await.status, OutcomeStatus::Completed);
    scene.approved = Some(ApprovedCall::new("diff".into(), digest, scene.revisions.clone()));
    assert_eq!(scene.run("edit_file", approved_edit.clone()).await.status, OutcomeStatus::Completed);
    assert!(scene.get("f").starts_with("one\n2\n") && scene.get("f").ends_with("twelve\n"));
    // A change by anyone else makes the approval void.
    scene.put("f", b"0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n");
    refused(&scene.run("edit_file", approved_edit).await, "changed_since_approval");
}

/// What was shown is what is written. A file that changes between the preview and the plan stays as it is.
#[tokio::test]
async fn an_approved_change_is_not_written_if_the_file_changed_since() {
    for (name, input) in [
        ("edit_file", json!({ "path": "f", "old_text": "x", "new_text": "y" })),
        ("write_file", json!({ "path": "f", "content": "y\n" })),
        ("write_file", json!({ "path": "g", "content": "y\n" })),
        ("multi_edit", json!({ "edits": [{ "path": "f", "old_text": "x", "new_text": "y" }] })),
    ] {
        let mut scene = Scene::with(&[("f", "x\n")]);
        let preview = Tools::standard().get(name).unwrap().preview(&input, scene.root());
        let digest = call_digest(preview.kind, &preview.binding());
        scene.approved = Some(ApprovedCall::new("diff".into(), digest, FileRevisions::default()));
        for path in ["f", "g"] {
            scene.put(path, b"if armed\nx\n");
        }
        let before = scene.files();
        let outcome = scene.run(name, input.clone()).await;
        let message = refused(&outcome, "changed_since_approval");
        assert!(message.contains("changed after the call was approved"), "{message}");
        assert_eq!((scene.files(), scene.recorder.drafts.len()), (before, 0), "{name}");
        // Unchanged since the preview: it is written.
        scene.put("f", b"x\n");
        std::fs::remove_file(scene.at("g")).unwrap();
        assert_eq!(scene.run(name, input.clone()).await.status, OutcomeStatus::Completed, "{name}");
        // Changed between the plan and the write.
        scene.put("f", b"x\n");
        std::fs::remove_file(scene.at("g")).ok();
        let (f, g) = (scene.at("f"), scene.at("g"));
        scene.recorder.on_report = Some(Box::new(move || {
            std::fs::write(&f, "other").unwrap();
            std::fs::write(&g, "other").unwrap();
        }));
        refused(&scene.run(name, input).await, "file_changed");
        assert_eq!((scene.get("f"), scene.get("g")), ("other".to_owned(), "other".to_owned()), "{name}");
    }
}
