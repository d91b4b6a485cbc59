//! What differs between operating systems: private files, signals, processes, terminals, the space of a disk, the name of the
//! machine.
//!
//! Linux and macOS are in `unix`; on Windows, `windows` has the same functions. Where Windows has no counterpart, the function
//! reports that (`None`) or does nothing, and `docs/install.md` lists what that means for users. It must never know the domain.

#[cfg(not(unix))]
mod windows;
#[cfg(not(unix))]
pub use self::windows::*;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use self::unix::*;

use std::fs::Metadata;
use std::process::ExitStatus;

/// The bytes of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Available to this user.
    pub free: u64,
    pub whole: u64,
}

/// How many files a process may have open; `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

/// Another user owns a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it belongs to user {owner}, and this is user {own}")]
pub struct ForeignOwner {
    pub owner: u32,
    pub own: u32,
}

/// How a process ended, as text after its name.
pub fn ending_text(status: ExitStatus) -> String {
    match (status.code(), signal_of(status)) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, Some(signal)) => format!("was terminated by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Whether users other than the owner have access to a file or folder; its mode if so.
pub fn shared_mode(metadata: &Metadata) -> Option<u32> {
    mode_of(metadata).filter(|mode| mode & 0o077 != 0)
}
