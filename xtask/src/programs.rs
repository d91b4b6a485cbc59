//! Builds the test programs of the workspace, lists their tests, and creates a job for each.
//!
//! A test that only the full tier runs has `#[ignore = "full: <reason>"]`. Start at [`build`] and [`jobs`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::child::{cargo_program, command};
use crate::runner::{Job, Time};

/// The times of the last run, which order the next one: the longest tests start first.
const TIMES: &str = "test-times.json";

/// The factor for the number of random cases in tests.
const FACTOR: &str = "RECOUNT_TEST_FACTOR";

/// The factor of the full tier, and ten times the cases that property tests have by default.
const FULL_FACTOR: &str = "10";
const FULL_CASES: &str = "2560";

/// One test program that cargo built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Crate and target, `server::it`; unit tests have the crate's name alone.
    pub(crate) suite: String,
    path: PathBuf,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
}

/// Which tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Change,
    Full,
}

/// Builds all test programs and the programs that they start. `None`: something does not compile.
pub(crate) fn build(root: &Path) -> Result<Option<Vec<Program>>> {
    // The same command as [`crate::child::build_programs`], so that nothing is built a second time with other features.
    let words = ["build", "--workspace", "--bins", "--tests", "--locked", "--message-format"];
    let mut cargo = command(cargo_program(), root);
    cargo.args(words).arg("json-render-diagnostics").stdout(Stdio::piped());
    println!("$ cargo {} json-render-diagnostics", words.join(" "));
    let output = cargo.spawn().context("cannot run cargo")?.wait_with_output()?;
    if !output.status.success() {
        return Ok(None);
    }
    let messages = String::from_utf8(output.stdout).context("cargo writes UTF-8")?;
    let programs: Vec<_> =
        messages.lines().filter_map(|line| read_artifact(line).transpose()).collect::<Result<_>>()?;
    ensure!(!programs.is_empty(), "cargo built no test program");
    Ok(Some(programs))
}

fn read_artifact(line: &str) -> Result<Option<Program>> {
    let message: Value = serde_json::from_str(line).context("cargo writes lines of JSON")?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let (true, Some(path)) = (is_test, message["executable"].as_str()) else { return Ok(None) };
    let manifest = Path::new(message["manifest_path"].as_str().context("an artifact has a manifest")?);
    let folder = manifest.parent().context("a manifest is in a folder")?;
    let krate = folder.file_name().unwrap_or_default().to_string_lossy();
    let target = &message["target"];
    let suite = match target["kind"][0].as_str() {
        Some("test" | "example" | "bench") => {
            format!("{krate}::{}", target["name"].as_str().unwrap_or_default())
        }
        _ => krate.into_owned(),
    };
    Ok(Some(Program { suite, path: path.into(), folder: folder.to_owned() }))
}

/// A job for each test of these programs, in the order in which they should start.
pub(crate) fn jobs(programs: &[Program], tier: Tier, target: &Path) -> Result<Vec<Job>> {
    let mut found: Vec<(u64, Job)> = Vec::new();
    for program in programs {
        let size = std::fs::metadata(&program.path)?.len();
        let of_full = list(program, true)?;
        for test in list(program, false)? {
            if tier == Tier::Change && of_full.contains(&test) {
                continue;
            }
            let mut command = run(program);
            command.args([&test, "--exact", "--include-ignored", "--nocapture"]);
            multiply_cases(&mut command, tier);
            found.push((size, Job { suite: program.suite.clone(), name: test, command }));
        }
    }
    // Without times, the largest programs first: they have the tests that start servers.
    let times = read_times(target);
    found.sort_by_key(|(size, job)| {
        let time = times.get(&job.full_name()).copied().unwrap_or_default();
        std::cmp::Reverse((time, *size))
    });
    Ok(found.into_iter().map(|(_, job)| job).collect())
}

/// Sets the number of random cases for the tier.
pub(crate) fn multiply_cases(command: &mut Command, tier: Tier) {
    if tier == Tier::Full {
        command.env(FACTOR, FULL_FACTOR).env("PROPTEST_CASES", FULL_CASES);
    }
}

fn list(program: &Program, only_ignored: bool) -> Result<Vec<String>> {
    let mut command = run(program);
    command.args(["--list", "--format", "terse"]);
    if only_ignored {
        command.arg("--ignored");
    }
    let output = command.output().with_context(|| format!("cannot run {}", program.path.display()))?;
    ensure!(output.status.success(), "{} does not list its tests", program.path.display());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

fn run(program: &Program) -> Command {
    let mut command = command(&program.path, &program.folder);
    command.env("CARGO_MANIFEST_DIR", &program.folder).env_remove("RECOUNT_BLESS");
    command
}

fn read_times(target: &Path) -> BTreeMap<String, Duration> {
    // A missing or unreadable file costs only the order.
    let text = std::fs::read_to_string(target.join(TIMES)).unwrap_or_default();
    let times: BTreeMap<String, f64> = serde_json::from_str(&text).unwrap_or_default();
    times.into_iter().map(|(name, seconds)| (name, Duration::from_secs_f64(seconds.max(0.0)))).collect()
}

/// Stores the times for the next run.
pub(crate) fn keep_times(target: &Path, times: &BTreeMap<String, Time>) -> Result<()> {
    let mut all = read_times(target);
    all.extend(times.iter().map(|(name, time)| (name.clone(), time.elapsed)));
    let all: BTreeMap<_, _> = all.into_iter().map(|(name, time)| (name, time.as_secs_f64())).collect();
    let path = target.join(TIMES);
    std::fs::write(&path, serde_json::to_string(&all)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_taken_from_what_cargo_writes() {
        let line = |kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/t/crates/log/Cargo.toml","target":{{"kind":["{kind}"],"name":"it"}},"profile":{{"test":{test}}},"executable":"/t/x"}}"#
            )
        };
        let suite = |line: &str| read_artifact(line).unwrap().map(|program| program.suite);
        assert_eq!(suite(&line("test", true)).as_deref(), Some("log::it"));
        assert_eq!(suite(&line("lib", true)).as_deref(), Some("log"));
        assert_eq!(suite(&line("bin", false)), None);
        assert_eq!(suite(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn times_of_earlier_runs_are_stored() {
        let folder = tempfile::tempdir().unwrap();
        let time = Time { elapsed: Duration::from_millis(1_500), ..Time::default() };
        let run = |name: &str| BTreeMap::from([(name.to_owned(), time)]);
        keep_times(folder.path(), &run("log a")).unwrap();
        keep_times(folder.path(), &run("log b")).unwrap();
        assert_eq!(read_times(folder.path()).len(), 2);
        assert_eq!(read_times(folder.path())["log a"], Duration::from_millis(1_500));
    }
}
