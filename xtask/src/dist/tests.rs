//! Tests of packaging that need no build of the program: the installer with a small archive, the service, the list of parts.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::parts::{Part, Parts, checksums};
use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn packaging(file: &str) -> String {
    std::fs::read_to_string(root().join("packaging").join(file)).unwrap()
}

/// A folder with a release, whose program is a script that prints `version`, and a prefix to install to.
struct Place {
    folder: tempfile::TempDir,
    archive: String,
}

const TARGET: &str = "x86_64-unknown-linux-musl";

impl Place {
    fn with_release(version: &str) -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap(), archive: String::new() };
        place.release(version)
    }

    /// Replaces the release.
    fn release(mut self, version: &str) -> Place {
        let (release, name) = (self.path("release"), format!("recount-{version}-{TARGET}"));
        fresh_folder(&release).unwrap();
        let files = release.join(&name);
        for (file, text) in [
            ("recount", format!("#!/bin/sh\necho recount {version}\n").as_str()),
            ("man/man1/recount.1", version),
            ("completions/bash/recount", version),
            ("completions/zsh/_recount", version),
            ("completions/fish/recount.fish", version),
        ] {
            std::fs::create_dir_all(files.join(file).parent().unwrap()).unwrap();
            std::fs::write(files.join(file), text).unwrap();
        }
        self.archive = format!("{name}.tar.gz");
        output_of(&files, &["chmod", "755", "recount"]).unwrap();
        output_of(&release, &["tar", "-czf", &self.archive, &name]).unwrap();
        write_sums(&release, &[release.join(&self.archive)]).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn install_from(&self, url: &str, arguments: &[&str]) -> Output {
        let mut install = Command::new("sh");
        install
            .arg(root().join("packaging/install.sh"))
            .args(arguments)
            .arg("--prefix")
            .arg(self.path("prefix"));
        install.env("RECOUNT_RELEASE_URL", url).env("RECOUNT_TARGET", TARGET).output().unwrap()
    }

    fn install(&self) -> Output {
        self.install_from(&format!("file://{}", self.path("release").display()), &[])
    }

    /// What the installed program prints.
    fn installed(&self) -> String {
        output_of(self.folder.path(), &["prefix/bin/recount"]).unwrap()
    }

    /// All files below the prefix.
    fn files(&self) -> Vec<String> {
        let found = output_of(self.folder.path(), &["find", "prefix", "-type", "f"]).unwrap();
        let mut files: Vec<String> = found.lines().map(str::to_owned).collect();
        files.sort();
        files
    }
}

fn error_of(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_release_is_installed_replaced_and_removed() {
    let place = Place::with_release("1.0.0");
    let output = place.install();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(place.installed(), "recount 1.0.0\n");
    let files = [
        "prefix/bin/recount",
        "prefix/share/bash-completion/completions/recount",
        "prefix/share/fish/vendor_completions.d/recount.fish",
        "prefix/share/man/man1/recount.1",
        "prefix/share/zsh/site-functions/_recount",
    ];
    assert_eq!(place.files(), files);
    let place = place.release("1.1.0");
    assert!(place.install().status.success());
    assert_eq!(place.installed(), "recount 1.1.0\n");
    assert_eq!(place.files(), files);
    assert!(place.install_from("file:///none", &["--uninstall"]).status.success());
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn a_wrong_checksum_changes_nothing() {
    let place = Place::with_release("1.0.0");
    assert!(place.install().status.success());
    let (before, place) = (place.files(), place.release("1.1.0"));
    let sums = place.path("release/SHA256SUMS");
    std::fs::write(&sums, format!("{}  {}\n", "0".repeat(64), place.archive)).unwrap();
    let error = error_of(&place.install());
    assert!(error.contains("but SHA256SUMS has 000"), "{error}");
    assert_eq!((place.installed().as_str(), place.files()), ("recount 1.0.0\n", before));
}

#[test]
fn a_cut_download_changes_nothing() {
    let place = Place::with_release("1.0.0");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sums = std::fs::read(place.path("release/SHA256SUMS")).unwrap();
    let archive = std::fs::read(place.path("release").join(&place.archive)).unwrap();
    let server = std::thread::spawn(move || {
        for (body, sent) in [(&sums, sums.len()), (&archive, archive.len() / 2)] {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(connection.read(&mut request).unwrap() > 0);
            write!(
                connection,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )
            .unwrap();
            connection.write_all(&body[..sent]).unwrap();
        }
    });
    let error = error_of(&place.install_from(&url, &[]));
    server.join().unwrap();
    assert!(error.contains("nothing was installed"), "{error}");
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn a_program_that_does_not_run_and_a_missing_version_change_nothing() {
    let place = Place::with_release("1.0.0");
    let url = format!("file://{}", place.path("release").display());
    let error = error_of(&place.install_from(&url, &["--version", "1.0"]));
    assert!(error.contains("of version 1.0"), "{error}");
    let (release, name) = (place.path("release"), place.archive.trim_end_matches(".tar.gz"));
    std::fs::write(release.join(name).join("recount"), "#!/bin/sh\nexit 1\n").unwrap();
    output_of(&release, &["tar", "-czf", &place.archive, name]).unwrap();
    write_sums(&release, &[release.join(&place.archive)]).unwrap();
    let error = error_of(&place.install());
    assert!(error.contains("does not run here"), "{error}");
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn a_cut_installer_does_nothing() {
    let (place, script) = (Place::with_release("1.0.0"), packaging("install.sh"));
    let half = place.path("half.sh");
    std::fs::write(&half, &script[..script.rfind("main \"$@\"").unwrap()]).unwrap();
    let output = Command::new("sh").arg(&half).arg("--prefix").arg(place.path("prefix")).output().unwrap();
    assert!(output.status.success() && !place.path("prefix").exists(), "{output:?}");
}

#[test]
fn without_an_address_of_releases_the_installer_names_the_variable() {
    let mut install = Command::new("sh");
    install
        .arg(root().join("packaging/install.sh"))
        .env_remove("RECOUNT_RELEASE_URL")
        .env("HOME", "/nonexistent");
    let error = error_of(&install.output().unwrap());
    assert!(error.contains("RECOUNT_RELEASE_URL"), "{error}");
}

#[test]
fn the_service_is_hardened_but_lets_the_sandbox_create_namespaces() {
    let unit = packaging("systemd/recount.service");
    let mut section = "";
    let mut settings = BTreeSet::new();
    for line in unit.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with('[') {
            section = line;
            continue;
        }
        assert!(line.contains('=') && !section.is_empty(), "not a setting: {line}");
        settings.insert(format!("{section}{line}"));
    }
    for required in [
        "User=recount",
        "ExecStart=recount serve",
        "StateDirectory=recount",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "Restart=on-failure",
        "Delegate=yes",
        "SystemCallErrorNumber=EPERM",
    ] {
        assert!(settings.contains(&format!("[Service]{required}")), "the unit lacks {required}");
    }
    // The comment at the end of the unit has the reasons.
    for breaks in ["RestrictNamespaces", "ProcSubset", "SystemCallFilter=@", "ProtectKernelTunables"] {
        assert!(!unit.lines().any(|line| line.starts_with(breaks)), "{breaks} breaks the sandbox");
    }
}

/// Packages that a part needs on every platform, from its own manifest.
fn declared(metadata: &Value, part: &Part) -> Vec<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let of = packages.iter().find(|package| {
        package["name"].as_str() == Some(&part.name) && package["version"].as_str() == Some(&part.version)
    });
    let needed = of.unwrap()["dependencies"].as_array().unwrap().iter();
    let needed =
        needed.filter(|one| one["kind"].is_null() && one["target"].is_null() && one["optional"] == false);
    needed.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_list_of_parts_has_every_package_that_the_program_uses() {
    let target = output_of(&root(), &["rustc", "-vV"]).unwrap();
    let target = target.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let parts = Parts::read(&root(), target).unwrap();
    let document: Value = serde_json::from_str(&sbom::document(&parts, &"0".repeat(64))).unwrap();
    assert_eq!(document["metadata"]["component"]["name"], "recount");
    let listed = document["components"].as_array().unwrap();
    let names: BTreeSet<&str> = listed.iter().map(|one| one["name"].as_str().unwrap()).collect();

    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let checksums = checksums(&lock);
    for one in listed {
        let reference = one["bom-ref"].as_str().unwrap();
        let own = one["name"].as_str().unwrap().starts_with("recount-");
        assert_eq!(
            one["hashes"][0]["content"].as_str(),
            checksums.get(reference).map(String::as_str),
            "{reference}"
        );
        assert_eq!(own, one["purl"].is_null(), "{reference}");
        assert!(
            one["licenses"][0]["expression"].as_str().is_some_and(|name| !name.contains('/')),
            "{reference}"
        );
    }
    let metadata = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target];
    let metadata = output_of(&root(), &metadata).unwrap();
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    for part in parts.0.values() {
        for needed in declared(&metadata, part) {
            assert!(names.contains(&*needed), "{} needs {needed}, which is not listed", part.name);
        }
    }
    for test_only in ["proptest", "tempfile", "recount-sim", "recount-bench"] {
        assert!(!names.contains(test_only), "{test_only} is not in the program");
    }
    let page = licences::page(&parts).unwrap();
    for one in parts.0.values() {
        let line = format!("\n{} {}: ", one.name, one.version);
        assert_eq!(page.contains(&line), !one.is_own(), "{line}");
    }
}

#[test]
fn a_program_with_a_dynamic_loader_is_not_static() {
    // A header, and one program header that names a loader.
    let mut program = vec![0; 0x100];
    program[..6].copy_from_slice(b"\x7fELF\x02\x01");
    program[32] = 64;
    program[54] = 56;
    program[56] = 1;
    program[64] = 3;
    program[72] = 0xc0;
    program[96] = 11;
    program[0xc0..0xcb].copy_from_slice(b"/lib/ld.so\0");
    assert_eq!(elf::interpreter(&program).unwrap().as_deref(), Some("/lib/ld.so"));
    elf::interpreter(&program[..100]).unwrap_err();
    program[64] = 1;
    assert_eq!(elf::interpreter(&program).unwrap(), None);
    elf::interpreter(b"#!/bin/sh").unwrap_err();
}

#[test]
fn the_packages_name_the_version_of_the_program() {
    let chart = packaging("helm/recount/Chart.yaml");
    assert!(chart.contains(&format!("appVersion: \"{}\"", env!("CARGO_PKG_VERSION"))), "{chart}");
    let manifest: Value = serde_json::from_str(&packaging("npm/package.json")).unwrap();
    for (name, _) in manifest["optionalDependencies"].as_object().unwrap() {
        let own = manifest["name"].as_str().unwrap();
        assert!(name.starts_with(&format!("{own}-")), "{name}");
    }
}
