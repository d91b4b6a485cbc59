//! The control group that a service manager handed over to the server, made ready for groups of commands.
//!
//! On systems with one hierarchy for all controllers, a group hands controllers on only when no process is in it. So the
//! server moves down into a group of its own, and commands get theirs beside it. That is done only where the manager says
//! that the group is the server's to divide (`Delegate=yes` of systemd), and undone when the last sandbox goes. Look at
//! [`Delegated::take`]. It must never know bounds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::hierarchies::Hierarchies;

/// The group that the server moves into.
const SERVER: &str = "recount-server";

/// Set by a service manager on a group that it handed over.
const MARKS: [&str; 2] = ["user.delegate", "trusted.delegate"];

/// What commands are bounded by.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// What was taken, for all sandboxes of this process.
static TAKEN: Mutex<Weak<Delegated>> = Mutex::new(Weak::new());

/// A group that was made ready. It is as before when this is dropped.
#[derive(Debug)]
pub(crate) struct Delegated {
    group: PathBuf,
    /// Controllers that were not handed on before.
    handed: Vec<&'static str>,
}

/// Where groups of commands are made, by the group that a process is in.
pub(crate) fn home_of(own: &Path) -> PathBuf {
    let parent = own.parent().filter(|_| own.file_name().is_some_and(|name| name == SERVER));
    parent.unwrap_or(own).to_owned()
}

impl Delegated {
    /// Makes the group of this process ready, where it was handed over and is not ready yet.
    pub(crate) fn take() -> Option<Arc<Delegated>> {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(delegated) = taken.upgrade() {
            return Some(delegated);
        }
        let own = Hierarchies::of_this_machine().own_group().filter(|own| is_handed_over(own))?;
        let delegated = Arc::new(Delegated::take_of(&own)?);
        *taken = Arc::downgrade(&delegated);
        Some(delegated)
    }

    /// Makes a group ready that was handed over, where something is missing there and nobody else is in it.
    fn take_of(own: &Path) -> Option<Delegated> {
        let words = |file: &str| fs::read_to_string(own.join(file)).unwrap_or_default();
        let (there, handed) = (words("cgroup.controllers"), words("cgroup.subtree_control"));
        let has = |list: &str, name: &str| list.split_ascii_whitespace().any(|word| word == name);
        let missing = CONTROLLERS.into_iter().filter(|name| has(&there, name) && !has(&handed, name));
        let missing: Vec<&str> = missing.collect();
        // Where others are in it, it is not the server's alone.
        if missing.is_empty() || members(own).ok()? != [std::process::id()] {
            return None;
        }
        Delegated::make(own, missing)
    }

    /// Moves everybody in the group down, and hands these controllers on. Undoes what it did where it cannot do all of it.
    fn make(own: &Path, handed: Vec<&'static str>) -> Option<Delegated> {
        match fs::create_dir(own.join(SERVER)) {
            Err(why) if why.kind() != io::ErrorKind::AlreadyExists => return None,
            _ => {}
        }
        let delegated = Delegated { group: own.to_owned(), handed };
        let ready = move_all(own, &own.join(SERVER)).and_then(|()| delegated.hand_on('+'));
        // Dropping it undoes it.
        ready.is_ok().then_some(delegated)
    }

    fn hand_on(&self, sign: char) -> io::Result<()> {
        let words: Vec<String> = self.handed.iter().map(|name| format!("{sign}{name}")).collect();
        if words.is_empty() {
            return Ok(());
        }
        fs::write(self.group.join("cgroup.subtree_control"), words.join(" "))
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        // While a command has a group it cannot be undone; then the service manager takes all of it away.
        let server = self.group.join(SERVER);
        self.hand_on('-').ok();
        let _left = move_all(&server, &self.group).and_then(|()| fs::remove_dir(&server));
    }
}

fn is_handed_over(group: &Path) -> bool {
    MARKS.iter().any(|mark| {
        let mut value = [0; 8];
        rustix::fs::getxattr(group, *mark, &mut value).is_ok_and(|length| value[..length] == *b"1")
    })
}

fn members(group: &Path) -> io::Result<Vec<u32>> {
    let list = fs::read_to_string(group.join("cgroup.procs"))?;
    Ok(list.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
}

/// One at a time, as the kernel wants it.
fn move_all(from: &Path, to: &Path) -> io::Result<()> {
    for pid in members(from)? {
        match fs::write(to.join("cgroup.procs"), pid.to_string()) {
            // It ended meanwhile.
            Err(why) if why.raw_os_error() == Some(libc::ESRCH) => {}
            done => done?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files as the kernel shows them of a group with these controllers and members. What is written into them stays as it was
    /// written.
    fn group(controllers: &str, handed: &str, members: &[u32]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let members: String = members.iter().map(|pid| format!("{pid}\n")).collect();
        for (file, text) in [
            ("cgroup.controllers", controllers),
            ("cgroup.subtree_control", handed),
            ("cgroup.procs", members.as_str()),
        ] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        folder
    }

    #[test]
    fn what_a_group_does_not_hand_on_yet_is_handed_on_and_taken_back() {
        let own = std::process::id();
        for (there, handed, plus, minus) in [
            ("cpu memory pids", "", "+memory +pids", "-memory -pids"),
            ("cpu memory pids", "pids", "+memory", "-memory"),
            ("cpu pids", "cpu", "+pids", "-pids"),
        ] {
            let group = group(there, handed, &[own]);
            let says = |file: &str| fs::read_to_string(group.path().join(file)).unwrap();
            let delegated = Delegated::take_of(group.path()).expect("it is ours alone");
            assert_eq!(says("cgroup.subtree_control"), plus);
            assert_eq!(says("recount-server/cgroup.procs"), own.to_string());
            fs::write(group.path().join("cgroup.procs"), "").unwrap();
            drop(delegated);
            assert_eq!(says("cgroup.subtree_control"), minus);
            assert_eq!(says("cgroup.procs"), own.to_string());
        }
    }

    #[test]
    fn a_group_is_left_alone_where_others_are_in_it_or_nothing_is_missing() {
        let own = std::process::id();
        for (there, handed, members) in [
            ("memory pids", "", [own, 1].as_slice()),
            ("memory pids", "", &[]),
            ("memory pids", "memory pids", &[own]),
            ("cpu", "", &[own]),
        ] {
            let group = group(there, handed, members);
            assert!(Delegated::take_of(group.path()).is_none(), "{there} {handed} {members:?}");
            assert_eq!(fs::read_to_string(group.path().join("cgroup.subtree_control")).unwrap(), handed);
            assert!(!group.path().join(SERVER).exists());
        }
    }

    #[test]
    fn who_was_moved_down_is_moved_back_where_controllers_cannot_be_handed_on() {
        let own = std::process::id();
        let group = group("memory pids", "", &[own]);
        // Nothing can be written to a folder.
        fs::remove_file(group.path().join("cgroup.subtree_control")).unwrap();
        fs::create_dir(group.path().join("cgroup.subtree_control")).unwrap();
        assert!(Delegated::take_of(group.path()).is_none());
        assert_eq!(fs::read_to_string(group.path().join("cgroup.procs")).unwrap(), own.to_string());
    }

    /// On groups of the machine, where this user may make some; without controllers, which may be used elsewhere.
    #[test]
    fn a_group_is_as_before_when_it_is_given_back() {
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
        let delegated = Delegated::make(&group, Vec::new()).expect("it can be moved down");
        assert_eq!(members(&group.join(SERVER)).unwrap(), [child.id()]);
        assert_eq!(members(&group).unwrap(), [0; 0]);
        assert_eq!(home_of(&group.join(SERVER)), group);
        drop(delegated);
        assert_eq!(members(&group).unwrap(), [child.id()]);
        assert!(!group.join(SERVER).exists());
        // A controller that does not exist cannot be handed on: everything is as before, too.
        assert!(Delegated::make(&group, vec!["nothing"]).is_none());
        let after = (members(&group).unwrap(), group.join(SERVER).exists());
        child.kill().unwrap();
        child.wait().unwrap();
        while fs::remove_dir(&group).is_err() {
            std::thread::yield_now();
        }
        assert_eq!(after, (vec![child.id()], false));
    }
}
