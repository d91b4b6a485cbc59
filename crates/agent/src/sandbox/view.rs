//! What a command under bubblewrap sees, in the order in which it is put there.
//!
//! The file system is made anew: what is not in the list does not exist. The command line of bubblewrap and the table
//! in `docs/sandbox.md` are both made from it. Look at [`view`]. It must never know how a mount is made.

use std::path::{Path, PathBuf};

use super::places::BWRAP_HOME;
use super::plan::SandboxPlan;
use super::stage;

/// Where the inner stage finds this program.
pub(crate) const HELPER: &str = "/run/recount/sandbox";

/// Where the kernel takes orders from any process that may write: shown, and not to be written.
pub(crate) const PROC_READ_ONLY: &[&str] = &[
    "/proc/acpi",
    "/proc/bus",
    "/proc/driver",
    "/proc/fs",
    "/proc/irq",
    "/proc/mtrr",
    "/proc/pressure",
    "/proc/scsi",
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/tty",
];

/// What the kernel tells of the whole machine and no program needs.
pub(crate) const PROC_HIDDEN: &[&str] = &[
    "/proc/config.gz",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/pagetypeinfo",
    "/proc/sched_debug",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/vmallocinfo",
];

/// One entry, and what a command can do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) what: What,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A symlink.
    Link(PathBuf),
    /// The same as outside, to be read.
    Read,
    /// The same as outside, to be read and written.
    Write,
    /// Nothing, where there would be a file.
    NoFile,
    /// Nothing, where there would be a folder.
    NoFolder,
    /// A folder of its own in memory that takes so many bytes.
    Memory(u64),
    /// A folder of its own in another one of its own.
    Folder,
    /// Terminals of its own, and the devices that every program may want.
    Devices,
    /// A device of its own, where the server is root and can make one.
    Device(&'static str),
    /// Its own processes.
    Processes,
    /// This program.
    Helper,
    /// From here on this takes no new files.
    Sealed,
}

/// The list of a plan. Later entries cover earlier ones. `exists` says of a path of this machine whether it is there,
/// and `own_devices` whether devices are made.
pub(crate) fn view(plan: &SandboxPlan, own_devices: bool, exists: &dyn Fn(&Path) -> bool) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut put =
        |path: &dyn AsRef<Path>, what: What| entries.push(Entry { path: path.as_ref().into(), what });
    for (link, target) in &plan.links {
        put(link, What::Link(target.clone()));
    }
    put(&"/tmp", What::Memory(plan.tmp_bytes));
    let mut mounts: Vec<(&PathBuf, What)> = plan.readable.iter().map(|path| (path, What::Read)).collect();
    mounts.extend(plan.hidden.iter().filter(|path| is_within_shown(path, plan)).map(|path| {
        let what = if path.is_dir() { What::NoFolder } else { What::NoFile };
        (path, what)
    }));
    mounts.push((&plan.workspace, What::Write));
    // What lies deeper comes later and so wins; the order of equals is the one above.
    mounts.sort_by_key(|(path, _)| path.components().count());
    let hidden: Vec<&PathBuf> =
        mounts.iter().filter(|(_, what)| *what == What::NoFolder).map(|(path, _)| *path).collect();
    for (path, what) in mounts.clone() {
        put(path, what);
    }
    for path in hidden {
        // Something below may have been mounted; only the folder itself stops taking files.
        put(path, What::Sealed);
    }
    put(&"/dev", What::Devices);
    if own_devices {
        for (name, ..) in stage::DEVICES {
            put(&Path::new("/dev").join(name), What::Device(name));
        }
    }
    put(&"/dev/shm", What::Memory(plan.tmp_bytes));
    put(&"/dev", What::Sealed);
    put(&"/proc", What::Processes);
    for path in PROC_READ_ONLY.iter().filter(|path| exists(Path::new(path))) {
        put(path, What::Read);
    }
    for path in PROC_HIDDEN.iter().filter(|path| exists(Path::new(path))) {
        put(path, What::NoFile);
    }
    put(&BWRAP_HOME, What::Folder);
    put(&HELPER, What::Helper);
    put(&"/", What::Sealed);
    entries
}

/// Whether a path would be seen if it were not hidden.
fn is_within_shown(path: &Path, plan: &SandboxPlan) -> bool {
    let within = |shown: &PathBuf| path != shown.as_path() && path.starts_with(shown);
    plan.readable.iter().any(within) || within(&plan.workspace)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::landlock::{self, Right};
    use super::super::places::{SECRETS, SYSTEM};
    use super::super::plan::{Layer, RoomPlan};
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sandbox.md");
    const BEGIN: &str = "<!-- view: made by crates/agent/src/sandbox/view.rs -->\n";
    const END: &str = "<!-- view end -->\n";

    fn plan() -> SandboxPlan {
        SandboxPlan {
            layer: Layer::Bwrap,
            argv: Vec::new(),
            cwd: "(the workspace)".into(),
            environment: Vec::new(),
            workspace: "(the workspace)".into(),
            readable: SYSTEM.iter().map(PathBuf::from).collect(),
            hidden: SECRETS.iter().map(PathBuf::from).collect(),
            granted: Vec::new(),
            links: Vec::new(),
            network: false,
            strict: false,
            memory_bytes: 0,
            memory_is_kept: false,
            processes: 0,
            file_bytes: 0,
            tmp_bytes: 0,
            room: RoomPlan { bytes: 0, entries: 0, in_place: false, known: None },
            helper: PathBuf::new(),
            bwrap: None,
        }
    }

    fn bubblewrap(what: &What) -> Option<&'static str> {
        Some(match what {
            // The same on every machine: `/bin` and others lead into `/usr`.
            What::Link(_) | What::Sealed => return None,
            What::Read => "the machine's, read-only",
            What::Write => "the machine's, read and write",
            What::NoFile | What::NoFolder => "empty",
            What::Memory(_) => "its own, in memory, read and write",
            What::Folder => "its own home, read and write",
            What::Devices => "its own `pts`, `ptmx`, and links to open files; takes no new files",
            What::Device(_) => "its own where the server is root, else the machine's",
            What::Processes => "its own processes",
            What::Helper => "this program, read-only",
        })
    }

    fn by_landlock(right: Right) -> &'static str {
        match right {
            Right::Read => "read and run",
            Right::Write => "read and write",
            Right::Use => "read and write",
            Right::List => "names only",
            Right::ReadData => "read",
        }
    }

    /// The page lists what the plans show, and nothing else.
    #[test]
    fn the_page_lists_what_a_command_sees() {
        let mut list = String::from("| path | under bubblewrap |\n| --- | --- |\n");
        for entry in view(&plan(), true, &|_| true) {
            if let Some(words) = bubblewrap(&entry.what) {
                writeln!(list, "| `{}` | {words} |", entry.path.display()).unwrap();
            }
        }
        list.push_str("\n| path and what is below it | with Landlock |\n| --- | --- |\n");
        for (path, right) in landlock::view(&plan(), Path::new("(its private folder)")) {
            writeln!(list, "| `{}` | {} |", path.display(), by_landlock(right)).unwrap();
        }
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page says where the list begins");
        let (there, after) = rest.split_once(END).expect("the page says where the list ends");
        if there != list && std::env::var_os("RECOUNT_BLESS").is_some() {
            std::fs::write(PAGE, format!("{before}{BEGIN}{list}{END}{after}")).unwrap();
            return;
        }
        assert_eq!(there, list, "the list is another; bless it with RECOUNT_BLESS=1");
    }
}
