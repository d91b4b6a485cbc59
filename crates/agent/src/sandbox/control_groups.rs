//! Limits all processes of a command together with control groups (`pids` and `memory` controllers), where this process
//! may create them.
//!
//! With cgroup version 2 the group is created below the server's own group, and only if that was delegated to the
//! server ([`super::delegated`]). With version 1 it is created below the server's group of each controller.
//!
//! The warden joins the group before it starts the command, so every process of the command is in it. The kernel counts
//! all memory there, including `/tmp`, `/dev/shm` and unnamed files. Without a group the warden only polls mapped
//! memory. Start at [`ControlGroups::join`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::delegated;
use super::hierarchies::Hierarchies;
use crate::sandbox::limits;

/// Slack for processes of the warden in the group. It also lets the warden see that a command exceeds its limit.
const SLACK: u32 = 8;

/// Prefix of the group folder's name; the process id of the warden follows.
const NAME: &str = "recount-command-";

/// Follows the prefix in the name of a group that is created only as a test.
const TEST_PREFIX: &str = "try-";

/// The number of test groups so far.
static TEST_COUNT: AtomicU64 = AtomicU64::new(0);

/// Files that limit swap, for version 1 and version 2.
const SWAP_LIMIT_FILES: [&str; 2] = ["memory.memsw.limit_in_bytes", "memory.swap.max"];

/// A group to create: its parent and its limits.
struct GroupPlan {
    parent: PathBuf,
    /// The current group of this process.
    previous: PathBuf,
    limit_files: Vec<LimitFile>,
}

/// A limit file of a group, and its value.
struct LimitFile {
    file: &'static str,
    value: String,
    /// Whether the group is useful without this limit.
    is_optional: bool,
}

impl LimitFile {
    fn of(file: &'static str, value: &str) -> LimitFile {
        LimitFile { file, value: value.to_owned(), is_optional: false }
    }
}

/// The limits of a command as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupLimits {
    pub(crate) processes: u32,
    pub(crate) memory_bytes: u64,
}

/// A group that this process joined, and its previous group.
#[derive(Debug)]
struct JoinedGroup {
    folder: PathBuf,
    previous: PathBuf,
    enforced: EnforcedLimits,
}

/// The groups that this process joined, and why others are missing.
#[derive(Debug, Default)]
pub(crate) struct ControlGroups {
    groups: Vec<JoinedGroup>,
    missing: Vec<String>,
}

/// Which limits the kernel enforces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EnforcedLimits {
    pub(crate) processes: bool,
    pub(crate) memory: bool,
}

impl EnforcedLimits {
    fn or(self, other: EnforcedLimits) -> EnforcedLimits {
        EnforcedLimits { processes: self.processes || other.processes, memory: self.memory || other.memory }
    }
}

impl ControlGroups {
    /// Moves this process and its future children into groups with these limits. Groups that cannot be created are
    /// skipped; check [`ControlGroups::enforced`].
    pub(crate) fn join(group_limits: GroupLimits) -> ControlGroups {
        ControlGroups::join_at(&Hierarchies::of_this_machine(), group_limits)
    }

    fn join_at(machine: &Hierarchies, group_limits: GroupLimits) -> ControlGroups {
        let mut control_groups = ControlGroups::default();
        for plan in group_plans(machine, group_limits) {
            delete_stale_groups(&plan.parent);
            let name = format!("{NAME}{}", std::process::id());
            let result = create(&plan, &name, machine.has_swap).and_then(|joined| {
                let entered = move_self_to(&joined.folder);
                if entered.is_err() {
                    fs::remove_dir(&joined.folder).ok();
                }
                entered.map(|()| joined)
            });
            match result {
                Ok(joined) => control_groups.groups.push(joined),
                Err(why) => {
                    control_groups
                        .missing
                        .push(format!("no control group in {}: {why}", plan.parent.display()));
                }
            }
        }
        control_groups
    }

    /// Which limits the joined groups enforce.
    pub(crate) fn enforced(&self) -> EnforcedLimits {
        self.groups.iter().fold(EnforcedLimits::default(), |enforced, group| enforced.or(group.enforced))
    }

    /// Why groups are missing, as a message for a person.
    pub(crate) fn missing(&self) -> String {
        match self.missing.as_slice() {
            [] => "no control group with the memory controller can be made".to_owned(),
            missing => missing.join("; "),
        }
    }

    /// Moves this process out again but leaves its children in the group. The memory of the warden must not count
    /// against the command, and the kernel must not kill the command because of it.
    pub(crate) fn leave(&self) {
        for group in &self.groups {
            // If this fails, the warden counts too. The slack covers that.
            move_self_to(&group.previous).ok();
        }
    }

    /// Whether the kernel killed a process of the group because the group was out of memory.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        self.groups.iter().any(|group| {
            ["memory.events", "memory.oom_control"].iter().any(|name| {
                let events = fs::read_to_string(group.folder.join(name)).unwrap_or_default();
                let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
                killed.and_then(|count| count.trim().parse::<u64>().ok()).is_some_and(|count| count > 0)
            })
        })
    }

    /// Which limits groups would enforce here. Creates test groups and joins none.
    pub(crate) fn would_enforce() -> EnforcedLimits {
        let group_limits = GroupLimits { processes: 1, memory_bytes: limits::COMMAND_MEMORY_BYTES };
        let machine = Hierarchies::of_this_machine();
        let mut enforced = EnforcedLimits::default();
        for plan in group_plans(&machine, group_limits) {
            // Other threads may test at the same time.
            let number = TEST_COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{NAME}{TEST_PREFIX}{}-{number}", std::process::id());
            let Ok(created) = create(&plan, &name, machine.has_swap) else { continue };
            enforced = enforced.or(created.enforced);
            fs::remove_dir(&created.folder).ok();
        }
        enforced
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        for JoinedGroup { folder, previous, .. } in &self.groups {
            // A group can be deleted only when it is empty. The next command deletes the remaining ones.
            let _ignored = move_self_to(previous).and_then(|()| fs::remove_dir(folder));
        }
    }
}

/// Creates a group with its limits, or nothing.
fn create(plan: &GroupPlan, name: &str, has_swap: bool) -> io::Result<JoinedGroup> {
    let folder = create_folder(&plan.parent, name)?;
    if let Err(why) = write_limits(&folder, &plan.limit_files) {
        fs::remove_dir(&folder).ok();
        return Err(why);
    }
    let has = |name: &str| plan.limit_files.iter().any(|limit_file| limit_file.file.starts_with(name));
    let memory = has("memory.") && covers_all_memory(&folder, has_swap);
    let enforced = EnforcedLimits { processes: has("pids."), memory };
    Ok(JoinedGroup { folder, previous: plan.previous.clone(), enforced })
}

/// Creates a folder with this name, or with a number appended if a previous warden with the same process id left one.
fn create_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let mut folder = parent.join(name);
    for number in 1..=limits::COMMAND_GROUP_NAMES {
        match fs::create_dir(&folder) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
                folder = parent.join(format!("{name}-{number}"));
            }
            created => return created.map(|()| folder),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn write_limits(folder: &Path, limit_files: &[LimitFile]) -> io::Result<()> {
    limit_files.iter().try_for_each(|limit_file| {
        let file = folder.join(limit_file.file);
        // Writing would create the file if this is not a control group.
        match (file.exists(), limit_file.is_optional) {
            (true, _) => fs::write(file, &limit_file.value),
            (false, true) => Ok(()),
            (false, false) => Err(io::ErrorKind::NotFound.into()),
        }
    })
}

/// Whether no memory of the group can go to swap, where it would not count.
fn covers_all_memory(folder: &Path, has_swap: bool) -> bool {
    !has_swap || SWAP_LIMIT_FILES.iter().any(|file| folder.join(file).exists())
}

/// Moves this process into a group.
fn move_self_to(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), std::process::id().to_string())
}

/// The groups that this system supports.
fn group_plans(machine: &Hierarchies, group_limits: GroupLimits) -> Vec<GroupPlan> {
    let processes = group_limits.processes.saturating_add(SLACK).to_string();
    // The warden is in the group too. The slack lets the warden's polling act before the kernel does.
    let memory = group_limits.memory_bytes.saturating_add(limits::COMMAND_MEMORY_SLACK_BYTES).to_string();
    let mut all = Vec::new();
    let mut add_version_1 = |controller: &str, limit_files: Vec<LimitFile>| {
        let hierarchy = machine.version_1.join(controller);
        let path = machine.own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        });
        if let Some(path) = path.filter(|_| hierarchy.join("cgroup.procs").exists()) {
            let parent = hierarchy.join(path.trim_start_matches('/'));
            all.push(GroupPlan { previous: parent.clone(), parent, limit_files });
        }
    };
    add_version_1("pids", vec![LimitFile::of("pids.max", &processes)]);
    // With the second limit swap counts too.
    let and_swap = LimitFile { is_optional: true, ..LimitFile::of(SWAP_LIMIT_FILES[0], &memory) };
    add_version_1("memory", vec![LimitFile::of("memory.limit_in_bytes", &memory), and_swap]);
    if let Some(own) = machine.own_group() {
        let parent = delegated::parent_of_commands(&own);
        let enabled = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
        let has_controller = |name: &str| enabled.split_ascii_whitespace().any(|enabled| enabled == name);
        let mut limit_files = Vec::new();
        if has_controller("pids") {
            limit_files.push(LimitFile::of("pids.max", &processes));
        }
        if has_controller("memory") {
            limit_files.push(LimitFile::of("memory.max", &memory));
            // No swap, because it would not count.
            limit_files.push(LimitFile { is_optional: true, ..LimitFile::of(SWAP_LIMIT_FILES[1], "0") });
        }
        if !limit_files.is_empty() {
            all.push(GroupPlan { parent, previous: own, limit_files });
        }
    }
    all
}

/// Deletes groups whose warden was killed.
fn delete_stale_groups(parent: &Path) {
    let Ok(groups) = fs::read_dir(parent) else { return };
    for group in groups.flatten() {
        let name = group.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(NAME));
        let pid = rest.and_then(|rest| rest.strip_prefix(TEST_PREFIX).unwrap_or(rest).split('-').next());
        let warden = pid.and_then(|pid| pid.parse::<u32>().ok());
        if warden.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // A group with a process in it cannot be deleted.
            let _ignored = fs::remove_dir(group.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: GroupLimits = GroupLimits { processes: 10, memory_bytes: 1 << 30 };

    /// A machine with cgroup version 2. This process is in `own`, and `parent` has the enabled controllers `enabled`.
    fn machine(own: &str, parent: &str, enabled: &str) -> (tempfile::TempDir, Hierarchies) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        fs::write(root.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        let parent = root.join(parent);
        fs::create_dir_all(&parent).unwrap();
        fs::write(parent.join("cgroup.subtree_control"), enabled).unwrap();
        let own = format!("0::/{own}\n");
        let version_1 = root.join("none");
        (folder, Hierarchies { version_1, version_2: vec![root], own, has_swap: true })
    }

    fn planned_paths(
        folder: &tempfile::TempDir,
        machine: &Hierarchies,
    ) -> Vec<(String, String, Vec<&'static str>)> {
        let under = |path: &Path| path.strip_prefix(folder.path()).unwrap().display().to_string();
        let plans = group_plans(machine, LIMITS).into_iter();
        let files = |plan: &GroupPlan| plan.limit_files.iter().map(|limit_file| limit_file.file).collect();
        plans.map(|plan| (under(&plan.parent), under(&plan.previous), files(&plan))).collect()
    }

    const ALL: [&str; 3] = ["pids.max", "memory.max", "memory.swap.max"];

    #[test]
    fn groups_are_created_only_below_the_server_s_own_group() {
        // The root enables controllers that the server's group does not: the server must not divide the root.
        let (folder, busy) = machine("system.slice/recount.service", "", "memory pids");
        assert_eq!(planned_paths(&folder, &busy), []);
        let (folder, own) =
            machine("system.slice/recount.service", "system.slice/recount.service", "memory pids");
        let service = "system.slice/recount.service".to_owned();
        assert_eq!(planned_paths(&folder, &own), [(service.clone(), service.clone(), ALL.to_vec())]);
        // If the server moved itself into a subgroup, new groups are created beside it, and a warden returns there.
        let (folder, moved) = machine(
            "system.slice/recount.service/recount-server",
            "system.slice/recount.service",
            "memory pids",
        );
        assert_eq!(
            planned_paths(&folder, &moved),
            [(service.clone(), format!("{service}/recount-server"), ALL.to_vec())]
        );
        let (folder, of_root) = machine("", "", "pids");
        assert_eq!(planned_paths(&folder, &of_root), [(String::new(), String::new(), vec!["pids.max"])]);
        let (folder, elsewhere) = machine("../other", "", "memory pids");
        assert_eq!(planned_paths(&folder, &elsewhere), []);
    }

    #[test]
    fn a_stale_group_of_another_warden_gets_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let created =
            |name: &str| create_folder(folder.path(), name).unwrap().file_name().unwrap().to_owned();
        assert_eq!(created("recount-command-7"), "recount-command-7");
        assert_eq!(created("recount-command-7"), "recount-command-7-1");
        assert_eq!(created("recount-command-7"), "recount-command-7-2");
        let nowhere = create_folder(&folder.path().join("none"), "recount-command-7").unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::NotFound);
        for _ in 3..limits::COMMAND_GROUP_NAMES {
            created("recount-command-7");
        }
        let used_up = create_folder(folder.path(), "recount-command-7").unwrap_err();
        assert_eq!(used_up.kind(), io::ErrorKind::AlreadyExists);
    }

    /// The new group has no controller files, as if the controller was disabled.
    #[test]
    fn a_group_that_cannot_be_joined_enforces_nothing_and_is_reported_missing() {
        let (folder, machine) = machine("own", "own", "memory pids");
        let control_groups = ControlGroups::join_at(&machine, LIMITS);
        assert_eq!(control_groups.enforced(), EnforcedLimits::default());
        let own = folder.path().join("own");
        assert!(
            control_groups.missing().contains(&own.display().to_string()),
            "{}",
            control_groups.missing()
        );
        assert_eq!(fs::read_dir(own).unwrap().count(), 1, "nothing is left");
    }

    #[test]
    fn memory_counts_as_limited_only_without_swap() {
        for (has_swap, counts_swap, limited) in
            [(true, true, true), (true, false, false), (false, false, true), (false, true, true)]
        {
            let (folder, machine) = machine("own", "own", "memory");
            let plan = group_plans(&machine, LIMITS).remove(0);
            // The files that the kernel creates in a new group.
            let created = folder.path().join("own/new");
            fs::create_dir(&created).unwrap();
            fs::write(created.join("memory.max"), "max").unwrap();
            if counts_swap {
                fs::write(created.join("memory.swap.max"), "max").unwrap();
            }
            write_limits(&created, &plan.limit_files).unwrap();
            assert_eq!(covers_all_memory(&created, has_swap), limited, "{has_swap} {counts_swap}");
            if counts_swap {
                assert_eq!(fs::read_to_string(created.join("memory.swap.max")).unwrap(), "0");
            }
        }
    }
}
