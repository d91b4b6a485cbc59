//! Faults of what surrounds the processes: a full disk under PostgreSQL, and a wrong clock. What the machine does not permit is
//! skipped, and the details of the fault name the reason.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use recount_test_postgres::Signal;
use tokio_postgres::NoTls;

use super::Sequence;
use crate::soak::salvage::on_thread;

/// Bytes that are written at a time until the disk is full.
const CHUNK: usize = 64 << 10;
/// How long PostgreSQL may take to accept connections after its disk has space again; then it is restarted.
const REVIVAL: Duration = Duration::from_secs(REVIVAL_SECONDS);
const REVIVAL_SECONDS: u64 = 3;
/// Shifts the clock of a program; of the package of the same name.
const FAKETIME: &str = "faketime";

/// A file system in memory.
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// The write-ahead log must leave space for data.
    pub(super) const SETTINGS: &[(&str, &str)] = &[("max_wal_size", "16MB"), ("min_wal_size", "8MB")];
    const SIZE: &str = "size=160m";

    /// `None`: this process may not mount one.
    pub(super) fn mount(folder: &Path) -> Result<Option<Self>> {
        std::fs::create_dir(folder)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", Self::SIZE, "tmpfs"]).arg(folder).stderr(Stdio::null());
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        Ok(is_mounted.then(|| SmallDisk(folder.to_owned())))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// Writes a file until no space is left. Returns its path.
    fn fill(&self) -> Result<PathBuf> {
        let path = self.0.join("filler");
        let mut file = File::create(&path)?;
        for size in [CHUNK, 1] {
            loop {
                match file.write_all(&vec![0; size]) {
                    Ok(()) => {}
                    Err(full) if full.kind() == std::io::ErrorKind::StorageFull => break,
                    Err(other) => return Err(other).context("the small disk cannot be filled"),
                }
            }
        }
        Ok(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.0.display());
        }
    }
}

/// Fills the disk of PostgreSQL for a time. PostgreSQL may end itself, if it cannot write to its log; then it is started again.
pub(super) async fn fill_disk(sequence: &Sequence, time: Duration) -> Result<String> {
    let Some(disk) = &sequence.pair.disk else {
        return Ok("skipped: only root may mount a small disk".to_owned());
    };
    let refused = sequence.tenants[0].ledger.borrow().full;
    sequence.course.is_full.set(true);
    let filler = disk.fill()?;
    tokio::time::sleep(time).await;
    std::fs::remove_file(filler)?;
    let url = sequence.pair.url();
    let revived = async {
        while tokio_postgres::connect(&url, NoTls).await.is_err() {
            tokio::time::sleep(super::LOOK).await;
        }
    };
    let ended = tokio::time::timeout(REVIVAL, revived).await.is_err();
    if ended {
        let postgres = sequence.pair.postgres();
        on_thread(move || {
            postgres.end(Signal::QUIT)?;
            postgres.restart()
        })
        .await??;
    }
    let refused = sequence.tenants[0].ledger.borrow().full - refused;
    let outcome = if ended { "PostgreSQL ended and was started again" } else { "PostgreSQL went on" };
    Ok(format!("{:.1} s, {refused} requests refused with store_full, {outcome}", time.as_secs_f64()))
}

/// Starts a third server whose clock is ten minutes ahead. It must refuse to join.
pub(super) async fn start_with_wrong_clock(sequence: &Sequence) -> Result<String> {
    if Command::new(FAKETIME).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return Ok(format!("skipped: the program {FAKETIME} is missing"));
    }
    let slot = &sequence.pair.slots[0];
    let mut program = Command::new(FAKETIME);
    program.args(["-f", "+600s"]).arg(std::env::current_exe()?);
    // The monotonic clock is that of the machine, as with a clock that was set wrong.
    program.env("DONT_FAKE_MONOTONIC", "1");
    let (data, log) = (slot.data.with_file_name("three"), slot.data.with_file_name("three.log"));
    let mut command = slot.command(program, &data, "127.0.0.1:0");
    let mut server = command.stderr(File::create(&log)?).spawn().context("a server cannot be started")?;
    let mut status = None;
    let has_ended = || {
        status = server.try_wait().ok().flatten();
        status.is_some()
    };
    if !sequence.course.wait_until("the refusal of a server with a wrong clock", has_ended).await {
        server.kill()?;
        server.wait()?;
        return Ok("not refused".to_owned());
    }
    let text = std::fs::read_to_string(&log)?;
    let is_refusal = text.contains("the clock of this machine differs by");
    if !is_refusal || status.is_none_or(|status| status.success()) {
        sequence.course.broke(format!("a server with a wrong clock ended with {status:?}: {text}"));
    }
    Ok("refused".to_owned())
}
