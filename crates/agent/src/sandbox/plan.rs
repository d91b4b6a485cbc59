//! What the server and the warden say to each other: one JSON value a line, over the warden's standard input.
//!
//! The server says [`SandboxPlan`] first, later perhaps [`Wish`]es; that the server is gone is a wish, too. The warden
//! answers with [`News`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What holds a command.
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

/// One command and everything that holds for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SandboxPlan {
    pub(crate) layer: Layer,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) environment: Vec<(String, String)>,
    /// What may be written.
    pub(crate) workspace: PathBuf,
    /// What may be read, and what below that may not; all of them exist and are no symlinks.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    /// Those among what may be read that the operator named.
    pub(crate) granted: Vec<PathBuf>,
    /// Top folders that are symlinks here, such as `/bin`, and where they lead.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) network: bool,
    /// Whether what cannot be kept in altogether is left out.
    pub(crate) strict: bool,
    pub(crate) memory_bytes: u64,
    /// Whether the log says that the kernel bounds that: then the command is not started without.
    pub(crate) memory_is_kept: bool,
    pub(crate) processes: u32,
    pub(crate) file_bytes: u64,
    pub(crate) tmp_bytes: u64,
    pub(crate) room: RoomPlan,
    /// This program, for the stage inside of bubblewrap.
    pub(crate) helper: PathBuf,
    pub(crate) bwrap: Option<PathBuf>,
}

/// What the server wants of a warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wish {
    /// End the command: ask it first, and kill what is left of it after a while.
    Stop,
    /// Kill it.
    Kill,
}

/// What a warden has to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum News {
    /// The command runs.
    Started,
    /// It does not, and nothing of it is left.
    NotStarted { why: String },
    /// It is over, and nothing of it is left but what its workspace holds now.
    Ended(Exit, Option<WorkspaceUsage>),
}

/// What a folder holds on a disk, or a disk has left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    /// Files and folders.
    pub(crate) entries: u64,
}

#[cfg(target_os = "linux")]
impl Held {
    pub(crate) fn and(self, more: Held) -> Held {
        Held {
            bytes: self.bytes.saturating_add(more.bytes),
            entries: self.entries.saturating_add(more.entries),
        }
    }

    pub(crate) fn less(self, other: Held) -> Held {
        Held {
            bytes: self.bytes.saturating_sub(other.bytes),
            entries: self.entries.saturating_sub(other.entries),
        }
    }

    pub(crate) fn is_within(self, most: Held) -> bool {
        self.bytes <= most.bytes && self.entries <= most.entries
    }

    pub(crate) fn leaves_something_of(self, most: Held) -> bool {
        self.bytes < most.bytes && self.entries < most.entries
    }
}

/// How much a workspace may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoomPlan {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// Whether it is a person's own folder: then what was there at first does not count.
    pub(crate) in_place: bool,
    pub(crate) known: Option<WorkspaceUsage>,
}

/// What is known of what a workspace holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkspaceUsage {
    /// When it was first seen; unknown until a measurement ended.
    pub(crate) first: Option<Held>,
    /// After the last command, at most. Where `first` is unknown, only what commands may have added.
    pub(crate) now: Held,
    /// What its disk had left then.
    pub(crate) free: Held,
    /// Whether that was not long ago, and measured.
    pub(crate) is_fresh: bool,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Which bound it was killed at.
    pub limit: Option<Limit>,
    /// Whether the kernel killed something of it because all of it together had taken its memory, and the command itself
    /// ended in its own way.
    pub lost_to_memory: bool,
    /// Why its workspace has no room, where it has none.
    pub full: Option<FullWorkspace>,
}

/// A workspace that has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FullWorkspace {
    pub why: Full,
    /// Whether it had none when the command began, which so could remove and not write.
    pub at_start: bool,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Full {
    Bytes {
        held: u64,
        most: u64,
    },
    Entries {
        most: u64,
    },
    /// The disk has less left than commands leave to others.
    Disk {
        left: u64,
    },
    /// The disk has places left for fewer files and folders than commands leave to others.
    DiskEntries {
        left: u64,
    },
    /// No measurement came to its end, and commands may have written more than they may.
    NotMeasured {
        grown: u64,
        most: u64,
    },
    /// It cannot be measured, and the disk got fuller by more than was left.
    Unmeasured,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Full::Bytes { held, most } => {
                write!(f, "the workspace holds {} MiB on the disk and may hold {} MiB", held >> 20, most >> 20)
            }
            Full::Entries { most } => write!(f, "the workspace holds more than {most} files and folders"),
            Full::Disk { left } => {
                write!(f, "the disk of the workspace has {} MiB left, which commands leave to others", left >> 20)
            }
            Full::DiskEntries { left } => {
                write!(
                    f,
                    "the disk of the workspace has room for {left} more files and folders, which commands leave to others"
                )
            }
            Full::NotMeasured { grown, most } => write!(
                f,
                "the workspace has too many files to be measured in time; by its disk it may have come to {} MiB, or \
                 as many files, and may come to {} MiB",
                grown >> 20,
                most >> 20
            ),
            Full::Unmeasured => f.write_str(
                "the workspace has folders that cannot be opened or lie too deep to be measured, and its disk got \
                 fuller by more than it may hold",
            ),
        }
    }
}

/// A bound that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Memory,
    Processes,
    /// What the workspace may hold.
    Workspace,
}
