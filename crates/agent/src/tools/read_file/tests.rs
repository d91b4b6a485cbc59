//! What `read_file` shows, keeps, tells and refuses.

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
async fn lines_are_numbered_whatever_ends_them() {
    for (bytes, wanted) in [
        (&b"a\nb\n"[..], "     1\ta\n     2\tb\n"),
        (b"a\nb", "     1\ta\n     2\tb\n"),
        (b"a\r\n\r\nb\r\n", "     1\ta\n     2\t\n     3\tb\n"),
        (b"\xEF\xBB\xBFa\n", "     1\ta\n"),
        (b"\xFFa\n", "     1\t\u{FFFD}a\n"),
        (b"", "The file is empty."),
        (b"\n", "     1\t\n"),
    ] {
        assert_eq!(shown(bytes, json!({})).await, wanted, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_part_says_how_to_go_on() {
    assert_eq!(
        shown(b"a\nb\nc\nd\n", json!({ "offset": 2, "limit": 2 })).await,
        "     2\tb\n     3\tc\n[lines 2 to 3 of 4; read on with offset 4]\n"
    );
    assert_eq!(shown(b"a\nb\n", json!({ "offset": 2 })).await, "     2\tb\n");
    assert_eq!(shown(b"a\nb\n", json!({ "offset": 3 })).await, "the file has 2 lines; line 3 is not shown");
    assert_eq!(shown(b"", json!({ "offset": 2 })).await, "the file has 0 lines; line 2 is not shown");
}

#[tokio::test]
async fn much_is_shown_in_part_and_kept_whole() {
    let mut scene = Scene::new();
    let text = "0123456789\n".repeat(10_000);
    scene.put("big", text.as_bytes());
    let outcome = scene.run("read_file", json!({ "path": "./big" })).await;
    assert_eq!(outcome.output.lines().count(), 2_001);
    assert!(outcome.output.ends_with("[lines 1 to 2000 of 10000; read on with offset 2001]\n"));
    assert_eq!(scene.kept(0), ("file_snapshot".to_owned(), Bytes::from(text)));
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

    // A line without an end is cut, and its end is not held in memory.
    scene.put("line", "x".repeat(9 << 20).as_bytes());
    let outcome = scene.run("read_file", json!({ "path": "line" })).await;
    let wanted = format!("     1\t{}… [{} more bytes in this line]\n", "x".repeat(2_000), (9 << 20) - 2_000);
    assert_eq!(outcome.output, wanted);
    assert_eq!(outcome.events.len(), 1, "too large to keep");

    // Wide lines stop before the bytes do.
    scene.put("wide", format!("{}\n", "y".repeat(1_900)).repeat(500).as_bytes());
    let outcome = scene.run("read_file", json!({ "path": "wide" })).await;
    assert!(outcome.output.len() < limits::READ_OUTPUT_BYTES_MAX + 100);
    assert!(outcome.output.ends_with("of 500; read on with offset 69]\n"), "{}", outcome.summary);
}

#[tokio::test]
async fn a_file_of_gibibytes_is_read_in_bounds() {
    let mut scene = Scene::new();
    let file = std::fs::File::create(scene.at("huge")).unwrap();
    std::io::Write::write_all(&mut &file, &b"line\n".repeat(20_000)).unwrap();
    file.set_len(8 << 30).unwrap();
    let outcome = scene.run("read_file", json!({ "path": "huge" })).await;
    assert!(outcome.output.ends_with("[lines 1 to 2000; read on with offset 2001]\n"));
    let events = scene.events(&outcome);
    assert_eq!(
        events[0].1,
        json!({ "tool_call_id": "call_1", "path": "huge", "size_bytes": 8_u64 << 30, "truncated": true })
    );
}

#[tokio::test]
async fn pictures_are_shown_and_kept_and_other_binaries_refused() {
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
        assert_eq!(outcome.output, format!("pic.txt is a picture ({mime}); it is shown."), "{id}");
    }
    let mut large = b"GIF89a".to_vec();
    large.resize(usize::try_from(limits::IMAGE_BYTES_MAX).unwrap() + 1, 0);
    scene.put("large.gif", &large);
    refused(&scene.run("read_file", json!({ "path": "large.gif" })).await, "file_too_large");
    scene.put("bin", b"ab\0c");
    let told = refused(&scene.run("read_file", json!({ "path": "bin" })).await, "binary_file");
    assert_eq!(told, "the file is binary (4 bytes), which cannot be shown as text");
    scene.put("late", &[vec![b'a'; 9_000], vec![0]].concat());
    assert_eq!(scene.run("read_file", json!({ "path": "late" })).await.how, crate::tool::How::Completed);
}

#[tokio::test]
async fn what_is_no_file_of_the_workspace_is_refused() {
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
    for (path, wanted) in [
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
        assert_eq!(crate::tools::scene::code(&outcome), wanted, "{path}: {outcome:?}");
        assert_eq!(outcome.events.is_empty(), wanted != "completed", "{path}");
    }
}

#[tokio::test]
async fn what_may_not_be_read_or_is_gone_says_so() {
    let mut scene = Scene::with(&[("a", "x")]);
    let meant = scene.at("a");
    std::fs::set_permissions(&meant, std::fs::Permissions::from_mode(0o000)).unwrap();
    // Nothing is unreadable for root: look as another user, on a thread that nothing uses afterwards.
    let root = scene.root().to_owned();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (tell, heard) = std::sync::mpsc::sync_channel(1);
    let looked = recount_world::thread("nobody", move || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        let root = Root::open(&root).unwrap();
        let file = root.file(&root.place("a").unwrap(), Links::Follow);
        tell.send(file.map(drop).map_err(|error| error.code)).unwrap();
    });
    looked.join().unwrap();
    assert_eq!(heard.recv().unwrap(), Err("permission_denied"));

    std::fs::remove_dir_all(scene.root()).unwrap();
    let told = refused(&scene.run("read_file", json!({ "path": "a" })).await, "workspace_gone");
    assert!(told.ends_with("is no longer there; nothing in it can be read or written"), "{told}");
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_said_to_be() {
    let mut scene = Scene::with(&[("pic", "GIF89a..")]);
    scene.kept.refuses = true;
    let outcome = scene.run("read_file", json!({ "path": "pic" })).await;
    assert_eq!(refused(&outcome, "not_kept"), "what was read could not be kept: the disk is full");
    assert!(outcome.events.is_empty());
}

#[tokio::test]
async fn a_cancelled_call_tells_nothing() {
    let mut scene = Scene::with(&[("a", "text")]);
    scene.stop.send_replace(true);
    let outcome = scene.run("read_file", json!({ "path": "a" })).await;
    assert_eq!((outcome.how, outcome.events), (crate::tool::How::Cancelled, Vec::new()));
}

proptest! {
    /// However a file is cut into pieces, the same is shown.
    #[test]
    fn pieces_do_not_matter(text in "([a-c]{0,5}(\n|\r\n)){0,8}[a-c]{0,3}", cut in 0_usize..40, offset in 1_u64..4, limit in 1_u64..6) {
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
            let wanted: Vec<_> = text.lines().skip(offset as usize - 1).take(limit as usize).collect();
            let got: Vec<_> = shown.lines().filter_map(|row| row.split_once('\t')).map(|(_, text)| text).collect();
            prop_assert_eq!(got, wanted);
        }
    }
}
