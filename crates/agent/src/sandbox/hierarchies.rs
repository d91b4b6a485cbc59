//! Finds the control group hierarchies of the machine and the group of this process. Start at [`Hierarchies`].

use std::fs;
use std::path::PathBuf;

/// The control group hierarchies of a machine, and the groups of this process.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchies {
    /// Root of the per-controller hierarchies (cgroup version 1).
    pub(super) version_1: PathBuf,
    /// Possible roots of the unified hierarchy (cgroup version 2).
    pub(super) version_2: Vec<PathBuf>,
    /// The content of `/proc/self/cgroup`.
    pub(super) own: String,
    /// Whether the machine has swap, which does not count as memory.
    pub(super) has_swap: bool,
}

impl Hierarchies {
    pub(crate) fn of_this_machine() -> Hierarchies {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        Hierarchies {
            version_1: "/sys/fs/cgroup".into(),
            version_2: ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from).into(),
            own: fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
            // The first line is a header.
            has_swap: swaps.lines().count() > 1,
        }
    }

    /// The group of this process in the unified hierarchy.
    pub(crate) fn own_group(&self) -> Option<PathBuf> {
        let path = self.own.lines().find_map(|line| line.strip_prefix("0::"))?;
        // A path with `..` is outside the visible hierarchy.
        let path = Some(path).filter(|path| !path.split('/').any(|part| part == ".."))?;
        let root = self.version_2.iter().find(|root| root.join("cgroup.controllers").exists())?;
        Some(root.join(path.trim_start_matches('/')))
    }
}
