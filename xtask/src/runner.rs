//! Runs many test commands concurrently, each in its own process, and reports how long they took.
//!
//! Cargo runs one test program after the other, with one thread per processor. Most long tests of this tree wait for
//! sockets and children, so more of them can run. A process per test gives each its own time, limit and output. The
//! module must not depend on the purpose of a test. Start at [`run_all`].

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Concurrent commands per processor, because most of the long ones wait.
const COMMANDS_A_PROCESSOR: usize = 3;

/// The polling interval for the end of a command: short at first, because most tests take milliseconds.
const POLL: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(15)];

/// The number of jobs between progress lines.
const PROGRESS_EVERY: usize = 250;

/// Entries in each list of slow tests and slow suites.
const SLOW_LISTED: usize = 15;

/// One command, and its place in the report.
pub(crate) struct Job {
    /// The program or folder that the test is part of.
    pub(crate) suite: String,
    pub(crate) name: String,
    pub(crate) command: Command,
}

impl Job {
    /// The name in lists of times and failures, which filters match.
    pub(crate) fn full_name(&self) -> String {
        format!("{} {}", self.suite, self.name)
    }
}

/// The results of all jobs.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) passed: usize,
    /// Suite and name.
    pub(crate) failed: Vec<String>,
    /// The time of each job, by suite and name.
    pub(crate) times: BTreeMap<String, Time>,
    suites: BTreeMap<String, Suite>,
}

#[derive(Debug, Default)]
struct Suite {
    remaining: usize,
    jobs: usize,
    time: Time,
}

/// How long a job took. With concurrent jobs the elapsed time has little meaning; the processor time is what to reduce.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Time {
    pub(crate) elapsed: Duration,
    /// Including that of reaped children.
    pub(crate) processor: Duration,
}

struct Finished {
    suite: String,
    name: String,
    outcome: Result<Ending>,
    elapsed: Duration,
}

struct Ending {
    status: Option<ExitStatus>,
    output: String,
    processor: Duration,
}

/// The number of concurrent jobs on this machine.
pub(crate) fn slots() -> usize {
    COMMANDS_A_PROCESSOR * std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs all jobs in the given order, `slots` at a time, and prints failures as they come. A job still running after
/// `limit` is killed and has failed. Output is kept below `folder` while a job runs.
pub(crate) fn run_all(jobs: Vec<Job>, slots: usize, limit: Duration, folder: &Path) -> Result<Results> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut results = Results::default();
    for job in &jobs {
        let suite = results.suites.entry(job.suite.clone()).or_default();
        suite.remaining += 1;
        suite.jobs += 1;
    }
    let total = jobs.len();
    let queue = Mutex::new(VecDeque::from(jobs));
    let (report, reports) = mpsc::channel();
    std::thread::scope(|scope| {
        for slot in 0..slots {
            let (queue, report) = (&queue, report.clone());
            scope.spawn(move || {
                let output = folder.join(format!("{slot}.txt"));
                loop {
                    let Some(job) = queue.lock().expect("no worker panics").pop_front() else { return };
                    let start = Instant::now();
                    let outcome = run_one(job.command, limit, &output);
                    let elapsed = start.elapsed();
                    let finished = Finished { suite: job.suite, name: job.name, outcome, elapsed };
                    if report.send(finished).is_err() {
                        return;
                    }
                }
            });
        }
        drop(report);
        for (done, finished) in (1..).zip(reports) {
            results.add(finished);
            if done % PROGRESS_EVERY == 0 {
                println!("{done} of {total} done");
            }
        }
    });
    Ok(results)
}

impl Results {
    fn add(&mut self, finished: Finished) {
        let Finished { suite, name, outcome, elapsed } = finished;
        let processor = outcome.as_ref().map_or(Duration::ZERO, |ending| ending.processor);
        let full_name = format!("{suite} {name}");
        match outcome {
            Ok(Ending { status: Some(status), .. }) if status.success() => self.passed += 1,
            Ok(Ending { status, output, .. }) => {
                let why = status.map_or_else(
                    || format!("killed after {} s", elapsed.as_secs()),
                    |status| status.to_string(),
                );
                println!("---- {full_name}\n{output}---- FAILED: {full_name}: {why}");
                self.failed.push(full_name.clone());
            }
            Err(error) => {
                println!("---- FAILED: {full_name}: {error:#}");
                self.failed.push(full_name.clone());
            }
        }
        let done = self.suites.get_mut(&suite).expect("each suite was counted before the start");
        done.remaining -= 1;
        done.time.elapsed += elapsed;
        done.time.processor += processor;
        if done.remaining == 0 {
            let (elapsed, processor) = done.time.seconds();
            println!(
                "{suite}: {} done, {elapsed:.1} s in all, {processor:.1} s of processor time",
                done.jobs
            );
        }
        self.times.insert(full_name, Time { elapsed, processor });
    }

    /// The most expensive programs and tests, so that the next person sees what to shorten.
    pub(crate) fn slowest(&self) -> String {
        let suites = self.suites.iter().map(|(name, suite)| (name.as_str(), suite.time));
        let suites = slowest("most processor time, by test program", suites.collect());
        let tests = || self.times.iter().map(|(name, time)| (name.as_str(), *time));
        let by_processor = slowest("most processor time, by test", tests().collect());
        suites + &by_processor + &longest("longest tests", tests().collect())
    }

    /// The failures, and the final line.
    pub(crate) fn counts(&self) -> String {
        let failed = self.failed.iter().map(|failed| format!("failed: {failed}\n"));
        failed.collect::<String>() + &format!("{} passed, {} failed\n", self.passed, self.failed.len())
    }
}

impl Time {
    fn seconds(self) -> (f64, f64) {
        (self.elapsed.as_secs_f64(), self.processor.as_secs_f64())
    }
}

fn slowest(title: &str, mut rows: Vec<(&str, Time)>) -> String {
    rows.sort_by_key(|(_, time)| std::cmp::Reverse(time.processor));
    table(title, &rows)
}

fn longest(title: &str, mut rows: Vec<(&str, Time)>) -> String {
    rows.sort_by_key(|(_, time)| std::cmp::Reverse(time.elapsed));
    table(title, &rows)
}

fn table(title: &str, rows: &[(&str, Time)]) -> String {
    let mut text = format!("{title}:\n{:>10}  {:>10}\n", "processor", "elapsed");
    for (name, time) in rows.iter().take(SLOW_LISTED) {
        let (elapsed, processor) = time.seconds();
        text += &format!("{processor:>8.1} s  {elapsed:>8.1} s  {name}\n");
    }
    text
}

/// Wraps a command in a shell that writes the processor time of its children at the end.
fn timed(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$@\"; status=$?; times; exit $status", "sh"]).arg(command.get_program());
    shell.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

/// Removes the two lines of `times` from the end of the output: of the shell, and of its children.
fn take_times(output: &mut String) -> Duration {
    let lines: Vec<&str> = output.trim_end().rsplitn(3, '\n').collect();
    let (Some(children), Some(rest)) = (lines.first(), lines.get(2)) else { return Duration::ZERO };
    let seconds = |text: &str| {
        let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let Some(sum) = children.split_whitespace().map(seconds).sum::<Option<f64>>() else {
        return Duration::ZERO;
    };
    let length = rest.len();
    output.truncate(length);
    Duration::from_secs_f64(sum.max(0.0))
}

fn run_one(command: Command, limit: Duration, output: &Path) -> Result<Ending> {
    let mut command = timed(&command);
    let file = File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
    // A separate process group, so that killing a test also kills the servers that it started.
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let status = wait(&mut child, limit)?;
    let output = std::fs::read(output).with_context(|| format!("cannot read {}", output.display()))?;
    let mut output = String::from_utf8_lossy(&output).into_owned();
    let processor = take_times(&mut output);
    Ok(Ending { status, output, processor })
}

/// Returns `None` if the command was killed at the limit.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let elapsed = start.elapsed();
        if elapsed > limit {
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status().context("cannot run kill")?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(if elapsed < POLL[1] { POLL[0] } else { POLL[1] });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn job(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { suite: "shell".into(), name: name.into(), command }
    }

    #[test]
    fn failures_are_counted_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut jobs = vec![job("good", "exit 0"), job("bad", "echo oh no; exit 3")];
        jobs.push(Job {
            suite: "none".into(),
            name: "missing".into(),
            command: Command::new("/no/such/program"),
        });
        let results = run_all(jobs, 2, LIMIT, folder.path()).unwrap();
        assert_eq!(results.passed, 1);
        let mut failed = results.failed.clone();
        failed.sort();
        assert_eq!(failed, ["none missing", "shell bad"]);
        assert_eq!(results.times.len(), 3);
        assert!(results.counts().ends_with("1 passed, 2 failed\n"), "{}", results.counts());
        assert!(results.slowest().contains("shell bad"), "{}", results.slowest());
    }

    #[test]
    fn processor_time_is_taken_from_the_end_of_the_output() {
        let mut output = "a line\nanother\n0m0.00s 0m0.01s\n1m2.50s 0m0.50s\n".to_owned();
        assert_eq!(take_times(&mut output), Duration::from_secs(63));
        assert_eq!(output, "a line\nanother");
        let mut other = "panicked\nat the end\nof it\n".to_owned();
        assert_eq!(take_times(&mut other), Duration::ZERO);
        assert!(other.ends_with("of it\n"));
    }

    #[test]
    fn a_job_that_exceeds_the_limit_is_killed_and_has_failed() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = vec![job("endless", "sleep 1000 & wait")];
        let results = run_all(jobs, 1, Duration::from_millis(50), folder.path()).unwrap();
        assert_eq!(results.failed, ["shell endless"]);
    }

    #[test]
    fn jobs_run_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // Each of the two blocks until the other one opens the pipe.
        let pipe = pipe.display();
        let jobs = vec![job("write", &format!("echo x > {pipe}")), job("read", &format!("cat {pipe}"))];
        let results = run_all(jobs, 2, LIMIT, folder.path()).unwrap();
        assert_eq!((results.passed, results.failed.len()), (2, 0));
    }
}
