//! Measures the cost of commands: a run with much output, compared with a loop that reads the same pipe into bare
//! SQLite, and the start time of a sandbox, compared with the bare layer.

use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use recount_agent::sandbox::{Mode, Sandbox, SandboxCommand, SandboxContext, SandboxSettings};
use serde_json::json;

use super::own::{self, OwnRunServer};
use super::{Bench, Sheet, alternate};
use crate::clock::{self, now_ns, seconds_since};
use crate::histogram::Histogram;
use crate::process::{anonymous_kib, cpu_seconds};
use crate::sheet::{Bar, SheetRow};
use crate::yardstick::group::{self, Commit as _};
use crate::yardstick::sqlite::Bare;

pub(super) const LINES: &[SheetRow] = &[
    SheetRow {
        key: "output.rate",
        what: "a run that writes 256 MiB, against a loop that commits the same pipe to bare SQLite",
        unit: "MB/s",
        bar: Bar::RatioAtLeast(0.5),
    },
    SheetRow {
        key: "output.memory",
        what: "the most anonymous memory of the server meanwhile, beside a run before it that writes 128 MiB",
        unit: "MiB",
        bar: Bar::RatioAtMost(1.25),
    },
    SheetRow {
        key: "output.cpu",
        what: "the server's processor time a MiB of output",
        unit: "ms",
        bar: Bar::None,
    },
    SheetRow {
        key: "output.bwrap",
        what: "`true` in the sandbox, bubblewrap, p50 beyond bubblewrap by itself",
        unit: "ms",
        bar: Bar::AtMost(30.0),
    },
    SheetRow {
        key: "output.landlock",
        what: "`true` in the sandbox, Landlock, p50 beyond `true` by itself",
        unit: "ms",
        bar: Bar::AtMost(30.0),
    },
    SheetRow {
        key: "output.off",
        what: "`true` without a sandbox, but under a warden, p50 beyond `true` by itself",
        unit: "ms",
        bar: Bar::AtMost(30.0),
    },
];

const MIB: usize = 1 << 20;
const ROW_BYTES: usize = 64 << 10;

pub(super) fn pair(bench: &Bench, pair: usize, sheet: &mut Sheet) -> Result<()> {
    let (little, much) = (bench.pick(1, 128), bench.pick(2, 256));
    let (mut ours, mut bare) = (None, None);
    alternate(
        pair,
        &mut [
            &mut || {
                let scratch = bench.scratch("own")?;
                let own = OwnRunServer::start(scratch.path(), "", "auto")?;
                text(&own.work.join("little.txt"), little)?;
                text(&own.work.join("much.txt"), much)?;
                let (_, flat_kib) = written(&own, "cat little.txt", little * MIB)?;
                let before = cpu_seconds(own.server.pid())?;
                let (seconds, most_kib) = written(&own, "cat much.txt", much * MIB)?;
                let cpu = cpu_seconds(own.server.pid())? - before;
                ours = Some((seconds, most_kib / 1024.0, flat_kib / 1024.0, cpu));
                own.server.stop()
            },
            &mut || {
                let scratch = bench.scratch("sqlite")?;
                text(&scratch.path().join("much.txt"), much)?;
                bare = Some(piped(scratch.path(), much * MIB)?);
                Ok(())
            },
        ],
    )?;
    let ((seconds, most, flat, cpu), bare) = ours.zip(bare).ok_or_else(|| anyhow!("a window is missing"))?;
    let megabytes = (much * MIB) as f64 / 1e6;
    sheet.pair("output.rate", megabytes / seconds, megabytes / bare);
    sheet.pair("output.memory", most, flat);
    sheet.one("output.cpu", cpu * 1e3 / much as f64);
    let commits = (much * MIB / ROW_BYTES) as f64 / bare;
    sheet.share(
        "bare SQLite, rows of 64 KiB: commits".to_owned(),
        commits / bench.raw_syncs(ROW_BYTES)?,
        0.10,
    );
    sandboxes(bench, sheet)
}

/// A text file of so many MiB.
fn text(path: &Path, mib: usize) -> Result<()> {
    let mut file = BufWriter::with_capacity(MIB, File::create(path)?);
    let mut written = 0;
    for line in 0_u64.. {
        let left = mib * MIB - written;
        if left == 0 {
            break;
        }
        let text = format!("{line:09} The quick brown fox jumps over the lazy dog, and writes that down.\n");
        let piece = &text.as_bytes()[..text.len().min(left)];
        file.write_all(piece)?;
        written += piece.len();
    }
    Ok(file.flush()?)
}

/// Seconds from the creation of a run to its end, and the peak memory.
fn written(own: &OwnRunServer, command: &str, bytes: usize) -> Result<(f64, f64)> {
    let mut connection = own.connect()?;
    let order = json!({
        "kind": "shell",
        "command": command,
        "workspace": own.work,
        "workspace_mode": "in_place",
        "output_bytes_max": bytes + MIB,
        "timeout_seconds": 600,
    });
    let start = now_ns();
    let run = own::order(&mut connection, &order)?;
    let mut most = 0.0_f64;
    loop {
        let answer = connection.get(&format!("/v1/runs/{run}"))?;
        most = most.max(anonymous_kib(own.server.pid())?);
        let row: serde_json::Value = serde_json::from_slice(&answer.body)?;
        match row["data"]["status"].as_str() {
            Some("finished" | "completed") => break,
            Some("queued" | "running") => clock::pause(2),
            _ => bail!("`{command}` came to this: {row}"),
        }
    }
    let seconds = seconds_since(start);
    let mut logged = 0;
    own.follow(&format!("/v1/runs/{run}/events"), |event, _| {
        if own::is(event, "tool.shell.exited\"") {
            let event: serde_json::Value = serde_json::from_slice(event).unwrap_or_default();
            logged = event["data"]["stdout_bytes"].as_u64().unwrap_or(0);
        }
        own::is(event, "run.finished\"")
    })?;
    ensure!(logged == bytes as u64, "`{command}` wrote {bytes} bytes and the log has {logged}");
    Ok((seconds, most))
}

/// Seconds of the minimal equivalent: a pipe of the same size, and a synced row for every 64 KiB.
fn piped(folder: &Path, bytes: usize) -> Result<f64> {
    let mut store = Bare::open(folder)?;
    let start = now_ns();
    let mut child = Command::new("cat")
        .arg(folder.join("much.txt"))
        .stdout(Stdio::piped())
        .spawn()
        .context("cat cannot be started")?;
    let mut pipe = child.stdout.take().context("standard output is piped")?;
    rustix::pipe::fcntl_setpipe_size(&pipe, MIB)?;
    let (mut row, mut got) = (vec![0; ROW_BYTES], 0);
    while got < bytes {
        let here = ROW_BYTES.min(bytes - got);
        pipe.read_exact(&mut row[..here])?;
        store.commit(&row[..here])?;
        got += here;
    }
    ensure!(child.wait()?.success(), "cat failed");
    Ok(seconds_since(start))
}

/// Without hidden paths, `true` needs only these arguments.
const BARE_BWRAP: [&str; 9] =
    ["--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "--dev", "/dev", "true"];

/// Compares each layer with its bare mechanism.
fn sandboxes(bench: &Bench, sheet: &mut Sheet) -> Result<()> {
    let times = bench.pick(2, 50);
    let scratch = bench.scratch("sandbox")?;
    let root = scratch.path().canonicalize()?;
    let runtime = group::runtime()?;
    for (mode, key, bare) in [
        (Mode::Bubblewrap, "output.bwrap", ("bwrap", BARE_BWRAP.as_slice())),
        (Mode::Landlock, "output.landlock", ("true", &[])),
        (Mode::Off, "output.off", ("true", &[])),
    ] {
        let settings = SandboxSettings { mode, ..SandboxSettings::default() };
        let sandbox = runtime.block_on(Sandbox::probe(settings, SandboxContext::default()))?;
        let (mut ours, mut theirs) = (Histogram::default(), Histogram::default());
        for _ in 0..times {
            ours.add(runtime.block_on(time_sandbox(&sandbox, &root))?);
            let start = now_ns();
            let status = Command::new(bare.0).args(bare.1).current_dir(&root).status()?;
            ensure!(status.success(), "{} failed", bare.0);
            theirs.add(now_ns() - start);
        }
        sheet.note(format!(
            "`true` in {}: p50 {:.1} ms, p99 {:.1}; by itself: {:.1}, {:.1}",
            sandbox.label(false),
            ours.p50_ms(),
            ours.p99_ms(),
            theirs.p50_ms(),
            theirs.p99_ms()
        ));
        sheet.one(key, (ours.p50_ms() - theirs.p50_ms()).max(0.0));
    }
    Ok(())
}

/// Nanoseconds of one command, from its start to its end.
async fn time_sandbox(sandbox: &Sandbox, root: &Path) -> Result<u64> {
    let order =
        SandboxCommand { argv: vec!["true".to_owned()], root, network: false, environment: Vec::new() };
    let start = now_ns();
    let exit = sandbox.start(order).await?.ended().await;
    let took = now_ns() - start;
    ensure!(exit.code == Some(0), "`true` ended with {exit:?}");
    Ok(took)
}
