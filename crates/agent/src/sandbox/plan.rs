//! Messages between the server and the warden: one JSON value per line, over the warden's standard input.
//!
//! The server sends a [`SandboxPlan`] first and [`WardenRequest`]s later. A closed connection counts as
//! [`WardenRequest::Kill`]. The warden replies with [`WardenReport`]s.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The mechanism that isolates a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    Bwrap,
    Landlock,
    Off,
}

impl Layer {
    pub fn name(self) -> &'static str {
        match self {
            Layer::Bwrap => "bwrap",
            Layer::Landlock => "landlock",
            Layer::Off => "off",
        }
    }
}

/// A command and all its restrictions.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SandboxPlan {
    pub(crate) layer: Layer,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) environment: Vec<(String, String)>,
    /// The writable folder.
    pub(crate) workspace: PathBuf,
    /// Readable paths, and hidden paths inside them. All exist and none is a symlink.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    /// The readable paths that the operator configured.
    pub(crate) granted: Vec<PathBuf>,
    /// Top-level symlinks such as `/bin`, and their targets.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) network: bool,
    /// Whether everything that cannot be isolated completely is disabled.
    pub(crate) strict: bool,
    pub(crate) memory_bytes: u64,
    /// Whether the log records that the kernel enforces the memory limit. If so, the command is not started without that.
    pub(crate) memory_is_kept: bool,
    pub(crate) processes: u32,
    pub(crate) file_bytes: u64,
    pub(crate) tmp_bytes: u64,
    pub(crate) room: QuotaPlan,
    /// This program, for the inner stage of bubblewrap.
    pub(crate) helper: PathBuf,
    pub(crate) bwrap: Option<PathBuf>,
}

/// A request of the server to a warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WardenRequest {
    /// Ask the command to end, and kill the rest after a grace period.
    Stop,
    /// Kill the command.
    Kill,
}

/// A report of a warden to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WardenReport {
    /// The command runs.
    Started,
    /// The command was not started, and no process of it exists.
    NotStarted { why: String },
    /// The command ended, and no process of it exists. With the usage of its workspace.
    Ended(Exit, Option<WorkspaceUsage>),
}

/// Disk usage of a folder, or free space of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiskUsage {
    pub(crate) bytes: u64,
    /// Files and folders.
    pub(crate) entries: u64,
}

#[cfg(target_os = "linux")]
impl DiskUsage {
    pub(crate) fn plus(self, more: DiskUsage) -> DiskUsage {
        DiskUsage {
            bytes: self.bytes.saturating_add(more.bytes),
            entries: self.entries.saturating_add(more.entries),
        }
    }

    pub(crate) fn minus(self, other: DiskUsage) -> DiskUsage {
        DiskUsage {
            bytes: self.bytes.saturating_sub(other.bytes),
            entries: self.entries.saturating_sub(other.entries),
        }
    }

    pub(crate) fn is_within(self, most: DiskUsage) -> bool {
        self.bytes <= most.bytes && self.entries <= most.entries
    }

    pub(crate) fn is_below(self, most: DiskUsage) -> bool {
        self.bytes < most.bytes && self.entries < most.entries
    }
}

/// The limits of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QuotaPlan {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// Whether it is a user's own folder. Then the usage at the start does not count.
    pub(crate) in_place: bool,
    pub(crate) known: Option<WorkspaceUsage>,
}

/// The known disk usage of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkspaceUsage {
    /// The usage before the first command; unknown until a measurement is complete.
    pub(crate) first: Option<DiskUsage>,
    /// Upper bound of the usage after the last command. If `first` is unknown, only what commands may have added.
    pub(crate) now: DiskUsage,
    /// Free space of the disk at that time.
    pub(crate) free: DiskUsage,
    /// Whether the value is recent and measured.
    pub(crate) is_fresh: bool,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// The limit at which the command was killed.
    pub limit: Option<Limit>,
    /// Whether the kernel killed a process of the command because the command was out of memory, but the command itself
    /// ended normally.
    pub lost_to_memory: bool,
    /// Set if the workspace is full.
    pub full: Option<FullWorkspace>,
}

/// A full workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FullWorkspace {
    pub why: FullReason,
    /// Whether it was full when the command started, so that the command could delete but not write.
    pub at_start: bool,
}

/// Why a workspace is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FullReason {
    Bytes {
        held: u64,
        most: u64,
    },
    Entries {
        most: u64,
    },
    /// The free space of the disk is below the reserve.
    Disk {
        left: u64,
    },
    /// The free inodes of the disk are below the reserve.
    DiskEntries {
        left: u64,
    },
    /// No measurement completed, and commands may have exceeded the limit.
    NotMeasured {
        grown: u64,
        most: u64,
    },
    /// The workspace cannot be measured, and disk usage grew by more than the remaining space.
    Unmeasured,
}

impl std::fmt::Display for FullReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FullReason::Bytes { held, most } => {
                write!(f, "the workspace uses {} MiB on disk; the limit is {} MiB", held >> 20, most >> 20)
            }
            FullReason::Entries { most } => write!(f, "the workspace has more than {most} files and folders"),
            FullReason::Disk { left } => {
                write!(f, "the disk of the workspace has only {} MiB free, which is reserved", left >> 20)
            }
            FullReason::DiskEntries { left } => {
                write!(
                    f,
                    "the disk of the workspace has space for only {left} more files and folders, which is \
                     reserved"
                )
            }
            FullReason::NotMeasured { grown, most } => write!(
                f,
                "the workspace has too many files to measure in time; judging by the disk it may have grown \
                 to {} MiB, or as many files; the limit is {} MiB",
                grown >> 20,
                most >> 20
            ),
            FullReason::Unmeasured => f.write_str(
                "the workspace has folders that cannot be opened or are nested too deeply to measure, and \
                 the use of its disk grew by more than the limit",
            ),
        }
    }
}

/// A limit that the warden enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Memory,
    Processes,
    /// Disk usage of the workspace.
    Workspace,
}
