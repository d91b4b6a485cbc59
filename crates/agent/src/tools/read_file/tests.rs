//! Tests of `read_file`: output, artifacts, events and refusals.

use super::*;
use crate::paths::Root;
use crate::tools::scene::{Scene, refused};
use proptest::prelude::*;
use std::os::unix::fs::{PermissionsExt, symlink};

async fn shown(bytes: &[u8], more: Value) -> String {
    let mut scene = Scene::new();
    scene.put("a", bytes);
    let mut input = json!({ "path": "a" });
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    scene.run("read_file", input).await.output
}

#[tokio::test]
async fn lines_are_numbered_with_any_line_end() {
    for (bytes, expected) in [
        (&b"a\nb\n"[..], "     1\ta\n     2\tb\n"),
        (b"a\nb", "     1\ta\n     2\tb\n"),
        (b"a\r\n\r\nb\r\n", "     1\ta\n     2\t\n     3\tb\n"),
        (b"\xEF\xBB\xBFa\n", "     1\ta\n"),
        (b"\xFFa\n", "     1\t\u{FFFD}a\n"),
        (b"", "The file is empty."),
        (b"\n", "     1\t\n"),
    ] {
        assert_eq!(shown(bytes, json!({})).await, expected, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_part_names_the_offset_to_continue_with() {
    assert_eq!(
        shown(b"a\nb\nc\nd\n", json!({ "offset": 2, "limit": 2 })).await,
        "     2\tb\n     3\tc\n[lines 2 to 3 of 4; continue with offset 4]\n"
    );
    assert_eq!(shown(b"a\nb\n", json!({ "offset": 2 })).await, "     2\tb\n");
    assert_eq!(
        shown(b"a\nb\n", json!({ "offset": 3 })).await,
        "the file has 2 lines; there is no line 3 to show"
    );
    assert_eq!(shown(b"", json!({ "offset": 2 })).await, "the file has 0 lines; there is no line 2 to show");
}

#[tokio::test]
async fn long_files_are_truncated_and_stored_completely() {
    let mut scene = Scene::new();
    let text = "0123456789\n".repeat(10_000);
    scene.put("big", text.as_bytes());
    let outcome = scene.run("read_file", json!({ "path": "./big" })).await;
    assert_eq!(outcome.output.lines().count(), 2_001);
    assert!(outcome.output.ends_with("[lines 1 to 2000 of 10000; continue with offset 2001]\n"));
    assert_eq!(scene.stored(0), ("file_snapshot".to_owned(), Bytes::from(text)));
    let events = scene.events(&outcome);
    assert_eq!(events[0].0, "artifact.created");
    assert_eq!(
        events[1],
        (
            "tool.file_read.completed".to_owned(),
            json!({
                "tool_call_id": "call_1", "path": "big", "size_bytes": 110_000, "lines": 10_000,
                "snippet_artifact_id": "art_1", "truncated": true
            })
        )
    );
    assert_eq!(outcome.summary, "big: 110000 bytes, 10000 lines, in part");

    // A line without an end is truncated, and its end is not held in memory.
    scene.put("line", "x".repeat(9 << 20).as_bytes());
    let outcome = scene.run("read_file", json!({ "path": "line" })).await;
    let expected =
        format!("     1\t{}… [{} more bytes on this line]\n", "x".repeat(2_000), (9 << 20) - 2_000);
    assert_eq!(outcome.output, expected);
    assert_eq!(outcome.events.len(), 1, "too large to keep");

    // Wide lines reach the byte limit before the line limit.
    scene.put("wide", format!("{}\n", "y".repeat(1_900)).repeat(500).as_bytes());
    let outcome = scene.run("read_file", json!({ "path": "wide" })).await;
    assert!(outcome.output.len() < limits::READ_OUTPUT_BYTES_MAX + 100);
    assert!(outcome.output.ends_with("of 500; continue with offset 69]\n"), "{}", outcome.summary);
}

#[tokio::test]
async fn a_file_of_gibibytes_is_read_within_the_limits() {
    let mut scene = Scene::new();
    let file = std::fs::File::create(scene.at("huge")).unwrap();
    std::io::Write::write_all(&mut &file, &b"line\n".repeat(20_000)).unwrap();
    file.set_len(8 << 30).unwrap();
    let outcome = scene.run("read_file", json!({ "path": "huge" })).await;
    assert!(outcome.output.ends_with("[lines 1 to 2000; continue with offset 2001]\n"));
    let events = scene.events(&outcome);
    assert_eq!(
        events[0].1,
        json!({ "tool_call_id": "call_1", "path": "huge", "size_bytes": 8_u64 << 30, "truncated": true })
    );
}

#[tokio::test]
async fn images_are_shown_and_stored_and_other_binaries_refused() {
    let mut scene = Scene::new();
    for (head, mime) in [
        (&b"\x89PNG\r\n\x1a\n\0\0"[..], "image/png"),
        (b"\xFF\xD8\xFF\xE0\0", "image/jpeg"),
        (b"GIF89a\0", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ] {
        scene.put("pic.txt", head);
        let outcome = scene.run("read_file", json!({ "path": "pic.txt" })).await;
        assert_eq!(outcome.image, Some((mime.to_owned(), Bytes::copy_from_slice(head))));
        let id = outcome.artifact.clone().unwrap();
        let types: Vec<_> = scene.events(&outcome).into_iter().map(|(name, _)| name).collect();
        assert_eq!(types, ["artifact.created", "tool.file_read.completed"]);
        assert_eq!(outcome.output, format!("pic.txt is an image ({mime}), shown here."), "{id}");
    }
    let mut large = b"GIF89a".to_vec();
    large.resize(usize::try_from(limits::IMAGE_BYTES_MAX).unwrap() + 1, 0);
    scene.put("large.gif", &large);
    refused(&scene.run("read_file", json!({ "path": "large.gif" })).await, "file_too_large");
    scene.put("bin", b"ab\0c");
    let message = refused(&scene.run("read_file", json!({ "path": "bin" })).await, "binary_file");
    assert_eq!(message, "the file is binary (4 bytes) and cannot be shown as text");
    scene.put("late", &[vec![b'a'; 9_000], vec![0]].concat());
    assert_eq!(
        scene.run("read_file", json!({ "path": "late" })).await.status,
        crate::tool::OutcomeStatus::Completed
    );
}

#[tokio::test]
async fn paths_that_are_not_workspace_files_are_refused() {
    let mut scene = Scene::with(&[("dir/a", "x")]);
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    symlink(outside.path().join("secret"), scene.at("out")).unwrap();
    symlink(outside.path(), scene.at("outdir")).unwrap();
    symlink("../../../../etc/passwd", scene.at("dir/up")).unwrap();
    symlink("dir/a", scene.at("in")).unwrap();
    symlink("loop", scene.at("loop")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.at("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let _listens = std::os::unix::net::UnixListener::bind(scene.at("socket")).unwrap();
    let absolute = scene.at("dir/a").to_str().unwrap().to_owned();
    for (path, expected) in [
        ("out", "outside_workspace"),
        ("outdir/secret", "outside_workspace"),
        ("dir/up", "outside_workspace"),
        ("../x", "outside_workspace"),
        ("/etc/passwd", "outside_workspace"),
        ("loop", "symbolic_link"),
        ("pipe", "not_a_file"),
        ("socket", "not_a_file"),
        ("dir", "is_a_folder"),
        (".", "is_a_folder"),
        ("none", "not_found"),
        ("dir/a/b", "not_found"),
        ("in", "completed"),
        ("dir/../dir/a", "completed"),
        (&absolute, "completed"),
    ] {
        let outcome = scene.run("read_file", json!({ "path": path })).await;
        assert_eq!(crate::tools::scene::code(&outcome), expected, "{path}: {outcome:?}");
        assert_eq!(outcome.events.is_empty(), expected != "completed", "{path}");
    }
}

#[tokio::test]
async fn unreadable_and_deleted_files_have_error_codes_of_their_own() {
    let mut scene = Scene::with(&[("a", "x")]);
    let meant = scene.at("a");
    std::fs::set_permissions(&meant, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root can read everything: read as another user, on a thread that is not used afterwards.
    let root = scene.root().to_owned();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let reader = recount_world::thread("unprivileged", move || {
        if rustix::process::geteuid().is_root() {
            let unprivileged = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(unprivileged, unprivileged, unprivileged).unwrap();
        }
        let root = Root::open(&root).unwrap();
        let file = root.file(&root.place("a").unwrap(), Links::Follow);
        sender.send(file.map(drop).map_err(|error| error.code)).unwrap();
    });
    reader.join().unwrap();
    assert_eq!(receiver.recv().unwrap(), Err("permission_denied"));

    std::fs::remove_dir_all(scene.root()).unwrap();
    let message = refused(&scene.run("read_file", json!({ "path": "a" })).await, "workspace_gone");
    assert!(message.ends_with("no longer exists; its files cannot be read or written"), "{message}");
}

#[tokio::test]
async fn a_failed_store_reports_no_artifact() {
    let mut scene = Scene::with(&[("pic", "GIF89a..")]);
    scene.stored.is_full = true;
    let outcome = scene.run("read_file", json!({ "path": "pic" })).await;
    assert_eq!(refused(&outcome, "not_kept"), "the content could not be stored: the disk is full");
    assert!(outcome.events.is_empty());
}

#[tokio::test]
async fn a_cancelled_call_reports_nothing() {
    let mut scene = Scene::with(&[("a", "text")]);
    scene.stop.send_replace(true);
    let outcome = scene.run("read_file", json!({ "path": "a" })).await;
    assert_eq!((outcome.status, outcome.events), (crate::tool::OutcomeStatus::Cancelled, Vec::new()));
}

proptest! {
    /// The output does not depend on how the file is split into pieces.
    #[test]
    fn the_output_does_not_depend_on_pieces(text in "([a-c]{0,5}(\n|\r\n)){0,8}[a-c]{0,3}", cut in 0_usize..40, offset in 1_u64..4, limit in 1_u64..6) {
        let bytes = text.as_bytes();
        let at = cut.min(bytes.len());
        let show = |pieces: &[&[u8]]| {
            let mut lines = Lines::new(offset, limit);
            for piece in pieces {
                lines.push(piece);
            }
            lines.end();
            lines.finish(bytes.len() as u64, None).map(|text| (text.shown, text.lines))
        };
        let whole = show(&[bytes]);
        prop_assert_eq!(&whole, &show(&[&bytes[..at], &bytes[at..]]));
        if let Ok((shown, _)) = whole && !text.is_empty() {
            let expected: Vec<_> = text.lines().skip(offset as usize - 1).take(limit as usize).collect();
            let got: Vec<_> = shown.lines().filter_map(|row| row.split_once('\t')).map(|(_, text)| text).collect();
            prop_assert_eq!(got, expected);
        }
    }
}
