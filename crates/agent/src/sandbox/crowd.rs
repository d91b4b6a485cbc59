//! A bound on processes that the kernel keeps: a group of control groups' `pids` controller, where this process may
//! make one.
//!
//! The warden joins it before it starts the command, so nothing that the command starts is outside. Without it there is
//! only the look every now and then, and what doubles itself doubles many times between two looks. Look at
//! [`Crowd::join`].

use std::fs;
use std::path::{Path, PathBuf};

/// Processes of ours that are counted with those of the command, and some more, so that who is at its bound is seen to
/// be beyond what it is allowed.
const SLACK: u32 = 8;

/// What the folders of such groups are called before the number of their warden.
const NAME: &str = "recount-command-";

/// Where groups are on systems that have them.
const VERSION_1: &str = "/sys/fs/cgroup/pids";
const VERSION_2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// A group that this process is in, and where it was before.
#[derive(Debug)]
pub(crate) struct Crowd {
    folder: PathBuf,
    before: PathBuf,
}

impl Crowd {
    /// Puts this process, and all that it starts from now on, into a group of so many. `None` where that is not ours
    /// to do.
    pub(crate) fn join(processes: u32) -> Option<Crowd> {
        let before = home()?;
        sweep(&before);
        let folder = before.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let crowd = Crowd { folder, before };
        let most = processes.saturating_add(SLACK).to_string();
        let joined = fs::write(crowd.folder.join("pids.max"), most).and_then(|()| enter(&crowd.folder));
        // Dropping it goes back, and takes away what was made.
        joined.is_ok().then_some(crowd)
    }

    /// Whether such groups can be made here.
    pub(crate) fn can_be_joined() -> bool {
        let Some(before) = home() else { return false };
        let folder = before.join(format!("{NAME}try-{}", std::process::id()));
        let made = fs::create_dir(&folder).is_ok() && folder.join("pids.max").exists();
        fs::remove_dir(&folder).is_ok() && made
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // A group goes only when nobody is in it. What is left is swept away by the next.
        let _left = enter(&self.before).and_then(|()| fs::remove_dir(&self.folder));
    }
}

/// Puts this process into a group.
fn enter(folder: &Path) -> std::io::Result<()> {
    fs::write(folder.join("cgroup.procs"), std::process::id().to_string())
}

/// The group in which ours are made.
fn home() -> Option<PathBuf> {
    if Path::new(VERSION_1).join("cgroup.procs").exists() {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = own.lines().find_map(|line| line.split_once(":pids:").map(|(_, path)| path))?;
        return Some(Path::new(VERSION_1).join(path.trim_start_matches('/')));
    }
    let hands_on = |root: &str| {
        let handed = fs::read_to_string(Path::new(root).join("cgroup.subtree_control"));
        handed.is_ok_and(|handed| handed.split_ascii_whitespace().any(|name| name == "pids"))
    };
    VERSION_2.into_iter().find(|root| hands_on(root)).map(PathBuf::from)
}

/// Takes groups away whose warden was killed.
fn sweep(home: &Path) {
    let Ok(groups) = fs::read_dir(home) else { return };
    for group in groups.flatten() {
        let name = group.file_name();
        let warden =
            name.to_str().and_then(|name| name.strip_prefix(NAME)).and_then(|pid| pid.parse::<u32>().ok());
        if warden.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Where somebody is in it still, it stays.
            let _left = fs::remove_dir(group.path());
        }
    }
}
