//! Lists what a command under bubblewrap sees, in mount order.
//!
//! The file system starts empty: a path that is not listed does not exist. The command line of bubblewrap and the table
//! in `docs/sandbox.md` are generated from the list. Start at [`view`]. The module must not depend on how mounts are
//! created.

use std::path::{Path, PathBuf};

use super::host_paths::BWRAP_HOME;
use super::plan::SandboxPlan;
use super::stage;

/// The path of this program inside the sandbox.
pub(crate) const HELPER: &str = "/run/recount/sandbox";

/// Kernel interfaces that any process with write access could use: readable only.
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

/// Information about the whole machine that programs do not need.
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

/// One path of the sandbox, and what is mounted there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ViewEntry {
    pub(crate) path: PathBuf,
    pub(crate) kind: MountKind,
}

/// What is mounted at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MountKind {
    /// A symlink.
    Link(PathBuf),
    /// The path of the machine, read-only.
    Read,
    /// The path of the machine, writable.
    Write,
    /// An empty file that hides a file.
    NoFile,
    /// An empty folder that hides a folder.
    NoFolder,
    /// A private folder in memory with this size in bytes.
    Memory(u64),
    /// A new folder inside a private folder.
    Folder,
    /// Private terminals, and devices that programs commonly need.
    Devices,
    /// A new device node, if the server is root and can create one.
    Device(&'static str),
    /// `/proc` with the processes of the sandbox.
    Processes,
    /// This program.
    Helper,
    /// The mount becomes read-only.
    Sealed,
}

/// Lists the mounts of a plan. Later entries cover earlier ones. `exists` tests a path of this machine; `own_devices`
/// adds new device nodes.
pub(crate) fn view(plan: &SandboxPlan, own_devices: bool, exists: &dyn Fn(&Path) -> bool) -> Vec<ViewEntry> {
    let mut entries = Vec::new();
    let mut add = |path: &dyn AsRef<Path>, kind: MountKind| {
        entries.push(ViewEntry { path: path.as_ref().into(), kind })
    };
    for (link, target) in &plan.links {
        add(link, MountKind::Link(target.clone()));
    }
    add(&"/tmp", MountKind::Memory(plan.tmp_bytes));
    let mut mounts: Vec<(&PathBuf, MountKind)> =
        plan.readable.iter().map(|path| (path, MountKind::Read)).collect();
    mounts.extend(plan.hidden.iter().filter(|path| is_within_shown(path, plan)).map(|path| {
        let kind = if path.is_dir() { MountKind::NoFolder } else { MountKind::NoFile };
        (path, kind)
    }));
    mounts.push((&plan.workspace, MountKind::Write));
    // Deeper paths come later and therefore win. Paths of the same depth keep the order above.
    mounts.sort_by_key(|(path, _)| path.components().count());
    let hidden: Vec<&PathBuf> =
        mounts.iter().filter(|(_, kind)| *kind == MountKind::NoFolder).map(|(path, _)| *path).collect();
    for (path, kind) in mounts.clone() {
        add(path, kind);
    }
    for path in hidden {
        // Other paths may be mounted below; only the folder itself becomes read-only.
        add(path, MountKind::Sealed);
    }
    add(&"/dev", MountKind::Devices);
    if own_devices {
        for (name, ..) in stage::DEVICES {
            add(&Path::new("/dev").join(name), MountKind::Device(name));
        }
    }
    add(&"/dev/shm", MountKind::Memory(plan.tmp_bytes));
    add(&"/dev", MountKind::Sealed);
    add(&"/proc", MountKind::Processes);
    for path in PROC_READ_ONLY.iter().filter(|path| exists(Path::new(path))) {
        add(path, MountKind::Read);
    }
    for path in PROC_HIDDEN.iter().filter(|path| exists(Path::new(path))) {
        add(path, MountKind::NoFile);
    }
    add(&BWRAP_HOME, MountKind::Folder);
    add(&HELPER, MountKind::Helper);
    add(&"/", MountKind::Sealed);
    entries
}

/// Whether a path would be visible if it were not hidden.
fn is_within_shown(path: &Path, plan: &SandboxPlan) -> bool {
    let within = |shown: &PathBuf| path != shown.as_path() && path.starts_with(shown);
    plan.readable.iter().any(within) || within(&plan.workspace)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::host_paths::{SECRETS, SYSTEM};
    use super::super::landlock::{self, AccessRight};
    use super::super::plan::{Layer, QuotaPlan};
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
            room: QuotaPlan { bytes: 0, entries: 0, in_place: false, known: None },
            helper: PathBuf::new(),
            bwrap: None,
        }
    }

    fn bubblewrap(kind: &MountKind) -> Option<&'static str> {
        Some(match kind {
            // Omitted: `/bin` and others lead into `/usr` on every machine.
            MountKind::Link(_) | MountKind::Sealed => return None,
            MountKind::Read => "the machine's, read-only",
            MountKind::Write => "the machine's, read and write",
            MountKind::NoFile | MountKind::NoFolder => "empty",
            MountKind::Memory(_) => "its own, in memory, read and write",
            MountKind::Folder => "its own home, read and write",
            MountKind::Devices => "its own `pts`, `ptmx`, and links to open files; takes no new files",
            MountKind::Device(_) => "its own where the server is root, else the machine's",
            MountKind::Processes => "its own processes",
            MountKind::Helper => "this program, read-only",
        })
    }

    fn by_landlock(right: AccessRight) -> &'static str {
        match right {
            AccessRight::Read => "read and run",
            AccessRight::Write => "read and write",
            AccessRight::Use => "read and write",
            AccessRight::List => "names only",
            AccessRight::ReadData => "read",
        }
    }

    /// The page lists exactly what the plans show.
    #[test]
    fn the_page_lists_what_a_command_sees() {
        let mut list = String::from("| path | under bubblewrap |\n| --- | --- |\n");
        for entry in view(&plan(), true, &|_| true) {
            if let Some(text) = bubblewrap(&entry.kind) {
                writeln!(list, "| `{}` | {text} |", entry.path.display()).unwrap();
            }
        }
        list.push_str("\n| path and what is below it | with Landlock |\n| --- | --- |\n");
        for (path, right) in landlock::view(&plan(), Path::new("(its private folder)")) {
            writeln!(list, "| `{}` | {} |", path.display(), by_landlock(right)).unwrap();
        }
        let page = std::fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the page has a mark before the list");
        let (listed, after) = rest.split_once(END).expect("the page has a mark after the list");
        if listed != list && std::env::var_os("RECOUNT_BLESS").is_some() {
            std::fs::write(PAGE, format!("{before}{BEGIN}{list}{END}{after}")).unwrap();
            return;
        }
        assert_eq!(listed, list, "the list is another; bless it with RECOUNT_BLESS=1");
    }
}
