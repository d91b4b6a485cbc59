//! Signed heads: a store that was edited by hand fails `verify` with the public key alone.

use std::path::{Path, PathBuf};

use recount_server::export::ExportDigest;

use crate::server::{CommandOutput, Server, recount};

/// A run that has ended, and the public keys of its server.
struct Place {
    folder: tempfile::TempDir,
    server: Server,
    run: String,
    keys: PathBuf,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let mut command = recount();
        command
            .args(["serve", "--bind", "127.0.0.1:0", "--log", "warn", "--data"])
            .arg(folder.path().join("data"));
        let server = Server::of(command.arg("--allow-workspace").arg(&work)).listening();
        let run =
            server.ask(&["run", "--kind", "shell", "--workspace", work.to_str().unwrap(), "echo greet all"]);
        let listed = server.ask(&["ls", "--json"]);
        let row: serde_json::Value = serde_json::from_str(listed.data.lines().next().unwrap()).unwrap();
        assert_eq!(row["status"], "finished", "{run:?}");
        let place = Place {
            keys: folder.path().join("keys.json"),
            folder,
            server,
            run: row["id"].as_str().unwrap().to_owned(),
        };
        place.save_keys();
        place
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn save_keys(&self) {
        let url = format!("{}/.well-known/recount-keys", self.server.url());
        let read = std::process::Command::new("curl").args(["--silent", "--fail", &url]).output().unwrap();
        std::fs::write(&self.keys, read.stdout).unwrap();
    }

    /// A copy of the data folder in which a word of the run is another one, and everything that is derived from the events
    /// is as for these events.
    fn edited(&self) -> PathBuf {
        let text = self.exported(&self.run).replace("greet all", "greet few");
        let lines: Vec<&str> = text.lines().collect();
        let mut digest = ExportDigest::new(&self.run);
        let events = &lines[1..lines.len() - 1];
        events.iter().for_each(|line| digest.event(line.as_bytes()).unwrap());
        let header: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        let before = header["head"].as_str().unwrap();
        assert_ne!(before, digest.head());
        let text = text.replacen(before, &digest.head(), 1);
        self.imported("edited", &text)
    }

    fn exported(&self, run: &str) -> String {
        let original = self.folder.path().join("export.jsonl");
        let mut command = recount();
        command.args(["export", "--data"]).arg(self.data()).arg("-o").arg(&original).arg(run);
        let exported = CommandOutput::of(&mut command);
        assert_eq!(exported.status, 0, "{exported:?}");
        std::fs::read_to_string(&original).unwrap()
    }

    /// A data folder with the runs of an export, and all signed heads.
    fn imported(&self, name: &str, export: &str) -> PathBuf {
        let (to, file) = (self.folder.path().join(name), self.folder.path().join(format!("{name}.jsonl")));
        std::fs::write(&file, export).unwrap();
        let imported = CommandOutput::of(recount().args(["import", "--data"]).arg(&to).arg(&file));
        assert_eq!(imported.status, 0, "{imported:?}");
        assert_eq!(copy_rows(&self.data(), &to, "record.signed_heads", &self.run), 1);
        to
    }

    /// Another run.
    fn another_run(&self) -> String {
        let work = self.folder.path().join("work");
        self.server.ask(&["run", "--kind", "shell", "--workspace", work.to_str().unwrap(), "echo"]).good();
        let listed = self.server.ask(&["ls", "--json"]).good();
        let rows = listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let row = rows.into_iter().find(|row| row["id"] != *self.run).unwrap();
        row["id"].as_str().unwrap().to_owned()
    }

    fn verify_data(&self, keys: &Path) -> CommandOutput {
        verify(&self.data(), &["--public-key", keys.to_str().unwrap()])
    }
}

#[tokio::test]
async fn an_edited_store_fails_verify_with_the_public_key_alone() {
    let mut place = Place::new().await;
    let keys = place.keys.to_str().unwrap();
    let fine = place.server.ask(&["verify", &place.run, "--public-key", keys]);
    assert_eq!(fine.status, 0, "{fine:?}");
    let noted = place.server.ask(&["digest", "--signed", &place.run]);
    assert_eq!(noted.status, 0, "{noted:?}");
    // The old private key is deleted, what it signed is still checked.
    let rotated = place.server.ask(&["keys", "rotate"]);
    assert_eq!(rotated.status, 0, "{rotated:?}");
    place.save_keys();
    let fine = place.server.ask(&["verify", "--all", "--public-key", keys]);
    assert_eq!(fine.status, 0, "{fine:?}");
    place.server.stop();
    let fine = place.verify_data(&place.keys);
    assert_eq!(fine.status, 0, "{fine:?}");

    let edited = place.edited();
    let unnoticed = verify(&edited, &[]);
    assert_eq!(unnoticed.status, 0, "without keys, a store that was edited with care passes: {unnoticed:?}");
    let changed = |wrong: &CommandOutput| wrong.status != 0 && wrong.data.contains("events were changed");
    let wrong = verify(&edited, &["--public-key", keys]);
    assert!(changed(&wrong), "{wrong:?}");

    // A signed head that was saved elsewhere is as good.
    let saved = place.folder.path().join("heads");
    std::fs::write(&saved, &noted.data).unwrap();
    let saved = saved.to_str().unwrap();
    let wrong = verify(&edited, &["--public-key", keys, "--digests", saved]);
    assert!(changed(&wrong), "{wrong:?}");
    let refused = verify(&edited, &["--digests", saved]);
    assert!(refused.status == 2 && refused.words.contains("add --public-key"), "{refused:?}");
}

fn verify(data: &Path, more: &[&str]) -> CommandOutput {
    CommandOutput::of(recount().args(["verify", "--data"]).arg(data).args(more))
}

#[tokio::test]
async fn an_ended_run_without_its_signed_head_or_with_one_of_another_key_fails() {
    let mut place = Place::new().await;
    place.server.stop();
    let other = Place::new().await;
    let wrong = place.verify_data(&other.keys);
    assert!(wrong.status != 0 && wrong.data.contains("not among the given keys"), "{wrong:?}");

    let store = rusqlite::Connection::open(place.data().join("recount.db")).unwrap();
    let deleted = store.execute("DELETE FROM rows WHERE space = 'record.signed_heads'", []).unwrap();
    assert_eq!(deleted, 1);
    drop(store);
    let wrong = place.verify_data(&place.keys);
    assert!(wrong.status != 0 && wrong.data.contains("it has no signed head"), "{wrong:?}");
}

#[tokio::test]
async fn a_signed_head_whose_run_was_removed_fails() {
    let (mut place, mut other) = (Place::new().await, Place::new().await);
    // A run that was erased is not missing.
    let erased = other.another_run();
    other.server.ask(&["delete", &erased, "--yes"]).good();
    other.server.stop();
    let fine = other.verify_data(&other.keys);
    assert!(fine.status == 0 && fine.words.contains(&format!("{erased}: it was erased")), "{fine:?}");

    let kept = place.another_run();
    place.server.stop();
    let removed = place.imported("removed", &place.exported(&kept));
    assert_eq!(copy_rows(&place.data(), &removed, "record.signed_heads", &kept), 1);
    assert_eq!(copy_rows(&place.data(), &removed, "catalogue.runs", &place.run), 1);
    assert_eq!(copy_rows(&other.data(), &removed, "record.signed_heads", &other.run), 1);
    let wrong = verify(&removed, &["--public-key", place.keys.to_str().unwrap()]);
    assert_eq!(wrong.status, 1, "{wrong:?}");
    for line in [
        &format!("{kept} ok"),
        &format!("{} wrong: a signed head of it is stored, but the run is missing", place.run),
        &format!(
            "{} wrong: a head of it is stored, but the run is missing; its signed head is not",
            other.run
        ),
        "not among the given keys",
        // The check of the catalogue is not left out.
        "does not belong to anything",
    ] {
        assert!(wrong.data.contains(line), "{line:?} is not in {wrong:?}");
    }
}

/// Copies the rows of a run in this space to another data folder; returns their number.
fn copy_rows(from: &Path, to: &Path, space: &str, run: &str) -> usize {
    let store = rusqlite::Connection::open(to.join("recount.db")).unwrap();
    store.execute("ATTACH ?1 AS original", [from.join("recount.db").to_str().unwrap()]).unwrap();
    let copied = "INSERT INTO rows SELECT * FROM original.rows WHERE space = ?1 AND instr(key, ?2) > 0";
    store.execute(copied, [space, run]).unwrap()
}

/// The file with another word in an event, and a header and an end that fit.
fn edited_export(run: &str, text: &str) -> String {
    let edited = text.replacen("greet all", "greet few", 1);
    let lines: Vec<&str> = edited.lines().collect();
    let mut digest = ExportDigest::new(run);
    lines[1..lines.len() - 1].iter().for_each(|line| digest.event(line.as_bytes()).unwrap());
    let header: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    edited.replacen(header["head"].as_str().unwrap(), &digest.head(), 1)
}

/// The file without the ending of its run, and a header and totals that fit. Its signed head stays if `keeps_head`.
fn unended_export(run: &str, text: &str, keeps_head: bool) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let events = &lines[1..lines.len() - 2];
    let mut digest = ExportDigest::new(run);
    events.iter().for_each(|line| digest.event(line.as_bytes()).unwrap());
    let header: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    let counted = |line: &str| {
        line.replacen(&format!("\"events\":{}", events.len() + 1), &format!("\"events\":{}", events.len()), 1)
    };
    let header = counted(lines[0]).replacen(header["head"].as_str().unwrap(), &digest.head(), 1);
    let end = counted(lines[lines.len() - 1]);
    let end = match keeps_head {
        true => end,
        false => format!("{}\"signed\":[]}}", end.split("\"signed\":").next().unwrap()),
    };
    format!("{header}\n{}\n{end}\n", events.join("\n"))
}

#[tokio::test]
async fn an_export_is_checked_with_the_public_key_alone() {
    let mut place = Place::new().await;
    let path = |name: &str| place.folder.path().join(name);
    let (plain, signed, edited) = (path("plain"), path("signed"), path("edited"));
    let keys = place.keys.to_str().unwrap().to_owned();
    let check = |file: &Path, more: &[&str]| {
        CommandOutput::of(recount().args(["verify", "--export"]).arg(file).args(more))
    };
    let passes = |output: CommandOutput| assert_eq!(output.status, 0, "{output:?}");
    let fails = |output: CommandOutput, words: &str| {
        assert!(output.status != 0 && output.data.contains(words), "{words}: {output:?}");
    };
    place.server.ask(&["export", "--all", "-o", plain.to_str().unwrap()]).good();
    place.server.ask(&["export", "--all", "--signed", "-o", signed.to_str().unwrap()]).good();
    passes(check(&plain, &[]));
    fails(check(&plain, &["--public-key", &keys]), "it has no signed head");
    passes(check(&signed, &["--public-key", &keys]));
    let text = std::fs::read_to_string(&signed).unwrap();
    assert!(text.lines().last().unwrap().contains("\"untrusted_keys\":{\"keys\":["), "{text}");

    std::fs::write(&edited, edited_export(&place.run, &text)).unwrap();
    passes(check(&edited, &[]));
    fails(check(&edited, &["--public-key", &keys]), "events were changed");
    // An ending that was cut off does not make the rest valid.
    std::fs::write(&edited, unended_export(&place.run, &text, false)).unwrap();
    passes(check(&edited, &[]));
    fails(check(&edited, &["--public-key", &keys]), "neither an ending nor a signed head");
    std::fs::write(&edited, unended_export(&place.run, &text, true)).unwrap();
    fails(check(&edited, &["--public-key", &keys]), "it has no ending, and its signed head covers");
    std::fs::write(&edited, text.replacen("greet all", "greet few", 1)).unwrap();
    fails(check(&edited, &[]), "events were changed");
    let other = Place::new().await;
    fails(check(&signed, &["--public-key", other.keys.to_str().unwrap()]), "not among the given keys");
    // Without its last line, or with one run less.
    let (runs, last) = text.trim_end().rsplit_once('\n').unwrap();
    std::fs::write(&edited, runs).unwrap();
    fails(check(&edited, &[]), "no last line");
    std::fs::write(&edited, format!("{last}\n")).unwrap();
    fails(check(&edited, &[]), "the file contains 0 with 0");
    fails(check(&edited, &["--public-key", &keys]), "lacks 1 runs that it has signed heads of");
    std::fs::write(&edited, text.replacen("\"object\":\"end\",", "\"object\":\"end\",\"left_out\":3,", 1))
        .unwrap();
    fails(check(&edited, &[]), "lacks 3 runs that could not be read");
    std::fs::write(&edited, format!("{{\"object\":\"run\"}}\nx\ny\n{text}")).unwrap();
    fails(check(&edited, &["--public-key", &keys]), "line 1: no header of a run");

    // The file can be imported, and is the same from the folder.
    let imported = other.server.ask(&["import", signed.to_str().unwrap()]);
    assert_eq!(imported.status, 0, "{imported:?}");
    place.server.stop();
    let mut offline = recount();
    let offline =
        CommandOutput::of(offline.args(["export", "--all", "--signed", "--data"]).arg(place.data())).good();
    assert_eq!(offline, text);
}
