//! Prepares the control group that a service manager delegated to the server, so that commands can have groups in it.
//!
//! With cgroup version 2 a group can enable controllers for its children only when it has no processes. So the server
//! moves into a subgroup, and the groups of commands are created beside it. This happens only if the service manager
//! delegated the group (`Delegate=yes` in systemd), and is undone when the last sandbox is dropped. Start at
//! [`Delegated::acquire`]. The module must not depend on limits.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::hierarchies::Hierarchies;

/// The subgroup that the server moves into.
const SERVER_SUBGROUP: &str = "recount-server";

/// Extended attributes that a service manager sets on a delegated group.
const DELEGATE_ATTRIBUTES: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// The controllers that limit commands.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// The acquired group, shared by all sandboxes of this process.
static ACQUIRED: Mutex<Weak<Delegated>> = Mutex::new(Weak::new());

/// A prepared group. Dropping it undoes the changes.
#[derive(Debug)]
pub(crate) struct Delegated {
    group: PathBuf,
    /// Controllers that were enabled by this and are disabled again on drop.
    enabled: Vec<&'static str>,
}

/// The group in which groups of commands are created, given the group of a process.
pub(crate) fn parent_of_commands(own: &Path) -> PathBuf {
    let parent = own.parent().filter(|_| own.file_name().is_some_and(|name| name == SERVER_SUBGROUP));
    parent.unwrap_or(own).to_owned()
}

impl Delegated {
    /// Prepares the group of this process if it was delegated and is not prepared yet.
    pub(crate) fn acquire() -> Option<Arc<Delegated>> {
        let mut acquired = ACQUIRED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(delegated) = acquired.upgrade() {
            return Some(delegated);
        }
        let own = Hierarchies::of_this_machine().own_group().filter(|own| is_delegated(own))?;
        let delegated = Arc::new(Delegated::acquire_group(&own)?);
        *acquired = Arc::downgrade(&delegated);
        Some(delegated)
    }

    /// Prepares a delegated group if it lacks controllers and contains only this process.
    fn acquire_group(own: &Path) -> Option<Delegated> {
        let words = |file: &str| fs::read_to_string(own.join(file)).unwrap_or_default();
        let (available, enabled) = (words("cgroup.controllers"), words("cgroup.subtree_control"));
        let has = |list: &str, name: &str| list.split_ascii_whitespace().any(|word| word == name);
        let missing = CONTROLLERS.into_iter().filter(|name| has(&available, name) && !has(&enabled, name));
        let missing: Vec<&str> = missing.collect();
        // With other processes in it, the group does not belong to the server alone.
        if missing.is_empty() || members(own).ok()? != [std::process::id()] {
            return None;
        }
        Delegated::prepare(own, missing)
    }

    /// Moves all processes into the subgroup and enables the controllers. Undoes everything if a step fails.
    fn prepare(own: &Path, enabled: Vec<&'static str>) -> Option<Delegated> {
        match fs::create_dir(own.join(SERVER_SUBGROUP)) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return None,
            _ => {}
        }
        let delegated = Delegated { group: own.to_owned(), enabled };
        let ready = move_all(own, &own.join(SERVER_SUBGROUP)).and_then(|()| delegated.set_controllers('+'));
        // Dropping `delegated` undoes the changes.
        ready.is_ok().then_some(delegated)
    }

    fn set_controllers(&self, sign: char) -> io::Result<()> {
        let words: Vec<String> = self.enabled.iter().map(|name| format!("{sign}{name}")).collect();
        if words.is_empty() {
            return Ok(());
        }
        fs::write(self.group.join("cgroup.subtree_control"), words.join(" "))
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        // This fails while a command has a group; then the service manager deletes the whole tree later.
        let server = self.group.join(SERVER_SUBGROUP);
        self.set_controllers('-').ok();
        let _ignored = move_all(&server, &self.group).and_then(|()| fs::remove_dir(&server));
    }
}

fn is_delegated(group: &Path) -> bool {
    DELEGATE_ATTRIBUTES.iter().any(|mark| {
        let mut value = [0; 8];
        rustix::fs::getxattr(group, *mark, &mut value).is_ok_and(|length| value[..length] == *b"1")
    })
}

fn members(group: &Path) -> io::Result<Vec<u32>> {
    let list = fs::read_to_string(group.join("cgroup.procs"))?;
    Ok(list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
}

/// The kernel accepts one process id per write.
fn move_all(from: &Path, to: &Path) -> io::Result<()> {
    for pid in members(from)? {
        match fs::write(to.join("cgroup.procs"), pid.to_string()) {
            // The process ended in the meantime.
            Err(why) if why.raw_os_error() == Some(libc::ESRCH) => {}
            done => done?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files like those of a control group. Text written to them stays as written.
    fn group(controllers: &str, enabled: &str, members: &[u32]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let members: String = members.iter().map(|pid| format!("{pid}\n")).collect();
        for (file, text) in [
            ("cgroup.controllers", controllers),
            ("cgroup.subtree_control", enabled),
            ("cgroup.procs", members.as_str()),
        ] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        folder
    }

    #[test]
    fn missing_controllers_are_enabled_and_disabled_again() {
        let own = std::process::id();
        for (available, enabled, plus, minus) in [
            ("cpu memory pids", "", "+memory +pids", "-memory -pids"),
            ("cpu memory pids", "pids", "+memory", "-memory"),
            ("cpu pids", "cpu", "+pids", "-pids"),
        ] {
            let group = group(available, enabled, &[own]);
            let content = |file: &str| fs::read_to_string(group.path().join(file)).unwrap();
            let delegated = Delegated::acquire_group(group.path()).expect("it is ours alone");
            assert_eq!(content("cgroup.subtree_control"), plus);
            assert_eq!(content("recount-server/cgroup.procs"), own.to_string());
            fs::write(group.path().join("cgroup.procs"), "").unwrap();
            drop(delegated);
            assert_eq!(content("cgroup.subtree_control"), minus);
            assert_eq!(content("cgroup.procs"), own.to_string());
        }
    }

    #[test]
    fn a_group_with_other_processes_or_all_controllers_is_unchanged() {
        let own = std::process::id();
        for (available, enabled, members) in [
            ("memory pids", "", [own, 1].as_slice()),
            ("memory pids", "", &[]),
            ("memory pids", "memory pids", &[own]),
            ("cpu", "", &[own]),
        ] {
            let group = group(available, enabled, members);
            assert!(Delegated::acquire_group(group.path()).is_none(), "{available} {enabled} {members:?}");
            assert_eq!(fs::read_to_string(group.path().join("cgroup.subtree_control")).unwrap(), enabled);
            assert!(!group.path().join(SERVER_SUBGROUP).exists());
        }
    }

    #[test]
    fn processes_are_moved_back_when_controllers_cannot_be_enabled() {
        let own = std::process::id();
        let group = group("memory pids", "", &[own]);
        // Writing to a folder fails.
        fs::remove_file(group.path().join("cgroup.subtree_control")).unwrap();
        fs::create_dir(group.path().join("cgroup.subtree_control")).unwrap();
        assert!(Delegated::acquire_group(group.path()).is_none());
        assert_eq!(fs::read_to_string(group.path().join("cgroup.procs")).unwrap(), own.to_string());
    }

    /// Uses real control groups if this user may create them, without controllers, because those may be in use
    /// elsewhere.
    #[test]
    fn a_group_is_restored_on_drop() {
        let Some(own) = Hierarchies::of_this_machine().own_group() else {
            eprintln!("not tried: this machine shows no hierarchy for all controllers");
            return;
        };
        let group = own.join(format!("recount-test-{}", std::process::id()));
        if fs::create_dir(&group).is_err() {
            eprintln!("not tried: no control group can be made in {}", own.display());
            return;
        }
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(group.join("cgroup.procs"), child.id().to_string()).unwrap();
        let delegated = Delegated::prepare(&group, Vec::new()).expect("it can be moved down");
        assert_eq!(members(&group.join(SERVER_SUBGROUP)).unwrap(), [child.id()]);
        assert_eq!(members(&group).unwrap(), [0; 0]);
        assert_eq!(parent_of_commands(&group.join(SERVER_SUBGROUP)), group);
        drop(delegated);
        assert_eq!(members(&group).unwrap(), [child.id()]);
        assert!(!group.join(SERVER_SUBGROUP).exists());
        // Enabling an unknown controller fails, and everything is undone as well.
        assert!(Delegated::prepare(&group, vec!["nothing"]).is_none());
        let after = (members(&group).unwrap(), group.join(SERVER_SUBGROUP).exists());
        child.kill().unwrap();
        child.wait().unwrap();
        while fs::remove_dir(&group).is_err() {
            std::thread::yield_now();
        }
        assert_eq!(after, (vec![child.id()], false));
    }
}
