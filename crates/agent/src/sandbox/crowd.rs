//! Bounds that the kernel keeps for all processes of a command together: a control group with the `pids` and `memory`
//! controllers, where this process may make one.
//!
//! On systems with one hierarchy for all controllers (version 2) it is made below the group that the server was put into and
//! nowhere else, and only where that was handed over ([`super::delegated`]); elsewhere beside the server's own groups.
//!
//! The warden joins it before it starts the command, so nothing that the command starts is outside. What counts as memory
//! there is everything, files in memory included: `/tmp`, `/dev/shm`, files without names. Without the group there is only
//! the look every now and then, which sees what is mapped and no more. Look at [`Crowd::join`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::delegated;
use super::hierarchies::Hierarchies;
use crate::sandbox::limits;

/// Processes of ours that are counted with those of the command, and some more, so that who is at its bound is seen to
/// be beyond what it is allowed.
const SLACK: u32 = 8;

/// What the folders of such groups are called before the number of their warden.
const NAME: &str = "recount-command-";

/// What stands after that in the names of groups that are made only to see whether they can be.
const TRY: &str = "try-";

/// How many were made to see that.
static TRIES: AtomicU64 = AtomicU64::new(0);

/// The bounds of what is put on a disk, on systems of either kind.
const SWAP_FILES: [&str; 2] = ["memory.memsw.limit_in_bytes", "memory.swap.max"];

/// A group that is to be made: in which group, with which files written.
struct WantedGroup {
    within: PathBuf,
    /// Where this process is now.
    before: PathBuf,
    bounds: Vec<Bound>,
}

/// A file of a group, and what is written into it.
struct Bound {
    file: &'static str,
    most: String,
    /// Whether the group is of use without it, too.
    is_optional: bool,
}

impl Bound {
    fn of(file: &'static str, most: &str) -> Bound {
        Bound { file, most: most.to_owned(), is_optional: false }
    }
}

/// The bounds that a command is to be kept to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) processes: u32,
    pub(crate) memory_bytes: u64,
}

/// A group that was joined, and where this process was before.
#[derive(Debug)]
struct Joined {
    folder: PathBuf,
    before: PathBuf,
    kept: KeptBounds,
}

/// The groups that this process is in, and why it is not in others.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    groups: Vec<Joined>,
    missing: Vec<String>,
}

/// What the kernel bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeptBounds {
    pub(crate) processes: bool,
    pub(crate) memory: bool,
}

impl KeptBounds {
    fn or(self, other: KeptBounds) -> KeptBounds {
        KeptBounds { processes: self.processes || other.processes, memory: self.memory || other.memory }
    }
}

impl Crowd {
    /// Puts this process, and all that it starts from now on, into groups with these bounds; into as many as are ours to
    /// make. One that cannot be made is done without; a caller that needs what it bounds asks [`Crowd::kept`].
    pub(crate) fn join(most: Most) -> Crowd {
        Crowd::join_at(&Hierarchies::of_this_machine(), most)
    }

    fn join_at(machine: &Hierarchies, most: Most) -> Crowd {
        let mut crowd = Crowd::default();
        for wanted in wanted(machine, most) {
            sweep(&wanted.within);
            let name = format!("{NAME}{}", std::process::id());
            let joined = make(&wanted, &name, machine.has_swap).and_then(|joined| {
                let entered = enter(&joined.folder);
                if entered.is_err() {
                    fs::remove_dir(&joined.folder).ok();
                }
                entered.map(|()| joined)
            });
            match joined {
                Ok(joined) => crowd.groups.push(joined),
                Err(why) => {
                    crowd.missing.push(format!("no control group in {}: {why}", wanted.within.display()));
                }
            }
        }
        crowd
    }

    /// What the groups bound that were joined.
    pub(crate) fn kept(&self) -> KeptBounds {
        self.groups.iter().fold(KeptBounds::default(), |kept, group| kept.or(group.kept))
    }

    /// Why there are no more of them, for people.
    pub(crate) fn missing(&self) -> String {
        match self.missing.as_slice() {
            [] => "no control group with the memory controller can be made".to_owned(),
            missing => missing.join("; "),
        }
    }

    /// Takes this process out again, and leaves in what it started: what the warden needs while it watches is not the
    /// command's to pay, and cannot be what the kernel kills another process of the command for while the memory of
    /// one that it killed is still on its way back.
    pub(crate) fn step_out(&self) {
        for group in &self.groups {
            // Who stays in counts; its bound is wide enough for that.
            enter(&group.before).ok();
        }
    }

    /// Whether the kernel killed something of the group because all of it together had taken its memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        self.groups.iter().any(|group| {
            ["memory.events", "memory.oom_control"].iter().any(|name| {
                let events = fs::read_to_string(group.folder.join(name)).unwrap_or_default();
                let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
                killed.and_then(|count| count.trim().parse::<u64>().ok()).is_some_and(|count| count > 0)
            })
        })
    }

    /// What such groups would bound here. Makes some to find out, and joins none.
    pub(crate) fn would_keep() -> KeptBounds {
        let most = Most { processes: 1, memory_bytes: limits::COMMAND_MEMORY_BYTES };
        let machine = Hierarchies::of_this_machine();
        let mut kept = KeptBounds::default();
        for wanted in wanted(&machine, most) {
            // Others in this process may try at the same time.
            let number = TRIES.fetch_add(1, Ordering::Relaxed);
            let name = format!("{NAME}{TRY}{}-{number}", std::process::id());
            let Ok(made) = make(&wanted, &name, machine.has_swap) else { continue };
            kept = kept.or(made.kept);
            fs::remove_dir(&made.folder).ok();
        }
        kept
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for Joined { folder, before, .. } in &self.groups {
            // A group goes only when nobody is in it. What is left is swept away by the next.
            let _left = enter(before).and_then(|()| fs::remove_dir(folder));
        }
    }
}

/// Makes a group with its bounds, or none.
fn make(wanted: &WantedGroup, name: &str, has_swap: bool) -> io::Result<Joined> {
    let folder = new_folder(&wanted.within, name)?;
    if let Err(why) = write_bounds(&folder, &wanted.bounds) {
        fs::remove_dir(&folder).ok();
        return Err(why);
    }
    let has = |name: &str| wanted.bounds.iter().any(|bound| bound.file.starts_with(name));
    let memory = has("memory.") && bounds_all_memory(&folder, has_swap);
    let kept = KeptBounds { processes: has("pids."), memory };
    Ok(Joined { folder, before: wanted.before.clone(), kept })
}

/// A folder of this name, or with a number after it: one may be left of a warden that had the same number.
fn new_folder(within: &Path, name: &str) -> io::Result<PathBuf> {
    let mut folder = within.join(name);
    for number in 1..=limits::COMMAND_GROUP_NAMES {
        match fs::create_dir(&folder) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                folder = within.join(format!("{name}-{number}"));
            }
            made => return made.map(|()| folder),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn write_bounds(folder: &Path, bounds: &[Bound]) -> io::Result<()> {
    bounds.iter().try_for_each(|bound| {
        let file = folder.join(bound.file);
        // Writing would make it where these are no control groups.
        match (file.exists(), bound.is_optional) {
            (true, _) => fs::write(file, &bound.most),
            (false, true) => Ok(()),
            (false, false) => Err(io::ErrorKind::NotFound.into()),
        }
    })
}

/// Whether nothing of a group can be put on a disk, where it would not count.
fn bounds_all_memory(folder: &Path, has_swap: bool) -> bool {
    !has_swap || SWAP_FILES.iter().any(|file| folder.join(file).exists())
}

/// Puts this process into a group.
fn enter(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), std::process::id().to_string())
}

/// The groups that this system can be asked for.
fn wanted(machine: &Hierarchies, most: Most) -> Vec<WantedGroup> {
    let processes = most.processes.saturating_add(SLACK).to_string();
    // The warden is in the group, too, and the look kills first where it can.
    let memory = most.memory_bytes.saturating_add(limits::COMMAND_MEMORY_SLACK_BYTES).to_string();
    let mut all = Vec::new();
    let mut of_one = |controller: &str, bounds: Vec<Bound>| {
        let hierarchy = machine.version_1.join(controller);
        let path = machine.own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        });
        if let Some(path) = path.filter(|_| hierarchy.join("cgroup.procs").exists()) {
            let within = hierarchy.join(path.trim_start_matches('/'));
            all.push(WantedGroup { before: within.clone(), within, bounds });
        }
    };
    of_one("pids", vec![Bound::of("pids.max", &processes)]);
    // With the second, what is put on a disk counts, too.
    let and_swap = Bound { is_optional: true, ..Bound::of(SWAP_FILES[0], &memory) };
    of_one("memory", vec![Bound::of("memory.limit_in_bytes", &memory), and_swap]);
    if let Some(own) = machine.own_group() {
        let within = delegated::home_of(&own);
        let handed = fs::read_to_string(within.join("cgroup.subtree_control")).unwrap_or_default();
        let hands_on = |name: &str| handed.split_ascii_whitespace().any(|handed| handed == name);
        let mut bounds = Vec::new();
        if hands_on("pids") {
            bounds.push(Bound::of("pids.max", &processes));
        }
        if hands_on("memory") {
            bounds.push(Bound::of("memory.max", &memory));
            // Nothing is put on a disk, where it would not count.
            bounds.push(Bound { is_optional: true, ..Bound::of(SWAP_FILES[1], "0") });
        }
        if !bounds.is_empty() {
            all.push(WantedGroup { within, before: own, bounds });
        }
    }
    all
}

/// Takes groups away whose warden was killed.
fn sweep(home: &Path) {
    let Ok(groups) = fs::read_dir(home) else { return };
    for group in groups.flatten() {
        let name = group.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let pid = rest.and_then(|rest| rest.strip_prefix(TRY).unwrap_or(rest).split('-').next());
        let warden = pid.and_then(|pid| pid.parse::<u32>().ok());
        if warden.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Where a process is still in it, it stays.
            let _left = fs::remove_dir(group.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Most = Most { processes: 10, memory_bytes: 1 << 30 };

    /// A machine with one hierarchy for all controllers, in which this process is in `own`, and `within` hands controllers on.
    fn machine(own: &str, within: &str, handed: &str) -> (tempfile::TempDir, Hierarchies) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        fs::write(root.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        let within = root.join(within);
        fs::create_dir_all(&within).unwrap();
        fs::write(within.join("cgroup.subtree_control"), handed).unwrap();
        let own = format!("0::/{own}\n");
        let version_1 = root.join("none");
        (folder, Hierarchies { version_1, version_2: vec![root], own, has_swap: true })
    }

    fn places(folder: &tempfile::TempDir, machine: &Hierarchies) -> Vec<(String, String, Vec<&'static str>)> {
        let under = |path: &Path| path.strip_prefix(folder.path()).unwrap().display().to_string();
        let wanted = wanted(machine, MOST).into_iter();
        let files = |wanted: &WantedGroup| wanted.bounds.iter().map(|bound| bound.file).collect();
        wanted.map(|wanted| (under(&wanted.within), under(&wanted.before), files(&wanted))).collect()
    }

    const ALL: [&str; 3] = ["pids.max", "memory.max", "memory.swap.max"];

    #[test]
    fn groups_are_made_below_the_server_s_own_and_nowhere_else() {
        // The root hands on what the server's group does not: it is not the server's to divide.
        let (folder, busy) = machine("system.slice/recount.service", "", "memory pids");
        assert_eq!(places(&folder, &busy), []);
        let (folder, own) =
            machine("system.slice/recount.service", "system.slice/recount.service", "memory pids");
        let service = "system.slice/recount.service".to_owned();
        assert_eq!(places(&folder, &own), [(service.clone(), service.clone(), ALL.to_vec())]);
        // Where the server moved itself down, groups stand beside it, and that is where a warden goes back to.
        let (folder, moved) = machine(
            "system.slice/recount.service/recount-server",
            "system.slice/recount.service",
            "memory pids",
        );
        assert_eq!(
            places(&folder, &moved),
            [(service.clone(), format!("{service}/recount-server"), ALL.to_vec())]
        );
        let (folder, of_root) = machine("", "", "pids");
        assert_eq!(places(&folder, &of_root), [(String::new(), String::new(), vec!["pids.max"])]);
        let (folder, elsewhere) = machine("../other", "", "memory pids");
        assert_eq!(places(&folder, &elsewhere), []);
    }

    #[test]
    fn a_group_that_is_left_of_another_warden_is_not_taken_and_not_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str| new_folder(folder.path(), name).unwrap().file_name().unwrap().to_owned();
        assert_eq!(made("recount-command-7"), "recount-command-7");
        assert_eq!(made("recount-command-7"), "recount-command-7-1");
        assert_eq!(made("recount-command-7"), "recount-command-7-2");
        let nowhere = new_folder(&folder.path().join("none"), "recount-command-7").unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::NotFound);
        for _ in 3..limits::COMMAND_GROUP_NAMES {
            made("recount-command-7");
        }
        let used_up = new_folder(folder.path(), "recount-command-7").unwrap_err();
        assert_eq!(used_up.kind(), io::ErrorKind::AlreadyExists);
    }

    /// The new group has no files of a controller, as where that was taken away.
    #[test]
    fn a_group_that_cannot_be_joined_bounds_nothing_and_that_is_said() {
        let (folder, machine) = machine("own", "own", "memory pids");
        let crowd = Crowd::join_at(&machine, MOST);
        assert_eq!(crowd.kept(), KeptBounds::default());
        let own = folder.path().join("own");
        assert!(crowd.missing().contains(&own.display().to_string()), "{}", crowd.missing());
        assert_eq!(fs::read_dir(own).unwrap().count(), 1, "nothing is left");
    }

    #[test]
    fn memory_counts_as_bounded_only_where_none_can_be_put_on_a_disk() {
        for (has_swap, counts_swap, bounded) in
            [(true, true, true), (true, false, false), (false, false, true), (false, true, true)]
        {
            let (folder, machine) = machine("own", "own", "memory");
            let wanted = wanted(&machine, MOST).remove(0);
            // What the kernel would put into a new group.
            let made = folder.path().join("own/new");
            fs::create_dir(&made).unwrap();
            fs::write(made.join("memory.max"), "max").unwrap();
            if counts_swap {
                fs::write(made.join("memory.swap.max"), "max").unwrap();
            }
            write_bounds(&made, &wanted.bounds).unwrap();
            assert_eq!(bounds_all_memory(&made, has_swap), bounded, "{has_swap} {counts_swap}");
            if counts_swap {
                assert_eq!(fs::read_to_string(made.join("memory.swap.max")).unwrap(), "0");
            }
        }
    }
}
