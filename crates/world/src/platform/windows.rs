//! Windows, by its standard library and its own programs.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::signal::windows::{CtrlBreak, CtrlC, ctrl_break, ctrl_c};

pub use self::ConsoleMode as TerminalMode;
use super::{DiskSpace, ForeignOwner, OpenFiles};

/// The variable with the user's home folder.
pub const HOME: &str = "USERPROFILE";

/// Files have the access rules of their folder.
pub fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Files have no mode.
pub fn file_with_mode(options: &mut OpenOptions, _: u32) -> &mut OpenOptions {
    options
}

/// Folders have the access rules of the folder that they are in.
pub fn private_folder(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder
}

/// A folder cannot be opened as a file; the file system keeps names in its own journal.
pub fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Opens a finished file so that its content can be made durable, which needs the right to write.
pub fn open_to_sync(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Files have access lists instead, which the standard library does not read.
pub fn mode_of(_: &Metadata) -> Option<u32> {
    None
}

/// Not checked: the standard library does not read owners.
pub fn check_owner(_: &Metadata) -> Result<(), ForeignOwner> {
    Ok(())
}

/// Not checked before the folder is used.
pub fn check_writable(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Named pipes are not in the file system.
pub fn is_named_pipe(_: &Metadata) -> bool {
    false
}

/// Unknown: the standard library does not read it.
pub fn disk_space(_: &Path) -> io::Result<Option<DiskSpace>> {
    Ok(None)
}

/// The name of this machine, as others know it.
pub fn machine_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "localhost".to_owned())
}

/// Unknown: the standard library does not read it.
pub fn processor_time() -> Option<Duration> {
    None
}

/// There is no limit that a process could raise.
pub fn open_files() -> OpenFiles {
    OpenFiles { soft: None, hard: None }
}

pub fn raise_open_files() -> io::Result<()> {
    Ok(())
}

/// Ends a child process and the processes that it started: a console process cannot be requested to end.
pub fn request_end(process: u32) {
    kill(process);
}

/// Ends a child process at once, and the processes that it started.
pub fn kill(process: u32) {
    let mut end = Command::new("taskkill");
    end.args(["/F", "/T", "/PID", &process.to_string()]);
    // It may have ended.
    end.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok();
}

/// No signals end processes here.
pub fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

/// Nothing: the console keeps what was typed.
pub fn discard_typed() {}

/// A mode of the console.
pub enum ConsoleMode {}

impl ConsoleMode {
    /// The mode of the console is not changed, so what is typed is shown.
    pub fn hidden() -> Option<ConsoleMode> {
        None
    }

    /// The mode of the console is not changed, so keys come line by line.
    pub fn keys() -> Option<ConsoleMode> {
        None
    }
}

/// The signals that end a program: Ctrl-C, and Ctrl-Break in place of SIGTERM.
#[derive(Debug, Clone, Copy)]
pub enum SignalKind {
    Interrupt,
    Terminate,
}

impl SignalKind {
    pub fn interrupt() -> Self {
        SignalKind::Interrupt
    }

    pub fn terminate() -> Self {
        SignalKind::Terminate
    }
}

/// A listener for one kind of signal.
#[derive(Debug)]
pub enum Signal {
    Interrupt(CtrlC),
    Terminate(CtrlBreak),
}

impl Signal {
    pub async fn recv(&mut self) -> Option<()> {
        match self {
            Signal::Interrupt(listener) => listener.recv().await,
            Signal::Terminate(listener) => listener.recv().await,
        }
    }
}

pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    Ok(match kind {
        SignalKind::Interrupt => Signal::Interrupt(ctrl_c()?),
        SignalKind::Terminate => Signal::Terminate(ctrl_break()?),
    })
}
