//! Real git makes the changes, takes the messages, and comes to the same tree.

use std::path::Path;
use std::process::Command;

use super::*;

const AT: &str = "2026-11-26T18:13:52.123Z";

fn mail<'a>(path: &'a str, diff: &'a [u8]) -> Mail<'a> {
    Mail {
        number: 1,
        count: 1,
        author: "Recount",
        at: AT,
        path,
        trailers: &[("Recount-Patch", "art_1")],
        diff,
    }
}

/// Git in a folder, without what this machine's settings would change.
fn git(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let settings = [
        "user.name=Tester",
        "user.email=tester@example.org",
        "core.autocrlf=false",
        "core.safecrlf=false",
        "commit.gpgsign=false",
    ];
    let mut git = Command::new("git");
    git.current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for setting in settings {
        git.args(["-c", setting]);
    }
    let done = git.args(arguments).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

/// A repository with these files committed.
fn repository(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "--quiet", "--initial-branch=main"]);
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    git(folder.path(), &["add", "--all"]);
    git(folder.path(), &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    folder
}

fn tree(folder: &Path) -> Vec<u8> {
    git(folder, &["ls-tree", "-r", "-z", "HEAD"])
}

/// Takes one message with `git am`.
fn take(folder: &Path, written: &[u8]) {
    std::fs::write(folder.join(".git/one.patch"), written).unwrap();
    git(folder, &["am", "--quiet", ".git/one.patch"]);
    assert_eq!(git(folder, &["status", "--porcelain"]), b"");
}

const BEFORE: &[(&str, &[u8])] = &[
    ("a.txt", b"one\ntwo\nthree\n"),
    ("crlf.txt", b"one\r\ntwo\r\nthree\r\n"),
    ("open.txt", b"one\ntwo"),
    ("old.txt", b"stays\nas\nit\nis\n"),
    ("run.sh", b"#!/bin/sh\n"),
    ("bytes.bin", b"\x00\x01\x02\xff\xfe\r\n"),
    ("empty", b""),
    ("latin", b"caf\xe9\n"),
    ("träge mit raum", b"x\n"),
];

/// Each change alone: text, CRLF, a missing last newline, binary, mode, rename, deletion, an empty file, other encodings,
/// odd names, and lines that look like parts of a message.
#[test]
fn git_am_takes_every_kind_of_change_as_it_is() {
    type Change = fn(&Path);
    let cases: [(&str, Change); 15] = [
        ("a.txt", |f| std::fs::write(f.join("a.txt"), "one\nTWO\nthree\n").unwrap()),
        ("crlf.txt", |f| std::fs::write(f.join("crlf.txt"), "one\r\nTWO =\t\r\nthree\r\n").unwrap()),
        ("crlf.txt", |f| std::fs::write(f.join("crlf.txt"), "one\ntwo\nthree\n").unwrap()),
        ("open.txt", |f| std::fs::write(f.join("open.txt"), "one\ntwo\nthree").unwrap()),
        ("open.txt", |f| std::fs::write(f.join("open.txt"), "one\ntwo\n").unwrap()),
        ("bytes.bin", |f| std::fs::write(f.join("bytes.bin"), b"\x00\xff\r\n\x01").unwrap()),
        ("run.sh", |f| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(f.join("run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("old.txt", |f| std::fs::rename(f.join("old.txt"), f.join("new name.txt")).unwrap()),
        ("a.txt", |f| std::fs::remove_file(f.join("a.txt")).unwrap()),
        ("empty", |f| std::fs::remove_file(f.join("empty")).unwrap()),
        ("void", |f| std::fs::write(f.join("void"), "").unwrap()),
        ("latin", |f| std::fs::write(f.join("latin"), b"th\xe9\n").unwrap()),
        ("träge mit raum", |f| std::fs::write(f.join("träge mit raum"), "y\n").unwrap()),
        ("link", |f| std::os::unix::fs::symlink("a.txt", f.join("link")).unwrap()),
        ("mail", |f| {
            let text = "From a b 00:00:00 2001\n---\n-- \ndiff --git a/x b/x\nSubject: no\n\n.\n";
            std::fs::write(f.join("mail"), text).unwrap();
        }),
    ];
    for (path, change) in cases {
        let (made, taking) = (repository(BEFORE), repository(BEFORE));
        change(made.path());
        git(made.path(), &["add", "--all"]);
        let diff = git(made.path(), &["diff", "--cached", "--binary", "--find-renames"]);
        git(made.path(), &["commit", "--quiet", "-m", "second"]);
        take(taking.path(), &mail(path, &diff).written());
        assert_eq!(tree(taking.path()), tree(made.path()), "{path}");
    }
}

/// A path, a diff, and what the file holds then.
type Case = (&'static str, &'static [u8], Option<&'static [u8]>);

/// As the tools for files store it: without the header of git.
#[test]
fn plain_diffs_and_those_of_empty_files_are_taken() {
    let cases: [Case; 6] = [
        (
            "a.txt",
            b"--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
            Some(b"one\n2\nthree\n"),
        ),
        (
            "crlf.txt",
            b"--- a/crlf.txt\n+++ b/crlf.txt\n@@ -1,3 +1,3 @@\n one\r\n-two\r\n+2\r\n three\r\n",
            Some(b"one\r\n2\r\nthree\r\n"),
        ),
        ("d e", b"--- /dev/null\n+++ b/d e\t\n", Some(b"")),
        ("f\tg", b"--- /dev/null\n+++ \"b/f\\tg\"\n", Some(b"")),
        ("empty", b"--- a/empty\n+++ /dev/null\n", None),
        ("latin", b"--- a/latin\n+++ /dev/null\n@@ -1 +0,0 @@\n-caf\xe9\n", None),
    ];
    for (path, diff, after) in cases {
        let taking = repository(BEFORE);
        take(taking.path(), &mail(path, diff).written());
        assert_eq!(std::fs::read(taking.path().join(path)).ok().as_deref(), after, "{path}");
    }
}

#[test]
fn author_date_subject_and_trailers_come_from_the_message() {
    let taking = repository(BEFORE);
    let path = format!("{}/ü\n[x] =?UTF-8?q?y?=", "lang/".repeat(30));
    let diff = b"--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    let mut long = mail(&path, diff);
    long.author = "Recount \"x\" <evil@example.org>\n";
    take(taking.path(), &long.written());
    let log = git(taking.path(), &["log", "-1", "--format=%an|%ae|%at|%s|%(trailers)"]);
    let log = String::from_utf8(log).unwrap();
    let (who, rest) = log.split_once('|').unwrap();
    assert_eq!(who, "Recount _x_ _evil_example.org__");
    assert!(rest.starts_with("recount@localhost|1795716832|Change …"), "{log}");
    assert!(rest.contains("lang//ü [x] =?UTF-8?q?y?=|") && rest.contains("Recount-Patch: art_1"), "{log}");
    assert_eq!(mail("a b/ü.txt", diff).file_name(), "0001-Change-a-b-.txt.patch");
    let cases = [
        ("2000-02-29T00:00:00.000Z", "Tue, 29 Feb 2000 00:00:00 +0000"),
        ("2026-01-01T23:59:59.999Z", "Thu, 1 Jan 2026 23:59:59 +0000"),
        ("soon", "soon"),
    ];
    for (at, wanted) in cases {
        assert_eq!(date(at), wanted);
    }
}
