//! Hierarchies of control groups, and this process's place in them. Look at [`Hierarchies`].

use std::fs;
use std::path::PathBuf;

/// The hierarchies of a machine, and this process's place in them.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchies {
    /// Where the groups of a controller are on systems that have one hierarchy for each.
    pub(super) version_1: PathBuf,
    /// Where those are that have one for all.
    pub(super) version_2: Vec<PathBuf>,
    /// What `/proc/self/cgroup` says.
    pub(super) own: String,
    /// Whether memory can be put on a disk, where it does not count.
    pub(super) has_swap: bool,
}

impl Hierarchies {
    pub(crate) fn of_this_machine() -> Hierarchies {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        Hierarchies {
            version_1: "/sys/fs/cgroup".into(),
            version_2: ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from).into(),
            own: fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
            // The first line is a heading.
            has_swap: swaps.lines().count() > 1,
        }
    }

    /// The group of this process in the hierarchy for all controllers.
    pub(crate) fn own_group(&self) -> Option<PathBuf> {
        let path = self.own.lines().find_map(|line| line.strip_prefix("0::"))?;
        // One that leads out of what this process is shown.
        let path = Some(path).filter(|path| !path.split('/').any(|part| part == ".."))?;
        let root = self.version_2.iter().find(|root| root.join("cgroup.controllers").exists())?;
        Some(root.join(path.trim_start_matches('/')))
    }
}
