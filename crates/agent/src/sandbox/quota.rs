//! Limits how much a command may write to its workspace, by polling.
//!
//! The kernel has no limit per folder. Each poll reads the free space of the disk and the bytes that the command has
//! written, which is cheap. Only when one of them reaches what the workspace had left, the workspace is measured, in
//! parallel with the command. A command that exceeds the limit is stopped. A command that starts in a full workspace
//! can delete but not write. Until a measurement completes, only the disk and the kernel's counters limit a command.
//! Start at [`WorkspaceQuota`]. The module must not depend on layers or on how a command is stopped.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use super::measure::{FolderMeasure, unlinked_bytes};
use super::plan::{DiskUsage, FullReason, QuotaPlan, WorkspaceUsage};
use super::tree::Tree;
use crate::sandbox::limits;

/// Tracks the disk usage of a command.
#[derive(Debug)]
pub(crate) struct WorkspaceQuota {
    folders: Vec<PathBuf>,
    disks: Vec<Disk>,
    /// The limit of the folders.
    limit: DiskUsage,
    /// Upper bound of their usage at the time of `disks` and `written_before`; `None` before the first measurement.
    usage: Option<DiskUsage>,
    /// An estimate from earlier commands, used until a measurement completes. If `first` is unknown, only what commands
    /// may have added in total.
    estimate: DiskUsage,
    /// The limit of the estimate.
    estimate_max: DiskUsage,
    /// Bytes that the command had written at that time, and until now.
    written_before: u64,
    written: u64,
    /// The baseline usage, if it does not count.
    first: Option<DiskUsage>,
    plan: QuotaPlan,
    measurement: Option<Measurement>,
    /// When the last measurement ended, and when the next may start.
    measured_at: Option<Instant>,
    next_measurement: Instant,
    at_start: Option<FullReason>,
    /// Whether the command was started.
    has_started: bool,
    waits: MeasureWaits,
}

/// How long a measurement may delay the start of a command or the report of its end.
#[derive(Debug, Clone, Copy)]
struct MeasureWaits {
    usual: Duration,
    /// Before a command whose workspace seems full by an estimate.
    in_doubt: Duration,
}

impl MeasureWaits {
    const USUAL: MeasureWaits = MeasureWaits {
        usual: limits::WORKSPACE_MEASURE_WAIT,
        in_doubt: limits::WORKSPACE_MEASURE_WAIT_IN_DOUBT,
    };
}

#[derive(Debug)]
struct Measurement {
    walk: FolderMeasure,
    started: Instant,
    /// The disks at the start of the measurement.
    disks: Vec<Disk>,
    /// Bytes that the command had written at that time.
    written: u64,
}

/// A disk that contains some of the folders.
#[derive(Debug, Clone)]
struct Disk {
    device: u64,
    folder: PathBuf,
    free: DiskUsage,
    /// Free bytes that commands must not use.
    reserve: u64,
    available: u64,
    /// The same for inodes; both are 0 if the file system does not count them.
    entries_reserve: u64,
    entries_available: u64,
    /// Whether it reports its size; some file systems do not.
    reports_size: bool,
}

impl Disk {
    fn of(folder: &Path) -> Option<Disk> {
        let device = folder.metadata().ok()?.dev();
        let about = rustix::fs::statvfs(folder).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(about.f_frsize);
        Some(Disk {
            device,
            folder: folder.to_owned(),
            // Computed from the inodes in use, because on some file systems (xfs) the number of free inodes shrinks
            // with free bytes.
            free: DiskUsage {
                bytes: bytes(about.f_bfree),
                entries: u64::MAX - about.f_files.saturating_sub(about.f_ffree),
            },
            reserve: limits::COMMAND_DISK_RESERVE_BYTES.min(bytes(about.f_blocks) / 50),
            available: bytes(about.f_bavail),
            entries_reserve: limits::COMMAND_DISK_RESERVE_ENTRIES.min(about.f_files / 50),
            entries_available: about.f_favail,
            reports_size: about.f_blocks > 0,
        })
    }

    /// Which reserve of the disk is used up.
    fn shortage(&self) -> Option<FullReason> {
        if self.available < self.reserve {
            Some(FullReason::Disk { left: self.available })
        } else if self.lacks_entries() {
            Some(FullReason::DiskEntries { left: self.entries_available })
        } else {
            None
        }
    }

    fn lacks_entries(&self) -> bool {
        self.entries_available < self.entries_reserve
    }

    /// Which reserve is used up now but was not before.
    fn shortage_since(&self, then: &Disk) -> Option<FullReason> {
        let entries = || self.lacks_entries() && !then.lacks_entries();
        match self.shortage() {
            Some(FullReason::Disk { .. }) if then.available < then.reserve => {
                entries().then_some(FullReason::DiskEntries { left: self.entries_available })
            }
            Some(FullReason::DiskEntries { .. }) if !entries() => None,
            shortage => shortage,
        }
    }

    fn refresh(&self) -> Disk {
        Disk::of(&self.folder).unwrap_or_else(|| self.clone())
    }
}

impl WorkspaceQuota {
    /// Creates the quota before a command starts. If the usage is unknown, measures the workspace for a limited time.
    pub(crate) fn start(workspace: &Path, plan: QuotaPlan) -> WorkspaceQuota {
        WorkspaceQuota::start_with(workspace, plan, MeasureWaits::USUAL)
    }

    fn start_with(workspace: &Path, plan: QuotaPlan, waits: MeasureWaits) -> WorkspaceQuota {
        let now = recount_world::moment();
        let mut quota = WorkspaceQuota {
            folders: vec![workspace.to_owned()],
            disks: Disk::of(workspace).into_iter().collect(),
            limit: DiskUsage { bytes: u64::MAX, entries: u64::MAX },
            usage: None,
            estimate: plan.known.map(|known| known.now).unwrap_or_default(),
            estimate_max: DiskUsage { bytes: plan.bytes, entries: plan.entries },
            written_before: written(&Tree::default()),
            written: 0,
            first: plan.known.and_then(|known| known.first),
            plan,
            measurement: None,
            measured_at: None,
            next_measurement: now,
            at_start: None,
            has_started: false,
            waits,
        };
        quota.written = quota.written_before;
        quota.set_limit();
        if let Some(known) = plan.known.filter(|known| known.first.is_some()) {
            let then = known.free;
            let since = quota.disks.first().map(|disk| then.minus(disk.free)).unwrap_or_default();
            quota.estimate = known.now.plus(since);
            quota.estimate_max = quota.limit;
            // Deleted files are still counted in the estimate, so it alone never proves that a workspace is full.
            let fits =
                known.is_fresh && all_report_size(&quota.disks) && quota.estimate.is_below(quota.limit);
            quota.usage = fits.then_some(quota.estimate);
            quota.measured_at = quota.usage.map(|_| now);
        }
        if quota.usage.is_none() {
            let seems_full = !quota.estimate.is_within(quota.estimate_max);
            quota.measure_until(now + if seems_full { waits.in_doubt } else { waits.usual });
        }
        let shortage = quota.disks.iter().find_map(Disk::shortage);
        quota.at_start =
            shortage.or_else(|| quota.used_up()).or_else(|| quota.exceeds_estimate(DiskUsage::default()));
        if quota.at_start.is_some() {
            match quota.usage {
                Some(usage) => quota.limit = usage.plus(DELETION_ALLOWANCE),
                // The command can write no bytes, so a growing disk usage comes from other processes.
                None => {
                    quota.estimate_max =
                        DiskUsage { bytes: u64::MAX, ..quota.estimate.plus(DELETION_ALLOWANCE) }
                }
            }
        }
        quota.has_started = true;
        quota
    }

    /// Why the command can delete but not write.
    pub(crate) fn full_at_start(&self) -> Option<FullReason> {
        self.at_start
    }

    /// Adds another folder that the command can write.
    pub(crate) fn add(&mut self, folder: &Path) {
        self.folders.push(folder.to_owned());
        if let Some(disk) = Disk::of(folder)
            && !self.disks.iter().any(|known| known.device == disk.device)
        {
            self.disks.push(disk);
        }
    }

    /// Whether a measurement is in progress, which the next poll continues.
    pub(crate) fn is_measuring(&self) -> bool {
        self.measurement.is_some()
    }

    /// Polls the usage of a command and its processes. Returns why the workspace is full.
    pub(crate) fn poll(&mut self, tree: &Tree) -> Option<FullReason> {
        self.written = self.written.max(written(tree));
        let disks: Vec<Disk> = self.disks.iter().map(Disk::refresh).collect();
        let mut pairs = disks.iter().zip(&self.disks);
        if let Some(shortage) = pairs.find_map(|(now, then)| now.shortage_since(then)) {
            return Some(shortage);
        }
        if let Some(full) = self.exceeds_estimate(self.growth(&disks)) {
            return Some(full);
        }
        let now = recount_world::moment();
        let is_due = match (self.usage, self.measured_at) {
            (Some(usage), Some(measured_at)) if all_report_size(&disks) => {
                let fits = usage.plus(self.growth(&disks)).is_within(self.limit);
                !fits || now.duration_since(measured_at) >= limits::WORKSPACE_MEASURE_EVERY
            }
            _ => true,
        };
        if self.measurement.is_none() && is_due && now >= self.next_measurement {
            self.measurement = Some(self.start_measurement(now, disks));
        }
        self.continue_measurement(tree)
    }

    /// Called after all processes of the command ended. Returns the usage, and why the workspace is full if that was
    /// measured.
    pub(crate) fn finish(mut self) -> (Option<WorkspaceUsage>, Option<FullReason>) {
        self.folders.truncate(1);
        self.disks.truncate(1);
        // The partial result may be outdated; it is used only if nothing else is known.
        let unfinished = self.measurement.take().filter(|_| self.usage.is_none());
        self.at_start = None;
        self.set_limit();
        let now: Vec<Disk> = self.disks.iter().map(Disk::refresh).collect();
        self.written = self.written.max(written(&Tree::default()));
        let growth = self.growth(&now);
        let estimate = self.usage.unwrap_or(self.estimate).plus(growth);
        let known = |first, usage, disks: &[Disk], is_fresh| {
            disks.first().map(|disk| WorkspaceUsage { first, now: usage, free: disk.free, is_fresh })
        };
        if self.usage.is_some() && estimate.is_within(self.limit) && all_report_size(&now) {
            return (known(self.first, estimate, &now, true), None);
        }
        let is_of_now = unfinished.is_none();
        self.measurement = unfinished;
        if self.measure_until(recount_world::moment() + self.waits.usual) {
            let full = self.exceeded().filter(|_| is_of_now);
            return (self.usage.and_then(|usage| known(self.first, usage, &self.disks, is_of_now)), full);
        }
        // Not measured completely: the usage is an upper bound, which is no proof that the workspace is full. The next
        // command measures for longer.
        (known(self.first, estimate, &now, false), None)
    }

    /// Sets the limit of the folders; in a user's own folder the baseline is added.
    fn set_limit(&mut self) {
        let limit = DiskUsage { bytes: self.plan.bytes, entries: self.plan.entries };
        self.limit = match (self.plan.in_place, self.first) {
            (false, _) => limit,
            (true, Some(first)) => first.plus(limit),
            // Until the baseline is known, `estimate_max` is the limit.
            (true, None) => DiskUsage { bytes: u64::MAX, entries: u64::MAX },
        };
    }

    /// Continues the current measurement or starts one. Returns whether it completed; otherwise it stays in progress.
    fn measure_until(&mut self, until: Instant) -> bool {
        let mut measurement = self.measurement.take().unwrap_or_else(|| {
            let disks = self.disks.iter().map(Disk::refresh).collect();
            self.start_measurement(recount_world::moment(), disks)
        });
        while !measurement.walk.step(limits::WORKSPACE_ENTRIES_AT_ONCE) {
            if recount_world::moment() >= until {
                self.measurement = Some(measurement);
                return false;
            }
        }
        self.finish_measurement(measurement, &Tree::default());
        true
    }

    fn start_measurement(&self, started: Instant, disks: Vec<Disk>) -> Measurement {
        Measurement { walk: FolderMeasure::of(self.folders.clone()), started, disks, written: self.written }
    }

    /// By how much the folders may have grown since they were measured. Other processes may free disk space, and
    /// overwritten bytes count again, so the larger value is used.
    fn growth(&self, now: &[Disk]) -> DiskUsage {
        let by_disk = growth(&self.disks, now);
        DiskUsage { bytes: by_disk.bytes.max(self.written.saturating_sub(self.written_before)), ..by_disk }
    }

    fn continue_measurement(&mut self, tree: &Tree) -> Option<FullReason> {
        let measurement = self.measurement.as_mut()?;
        let is_done = measurement.walk.step(limits::WORKSPACE_ENTRIES_AT_ONCE);
        let so_far = measurement.walk.usage();
        if !is_done && so_far.is_within(self.limit) {
            return None;
        }
        let measurement = self.measurement.take()?;
        if is_done {
            let (was, is_complete) = (self.usage, measurement.walk.is_complete());
            let growth = self.growth(&measurement.disks);
            self.finish_measurement(measurement, tree);
            // A folder that cannot be read, on a disk whose usage grew by more than the remaining space.
            if !is_complete && was.is_some_and(|was| !was.plus(growth).is_within(self.limit)) {
                return Some(FullReason::Unmeasured);
            }
        } else {
            self.usage = Some(so_far);
        }
        self.exceeded()
    }

    fn finish_measurement(&mut self, measurement: Measurement, tree: &Tree) {
        let Measurement { walk, started, disks, written } = measurement;
        let now = recount_world::moment();
        let devices: Vec<u64> = disks.iter().map(|disk| disk.device).collect();
        let unnamed = unlinked_bytes(tree, &devices);
        let usage = walk.usage().plus(DiskUsage { bytes: unnamed, entries: 0 });
        if self.first.is_none() {
            // Subtract what commands may have added. Before this command starts, only other processes fill the disk.
            let disks: Vec<Disk> = self.disks.iter().map(Disk::refresh).collect();
            let added = if self.has_started { self.growth(&disks) } else { DiskUsage::default() };
            self.first = Some(usage.minus(self.estimate.plus(added)));
            self.set_limit();
        }
        if self.usage.is_none() && self.at_start.is_some() {
            self.limit = usage.plus(DELETION_ALLOWANCE);
        }
        self.usage = Some(usage);
        self.measured_at = Some(now);
        // Measuring takes at most a fifth of the time.
        self.next_measurement = now + now.duration_since(started) * 4;
        self.written_before = written;
        // Disks that were added in the meantime stay.
        for disk in disks {
            match self.disks.iter_mut().find(|known| known.device == disk.device) {
                Some(known) => *known = disk,
                None => self.disks.push(disk),
            }
        }
    }

    /// Why the estimate with this growth exceeds the limit, if nothing was measured.
    fn exceeds_estimate(&self, growth: DiskUsage) -> Option<FullReason> {
        let may_hold = self.estimate.plus(growth);
        let is_beyond = self.usage.is_none() && !may_hold.is_within(self.estimate_max);
        is_beyond.then_some(FullReason::NotMeasured { grown: may_hold.bytes, most: self.estimate_max.bytes })
    }

    /// Why a command that starts now cannot write. A usage equal to the limit is allowed but leaves nothing: a command
    /// that was stopped because of other folders may have left it so.
    fn used_up(&self) -> Option<FullReason> {
        let usage = self.usage?;
        if usage.is_below(self.limit) {
            None
        } else if usage.bytes >= self.limit.bytes {
            Some(FullReason::Bytes { held: usage.bytes, most: self.limit.bytes })
        } else {
            Some(FullReason::Entries { most: self.limit.entries })
        }
    }

    /// Why the measured usage exceeds the limit.
    fn exceeded(&self) -> Option<FullReason> {
        let usage = self.usage?;
        if usage.bytes > self.limit.bytes {
            Some(FullReason::Bytes { held: usage.bytes, most: self.limit.bytes })
        } else if usage.entries > self.limit.entries {
            Some(FullReason::Entries { most: self.limit.entries })
        } else {
            None
        }
    }
}

/// Deleting needs some space on some file systems.
const DELETION_ALLOWANCE: DiskUsage =
    DiskUsage { bytes: limits::WORKSPACE_DELETING_BYTES, entries: limits::WORKSPACE_DELETING_ENTRIES };

/// Bytes that this process and the processes of a tree wrote to disks, including their ended children. Writes to file
/// systems in memory do not count.
fn written(tree: &Tree) -> u64 {
    let of = |pid: &str| {
        let counters = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let count = counters.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let members = tree.members.iter().map(|member| of(&member.pid.as_raw_nonzero().to_string()));
    members.fold(of("self"), u64::saturating_add)
}

/// Whether free disk space can replace a measurement.
fn all_report_size(disks: &[Disk]) -> bool {
    !disks.is_empty() && disks.iter().all(|disk| disk.reports_size)
}

/// By how much disk usage grew.
fn growth(then: &[Disk], now: &[Disk]) -> DiskUsage {
    let each = then.iter().filter_map(|then| {
        let now = now.iter().find(|now| now.device == then.device)?;
        Some(then.free.minus(now.free))
    });
    each.fold(DiskUsage::default(), DiskUsage::plus)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Time for one step only.
    const NONE: MeasureWaits = MeasureWaits { usual: Duration::ZERO, in_doubt: Duration::ZERO };

    const PATIENT: MeasureWaits =
        MeasureWaits { usual: Duration::from_secs(60), in_doubt: Duration::from_secs(60) };

    /// Large enough that other processes that fill the disk do not matter.
    const MUCH: u64 = 1 << 60;

    /// Needs several steps to measure.
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

    fn plan(bytes: u64, in_place: bool, known: Option<WorkspaceUsage>) -> QuotaPlan {
        QuotaPlan { bytes, entries: 1 << 20, in_place, known }
    }

    #[test]
    fn an_unmeasured_folder_is_limited_by_its_disk_over_several_commands() {
        for in_place in [true, false] {
            let folder = large();
            let mut known = None;
            for number in 0..3 {
                let quota = WorkspaceQuota::start_with(folder.path(), plan(MUCH, in_place, known), NONE);
                assert!(quota.usage.is_none() && quota.at_start.is_none(), "{number} {in_place}: {quota:?}");
                write(folder.path(), &format!("more{number}"), 2 * MIB);
                let (noted, full) = quota.finish();
                known = noted.map(|known| WorkspaceUsage { is_fresh: true, ..known });
                assert_eq!(full, None, "by an estimate, nothing is full");
            }
            assert!(known.is_some_and(|known| known.now.bytes >= 6 * MIB), "{known:?}");
            let quota = WorkspaceQuota::start_with(folder.path(), plan(5 * MIB, in_place, known), NONE);
            assert!(matches!(quota.at_start, Some(FullReason::NotMeasured { .. })), "{quota:?}");
            let mut quota = WorkspaceQuota::start_with(folder.path(), plan(MIB, in_place, None), NONE);
            assert_eq!(quota.at_start, None);
            write(folder.path(), "at last", 3 * MIB);
            assert!(
                matches!(quota.poll(&Tree::default()), Some(FullReason::NotMeasured { .. })),
                "{quota:?}"
            );
            assert_eq!(quota.finish().1, None, "by an estimate, nothing is full");
            // With enough time it is measured: a small copy is not full, and a user's own folder is not full because of
            // its baseline.
            let quota = WorkspaceQuota::start_with(folder.path(), plan(64 * MIB, in_place, known), PATIENT);
            assert!(quota.usage.is_some() && quota.at_start.is_none(), "{quota:?}");
        }
    }

    #[test]
    fn a_workspace_exactly_at_its_limit_is_full_for_the_next_command() {
        let (workspace, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut quota = WorkspaceQuota::start_with(workspace.path(), plan(2 * MIB, false, None), PATIENT);
        assert_eq!(quota.at_start, None);
        quota.add(other.path());
        write(workspace.path(), "a", 2 * MIB);
        write(other.path(), "b", 65_536);
        // The excess is in the other folder, which is deleted with the command.
        // Others may free space on the disk meanwhile; then it is noticed when it is measured again.
        let full = std::iter::repeat_with(|| quota.poll(&Tree::default())).find_map(|full| full);
        assert!(matches!(full, Some(FullReason::Bytes { .. })), "{quota:?}");
        let (known, full) = quota.finish();
        assert_eq!(full, None);
        assert_eq!(known.unwrap().now.bytes, 2 * MIB);
        let quota = WorkspaceQuota::start_with(workspace.path(), plan(2 * MIB, false, known), PATIENT);
        assert!(matches!(quota.at_start, Some(FullReason::Bytes { .. })), "{quota:?}");
    }

    /// A command that only deletes ends with an estimate, which counts the deleted files.
    #[test]
    fn an_emptied_workspace_is_measured_before_it_counts_as_full() {
        let workspace = tempfile::tempdir().unwrap();
        let limit = DiskUsage { bytes: 2 * MIB, entries: 1 << 20 };
        for now in [limit, DiskUsage { bytes: 0, ..limit }] {
            let free = Disk::of(workspace.path()).unwrap().free;
            let known = WorkspaceUsage { first: Some(DiskUsage::default()), now, free, is_fresh: true };
            let quota =
                WorkspaceQuota::start_with(workspace.path(), plan(limit.bytes, false, Some(known)), PATIENT);
            assert_eq!(quota.at_start, None, "{quota:?}");
        }
    }

    #[test]
    fn writes_of_others_during_the_first_measurement_belong_to_the_baseline() {
        let folder = large();
        let mut quota = WorkspaceQuota::start_with(folder.path(), plan(MUCH, true, None), NONE);
        quota.has_started = false;
        let other = tempfile::tempdir().unwrap();
        write(other.path(), "others", 4 * MIB);
        assert!(quota.measure_until(recount_world::moment() + PATIENT.usual));
        assert_eq!(quota.first, quota.usage);
    }

    #[test]
    fn writes_of_the_command_during_the_first_measurement_do_not_belong_to_the_baseline() {
        let folder = large();
        let before =
            WorkspaceQuota::start_with(folder.path(), plan(MUCH, true, None), PATIENT).first.unwrap();
        let mut quota = WorkspaceQuota::start_with(folder.path(), plan(MUCH, true, None), NONE);
        write(folder.path(), "more", 4 * MIB);
        while quota.usage.is_none() {
            assert_eq!(quota.poll(&Tree::default()), None);
        }
        assert!(quota.first.unwrap().bytes <= before.bytes + MIB, "{:?} {before:?}", quota.first);
        let first = quota.finish().0.unwrap().first.unwrap();
        assert!(first.bytes <= before.bytes + MIB, "{first:?} {before:?}");
    }

    #[test]
    fn a_disk_lacks_bytes_or_entries_but_never_entries_that_it_does_not_count() {
        let disk = Disk {
            device: 1,
            folder: PathBuf::new(),
            free: DiskUsage::default(),
            reserve: 10,
            available: 10,
            entries_reserve: 20,
            entries_available: 20,
            reports_size: true,
        };
        assert_eq!(disk.shortage(), None);
        let few = Disk { entries_available: 19, ..disk.clone() };
        assert_eq!(few.shortage(), Some(FullReason::DiskEntries { left: 19 }));
        assert_eq!((few.shortage_since(&disk), few.shortage_since(&few)), (few.shortage(), None));
        let uncounted = Disk { entries_reserve: 0, entries_available: 0, ..disk.clone() };
        assert_eq!(uncounted.shortage(), None);
        let both = Disk { available: 9, ..few.clone() };
        assert_eq!(both.shortage_since(&disk), Some(FullReason::Disk { left: 9 }));
        assert_eq!(both.shortage_since(&few), Some(FullReason::Disk { left: 9 }));
        let bytes = Disk { available: 9, ..disk };
        assert_eq!(both.shortage_since(&bytes), Some(FullReason::DiskEntries { left: 19 }));
        assert_eq!(both.shortage_since(&both), None);
    }
}
