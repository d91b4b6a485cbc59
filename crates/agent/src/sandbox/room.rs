//! How much a command may write into its workspace, and the watch over it.
//!
//! The kernel has no bound for a folder. So at every look the disk is asked how much is left, and the kernel how much the
//! command has written, which costs little: only when one of them comes to what the workspace had left is that measured,
//! beside the command. What is found beyond the bound stops the command; a command that begins in a full workspace may
//! remove and not write. Until a measurement ends, a command is bounded by what the disk and the kernel tell alone.
//! Look at [`Room`]. It must never know layers, or how a command is stopped.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::measure::{FolderMeasure, without_names};
use super::plan::{Full, Held, RoomPlan, WorkspaceUsage};
use super::tree::Tree;
use crate::sandbox::limits;

/// The watch over a command's writing.
#[derive(Debug)]
pub(crate) struct Room {
    folders: Vec<PathBuf>,
    disks: Vec<Disk>,
    /// What the folders may hold.
    most: Held,
    /// What they held when disks and writing were last noted, at most; `None` before the first measurement.
    held: Option<Held>,
    /// The same by what earlier commands left, until a measurement ends. Where `first` is unknown, only what commands may
    /// have added, across all of them.
    guess: Held,
    /// What that may come to.
    guess_most: Held,
    /// What the command had written then, and by now.
    written_then: u64,
    written: u64,
    /// What was there at first, where that is not counted.
    first: Option<Held>,
    plan: RoomPlan,
    walk: Option<Measuring>,
    /// When the last measurement ended, and when the next may begin.
    walked: Option<Instant>,
    next: Instant,
    at_start: Option<Full>,
    /// The command may write by now.
    has_started: bool,
    waits: Waits,
}

/// How long a measurement may keep a command from beginning or its end from being reported.
#[derive(Debug, Clone, Copy)]
struct Waits {
    usual: Duration,
    /// Before a command whose workspace seems full and was never measured since.
    in_doubt: Duration,
}

impl Waits {
    const USUAL: Waits =
        Waits { usual: limits::WORKSPACE_MEASURE_WAIT, in_doubt: limits::WORKSPACE_MEASURE_WAIT_IN_DOUBT };
}

#[derive(Debug)]
struct Measuring {
    walk: FolderMeasure,
    began: Instant,
    /// What the disks had when it began.
    disks: Vec<Disk>,
    /// What the command had written then.
    written: u64,
}

/// A disk that some of the folders are on.
#[derive(Debug, Clone)]
struct Disk {
    device: u64,
    folder: PathBuf,
    free: Held,
    /// What commands leave to others.
    reserve: u64,
    available: u64,
    /// The same of files and folders; both 0 where a file system makes as many as there is room for.
    entries_reserve: u64,
    entries_available: u64,
    /// Whether it says how large it is; some file systems say nothing.
    says: bool,
}

impl Disk {
    fn of(folder: &Path) -> Option<Disk> {
        let device = folder.metadata().ok()?.dev();
        let about = rustix::fs::statvfs(folder).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(about.f_frsize);
        Some(Disk {
            device,
            folder: folder.to_owned(),
            // By those in use: how many more there may be shrinks with free bytes on some file systems (xfs).
            free: Held {
                bytes: bytes(about.f_bfree),
                entries: u64::MAX - about.f_files.saturating_sub(about.f_ffree),
            },
            reserve: limits::COMMAND_DISK_RESERVE_BYTES.min(bytes(about.f_blocks) / 50),
            available: bytes(about.f_bavail),
            entries_reserve: limits::COMMAND_DISK_RESERVE_ENTRIES.min(about.f_files / 50),
            entries_available: about.f_favail,
            says: about.f_blocks > 0,
        })
    }

    /// What it has less of than commands leave to others.
    fn short(&self) -> Option<Full> {
        if self.available < self.reserve {
            Some(Full::Disk { left: self.available })
        } else if self.is_short_of_entries() {
            Some(Full::DiskEntries { left: self.entries_available })
        } else {
            None
        }
    }

    fn is_short_of_entries(&self) -> bool {
        self.entries_available < self.entries_reserve
    }

    /// The same, where it was not so then.
    fn short_since(&self, then: &Disk) -> Option<Full> {
        let entries = || self.is_short_of_entries() && !then.is_short_of_entries();
        match self.short() {
            Some(Full::Disk { .. }) if then.available < then.reserve => {
                entries().then_some(Full::DiskEntries { left: self.entries_available })
            }
            Some(Full::DiskEntries { .. }) if !entries() => None,
            short => short,
        }
    }

    fn again(&self) -> Disk {
        Disk::of(&self.folder).unwrap_or_else(|| self.clone())
    }
}

impl Room {
    /// Before a command begins. Measures the workspace where nothing is known of it, for a while at most.
    pub(crate) fn begin(workspace: &Path, plan: RoomPlan) -> Room {
        Room::begin_within(workspace, plan, Waits::USUAL)
    }

    fn begin_within(workspace: &Path, plan: RoomPlan, waits: Waits) -> Room {
        let now = recount_world::moment();
        let mut room = Room {
            folders: vec![workspace.to_owned()],
            disks: Disk::of(workspace).into_iter().collect(),
            most: Held { bytes: u64::MAX, entries: u64::MAX },
            held: None,
            guess: plan.known.map(|known| known.now).unwrap_or_default(),
            guess_most: Held { bytes: plan.bytes, entries: plan.entries },
            written_then: written(&Tree::default()),
            written: 0,
            first: plan.known.and_then(|known| known.first),
            plan,
            walk: None,
            walked: None,
            next: now,
            at_start: None,
            has_started: false,
            waits,
        };
        room.written = room.written_then;
        room.settle();
        if let Some(known) = plan.known.filter(|known| known.first.is_some()) {
            let then = known.free;
            let since = room.disks.first().map(|disk| then.less(disk.free)).unwrap_or_default();
            room.guess = known.now.and(since);
            room.guess_most = room.most;
            // What was removed is still counted in it, so by itself it never shows that a workspace is full.
            let fits = known.is_fresh && all_say(&room.disks) && room.guess.leaves_something_of(room.most);
            room.held = fits.then_some(room.guess);
            room.walked = room.held.map(|_| now);
        }
        if room.held.is_none() {
            let seems_full = !room.guess.is_within(room.guess_most);
            room.measure_until(now + if seems_full { waits.in_doubt } else { waits.usual });
        }
        let short = room.disks.iter().find_map(Disk::short);
        room.at_start = short.or_else(|| room.used_up()).or_else(|| room.beyond_guess(Held::default()));
        if room.at_start.is_some() {
            match room.held {
                Some(held) => room.most = held.and(REMOVING),
                // It writes no bytes, so what fills the disk meanwhile are others.
                None => room.guess_most = Held { bytes: u64::MAX, ..room.guess.and(REMOVING) },
            }
        }
        room.has_started = true;
        room
    }

    /// Why the command may remove and not write.
    pub(crate) fn full_at_start(&self) -> Option<Full> {
        self.at_start
    }

    /// A folder that the command writes, too.
    pub(crate) fn add(&mut self, folder: &Path) {
        self.folders.push(folder.to_owned());
        if let Some(disk) = Disk::of(folder)
            && !self.disks.iter().any(|known| known.device == disk.device)
        {
            self.disks.push(disk);
        }
    }

    /// Whether a measurement is on its way, which the next look goes on with.
    pub(crate) fn is_measuring(&self) -> bool {
        self.walk.is_some()
    }

    /// Looks once, at a command and its processes. Answers why it has no more room.
    pub(crate) fn look(&mut self, tree: &Tree) -> Option<Full> {
        self.written = self.written.max(written(tree));
        let disks: Vec<Disk> = self.disks.iter().map(Disk::again).collect();
        let mut pairs = disks.iter().zip(&self.disks);
        if let Some(short) = pairs.find_map(|(now, then)| now.short_since(then)) {
            return Some(short);
        }
        if let Some(full) = self.beyond_guess(self.grown(&disks)) {
            return Some(full);
        }
        let now = recount_world::moment();
        let is_due = match (self.held, self.walked) {
            (Some(held), Some(walked)) if all_say(&disks) => {
                let fits = held.and(self.grown(&disks)).is_within(self.most);
                !fits || now.duration_since(walked) >= limits::WORKSPACE_MEASURE_EVERY
            }
            _ => true,
        };
        if self.walk.is_none() && is_due && now >= self.next {
            self.walk = Some(self.measuring(now, disks));
        }
        self.step(tree)
    }

    /// When nothing of the command is left: what stays, and why the next one has no room, where that was measured.
    pub(crate) fn end(mut self) -> (Option<WorkspaceUsage>, Option<Full>) {
        self.folders.truncate(1);
        self.disks.truncate(1);
        // What it counted may be gone by now, unless nothing else is known.
        let unfinished = self.walk.take().filter(|_| self.held.is_none());
        self.at_start = None;
        self.settle();
        let now: Vec<Disk> = self.disks.iter().map(Disk::again).collect();
        self.written = self.written.max(written(&Tree::default()));
        let grown = self.grown(&now);
        let estimate = self.held.unwrap_or(self.guess).and(grown);
        let known = |first, held, disks: &[Disk], is_fresh| {
            disks.first().map(|disk| WorkspaceUsage { first, now: held, free: disk.free, is_fresh })
        };
        if self.held.is_some() && estimate.is_within(self.most) && all_say(&now) {
            return (known(self.first, estimate, &now, true), None);
        }
        let is_of_now = unfinished.is_none();
        self.walk = unfinished;
        if self.measure_until(recount_world::moment() + self.waits.usual) {
            let full = self.beyond().filter(|_| is_of_now);
            return (self.held.and_then(|held| known(self.first, held, &self.disks, is_of_now)), full);
        }
        // Not measured to the end: what it may be at most. That is no reason to call it full; the next command has it
        // measured for longer.
        (known(self.first, estimate, &now, false), None)
    }

    /// What the folders may hold: beside what was there at first, where that is a person's own.
    fn settle(&mut self) {
        let most = Held { bytes: self.plan.bytes, entries: self.plan.entries };
        self.most = match (self.plan.in_place, self.first) {
            (false, _) => most,
            (true, Some(first)) => first.and(most),
            // Until that is known, `guess_most` bounds.
            (true, None) => Held { bytes: u64::MAX, entries: u64::MAX },
        };
    }

    /// Goes on with the measurement that is on its way, or begins one. Answers whether it came to its end; if not, it is
    /// still on its way.
    fn measure_until(&mut self, until: Instant) -> bool {
        let mut measuring = self.walk.take().unwrap_or_else(|| {
            let disks = self.disks.iter().map(Disk::again).collect();
            self.measuring(recount_world::moment(), disks)
        });
        while !measuring.walk.step(limits::WORKSPACE_ENTRIES_AT_ONCE) {
            if recount_world::moment() >= until {
                self.walk = Some(measuring);
                return false;
            }
        }
        self.measured(measuring, &Tree::default());
        true
    }

    fn measuring(&self, began: Instant, disks: Vec<Disk>) -> Measuring {
        Measuring { walk: FolderMeasure::of(self.folders.clone()), began, disks, written: self.written }
    }

    /// By how much the folders may have grown since they were measured: others make room on a disk, too, and what is
    /// written over counts again.
    fn grown(&self, now: &[Disk]) -> Held {
        let by_disk = grown(&self.disks, now);
        Held { bytes: by_disk.bytes.max(self.written.saturating_sub(self.written_then)), ..by_disk }
    }

    fn step(&mut self, tree: &Tree) -> Option<Full> {
        let measuring = self.walk.as_mut()?;
        let is_done = measuring.walk.step(limits::WORKSPACE_ENTRIES_AT_ONCE);
        let so_far = measuring.walk.held();
        if !is_done && so_far.is_within(self.most) {
            return None;
        }
        let measuring = self.walk.take()?;
        if is_done {
            let (was, is_whole) = (self.held, measuring.walk.is_whole());
            let grown = self.grown(&measuring.disks);
            self.measured(measuring, tree);
            // A folder that cannot be looked into, on a disk that got fuller by more than was left.
            if !is_whole && was.is_some_and(|was| !was.and(grown).is_within(self.most)) {
                return Some(Full::Unmeasured);
            }
        } else {
            self.held = Some(so_far);
        }
        self.beyond()
    }

    fn measured(&mut self, measuring: Measuring, tree: &Tree) {
        let Measuring { walk, began, disks, written } = measuring;
        let now = recount_world::moment();
        let devices: Vec<u64> = disks.iter().map(|disk| disk.device).collect();
        let unnamed = without_names(tree, &devices);
        let held = walk.held().and(Held { bytes: unnamed, entries: 0 });
        if self.first.is_none() {
            // What commands may have added by now was not there at first. Before this one starts, others fill the disk.
            let disks: Vec<Disk> = self.disks.iter().map(Disk::again).collect();
            let added = if self.has_started { self.grown(&disks) } else { Held::default() };
            self.first = Some(held.less(self.guess.and(added)));
            self.settle();
        }
        if self.held.is_none() && self.at_start.is_some() {
            self.most = held.and(REMOVING);
        }
        self.held = Some(held);
        self.walked = Some(now);
        // Measuring takes a fifth of the time at most.
        self.next = now + now.duration_since(began) * 4;
        self.written_then = written;
        // One that came to be known since then stays.
        for disk in disks {
            match self.disks.iter_mut().find(|known| known.device == disk.device) {
                Some(known) => *known = disk,
                None => self.disks.push(disk),
            }
        }
    }

    /// Why it is too much that may be held, where nothing was measured and the folders may have grown by this.
    fn beyond_guess(&self, grown: Held) -> Option<Full> {
        let may_hold = self.guess.and(grown);
        let is_beyond = self.held.is_none() && !may_hold.is_within(self.guess_most);
        is_beyond.then_some(Full::NotMeasured { grown: may_hold.bytes, most: self.guess_most.bytes })
    }

    /// Why a command that begins now has nothing left to write. Exactly the limit is within it and leaves nothing: a
    /// command that was stopped for what it had in other folders may leave that.
    fn used_up(&self) -> Option<Full> {
        let held = self.held?;
        if held.leaves_something_of(self.most) {
            None
        } else if held.bytes >= self.most.bytes {
            Some(Full::Bytes { held: held.bytes, most: self.most.bytes })
        } else {
            Some(Full::Entries { most: self.most.entries })
        }
    }

    /// Why what is held is too much.
    fn beyond(&self) -> Option<Full> {
        let held = self.held?;
        if held.bytes > self.most.bytes {
            Some(Full::Bytes { held: held.bytes, most: self.most.bytes })
        } else if held.entries > self.most.entries {
            Some(Full::Entries { most: self.most.entries })
        } else {
            None
        }
    }
}

/// To remove takes a little room on some file systems.
const REMOVING: Held =
    Held { bytes: limits::WORKSPACE_REMOVING_BYTES, entries: limits::WORKSPACE_REMOVING_ENTRIES };

/// Bytes that this process and those of a tree wrote to disks, with all that they started and buried; of a file system in
/// memory nothing is told.
fn written(tree: &Tree) -> u64 {
    let of = |pid: &str| {
        let told = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let count = told.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let members = tree.members.iter().map(|member| of(&member.pid.as_raw_nonzero().to_string()));
    members.fold(of("self"), u64::saturating_add)
}

/// Whether disks can be asked instead of measuring what is on them.
fn all_say(disks: &[Disk]) -> bool {
    !disks.is_empty() && disks.iter().all(|disk| disk.says)
}

/// By how much disks got fuller.
fn grown(then: &[Disk], now: &[Disk]) -> Held {
    let each = then.iter().filter_map(|then| {
        let now = now.iter().find(|now| now.device == then.device)?;
        Some(then.free.less(now.free))
    });
    each.fold(Held::default(), Held::and)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// No time for more than a first piece of it.
    const NONE: Waits = Waits { usual: Duration::ZERO, in_doubt: Duration::ZERO };

    const PATIENT: Waits = Waits { usual: Duration::from_secs(60), in_doubt: Duration::from_secs(60) };

    /// So much that others who fill the disk meanwhile do not matter.
    const MUCH: u64 = 1 << 60;

    /// More than is measured at once several times over.
    fn large() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..3 * limits::WORKSPACE_ENTRIES_AT_ONCE {
            std::fs::File::create(folder.path().join(number.to_string())).unwrap();
        }
        folder
    }

    fn write(folder: &Path, name: &str, bytes: u64) {
        let mut file = std::fs::File::create(folder.join(name)).unwrap();
        file.write_all(&vec![1; usize::try_from(bytes).unwrap()]).unwrap();
        file.sync_all().unwrap();
    }

    fn plan(bytes: u64, in_place: bool, known: Option<WorkspaceUsage>) -> RoomPlan {
        RoomPlan { bytes, entries: 1 << 20, in_place, known }
    }

    #[test]
    fn a_folder_that_is_never_measured_is_bounded_by_its_disk_over_several_commands() {
        for in_place in [true, false] {
            let folder = large();
            let mut known = None;
            for number in 0..3 {
                let room = Room::begin_within(folder.path(), plan(MUCH, in_place, known), NONE);
                assert!(room.held.is_none() && room.at_start.is_none(), "{number} {in_place}: {room:?}");
                write(folder.path(), &format!("more{number}"), 2 * MIB);
                let (noted, full) = room.end();
                known = noted.map(|known| WorkspaceUsage { is_fresh: true, ..known });
                assert_eq!(full, None, "by an estimate, nothing is full");
            }
            assert!(known.is_some_and(|known| known.now.bytes >= 6 * MIB), "{known:?}");
            let room = Room::begin_within(folder.path(), plan(5 * MIB, in_place, known), NONE);
            assert!(matches!(room.at_start, Some(Full::NotMeasured { .. })), "{room:?}");
            let mut room = Room::begin_within(folder.path(), plan(MIB, in_place, None), NONE);
            assert_eq!(room.at_start, None);
            write(folder.path(), "at last", 3 * MIB);
            assert!(matches!(room.look(&Tree::default()), Some(Full::NotMeasured { .. })), "{room:?}");
            assert_eq!(room.end().1, None, "by an estimate, nothing is full");
            // With some time it is measured: a small copy is not full, and a folder of one's own not by what was there.
            let room = Room::begin_within(folder.path(), plan(64 * MIB, in_place, known), PATIENT);
            assert!(room.held.is_some() && room.at_start.is_none(), "{room:?}");
        }
    }

    #[test]
    fn a_workspace_that_holds_exactly_its_limit_has_nothing_left_for_the_next_command() {
        let (workspace, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut room = Room::begin_within(workspace.path(), plan(2 * MIB, false, None), PATIENT);
        assert_eq!(room.at_start, None);
        room.add(other.path());
        write(workspace.path(), "a", 2 * MIB);
        write(other.path(), "b", 65_536);
        // What tips the scale is in the other folder, which goes with the command.
        assert!(matches!(room.look(&Tree::default()), Some(Full::Bytes { .. })), "{room:?}");
        let (known, full) = room.end();
        assert_eq!(full, None);
        assert_eq!(known.unwrap().now.bytes, 2 * MIB);
        let room = Room::begin_within(workspace.path(), plan(2 * MIB, false, known), PATIENT);
        assert!(matches!(room.at_start, Some(Full::Bytes { .. })), "{room:?}");
    }

    /// A command that only removes ends by an estimate, which counts what it removed.
    #[test]
    fn a_workspace_that_was_emptied_is_measured_before_it_is_called_full() {
        let workspace = tempfile::tempdir().unwrap();
        let most = Held { bytes: 2 * MIB, entries: 1 << 20 };
        for now in [most, Held { bytes: 0, ..most }] {
            let free = Disk::of(workspace.path()).unwrap().free;
            let known = WorkspaceUsage { first: Some(Held::default()), now, free, is_fresh: true };
            let room = Room::begin_within(workspace.path(), plan(most.bytes, false, Some(known)), PATIENT);
            assert_eq!(room.at_start, None, "{room:?}");
        }
    }

    #[test]
    fn what_others_write_while_it_is_measured_before_a_command_was_there_at_first() {
        let folder = large();
        let mut room = Room::begin_within(folder.path(), plan(MUCH, true, None), NONE);
        room.has_started = false;
        let other = tempfile::tempdir().unwrap();
        write(other.path(), "others", 4 * MIB);
        assert!(room.measure_until(recount_world::moment() + PATIENT.usual));
        assert_eq!(room.first, room.held);
    }

    #[test]
    fn what_a_command_writes_while_it_is_measured_was_not_there_at_first() {
        let folder = large();
        let before = Room::begin_within(folder.path(), plan(MUCH, true, None), PATIENT).first.unwrap();
        let mut room = Room::begin_within(folder.path(), plan(MUCH, true, None), NONE);
        write(folder.path(), "more", 4 * MIB);
        while room.held.is_none() {
            assert_eq!(room.look(&Tree::default()), None);
        }
        assert!(room.first.unwrap().bytes <= before.bytes + MIB, "{:?} {before:?}", room.first);
        let first = room.end().0.unwrap().first.unwrap();
        assert!(first.bytes <= before.bytes + MIB, "{first:?} {before:?}");
    }

    #[test]
    fn a_disk_is_short_of_bytes_or_of_entries_and_of_none_where_it_does_not_count_them() {
        let disk = Disk {
            device: 1,
            folder: PathBuf::new(),
            free: Held::default(),
            reserve: 10,
            available: 10,
            entries_reserve: 20,
            entries_available: 20,
            says: true,
        };
        assert_eq!(disk.short(), None);
        let few = Disk { entries_available: 19, ..disk.clone() };
        assert_eq!(few.short(), Some(Full::DiskEntries { left: 19 }));
        assert_eq!((few.short_since(&disk), few.short_since(&few)), (few.short(), None));
        let uncounted = Disk { entries_reserve: 0, entries_available: 0, ..disk.clone() };
        assert_eq!(uncounted.short(), None);
        let both = Disk { available: 9, ..few.clone() };
        assert_eq!(both.short_since(&disk), Some(Full::Disk { left: 9 }));
        assert_eq!(both.short_since(&few), Some(Full::Disk { left: 9 }));
        let bytes = Disk { available: 9, ..disk };
        assert_eq!(both.short_since(&bytes), Some(Full::DiskEntries { left: 19 }));
        assert_eq!(both.short_since(&both), None);
    }
}
