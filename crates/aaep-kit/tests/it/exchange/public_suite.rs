//! Runs the conformance suite of the protocol's authors against a producer and reads its report. It does not depend on
//! the producer; the process tests of the command use it too.
//!
//! The suite is used as published. It looks for the protocol's JSON schemas beside its packages, but the published
//! package has none, so ours are copied there: without them its first check fails. The protocol's schemas allow
//! further fields of an event, so the copies do too.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A run of the suite.
#[derive(Debug)]
pub(crate) struct SuiteRun {
    /// The exit status of the suite; it fails on errors only.
    pub(crate) status: Option<i32>,
    /// The complete output of the suite.
    pub(crate) output: String,
    /// Its report; null if there is none.
    report: Value,
}

impl SuiteRun {
    /// The ids of failed checks of a severity.
    pub(crate) fn failed(&self, severity: &str) -> Vec<&str> {
        let results = self.report["test_results"].as_array().map_or(&[][..], Vec::as_slice);
        let is_failed = |result: &&Value| result["passed"] == false && result["severity"] == severity;
        results.iter().filter(is_failed).filter_map(|result| result["test_id"].as_str()).collect()
    }

    /// How many checks passed, and how many there were.
    pub(crate) fn passed(&self) -> (u64, u64) {
        let count = |name: &str| self.report[name].as_u64().unwrap_or_default();
        (count("tests_passed"), count("tests_run"))
    }
}

/// Runs `program`, the suite, against an endpoint; it may take about a minute at level 3.
pub(crate) fn run(program: &Path, endpoint: &str, level: u8) -> SuiteRun {
    copy_schemas(program);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let report = folder.path().join("report.json");
    let output = Command::new(program)
        .args(["producer", "--endpoint", endpoint, "--level", &level.to_string(), "--report-json"])
        .arg(&report)
        .arg("--report-html")
        .arg(folder.path().join("report.html"))
        .stdin(Stdio::null())
        .output()
        .expect("the suite starts");
    let report = std::fs::read(&report).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    SuiteRun {
        status: output.status.code(),
        output: text(&output.stdout) + &text(&output.stderr),
        report: report.unwrap_or_default(),
    }
}

/// Copies the schemas to where the suite looks for them. Tests may do so concurrently: each file is replaced
/// atomically.
fn copy_schemas(program: &Path) {
    let ours = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../aaep/schemas"));
    let lib = program.parent().and_then(Path::parent).expect("programs are in bin").join("lib");
    let python = std::fs::read_dir(&lib).expect("the environment has libraries").filter_map(Result::ok);
    let python = python.map(|entry| entry.path()).find(|path| path.is_dir()).expect("it has a Python");
    for part in ["", "core"] {
        let to = python.join("schemas").join(part);
        std::fs::create_dir_all(&to).expect("the environment can be written to");
        for from in files(&ours.join(part)) {
            let text = std::fs::read(&from).expect("a schema can be read");
            let mut schema: Value = serde_json::from_slice(&text).expect("a schema is JSON");
            schema.as_object_mut().expect("a schema is an object").remove("additionalProperties");
            let text = schema.to_string().into_bytes();
            let place = to.join(from.file_name().expect("a file has a name"));
            if std::fs::read(&place).is_ok_and(|there| there == text) {
                continue;
            }
            let new = tempfile::NamedTempFile::new_in(&to).expect("the environment can be written to");
            std::fs::write(new.path(), text).expect("the environment can be written to");
            new.persist(&place).expect("a file can be replaced");
        }
    }
}

fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the schemas are there").filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| path.is_file())
}
