//! Linux and macOS.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr, tcsetattr,
};
use rustix::time::{ClockId, clock_gettime};
pub use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{DiskSpace, ForeignOwner, OpenFiles};

/// The variable with the user's home folder.
pub const HOME: &str = "HOME";

/// Makes created files readable by their owner only.
pub fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Gives created files this mode.
pub fn file_with_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    options.mode(mode)
}

/// Makes created folders accessible to their owner only.
pub fn private_folder(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder.mode(0o700)
}

/// Makes the names in a folder durable: created and renamed files exist after a power cut.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Opens a finished file so that its content can be made durable.
pub fn open_to_sync(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The permission bits of a file.
pub fn mode_of(metadata: &Metadata) -> Option<u32> {
    Some(metadata.mode() & 0o777)
}

/// Checks that this user owns a file.
pub fn check_owner(metadata: &Metadata) -> Result<(), ForeignOwner> {
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner == own { Ok(()) } else { Err(ForeignOwner { owner, own }) }
}

/// Checks that this user may create files in a folder.
pub fn check_writable(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::access(folder, rustix::fs::Access::WRITE_OK)?)
}

pub fn is_named_pipe(metadata: &Metadata) -> bool {
    metadata.file_type().is_fifo()
}

pub fn disk_space(path: &Path) -> io::Result<Option<DiskSpace>> {
    let found = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(Some(DiskSpace { free: bytes(found.f_bavail), whole: bytes(found.f_blocks) }))
}

/// The name of this machine, as others know it.
pub fn machine_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Processor time that this process has used.
pub fn processor_time() -> Option<Duration> {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Some(Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or_default()))
}

pub fn open_files() -> OpenFiles {
    let limit = getrlimit(Resource::Nofile);
    OpenFiles { soft: limit.current, hard: limit.maximum }
}

/// Raises the limit of open files to the hard limit.
pub fn raise_open_files() -> io::Result<()> {
    let most = open_files().hard;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })?)
}

/// Requests a child process to end.
pub fn request_end(process: u32) {
    send(process, rustix::process::Signal::TERM);
}

/// Ends a child process at once.
pub fn kill(process: u32) {
    send(process, rustix::process::Signal::KILL);
}

fn send(process: u32, signal: rustix::process::Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // It may have ended.
        rustix::process::kill_process(process, signal).ok();
    }
}

/// The signal that ended a process.
pub fn signal_of(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Drops what was typed at the terminal of standard input and not read yet.
pub fn discard_typed() {
    // It may be no terminal.
    tcflush(io::stdin(), QueueSelector::IFlush).ok();
}

/// A mode of the terminal of standard input; dropping it restores the earlier mode.
pub struct TerminalMode(Termios);

impl TerminalMode {
    /// What is typed is not shown. `None` where that is not possible.
    pub fn hidden() -> Option<TerminalMode> {
        Self::change(|mode| mode.local_modes.remove(LocalModes::ECHO))
    }

    /// Each key is read at once and is not shown; Ctrl-C still interrupts. `None` where that is not possible.
    pub fn keys() -> Option<TerminalMode> {
        Self::change(|mode| {
            mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            mode.special_codes[SpecialCodeIndex::VMIN] = 1;
            mode.special_codes[SpecialCodeIndex::VTIME] = 0;
        })
    }

    fn change(change: impl FnOnce(&mut Termios)) -> Option<TerminalMode> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut changed = before.clone();
        change(&mut changed);
        tcsetattr(io::stdin(), OptionalActions::Now, &changed).ok()?;
        Some(TerminalMode(before))
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        // If it fails, the terminal is closed.
        tcsetattr(io::stdin(), OptionalActions::Now, &self.0).ok();
    }
}
